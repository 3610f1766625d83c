//! The request that is with the handler right now, as offsets into the bytes it came in.
//!
//! There is one per worker and it is reused: a request costs no allocation. What the accessors
//! return stays valid until the worker is asked for its next event.

use fermata_io::{Deadline, Peer};
use fermata_proto::http1;

use crate::http::exchange::{Exchange, Stage};
use crate::http::router::Params;
use crate::id::RequestId;
use crate::net::connection::Connection;
use crate::net::index::ExchangeIndex;

/// `RequestView::unrouted` of a request for a file whose directory has a handler in front.
pub const UNROUTED_FILE: u16 = 200;

/// Where the head and the body of the current request lie.
pub(crate) enum Place {
    /// In the worker's input buffer: the whole request arrived in one read.
    Input {
        head_start: usize,
        body_start: usize,
        body_len: usize,
    },
    /// In `head_bytes` and `body_bytes`: the body came in pieces or was chunked.
    Owned,
}

/// A request and what routing found out about it.
pub struct Request {
    pub(crate) handle: RequestId,
    pub(crate) handler: u32,
    pub(crate) peer: Peer,
    pub(crate) head: http1::Head,
    pub(crate) place: Place,
    pub(crate) head_bytes: Vec<u8>,
    pub(crate) body_bytes: Vec<u8>,
    /// The percent-decoded path; empty when `path_is_plain`.
    pub(crate) path: Vec<u8>,
    /// Where in it slashes stand that came as `%2F`.
    pub(crate) slashes: Vec<u32>,
    /// The path with `%2F` in their places; empty when there are none.
    pub(crate) path_shown: Vec<u8>,
    pub(crate) path_is_plain: bool,
    pub(crate) params: Params,
    /// The status without a fallback handler; 0 when a route was found, or `UNROUTED_FILE`.
    pub(crate) unrouted: u16,
    /// The `Allow` header of that answer.
    pub(crate) allow: String,
    /// It asks for a WebSocket by extended CONNECT (RFC 8441).
    pub(crate) is_connect: bool,
    /// Number of what of its body is not in `body_bytes`; 0 for nothing.
    pub(crate) upload: u32,
}

/// A view of the current request together with the buffer it lies in.
#[derive(Clone, Copy)]
pub struct RequestView<'a> {
    pub(crate) request: &'a Request,
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Request {
    pub(crate) fn new() -> Request {
        Request {
            handle: RequestId::UNSET,
            handler: 0,
            peer: Peer::Unix,
            head: http1::Head::default(),
            place: Place::Owned,
            head_bytes: Vec::new(),
            body_bytes: Vec::new(),
            path: Vec::new(),
            slashes: Vec::new(),
            path_shown: Vec::new(),
            path_is_plain: true,
            params: Params::default(),
            unrouted: 0,
            allow: String::new(),
            is_connect: false,
            upload: 0,
        }
    }

    /// Makes the parsed head the request that is with the handler.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        (connection, exchange): (&mut Connection, &mut Exchange),
        index: ExchangeIndex,
        serial: u32,
        place: Place,
    ) {
        exchange.enter(Stage::Handling(None));
        exchange.serial = serial;
        if !connection.is_blocked {
            connection.deadline = Deadline::NEVER;
        }
        self.handle = RequestId::new(serial, index);
        self.peer = connection.peer;
        self.place = place;
        self.path_is_plain = true;
        self.is_connect = false;
        self.upload = 0;
    }

    /// Its exchange.
    #[inline]
    pub(crate) fn index(&self) -> ExchangeIndex {
        self.handle.exchange()
    }

    #[inline]
    pub(crate) fn view<'a>(&'a self, input: &'a [u8]) -> RequestView<'a> {
        let (head, body) = match self.place {
            Place::Input {
                head_start,
                body_start,
                body_len,
            } => (
                &input[head_start..body_start],
                &input[body_start..body_start + body_len],
            ),
            Place::Owned => (&self.head_bytes[..], &self.body_bytes[..]),
        };
        RequestView {
            request: self,
            head,
            body,
        }
    }
}

