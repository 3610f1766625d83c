//! What a client is to get, and when: messages wait here while no request of its does.
//!
//! A client polls, one request for each answer, or has a response that is a stream. Of a stream it gets pieces as fast as it
//! takes them, up to [`STREAM_UNITS_MAX`]: clients keep the whole response, and begin another when it is that long. What
//! they get must not be cut off by that, so nothing more is given then; a client that does not begin another sees its
//! response end.

use crate::frame;

/// Bytes of messages that wait before the backend is read on.
const QUEUE_BYTES_MAX: usize = 200_000;

/// What each message costs beside its text: empty ones take memory, too.
const MESSAGE_BYTES: usize = size_of::<String>();

/// How long a stream may become, as pages count: in units of UTF-16. pusher-js begins another when it is longer.
pub const STREAM_UNITS_MAX: usize = 256 * 1024;

/// What tells a client that it is connected.
const BEAT: &str = "h";

/// The code of a second request for what one request waits for already, and of one that comes after its client has gone.
const TWICE: (u16, &str) = (2010, "Another connection still open");
const LEFT: (u16, &str) = (3000, "Client already closed connection");

/// What is said where a close gives no reason.
const CLOSED: &str = "Connection closed";

/// A request that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker<R> {
    /// The request, as the engine knows it.
    pub handle: R,
    /// The function a script element wants called.
    pub callback: Option<String>,
    /// The page's host.
    pub origin: Option<Vec<u8>>,
}

/// What a queue's time has come for.
#[derive(Debug, PartialEq, Eq)]
pub enum Due<R> {
    /// Nothing, until then.
    At(u64),
    /// A heartbeat for the request that waits.
    Beat(Asker<R>),
    /// A heartbeat for the stream.
    Pulse(Piece<R>),
    /// The stream has become long, and its client has not begun another: it is to end.
    Finish(R),
    /// The client has not come back.
    Over,
}

/// What is to be written to a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<R> {
    /// The request that the stream answers.
    pub handle: R,
    /// The frame, with the end of its line.
    pub frame: String,
    /// The stream ends with it.
    pub is_last: bool,
}

/// A response that is written piece by piece.
#[derive(Debug)]
struct Stream<R> {
    handle: R,
    units: usize,
    /// The client has taken all that was written.
    is_ready: bool,
    /// A heartbeat was sent, which the client answers.
    owes_echo: bool,
}

/// The queue.
#[derive(Debug)]
pub struct Queue<R> {
    messages: Vec<String>,
    /// Bytes that the messages take which wait.
    pub bytes: usize,
    poll: Option<Asker<R>>,
    stream: Option<Stream<R>>,
    end: Option<(u16, String)>,
    due_ms: u64,
    heartbeat_ms: u64,
    linger_ms: u64,
}

impl<R: Copy + Eq> Queue<R> {
    /// That of a client whose first request waits to hear that the session is open: however long its backend may take.
    pub fn new(opening: Asker<R>, heartbeat_ms: u64, linger_ms: u64) -> Self {
        Self {
            messages: Vec::new(),
            bytes: 0,
            poll: Some(opening),
            due_ms: u64::MAX,
            ..Self::open(0, heartbeat_ms, linger_ms)
        }
    }

    /// That of a session that is open.
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

    /// Whether there is room for what the backend says.
    pub fn has_room(&self) -> bool {
        self.bytes < QUEUE_BYTES_MAX
    }

    /// When something is due.
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// The request that waits; it is to be answered now, whatever with.
    pub fn take_poll(&mut self, now_ms: u64) -> Option<Asker<R>> {
        let asker = self.poll.take()?;
        self.due_ms = now_ms.saturating_add(self.linger_ms);
        Some(asker)
    }

