//! Event stream reader. The parser follows WHATWG HTML section 9.2, and refuses lines that this server must never
//! send: unused fields, a CR inside a line, an id with NUL.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Connection, End, ReadError, Received};
use crate::response::{Chunked, Framing, Head};
use crate::wait::deadline;

/// Delay of a [`Follower`] between two connection attempts.
const RECONNECT: Duration = Duration::from_millis(10);

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Id of this event. An event without an id does not change the browser's last id.
    pub id: Option<String>,
    /// Event name. It is `message` if no name was sent.
    pub name: String,
    /// Data lines joined by LF.
    pub data: String,
}

/// An item of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// An event.
    Event(Event),
    /// A comment line, without its colon and following space.
    Comment(String),
    /// A new reconnection time in milliseconds.
    Retry(u64),
    /// An id without data. The browser stores the id as its last event id and dispatches no event.
    Position(String),
    /// The end of the stream, see [`StreamEnd`].
    End(StreamEnd),
}

/// End of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The last chunk (HTTP/1.1) or an orderly close (HTTP/1.0).
    Clean,
    /// The connection ended before the last chunk.
    Cut(End),
}

/// Incremental parser of a body.
#[derive(Debug, Default)]
pub struct Parser {
    text: Vec<u8>,
    id: Option<String>,
    name: Option<String>,
    data: Option<String>,
}

impl Parser {
    /// Adds received body bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    /// Returns the next complete item, if any.
    ///
    /// # Errors
    /// Describes the line that this server must not send.
    pub fn next_item(&mut self) -> Result<Option<Item>, String> {
        while let Some(len) = self.text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=len).take(len).collect();
            let line = String::from_utf8(line).map_err(|_| "a line is not UTF-8".to_string())?;
            if line.contains(['\r', '\0']) {
                return Err(format!("control byte in {line:?}"));
            }
            if let Some(item) = self.take_line(&line)? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    fn has_line(&self) -> bool {
        self.text.contains(&b'\n')
    }

    fn take_line(&mut self, line: &str) -> Result<Option<Item>, String> {
        if line.is_empty() {
            let (id, name, data) = (self.id.take(), self.name.take(), self.data.take());
            let Some(data) = data else {
                // An empty line alone ends a comment block; a name without data has no meaning.
                return match name {
                    Some(name) => Err(format!("event {name:?} without data")),
                    None => Ok(id.map(Item::Position)),
                };
            };
            let name = name.unwrap_or_else(|| "message".into());
            return Ok(Some(Item::Event(Event { id, name, data })));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_string();
        match field {
            "" => return Ok(Some(Item::Comment(value))),
            "id" => self.id = Some(value),
            "event" => self.name = Some(value),
            "data" => match &mut self.data {
                Some(data) => *data = format!("{data}\n{value}"),
                None => self.data = Some(value),
            },
            "retry" => {
                let ms = value.parse().map_err(|_| format!("retry {value:?}"))?;
                return Ok(Some(Item::Retry(ms)));
            }
            _ => return Err(format!("unknown field in {line:?}")),
        }
        Ok(None)
    }
}

/// An open event stream.
#[derive(Debug)]
pub struct Stream {
    connection: Connection,
    head: Head,
    chunks: Option<Chunked>,
    parser: Parser,
    ended: Option<StreamEnd>,
}

impl Stream {
    /// Requests `path` on this connection and expects an event stream.
    ///
    /// # Panics
    /// Panics if the response is not an event stream.
    #[track_caller]
    pub fn open(connection: Connection, path: &str, last_event_id: Option<&str>) -> Stream {
        match Stream::try_open(connection, path, last_event_id) {
            Ok(stream) => stream,
            Err(error) => panic!("event stream {path}: {error}"),
        }
    }

    /// Requests `path` on this connection.
    ///
    /// # Errors
    /// Returns the reason why there is no event stream.
    pub fn try_open(
        mut connection: Connection,
        path: &str,
        last_event_id: Option<&str>,
    ) -> Result<Stream, ReadError> {
        let mut headers = vec![("Accept", "text/event-stream")];
        headers.extend(last_event_id.map(|id| ("Last-Event-ID", id)));
        if connection
            .try_send_request("GET", path, &headers, b"")
            .is_err()
        {
            return Err(ReadError::Ended(End::Reset));
        }
        Stream::after_request(connection)
    }

