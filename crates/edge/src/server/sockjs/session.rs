//! Polling sessions: the client of a WebSocket in this worker, for a browser that only asks.

use fermata_config::LogLevel;
use fermata_engine::missed;
use fermata_engine::{RequestId, WireEvent, WireId};
use fermata_io::random::Masks;
use fermata_sockjs::queue::{Asker, Due, Queue};

use super::Polling;
use crate::client::source::{Engine, HANDLER_SESSIONS, Source};
use crate::pushpin::sockjs::session::{Name, Reply, Session, Step};
use crate::server::edge::Edge;
use crate::timers::Timer;
use crate::upstream::connections::{Connections, WireUse};
use crate::upstream::reply::FAILED;

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

impl Edge {
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
}

impl Polling<'_> {
    /// Begins a session for its first request, which hears when it is open.
    pub fn open(&mut self, name: Name, source: Source, asker: Asker<RequestId>) {
        if self.sockjs.sessions.len() >= self.sockjs.sessions_max {
            let line = format!(
                "a SockJS session is refused: this worker has {} (sockjs_sessions_max)",
                self.sockjs.sessions_max
            );
            self.worker.net.log_for_client(LogLevel::Warning, &line);
            return self.refuse_asker(&asker, 503, "Too many sessions.");
        }
        if self.worker.defer(asker.handle).is_err() {
            self.clients.forget_request(self.worker, asker.handle);
            return;
        }
        let wire = match self.worker.connect_self(HANDLER_SESSIONS) {
            Ok(wire) => wire,
            Err(error) => {
                let line = format!("a SockJS session is refused: {error}");
                self.worker.net.log_for_client(LogLevel::Warning, &line);
                return self.refuse_asker(&asker, 503, "Too many sessions.");
            }
        };
        self.sockjs.last += 1;
        let id = self.sockjs.last;
        let mut source = source;
        source.is_sockjs = false;
        let sockjs = &mut *self.sockjs;
        sockjs.asking.insert(asker.handle, id);
        let queue = Queue::new(asker, sockjs.heartbeat_ms, sockjs.linger_ms);
        let session = Session::new(name.clone(), source, id, wire, queue);
        self.connections.give(wire, WireUse::Session(id));
        self.sockjs.by_name.insert(name, id);
        self.sockjs.sessions.insert(id, Box::new(session));
        self.pump(id);
    }

    /// A request asks what there is.
    pub fn poll(&mut self, id: u64, asker: Asker<RequestId>) {
        if self.worker.defer(asker.handle).is_err() {
            self.clients.forget_request(self.worker, asker.handle);
            return;
        }
        let now_ms = self.worker.net.now_ms();
        let Some(session) = self.sockjs.sessions.get_mut(&id) else {
            return self.answer(asker, missed(Reply::NotFound));
        };
        self.sockjs.asking.insert(asker.handle, id);
        if let Some((asker, frame)) = session.queue.ask(now_ms, asker) {
            self.reply(&asker, &frame);
        }
        // There is room now for what the backend says.
        self.pump(id);
    }

    /// A request brings messages.
    pub fn take_messages(&mut self, id: u64, asker: Asker<RequestId>, messages: Vec<String>) {
        let Some(session) = self.sockjs.sessions.get_mut(&id) else {
            return self.answer(asker, missed(Reply::NotFound));
        };
        session.send(asker, messages, self.masks);
        self.pump(id);
        // One whose messages wait is watched, so that it can be told when they have gone.
        if let Some(session) = self.sockjs.sessions.get_mut(&id)
            && let Some(handle) = session.sender()
            && !self.sockjs.asking.contains_key(&handle)
        {
            self.sockjs.asking.insert(handle, id);
            let _ = self.worker.defer(handle);
        }
    }

    /// Something happened at the WebSocket of a session.
    pub fn on_wire(&mut self, id: u64, event: WireEvent) {
        if let Some(session) = self.sockjs.sessions.get_mut(&id) {
            session.can_read |= event.readable || event.hangup;
        }
        self.pump(id);
    }

    /// The client of a waiting request has left.
    pub fn on_asker_left(&mut self, handle: RequestId) {
        if self.sockjs.asking.is_empty() {
            return;
        }
        let Some(id) = self.sockjs.asking.remove(&handle) else {
            // It asks for no polling session.
            return;
        };
        let now_ms = self.worker.net.now_ms();
        let Some(session) = self.sockjs.sessions.get_mut(&id) else {
            // Its session is over.
            return;
        };
        let Some(was_open) = session.leave(now_ms, handle) else {
            return;
        };
        // The backend hears at once that nobody listens, and the client for a while that it was it who has left.
        let wire = session.wire.take();
        self.wires().close(wire);
        match was_open {
            true => self.watch(id),
            false => self.forget(id),
        }
    }

    /// A session's time has come.
    pub fn on_due(&mut self, id: u64) {
        let now_ms = self.worker.net.now_ms();
        let Some(session) = self.sockjs.sessions.get_mut(&id) else {
            return missed(());
        };
        match session.queue.expire(now_ms) {
            // Its clients poll.
            Due::At(_) | Due::Pulse(_) | Due::Finish(_) => {}
            Due::Beat(asker) => self.reply(&asker, "h"),
            Due::Over => return self.forget(id),
        }
        self.watch(id);
    }

    fn watch(&mut self, id: u64) {
        if let Some(session) = self.sockjs.sessions.get(&id)
            && session.queue.due_ms() != u64::MAX
        {
            self.timers.at(session.queue.due_ms(), Timer::Session(id));
        }
    }

    fn forget(&mut self, id: u64) {
        self.timers.forget(Timer::Session(id));
        let Some(session) = self.sockjs.sessions.remove(&id) else {
            return missed(());
        };
        self.sockjs.by_name.remove(&session.name);
        self.wires().close(session.wire);
        self.answer_all(session.into_replies());
    }

    /// Sends and reads what can be sent and read, and answers requests that wait for it.
    fn pump(&mut self, id: u64) {
        let Some(session) = self.sockjs.sessions.get_mut(&id) else {
            // It was closed behind what this is about.
            return;
        };
        let step = Wires {
            connections: self.connections,
            masks: self.masks,
            worker: self.worker,
        }
        .pump(session);
        let replies = session.take_replies(self.worker.net.now_ms());
        self.answer_all(replies);
        match step {
            Step::Goes => self.watch(id),
            Step::Over => self.forget(id),
        }
    }

    fn answer_all(&mut self, replies: Vec<(Asker<RequestId>, Reply)>) {
        for (asker, reply) in replies {
            self.answer(asker, reply);
        }
    }

    /// Answers a request of a session.
    fn answer(&mut self, asker: Asker<RequestId>, reply: Reply) {
        match reply {
            Reply::Frame(frame) => self.reply(&asker, &frame),
            Reply::Taken => self.reply_ok(&asker),
            Reply::NotFound => self.refuse_asker(&asker, 404, "Not Found"),
            Reply::SendsAlready => self.refuse_asker(&asker, 400, "Already sending"),
            Reply::Refused(head, body) => self.relay_refusal(&asker, head, &body),
            Reply::Failed => self.refuse_asker(&asker, 502, FAILED),
        }
    }

    fn wires(&mut self) -> Wires<'_> {
        Wires {
            connections: self.connections,
            masks: self.masks,
            worker: self.worker,
        }
    }
}

