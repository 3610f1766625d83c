//! The hub in one worker: what it remembers, and who is handed which event.

use std::collections::HashMap;
use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::{Event, Message, Worker};
use fermata_io::Kernel;
use fermata_pusher::App;
use fermata_pusher::channel::{Access, ChannelName};
use fermata_pusher::connection::Connection;
use fermata_pusher::frame;
use fermata_pusher::webhook::Kind;
use fermata_tls::Tls;

use crate::TELL_MS;
use crate::census::{Census, Notice};
use crate::counting::Counting;
use crate::mercure::door::Door;
use crate::names::{split, split_user};
use crate::settings::Settings;
use crate::watching::Watching;
use crate::webhooks::{Prepared, Webhooks};

pub(crate) const HANDLER_SOCKETS: u32 = 0;
pub(crate) const HANDLER_REQUESTS: u32 = 1;

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

pub(crate) struct Gateway {
    pub worker: Box<Worker<Tls<Kernel>>>,
    pub settings: Rc<Settings>,
    /// By the handle of their sockets.
    pub sessions: HashMap<u64, Session>,
    pub census: Census,
    pub watching: Watching,
    /// In the first worker alone: what applications and subscribers are told of counts.
    webhooks: Webhooks,
    counting: Counting,
    /// For clients that speak Mercure, if it is set.
    pub mercure: Option<Door>,
    /// When the other workers are told what has changed.
    tell_at_ms: Option<u64>,
    /// They do not know yet that this worker has started.
    owes_hello: bool,
}

impl Gateway {
    pub fn new(
        mut worker: Box<Worker<Tls<Kernel>>>,
        settings: Rc<Settings>,
        prepared: Prepared,
    ) -> Gateway {
        let mut census = Census::new(worker.index());
        let is_observed =
            |app: &App| app.counts_subscriptions || OBSERVED.iter().any(|kind| app.tells(*kind));
        if worker.index() == 0 && settings.apps.iter().any(is_observed) {
            census.observe();
        }
        let webhooks = prepared.begin(&settings.apps, &mut worker);
        Gateway {
            worker,
            settings,
            sessions: HashMap::new(),
            census,
            watching: Watching::default(),
            webhooks,
            counting: Counting::default(),
            mercure: None,
            tell_at_ms: None,
            owes_hello: true,
        }
    }

