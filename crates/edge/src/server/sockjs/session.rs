//! Polling sessions: the client of a WebSocket in this worker, for a browser that only asks.

use fermata_config::LogLevel;
use fermata_engine::WireEvent;
use fermata_proto::response_reader::{RequestKind, ResponseReader};
use fermata_proto::ws::client::{Client, Received};
use fermata_proto::ws::message::Kind;
use fermata_sockjs::queue::{Asker, Due, Queue};

use crate::client::clients::Clients;
use crate::client::source::Engine;
use crate::client::source::{HANDLER_SESSIONS, Source};
use crate::pushpin::parts::Pushpin;
use crate::pushpin::sockjs::session::{Name, Session, Stage, Step};
use crate::server::edge::Edge;
use crate::timers::Timer;
use crate::upstream::connections::WireUse;
use crate::upstream::parts::Upstream;
use crate::upstream::response::{ResponsePart, of_http};

/// The largest message of a backend, and the largest response in place of a WebSocket.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
const REFUSAL_BYTES_MAX: usize = 100_000;

/// The status of a handshake that is made.
const SWITCHED: u16 = 101;

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// The code of a session whose WebSocket has ended without a word.
const AWAY: u16 = 1001;

impl Edge {
    /// Begins a session for its first request, which hears when it is open.
    pub(super) fn open_session(&mut self, name: Name, source: Source, asker: Asker) {
        if self.pushpin.sockjs.sessions.len() >= self.pushpin.sockjs.sessions_max {
            let line = format!(
                "a SockJS session is refused: this worker has {} (sockjs_sessions_max)",
                self.pushpin.sockjs.sessions_max
            );
            self.worker.net.log_for_client(LogLevel::Warning, &line);
            return self.pushpin.refuse_asker(
                &mut self.clients,
                &mut self.worker,
                &asker,
                503,
                "Too many sessions.",
            );
        }
        if self.worker.defer(asker.handle).is_err() {
            self.clients.forget_request(&mut self.worker, asker.handle);
            return;
        }
        let wire = match self.worker.connect_self(HANDLER_SESSIONS) {
            Ok(wire) => wire,
            Err(error) => {
                let line = format!("a SockJS session is refused: {error}");
                self.worker.net.log_for_client(LogLevel::Warning, &line);
                return self.pushpin.refuse_asker(
                    &mut self.clients,
                    &mut self.worker,
                    &asker,
                    503,
                    "Too many sessions.",
                );
            }
        };
        self.pushpin.sockjs.last += 1;
        let id = self.pushpin.sockjs.last;
        // The number says which session it is; a key that nobody has to guess may be the same each time.
        let out = format!(
            "GET /{id} HTTP/1.1\r\nHost: edge\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        let mut source = source;
        source.is_sockjs = false;
        let (heartbeat_ms, linger_ms) = (
            self.pushpin.sockjs.heartbeat_ms,
            self.pushpin.sockjs.linger_ms,
        );
        self.pushpin.sockjs.asking.insert(asker.handle, id);
        let session = Session {
            name: name.clone(),
            source: Some(source),
            wire,
            stage: Stage::Opening {
                reader: ResponseReader::new(RequestKind {
                    is_head: false,
                    wants_upgrade: true,
                }),
                refusal: None,
            },
            can_read: false,
            out: out.into_bytes(),
            queue: Queue::new(asker, heartbeat_ms, linger_ms),
            sender: None,
        };
        self.upstream.connections.give(wire, WireUse::Session(id));
        self.pushpin.sockjs.by_name.insert(name, id);
        self.pushpin.sockjs.sessions.insert(id, Box::new(session));
        self.pump_session(id);
    }

    /// The WebSocket of a session asks for its handshake: what its browser has asked goes to the backend.
    pub(in crate::server) fn on_session_handshake(&mut self) {
        let view = self.worker.request();
        let handle = view.handle();
        let id = view.target().strip_prefix(b"/");
        let id = id.and_then(fermata_proto::number::parse_decimal);
        let source = id
            .and_then(|id| self.pushpin.sockjs.sessions.get_mut(&id))
            .and_then(|session| session.source.take());
        match source {
            Some(source) => self.begin_socket(handle, source),
            // Its client has left before.
            None => self
                .clients
                .answer_text(&mut self.worker, handle, 404, "Not Found"),
        }
    }

    /// A request asks what there is.
    pub(super) fn poll_session(&mut self, id: u64, asker: Asker) {
        if self.worker.defer(asker.handle).is_err() {
            self.clients.forget_request(&mut self.worker, asker.handle);
            return;
        }
        let now_ms = self.worker.net.now_ms();
        let Some(session) = self.pushpin.sockjs.sessions.get_mut(&id) else {
            return self.pushpin.refuse_asker(
                &mut self.clients,
                &mut self.worker,
                &asker,
                404,
                "Not Found",
            );
        };
        self.pushpin.sockjs.asking.insert(asker.handle, id);
        if let Some((asker, frame)) = session.queue.ask(now_ms, asker) {
            self.pushpin
                .reply(&mut self.clients, &mut self.worker, &asker, &frame);
        }
        // There is room now for what the backend says.
        self.pump_session(id);
    }

    /// A request brings messages.
    pub(super) fn take_messages(&mut self, id: u64, asker: Asker, messages: Vec<String>) {
        let Some(session) = self.pushpin.sockjs.sessions.get_mut(&id) else {
            return self.pushpin.refuse_asker(
                &mut self.clients,
                &mut self.worker,
                &asker,
                404,
                "Not Found",
            );
        };
        if session.sender.is_some() {
            return self.pushpin.refuse_asker(
                &mut self.clients,
                &mut self.worker,
                &asker,
                400,
                "Already sending",
            );
        }
        let client = match &mut session.stage {
            Stage::Open(client) => client,
            Stage::Opening { .. } => {
                return self.pushpin.refuse_asker(
                    &mut self.clients,
                    &mut self.worker,
                    &asker,
                    404,
                    "Not Found",
                );
            }
            Stage::Ended => {
                let end = session.queue.end().unwrap_or_default();
                return self
                    .pushpin
                    .reply(&mut self.clients, &mut self.worker, &asker, &end);
            }
        };
        for message in messages {
            // After the backend's close nothing is sent any more; the next poll hears of it.
            let mask = self.upstream.masks.next();
            let _ = client.send(Kind::Text, message.as_bytes(), mask, &mut session.out);
        }
        session.sender = Some(asker);
        self.pump_session(id);
        // One whose messages wait is watched, so that it can be told when they have gone.
        let Some(session) = self.pushpin.sockjs.sessions.get_mut(&id) else {
            return;
        };
        if let Some(handle) = session.sender.as_ref().map(|it| it.handle) {
            self.pushpin.sockjs.asking.insert(handle, id);
            let _ = self.worker.defer(handle);
        }
    }

    /// Something happened at the WebSocket of a session.
    pub(in crate::server) fn on_session_wire(&mut self, id: u64, event: WireEvent) {
        if let Some(session) = self.pushpin.sockjs.sessions.get_mut(&id) {
            session.can_read |= event.readable || event.hangup;
        }
        self.pump_session(id);
    }

    /// The client of a waiting request has left.
    pub(in crate::server) fn on_asker_left(&mut self, handle: u64) {
        if self.pushpin.sockjs.asking.is_empty() {
            return;
        }
        let Some(id) = self.pushpin.sockjs.asking.remove(&handle) else {
            return;
        };
        let now_ms = self.worker.net.now_ms();
        let Some(session) = self.pushpin.sockjs.sessions.get_mut(&id) else {
            return;
        };
        session.sender.take_if(|it| it.handle == handle);
        if !session.queue.leave(now_ms, handle) {
            return;
        }
        // The backend hears at once that nobody listens, and the client for a while that it was it who has left.
        let was_open = matches!(session.stage, Stage::Open(_));
        session.stage = Stage::Ended;
        let wire = std::mem::take(&mut session.wire);
        self.upstream.close_session_wire(&mut self.worker, wire);
        match was_open {
            true => self.watch_session(id),
            false => self.forget_session(id),
        }
    }

    /// A session's time has come.
    pub(in crate::server) fn on_session_due(&mut self, id: u64) {
        let now_ms = self.worker.net.now_ms();
        let Some(session) = self.pushpin.sockjs.sessions.get_mut(&id) else {
            return;
        };
        match session.queue.expire(now_ms) {
            // Its clients poll.
            Due::At(_) | Due::Pulse(_) | Due::Finish(_) => {}
            Due::Beat(asker) => {
                self.pushpin
                    .reply(&mut self.clients, &mut self.worker, &asker, "h")
            }
            Due::Over => return self.forget_session(id),
        }
        self.watch_session(id);
    }

    fn watch_session(&mut self, id: u64) {
        if let Some(session) = self.pushpin.sockjs.sessions.get(&id)
            && session.queue.due_ms() != u64::MAX
        {
            self.timers.at(session.queue.due_ms(), Timer::Session(id));
        }
    }

    fn forget_session(&mut self, id: u64) {
        self.timers.forget(Timer::Session(id));
        let Some(session) = self.pushpin.sockjs.sessions.remove(&id) else {
            return;
        };
        self.pushpin.sockjs.by_name.remove(&session.name);
        self.upstream
            .close_session_wire(&mut self.worker, session.wire);
        if let Some(asker) = session.sender {
            self.pushpin.refuse_asker(
                &mut self.clients,
                &mut self.worker,
                &asker,
                404,
                "Not Found",
            );
        }
    }

    /// Sends and reads what can be sent and read, and answers requests that wait for it.
    fn pump_session(&mut self, id: u64) {
        let Some(mut session) = self.pushpin.sockjs.sessions.remove(&id) else {
            return;
        };
        let mut step = self.flush_session(&mut session);
        let mut buffer = vec![0; READ_BYTES];
        while step == Step::Goes
            && session.wire != 0
            && session.can_read
            && session.queue.has_room()
        {
            step = match self.worker.net.recv_wire(session.wire, &mut buffer) {
                Ok(None) => {
                    session.can_read = false;
                    Step::Goes
                }
                Ok(Some(0)) | Err(_) => self.on_session_end(&mut session),
                Ok(Some(len)) => self.on_session_bytes(&mut session, &buffer[..len]),
            };
        }
        let now_ms = self.worker.net.now_ms();
        if !matches!(session.stage, Stage::Opening { .. })
            && let Some((asker, frame)) = session.queue.answer(now_ms)
        {
            self.pushpin
                .reply(&mut self.clients, &mut self.worker, &asker, &frame);
        }
        self.pushpin.sockjs.sessions.insert(id, session);
        match step {
            Step::Goes => self.watch_session(id),
            Step::Over => self.forget_session(id),
        }
    }

    fn flush_session(&mut self, session: &mut Session) -> Step {
        while session.wire != 0 && !session.out.is_empty() {
            match self.worker.net.send_wire(session.wire, &session.out) {
                Ok(Some(len)) => {
                    session.out.drain(..len);
                }
                Ok(None) => return Step::Goes,
                Err(_) => return self.on_session_end(session),
            }
        }
        if let Some(asker) = session.sender.take() {
            self.pushpin
                .reply_ok(&mut self.clients, &mut self.worker, &asker);
        }
        Step::Goes
    }

    fn on_session_bytes(&mut self, session: &mut Session, bytes: &[u8]) -> Step {
        match &mut session.stage {
            Stage::Ended => Step::Goes,
            Stage::Open(_) => self.on_session_frames(session, bytes.to_vec()),
            Stage::Opening { reader, refusal } => {
                let mut events = Vec::new();
                let outcome = reader.handle(bytes, &mut events);
                let mut rest = None;
                let mut is_whole = outcome.is_err();
                for part in events.into_iter().filter_map(of_http) {
                    match part {
                        ResponsePart::Head(head) if head.status == SWITCHED => {
                            rest = Some(Vec::new())
                        }
                        ResponsePart::Head(head) => *refusal = Some((head, Vec::new())),
                        ResponsePart::Body(piece) => {
                            if let Some((_, body)) = refusal {
                                body.extend_from_slice(&piece);
                                is_whole |= body.len() > REFUSAL_BYTES_MAX;
                            }
                        }
                        ResponsePart::Trailers(_) => {}
                        ResponsePart::Upgraded(bytes) => rest = Some(bytes),
                        ResponsePart::End { .. } => is_whole = true,
                    }
                }
                match (rest, is_whole) {
                    (Some(bytes), _) => self.on_session_open(session, bytes),
                    (None, true) => self.pushpin.on_session_refused(
                        &mut self.clients,
                        &mut self.worker,
                        session,
                    ),
                    (None, false) => Step::Goes,
                }
            }
        }
    }

    fn on_session_open(&mut self, session: &mut Session, rest: Vec<u8>) -> Step {
        session.stage = Stage::Open(Box::new(Client::new(None, MESSAGE_BYTES_MAX)));
        let now_ms = self.worker.net.now_ms();
        if let Some(asker) = session.queue.take_poll(now_ms) {
            self.pushpin
                .reply(&mut self.clients, &mut self.worker, &asker, "o");
        }
        self.on_session_frames(session, rest)
    }

    fn on_session_frames(&mut self, session: &mut Session, bytes: Vec<u8>) -> Step {
        let mut bytes = bytes;
        let mut rest = &mut bytes[..];
        let Stage::Open(client) = &mut session.stage else {
            return Step::Goes;
        };
        let mut has_ended = false;
        while !rest.is_empty() && !has_ended {
            let consumed = match client.handle(rest, self.upstream.masks.next(), &mut session.out) {
                Ok((consumed, received)) => {
                    match received {
                        Some(Received::Message(_, message)) => {
                            let message = String::from_utf8_lossy(message).into_owned();
                            session.queue.push(message);
                        }
                        Some(Received::Closed { code, reason }) => {
                            session.queue.close(code, &reason);
                            has_ended = true;
                        }
                        Some(Received::Ping(_) | Received::Pong(_)) | None => {}
                    }
                    consumed
                }
                Err(_) => {
                    session.queue.close(AWAY, "");
                    has_ended = true;
                    0
                }
            };
            rest = &mut rest[consumed..];
        }
        let step = self.flush_session(session);
        if has_ended {
            session.stage = Stage::Ended;
            let wire = std::mem::take(&mut session.wire);
            self.upstream.close_session_wire(&mut self.worker, wire);
        }
        step
    }

    /// The WebSocket has ended without a close.
    fn on_session_end(&mut self, session: &mut Session) -> Step {
        let wire = std::mem::take(&mut session.wire);
        self.upstream.close_session_wire(&mut self.worker, wire);
        if let Stage::Opening { .. } = session.stage {
            return self
                .pushpin
                .on_session_refused(&mut self.clients, &mut self.worker, session);
        }
        session.stage = Stage::Ended;
        session.queue.close(AWAY, "");
        if let Some(asker) = session.sender.take() {
            let end = session.queue.end().unwrap_or_default();
            self.pushpin
                .reply(&mut self.clients, &mut self.worker, &asker, &end);
        }
        Step::Goes
    }
}

impl Upstream {
    fn close_session_wire(&mut self, worker: &mut Engine, wire: u64) {
        if wire != 0 {
            self.connections.close(worker, wire);
        }
    }
}

impl Pushpin {
    fn on_session_refused(
        &mut self,
        clients: &mut Clients,
        worker: &mut Engine,
        session: &mut Session,
    ) -> Step {
        let now_ms = worker.net.now_ms();
        let Some(asker) = session.queue.take_poll(now_ms) else {
            return Step::Over;
        };
        let stage = std::mem::replace(&mut session.stage, Stage::Ended);
        match stage {
            Stage::Opening {
                refusal: Some((head, body)),
                ..
            } if body.len() <= REFUSAL_BYTES_MAX => {
                let mut head = head;
                head.length = None;
                self.relay_refusal(clients, worker, &asker, head, &body);
            }
            _ => self.refuse_asker(clients, worker, &asker, 502, crate::upstream::reply::FAILED),
        }
        Step::Over
    }
}
