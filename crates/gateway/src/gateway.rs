//! The hub in one worker: its state, and the dispatch of events to their handlers.

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

use crate::SEND_MS;
use crate::counting::Counting;
use crate::membership::Membership;
use crate::mercure::mercure_hub::MercureHub;
use crate::names::{split, split_user};
use crate::posts::Posts;
use crate::settings::Settings;
use crate::sockjs::state::{HANDLER_SESSIONS, HANDLER_WORKERS, SockJs};
use crate::watching::Watchlists;
use crate::webhooks::{Prepared, Webhooks};
use crate::worker_counts::{WorkerCounts, WorkerMessage};

/// Handler numbers reserved for the hub, which no application uses.
pub(crate) const HANDLER_SOCKETS: u32 = 0x4000_0000;
pub(crate) const HANDLER_REQUESTS: u32 = 0x4000_0001;

/// Webhook events that depend on the number of subscriptions.
const OBSERVED: [Kind; 3] = [
    Kind::ChannelOccupied,
    Kind::ChannelVacated,
    Kind::SubscriptionCount,
];

/// State of one client.
pub(crate) struct Session {
    /// Index of the client's application in the settings.
    pub app: usize,
    /// The unpredictable part of the client's socket id.
    pub secret: u64,
    pub connection: Connection,
}

/// State of the hub in one worker. The worker's owner pulls events and passes each to [`Hub::handle`] first.
pub struct Hub {
    pub(crate) settings: Rc<Settings>,
    /// Sessions by socket handle.
    pub(crate) sessions: Numbered<SocketId, Session>,
    pub(crate) worker_counts: WorkerCounts,
    pub(crate) watching: Watchlists,
    /// Webhooks. Only the first worker uses them: it sends webhooks and announces counts.
    pub(crate) webhooks: Webhooks,
    pub(crate) counting: Counting,
    /// Pusher clients without WebSockets; `None` = the fallback is disabled.
    pub(crate) sockjs: Option<SockJs>,
    /// The Mercure hub; `None` = Mercure is disabled.
    pub(crate) mercure: Option<MercureHub>,
    /// Publications that wait for the cluster's log.
    pub(crate) posts: Posts,
    /// This worker's membership in a cluster; `None` = no cluster.
    pub(crate) member: Option<Membership>,
    /// Time at which changes are sent to the other workers.
    send_at_ms: Option<u64>,
    /// True if the other workers have not received this worker's hello yet.
    owes_hello: bool,
}

