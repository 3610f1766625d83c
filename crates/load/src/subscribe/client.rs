//! A held client: its state, and the decoding of its bytes into messages.

use fermata_io::Fd;
use fermata_proto::response_reader::RequestKind;
use fermata_proto::ws::Role;
use fermata_proto::ws::frame::Opcode;
use fermata_proto::ws::message::{Event, Reader, Rules};

use super::sse;
use crate::counters::{Counter, Counters};
use crate::error::Fault;
use crate::groups::ALL;
use crate::message::{Followed, Found, Message, Verifier, follow};
use crate::response::{Body, Head};
use crate::websocket::{Masks, Opening};

/// Invalid descriptor.
pub(crate) const NONE: Fd = -1;
/// Maximum length of a stored id; a client without an id cannot resume.
const ID_BYTES_MAX: usize = 256;

/// State of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Never started.
    New,
    /// Waiting to reconnect.
    Waiting,
    /// Waiting for the response head.
    Opening,
    /// Receiving events.
    Held,
    /// All attempts failed.
    GivenUp,
}

/// Transport of messages.
pub(crate) enum Feed {
    /// Events in the body of a response.
    Sse(Body),
    /// Messages of a WebSocket.
    Websocket(Reader),
}

/// A client. One process may hold a million clients, so the size of this struct matters. A client also stores the received part of
/// an incomplete event.
pub(crate) struct Client {
    pub fd: Fd,
    /// The unsent part of the request. After the request is sent, the start of an incomplete head or event.
    pub rest: Vec<u8>,
    /// Id of the last event, for `Last-Event-ID`.
    pub id: Option<Box<[u8]>>,
    pub feed: Feed,
    pub opened_us: u64,
    pub group: u32,
    /// Next expected sequence number of the client's group; zero accepts any.
    pub next: u32,
    /// Next expected sequence number of messages to all; zero accepts any.
    pub next_all: u32,
    /// Distinguishes events and timers of this connection from those that belong to earlier connections.
    pub generation: u16,
    /// Number of consecutive failed attempts.
    pub attempts: u8,
    /// True if the client was held before.
    pub known: bool,
    pub state: State,
}

impl Client {
    pub fn new(group: u32) -> Self {
        Self {
            fd: NONE,
            rest: Vec::new(),
            id: None,
            feed: Feed::Sse(Body::UntilClose),
            opened_us: 0,
            group,
            next: 1,
            next_all: 1,
            generation: 0,
            attempts: 0,
            known: false,
            state: State::New,
        }
    }

    /// Returns the number of confirmed messages that the client did not receive.
    pub fn missing(&self, confirmed: u32, confirmed_all: u32) -> u64 {
        let missing = |next: u32, confirmed: u32| match next {
            0 => 0,
            _ => u64::from((confirmed + 1).saturating_sub(next)),
        };
        missing(self.next, confirmed) + missing(self.next_all, confirmed_all)
    }

    fn keep_id(&mut self, id: &[u8]) {
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            self.id = None;
            return;
        }
        match &mut self.id {
            // Ids of one server usually have one length, so this allocates once.
            Some(kept) if kept.len() == id.len() => kept.copy_from_slice(id),
            kept => *kept = Some(id.into()),
        }
    }
}

/// State shared by the clients of one process while they read.
pub(crate) struct Shared {
    pub verifier: Verifier,
    pub counters: Counters,
    /// Maximum size of an event, in bytes.
    pub event_bytes_max: usize,
    /// Bytes to send to the client that was just read.
    pub replies: Vec<u8>,
    /// WebSocket handshake; `None` for event streams.
    opening: Option<Opening>,
    masks: Masks,
    /// Decoded bytes of one read. Empty between reads.
    decoded: Vec<u8>,
}

impl Shared {
    pub fn new(verifier: Verifier, event_bytes_max: usize, opening: Option<Opening>) -> Self {
        Self {
            replies: Vec::new(),
            opening,
            masks: Masks::new(),
            verifier,
            counters: Counters::default(),
            event_bytes_max,
            decoded: Vec::new(),
        }
    }

    /// Returns the WebSocket handshake if the clients are WebSockets.
    pub fn opening(&self) -> Option<&Opening> {
        self.opening.as_ref()
    }

