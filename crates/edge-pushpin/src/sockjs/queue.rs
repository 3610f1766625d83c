//! What a polling client is to get, and when: messages wait here while no request of its does.

use crate::sockjs::frame;

/// Bytes of messages that wait before the backend is read on.
const QUEUE_BYTES_MAX: usize = 200_000;

/// What each message costs beside its text: empty ones take memory, too.
const MESSAGE_BYTES: usize = size_of::<String>();

/// The code of a second request for what one request waits for already, and of one that comes after its client has gone.
const TWICE: (u16, &str) = (2010, "Another connection still open");
const LEFT: (u16, &str) = (3000, "Client already closed connection");

/// What is said where a close gives no reason.
const CLOSED: &str = "Connection closed";

/// A request that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The request, as the engine knows it.
    pub handle: u64,
    /// The function a script element wants called.
    pub callback: Option<String>,
    /// The page's host.
    pub origin: Option<Vec<u8>>,
}

/// What a queue's time has come for.
#[derive(Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing, until then.
    At(u64),
    /// A heartbeat for the request that waits.
    Beat(Asker),
    /// The client has not come back.
    Over,
}

/// The queue.
#[derive(Debug)]
pub struct Queue {
    messages: Vec<String>,
    /// Bytes that the messages take which wait.
    pub bytes: usize,
    poll: Option<Asker>,
    end: Option<(u16, String)>,
    due_ms: u64,
    heartbeat_ms: u64,
    linger_ms: u64,
}

impl Queue {
    /// That of a client whose first request waits to hear that the session is open: however long its backend may take.
    pub fn new(opening: Asker, heartbeat_ms: u64, linger_ms: u64) -> Self {
        Self {
            messages: Vec::new(),
            bytes: 0,
            poll: Some(opening),
            end: None,
            due_ms: u64::MAX,
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
    pub fn take_poll(&mut self, now_ms: u64) -> Option<Asker> {
        let asker = self.poll.take()?;
        self.due_ms = now_ms.saturating_add(self.linger_ms);
        Some(asker)
    }

    /// A request asks for messages. What is to be answered now, and to whom.
    pub fn ask(&mut self, now_ms: u64, asker: Asker) -> Option<(Asker, String)> {
        if self.poll.is_some() {
            let (code, reason) = TWICE;
            return Some((asker, frame::close(code, reason)));
        }
        self.poll = Some(asker);
        self.due_ms = now_ms.saturating_add(self.heartbeat_ms);
        self.answer(now_ms)
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
    pub fn answer(&mut self, now_ms: u64) -> Option<(Asker, String)> {
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
    pub fn leave(&mut self, now_ms: u64, handle: u64) -> bool {
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
    pub fn expire(&mut self, now_ms: u64) -> Due {
        if self.due_ms > now_ms {
            return Due::At(self.due_ms);
        }
        match self.take_poll(now_ms) {
            Some(asker) => Due::Beat(asker),
            None => Due::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(handle: u64) -> Asker {
        Asker {
            handle,
            callback: None,
            origin: None,
        }
    }

    fn open() -> Queue {
        let mut queue = Queue::new(asker(1), 25, 5);
        assert_eq!(queue.expire(1_000), Due::At(u64::MAX));
        assert_eq!(queue.take_poll(1_000), Some(asker(1)));
        queue
    }

    fn answer(handle: u64, frame: &str) -> Option<(Asker, String)> {
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