impl<'a> RequestView<'a> {
    /// The handle that answers name this request by.
    #[inline]
    pub fn handle(&self) -> RequestId {
        self.request.handle
    }

    /// Bytes of its head, request line and all.
    pub fn head_len(&self) -> usize {
        self.head.len()
    }

    /// The number its route was added with.
    #[inline]
    pub fn handler(&self) -> u32 {
        self.request.handler
    }

    /// Whether it asks for a WebSocket by extended CONNECT (RFC 8441): its method is shown as GET, and it has no `Upgrade`.
    pub fn is_extended_connect(&self) -> bool {
        self.request.is_connect
    }

    /// The method as sent (RFC 9110, 9.1).
    #[inline]
    pub fn method(&self) -> &'a [u8] {
        self.request.head.method_span.of(self.head)
    }

    /// The request-target as sent (RFC 9112, 3.2).
    #[inline]
    pub fn target(&self) -> &'a [u8] {
        self.request.head.target.of(self.head)
    }

    /// The path, percent-decoded but for `%2F`: each of its slashes separates two segments.
    #[inline]
    pub fn path(&self) -> &'a [u8] {
        if self.request.path_is_plain || self.request.slashes.is_empty() {
            self.decoded_path()
        } else {
            &self.request.path_shown
        }
    }

    /// The path as parameters lie in it, with slashes that separate and slashes that do not.
    #[inline]
    fn decoded_path(&self) -> &'a [u8] {
        if self.request.path_is_plain {
            self.request.head.path.of(self.head)
        } else {
            &self.request.path
        }
    }

    /// What follows the first `?`, not decoded; `None` without a `?`.
    #[inline]
    pub fn query(&self) -> Option<&'a [u8]> {
        self.request.head.query.map(|span| span.of(self.head))
    }

    /// The content, with any transfer coding removed.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Number of what its body left outside of memory, for `Http::upload`; 0 for nothing. The embedder has to call
    /// `Http::release_upload` when the request is over.
    #[inline]
    pub fn upload(&self) -> u32 {
        self.request.upload
    }

    /// Number of header field lines.
    #[inline]
    pub fn headers_len(&self) -> usize {
        self.request.head.headers.len()
    }

    /// The field line at `index`: name as sent and value without surrounding whitespace.
    pub fn header_at(&self, index: usize) -> Option<(&'a [u8], &'a [u8])> {
        let line = self.request.head.headers.get(index)?;
        Some((line.name.of(self.head), line.value.of(self.head)))
    }

    /// The `nth` field line of that name, case-insensitive.
    pub fn header(&self, name: &[u8], nth: usize) -> Option<&'a [u8]> {
        let mut seen = 0;
        for line in &self.request.head.headers {
            if line.name.of(self.head).eq_ignore_ascii_case(name) {
                if seen == nth {
                    return Some(line.value.of(self.head));
                }
                seen += 1;
            }
        }
        None
    }

    /// The part of the path that the route's `{name}` matched.
    pub fn route(&self, name: &[u8]) -> Option<&'a [u8]> {
        let span = self.request.params.get(name)?;
        Some(span.of(self.decoded_path()))
    }

    /// The route parameter at `index`: its name and what it matched.
    pub fn route_at(&self, index: usize) -> Option<(&'a str, &'a [u8])> {
        let (name, span) = self.request.params.at(index)?;
        Some((name, span.of(self.decoded_path())))
    }

    /// The host and port that the client asked for: of the target when it has one, else of `Host`.
    pub fn host(&self) -> Option<&'a [u8]> {
        self.request.head.host.map(|host| host.of(self.head))
    }

    /// For a fallback handler: the status that the server would answer with, and its `Allow` header. 0 when a route
    /// was found, [`UNROUTED_FILE`] when that is one of files.
    #[inline]
    pub fn unrouted(&self) -> (u16, Option<&'a [u8]>) {
        let request = self.request;
        let allow = (!request.allow.is_empty()).then_some(request.allow.as_bytes());
        (request.unrouted, allow)
    }

    /// The other end of the connection.
    pub fn peer(&self) -> Peer {
        self.request.peer
    }
}
