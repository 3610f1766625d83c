//! Serializes response heads (RFC 9112, sections 4 and 6).

use crate::http1::{is_token, value_end};
use crate::number::decimal;

/// How the client finds the end of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length` with this number of bytes.
    Length(u64),
    /// `Transfer-Encoding: chunked`, only for HTTP/1.1 clients.
    Chunked,
    /// The connection closes after the body; requires [`Connection::Close`].
    UntilClose,
    /// No body and no framing header: 1xx, 204, 304.
    None,
}

/// State of the connection after the response, as announced by the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Stays open; the default of HTTP/1.1, so no header is sent.
    KeepAlive,
    /// Stays open; an HTTP/1.0 client needs `Connection: keep-alive`.
    KeepAliveExplicit,
    /// Closes after this response.
    Close,
}

/// Interim response to `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Bytes reserved for status line, length, date and connection; the size of the variable parts is added.
const HEAD_BYTES_USUAL: usize = 192;

/// Appends a complete head with its final empty line.
///
/// The order is status line, `Content-Type`, framing, `Date`, `headers`, `Connection`. `date` is the result of
/// [`crate::date::imf_fixdate`]. `headers` must contain only names and values that [`valid_name`] and [`valid_value`]
/// accept, and no [`reserved_name`]. A `Date` in `headers` is skipped, because the server writes one.
#[inline]
pub fn write_head<'a>(
    out: &mut Vec<u8>,
    status: u16,
    date: &[u8; 29],
    content_type: Option<&[u8]>,
    headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    framing: Framing,
    connection: Connection,
) {
    out.reserve(HEAD_BYTES_USUAL);
    status_line(out, status);
    if let Some(content_type) = content_type {
        out.extend_from_slice(b"Content-Type: ");
        out.extend_from_slice(content_type);
        out.extend_from_slice(b"\r\n");
    }
    match framing {
        Framing::Length(len) => {
            out.extend_from_slice(b"Content-Length: ");
            decimal(out, len);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::UntilClose | Framing::None => {}
    }
    let mut date_line = *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
    date_line[6..35].copy_from_slice(date);
    out.extend_from_slice(&date_line);
    for (name, value) in headers {
        header(out, name, value);
    }
    out.extend_from_slice(match connection {
        Connection::KeepAlive => b"\r\n",
        Connection::KeepAliveExplicit => b"Connection: keep-alive\r\n\r\n",
        Connection::Close => b"Connection: close\r\n\r\n",
    });
}

/// Appends the head of a forwarded response: its own reason, headers and `Date`, with the framing and connection of
/// this server.
///
/// `headers` as for [`write_head`], except that a `Date` is kept. An empty `reason` selects the standard phrase.
pub fn write_passed_head(
    out: &mut Vec<u8>,
    status: u16,
    reason: &[u8],
    date: &[u8; 29],
    headers: &[(&[u8], &[u8])],
    framing: Framing,
    connection: Connection,
) {
    out.reserve(HEAD_BYTES_USUAL);
    if reason.is_empty() {
        status_line(out, status);
    } else {
        out.extend_from_slice(b"HTTP/1.1 ");
        decimal(out, u64::from(status));
        out.push(b' ');
        out.extend_from_slice(reason);
        out.extend_from_slice(b"\r\n");
    }
    let mut has_date = false;
    for (name, value) in headers {
        has_date |= name.eq_ignore_ascii_case(b"date");
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    match framing {
        Framing::Length(len) => {
            out.extend_from_slice(b"Content-Length: ");
            decimal(out, len);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::UntilClose | Framing::None => {}
    }
    if !has_date {
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(match connection {
        Connection::KeepAlive => b"\r\n",
        Connection::KeepAliveExplicit => b"Connection: keep-alive\r\n\r\n",
        Connection::Close => b"Connection: close\r\n\r\n",
    });
}

/// Appends an interim response (RFC 9110, section 15.2), which has neither length nor `Date`. `headers` as for
/// [`write_head`].
pub fn write_interim<'a>(
    out: &mut Vec<u8>,
    status: u16,
    headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) {
    status_line(out, status);
    for (name, value) in headers {
        header(out, name, value);
    }
    out.extend_from_slice(b"\r\n");
}

/// Replaces the reason phrase with `reason` in the head that [`write_head`] appended at `start`.
pub fn replace_reason(out: &mut Vec<u8>, start: usize, reason: &[u8]) {
    let from = start + b"HTTP/1.1 200 ".len();
    if let Some(len) = out.get(from..).and_then(|rest| memchr::memchr(b'\r', rest)) {
        out.splice(from..from + len, reason.iter().copied());
    }
}

/// Cache of the start of the previous response head. Most responses have the same status and type as the previous one.
#[derive(Debug, Default)]
pub struct Repeated {
    /// Status line up to the digits of `Content-Length`; empty before the first response.
    prefix: Vec<u8>,
    status: u16,
    content_type: Vec<u8>,
}

impl Repeated {
    /// Appends the head that [`write_head`] would write for a response with a type, a length, no further headers and an
    /// open connection. Appends `body` if `has_body`.
    #[inline]
    pub fn write(
        &mut self,
        out: &mut Vec<u8>,
        status: u16,
        date: &[u8; 29],
        content_type: &[u8],
        body: &[u8],
        has_body: bool,
    ) {
        if self.status != status || self.content_type != content_type {
            self.begin(status, content_type);
        }
        out.reserve(HEAD_BYTES_USUAL + self.prefix.len() + body.len());
        out.extend_from_slice(&self.prefix);
        decimal(out, body.len() as u64);
        let mut rest = *b"\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n";
        rest[8..37].copy_from_slice(date);
        out.extend_from_slice(&rest);
        if has_body {
            out.extend_from_slice(body);
        }
    }

    #[cold]
    fn begin(&mut self, status: u16, content_type: &[u8]) {
        self.status = status;
        self.content_type.clear();
        self.content_type.extend_from_slice(content_type);
        self.prefix.clear();
        status_line(&mut self.prefix, status);
        self.prefix.extend_from_slice(b"Content-Type: ");
        self.prefix.extend_from_slice(content_type);
        self.prefix.extend_from_slice(b"\r\nContent-Length: ");
    }
}

#[inline]
fn header(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(
        valid_name(name) && valid_value(value),
        "the caller checks headers when it takes them"
    );
    if name.eq_ignore_ascii_case(b"date") {
        return;
    }
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the status line with its line end. `status` should be 100 to 999.
#[inline]
fn status_line(out: &mut Vec<u8>, status: u16) {
    if status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Returns the reason phrase of a status code, or an empty string for an unregistered code.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}

/// Returns true if a response with this status never has a body (RFC 9110, section 6.4.1): 1xx, 204, 304.
#[inline]
#[must_use]
pub fn bodiless(status: u16) -> bool {
    status < 200 || status == 204 || status == 304
}

/// Returns true if a response with this status has no content: [`bodiless`] statuses, and 205, which is sent with a
/// length of 0 (RFC 9110, section 15.3.6).
#[inline]
#[must_use]
pub fn contentless(status: u16) -> bool {
    bodiless(status) || status == 205
}

/// Returns true if `name` is a token and thus a valid header name (RFC 9110, section 5.1).
#[must_use]
pub fn valid_name(name: &[u8]) -> bool {
    is_token(name)
}

/// Returns true if `value` is a valid header value: it contains no control byte except tab (RFC 9110, section 5.5).
///
/// White space around the value is accepted, because recipients remove it.
#[must_use]
pub fn valid_value(value: &[u8]) -> bool {
    value_end(value, 0) == value.len()
}

/// Headers that frame the message, in lower case; only the server writes them.
const RESERVED: [&[u8]; 8] = [
    b"te",
    b"connection",
    b"content-length",
    b"keep-alive",
    b"proxy-connection",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];

/// Returns true if `name`, in any case, is a header that only the server may write, because it frames the message.
#[must_use]
pub fn reserved_name(name: &[u8]) -> bool {
    RESERVED
        .iter()
        .any(|reserved| name.eq_ignore_ascii_case(reserved))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

    fn written(
        status: u16,
        content_type: Option<&str>,
        headers: &[(&str, &str)],
        framing: Framing,
        connection: Connection,
    ) -> String {
        let mut out = Vec::new();
        let headers = headers
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        write_head(
            &mut out,
            status,
            DATE,
            content_type.map(str::as_bytes),
            headers,
            framing,
            connection,
        );
        String::from_utf8(out).expect("input was UTF-8")
    }

    #[test]
    fn heads() {
        assert_eq!(
            written(
                200,
                Some("application/json"),
                &[],
                Framing::Length(15),
                Connection::KeepAlive
            ),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
        );
        assert_eq!(
            written(
                404,
                None,
                &[("X-A", "1"), ("Date", "never"), ("X-B", "2")],
                Framing::Chunked,
                Connection::Close
            ),
            "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             X-A: 1\r\nX-B: 2\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(
            written(204, None, &[], Framing::None, Connection::KeepAliveExplicit),
            "HTTP/1.1 204 No Content\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: keep-alive\r\n\r\n"
        );
        assert!(
            written(799, None, &[], Framing::UntilClose, Connection::Close)
                .starts_with("HTTP/1.1 799 \r\nDate")
        );
    }

    #[test]
    fn cached_heads_equal_fresh_ones() {
        let mut repeated = Repeated::default();
        for (status, content_type, len) in [
            (200, "application/json", 15),
            (200, "application/json", 7),
            (200, "text/html", 100),
            (404, "text/html", 0),
            (404, "", 12_345),
            (200, "application/json", 15),
        ] {
            let body = vec![b'x'; len];
            let framing = Framing::Length(len as u64);
            let head = written(
                status,
                Some(content_type),
                &[],
                framing,
                Connection::KeepAlive,
            );
            for has_body in [true, false] {
                let mut out = b"before".to_vec();
                repeated.write(
                    &mut out,
                    status,
                    DATE,
                    content_type.as_bytes(),
                    &body,
                    has_body,
                );
                let body = if has_body { &body[..] } else { b"" };
                assert_eq!(out, [b"before", head.as_bytes(), body].concat());
            }
        }
    }

    #[test]
    fn names_and_values() {
        for good in ["X", "x-1", "a!#$%&'*+.^_`|~"] {
            assert!(valid_name(good.as_bytes()), "{good}");
        }
        for bad in ["", "a b", "a:", "a\r\n", "ü", "a\0", "(a)", "a\"", "a\t"] {
            assert!(!valid_name(bad.as_bytes()), "{bad}");
        }
        for good in ["", "a b", "a\tb", "ü", " a "] {
            assert!(valid_value(good.as_bytes()), "{good}");
        }
        for bad in ["a\r\nb", "a\n", "\r", "\0", "\x7f", "\x1b"] {
            assert!(!valid_value(bad.as_bytes()), "{bad:?}");
        }
        assert!(
            reserved_name(b"Content-LENGTH") && reserved_name(b"te") && !reserved_name(b"date")
        );
    }
}
