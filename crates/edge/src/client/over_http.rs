//! WebSocket-over-HTTP: state of a WebSocket client whose origin receives requests with events.

use std::rc::Rc;

use fermata_grip::instruct::Meta;
use fermata_grip::over_http::{
    AcceptError, Event, EventError, HeaderError, KEEP_ALIVE_MIN_DEFAULT_S, KeepAlive, MEDIA_TYPE,
    Outbox, Reply, decode, is_forwarded, meta_headers,
};
use fermata_grip::reliable::retry_delay_ms;

use crate::client::request::{Body, ClientRequest};
use crate::upstream::reply::borrowed;
use crate::upstream::response::Head;

/// Maximum bytes of content queued for an origin.
const OUTBOX_BYTES_MAX: usize = 200_000;
/// Maximum number of events queued for an origin.
const OUTBOX_EVENTS_MAX: usize = 1_000;

/// Pause in milliseconds after the first request of which the origin accepted no content.
const STALL_MS: u64 = 1_000;
/// Maximum number of times that the pause doubles, if the origin accepts no content of further requests either.
const STALL_DOUBLINGS_MAX: u32 = 5;

/// Maximum size of a response with events.
pub(crate) const RESPONSE_BYTES_MAX: usize = 1_000_000;

/// A client whose events are sent to the origin, one request at a time.
pub(crate) struct OverHttp {
    /// The handshake, from which each request is built.
    opening: Rc<ClientRequest>,
    outbox: Outbox,
    connection_id: Vec<u8>,
    meta: Meta,
    keep_alive_s: Option<u32>,
    /// Time at which a request without events is sent; `u64::MAX` if never.
    idle_due_ms: u64,
    /// A request is sent even without events.
    wants_request: bool,
    /// A request is in progress, or waits for a pause to end.
    is_asking: bool,
    is_single: bool,
    retries: u32,
    /// Number of consecutive requests of which nothing was accepted.
    stalls: u32,
    has_closed: bool,
    /// Reading from the client is paused, because the queue is full.
    has_deferred: bool,
}

/// Result of a handshake.
pub(crate) enum Opening {
    /// The response does not open a WebSocket. The edge forwards it to the client (401, 404, a redirect).
    Refused,
    /// The WebSocket is open, with events for the client.
    Opened(Reply, Vec<Event>),
}

/// Space in the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Enough,
    /// Nearly full: reading from the client pauses.
    Little,
}

/// Error that closes a WebSocket over HTTP.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OverHttpError {
    /// The response has no valid header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The body is malformed.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The response acknowledges other content than was sent.
    #[error(transparent)]
    Accept(#[from] AcceptError),
    /// The first response has no OPEN event.
    #[error("the response to OPEN does not begin with OPEN")]
    Unopened,
    /// A message is larger than the queue.
    #[error("a message is larger than {OUTBOX_BYTES_MAX} bytes")]
    MessageTooLarge,
}

impl OverHttp {
    /// Creates the state of a client with this handshake.
    pub fn new(opening: Rc<ClientRequest>) -> Box<Self> {
        Box::new(Self {
            opening,
            outbox: Outbox::new(OUTBOX_BYTES_MAX, OUTBOX_EVENTS_MAX),
            connection_id: connection_id(),
            meta: Meta::new(),
            keep_alive_s: None,
            idle_due_ms: u64::MAX,
            wants_request: false,
            is_asking: true,
            is_single: false,
            retries: 0,
            stalls: 0,
            has_closed: false,
            has_deferred: false,
        })
    }

    /// Returns the request that opens the WebSocket.
    pub fn open(&mut self, is_single: bool) -> ClientRequest {
        self.is_single = is_single;
        // Cannot fail: an empty queue has room for one event.
        let _ = self.outbox.push(Event::Open);
        self.request()
    }

    /// Returns the handshake.
    pub fn opening(&self) -> Rc<ClientRequest> {
        Rc::clone(&self.opening)
    }

    /// Returns the `Connection-Id`.
    pub fn connection_id(&self) -> &[u8] {
        &self.connection_id
    }