    /// Processes bytes of the response head and returns how many belong to it; `None` if it is incomplete.
    pub fn handle_head(
        &mut self,
        client: &mut Client,
        bytes: &[u8],
    ) -> Result<Option<usize>, Fault> {
        let before = client.rest.len();
        let opened = if before == 0 {
            self.check_head(bytes)?
        } else {
            client.rest.extend_from_slice(bytes);
            self.check_head(&client.rest)?
        };
        let Some((head_bytes, feed)) = opened else {
            if before == 0 {
                client.rest.extend_from_slice(bytes);
            }
            return Ok(None);
        };
        client.rest = Vec::new();
        client.feed = feed;
        client.state = State::Held;
        client.attempts = 0;
        Ok(Some(head_bytes - before))
    }

    /// Returns the head's length and the feed after it; `None` if it is incomplete.
    fn check_head(&self, bytes: &[u8]) -> Result<Option<(usize, Feed)>, Fault> {
        if let Some(opening) = &self.opening {
            let checked = opening.check(bytes)?;
            return Ok(checked.map(|len| (len, Feed::Websocket(Reader::new()))));
        }
        match Head::parse(bytes, RequestKind::default())? {
            Some(head) if head.status != 200 => Err(Fault::Refused(head.status)),
            Some(head) => Ok(Some((head.bytes, Feed::Sse(head.body)))),
            None => Ok(None),
        }
    }

    /// Processes bytes of the stream and passes every valid message in it to `each`, in order. Returns `Ok(false)` at
    /// the end of the stream.
    pub fn handle_stream(
        &mut self,
        client: &mut Client,
        bytes: &mut [u8],
        mut each: impl FnMut(&Message),
    ) -> Result<bool, Fault> {
        // A placeholder, while the client and its feed are borrowed separately.
        let closed = Feed::Sse(Body::UntilClose);
        match std::mem::replace(&mut client.feed, closed) {
            Feed::Sse(mut body) => {
                let more = self.handle_body(client, &mut body, bytes, &mut each)?;
                client.feed = Feed::Sse(body);
                Ok(more)
            }
            Feed::Websocket(mut reader) => {
                let more = self.handle_frames(client, &mut reader, bytes, &mut each)?;
                client.feed = Feed::Websocket(reader);
                Ok(more)
            }
        }
    }

    fn handle_frames(
        &mut self,
        client: &mut Client,
        reader: &mut Reader,
        bytes: &mut [u8],
        each: &mut impl FnMut(&Message),
    ) -> Result<bool, Fault> {
        let max = self.event_bytes_max;
        let rules = Rules::new(Role::Client, max as u64, max, false);
        let mut used = 0;
        loop {
            let step = reader.handle(&mut bytes[used..], &rules)?;
            used += step.consumed;
            match step.event {
                None => return Ok(true),
                Some(Event::Message { payload, .. }) => self.handle_data(client, &payload, each),
                Some(Event::Ping(payload)) => {
                    self.masks.write(Opcode::Pong, &payload, &mut self.replies);
                }
                Some(Event::Pong(_)) => {}
                Some(Event::Close { .. }) => return Ok(false),
            }
        }
    }

    fn handle_body(
        &mut self,
        client: &mut Client,
        body: &mut Body,
        bytes: &[u8],
        each: &mut impl FnMut(&Message),
    ) -> Result<bool, Fault> {
        let mut buf = std::mem::take(&mut self.decoded);
        buf.extend_from_slice(&client.rest);
        let mut more = true;
        match body {
            Body::UntilClose => buf.extend_from_slice(bytes),
            Body::Length(left) => {
                let used = bytes
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                buf.extend_from_slice(&bytes[..used]);
                *left -= used as u64;
                more = *left != 0;
            }
            Body::Chunked(decoder) => {
                let decoded = decoder.decode(bytes, &mut buf, u64::MAX);
                let decoded = decoded.map_err(|_| Fault::Chunk)?;
                more = !decoded.done;
            }
        }
        let used = sse::parse(&buf, |event| self.handle_sse(client, event, each));
        let rest = &buf[used..];
        if rest.len() > self.event_bytes_max {
            return Err(Fault::EventTooLarge);
        }
        if rest.is_empty() {
            // Free the buffer, because nearly all held clients are between two events.
            client.rest = Vec::new();
        } else {
            client.rest.clear();
            client.rest.extend_from_slice(rest);
        }
        buf.clear();
        self.decoded = buf;
        Ok(more)
    }