    /// Serves until the worker stops; returns what the process should exit with.
    pub fn run(&mut self) -> i32 {
        self.open_mercure();
        self.tell_counts();
        loop {
            self.plan_telling();
            match self.worker.next_event() {
                Event::Request => {
                    if !self.on_mercure_request() {
                        self.on_request();
                    }
                }
                Event::Upgrade => self.on_handshake(),
                Event::Message => self.on_message(),
                Event::Close => self.on_close(),
                Event::Told => self.on_told(),
                Event::Wake => {
                    let now_ms = self.worker.now_ms();
                    if self.tell_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                        self.tell_counts();
                    }
                }
                Event::Stop => {
                    self.webhooks.finish();
                    return self.worker.exit_code();
                }
                Event::Open
                | Event::Gone
                | Event::Body
                | Event::Ready
                | Event::Wire
                | Event::Items
                | Event::Stream
                | Event::StreamEnd
                | Event::Ping
                | Event::Pong => {}
            }
        }
    }

    /// The application of a session.
    pub fn app(&self, at: usize) -> &App {
        &self.settings.apps[at]
    }

    /// Tells all other workers. False: there was no room.
    pub fn tell(&mut self, notice: &Notice) -> bool {
        let Ok(data) = serde_json::to_vec(notice) else {
            return false;
        };
        match self.worker.tell_workers(&data) {
            Ok(_) => true,
            Err(error) => {
                let line = format!("other workers could not be told: {error}");
                self.worker.log(LogLevel::Warning, &line);
                false
            }
        }
    }

    fn on_told(&mut self) {
        match serde_json::from_slice(self.worker.told()) {
            Ok(Notice::Terminate { app, user }) => self.terminate(&app, &user),
            Ok(Notice::CacheMiss { app, channel }) => {
                if let Some(at) = self.position(&app) {
                    self.webhooks.miss(at, &channel);
                }
            }
            Ok(notice) => self.census.on_notice(notice),
            Err(error) => {
                let line = format!("what another worker tells is not understood: {error}");
                self.worker.log(LogLevel::Error, &line);
            }
        }
    }

    /// A subscriber has found a cache channel empty: the worker that sends webhooks is told, where the application wants it.
    pub fn report_miss(&mut self, app: usize, channel: &str) {
        if !self.app(app).tells(Kind::CacheMiss) {
            return;
        }
        if self.worker.index() == 0 {
            self.webhooks.miss(app, channel);
            return;
        }
        let notice = Notice::CacheMiss {
            app: self.app(app).id.clone(),
            channel: channel.to_owned(),
        };
        self.tell(&notice);
    }

    /// The place of an application in the settings, by its id.
    fn position(&self, app: &str) -> Option<usize> {
        self.settings.apps.iter().position(|it| it.id == app)
    }

    fn plan_telling(&mut self) {
        let has_news = self.owes_hello || self.census.has_changed() || self.census.is_touched();
        let due_ms = match has_news {
            true => Some(self.worker.now_ms() + TELL_MS),
            false => self.counting.due_ms(),
        };
        if let Some(at_ms) = due_ms
            && self.tell_at_ms.is_none_or(|earlier_ms| at_ms < earlier_ms)
        {
            self.tell_at_ms = Some(at_ms);
            self.worker.wake_at(at_ms);
        }
    }

    fn tell_counts(&mut self) {
        self.tell_at_ms = None;
        self.tell_applications();
        self.tell_watchers();
        self.tell_workers();
    }

    /// Tells webhooks and subscribers how many are subscribed to the channels that have changed.
    fn tell_applications(&mut self) {
        let now_ms = self.worker.now_ms();
        let census = &mut self.census;
        let touched = census.take_touched();
        let mut due = self
            .counting
            .take_due(now_ms, |ring_name| census.subscriptions(ring_name));
        for ring_name in touched {
            let Some((app, channel)) = split(&ring_name) else {
                continue;
            };
            let Some(at) = self.position(app) else {
                continue;
            };
            let count = self.census.subscriptions(&ring_name);
            self.webhooks.set_count(at, channel, count);
            let is_presence =
                ChannelName::new(channel).map(ChannelName::access) == Ok(Access::Presence);
            let is_counted = self.app(at).counts_subscriptions && !is_presence;
            if is_counted && self.counting.change(&ring_name, count, now_ms) {
                due.push(ring_name);
            }
        }
        for ring_name in due {
            self.tell_count(&ring_name);
        }
    }

    /// Tells clients of this worker which users of their watchlists have come online or gone offline.
    fn tell_watchers(&mut self) {
        for user_name in self.census.take_touched_users() {
            let is_online = self.census.is_online(&user_name);
            let sockets = self.watching.change(&user_name, is_online);
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
        let Some((app, channel)) = split(ring_name) else {
            return;
        };
        let count = self.census.subscriptions(ring_name);
        if let Some(at) = self.position(app) {
            self.webhooks.tell_count(at, channel, count);
        }
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
        if let Err(error) = self.worker.publish(ring_name.as_bytes(), message) {
            let line = format!("subscribers are not told their number: {error}");
            self.worker.log(LogLevel::Warning, &line);
        }
    }

    fn tell_workers(&mut self) {
        if self.owes_hello {
            let hello = self.census.hello();
            self.owes_hello = !self.tell(&hello);
            if self.owes_hello {
                // Counts before it would be forgotten by it.
                return;
            }
        }
        while let Some(notice) = self.census.next_notice() {
            if !self.tell(&notice) {
                self.census.put_back(notice);
                break;
            }
        }
    }
}