    /// Handles the response to the opening request.
    ///
    /// # Errors
    /// The response has events but does not open the WebSocket.
    pub fn on_opening(
        &mut self,
        head: &Head,
        body: &[u8],
        is_single: bool,
    ) -> Result<Opening, OverHttpError> {
        let Ok(reply) = read(head) else {
            return Ok(Opening::Refused);
        };
        let events = decode(body)?;
        let is_opened = match events.first() {
            Some(Event::Open) => true,
            Some(_) => false,
            None => matches!(reply.keep_alive, KeepAlive::Every(_)),
        };
        if !is_opened || self.outbox.accept(None).is_err() {
            return Err(OverHttpError::Unopened);
        }
        self.is_asking = false;
        self.is_single = is_single;
        Ok(Opening::Opened(reply, events))
    }

    /// Handles a later response.
    ///
    /// # Errors
    /// The response has no events, or does not match the request.
    pub fn on_answer(
        &mut self,
        head: &Head,
        body: &[u8],
    ) -> Result<(Reply, Vec<Event>), OverHttpError> {
        self.is_asking = false;
        let reply = read(head)?;
        let events = decode(body)?;
        let has_content = self.outbox.offered_bytes() > 0;
        self.outbox.accept(reply.content_bytes_accepted)?;
        self.retries = 0;
        self.stalls = match reply.content_bytes_accepted {
            Some(0) if has_content => self.stalls + 1,
            _ => 0,
        };
        Ok((reply, events))
    }

    /// Applies the header fields of a response.
    pub fn settle(&mut self, reply: Reply, now_ms: u64) {
        match reply.keep_alive {
            KeepAlive::Unchanged => {}
            KeepAlive::Off => self.keep_alive_s = None,
            KeepAlive::Every(seconds) => self.keep_alive_s = Some(seconds),
        }
        self.idle_due_ms = match self.keep_alive_s {
            Some(seconds) => now_ms + u64::from(seconds) * 1_000,
            None => u64::MAX,
        };
        for (name, value) in reply.set_meta {
            match value {
                Some(value) => self.meta.insert(name, value),
                None => self.meta.remove(&name),
            };
        }
    }

    /// Returns the pause before the next request to an origin that accepts nothing; `None` if the origin accepted something.
    pub fn stall(&mut self) -> Option<u64> {
        if self.stalls == 0 {
            return None;
        }
        self.is_asking = true;
        let doublings = (self.stalls - 1).min(STALL_DOUBLINGS_MAX);
        Some(STALL_MS << doublings)
    }

    /// Returns true if the client was paused and the queue is at most half full.
    pub fn takes_client_back(&mut self) -> bool {
        self.has_deferred
            && self.outbox.has_room(OUTBOX_BYTES_MAX / 2)
            && std::mem::take(&mut self.has_deferred)
    }

    /// Returns true if the client has closed and its origin was notified.
    pub fn is_done(&self) -> bool {
        self.has_closed && self.outbox.is_empty()
    }

    /// Returns the next request if there are events and no request is in progress.
    pub fn ask(&mut self) -> Option<ClientRequest> {
        if self.is_asking || (self.outbox.is_empty() && !self.wants_request) {
            return None;
        }
        self.is_asking = true;
        self.wants_request = false;
        self.idle_due_ms = u64::MAX;
        Some(self.request())
    }

    /// Makes the next request due even if no events are queued.
    pub fn want_request(&mut self) {
        self.wants_request = true;
    }

    /// Ends a pause.
    pub fn wake(&mut self) {
        self.is_asking = false;
        self.wants_request = true;
    }

    /// Returns the time at which a request without events is sent; `u64::MAX` if never.
    pub fn idle_due_ms(&self) -> u64 {
        self.idle_due_ms
    }

    /// Returns true if that time has passed.
    pub fn is_idle(&mut self, now_ms: u64) -> bool {
        if self.idle_due_ms > now_ms {
            return false;
        }
        self.idle_due_ms = u64::MAX;
        self.wants_request = true;
        true
    }

    /// Handles a request that did not reach the origin. Returns the delay in milliseconds until it is sent again; `None` if it is
    /// not sent again.
    pub fn on_undelivered(&mut self, random: u32) -> Option<u64> {
        self.outbox.fail();
        let delay_ms = retry_delay_ms(self.retries, random)?;
        self.retries += 1;
        Some(delay_ms)
    }

