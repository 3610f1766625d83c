//! The hub in one worker: what it remembers, and which event it takes how.

use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::numbered::Numbered;
use fermata_engine::{Ack, Event, Message, PublishFailure, RequestId, SocketId, Worker};
use fermata_io::{Deadline, Kernel};
use fermata_mercure::update::Update;
use fermata_pusher::App;
use fermata_pusher::channel::{Access, ChannelName};
use fermata_pusher::connection::Connection;
use fermata_pusher::frame;
use fermata_pusher::webhook::Kind;
use fermata_tls::Tls;

use crate::TELL_MS;
use crate::census::{Census, Notice};
use crate::counting::Counting;
use crate::membership::Membership;
use crate::mercure::door::Door;
use crate::names::{split, split_user};
use crate::posts::Posts;
use crate::settings::Settings;
use crate::sockjs::state::{HANDLER_SESSIONS, HANDLER_WORKERS, SockJs};
use crate::watching::Watching;
use crate::webhooks::{Prepared, Webhooks};

/// Numbers of handlers that are the hub's, beside whichever a program has.
pub(crate) const HANDLER_SOCKETS: u32 = 0x4000_0000;
pub(crate) const HANDLER_REQUESTS: u32 = 0x4000_0001;

/// What webhooks are told by the counts of subscriptions.
const OBSERVED: [Kind; 3] = [
    Kind::ChannelOccupied,
    Kind::ChannelVacated,
    Kind::SubscriptionCount,
];

/// A client.
pub(crate) struct Session {
    /// Its application, by its place in the settings.
    pub app: usize,
    pub connection: Connection,
}

/// What the hub remembers in one worker. The owner of the worker pulls its events and offers them to the hub first.
pub struct Hub {
    pub(crate) settings: Rc<Settings>,
    /// By the handle of their sockets.
    pub(crate) sessions: Numbered<SocketId, Session>,
    pub(crate) census: Census,
    pub(crate) watching: Watching,
    /// In the first worker alone: what applications and subscribers are told of counts.
    pub(crate) webhooks: Webhooks,
    pub(crate) counting: Counting,
    /// For clients of Pusher without WebSockets, if it is spoken.
    pub(crate) sockjs: Option<SockJs>,
    /// For clients that speak Mercure, if it is set.
    pub(crate) mercure: Option<Door>,
    /// What waits for the log of a cluster.
    pub(crate) posts: Posts,
    /// This worker's part in a cluster, if there is one.
    pub(crate) member: Option<Membership>,
    /// When the other workers are told what has changed.
    tell_at_ms: Option<u64>,
    /// They do not know yet that this worker has started.
    owes_hello: bool,
}

/// The hub at work, with the worker that it is in.
pub(crate) struct Gateway<'a> {
    pub worker: &'a mut Worker<Tls<Kernel>>,
    pub hub: &'a mut Hub,
}

impl Hub {
    pub(crate) fn new(
        worker: &mut Worker<Tls<Kernel>>,
        settings: Rc<Settings>,
        prepared: Prepared,
        sockjs: Option<SockJs>,
    ) -> Hub {
        let mut census = Census::new(worker.index());
        let is_observed =
            |app: &App| app.counts_subscriptions || OBSERVED.iter().any(|kind| app.tells(*kind));
        if worker.index() == 0 && settings.apps.iter().any(is_observed) {
            census.observe();
        }
        let member = Membership::begin(worker, prepared.began_unix_ms());
        if member.as_ref().is_some_and(Membership::speaks) {
            census.speak();
        }
        let webhooks = prepared.begin(&settings.apps, worker);
        let mut hub = Hub {
            settings,
            sessions: Numbered::default(),
            census,
            watching: Watching::default(),
            webhooks,
            counting: Counting::default(),
            sockjs,
            mercure: None,
            posts: Posts::default(),
            member,
            tell_at_ms: None,
            owes_hello: true,
        };
        let mut gateway = hub.with(worker);
        gateway.open_mercure();
        gateway.tell_counts();
        hub
    }

    pub(crate) fn with<'a>(&'a mut self, worker: &'a mut Worker<Tls<Kernel>>) -> Gateway<'a> {
        Gateway { worker, hub: self }
    }