    /// A request asks for messages. What is to be answered now, and to whom.
    pub fn ask(&mut self, now_ms: u64, asker: Asker<R>) -> Option<(Asker<R>, String)> {
        if self.poll.is_some() {
            let (code, reason) = TWICE;
            return Some((asker, frame::close(code, reason)));
        }
        self.poll = Some(asker);
        self.due_ms = now_ms.saturating_add(self.heartbeat_ms);
        self.answer(now_ms)
    }

    /// A response begins that is a stream, of which `units` are written; `owes_echo`: they are a heartbeat. Returns the one
    /// that it replaces, which is to be ended: its client has given it up.
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

    /// The client has taken all that was written to the stream.
    pub fn note_ready(&mut self, handle: R) {
        if let Some(stream) = self.stream.as_mut().filter(|it| it.handle == handle) {
            stream.is_ready = true;
        }
    }

    /// Whether there is a stream whose client has taken everything.
    pub fn is_ready(&self) -> bool {
        self.stream.as_ref().is_some_and(|it| it.is_ready)
    }

    /// What the stream is to be given now.
    pub fn next_piece(&mut self, now_ms: u64) -> Option<Piece<R>> {
        let stream = self.stream.as_ref()?;
        let is_open = stream.is_ready && stream.units <= STREAM_UNITS_MAX;
        if !is_open || (self.messages.is_empty() && self.end.is_none()) {
            return None;
        }
        let is_last = self.messages.is_empty();
        let frame = match is_last {
            true => self.end()?,
            false => {
                self.bytes = 0;
                frame::array(&std::mem::take(&mut self.messages))
            }
        };
        self.write(now_ms, frame, is_last)
    }

    /// The client asks whether it is connected, or answers that question. What waits for a frame gets one.
    pub fn echo(&mut self, now_ms: u64) -> Option<Due<R>> {
        let Some(stream) = &mut self.stream else {
            // It does not answer heartbeats.
            return self.take_poll(now_ms).map(Due::Beat);
        };
        match std::mem::take(&mut stream.owes_echo) {
            true => None,
            false => self.pulse(now_ms).map(Due::Pulse),
        }
    }

    /// A message for the client.
    pub fn push(&mut self, message: String) {
        self.bytes += message.len() + MESSAGE_BYTES;
        self.messages.push(message);
    }

    /// Nothing more comes; the first end counts.
    pub fn close(&mut self, code: u16, reason: &str) {
        let reason = if reason.is_empty() { CLOSED } else { reason };
        self.end.get_or_insert_with(|| (code, reason.to_owned()));
    }

    /// What the client is told of the end, if there is one.
    pub fn end(&self) -> Option<String> {
        let (code, reason) = self.end.as_ref()?;
        Some(frame::close(*code, reason))
    }

    /// What a waiting request is to be answered now.
    pub fn answer(&mut self, now_ms: u64) -> Option<(Asker<R>, String)> {
        self.poll.as_ref()?;
        let frame = match self.messages.is_empty() {
            true => self.end()?,
            false => {
                self.bytes = 0;
                frame::array(&std::mem::take(&mut self.messages))
            }
        };
        self.take_poll(now_ms).map(|asker| (asker, frame))
    }

