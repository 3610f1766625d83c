//! Clients' WebSockets, whatever carries them to their origin: subscriptions, control messages, published messages.

use crate::server::items::drop_item;
use crate::server::sockjs::framed::beat;
use fermata_config::LogLevel;
use fermata_edge_pushpin::stats::mode::Mode;
use fermata_engine::stats::Counter;
use fermata_grip::filter::Filters;
use fermata_grip::instruct::KeepAliveMode;
use fermata_grip::item::{Item, MessageAction, MessageKind};
use fermata_grip::prefix::Prefix;
use fermata_grip::ws_control;
use fermata_grip::ws_control::{Control, ControlError};

use crate::client::clients::Clients;
use crate::client::delivery::excluded_by;
use crate::client::session::{Kind, Session, Subscription};
use crate::client::socket::{Socket, Via};
use crate::client::source::Engine;
use crate::client::source::Source;
use crate::pushpin::parts::Pushpin;
use crate::routes::figures::Count;
use crate::server::edge::Edge;
use crate::timers::Timer;
use crate::timers::Timers;

/// The code of a socket whose origin has failed.
const FAILED: u16 = 1011;

/// The code of one whose origin is gone, and of one that is closed without a reason.
const AWAY: u16 = 1001;
const NORMAL: u16 = 1000;

/// The code of one that has lost what was published.
const TRY_AGAIN: u16 = 1013;

/// What the engine says of a client that has left without a word, or without a code.
const ABNORMAL: u16 = 1006;
const NO_STATUS: u16 = 1005;

impl Edge {
    /// A client's WebSocket is open.
    pub(super) fn enter_socket(&mut self, handle: u64, source: Source, socket: Box<Socket>) {
        let implicit = source
            .target()
            .map_or(Vec::new(), |it| it.subscriptions.clone());
        let mut socket = socket;
        let is_sockjs = source.is_sockjs;
        if is_sockjs {
            // Before anything that the backend says.
            self.open_frames(handle);
            socket.heartbeat_ms = self.worker.net.now_ms() + self.pushpin.sockjs.heartbeat_ms;
        }
        let serial = self.clients.next_serial();
        let session = Session {
            source: source.clone(),
            subscriptions: Vec::new(),
            meta: Default::default(),
            kind: Kind::Socket(socket),
            serial,
        };
        self.clients.sessions.insert(handle, Box::new(session));
        self.on_entered(handle, &source, Mode::Socket);
        for channel in implicit {
            self.subscribe_socket(handle, channel.into_bytes(), None, Filters::default());
        }
        if is_sockjs {
            self.clients.watch_socket(&mut self.timers, handle);
        }
    }

    fn subscribe_socket(
        &mut self,
        handle: u64,
        channel: Vec<u8>,
        own: Option<Vec<u8>>,
        filters: Filters,
    ) {
        let subscriptions_max = self.policy.subscriptions_max;
        let Some(session) = self.clients.sessions.get_mut(&handle) else {
            return;
        };
        let known = session
            .subscriptions
            .iter_mut()
            .find(|it| it.channel == channel);
        if let Some(known) = known {
            known.filters = filters;
            self.clients.filtering.watch(known);
            return;
        }
        let problem = match fermata_engine::check_channel(&channel) {
            Err(problem) => Some((Counter::EdgeSubscriptionName, problem.to_string())),
            Ok(()) if session.subscriptions.len() >= subscriptions_max => Some((
                Counter::EdgeSubscriptionsMax,
                format!(
                    "the WebSocket has {subscriptions_max} channels already (subscriptions_max)"
                ),
            )),
            Ok(()) => None,
        };
        if let Some((counter, problem)) = problem {
            self.worker.net.count(counter, 1);
            let line = format!("a subscription is left out: {problem}");
            self.worker.net.log_for_client(LogLevel::Warning, &line);
            return;
        }
        if self.worker.subscribe_socket(handle, &channel).is_err() {
            return;
        }
        let subscription = Subscription {
            channel: channel.clone(),
            own,
            prev_id: None,
            ahead: Vec::new(),
            filters,
        };
        self.clients.filtering.watch(&subscription);
        session.subscriptions.push(subscription);
        let source = session.source.clone();
        self.on_subscribed(handle, &source, &channel, Mode::Socket);
    }

