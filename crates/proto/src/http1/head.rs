//! A parsed request head, as positions in the buffer that it was read from.

use crate::Span;

/// Limits of a request head; each is a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of the head including its final empty line (setting `header_bytes_max`); 431 above it.
    pub head_bytes_max: usize,
    /// Maximum bytes of the request target (setting `target_bytes_max`); 414 above it.
    pub target_bytes_max: usize,
    /// Maximum number of header lines (setting `headers_count_max`); 431 above it.
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

/// Request method (RFC 9110, section 9). Case-sensitive: `get` is not `GET`.
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
    /// Any other token. See `Head::method_span`.
    Other,
}

impl Method {
    /// Returns the method named `name`, or `Other`.
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
    /// No body, or `Content-Length: 0`.
    #[default]
    None,
    /// This many bytes follow the head; never 0.
    Length(u64),
    /// Chunks follow; see [`crate::chunked::Decoder`].
    Chunked,
}

/// One header line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderSpan {
    /// Name as sent.
    pub name: Span,
    /// Value without surrounding white space.
    pub value: Span,
}

/// A parsed request head. A connection or worker creates one and refills it for each request, so allocations stop once
/// its vector is large enough.
///
/// All spans are positions in the buffer passed to [`super::parse()`].
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// Method, if it is a common one.
    pub method: Method,
    /// Method as sent.
    pub method_span: Span,
    /// Request target as sent.
    pub target: Span,
    /// Path, still percent-encoded: starts with `/`, or is `*` for `OPTIONS *`.
    pub path: Span,
    /// Text after the first `?`, possibly empty. `None`: the target has no `?`.
    pub query: Option<Span>,
    /// Minor version: 0 for HTTP/1.0; higher values are treated as HTTP/1.1.
    pub minor_version: u8,
    /// Header lines in the order sent.
    pub headers: Vec<HeaderSpan>,
    /// Framing of the body.
    pub body: Body,
    /// True if the client keeps the connection open after this request (RFC 9112, section 9.3).
    pub keep_alive: bool,
    /// True if the client waits for `100 Continue` before it sends a body. Only set if there is a body.
    pub expect_continue: bool,
    /// True if the client requests another protocol, which the server may ignore (RFC 9110, section 7.8).
    pub upgrade: bool,
    /// Authority of the target if it has one, else the value of `Host`.
    pub host: Option<Span>,
}

impl Head {
    /// Creates an empty head for [`super::parse()`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value of the `nth` (from 0) header line with this name, in any case.
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

    /// Resets the fields that not every complete head sets.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.headers.clear();
        self.host = None;
    }
}
