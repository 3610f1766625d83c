//! Polling sessions: the client of a WebSocket in this worker, for a browser that only asks.

use fermata_config::LogLevel;
use fermata_engine::WireEvent;
use fermata_sockjs::queue::{Asker, Due, Queue};

use crate::client::clients::Clients;
use crate::client::source::Engine;
use crate::client::source::{HANDLER_SESSIONS, Source};
use crate::pushpin::parts::Pushpin;
use crate::pushpin::sockjs::session::{Name, Reply, Session, Step};
use crate::server::edge::Edge;
use crate::timers::Timer;
use crate::upstream::connections::WireUse;
use crate::upstream::parts::Upstream;
use crate::upstream::reply::FAILED;

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

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
        let mut source = source;
        source.is_sockjs = false;
        let sockjs = &mut self.pushpin.sockjs;
        sockjs.asking.insert(asker.handle, id);
        let queue = Queue::new(asker, sockjs.heartbeat_ms, sockjs.linger_ms);
        let session = Session::new(name.clone(), source, id, wire, queue);
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
            let (clients, worker) = (&mut self.clients, &mut self.worker);
            return self.pushpin.answer(clients, worker, asker, Reply::NotFound);
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
            let (clients, worker) = (&mut self.clients, &mut self.worker);
            return self.pushpin.answer(clients, worker, asker, Reply::NotFound);
        };
        session.send(asker, messages, &mut self.upstream.masks);
        self.pump_session(id);
        // One whose messages wait is watched, so that it can be told when they have gone.
        if let Some(session) = self.pushpin.sockjs.sessions.get_mut(&id)
            && let Some(handle) = session.sender()
            && !self.pushpin.sockjs.asking.contains_key(&handle)
        {
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
        let Some(was_open) = session.leave(now_ms, handle) else {
            return;
        };
        // The backend hears at once that nobody listens, and the client for a while that it was it who has left.
        let wire = session.wire.take();
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
        self.answer_session(session.into_replies());
    }

    /// Sends and reads what can be sent and read, and answers requests that wait for it.
    fn pump_session(&mut self, id: u64) {
        let Some(session) = self.pushpin.sockjs.sessions.get_mut(&id) else {
            // It was closed behind what this is about.
            return;
        };
        let step = self.upstream.pump(&mut self.worker, session);
        let replies = session.take_replies(self.worker.net.now_ms());
        self.answer_session(replies);
        match step {
            Step::Goes => self.watch_session(id),
            Step::Over => self.forget_session(id),
        }
    }

    fn answer_session(&mut self, replies: Vec<(Asker, Reply)>) {
        for (asker, reply) in replies {
            self.pushpin
                .answer(&mut self.clients, &mut self.worker, asker, reply);
        }
    }
}

impl Upstream {
    fn pump(&mut self, worker: &mut Engine, session: &mut Session) -> Step {
        let mut step = self.flush(worker, session);
        let mut buffer = Vec::new();
        while let Some(wire) = session.wire
            && step == Step::Goes
            && session.can_read
            && session.queue.has_room()
        {
            buffer.resize(READ_BYTES, 0);
            let now_ms = worker.net.now_ms();
            step = match worker.net.recv_wire(wire, &mut buffer) {
                Ok(None) => {
                    session.can_read = false;
                    Step::Goes
                }
                Ok(Some(0)) | Err(_) => self.end(worker, session),
                Ok(Some(len)) => {
                    let step = session.handle(&mut buffer[..len], &mut self.masks, now_ms);
                    match step {
                        Step::Goes => self.flush(worker, session),
                        Step::Over => Step::Over,
                    }
                }
            };
            if session.has_ended() {
                let wire = session.wire.take();
                self.close_session_wire(worker, wire);
            }
        }
        step
    }

    fn flush(&mut self, worker: &mut Engine, session: &mut Session) -> Step {
        while let Some(wire) = session.wire
            && !session.out.is_empty()
        {
            match worker.net.send_wire(wire, &session.out) {
                Ok(Some(len)) => {
                    session.out.drain(..len);
                }
                Ok(None) => return Step::Goes,
                Err(_) => return self.end(worker, session),
            }
        }
        session.on_sent();
        Step::Goes
    }

    /// The WebSocket has ended without a close.
    fn end(&mut self, worker: &mut Engine, session: &mut Session) -> Step {
        let wire = session.wire.take();
        self.close_session_wire(worker, wire);
        session.handle_end(worker.net.now_ms())
    }

    fn close_session_wire(&mut self, worker: &mut Engine, wire: Option<u64>) {
        if let Some(wire) = wire {
            self.connections.close(worker, wire);
        }
    }
}

impl Pushpin {
    /// Answers a request of a session.
    fn answer(&mut self, clients: &mut Clients, worker: &mut Engine, asker: Asker, reply: Reply) {
        match reply {
            Reply::Frame(frame) => self.reply(clients, worker, &asker, &frame),
            Reply::Taken => self.reply_ok(clients, worker, &asker),
            Reply::NotFound => self.refuse_asker(clients, worker, &asker, 404, "Not Found"),
            Reply::SendsAlready => {
                self.refuse_asker(clients, worker, &asker, 400, "Already sending")
            }
            Reply::Refused(head, body) => self.relay_refusal(clients, worker, &asker, head, &body),
            Reply::Failed => self.refuse_asker(clients, worker, &asker, 502, FAILED),
        }
    }
}