    /// A message of the origin: for the edge, for the client, or for nobody.
    pub(super) fn on_origin_message(&mut self, handle: u64, is_text: bool, message: &[u8]) {
        let Some(socket) = self.clients.socket(handle) else {
            return;
        };
        if socket.is_gone {
            return;
        }
        let Some(prefix) = socket.prefix.clone() else {
            self.send_to_client(handle, is_text, message);
            return;
        };
        match ws_control::kind(message, is_text, &prefix) {
            ws_control::Kind::Control(json) => match ws_control::read(json) {
                Ok(control) => self.control(handle, control),
                Err(ControlError::FiltersTooMany) => {
                    close_socket(&mut self.worker, handle, FAILED, b"")
                }
                Err(error) => {
                    let line = format!("a control message is ignored: {error}");
                    self.worker.net.log_for_client(LogLevel::Warning, &line);
                }
            },
            ws_control::Kind::Message(content) => self.send_to_client(handle, is_text, content),
            ws_control::Kind::Unprefixed => {
                self.worker.net.count(Counter::EdgeDroppedUnprefixed, 1);
                let line = "a message of the origin is dropped: it has neither the prefix of messages nor that of control messages";
                self.worker.net.log_for_client(LogLevel::Warning, line);
            }
        }
    }

    pub(super) fn control(&mut self, handle: u64, control: Control) {
        let now_ms = self.worker.net.now_ms();
        match control {
            Control::Subscribe { channel, filters } => {
                if let Some(name) = Filters::unknown(filters.iter().map(Vec::as_slice)) {
                    let line = format!(
                        "a WebSocket is closed: channel {} has the filter {}, which is not known here",
                        channel.escape_ascii(),
                        name.escape_ascii()
                    );
                    self.worker.net.log_for_client(LogLevel::Warning, &line);
                    close_socket(&mut self.worker, handle, FAILED, b"");
                    return;
                }
                let Some(session) = self.clients.sessions.get(&handle) else {
                    return;
                };
                let rule = session.source.rule();
                let prefix = Prefix::new(rule.map_or(&b""[..], |it| it.prefix.as_bytes()));
                let public = prefix.public(&channel);
                let filters = Filters::from_names(filters.iter().map(Vec::as_slice));
                self.subscribe_socket(handle, public, Some(channel), filters);
            }
            Control::Unsubscribe { channel } => {
                let Some(session) = self.clients.sessions.get_mut(&handle) else {
                    return;
                };
                let is_it = |it: &Subscription| it.own.as_ref() == Some(&channel);
                let Some(at) = session.subscriptions.iter().position(is_it) else {
                    return;
                };
                let subscription = session.subscriptions.remove(at);
                let source = session.source.clone();
                self.journal.log_subscription(
                    &mut self.timers,
                    &mut self.worker,
                    "unsubscribe",
                    &source,
                    true,
                    &subscription.channel,
                );
                self.worker
                    .unsubscribe_socket(handle, &subscription.channel);
                self.pushpin.stats_unsubscribe(
                    &mut self.publishing,
                    &mut self.worker,
                    handle,
                    &subscription.channel,
                );
            }
            Control::Detach => self.detach(handle),
            Control::Session(id) => {
                let ports = &mut self.publishing.ports;
                let keeper = self
                    .pushpin
                    .keeper(ports, &mut self.timers, &mut self.worker);
                // Without a service that keeps it an id means nothing.
                if let Some(mut keeper) = keeper
                    && let Some(session) = self.clients.sessions.get_mut(&handle)
                {
                    keeper.name(&mut session.source, id.as_deref().unwrap_or_default());
                }
            }
            Control::SetMeta { name, value } => {
                if let Some(session) = self.clients.sessions.get_mut(&handle) {
                    match value {
                        Some(value) => session.meta.insert(name, value),
                        None => session.meta.remove(&name),
                    };
                }
            }
            Control::KeepAlive(timed) => {
                if let Some(socket) = self.clients.socket(handle) {
                    socket.keep_alive = timed.map(|timed| {
                        let due_ms = now_ms + u64::from(timed.timeout_s) * 1_000;
                        (timed, due_ms)
                    });
                }
                self.clients.watch_socket(&mut self.timers, handle);
            }
            Control::SendDelayed(timed) => {
                self.pushpin
                    .flush_delayed(&mut self.clients, &mut self.worker, handle);
                if let Some(socket) = self.clients.socket(handle) {
                    let due_ms = now_ms + u64::from(timed.timeout_s) * 1_000;
                    socket.delayed = Some((timed, due_ms));
                }
                self.clients.watch_socket(&mut self.timers, handle);
            }
            Control::FlushDelayed => {
                self.pushpin
                    .flush_delayed(&mut self.clients, &mut self.worker, handle)
            }
        }
    }