/// The hub together with the worker in which it runs.
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
        let mut worker_counts = WorkerCounts::new(worker.index());
        let is_observed =
            |app: &App| app.counts_subscriptions || OBSERVED.iter().any(|kind| app.reports(*kind));
        if worker.index() == 0 && settings.apps.iter().any(is_observed) {
            worker_counts.observe();
        }
        let member = Membership::begin(worker, prepared.began_unix_ms());
        if member.as_ref().is_some_and(Membership::announces) {
            worker_counts.speak();
        }
        let webhooks = prepared.begin(&settings.apps, worker);
        let mut hub = Hub {
            settings,
            sessions: Numbered::default(),
            worker_counts,
            watching: Watchlists::default(),
            webhooks,
            counting: Counting::default(),
            sockjs,
            mercure: None,
            posts: Posts::default(),
            member,
            send_at_ms: None,
            owes_hello: true,
        };
        let mut gateway = hub.with(worker);
        gateway.open_mercure();
        gateway.send_counts();
        hub
    }

    pub(crate) fn with<'a>(&'a mut self, worker: &'a mut Worker<Tls<Kernel>>) -> Gateway<'a> {
        Gateway { worker, hub: self }
    }

    /// Handles an event of the worker. Returns false if the application has to handle the event, too, or if the event does not
    /// concern the hub.
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
            // The hub's messages between workers are JSON objects. An application's messages never start with this character.
            Event::PeerMessage => worker.waiting.peer_message().first() == Some(&b'{'),
            Event::Wake => {
                let now_ms = worker.net.now_ms();
                self.with(worker).go_on_publishing();
                self.with(worker).go_on_with_keys();
                if self.send_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                    self.with(worker).send_counts();
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

    /// Handles a client that has left while its request waited for a publication or for keys. Returns false if no such request of
    /// the hub waits.
    fn forgets(&mut self, worker: &mut Worker<Tls<Kernel>>, request: RequestId) -> bool {
        let mut gateway = self.with(worker);
        gateway.forget_publisher(request) || gateway.forget_kept(request)
    }

    /// Returns the time at which the hub needs the next `Event::Wake`. The caller calls this before it waits for an event.
    pub fn due(&mut self, worker: &mut Worker<Tls<Kernel>>) -> Deadline {
        self.with(worker).plan_sending();
        let sockjs = self.sockjs.as_ref().map(SockJs::due);
        let now_ms = worker.net.now_ms();
        let keys = self.mercure.as_ref().map(|it| it.due(now_ms));
        let own = [self.posts.due_ms(), self.send_at_ms].map(Deadline::from);
        let all = own.into_iter().chain(sockjs).chain(keys);
        all.min().unwrap_or(Deadline::NEVER)
    }

    /// Returns true if Mercure is enabled.
    pub fn has_mercure(&self) -> bool {
        self.mercure.is_some()
    }

    /// Forwards an event that the application published to subscribers of Mercure, if they share its channel.
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
            .publish_to_mercure(channel, name, text(message.data));
    }

    /// Publishes a Mercure update of the application and returns its id. `None`: Mercure is disabled.
    ///
    /// # Errors
    /// The update is too large, or there is no room.
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
    /// Returns the application at an index.
    pub fn app(&self, at: usize) -> &App {
        &self.hub.settings.apps[at]
    }

    /// Sends a message to all other workers of this server. Returns false if there was no room.
    pub fn send_to_workers(&mut self, worker_message: &WorkerMessage) -> bool {
        let Ok(data) = serde_json::to_vec(worker_message) else {
            return false;
        };
        match self.worker.send_to_workers(&data) {
            Ok(_) => true,
            Err(error) => {
                let line = format!("cannot send to the other workers: {error}");
                self.worker.net.log(LogLevel::Warning, &line);
                false
            }
        }
    }

    fn on_peer_message(&mut self) {
        match serde_json::from_slice(self.worker.waiting.peer_message()) {
            Ok(WorkerMessage::Terminate { app, user }) => self.terminate(&app, &user),
            Ok(WorkerMessage::CacheMiss { app, channel }) => {
                if let Some(at) = self.position(&app)
                    && self.is_first_server()
                {
                    self.hub.webhooks.miss(at, &channel);
                }
            }
            Ok(WorkerMessage::Node {
                announcement,
                node_message,
            }) => self.on_node(announcement, node_message),
            Ok(WorkerMessage::Ask { of }) => self.on_question(of),
            Ok(WorkerMessage::Webhook {
                app,
                at,
                acknowledged,
                occupancies,
            }) => {
                if let Some(app) = self.position(&app)
                    && !self.is_first_server()
                {
                    self.hub
                        .webhooks
                        .add_deliveries(app, at, acknowledged.as_deref(), occupancies);
                }
            }
            Ok(worker_message) => {
                let own = self.worker.index();
                if matches!(worker_message, WorkerMessage::Hello { worker } if worker == own) {
                    self.stop_announcing();
                }
                self.hub.worker_counts.on_message(worker_message);
            }
            Err(error) => {
                let line = format!("cannot decode a message from another worker: {error}");
                self.worker.net.log(LogLevel::Error, &line);
            }
        }
    }

    /// Reports an empty cache channel to the worker that sends webhooks, if a webhook of the application requests this event.
    pub fn report_miss(&mut self, app: usize, channel: &str) {
        if !self.app(app).reports(Kind::CacheMiss) {
            return;
        }
        if self.worker.index() == 0 && self.is_first_server() {
            self.hub.webhooks.miss(app, channel);
            return;
        }
        let worker_message = WorkerMessage::CacheMiss {
            app: self.app(app).id.clone(),
            channel: channel.to_owned(),
        };
        self.send_to_workers(&worker_message);
        self.send_to_servers(&worker_message);
    }

    /// Returns the index of an application in the settings, by its id.
    fn position(&self, app: &str) -> Option<usize> {
        self.hub.settings.apps.iter().position(|it| it.id == app)
    }

    /// Sets `send_at_ms` to the time at which counts are sent. Changes are collected for [`SEND_MS`] first.
    fn plan_sending(&mut self) {
        let has_pending_changes = self.hub.owes_hello
            || self.hub.worker_counts.has_changed()
            || self.hub.worker_counts.is_touched();
        let due_ms = if has_pending_changes {
            Some(self.worker.net.now_ms() + SEND_MS)
        } else {
            self.hub.counting.due_ms()
        };
        let cluster_ms = self.cluster_due_ms();
        let due_ms = match (due_ms, cluster_ms) {
            (Some(due_ms), Some(cluster_ms)) => Some(due_ms.min(cluster_ms)),
            (due_ms, cluster_ms) => due_ms.or(cluster_ms),
        };
        if let Some(at_ms) = due_ms
            && self
                .hub
                .send_at_ms
                .is_none_or(|earlier_ms| at_ms < earlier_ms)
        {
            self.hub.send_at_ms = Some(at_ms);
        }
    }

    fn send_counts(&mut self) {
        self.hub.send_at_ms = None;
        self.look_at_servers();
        self.notify_applications();
        self.notify_watchers();
        self.send_counts_to_workers();
    }

    /// Passes changed subscription counts to the webhooks, and announces those that are due to subscribers.
    fn notify_applications(&mut self) {
        let now_ms = self.worker.net.now_ms();
        let worker_counts = &mut self.hub.worker_counts;
        let touched = worker_counts.take_touched();
        let mut due = self
            .hub
            .counting
            .take_due(now_ms, |ring_name| worker_counts.subscriptions(ring_name));
        for ring_name in touched {
            let Some((at, channel)) = split(&self.hub.settings.apps, &ring_name) else {
                continue;
            };
            let count = self.hub.worker_counts.subscriptions(&ring_name);
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
            self.send_count(&ring_name);
        }
    }

    /// Notifies clients of this worker whose watchlists contain a user that came online or went offline.
    fn notify_watchers(&mut self) {
        for user_name in self.hub.worker_counts.take_touched_users() {
            let is_online = self.hub.worker_counts.is_online(&user_name);
            let sockets = self.hub.watching.change(&user_name, is_online);
            let Some((_, user)) = split_user(&user_name) else {
                continue;
            };
            let text = if is_online {
                frame::watchlist_events(&[user], &[])
            } else {
                frame::watchlist_events(&[], &[user])
            };
            for socket in sockets {
                self.send(socket, &text);
            }
        }
    }

    fn send_count(&mut self, ring_name: &str) {
        let Some((at, channel)) = split(&self.hub.settings.apps, ring_name) else {
            return;
        };
        let count = self.hub.worker_counts.subscriptions(ring_name);
        self.hub.webhooks.send_count(at, channel, count);
        // A new subscriber of a cache channel receives the newest event in the channel's history. Counts would displace this event.
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
        let published = if self.is_in_cluster() {
            self.worker
                .begin_publish(ring_name.as_bytes(), message, None, how)
                .map(|_| ())
        } else {
            self.worker
                .publish(ring_name.as_bytes(), message)
                .map(|_| ())
        };
        if let Err(error) = published {
            let line = format!("cannot publish a subscription count: {error}");
            self.worker.net.log(LogLevel::Warning, &line);
        }
    }

    fn send_counts_to_workers(&mut self) {
        if self.hub.owes_hello {
            let hello = self.hub.worker_counts.hello();
            self.hub.owes_hello = !self.send_to_workers(&hello);
            if self.hub.owes_hello {
                // The other workers drop all counts of this worker when they receive its hello. So send no counts before the hello.
                return;
            }
        }
        while let Some(worker_message) = self.hub.worker_counts.next_message() {
            if !self.send_to_workers(&worker_message) {
                self.hub.worker_counts.put_back(worker_message);
                break;
            }
        }
    }
}
