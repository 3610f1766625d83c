//! WebSockets of clients, with a WebSocket or WebSocket-over-HTTP to the origin: subscriptions, control messages and published
//! messages.

use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_edge_pushpin::stats::mode::Mode;
use fermata_engine::stats::Counter;
use fermata_engine::{RequestId, SocketId, missed};
use fermata_grip::filter::Filters;
use fermata_grip::instruct::KeepAliveMode;
use fermata_grip::item::{Item, MessageAction, MessageKind};
use fermata_grip::prefix::Prefix;
use fermata_grip::ws_control;
use fermata_grip::ws_control::{Control, ControlError, Timed};

use crate::client::clients::Clients;
use crate::client::delivery::{drop_item, excluded_by};
use crate::client::over_http::OverHttp;
use crate::client::session::{Kind, Session, Subscription};
use crate::client::socket::{
    ABNORMAL, AWAY, FAILED, NO_STATUS, NORMAL, Socket, Via, close_socket, send_control,
};
use crate::client::source::{Engine, ExchangeKey, Owner, Source};
use crate::routes::figures::Count;
use crate::server::holds::Holds;
use crate::server::sockjs::framed::send_framed;
use crate::server::tasks::{Ask, Task};
use crate::timers::{Timer, Timers};
use crate::upstream::exchange::Purpose;

impl Holds<'_> {
    pub(super) fn on_socket_due(&mut self, handle: RequestId) {
        if self.send_due(handle) {
            self.ask_events(handle);
        }
        self.clients.watch_socket(self.timers, handle);
    }

    /// Delivers an item to a socket.
    pub(super) fn on_item_of_socket(&mut self, handle: RequestId, channel: &[u8], item: &Item) {
        if let Some((action, content)) = self.judge(handle, channel, item) {
            self.give_socket(handle, action, content);
        }
    }

    /// Sends queued events to the origin, unless a request is in progress.
    pub(super) fn ask_events(&mut self, handle: RequestId) {
        let Some(session) = self.clients.sessions.get_mut(&handle) else {
            // The client left.
            return;
        };
        if let Kind::Socket(socket) = &mut session.kind
            && let Some(request) = socket.over().and_then(OverHttp::ask)
        {
            let mut source = session.source.clone();
            source.request = Rc::new(request);
            self.tasks.ask(Ask {
                purpose: Purpose::Events(None),
                ..Ask::new(Owner::Socket(handle), source)
            });
        }
    }

    /// Closes the exchange between a client and its origin, as the origin has requested. The client continues to receive published
    /// messages.
    fn detach(&mut self, handle: RequestId) {
        if let Some(socket) = self.clients.socket(handle) {
            socket.via = None;
        }
        self.tasks.add(Task::Abandon(ExchangeKey::Client(handle)));
        self.worker.net.resume_socket(SocketId::of(handle));
    }

    /// Sends a request to the origin of a socket now, if it uses WebSocket-over-HTTP.
    pub(super) fn refresh_socket(&mut self, handle: RequestId) {
        if let Some(over) = self.clients.socket(handle).and_then(Socket::over) {
            over.want_request();
            self.ask_events(handle);
        }
    }
}

