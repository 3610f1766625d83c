//! What a request head says, by position in the buffer it was read from.

use crate::Span;

/// The bounds of a head. Each is a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the head with its final empty line: setting `header_bytes_max`. Above it 431.
    pub head_bytes_max: usize,
    /// Bytes of the request target: setting `target_bytes_max`. Above it 414.
    pub target_bytes_max: usize,
    /// Number of header lines: setting `headers_count_max`. Above it 431.
    pub headers_count_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16_384,
            target_bytes_max: 8_192,
            headers_count_max: 100,
        }
    }
}

/// The request method (RFC 9110, 9). Case matters: `get` is another method than `GET`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`
    #[default]
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
    /// `CONNECT`
    Connect,
    /// `TRACE`
    Trace,
    /// Any other token; see `Head::method_span`.
    Other,
}

impl Method {
    /// The method named by `name`, or `Other`.
    #[inline]
    #[must_use]
    pub fn from_bytes(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"PATCH" => Self::Patch,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            b"CONNECT" => Self::Connect,
            b"TRACE" => Self::Trace,
            _ => Self::Other,
        }
    }
}

/// How the end of the request body is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// There is none; also for `Content-Length: 0`.
    #[default]
    None,
    /// So many bytes follow the head; never zero.
    Length(u64),
    /// Chunks follow; see [`crate::chunked::Decoder`].
    Chunked,
}

/// One header line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderSpan {
    /// The name as sent.
    pub name: Span,
    /// The value without the space around it.
    pub value: Span,
}

/// A parsed head. Made once per connection or worker and filled again for each request, so it allocates only while it grows.
///
/// All spans are positions in the buffer given to [`super::parse`].
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The method, when it is one of the common ones.
    pub method: Method,
    /// The method as sent.
    pub method_span: Span,
    /// The request target as sent.
    pub target: Span,
    /// The path, still percent-encoded: starts with `/`, or is `*` for `OPTIONS *`.
    pub path: Span,
    /// What follows the first `?`, which may be nothing.
    pub query: Option<Span>,
    /// 0 for HTTP/1.0; 1 and more speak HTTP/1.1.
    pub minor_version: u8,
    /// The header lines in the order sent.
    pub headers: Vec<HeaderSpan>,
    /// How the body is framed.
    pub body: Body,
    /// Whether the client wants to go on with this connection (RFC 9112, 9.3).
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body. Only when there is one.
    pub expect_continue: bool,
    /// Whether the client asks for another protocol. May be ignored (RFC 9110, 7.8).
    pub upgrade: bool,
    /// The authority: of the target when it has one, else of `Host`.
    pub host: Option<Span>,
}

impl Head {
    /// An empty head, to be filled by [`super::parse`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of the `nth` (from 0) header line with this name, in any case.
    #[inline]
    #[must_use]
    pub fn header<'a>(&self, buf: &'a [u8], name: &[u8], nth: usize) -> Option<&'a [u8]> {
        self.headers
            .iter()
            .filter(|header| {
                header.name.len as usize == name.len()
                    && header.name.of(buf).eq_ignore_ascii_case(name)
            })
            .nth(nth)
            .map(|header| header.value.of(buf))
    }

    /// Makes it ready to be filled: all else is set whenever a head is complete.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.headers.clear();
        self.host = None;
    }
}