    fn handle_sse(
        &mut self,
        client: &mut Client,
        event: sse::Event<'_>,
        each: &mut impl FnMut(&Message),
    ) {
        if let Some(id) = event.id {
            client.keep_id(id);
        }
        if event.name == Some(b"gap") {
            self.counters.increment(Counter::GapEvents);
        } else if !event.data.is_empty() {
            self.handle_data(client, event.data, each);
        }
    }

    /// Verifies data that may be a message.
    pub fn handle_data(
        &mut self,
        client: &mut Client,
        data: &[u8],
        each: &mut impl FnMut(&Message),
    ) {
        let message = match self.verifier.find(data) {
            Found::Message(message) => message,
            Found::Corrupt => return self.counters.increment(Counter::Corrupt),
            Found::Foreign => return self.counters.increment(Counter::Foreign),
        };
        let next = if message.group == ALL {
            &mut client.next_all
        } else if message.group == client.group {
            &mut client.next
        } else {
            return self.counters.increment(Counter::Misdirected);
        };
        match follow(next, &message) {
            Followed::Repeated => self.counters.increment(Counter::Repeated),
            Followed::Onward { lost, unconfirmed } => {
                self.counters.add(Counter::Lost, u64::from(lost));
                self.counters
                    .add(Counter::Unconfirmed, u64::from(unconfirmed));
                self.counters.increment(Counter::Deliveries);
                each(&message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(group: u32, sequence: u32) -> Message {
        Message {
            group,
            sequence,
            confirmed: sequence - 1,
            number: sequence,
            time_us: 5,
        }
    }

    fn event(message: &Message, out: &mut Vec<u8>) {
        let mut data = Vec::new();
        message.write(1, 80, &mut data);
        let id = format!("id-{}", message.sequence);
        fermata_proto::sse::event(out, Some(id.as_bytes()), None, &data);
    }

    #[test]
    fn a_client_is_small() {
        assert!(size_of::<Client>() <= 152, "{}", size_of::<Client>());
    }

    #[test]
    fn any_split_of_head_and_stream_gives_the_same() {
        let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for message in [message(3, 1), message(ALL, 1), message(3, 2), message(4, 1)] {
            let mut events = Vec::new();
            event(&message, &mut events);
            bytes.extend_from_slice(format!("{:x}\r\n", events.len()).as_bytes());
            bytes.extend_from_slice(&events);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"15\r\nevent: gap\ndata: {}\n\n\r\n0\r\n\r\n");
        for split in 1..=bytes.len() {
            let mut client = Client::new(3);
            client.state = State::Opening;
            let mut shared = Shared::new(Verifier::new(1, 80), 1000, None);
            let mut seen = Vec::new();
            let mut ended = false;
            for mut piece in bytes.clone().chunks_mut(split) {
                if client.state == State::Opening {
                    match shared.handle_head(&mut client, piece).expect("a head") {
                        Some(head_bytes) => piece = &mut piece[head_bytes..],
                        None => continue,
                    }
                }
                let each = |message: &Message| seen.push((message.group, message.sequence));
                ended = !shared
                    .handle_stream(&mut client, piece, each)
                    .expect("a stream");
            }
            assert!(ended);
            assert_eq!(seen, [(3, 1), (ALL, 1), (3, 2)], "pieces of {split}");
            assert_eq!(shared.counters.get(Counter::Misdirected), 1);
            assert_eq!(shared.counters.get(Counter::GapEvents), 1);
            assert_eq!(client.id.as_deref(), Some(&b"id-1"[..]));
            assert_eq!(client.rest.capacity(), 0);
            assert_eq!(client.missing(3, 1), 1);
        }
    }

    #[test]
    fn bounds_hold() {
        let mut client = Client::new(0);
        let mut shared = Shared::new(Verifier::new(1, 80), 10, None);
        let refused = shared.handle_stream(&mut client, &mut b"data: 0123456789".to_vec(), |_| ());
        assert!(refused.is_err());
        let status = b"HTTP/1.1 503 No\r\n\r\n";
        let refused = shared.handle_head(&mut Client::new(0), status);
        let text = refused.expect_err("it is refused").to_string();
        assert_eq!(text, "the answer was status 503");
    }
}