impl Holds<'_> {
    /// Registers an open WebSocket.
    pub fn enter_socket(&mut self, handle: RequestId, source: Source, socket: Box<Socket>) {
        let implicit = source
            .target()
            .map_or(Vec::new(), |it| it.subscriptions.clone());
        let mut socket = socket;
        let is_sockjs = source.is_sockjs;
        if is_sockjs {
            self.pushpin.sockjs.has_framed = true;
            // SockJS requires an open frame before all messages. An error only means that the client has left.
            let _ = self.worker.send(SocketId::of(handle), false, b"o");
            socket.heartbeat_ms = self.worker.net.now_ms() + self.pushpin.sockjs.heartbeat_ms;
        }
        let id = match &socket.via {
            Some(Via::Http(over)) => Some(over.connection_id().to_vec()),
            Some(Via::Pass(_) | Via::Echo) | None => None,
        };
        let serial = self.clients.next_serial();
        let session = Session {
            source: source.clone(),
            subscriptions: Vec::new(),
            meta: Default::default(),
            kind: Kind::Socket(socket),
            serial,
        };
        self.clients.sessions.insert(handle, Box::new(session));
        self.reports().on_entered(handle, &source, Mode::Socket, id);
        for channel in implicit {
            self.subscribe(handle, channel.into_bytes(), None, Filters::default());
        }
        if is_sockjs {
            self.clients.watch_socket(self.timers, handle);
        }
    }

    fn subscribe(
        &mut self,
        handle: RequestId,
        channel: Vec<u8>,
        own: Option<Vec<u8>>,
        filters: Filters,
    ) {
        let subscriptions_max = self.policy.subscriptions_max;
        let Some(session) = self.clients.sessions.get_mut(&handle) else {
            return missed(());
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
            let line = format!("a subscription is ignored: {problem}");
            self.worker.net.log_for_client(LogLevel::Warning, &line);
            return;
        }
        if self
            .worker
            .subscribe_socket(SocketId::of(handle), &channel)
            .is_err()
        {
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
        self.reports()
            .on_subscribed(handle, &source, &channel, Mode::Socket);
    }

    /// Handles a message of the origin: a control message for the edge, or a message for the client.
    pub fn on_origin_message(&mut self, handle: RequestId, is_text: bool, message: &[u8]) {
        let socket = self.clients.socket(handle);
        let Some(socket) = socket.filter(|it| !it.is_gone && it.via.is_some()) else {
            // The client has left, or its origin has detached.
            return;
        };
        let Some(prefix) = socket.prefix.clone() else {
            return self.send_to_client(handle, is_text, message);
        };
        match ws_control::kind(message, is_text, &prefix) {
            ws_control::Kind::Control(json) => match ws_control::read(json) {
                Ok(control) => self.control(handle, control),
                Err(ControlError::FiltersTooMany) => close_socket(self.worker, handle, FAILED, b""),
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

    /// Executes a control message.
    pub fn control(&mut self, handle: RequestId, control: Control) {
        match control {
            Control::Subscribe { channel, filters } => {
                self.subscribe_by_origin(handle, channel, &filters);
            }
            Control::Unsubscribe { channel } => self.unsubscribe(handle, &channel),
            Control::Detach => self.detach(handle),
            Control::Session(id) => self.name_session(handle, id.as_deref().unwrap_or_default()),
            Control::SetMeta { name, value } => {
                if let Some(session) = self.clients.sessions.get_mut(&handle) {
                    match value {
                        Some(value) => session.meta.insert(name, value),
                        None => session.meta.remove(&name),
                    };
                }
            }
            Control::KeepAlive(timed) => {
                let timed = timed.map(|timed| self.due(timed));
                if let Some(socket) = self.clients.socket(handle) {
                    socket.keep_alive = timed;
                }
                self.clients.watch_socket(self.timers, handle);
            }
            Control::SendDelayed(timed) => {
                self.flush_delayed(handle);
                let timed = self.due(timed);
                if let Some(socket) = self.clients.socket(handle) {
                    socket.delayed = Some(timed);
                }
                self.clients.watch_socket(self.timers, handle);
            }
            Control::FlushDelayed => self.flush_delayed(handle),
        }
    }

    /// Returns a delayed or repeated message with its due time.
    fn due(&mut self, timed: Timed) -> (Timed, u64) {
        let due_ms = self.worker.net.now_ms() + u64::from(timed.timeout_s) * 1_000;
        (timed, due_ms)
    }

    fn subscribe_by_origin(&mut self, handle: RequestId, channel: Vec<u8>, filters: &[Vec<u8>]) {
        if let Some(name) = Filters::unknown(filters.iter().map(Vec::as_slice)) {
            let line = format!(
                "a WebSocket is closed: channel {} has the filter {}, which is not known here",
                channel.escape_ascii(),
                name.escape_ascii()
            );
            self.worker.net.log_for_client(LogLevel::Warning, &line);
            close_socket(self.worker, handle, FAILED, b"");
            return;
        }
        let Some(session) = self.clients.sessions.get(&handle) else {
            // The client left.
            return;
        };
        let rule = session.source.rule();
        let prefix = Prefix::new(rule.map_or(&b""[..], |it| it.prefix.as_bytes()));
        let public = prefix.public(&channel);
        let filters = Filters::from_names(filters.iter().map(Vec::as_slice));
        self.subscribe(handle, public, Some(channel), filters);
    }

    fn unsubscribe(&mut self, handle: RequestId, channel: &[u8]) {
        let Some(session) = self.clients.sessions.get_mut(&handle) else {
            // The client left.
            return;
        };
        let is_it = |it: &Subscription| it.own.as_deref() == Some(channel);
        let Some(at) = session.subscriptions.iter().position(is_it) else {
            return;
        };
        let subscription = session.subscriptions.remove(at);
        let source = session.source.clone();
        self.worker
            .unsubscribe_socket(SocketId::of(handle), &subscription.channel);
        self.reports()
            .on_unsubscribed(handle, &source, &subscription.channel);
    }

    /// Sets the session id of a client. Ignored without a session service.
    fn name_session(&mut self, handle: RequestId, id: &[u8]) {
        let ports = &mut self.publishing.ports;
        let keeper = self.pushpin.keeper(ports, self.timers, self.worker);
        if let Some(mut keeper) = keeper
            && let Some(session) = self.clients.sessions.get_mut(&handle)
        {
            keeper.name(&mut session.source, id);
        }
    }

    /// Sends keep-alive, delayed and heartbeat messages that are due. Returns true if a request without events to the origin is
    /// due.
    fn send_due(&mut self, handle: RequestId) -> bool {
        let (now_ms, heartbeat_ms) = (self.worker.net.now_ms(), self.pushpin.sockjs.heartbeat_ms);
        let Some(socket) = self.clients.socket(handle) else {
            // The client left.
            return false;
        };
        if socket.due_ms() > now_ms {
            // The due time moved after the timer was set.
            return false;
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
            self.send_kind(handle, kind, &content);
        }
        if is_delayed {
            self.flush_delayed(handle);
        }
        if is_silent {
            // SockJS heartbeat.
            let _ = self.worker.send(SocketId::of(handle), false, b"h");
        }
        is_idle
    }

    /// Sends a message to the client and restarts its idle time.
    pub fn send_to_client(&mut self, handle: RequestId, is_text: bool, message: &[u8]) {
        let kind = if is_text {
            MessageKind::Text
        } else {
            MessageKind::Binary
        };
        self.count_message(
            handle,
            Count::ClientMessagesSent,
            Count::ClientSent,
            message.len(),
        );
        self.send_kind(handle, kind, message);
        self.clients.touch_socket(self.worker, handle);
    }

    /// Returns the action of an item for a socket, with its content after filters; `None` if the item has no action for the socket.
    fn judge<'i>(
        &mut self,
        handle: RequestId,
        channel: &[u8],
        item: &'i Item,
    ) -> Option<(&'i MessageAction, Option<Vec<u8>>)> {
        let format = item.ws_message.as_ref()?;
        let session = self.clients.sessions.get_mut(&handle)?;
        let filters = session.subscription(channel)?.filters.clone();
        if let Some(counter) = excluded_by(session, &filters, &format.content_filters, item) {
            self.worker.net.count(counter, 1);
            return None;
        }
        let content = match &format.action {
            MessageAction::Send { content, .. } => match filters.content(&**session, content) {
                Ok(content) => Some(content.into_owned()),
                Err(error) => {
                    drop_item(self.worker, &error.to_string());
                    return None;
                }
            },
            _ => None,
        };
        Some((&format.action, content))
    }

    /// Runs the action of an item, with its content after filters.
    pub(super) fn give_socket(
        &mut self,
        handle: RequestId,
        action: &MessageAction,
        content: Option<Vec<u8>>,
    ) {
        match action {
            MessageAction::Send { kind, .. } => {
                self.send_kind(handle, *kind, &content.unwrap_or_default());
                self.clients.touch_socket(self.worker, handle);
            }
            MessageAction::Close { code, reason } => {
                let (code, reason) = (code.unwrap_or(NORMAL), reason.clone());
                close_socket(self.worker, handle, code, &reason);
            }
            MessageAction::Refresh => self.refresh_socket(handle),
            MessageAction::Hint => {}
        }
    }

    /// Counts a message from or to the client or the origin of a WebSocket.
    pub fn count_message(&self, handle: RequestId, messages: Count, content: Count, bytes: usize) {
        if let Some(session) = self.clients.sessions.get(&handle) {
            let counted = [(messages, 1), (content, bytes as u64)];
            self.route_figures
                .count_route(self.worker, &session.source, &counted);
        }
    }

    fn flush_delayed(&mut self, handle: RequestId) {
        if let Some(socket) = self.clients.socket(handle)
            && let Some((timed, _)) = socket.delayed.take()
        {
            self.send_kind(handle, timed.kind, &timed.content);
        }
    }

    fn send_kind(&mut self, handle: RequestId, kind: MessageKind, content: &[u8]) {
        if self.pushpin.sockjs.has_framed && self.clients.is_framed(handle) {
            send_framed(self.worker, handle, kind, content);
            return;
        }
        // An error only means that the client has left.
        let socket = SocketId::of(handle);
        let _ = match kind {
            MessageKind::Text => self.worker.send(socket, false, content).is_ok(),
            MessageKind::Binary => self.worker.send(socket, true, content).is_ok(),
            MessageKind::Ping => send_control(self.worker, handle, true, content),
            MessageKind::Pong => send_control(self.worker, handle, false, content),
        };
    }
}

impl Clients {
    /// Closes the client's socket after the origin closed.
    pub(super) fn on_origin_close(
        &mut self,
        worker: &mut Engine,
        handle: RequestId,
        code: u16,
        reason: &[u8],
    ) {
        if let Some(socket) = self.socket(handle) {
            if socket.via.take().is_none() {
                // The origin has detached; the client stays connected.
                return;
            }
            if socket.is_gone {
                // The client had left, and its last messages have now been sent.
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

    /// Returns the WebSocket state of a session.
    pub(super) fn socket(&mut self, handle: RequestId) -> Option<&mut Socket> {
        match &mut self.sessions.get_mut(&handle)?.kind {
            Kind::Socket(socket) => Some(socket),
            Kind::Poll(_) | Kind::Stream(_) => None,
        }
    }

    /// Sets the timer for the next due time of a socket.
    pub(super) fn watch_socket(&mut self, timers: &mut Timers, handle: RequestId) {
        if let Some(due_ms) = self.socket(handle).map(|it| it.due_ms())
            && due_ms != u64::MAX
        {
            timers.at(due_ms, Timer::Socket(handle));
        }
    }

    fn touch_socket(&mut self, worker: &mut Engine, handle: RequestId) {
        let now_ms = worker.net.now_ms();
        if let Some(socket) = self.socket(handle)
            && let Some((timed, due_ms)) = &mut socket.keep_alive
            && timed.mode == KeepAliveMode::Idle
        {
            *due_ms = now_ms + u64::from(timed.timeout_s) * 1_000;
        }
    }
}