    /// The origin leaves; the client stays and gets what is published.
    fn detach(&mut self, handle: u64) {
        if let Some(socket) = self.clients.socket(handle) {
            socket.via = None;
        }
        self.abandon(handle);
        self.worker.net.resume_socket(handle);
    }

    pub(super) fn on_socket_due(&mut self, handle: u64) {
        let (now_ms, heartbeat_ms) = (self.worker.net.now_ms(), self.pushpin.sockjs.heartbeat_ms);
        let Some(socket) = self.clients.socket(handle) else {
            return;
        };
        if socket.due_ms() > now_ms {
            // What it was armed for has moved.
            self.clients.watch_socket(&mut self.timers, handle);
            return;
        }
        let mut message = None;
        if let Some((timed, due_ms)) = &mut socket.keep_alive
            && *due_ms <= now_ms
        {
            *due_ms = now_ms + u64::from(timed.timeout_s) * 1_000;
            message = Some((timed.kind, timed.content.clone()));
        }
        let is_delayed = socket.delayed.as_ref().is_some_and(|it| it.1 <= now_ms);
        let is_silent = socket.heartbeat_ms <= now_ms;
        if is_silent {
            socket.heartbeat_ms = now_ms + heartbeat_ms;
        }
        let is_idle = socket.over().is_some_and(|over| over.is_idle(now_ms));
        if let Some((kind, content)) = message {
            self.pushpin
                .send_kind(&self.clients, &mut self.worker, handle, kind, &content);
        }
        if is_delayed {
            self.pushpin
                .flush_delayed(&mut self.clients, &mut self.worker, handle);
        }
        if is_silent {
            beat(&mut self.worker, handle);
        }
        if is_idle {
            self.ask_events(handle);
        }
        self.clients.watch_socket(&mut self.timers, handle);
    }

    /// Sends what the origin or a publisher has for the client; silence begins anew.
    pub(super) fn send_to_client(&mut self, handle: u64, is_text: bool, message: &[u8]) {
        let kind = match is_text {
            true => MessageKind::Text,
            false => MessageKind::Binary,
        };
        self.count_message(
            handle,
            Count::ClientMessagesSent,
            Count::ClientSent,
            message.len(),
        );
        self.pushpin
            .send_kind(&self.clients, &mut self.worker, handle, kind, message);
        self.clients.touch_socket(&mut self.worker, handle);
    }

