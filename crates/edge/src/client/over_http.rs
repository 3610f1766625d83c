//! WebSocket-over-HTTP: what is known of a client whose origin speaks no WebSocket.

use std::rc::Rc;

use fermata_grip::instruct::Meta;
use fermata_grip::over_http::{Event, MEDIA_TYPE, Outbox, is_forwarded, meta_headers};

use crate::client::request::{Body, ClientRequest};

/// Content that waits for an origin, and events.
pub(crate) const OUTBOX_BYTES_MAX: usize = 200_000;
pub(crate) const OUTBOX_EVENTS_MAX: usize = 1_000;

/// The largest response of events.
pub(crate) const RESPONSE_BYTES_MAX: usize = 1_000_000;

/// A client as its origin is asked about it.
pub(crate) struct OverHttp {
    /// The handshake, from which every request is made.
    pub(crate) opening: Rc<ClientRequest>,
    pub(crate) outbox: Outbox,
    connection_id: Vec<u8>,
    pub(crate) meta: Meta,
    pub(crate) keep_alive_s: Option<u32>,
    /// When the origin is asked without news; `u64::MAX`: it is not.
    pub idle_due_ms: u64,
    /// A request is to be made even if there is no news.
    pub wants_request: bool,
    pub(crate) is_asking: bool,
    pub(crate) is_single: bool,
    pub(crate) retries: u32,
    /// Requests in a row of which nothing was accepted.
    pub(crate) stalls: u32,
    pub(crate) has_closed: bool,
    /// The client waits for room.
    pub(crate) has_deferred: bool,
}

impl OverHttp {
    /// For a client with this handshake.
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

    /// The request that asks whether the client may have its WebSocket.
    pub fn open(&mut self, is_single: bool) -> ClientRequest {
        self.is_single = is_single;
        // An empty queue has room for one event without content.
        let _ = self.outbox.push(Event::Open);
        self.request()
    }

    /// The handshake.
    pub fn opening(&self) -> Rc<ClientRequest> {
        Rc::clone(&self.opening)
    }

    /// What its origin knows it by.
    pub fn connection_id(&self) -> &[u8] {
        &self.connection_id
    }

    /// The next request.
    pub(crate) fn request(&mut self) -> ClientRequest {
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

/// An id that nobody can guess.
fn connection_id() -> Vec<u8> {
    let (high, low) = (fermata_io::random::u64(), fermata_io::random::u64());
    format!("{high:016x}{low:016x}").into_bytes()
}