/// What the WebSocket of a session goes over.
struct Wires<'a> {
    connections: &'a mut Connections,
    masks: &'a mut Masks,
    worker: &'a mut Engine,
}

impl Wires<'_> {
    fn pump(&mut self, session: &mut Session) -> Step {
        let mut step = self.flush(session);
        let mut buffer = Vec::new();
        while let Some(wire) = session.wire
            && step == Step::Goes
            && session.can_read
            && session.queue.has_room()
        {
            buffer.resize(READ_BYTES, 0);
            let now_ms = self.worker.net.now_ms();
            step = match self.worker.net.recv_wire(wire, &mut buffer) {
                Ok(None) => {
                    session.can_read = false;
                    Step::Goes
                }
                Ok(Some(0)) | Err(_) => self.end(session),
                Ok(Some(len)) => {
                    let step = session.handle(&mut buffer[..len], self.masks, now_ms);
                    match step {
                        Step::Goes => self.flush(session),
                        Step::Over => Step::Over,
                    }
                }
            };
            if session.has_ended() {
                let wire = session.wire.take();
                self.close(wire);
            }
        }
        step
    }

    fn flush(&mut self, session: &mut Session) -> Step {
        while let Some(wire) = session.wire
            && !session.out.is_empty()
        {
            match self.worker.net.send_wire(wire, &session.out) {
                Ok(Some(len)) => {
                    session.out.drain(..len);
                }
                Ok(None) => return Step::Goes,
                Err(_) => return self.end(session),
            }
        }
        session.on_sent();
        Step::Goes
    }

    /// The WebSocket has ended without a close.
    fn end(&mut self, session: &mut Session) -> Step {
        let wire = session.wire.take();
        self.close(wire);
        session.handle_end(self.worker.net.now_ms())
    }

    fn close(&mut self, wire: Option<WireId>) {
        if let Some(wire) = wire {
            self.connections.close(self.worker, wire);
        }
    }
}