    /// Something was published to a socket.
    pub(super) fn on_item_of_socket(&mut self, handle: u64, channel: &[u8], item: &Item) {
        let Some(format) = &item.ws_message else {
            return;
        };
        let Some(session) = self.clients.sessions.get_mut(&handle) else {
            return;
        };
        let Some(subscription) = session.subscription(channel) else {
            return;
        };
        let filters = subscription.filters.clone();
        let Some(session) = self.clients.sessions.get(&handle) else {
            return;
        };
        if let Some(counter) = excluded_by(session, &filters, &format.content_filters, item) {
            self.worker.net.count(counter, 1);
            return;
        }
        let content = match &format.action {
            MessageAction::Send { content, .. } => match filters.content(&**session, content) {
                Ok(content) => Some(content.into_owned()),
                Err(error) => return drop_item(&mut self.worker, &error.to_string()),
            },
            _ => None,
        };
        self.give_socket(handle, &format.action, content);
    }

    /// Does what was published, with the content that filters have made of it.
    pub(super) fn give_socket(
        &mut self,
        handle: u64,
        action: &MessageAction,
        content: Option<Vec<u8>>,
    ) {
        match action {
            MessageAction::Send { kind, .. } => {
                self.pushpin.send_kind(
                    &self.clients,
                    &mut self.worker,
                    handle,
                    *kind,
                    &content.unwrap_or_default(),
                );
                self.clients.touch_socket(&mut self.worker, handle);
            }
            MessageAction::Close { code, reason } => {
                let (code, reason) = (code.unwrap_or(NORMAL), reason.clone());
                close_socket(&mut self.worker, handle, code, &reason);
            }
            MessageAction::Refresh => self.refresh_socket(handle),
            MessageAction::Hint => {}
        }
    }

    /// Asks the origin of a socket now, if it is asked by requests.
    pub(super) fn refresh_socket(&mut self, handle: u64) {
        if let Some(over) = self.clients.socket(handle).and_then(Socket::over) {
            over.want_request();
            self.ask_events(handle);
        }
    }

    /// The client has sent a message.
    pub(super) fn on_client_message(&mut self) {
        let event = self.worker.socket_event();
        let (handle, is_text) = (event.socket, !event.is_binary);
        let message = event.payload.to_vec();
        if self.pushpin.sockjs.has_framed && self.clients.is_framed(handle) {
            self.on_framed(handle, &message);
            return;
        }
        self.on_message(handle, is_text, message);
    }

    /// A message of the client, whatever it was wrapped in.
    pub(super) fn on_message(&mut self, handle: u64, is_text: bool, message: Vec<u8>) {
        self.count_message(
            handle,
            Count::ClientMessagesReceived,
            Count::ClientReceived,
            message.len(),
        );
        let Some(socket) = self.clients.socket(handle) else {
            return;
        };
        match &mut socket.via {
            None => {}
            Some(Via::Echo) => self.send_to_client(handle, is_text, &message),
            Some(Via::Pass(id)) => {
                let id = *id;
                self.pass_message(id, handle, is_text, &message);
            }
            Some(Via::Http(_)) => self.queue_message(handle, is_text, message),
        }
    }

    /// A ping or pong of the client. A client without a WebSocket to its origin is answered from here.
    pub(super) fn on_client_control(&mut self, is_ping: bool) {
        let event = self.worker.socket_event();
        let (handle, payload) = (event.socket, event.payload.to_vec());
        let socket = self.clients.socket(handle);
        let Some((id, pinged)) = socket.and_then(|socket| match socket.via {
            Some(Via::Pass(id)) => Some((id, &mut socket.pinged)),
            _ => None,
        }) else {
            if is_ping {
                let _ = self.worker.net.send_control(handle, false, &payload);
            }
            return;
        };
        if is_ping || pinged.take_if(|it| **it == *payload).is_some() {
            self.pass_control(id, handle, is_ping, &payload);
        }
    }