    /// Takes an event that the worker has handed out. False: it is not the hub's, or not its alone.
    pub fn handle(&mut self, worker: &mut Worker<Tls<Kernel>>, event: Event) -> bool {
        let is_own = match event {
            Event::Request => matches!(
                worker.request().handler(),
                HANDLER_REQUESTS | HANDLER_WORKERS | HANDLER_SESSIONS
            ),
            Event::Gone(request) if self.forgets(worker, request) => return true,
            Event::Wire | Event::Stream(_) | Event::StreamEnd(_) | Event::Gone(_) => {
                return self.sockjs.is_some() && self.with(worker).on_sockjs_event(event);
            }
            Event::Upgrade => worker.request().handler() == HANDLER_SOCKETS,
            Event::Message | Event::Close => worker.socket_event().handler == HANDLER_SOCKETS,
            // Those of a program's are not JSON.
            Event::PeerMessage => worker.waiting.peer_message().first() == Some(&b'{'),
            Event::Wake => {
                let now_ms = worker.net.now_ms();
                self.with(worker).go_on_publishing();
                self.with(worker).go_on_with_keys();
                if self.tell_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                    self.with(worker).tell_counts();
                }
                if self
                    .sockjs
                    .as_ref()
                    .is_some_and(|it| it.due().is_due(now_ms))
                {
                    self.with(worker).on_sockjs_due(now_ms);
                }
                false
            }
            Event::Stop => {
                self.webhooks.finish();
                false
            }
            _ => false,
        };
        if !is_own {
            return false;
        }
        let mut gateway = self.with(worker);
        match event {
            Event::Request => match gateway.worker.request().handler() {
                HANDLER_SESSIONS => gateway.on_session_handshake(),
                _ if gateway.on_sockjs_request() || gateway.on_mercure_request() => {}
                _ => gateway.on_request(),
            },
            Event::Upgrade => gateway.on_handshake(),
            Event::Message => gateway.on_message(),
            Event::Close => gateway.on_close(),
            Event::PeerMessage => gateway.on_peer_message(),
            _ => {}
        }
        true
    }

    /// Whether the client who has left has published something or waits for keys, and its request is dropped.
    fn forgets(&mut self, worker: &mut Worker<Tls<Kernel>>, request: RequestId) -> bool {
        let mut gateway = self.with(worker);
        gateway.forget_publisher(request) || gateway.forget_kept(request)
    }

    /// When it wants to have an `Event::Wake`. To be asked before each event.
    pub fn due(&mut self, worker: &mut Worker<Tls<Kernel>>) -> Deadline {
        self.with(worker).plan_telling();
        let sockjs = self.sockjs.as_ref().map(SockJs::due);
        let now_ms = worker.net.now_ms();
        let keys = self.mercure.as_ref().map(|it| it.due(now_ms));
        let own = [self.posts.due_ms(), self.tell_at_ms].map(Deadline::from);
        let all = own.into_iter().chain(sockjs).chain(keys);
        all.min().unwrap_or(Deadline::NEVER)
    }

    /// Whether Mercure is spoken.
    pub fn has_mercure(&self) -> bool {
        self.mercure.is_some()
    }

    /// The program has published to a channel: subscribers of Mercure are told, where they share it.
    pub fn on_published(
        &mut self,
        worker: &mut Worker<Tls<Kernel>>,
        channel: &[u8],
        message: &Message<'_>,
    ) {
        if self.mercure.is_none() {
            return;
        }
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        let (channel, name) = (text(channel), message.name.map(text));
        self.with(worker)
            .tell_mercure(channel, name, text(message.data));
    }

    /// Publishes an update of Mercure for the program, and returns its id. `None`: Mercure is not spoken.
    ///
    /// # Errors
    /// It is too large, or there is no room.
    pub fn publish(
        &mut self,
        worker: &mut Worker<Tls<Kernel>>,
        update: &Update,
    ) -> Option<Result<String, PublishFailure>> {
        self.mercure.as_ref()?;
        Some(self.with(worker).publish_everywhere(update))
    }
}

