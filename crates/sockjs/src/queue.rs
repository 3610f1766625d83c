//! Messages that wait for a client without a pending request.
//!
//! A client polls, with one request per response, or has a streaming response. A stream receives pieces as fast as its client reads
//! them, up to [`STREAM_UNITS_MAX`]. Clients store the entire response, and start another stream at that length. Nothing more is
//! sent then, because the client would lose it. If the client does not start another one, the server ends the response.

use crate::frame;

/// Maximum size of waiting messages in bytes. While the size is larger, nothing is read from the backend.
const QUEUE_BYTES_MAX: usize = 200_000;

/// Memory per message in addition to its text, in bytes. Without this part, empty messages would not be counted.
const MESSAGE_BYTES: usize = size_of::<String>();

/// Maximum length of a stream, in UTF-16 units, because pages count these. When a stream is longer, pusher-js requests another one.
pub const STREAM_UNITS_MAX: usize = 256 * 1024;

/// Heartbeat frame.
const BEAT: &str = "h";

/// Close frames. The first is for a second request while another one is waiting, the second for a request after the client has
/// left.
const TWICE: (u16, &str) = (2010, "Another connection still open");
const LEFT: (u16, &str) = (3000, "Client already closed connection");

/// Default reason of a close.
const CLOSED: &str = "Connection closed";

/// A request that waits for a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRequest<R> {
    /// The engine's id of the request.
    pub handle: R,
    /// The function that a script element calls. `None`: the request is not from a script element.
    pub callback: Option<String>,
    /// Host of the page.
    pub origin: Option<Vec<u8>>,
}

/// Action that a queue's timer requires.
#[derive(Debug, PartialEq, Eq)]
pub enum Due<R> {
    /// No action is due before this time.
    At(u64),
    /// Send a heartbeat to the waiting request.
    Beat(PendingRequest<R>),
    /// Send a heartbeat to the stream.
    Pulse(Piece<R>),
    /// End the stream. It has reached its maximum length, and its client has not started another one.
    Finish(R),
    /// End the session: the client has not returned.
    Over,
}

/// Data to write to a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<R> {
    /// The request of the stream.
    pub handle: R,
    /// The frame, including its line end.
    pub frame: String,
    /// True if the stream ends after this piece.
    pub is_last: bool,
}

/// A response that is written in pieces.
#[derive(Debug)]
struct Stream<R> {
    handle: R,
    units: usize,
    /// The client has received everything written.
    is_ready: bool,
    /// True if a heartbeat was sent that the client has not answered yet.
    owes_echo: bool,
}

/// A session's queue.
#[derive(Debug)]
pub struct Queue<R> {
    messages: Vec<String>,
    /// Size of the waiting messages in bytes.
    pub bytes: usize,
    poll: Option<PendingRequest<R>>,
    stream: Option<Stream<R>>,
    end: Option<(u16, String)>,
    due_ms: u64,
    heartbeat_ms: u64,
    linger_ms: u64,
}

impl<R: Copy + Eq> Queue<R> {
    /// Creates the queue of a client whose first request waits for the session to open, without a time limit.
    pub fn new(opening: PendingRequest<R>, heartbeat_ms: u64, linger_ms: u64) -> Self {
        Self {
            messages: Vec::new(),
            bytes: 0,
            poll: Some(opening),
            due_ms: u64::MAX,
            ..Self::open(0, heartbeat_ms, linger_ms)
        }
    }

    /// Creates the queue of an open session.
    pub fn open(now_ms: u64, heartbeat_ms: u64, linger_ms: u64) -> Self {
        Self {
            messages: Vec::new(),
            bytes: 0,
            poll: None,
            stream: None,
            end: None,
            due_ms: now_ms.saturating_add(linger_ms),
            heartbeat_ms,
            linger_ms,
        }
    }

    /// Returns true if there is room for messages from the backend.
    pub fn has_room(&self) -> bool {
        self.bytes < QUEUE_BYTES_MAX
    }

    /// Returns the time of the next action.
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Removes the waiting request, which has to be answered now.
    pub fn take_poll(&mut self, now_ms: u64) -> Option<PendingRequest<R>> {
        let pending = self.poll.take()?;
        self.due_ms = now_ms.saturating_add(self.linger_ms);
        Some(pending)
    }

