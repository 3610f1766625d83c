//! Reads event streams: the parser follows WHATWG HTML section 9.2, and refuses what this server must
//! never send (a field it does not use, CR inside a line, an id with NUL).

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Connection, End, ReadError, Received};
use crate::response::{Chunked, Framing, Head};
use crate::wait::deadline;

/// Pause of a [`Follower`] between two tries to connect.
const RECONNECT: Duration = Duration::from_millis(10);

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The id of this very event; events without one leave the browser's last id as it is.
    pub id: Option<String>,
    /// The event name, `message` when none was sent.
    pub name: String,
    /// Data lines joined by LF.
    pub data: String,
}

/// What a stream yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// An event.
    Event(Event),
    /// A comment line, without its colon and following space.
    Comment(String),
    /// A new reconnection time in milliseconds.
    Retry(u64),
    /// An id without data: the browser remembers it as its last one and dispatches nothing.
    Position(String),
    /// The stream is over, see [`StreamEnd`].
    End(StreamEnd),
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// With the last chunk (HTTP/1.1) or an orderly close (HTTP/1.0).
    Clean,
    /// The connection ended before the last chunk.
    Cut(End),
}

/// Splits a body into items. Bytes go in as they arrive.
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

    /// The next complete item, if there is one.
    ///
    /// # Errors
    /// Says which line this server must not have sent.
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
                // A bare empty line only ends a comment block; a name without data means nothing.
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
    /// Asks for `path` on this connection and expects an event stream.
    ///
    /// # Panics
    /// Panics when the answer is anything else.
    #[track_caller]
    pub fn open(connection: Connection, path: &str, last_event_id: Option<&str>) -> Stream {
        match Stream::try_open(connection, path, last_event_id) {
            Ok(stream) => stream,
            Err(error) => panic!("event stream {path}: {error}"),
        }
    }

    /// Asks for `path` on this connection.
    ///
    /// # Errors
    /// Says why there is no event stream.
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

    /// Expects an event stream as the answer to a request that was already sent.
    ///
    /// # Errors
    /// Says why there is no event stream.
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

    /// The response head.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The next item, or `None` when nothing arrives within `patience`.
    ///
    /// # Panics
    /// Panics when the stream is malformed.
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

    /// The next item.
    ///
    /// # Panics
    /// Panics when none arrives before the deadline.
    #[track_caller]
    pub fn next_item(&mut self) -> Item {
        self.try_next(deadline())
            .expect("an item arrives before the deadline")
    }

    /// The next event; comments, retry hints and positions are skipped.
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

    /// The next `count` events.
    ///
    /// # Panics
    /// Panics at the deadline and at the end of the stream.
    #[track_caller]
    pub fn next_events(&mut self, count: usize) -> Vec<Event> {
        (0..count).map(|_| self.next_event()).collect()
    }

    /// Everything up to the end, the end last.
    ///
    /// # Panics
    /// Panics when the stream does not end before the deadline.
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

    /// Checks that no event arrives for `period`; comments and the like may.
    ///
    /// # Panics
    /// Panics with the event, or when the stream ends.
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

    /// The connection below, for example to send more or to reset it.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    /// Moves received bytes through the transfer framing into the parser.
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

/// A subscriber that behaves as a browser: when its stream ends, it connects again and resumes with the
/// last id it saw.
#[derive(Debug)]
pub struct Follower {
    address: SocketAddr,
    path: String,
    stream: Option<Stream>,
    /// The last id the server sent, with an event or alone.
    pub last_event_id: Option<String>,
    /// Every event so far, in order of arrival.
    pub events: Vec<Event>,
    /// How often it has connected successfully.
    pub connects: usize,
}

impl Follower {
    /// A follower of `path`; it connects when first asked for something.
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

    /// Ends the present stream by a reset; the next call resumes.
    pub fn disconnect(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.into_connection().reset();
        }
    }

    /// Connects, if it is not connected.
    ///
    /// # Panics
    /// Panics when there is no stream before the deadline.
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
                // Refused and reset connections are normal while workers are being replaced.
                Ok(Err(ReadError::Malformed(why))) => panic!("{}: {why}", self.path),
                _ => thread::sleep(RECONNECT),
            }
        }
    }

    /// Reads, reconnecting as needed, until `done` is true for the events so far.
    ///
    /// # Panics
    /// Panics when that does not happen before the deadline.
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