    /// The client of the waiting request has left. True: of that one.
    pub fn leave(&mut self, now_ms: u64, handle: R) -> bool {
        if self.stream.take_if(|it| it.handle == handle).is_some() {
            // It begins another, or has gone.
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

    /// Time has gone by.
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
                // It takes nothing, which its connection does not bear for ever.
                None => Due::At(self.due_ms),
            };
        }
        match self.take_poll(now_ms) {
            Some(asker) => Due::Beat(asker),
            None => Due::Over,
        }
    }

    /// A heartbeat for the stream, if it takes one.
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
        self.due_ms = now_ms.saturating_add(match is_long {
            true => self.linger_ms,
            false => self.heartbeat_ms,
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

    fn asker(handle: u64) -> Asker<u64> {
        Asker {
            handle,
            callback: None,
            origin: None,
        }
    }

    fn open() -> Queue<u64> {
        let mut queue = Queue::new(asker(1), 25, 5);
        assert_eq!(queue.expire(1_000), Due::At(u64::MAX));
        assert_eq!(queue.take_poll(1_000), Some(asker(1)));
        queue
    }

    fn answer(handle: u64, frame: &str) -> Option<(Asker<u64>, String)> {
        Some((asker(handle), frame.to_owned()))
    }

    #[test]
    fn messages_wait_for_a_request_and_requests_for_messages() {
        let mut queue = open();
        queue.push("a".to_owned());
        queue.push("b".to_owned());
        assert_eq!(queue.answer(1_001), None);
        assert_eq!(queue.ask(1_001, asker(2)), answer(2, "a[\"a\",\"b\"]"));
        assert_eq!(queue.ask(1_002, asker(3)), None);
        assert_eq!(
            queue.ask(1_002, asker(4)),
            answer(4, "c[2010,\"Another connection still open\"]")
        );
        queue.push("c".to_owned());
        assert_eq!(queue.answer(1_003), answer(3, "a[\"c\"]"));
        assert_eq!(queue.answer(1_003), None);
    }

    #[test]
    fn silence_is_told_and_absence_is_the_end() {
        let mut queue = open();
        assert_eq!(queue.expire(1_004), Due::At(1_005));
        assert_eq!(queue.ask(1_004, asker(2)), None);
        assert_eq!(queue.expire(1_028), Due::At(1_029));
        assert_eq!(queue.expire(1_029), Due::Beat(asker(2)));
        assert_eq!(queue.expire(1_033), Due::At(1_034));
        assert_eq!(queue.expire(1_034), Due::Over);
    }

    #[test]
    fn the_end_comes_behind_the_messages_and_stays() {
        let mut queue = open();
        queue.push("a".to_owned());
        queue.close(4000, "");
        queue.close(4001, "later");
        assert_eq!(queue.ask(1_001, asker(2)), answer(2, "a[\"a\"]"));
        for handle in 3..5 {
            assert_eq!(
                queue.ask(1_001, asker(handle)),
                answer(handle, "c[4000,\"Connection closed\"]")
            );
        }
        assert_eq!(queue.expire(1_006), Due::Over);
    }

    #[test]
    fn a_client_that_breaks_off_has_closed() {
        let mut queue = open();
        assert_eq!(queue.ask(1_001, asker(2)), None);
        assert!(!queue.leave(1_002, 3));
        assert!(queue.leave(1_002, 2));
        let end = "c[3000,\"Client already closed connection\"]";
        assert_eq!(queue.ask(1_003, asker(4)), answer(4, end));
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
    fn a_stream_gets_what_there_is_as_fast_as_it_is_taken() {
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
    fn a_stream_that_is_long_gets_no_more_until_its_client_begins_another() {
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
    fn a_long_stream_ends_where_its_client_goes_on_reading() {
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
    fn a_question_is_answered_and_an_answer_is_not() {
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
    fn a_stream_that_breaks_off_may_come_back() {
        let mut queue = streaming();
        assert!(!queue.leave(1_001, 7));
        queue.push("a".to_owned());
        assert_eq!(queue.expire(1_005), Due::At(1_006));
        assert_eq!(queue.begin_stream(1_005, 8, 0, false), None);
        queue.note_ready(8);
        assert_eq!(queue.next_piece(1_005), piece(8, "a[\"a\"]\n", false));
    }

    #[test]
    fn messages_that_say_nothing_fill_it_as_well() {
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
        assert!(queue.ask(1_001, asker(2)).is_some());
        assert!(queue.has_room());
    }

    #[test]
    fn a_full_queue_has_no_room() {
        let mut queue = open();
        assert!(queue.has_room());
        queue.push("x".repeat(QUEUE_BYTES_MAX));
        assert!(!queue.has_room());
        assert!(queue.ask(1_001, asker(2)).is_some());
        assert!(queue.has_room());
    }
}