    /// Handles a request for messages. Returns the response to send now, and the request that it answers.
    pub fn ask(
        &mut self,
        now_ms: u64,
        pending: PendingRequest<R>,
    ) -> Option<(PendingRequest<R>, String)> {
        if self.poll.is_some() {
            let (code, reason) = TWICE;
            return Some((pending, frame::close(code, reason)));
        }
        self.poll = Some(pending);
        self.due_ms = now_ms.saturating_add(self.heartbeat_ms);
        self.answer(now_ms)
    }

    /// Starts a streaming response of which `units` are already written. `owes_echo` is true if these are a heartbeat. Returns the
    /// stream that this one replaces. The caller has to end the replaced stream, because its client has abandoned it.
    pub fn begin_stream(
        &mut self,
        now_ms: u64,
        handle: R,
        units: usize,
        owes_echo: bool,
    ) -> Option<R> {
        self.due_ms = now_ms.saturating_add(self.heartbeat_ms);
        let stream = Stream {
            handle,
            units,
            is_ready: false,
            owes_echo,
        };
        self.stream.replace(stream).map(|before| before.handle)
    }

    /// Records that the client has received everything written to the stream.
    pub fn note_ready(&mut self, handle: R) {
        if let Some(stream) = self.stream.as_mut().filter(|it| it.handle == handle) {
            stream.is_ready = true;
        }
    }

    /// Returns true if there is a stream whose client has received everything.
    pub fn is_ready(&self) -> bool {
        self.stream.as_ref().is_some_and(|it| it.is_ready)
    }

    /// Returns the next piece to write to the stream.
    pub fn next_piece(&mut self, now_ms: u64) -> Option<Piece<R>> {
        let stream = self.stream.as_ref()?;
        let is_open = stream.is_ready && stream.units <= STREAM_UNITS_MAX;
        if !is_open || (self.messages.is_empty() && self.end.is_none()) {
            return None;
        }
        let is_last = self.messages.is_empty();
        let frame = if is_last {
            self.end()?
        } else {
            self.bytes = 0;
            frame::array(&std::mem::take(&mut self.messages))
        };
        self.write(now_ms, frame, is_last)
    }

    /// Handles a client's ping, or its answer to a heartbeat. Answers a ping with a frame.
    pub fn echo(&mut self, now_ms: u64) -> Option<Due<R>> {
        let Some(stream) = &mut self.stream else {
            // Polling clients do not answer heartbeats.
            return self.take_poll(now_ms).map(Due::Beat);
        };
        if std::mem::take(&mut stream.owes_echo) {
            None
        } else {
            self.pulse(now_ms).map(Due::Pulse)
        }
    }

    /// Adds a message for the client.
    pub fn push(&mut self, message: String) {
        self.bytes += message.len() + MESSAGE_BYTES;
        self.messages.push(message);
    }

    /// Closes the session; the first reason is used.
    pub fn close(&mut self, code: u16, reason: &str) {
        let reason = if reason.is_empty() { CLOSED } else { reason };
        self.end.get_or_insert_with(|| (code, reason.to_owned()));
    }

    /// Returns the close frame, if the session was closed.
    pub fn end(&self) -> Option<String> {
        let (code, reason) = self.end.as_ref()?;
        Some(frame::close(*code, reason))
    }

    /// Returns the response for the waiting request, if there is one now.
    pub fn answer(&mut self, now_ms: u64) -> Option<(PendingRequest<R>, String)> {
        self.poll.as_ref()?;
        let frame = if self.messages.is_empty() {
            self.end()?
        } else {
            self.bytes = 0;
            frame::array(&std::mem::take(&mut self.messages))
        };
        self.take_poll(now_ms).map(|pending| (pending, frame))
    }

    /// Handles the departure of a client. Returns true if a request of the client was waiting.
    pub fn leave(&mut self, now_ms: u64, handle: R) -> bool {
        if self.stream.take_if(|it| it.handle == handle).is_some() {
            // The client is starting another stream, or has left.
            self.due_ms = now_ms.saturating_add(self.linger_ms);
            return false;
        }
        if self.poll.as_ref().is_none_or(|it| it.handle != handle) {
            return false;
        }
        self.take_poll(now_ms);
        let (code, reason) = LEFT;
        self.close(code, reason);
        self.messages.clear();
        self.bytes = 0;
        true
    }

