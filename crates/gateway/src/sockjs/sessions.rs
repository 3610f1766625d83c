//! Sessions. Each is the client of a WebSocket in this worker, on behalf of a page without WebSockets.

use fermata_config::LogLevel;
use fermata_engine::{RequestId, WireEvent, missed};
use fermata_proto::number::parse_decimal;
use fermata_proto::ws::client::{Client, Received};
use fermata_proto::ws::message::Kind;
use fermata_sockjs::frame::messages;
use fermata_sockjs::queue::{Due, PendingRequest, Piece, Queue};

use crate::gateway::Gateway;
use crate::sockets::protocol_in;
use crate::sockjs::requests::Request;
use crate::sockjs::session_path::{SessionPath, Transport, query};
use crate::sockjs::state::{Flow, HANDLER_SESSIONS, Session, Use};

/// Maximum size of a frame from the hub: a list of members, or an event with its envelope.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum number of a client's bytes that its WebSocket has not accepted. A client that exceeds this number floods the server.
const OUT_BYTES_MAX: usize = 1024 * 1024;

/// Maximum size of the handshake's response, which the engine sends.
const HANDSHAKE_BYTES_MAX: usize = 4 * 1024;
const SWITCHED: &[u8] = b"HTTP/1.1 101 ";
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Maximum number of bytes per read.
const READ_BYTES: usize = 16 * 1024;

/// Close code if the WebSocket ended without a close frame.
const AWAY: u16 = 1001;
/// Close code if the client sends faster than the server reads.
const FLOODED: u16 = 1008;

/// First frame of a session.
const OPEN: &str = "o";
/// Heartbeat frame, and first frame of each later stream of a session.
const BEAT: &str = "h";

/// Response to a page that uses a session of another origin.
const OTHER_ORIGIN: &str = "The session belongs to a page of another origin.";