    /// Expects an event stream as the response to a request that was already sent.
    ///
    /// # Errors
    /// Returns the reason why there is no event stream.
    pub fn after_request(mut connection: Connection) -> Result<Stream, ReadError> {
        let head = connection.read_head(Instant::now() + deadline())?;
        let media_type = head.header("content-type").unwrap_or("");
        if head.status != 200 || !media_type.starts_with("text/event-stream") {
            return Err(ReadError::Malformed(format!(
                "not an event stream: {head:?}"
            )));
        }
        let chunks = match head.framing(false).map_err(ReadError::Malformed)? {
            Framing::Chunked => Some(Chunked::default()),
            Framing::UntilClose => None,
            other => return Err(ReadError::Malformed(format!("event stream with {other:?}"))),
        };
        Ok(Stream {
            connection,
            head,
            chunks,
            parser: Parser::default(),
            ended: None,
        })
    }

    /// Returns the response head.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the next item, or `None` if none arrives within `patience`.
    ///
    /// # Panics
    /// Panics if the stream is malformed.
    #[track_caller]
    pub fn try_next(&mut self, patience: Duration) -> Option<Item> {
        let end = Instant::now() + patience;
        loop {
            let item = self.parser.next_item();
            if let Some(item) = item.unwrap_or_else(|why| panic!("event stream: {why}")) {
                return Some(item);
            }
            if let Some(ended) = self.ended {
                return Some(Item::End(ended));
            }
            self.take_body();
            if self.ended.is_some() || self.parser.has_line() {
                continue;
            }
            match self
                .connection
                .receive(end.saturating_duration_since(Instant::now()))
            {
                Received::Bytes => self.take_body(),
                Received::Ended(End::Closed) if self.chunks.is_none() => {
                    self.ended = Some(StreamEnd::Clean);
                }
                Received::Ended(end) => self.ended = Some(StreamEnd::Cut(end)),
                Received::TimedOut => return None,
            }
        }
    }

    /// Returns the next item.
    ///
    /// # Panics
    /// Panics if none arrives before the deadline.
    #[track_caller]
    pub fn next_item(&mut self) -> Item {
        self.try_next(deadline())
            .expect("an item arrives before the deadline")
    }

    /// Returns the next event; skips comments, retry times and ids without data.
    ///
    /// # Panics
    /// Panics at the deadline and at the end of the stream.
    #[track_caller]
    pub fn next_event(&mut self) -> Event {
        loop {
            match self.next_item() {
                Item::Event(event) => return event,
                Item::Comment(_) | Item::Retry(_) | Item::Position(_) => {}
                Item::End(end) => panic!("the stream ended ({end:?}) where an event was due"),
            }
        }
    }

    /// Returns the next `count` events.
    ///
    /// # Panics
    /// Panics at the deadline and at the end of the stream.
    #[track_caller]
    pub fn next_events(&mut self, count: usize) -> Vec<Event> {
        (0..count).map(|_| self.next_event()).collect()
    }

    /// Returns all items up to and including the end.
    ///
    /// # Panics
    /// Panics if the stream does not end before the deadline.
    #[track_caller]
    pub fn read_to_end(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        loop {
            items.push(self.next_item());
            if matches!(items.last(), Some(Item::End(_))) {
                return items;
            }
        }
    }

    /// Checks that no event arrives for `period`; other items may arrive.
    ///
    /// # Panics
    /// Panics with the event, or if the stream ends.
    #[track_caller]
    pub fn expect_silence(&mut self, period: Duration) {
        let end = Instant::now() + period;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            match self.try_next(left) {
                None | Some(Item::Comment(_) | Item::Retry(_) | Item::Position(_)) => {}
                Some(item) => panic!("{item:?} where silence was due"),
            }
        }
    }

    /// Returns the underlying connection, for example to send more bytes or to reset it.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    /// Moves received bytes through the transfer decoding into the parser.
    fn take_body(&mut self) {
        let inbox = self.connection.inbox();
        let Some(chunks) = &mut self.chunks else {
            self.parser.push(inbox);
            inbox.clear();
            return;
        };
        let mut body = Vec::new();
        let decoded = chunks.decode(inbox, &mut body);
        let (used, done) = decoded.unwrap_or_else(|why| panic!("event stream: {why}"));
        inbox.drain(..used);
        self.parser.push(&body);
        if done {
            self.ended = Some(StreamEnd::Clean);
        }
    }
}