impl Gateway<'_> {
    /// The application of a session.
    pub fn app(&self, at: usize) -> &App {
        &self.hub.settings.apps[at]
    }

    /// Tells all other workers of this server. False: there was no room.
    pub fn tell(&mut self, notice: &Notice) -> bool {
        let Ok(data) = serde_json::to_vec(notice) else {
            return false;
        };
        match self.worker.send_to_workers(&data) {
            Ok(_) => true,
            Err(error) => {
                let line = format!("other workers could not be told: {error}");
                self.worker.net.log(LogLevel::Warning, &line);
                false
            }
        }
    }

    fn on_peer_message(&mut self) {
        match serde_json::from_slice(self.worker.waiting.peer_message()) {
            Ok(Notice::Terminate { app, user }) => self.terminate(&app, &user),
            Ok(Notice::CacheMiss { app, channel }) => {
                if let Some(at) = self.position(&app)
                    && self.is_first_server()
                {
                    self.hub.webhooks.miss(at, &channel);
                }
            }
            Ok(Notice::Node { speaks, saying }) => self.on_node(speaks, saying),
            Ok(Notice::Ask { of }) => self.on_question(of),
            Ok(Notice::Webhook {
                app,
                at,
                told,
                beliefs,
            }) => {
                if let Some(app) = self.position(&app)
                    && !self.is_first_server()
                {
                    self.hub.webhooks.hear(app, at, told.as_deref(), beliefs);
                }
            }
            Ok(notice) => {
                let own = self.worker.index();
                if matches!(notice, Notice::Hello { worker } if worker == own) {
                    self.stop_speaking();
                }
                self.hub.census.on_notice(notice);
            }
            Err(error) => {
                let line = format!("what another worker tells is not understood: {error}");
                self.worker.net.log(LogLevel::Error, &line);
            }
        }
    }

    /// A subscriber has found a cache channel empty: the worker that sends webhooks is told, where the application wants it.
    pub fn report_miss(&mut self, app: usize, channel: &str) {
        if !self.app(app).tells(Kind::CacheMiss) {
            return;
        }
        if self.worker.index() == 0 && self.is_first_server() {
            self.hub.webhooks.miss(app, channel);
            return;
        }
        let notice = Notice::CacheMiss {
            app: self.app(app).id.clone(),
            channel: channel.to_owned(),
        };
        self.tell(&notice);
        self.tell_servers(&notice);
    }

    /// The place of an application in the settings, by its id.
    fn position(&self, app: &str) -> Option<usize> {
        self.hub.settings.apps.iter().position(|it| it.id == app)
    }

    fn plan_telling(&mut self) {
        let has_news =
            self.hub.owes_hello || self.hub.census.has_changed() || self.hub.census.is_touched();
        let due_ms = match has_news {
            true => Some(self.worker.net.now_ms() + TELL_MS),
            false => self.hub.counting.due_ms(),
        };
        let cluster_ms = self.cluster_due_ms();
        let due_ms = match (due_ms, cluster_ms) {
            (Some(due_ms), Some(cluster_ms)) => Some(due_ms.min(cluster_ms)),
            (due_ms, cluster_ms) => due_ms.or(cluster_ms),
        };
        if let Some(at_ms) = due_ms
            && self
                .hub
                .tell_at_ms
                .is_none_or(|earlier_ms| at_ms < earlier_ms)
        {
            self.hub.tell_at_ms = Some(at_ms);
        }
    }

    fn tell_counts(&mut self) {
        self.hub.tell_at_ms = None;
        self.look_at_servers();
        self.tell_applications();
        self.tell_watchers();
        self.tell_workers();
    }

    /// Tells webhooks and subscribers how many are subscribed to the channels that have changed.
    fn tell_applications(&mut self) {
        let now_ms = self.worker.net.now_ms();
        let census = &mut self.hub.census;
        let touched = census.take_touched();
        let mut due = self
            .hub
            .counting
            .take_due(now_ms, |ring_name| census.subscriptions(ring_name));
        for ring_name in touched {
            let Some((at, channel)) = split(&self.hub.settings.apps, &ring_name) else {
                continue;
            };
            let count = self.hub.census.subscriptions(&ring_name);
            self.hub.webhooks.set_count(at, channel, count);
            let is_presence =
                ChannelName::new(channel).map(ChannelName::access) == Ok(Access::Presence);
            let is_counted =
                self.app(at).counts_subscriptions && !is_presence && self.is_first_server();
            if is_counted && self.hub.counting.change(&ring_name, count, now_ms) {
                due.push(ring_name);
            }
        }
        for ring_name in due {
            self.tell_count(&ring_name);
        }
    }

    /// Tells clients of this worker which users of their watchlists have come online or gone offline.
    fn tell_watchers(&mut self) {
        for user_name in self.hub.census.take_touched_users() {
            let is_online = self.hub.census.is_online(&user_name);
            let sockets = self.hub.watching.change(&user_name, is_online);
            let Some((_, user)) = split_user(&user_name) else {
                continue;
            };
            let text = match is_online {
                true => frame::watchlist_events(&[user], &[]),
                false => frame::watchlist_events(&[], &[user]),
            };
            for socket in sockets {
                self.send(socket, &text);
            }
        }
    }

    fn tell_count(&mut self, ring_name: &str) {
        let Some((at, channel)) = split(&self.hub.settings.apps, ring_name) else {
            return;
        };
        let count = self.hub.census.subscriptions(ring_name);
        self.hub.webhooks.tell_count(at, channel, count);
        // Counts would push what a cache channel keeps for new subscribers out of its history.
        let is_cache = ChannelName::new(channel).is_ok_and(ChannelName::is_cache);
        if count == 0 || is_cache {
            return;
        }
        let data = frame::subscription_count(count);
        let message = Message {
            name: Some(frame::SUBSCRIPTION_COUNT.as_bytes()),
            data: data.as_bytes(),
        };
        let now_ms = self.worker.net.now_ms();
        let how = (Ack::Local, None, now_ms);
        let published = match self.is_in_cluster() {
            true => self
                .worker
                .begin_publish(ring_name.as_bytes(), message, None, how)
                .map(|_| ()),
            false => self
                .worker
                .publish(ring_name.as_bytes(), message)
                .map(|_| ()),
        };
        if let Err(error) = published {
            let line = format!("subscribers are not told their number: {error}");
            self.worker.net.log(LogLevel::Warning, &line);
        }
    }

    fn tell_workers(&mut self) {
        if self.hub.owes_hello {
            let hello = self.hub.census.hello();
            self.hub.owes_hello = !self.tell(&hello);
            if self.hub.owes_hello {
                // Counts before it would be forgotten by it.
                return;
            }
        }
        while let Some(notice) = self.hub.census.next_notice() {
            if !self.tell(&notice) {
                self.hub.census.put_back(notice);
                break;
            }
        }
    }
}