    /// Queues a message of the client.
    ///
    /// # Errors
    /// The message is larger than the queue.
    pub fn push(&mut self, event: Event) -> Result<Room, OverHttpError> {
        let pushed = self.outbox.push(event);
        pushed.map_err(|_| OverHttpError::MessageTooLarge)?;
        Ok(if self.outbox.has_room(OUTBOX_BYTES_MAX / 2) {
            Room::Enough
        } else {
            self.has_deferred = true;
            Room::Little
        })
    }

    /// Queues the client's close frame, or its disconnect without a close frame (`None`). Returns false if the queue is full.
    pub fn close(&mut self, close: Option<Option<(u16, Vec<u8>)>>) -> bool {
        self.has_closed = true;
        self.idle_due_ms = u64::MAX;
        let event = match close {
            Some(close) => Event::Close(close),
            None => {
                // Content that the origin has not accepted is of no use after the disconnect.
                if !self.is_asking {
                    self.outbox = Outbox::new(OUTBOX_BYTES_MAX, OUTBOX_EVENTS_MAX);
                }
                Event::Disconnect
            }
        };
        self.outbox.push(event).is_ok()
    }

    fn request(&mut self) -> ClientRequest {
        let mut body = Vec::new();
        let replayed = self.outbox.offer(&mut body, self.is_single);
        let opening = &self.opening;
        let mut headers: Vec<(Vec<u8>, Vec<u8>)> = opening
            .headers
            .iter()
            .filter(|(name, _)| is_forwarded(name))
            .cloned()
            .collect();
        let mut add = |name: &str, value: &[u8]| {
            headers.push((name.as_bytes().to_vec(), value.to_vec()));
        };
        add("Sec-WebSocket-Extensions", b"grip");
        add("Accept", MEDIA_TYPE.as_bytes());
        add("Content-Type", MEDIA_TYPE.as_bytes());
        add("Connection-Id", &self.connection_id);
        if replayed > 0 {
            add("Content-Bytes-Replayed", replayed.to_string().as_bytes());
        }
        headers.extend(meta_headers(&self.meta).map(|(name, value)| (name, value.to_vec())));
        ClientRequest {
            method: b"POST".to_vec(),
            target: opening.target.clone(),
            headers,
            body: Body::Memory(body),
            peer: opening.peer,
            host: opening.host.clone(),
            is_tls: opening.is_tls,
        }
    }
}

fn read(head: &Head) -> Result<Reply, HeaderError> {
    Reply::read(
        head.status,
        &borrowed(&head.headers),
        KEEP_ALIVE_MIN_DEFAULT_S,
    )
}