impl Gateway<'_> {
    /// Handles a request that receives messages: one frame, or a stream.
    pub(super) fn receive(&mut self, session_path: &SessionPath<'_>, request: &Request) {
        let handle = request.handle;
        let known = self.known(session_path);
        if !self.is_of_session(known, request) {
            return self.refuse_sockjs(handle, 403, OTHER_ORIGIN);
        }
        let is_new = known.is_none();
        let Some(id) = known.or_else(|| self.open_session(session_path, request)) else {
            return self.refuse_sockjs(handle, 503, "Too many sessions.");
        };
        let now_ms = self.worker.net.now_ms();
        match session_path.transport {
            Transport::Stream => self.receive_stream(id, handle, is_new, now_ms),
            _ if is_new => self.answer_frame(handle, OPEN),
            _ => self.receive_poll(id, handle, now_ms),
        }
        self.pump_session(id);
    }

    /// Handles a request with messages of the client.
    pub(super) fn take_messages(&mut self, session_path: &SessionPath<'_>, request: &Request) {
        let handle = request.handle;
        let Some(id) = self.known(session_path) else {
            return self.refuse_sockjs(handle, 404, "Not Found");
        };
        if !self.is_of_session(Some(id), request) {
            return self.refuse_sockjs(handle, 403, OTHER_ORIGIN);
        }
        let Some(messages) = messages(&request.body) else {
            return self.refuse_sockjs(handle, 400, "Payload expected");
        };
        let now_ms = self.worker.net.now_ms();
        let Some(session) = self.session(id) else {
            return;
        };
        if messages.is_empty()
            && let Some(due) = session.queue.echo(now_ms)
        {
            self.act(id, due);
        }
        let Some(session) = self.session(id) else {
            return;
        };
        for message in messages {
            // Ignore an error: after a close frame, no message is sent, and the client receives the close with its next frame.
            let _ = session
                .client
                .send(Kind::Text, message.as_bytes(), mask(), &mut session.out);
        }
        self.answer_taken(handle);
        self.pump_session(id);
        if let Some(session) = self.session(id)
            && session.out.len() > OUT_BYTES_MAX
        {
            session.queue.close(FLOODED, "Messages come too fast.");
            self.end_socket(id);
            self.pump_session(id);
        }
    }

    /// Accepts the handshake of a session's WebSocket.
    pub(crate) fn on_session_handshake(&mut self) {
        let view = self.worker.request();
        let handle = view.handle();
        let id = view.target().strip_prefix(b"/").and_then(parse_decimal);
        let found = id.and_then(|id| self.session(id)).map(|session| {
            let key = session.name.0.clone();
            (key, session.protocol.take(), session.origin.clone())
        });
        let websocket = self.hub.sockjs.as_ref().map(|it| it.websocket);
        let (Some((key, protocol, origin)), Some(websocket)) = (found, websocket) else {
            // The client has left before the handshake.
            return self.worker.drop_request(handle);
        };
        if self.worker.begin_handshake(handle, websocket) {
            self.admit(handle, &key, protocol.as_deref(), origin.as_deref());
        }
    }

    pub(super) fn on_session_wire(&mut self, id: u64, event: WireEvent) {
        if let Some(session) = self.session(id) {
            session.can_read |= event.readable || event.hangup;
        }
        self.pump_session(id);
    }

    /// Handles a stream whose client has received the previous piece.
    pub(super) fn on_session_taken(&mut self, id: u64, handle: RequestId) {
        if let Some(session) = self.session(id)
            && session.flow.as_ref().is_none_or(|it| it.handle != handle)
        {
            session.queue.note_ready(handle);
        }
        self.pump_session(id);
        if self.session(id).is_some_and(|it| it.queue.is_ready()) {
            // No message to send: watch for the client's disconnect until a message arrives.
            let _ = self.worker.defer_stream(handle);
        }
    }

    /// Handles the disconnect of the client of a request or stream.
    pub(super) fn on_session_left(&mut self, id: u64, handle: RequestId) {
        let now_ms = self.worker.net.now_ms();
        if let Some(sockjs) = &mut self.hub.sockjs {
            sockjs.requests.remove(&handle);
        }
        let Some(session) = self.session(id) else {
            return;
        };
        session.flow.take_if(|it| it.handle == handle);
        if session.queue.leave(now_ms, handle) {
            // A client that disconnects during a poll sends no further request, so close its WebSocket now.
            self.end_socket(id);
        }
        self.watch(id);
    }

    /// Handles all sessions that are due.
    pub(crate) fn on_sockjs_due(&mut self, now_ms: u64) {
        while let Some(sockjs) = &mut self.hub.sockjs
            && sockjs.due().is_due(now_ms)
            && let Some((at_ms, id)) = sockjs.due.pop_first()
        {
            let Some(session) = sockjs.sessions.get_mut(&id) else {
                missed(());
                continue;
            };
            debug_assert_eq!(session.due_ms, at_ms);
            session.due_ms = u64::MAX;
            let due = session.queue.expire(now_ms);
            self.act(id, due);
            self.watch(id);
        }
    }

    fn session(&mut self, id: u64) -> Option<&mut Session> {
        let sockjs = self.hub.sockjs.as_mut()?;
        sockjs.sessions.get_mut(&id).map(|it| &mut **it)
    }

    fn known(&self, session_path: &SessionPath<'_>) -> Option<u64> {
        let name = (session_path.key.to_owned(), session_path.session.to_owned());
        self.hub.sockjs.as_ref()?.by_name.get(&name).copied()
    }

    /// Returns false if a request comes from a page of a different origin than its session's. Browsers send no `Origin` with a GET
    /// to the page's own origin.
    fn is_of_session(&mut self, id: Option<u64>, request: &Request) -> bool {
        let Some(session) = id.and_then(|id| self.session(id)) else {
            return true;
        };
        let Some(origin) = &request.origin else {
            return true;
        };
        session.origin.get_or_insert_with(|| origin.clone()) == origin
    }

    fn watch(&mut self, id: u64) {
        if let Some(sockjs) = &mut self.hub.sockjs {
            sockjs.watch(id);
        }
    }

    fn open_session(&mut self, session_path: &SessionPath<'_>, request: &Request) -> Option<u64> {
        let now_ms = self.worker.net.now_ms();
        let sockjs = self.hub.sockjs.as_mut()?;
        if sockjs.sessions.len() >= sockjs.sessions_max {
            let line = format!(
                "a SockJS session is refused: this worker has {} (sockjs_sessions_max)",
                sockjs.sessions_max
            );
            self.worker.net.log_for_client(LogLevel::Warning, &line);
            return None;
        }
        let wire = match self.worker.connect_self(HANDLER_SESSIONS) {
            Ok(wire) => wire,
            Err(error) => {
                let line = format!("a SockJS session is refused: {error}");
                self.worker.net.log_for_client(LogLevel::Warning, &line);
                return None;
            }
        };
        sockjs.last += 1;
        let id = sockjs.last;
        // The target identifies the session. The key may be constant, because both ends are in this process.
        let out = format!(
            "GET /{id} HTTP/1.1\r\nHost: hub\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        let name = (session_path.key.to_owned(), session_path.session.to_owned());
        let session = Session {
            name: name.clone(),
            protocol: protocol_in(query(&request.target)).map(str::to_owned),
            origin: request.origin.clone(),
            wire: Some(wire),
            handshake: Some(Vec::new()),
            client: Client::new(None, MESSAGE_BYTES_MAX),
            can_read: false,
            out: out.into_bytes(),
            queue: Queue::open(now_ms, sockjs.heartbeat_ms, sockjs.linger_ms),
            counted: 0,
            flow: None,
            due_ms: u64::MAX,
        };
        sockjs.by_name.insert(name, id);
        sockjs.sessions.insert(id, Box::new(session));
        sockjs.wires.insert(wire, Use::Session(id));
        Some(id)
    }

    fn receive_stream(&mut self, id: u64, handle: RequestId, is_new: bool, now_ms: u64) {
        // A later stream starts with a heartbeat, so that the client detects that the session is alive.
        let first = format!("{}\n", if is_new { OPEN } else { BEAT });
        if !self.begin_frames(handle, first.as_bytes()) {
            return;
        }
        let Some(sockjs) = &mut self.hub.sockjs else {
            return;
        };
        sockjs.requests.insert(handle, Use::Session(id));
        let Some(session) = sockjs.sessions.get_mut(&id) else {
            return missed(());
        };
        let before = session
            .queue
            .begin_stream(now_ms, handle, first.len(), !is_new);
        if let Some(before) = before {
            session.flow.take_if(|it| it.handle == before);
            sockjs.requests.remove(&before);
            self.worker.drop_request(before);
        }
    }

    fn receive_poll(&mut self, id: u64, handle: RequestId, now_ms: u64) {
        if self.worker.defer(handle).is_err() {
            return;
        }
        let Some(sockjs) = &mut self.hub.sockjs else {
            return;
        };
        sockjs.requests.insert(handle, Use::Session(id));
        let pending = PendingRequest {
            handle,
            callback: None,
            origin: None,
        };
        if let Some(session) = sockjs.sessions.get_mut(&id)
            && let Some((pending, frame)) = session.queue.ask(now_ms, pending)
        {
            self.answer_frame(pending.handle, &frame);
        }
    }

    /// Performs the action that a queue's timer requires.
    fn act(&mut self, id: u64, due: Due<RequestId>) {
        match due {
            Due::At(_) => {}
            Due::Beat(pending) => self.answer_frame(pending.handle, BEAT),
            Due::Pulse(piece) => self.give(id, piece),
            Due::Finish(handle) => {
                if let Some(sockjs) = &mut self.hub.sockjs {
                    sockjs.requests.remove(&handle);
                }
                // Ignore the result here and below: an error means that the stream is already closed.
                let _ = self.worker.end_stream(handle);
            }
            Due::Over => self.forget_session(id),
        }
    }

    fn forget_session(&mut self, id: u64) {
        self.end_socket(id);
        if let Some(sockjs) = &mut self.hub.sockjs
            && let Some(session) = sockjs.sessions.remove(&id)
        {
            sockjs.due.remove(&(session.due_ms, id));
            sockjs.by_name.remove(&session.name);
            sockjs.queued -= session.counted;
        }
    }

    /// Closes the WebSocket of a session, which unsubscribes its channels.
    fn end_socket(&mut self, id: u64) {
        let Some(session) = self.session(id) else {
            return;
        };
        session.out.clear();
        if let Some(wire) = session.wire.take() {
            if let Some(sockjs) = &mut self.hub.sockjs {
                sockjs.wires.remove(&wire);
            }
            self.worker.net.close_wire(wire);
        }
    }

    /// Moves data in both directions until nothing is ready.
    fn pump_session(&mut self, id: u64) {
        let now_ms = self.worker.net.now_ms();
        let mut buffer = [0; READ_BYTES];
        loop {
            self.flush_session(id);
            self.give_on(id);
            let Some(session) = self.session(id) else {
                return;
            };
            if let Some(piece) = session.queue.next_piece(now_ms) {
                self.give(id, piece);
            } else if let Some((pending, frame)) = session.queue.answer(now_ms) {
                self.answer_frame(pending.handle, &frame);
            }
            let Some(session) = self.session(id) else {
                return;
            };
            let Some(wire) = session.wire else {
                break;
            };
            if !session.can_read || !session.queue.has_room() {
                break;
            }
            // If the queues of all sessions together are full, a session reads only while its own queue is empty. So a session
            // without queued messages still makes progress.
            let waiting = session.queue.bytes;
            if waiting > 0 && !self.has_room_for_sessions() {
                break;
            }
            let read = self.worker.net.recv_wire(wire, &mut buffer);
            let Some(session) = self.session(id) else {
                return;
            };
            let has_ended = match read {
                Ok(None) => {
                    session.can_read = false;
                    false
                }
                Ok(Some(0)) | Err(_) => {
                    session.queue.close(AWAY, "");
                    true
                }
                Ok(Some(len)) => !session.read(&mut buffer[..len]),
            };
            if has_ended {
                self.end_socket(id);
            }
            self.count_queued(id);
        }
        self.count_queued(id);
        self.watch(id);
    }

    fn has_room_for_sessions(&self) -> bool {
        let sockjs = self.hub.sockjs.as_ref();
        sockjs.is_some_and(|it| it.queued < it.queue_bytes_max)
    }

    /// Updates the sum of queued bytes over all sessions.
    fn count_queued(&mut self, id: u64) {
        if let Some(sockjs) = &mut self.hub.sockjs
            && let Some(session) = sockjs.sessions.get_mut(&id)
        {
            sockjs.queued += session.queue.bytes;
            sockjs.queued -= std::mem::replace(&mut session.counted, session.queue.bytes);
        }
    }

    fn flush_session(&mut self, id: u64) {
        while let Some(session) = self
            .hub
            .sockjs
            .as_mut()
            .and_then(|it| it.sessions.get_mut(&id))
            && let Some(wire) = session.wire
            && !session.out.is_empty()
        {
            match self.worker.net.send_wire(wire, &session.out) {
                Ok(Some(len)) => {
                    session.out.drain(..len);
                }
                Ok(None) => return,
                Err(_) => {
                    session.queue.close(AWAY, "");
                    self.end_socket(id);
                }
            }
        }
    }

    fn give(&mut self, id: u64, piece: Piece<RequestId>) {
        if let Some(session) = self.session(id) {
            session.flow = Some(Flow {
                handle: piece.handle,
                rest: piece.frame.into_bytes(),
                is_last: piece.is_last,
            });
        }
        self.give_on(id);
    }

    /// Sends the rest of a stream's current piece.
    fn give_on(&mut self, id: u64) {
        let Some(session) = self.session(id) else {
            return;
        };
        let Some(mut flow) = session.flow.take() else {
            return;
        };
        let Ok(taken) = self.worker.net.write_stream(flow.handle, &flow.rest) else {
            // The client has left, which a later event reports.
            return;
        };
        flow.rest.drain(..taken);
        if !flow.rest.is_empty() {
            if let Some(session) = self.session(id) {
                session.flow = Some(flow);
            }
            return;
        }
        if flow.is_last {
            if let Some(sockjs) = &mut self.hub.sockjs {
                sockjs.requests.remove(&flow.handle);
            }
            let _ = self.worker.end_stream(flow.handle);
        }
    }
}