    /// The client's socket has ended.
    pub(super) fn on_client_close(&mut self) {
        let event = self.worker.socket_event();
        let (handle, code) = (event.socket, event.code);
        let reason = event.payload.to_vec();
        self.on_no_longer_held(handle);
        let Some(socket) = self.clients.socket(handle) else {
            return;
        };
        socket.is_gone = true;
        match &socket.via {
            Some(Via::Pass(id)) => {
                let id = *id;
                self.clients.sessions.remove(&handle);
                self.pass_close(id, code, &reason);
            }
            Some(Via::Http(_)) => {
                let close = match code {
                    ABNORMAL => None,
                    NO_STATUS => Some(None),
                    code => Some(Some((code, reason))),
                };
                self.queue_close(handle, close);
            }
            Some(Via::Echo) | None => {
                self.clients.sessions.remove(&handle);
            }
        }
    }
}

impl Clients {
    /// The origin closes: so does the client's socket.
    pub(super) fn on_origin_close(
        &mut self,
        worker: &mut Engine,
        handle: u64,
        code: u16,
        reason: &[u8],
    ) {
        if let Some(socket) = self.socket(handle) {
            socket.via = None;
            if socket.is_gone {
                // The client has left before, and now everything is said.
                self.sessions.remove(&handle);
                return;
            }
        }
        let code = match code {
            NO_STATUS => NORMAL,
            ABNORMAL => AWAY,
            code => code,
        };
        close_socket(worker, handle, code, reason);
    }
}

/// A socket has lost what was published.
pub(super) fn close_slow_socket(worker: &mut Engine, handle: u64) {
    close_socket(
        worker,
        handle,
        TRY_AGAIN,
        b"messages were missed; read faster",
    );
}

/// Closes a socket from our side; its origin is told by what follows from the client's end.
pub(super) fn close_socket(worker: &mut Engine, handle: u64, code: u16, reason: &[u8]) {
    if worker.disconnect(handle, code, reason).is_err() {
        let _ = worker.disconnect(handle, AWAY, b"");
    }
}

impl Clients {
    /// The WebSocket of a session.
    pub(super) fn socket(&mut self, handle: u64) -> Option<&mut Socket> {
        match &mut self.sessions.get_mut(&handle)?.kind {
            Kind::Socket(socket) => Some(socket),
            Kind::Poll(_) | Kind::Stream(_) => None,
        }
    }

    /// Sees to what is next due for a socket.
    pub(super) fn watch_socket(&mut self, timers: &mut Timers, handle: u64) {
        if let Some(due_ms) = self.socket(handle).map(|it| it.due_ms())
            && due_ms != u64::MAX
        {
            timers.at(due_ms, Timer::Socket(handle));
        }
    }

    fn touch_socket(&mut self, worker: &mut Engine, handle: u64) {
        let now_ms = worker.net.now_ms();
        if let Some(socket) = self.socket(handle)
            && let Some((timed, due_ms)) = &mut socket.keep_alive
            && timed.mode == KeepAliveMode::Idle
        {
            *due_ms = now_ms + u64::from(timed.timeout_s) * 1_000;
        }
    }
}

impl Pushpin {
    fn flush_delayed(&self, clients: &mut Clients, worker: &mut Engine, handle: u64) {
        if let Some(socket) = clients.socket(handle)
            && let Some((timed, _)) = socket.delayed.take()
        {
            self.send_kind(clients, worker, handle, timed.kind, &timed.content);
        }
    }

    fn send_kind(
        &self,
        clients: &Clients,
        worker: &mut Engine,
        handle: u64,
        kind: MessageKind,
        content: &[u8],
    ) {
        if self.sockjs.has_framed && clients.is_framed(handle) {
            clients.send_framed(worker, handle, kind, content);
            return;
        }
        // A client that has left takes nothing.
        let _ = match kind {
            MessageKind::Text => worker.send(handle, false, content),
            MessageKind::Binary => worker.send(handle, true, content),
            MessageKind::Ping => worker.net.send_control(handle, true, content),
            MessageKind::Pong => worker.net.send_control(handle, false, content),
        };
    }
}
