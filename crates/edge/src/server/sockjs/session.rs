//! Polling sessions: each is the client of a WebSocket in this worker, on behalf of a polling browser.

use fermata_config::LogLevel;
use fermata_engine::missed;
use fermata_engine::{RequestId, WireEvent, WireId};
use fermata_io::random::Masks;
use fermata_sockjs::queue::{Due, PendingRequest, Queue};

use super::Polling;
use crate::client::source::{Engine, HANDLER_SESSIONS, Source};
use crate::pushpin::sockjs::session::{Name, Reply, Session, Step};
use crate::server::edge::Edge;
use crate::timers::Timer;
use crate::upstream::connections::{Connections, WireUse};
use crate::upstream::reply::FAILED;

/// Maximum number of bytes per read.
const READ_BYTES: usize = 16 * 1024;

impl Edge {
    /// Handles the handshake of a session's WebSocket: forwards the browser's request to the origin.
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
            // The client left.
            None => self
                .clients
                .answer_text(&mut self.worker, handle, 404, "Not Found"),
        }
    }
}

impl Polling<'_> {
    /// Opens a session for its first request. The request waits until the session is open.
    pub fn open(&mut self, name: Name, source: Source, pending: PendingRequest<RequestId>) {
        if self.sockjs.sessions.len() >= self.sockjs.sessions_max {
            let line = format!(
                "a SockJS session is refused: this worker has {} (sockjs_sessions_max)",
                self.sockjs.sessions_max
            );
            self.worker.net.log_for_client(LogLevel::Warning, &line);
            return self.refuse_pending(&pending, 503, "Too many sessions.");
        }
        if self.worker.defer(pending.handle).is_err() {
            self.clients.forget_request(self.worker, pending.handle);
            return;
        }
        let wire = match self.worker.connect_self(HANDLER_SESSIONS) {
            Ok(wire) => wire,
            Err(error) => {
                let line = format!("a SockJS session is refused: {error}");
                self.worker.net.log_for_client(LogLevel::Warning, &line);
                return self.refuse_pending(&pending, 503, "Too many sessions.");
            }
        };
        self.sockjs.last += 1;
        let id = self.sockjs.last;
        let mut source = source;
        source.is_sockjs = false;
        let sockjs = &mut *self.sockjs;
        sockjs.asking.insert(pending.handle, id);
        let queue = Queue::new(pending, sockjs.heartbeat_ms, sockjs.linger_ms);
        let session = Session::new(name.clone(), source, id, wire, queue);
        self.connections.give(wire, WireUse::Session(id));
        self.sockjs.by_name.insert(name, id);
        self.sockjs.sessions.insert(id, Box::new(session));
        self.pump(id);
    }

    /// Handles a request that polls for messages.
    pub fn poll(&mut self, id: u64, pending: PendingRequest<RequestId>) {
        if self.worker.defer(pending.handle).is_err() {
            self.clients.forget_request(self.worker, pending.handle);
            return;
        }
        let now_ms = self.worker.net.now_ms();
        let Some(session) = self.sockjs.sessions.get_mut(&id) else {
            return self.answer(pending, missed(Reply::NotFound));
        };
        self.sockjs.asking.insert(pending.handle, id);
        if let Some((pending, frame)) = session.queue.ask(now_ms, pending) {
            self.reply(&pending, &frame);
        }
        // The queue has room again.
        self.pump(id);
    }

    /// Handles a request with messages.
    pub fn take_messages(
        &mut self,
        id: u64,
        pending: PendingRequest<RequestId>,
        messages: Vec<String>,
    ) {
        let Some(session) = self.sockjs.sessions.get_mut(&id) else {
            return self.answer(pending, missed(Reply::NotFound));
        };
        session.send(pending, messages, self.masks);
        self.pump(id);
        // The response waits until the messages were sent.
        if let Some(session) = self.sockjs.sessions.get_mut(&id)
            && let Some(handle) = session.sender()
            && !self.sockjs.asking.contains_key(&handle)
        {
            self.sockjs.asking.insert(handle, id);
            let _ = self.worker.defer(handle);
        }
    }

    /// Handles an event of a session's WebSocket.
    pub fn on_wire(&mut self, id: u64, event: WireEvent) {
        if let Some(session) = self.sockjs.sessions.get_mut(&id) {
            session.can_read |= event.readable || event.hangup;
        }
        self.pump(id);
    }

    /// Handles the disconnect of a waiting client.
    pub fn on_pending_left(&mut self, handle: RequestId) {
        if self.sockjs.asking.is_empty() {
            return;
        }
        let Some(id) = self.sockjs.asking.remove(&handle) else {
            // The request does not belong to a polling session.
            return;
        };
        let now_ms = self.worker.net.now_ms();
        let Some(session) = self.sockjs.sessions.get_mut(&id) else {
            // The request's session has ended.
            return;
        };
        let Some(was_open) = session.leave(now_ms, handle) else {
            return;
        };
        // Notify the origin immediately. The session remains for a while, so that a client that polls again receives the reason why
        // the session ended.
        let wire = session.wire.take();
        self.wires().close(wire);
        if was_open {
            self.watch(id)
        } else {
            self.forget(id)
        }
    }

    /// Handles a session's timer.
    pub fn on_due(&mut self, id: u64) {
        let now_ms = self.worker.net.now_ms();
        let Some(session) = self.sockjs.sessions.get_mut(&id) else {
            return missed(());
        };
        match session.queue.expire(now_ms) {
            // Occurs only for streaming transports.
            Due::At(_) | Due::Pulse(_) | Due::Finish(_) => {}
            Due::Beat(pending) => self.reply(&pending, "h"),
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
        self.sockjs.queued -= session.counted;
        self.wires().close(session.wire);
        self.answer_all(session.into_replies());
    }

    /// Sends and reads as far as possible, and responds to waiting requests.
    fn pump(&mut self, id: u64) {
        let Some(session) = self.sockjs.sessions.get_mut(&id) else {
            // The connection was closed in the same turn.
            return;
        };
        let has_room = self.sockjs.queued < self.sockjs.queue_bytes_max;
        let step = Wires {
            connections: self.connections,
            masks: self.masks,
            worker: self.worker,
        }
        .pump(session, has_room);
        let replies = session.take_replies(self.worker.net.now_ms());
        self.sockjs.queued += session.queue.bytes;
        self.sockjs.queued -= std::mem::replace(&mut session.counted, session.queue.bytes);
        self.answer_all(replies);
        match step {
            Step::Goes => self.watch(id),
            Step::Over => self.forget(id),
        }
    }

    fn answer_all(&mut self, replies: Vec<(PendingRequest<RequestId>, Reply)>) {
        for (pending, reply) in replies {
            self.answer(pending, reply);
        }
    }

    /// Responds to a request of a session.
    fn answer(&mut self, pending: PendingRequest<RequestId>, reply: Reply) {
        match reply {
            Reply::Frame(frame) => self.reply(&pending, &frame),
            Reply::Taken => self.reply_ok(&pending),
            Reply::NotFound => self.refuse_pending(&pending, 404, "Not Found"),
            Reply::SendsAlready => self.refuse_pending(&pending, 400, "Already sending"),
            Reply::Refused(head, body) => self.relay_refusal(&pending, head, &body),
            Reply::Failed => self.refuse_pending(&pending, 502, FAILED),
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

/// Parts of the edge that a session's WebSocket needs.
struct Wires<'a> {
    connections: &'a mut Connections,
    masks: &'a mut Masks,
    worker: &'a mut Engine,
}

impl Wires<'_> {
    /// Transfers bytes between a session and its WebSocket. `has_room` is false if the queues of all sessions are full; the session
    /// then reads only while its own queue is empty.
    fn pump(&mut self, session: &mut Session, has_room: bool) -> Step {
        let mut step = self.flush(session);
        let mut buffer = Vec::new();
        while let Some(wire) = session.wire
            && step == Step::Goes
            && session.can_read
            && session.queue.has_room()
            && (has_room || session.queue.bytes == 0)
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

    /// Ends a session whose WebSocket closed without a close frame.
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