impl Session {
    /// Reads bytes of the WebSocket. Returns false if the handshake or the connection ended.
    fn read(&mut self, bytes: &mut [u8]) -> bool {
        let mut head = match self.handshake.take() {
            None => return self.read_frames(bytes),
            Some(head) => head,
        };
        head.extend_from_slice(bytes);
        let end = head.windows(HEAD_END.len()).position(|it| it == HEAD_END);
        match end {
            Some(end) if head.starts_with(SWITCHED) => {
                self.read_frames(&mut head[end + HEAD_END.len()..])
            }
            None if head.len() <= HANDSHAKE_BYTES_MAX => {
                self.handshake = Some(head);
                true
            }
            _ => {
                self.queue.close(AWAY, "");
                false
            }
        }
    }

    fn read_frames(&mut self, bytes: &mut [u8]) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() {
            let consumed = match self.client.handle(rest, mask(), &mut self.out) {
                Ok((consumed, received)) => {
                    match received {
                        Some(Received::Message(_, message)) => {
                            let message = String::from_utf8_lossy(message).into_owned();
                            self.queue.push(message);
                        }
                        Some(Received::Closed { code, reason }) => {
                            self.queue.close(code, &reason);
                            return false;
                        }
                        Some(Received::Ping(_) | Received::Pong(_)) | None => {}
                    }
                    consumed
                }
                Err(_) => {
                    self.queue.close(AWAY, "");
                    return false;
                }
            };
            rest = &mut rest[consumed..];
        }
        true
    }
}

/// Masking key of messages. Zero is safe: no intermediary is between the two ends (RFC 6455, section 10.3).
fn mask() -> [u8; 4] {
    [0; 4]
}