    /// Returns the action that is due.
    pub fn expire(&mut self, now_ms: u64) -> Due<R> {
        if self.due_ms > now_ms {
            return Due::At(self.due_ms);
        }
        if let Some(stream) = self.stream.take_if(|it| it.units > STREAM_UNITS_MAX) {
            self.due_ms = now_ms.saturating_add(self.linger_ms);
            return Due::Finish(stream.handle);
        }
        if self.stream.is_some() {
            self.due_ms = now_ms.saturating_add(self.heartbeat_ms);
            return match self.pulse(now_ms) {
                Some(piece) => Due::Pulse(piece),
                // The client does not read. The connection has its own timeout for that.
                None => Due::At(self.due_ms),
            };
        }
        match self.take_poll(now_ms) {
            Some(pending) => Due::Beat(pending),
            None => Due::Over,
        }
    }

    /// Returns a heartbeat for the stream, if the stream accepts one now.
    fn pulse(&mut self, now_ms: u64) -> Option<Piece<R>> {
        let stream = self.stream.as_mut()?;
        if !stream.is_ready || stream.units > STREAM_UNITS_MAX {
            return None;
        }
        stream.owes_echo = true;
        self.write(now_ms, BEAT.to_owned(), false)
    }

    fn write(&mut self, now_ms: u64, mut frame: String, is_last: bool) -> Option<Piece<R>> {
        let stream = self.stream.as_mut()?;
        frame.push('\n');
        stream.units += frame.encode_utf16().count();
        stream.is_ready = false;
        let handle = stream.handle;
        let is_long = stream.units > STREAM_UNITS_MAX;
        self.due_ms = now_ms.saturating_add(if is_long {
            self.linger_ms
        } else {
            self.heartbeat_ms
        });
        if is_last {
            self.stream = None;
            self.due_ms = now_ms.saturating_add(self.linger_ms);
        }
        Some(Piece {
            handle,
            frame,
            is_last,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(handle: u64) -> PendingRequest<u64> {
        PendingRequest {
            handle,
            callback: None,
            origin: None,
        }
    }

    fn open() -> Queue<u64> {
        let mut queue = Queue::new(pending(1), 25, 5);
        assert_eq!(queue.expire(1_000), Due::At(u64::MAX));
        assert_eq!(queue.take_poll(1_000), Some(pending(1)));
        queue
    }

    fn answer(handle: u64, frame: &str) -> Option<(PendingRequest<u64>, String)> {
        Some((pending(handle), frame.to_owned()))
    }

    #[test]
    fn messages_and_requests_wait_for_each_other() {
        let mut queue = open();
        queue.push("a".to_owned());
        queue.push("b".to_owned());
        assert_eq!(queue.answer(1_001), None);
        assert_eq!(queue.ask(1_001, pending(2)), answer(2, "a[\"a\",\"b\"]"));
        assert_eq!(queue.ask(1_002, pending(3)), None);
        assert_eq!(
            queue.ask(1_002, pending(4)),
            answer(4, "c[2010,\"Another connection still open\"]")
        );
        queue.push("c".to_owned());
        assert_eq!(queue.answer(1_003), answer(3, "a[\"c\"]"));
        assert_eq!(queue.answer(1_003), None);
    }

    #[test]
    fn sends_heartbeats_and_ends_without_a_client() {
        let mut queue = open();
        assert_eq!(queue.expire(1_004), Due::At(1_005));
        assert_eq!(queue.ask(1_004, pending(2)), None);
        assert_eq!(queue.expire(1_028), Due::At(1_029));
        assert_eq!(queue.expire(1_029), Due::Beat(pending(2)));
        assert_eq!(queue.expire(1_033), Due::At(1_034));
        assert_eq!(queue.expire(1_034), Due::Over);
    }

    #[test]
    fn sends_the_close_after_the_messages_and_repeats_it() {
        let mut queue = open();
        queue.push("a".to_owned());
        queue.close(4000, "");
        queue.close(4001, "later");
        assert_eq!(queue.ask(1_001, pending(2)), answer(2, "a[\"a\"]"));
        for handle in 3..5 {
            assert_eq!(
                queue.ask(1_001, pending(handle)),
                answer(handle, "c[4000,\"Connection closed\"]")
            );
        }
        assert_eq!(queue.expire(1_006), Due::Over);
    }

    #[test]
    fn aborted_poll_closes_the_session() {
        let mut queue = open();
        assert_eq!(queue.ask(1_001, pending(2)), None);
        assert!(!queue.leave(1_002, 3));
        assert!(queue.leave(1_002, 2));
        let end = "c[3000,\"Client already closed connection\"]";
        assert_eq!(queue.ask(1_003, pending(4)), answer(4, end));
    }

    fn streaming() -> Queue<u64> {
        let mut queue = Queue::open(1_000, 25, 5);
        assert_eq!(queue.begin_stream(1_000, 7, 2, false), None);
        queue.note_ready(7);
        queue
    }

    fn piece(handle: u64, frame: &str, is_last: bool) -> Option<Piece<u64>> {
        Some(Piece {
            handle,
            frame: frame.to_owned(),
            is_last,
        })
    }

    #[test]
    fn stream_receives_messages_at_the_pace_of_its_client() {
        let mut queue = streaming();
        assert_eq!(queue.next_piece(1_000), None);
        queue.push("a".to_owned());
        assert_eq!(queue.next_piece(1_001), piece(7, "a[\"a\"]\n", false));
        queue.push("b".to_owned());
        queue.push("c".to_owned());
        assert_eq!(queue.next_piece(1_002), None);
        queue.note_ready(6);
        assert_eq!(queue.next_piece(1_002), None);
        queue.note_ready(7);
        queue.close(4001, "no");
        assert_eq!(queue.next_piece(1_003), piece(7, "a[\"b\",\"c\"]\n", false));
        queue.note_ready(7);
        assert_eq!(queue.next_piece(1_003), piece(7, "c[4001,\"no\"]\n", true));
        assert_eq!(queue.expire(1_007), Due::At(1_008));
        assert_eq!(queue.expire(1_008), Due::Over);
    }

    #[test]
    fn long_stream_receives_nothing_until_it_is_replaced() {
        let mut queue = streaming();
        let mut at_ms = 1_000;
        while queue.expire(at_ms) == Due::At(at_ms + 25) || at_ms == 1_000 {
            queue.push("ü".repeat(1_000));
            at_ms += 1;
            assert!(queue.next_piece(at_ms).is_some());
            queue.note_ready(7);
        }
        queue.push("after".to_owned());
        assert_eq!(queue.next_piece(at_ms), None, "the client would lose it");
        assert_eq!(queue.begin_stream(at_ms, 8, 0, false), Some(7));
        assert!(!queue.leave(at_ms, 7));
        queue.note_ready(8);
        assert_eq!(queue.next_piece(at_ms), piece(8, "a[\"after\"]\n", false));
    }

    #[test]
    fn long_stream_ends_if_it_is_not_replaced() {
        let mut queue = streaming();
        queue.push("x".repeat(STREAM_UNITS_MAX));
        assert!(queue.next_piece(1_001).is_some());
        queue.note_ready(7);
        assert_eq!(queue.expire(1_005), Due::At(1_006));
        assert_eq!(queue.expire(1_006), Due::Finish(7));
        assert_eq!(queue.expire(1_010), Due::At(1_011));
        assert_eq!(queue.expire(1_011), Due::Over);
    }

    #[test]
    fn answers_pings_and_ignores_heartbeat_answers() {
        let mut queue = streaming();
        assert_eq!(
            queue.echo(1_001),
            piece(7, "h\n", false).map(Due::Pulse),
            "the client asks"
        );
        queue.note_ready(7);
        assert_eq!(queue.echo(1_002), None, "it answers the heartbeat");
        assert_eq!(
            queue.expire(1_026),
            piece(7, "h\n", false).map(Due::Pulse).expect("one")
        );
        queue.note_ready(7);
        assert_eq!(queue.echo(1_027), None);
    }

    #[test]
    fn session_continues_after_an_aborted_stream() {
        let mut queue = streaming();
        assert!(!queue.leave(1_001, 7));
        queue.push("a".to_owned());
        assert_eq!(queue.expire(1_005), Due::At(1_006));
        assert_eq!(queue.begin_stream(1_005, 8, 0, false), None);
        queue.note_ready(8);
        assert_eq!(queue.next_piece(1_005), piece(8, "a[\"a\"]\n", false));
    }

    #[test]
    fn empty_messages_fill_the_queue() {
        let mut queue = open();
        let mut pushed = 0;
        while queue.has_room() && pushed < QUEUE_BYTES_MAX {
            queue.push(String::new());
            pushed += 1;
        }
        assert!(
            pushed <= QUEUE_BYTES_MAX / size_of::<String>() + 1,
            "{pushed}"
        );
        assert!(queue.ask(1_001, pending(2)).is_some());
        assert!(queue.has_room());
    }

    #[test]
    fn full_queue_has_no_room() {
        let mut queue = open();
        assert!(queue.has_room());
        queue.push("x".repeat(QUEUE_BYTES_MAX));
        assert!(!queue.has_room());
        assert!(queue.ask(1_001, pending(2)).is_some());
        assert!(queue.has_room());
    }
}