/// A subscriber that behaves like a browser: when its stream ends, it reconnects and resumes from its last event id.
#[derive(Debug)]
pub struct Follower {
    address: SocketAddr,
    path: String,
    stream: Option<Stream>,
    /// Last id from the server, with an event or alone.
    pub last_event_id: Option<String>,
    /// All events so far, in order of arrival.
    pub events: Vec<Event>,
    /// Number of successful connections.
    pub connects: usize,
}

impl Follower {
    /// Creates a follower of `path`, which connects at the first read.
    pub fn new(address: SocketAddr, path: &str) -> Follower {
        Follower {
            address,
            path: path.to_string(),
            stream: None,
            last_event_id: None,
            events: Vec::new(),
            connects: 0,
        }
    }

    /// Resets the current stream; the next call resumes.
    pub fn disconnect(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.into_connection().reset();
        }
    }

    /// Connects, unless connected.
    ///
    /// # Panics
    /// Panics if there is no stream before the deadline.
    #[track_caller]
    pub fn connect(&mut self) {
        let end = Instant::now() + deadline();
        while self.stream.is_none() {
            assert!(
                Instant::now() < end,
                "no event stream on {} in time",
                self.path
            );
            let opened = Connection::try_open(self.address).map(|connection| {
                Stream::try_open(connection, &self.path, self.last_event_id.as_deref())
            });
            match opened {
                Ok(Ok(stream)) => {
                    self.stream = Some(stream);
                    self.connects += 1;
                }
                // Refused and reset connections are normal during the replacement of workers.
                Ok(Err(ReadError::Malformed(why))) => panic!("{}: {why}", self.path),
                _ => thread::sleep(RECONNECT),
            }
        }
    }

    /// Reads, reconnecting as needed, until `done` returns true for the events so far.
    ///
    /// # Panics
    /// Panics if that does not happen before the deadline.
    #[track_caller]
    pub fn read_until(&mut self, what: &str, mut done: impl FnMut(&[Event]) -> bool) {
        let end = Instant::now() + deadline();
        while !done(&self.events) {
            self.connect();
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                panic!(
                    "{}: {what}: not before the deadline: {} events, last id {:?}, {} connects",
                    self.path,
                    self.events.len(),
                    self.last_event_id,
                    self.connects
                );
            };
            let Some(stream) = &mut self.stream else {
                continue;
            };
            match stream.try_next(left) {
                Some(Item::Event(event)) => {
                    if event.id.is_some() {
                        self.last_event_id.clone_from(&event.id);
                    }
                    self.events.push(event);
                }
                Some(Item::Position(id)) => self.last_event_id = Some(id),
                Some(Item::End(_)) => self.stream = None,
                Some(Item::Comment(_) | Item::Retry(_)) | None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Result<Vec<Item>, String> {
        let mut parser = Parser::default();
        let mut items = Vec::new();
        for byte in text.bytes() {
            parser.push(&[byte]);
            while let Some(item) = parser.next_item()? {
                items.push(item);
            }
        }
        Ok(items)
    }

    #[test]
    fn events_comments_and_retry_are_told_apart() {
        let text =
            "retry: 250\n: hello\n\nid: 1-a\nevent: join\ndata: one\ndata:two\n\ndata\n\nid: 7\n\n";
        let expected = vec![
            Item::Retry(250),
            Item::Comment("hello".into()),
            Item::Event(Event {
                id: Some("1-a".into()),
                name: "join".into(),
                data: "one\ntwo".into(),
            }),
            Item::Event(Event {
                id: None,
                name: "message".into(),
                data: String::new(),
            }),
            Item::Position("7".into()),
        ];
        assert_eq!(items(text), Ok(expected));
    }

    #[test]
    fn an_unfinished_event_is_no_event() {
        assert_eq!(items("id: 1\ndata: x\n"), Ok(vec![]));
    }

    #[test]
    fn lines_this_server_never_sends_are_refused() {
        for text in [
            "data: a\r\n\n",
            "other: x\n",
            "event: x\n\n",
            "retry: soon\n",
            "id: a\0b\n",
        ] {
            assert!(items(text).is_err(), "{text:?}");
        }
    }
}
