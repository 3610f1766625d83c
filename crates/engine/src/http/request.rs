//! The current request, as offsets into the received bytes.
//!
//! Each worker reuses one `Request`, so a request costs no allocation. Values returned by accessors are valid until the worker is
//! polled for its next event.

use fermata_io::{Deadline, Peer};
use fermata_proto::http1::{self, Body};

use crate::http::exchange::{Exchange, Stage};
use crate::http::router::Params;
use crate::id::RequestId;
use crate::net::connection::Connection;
use crate::net::index::ExchangeIndex;

/// `RequestView::unrouted` of a request for a file whose directory has a handler in front.
pub const UNROUTED_FILE: u16 = 200;

/// Location of the current request's head and body.
pub(crate) enum Place {
    /// In the worker's input buffer: the complete request arrived in one read.
    Input {
        head_start: usize,
        body_start: usize,
        body_len: usize,
    },
    /// In `head_bytes` and `body_bytes`: the body arrived in pieces or was chunked.
    Owned,
}

/// A request and the result of routing.
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
    /// Offsets of slashes that were sent as `%2F`.
    pub(crate) slashes: Vec<u32>,
    /// The path with percent-encoded slashes preserved as `%2F`. Empty if the path contains none.
    pub(crate) path_shown: Vec<u8>,
    pub(crate) path_is_plain: bool,
    pub(crate) params: Params,
    /// Status that the server would send without a fallback handler. 0 if a route was found, `UNROUTED_FILE` for a route of files.
    pub(crate) unrouted: u16,
    /// `Allow` header of that response.
    pub(crate) allow: String,
    /// True for a WebSocket by extended CONNECT (RFC 8441).
    pub(crate) is_connect: bool,
    /// Number of the stored part of the body. 0 means none.
    pub(crate) upload: u32,
}

/// The current request together with its buffer.
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

    /// Makes the parsed head the current request.
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

    /// Appends the request to `out` as a client would send it, for another worker to parse. `input` is the worker's input
    /// buffer. Returns false if the body is not in memory.
    pub(crate) fn write_again(&self, input: &[u8], out: &mut Vec<u8>) -> bool {
        let view = self.view(input);
        if self.upload != 0 || self.is_connect {
            return false;
        }
        out.extend_from_slice(view.head);
        match self.head.body {
            Body::None => true,
            Body::Length(length) => {
                out.extend_from_slice(view.body);
                length == view.body.len() as u64
            }
            // Write the content as one chunk; the client's chunk boundaries are not retained.
            Body::Chunked => {
                if !view.body.is_empty() {
                    let size = format!("{:x}\r\n", view.body.len());
                    out.extend_from_slice(size.as_bytes());
                    out.extend_from_slice(view.body);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"0\r\n\r\n");
                true
            }
        }
    }

    /// Returns the request's exchange.
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
    /// Returns the id of this request, for the response.
    #[inline]
    pub fn handle(&self) -> RequestId {
        self.request.handle
    }

    /// Returns the length of the head in bytes, including the request line.
    pub fn head_len(&self) -> usize {
        self.head.len()
    }

    /// Returns the number of the route's handler.
    #[inline]
    pub fn handler(&self) -> u32 {
        self.request.handler
    }

    /// Returns true for a WebSocket by extended CONNECT (RFC 8441). [`method`](Self::method) then returns GET, and there is no
    /// `Upgrade` header.
    pub fn is_extended_connect(&self) -> bool {
        self.request.is_connect
    }

    /// Returns the method as sent (RFC 9110, section 9.1).
    #[inline]
    pub fn method(&self) -> &'a [u8] {
        self.request.head.method_span.of(self.head)
    }

    /// Returns the request target as sent (RFC 9112, section 3.2).
    #[inline]
    pub fn target(&self) -> &'a [u8] {
        self.request.head.target.of(self.head)
    }

    /// Returns the path, percent-decoded except for `%2F`. Each slash in the result separates two segments.
    #[inline]
    pub fn path(&self) -> &'a [u8] {
        if self.request.path_is_plain || self.request.slashes.is_empty() {
            self.decoded_path()
        } else {
            &self.request.path_shown
        }
    }

    /// Returns the fully decoded path, to which parameters refer.
    #[inline]
    fn decoded_path(&self) -> &'a [u8] {
        if self.request.path_is_plain {
            self.request.head.path.of(self.head)
        } else {
            &self.request.path
        }
    }

    /// Returns the part after the first `?`, not decoded; `None` without a `?`.
    #[inline]
    pub fn query(&self) -> Option<&'a [u8]> {
        self.request.head.query.map(|span| span.of(self.head))
    }

    /// Returns the content, without transfer coding.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Returns the number of the stored part of the body, for `Http::upload`. 0 means none. The embedder has to call
    /// `Http::release_upload` after the request.
    #[inline]
    pub fn upload(&self) -> u32 {
        self.request.upload
    }

    /// Returns the number of header field lines.
    #[inline]
    pub fn headers_len(&self) -> usize {
        self.request.head.headers.len()
    }

    /// Returns the field line at `index`: name as sent and value without surrounding whitespace.
    pub fn header_at(&self, index: usize) -> Option<(&'a [u8], &'a [u8])> {
        let line = self.request.head.headers.get(index)?;
        Some((line.name.of(self.head), line.value.of(self.head)))
    }

    /// Returns the `nth` field line of that name, case-insensitive.
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

    /// Returns the part of the path that the route's `{name}` matched.
    pub fn route(&self, name: &[u8]) -> Option<&'a [u8]> {
        let span = self.request.params.get(name)?;
        Some(span.of(self.decoded_path()))
    }

    /// Returns the route parameter at `index`: name and matched text.
    pub fn route_at(&self, index: usize) -> Option<(&'a str, &'a [u8])> {
        let (name, span) = self.request.params.at(index)?;
        Some((name, span.of(self.decoded_path())))
    }

    /// Returns the requested host and port: from the request target if it contains them, otherwise from `Host`.
    pub fn host(&self) -> Option<&'a [u8]> {
        self.request.head.host.map(|host| host.of(self.head))
    }

    /// For a fallback handler: returns the status that the server would send, and its `Allow`
    /// header. 0 if a route was found, [`UNROUTED_FILE`] for a route of files.
    #[inline]
    pub fn unrouted(&self) -> (u16, Option<&'a [u8]>) {
        let request = self.request;
        let allow = (!request.allow.is_empty()).then_some(request.allow.as_bytes());
        (request.unrouted, allow)
    }

    /// Returns the address of the peer.
    pub fn peer(&self) -> Peer {
        self.request.peer
    }
}