/// Returns an unpredictable id.
fn connection_id() -> Vec<u8> {
    let (high, low) = (fermata_io::random::u64(), fermata_io::random::u64());
    format!("{high:016x}{low:016x}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::source::Source;

    fn head(headers: &[(&str, &str)]) -> Head {
        let media = [("Content-Type", MEDIA_TYPE)];
        let headers = headers.iter().chain(&media);
        Head {
            status: 200,
            headers: headers.map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            ..Head::default()
        }
    }

    fn text(content: &str) -> Event {
        Event::Text(content.as_bytes().to_vec())
    }

    fn body(request: Option<ClientRequest>) -> Vec<u8> {
        match request.expect("a request").body {
            Body::Memory(body) => body,
            _ => panic!("no events"),
        }
    }

    fn opened() -> Box<OverHttp> {
        let mut over = OverHttp::new(Source::of_get("/").request);
        assert_eq!(body(Some(over.open(false))), b"OPEN\r\n");
        let opening = over.on_opening(&head(&[]), b"OPEN\r\n", false);
        assert!(matches!(opening, Ok(Opening::Opened(_, events)) if events == [Event::Open]));
        over
    }

    #[test]
    fn a_handshake_is_opened_refused_or_neither() {
        let answer = |head: &Head, body: &[u8]| {
            let mut over = OverHttp::new(Source::of_get("/").request);
            over.open(false);
            over.on_opening(head, body, false)
        };
        let refused = Head {
            status: 401,
            ..head(&[])
        };
        assert!(matches!(answer(&refused, b"no"), Ok(Opening::Refused)));
        for body in [&b""[..], b"TEXT 1\r\na\r\n"] {
            let found = answer(&head(&[]), body);
            assert!(matches!(found, Err(OverHttpError::Unopened)));
        }
        let found = answer(&head(&[]), b"OPEN");
        assert!(matches!(found, Err(OverHttpError::Event(_))));
        // A response that sets the interval may have no events.
        let found = answer(&head(&[("Keep-Alive-Interval", "30")]), b"");
        assert!(matches!(found, Ok(Opening::Opened(_, events)) if events.is_empty()));
    }

    #[test]
    fn one_request_is_under_way_and_what_comes_meanwhile_is_in_the_next() {
        let mut over = opened();
        assert!(over.ask().is_none());
        assert!(matches!(over.push(text("a")), Ok(Room::Enough)));
        assert_eq!(body(over.ask()), b"TEXT 1\r\na\r\n");
        assert!(matches!(over.push(text("b")), Ok(Room::Enough)));
        assert!(over.ask().is_none());
        assert!(over.on_answer(&head(&[]), b"").is_ok());
        assert_eq!(body(over.ask()), b"TEXT 1\r\nb\r\n");
        // A request that may not have arrived is sent again.
        assert!(over.on_undelivered(0).is_some());
        assert!(over.ask().is_none());
        over.wake();
        assert_eq!(body(over.ask()), b"TEXT 1\r\nb\r\n");
        let bad = Head {
            status: 500,
            ..head(&[])
        };
        let outcome = over.on_answer(&bad, b"");
        assert!(matches!(outcome, Err(OverHttpError::Header(_))));
    }

    #[test]
    fn an_origin_that_takes_nothing_is_left_alone_longer_and_longer() {
        let mut over = opened();
        over.push(text("abc")).expect("room");
        let mut pauses = Vec::new();
        for _ in 0..8 {
            over.wake();
            body(over.ask());
            let none = head(&[("Content-Bytes-Accepted", "0")]);
            over.on_answer(&none, b"").expect("an answer");
            pauses.push(over.stall().expect("a pause"));
            assert!(over.ask().is_none());
        }
        let longest = STALL_MS << STALL_DOUBLINGS_MAX;
        assert_eq!(pauses[..3], [STALL_MS, 2 * STALL_MS, 4 * STALL_MS]);
        assert_eq!(pauses[5..], [longest; 3]);
        over.wake();
        body(over.ask());
        over.on_answer(&head(&[]), b"").expect("an answer");
        assert_eq!(over.stall(), None);
    }

    #[test]
    fn a_client_waits_for_an_origin_that_takes_less_than_it_sends() {
        let mut over = opened();
        let large = "x".repeat(OUTBOX_BYTES_MAX / 2 + 1);
        assert!(matches!(over.push(text(&large)), Ok(Room::Little)));
        assert!(!over.takes_client_back());
        let outcome = over.push(text(&large));
        assert!(matches!(outcome, Err(OverHttpError::MessageTooLarge)));
        body(over.ask());
        over.on_answer(&head(&[]), b"").expect("an answer");
        assert!(over.takes_client_back() && !over.takes_client_back());
    }

    #[test]
    fn reports_a_disconnect_and_then_is_done() {
        let mut over = opened();
        over.push(text("a")).expect("room");
        // After a disconnect, unaccepted content is dropped.
        assert!(over.close(None) && !over.is_done());
        assert_eq!(body(over.ask()), b"DISCONNECT\r\n");
        over.on_answer(&head(&[]), b"").expect("an answer");
        assert!(over.is_done());
        let mut over = opened();
        over.push(text("a")).expect("room");
        assert!(over.close(Some(None)));
        assert_eq!(body(over.ask()), b"TEXT 1\r\na\r\nCLOSE\r\n");
    }

    #[test]
    fn an_origin_is_asked_without_news_as_often_as_it_wants() {
        let mut over = opened();
        let every = head(&[("Keep-Alive-Interval", "30"), ("Set-Meta-User", "u")]);
        over.want_request();
        body(over.ask());
        let (reply, _) = over.on_answer(&every, b"").expect("an answer");
        over.settle(reply, 1_000);
        assert_eq!(over.idle_due_ms(), 31_000);
        assert!(!over.is_idle(30_999) && over.is_idle(31_000));
        assert!(!over.is_idle(99_000));
        let request = over.ask().expect("a request");
        assert_eq!(request.header("meta-user"), Some(&b"u"[..]));
    }
}
