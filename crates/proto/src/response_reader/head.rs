//! Head of an HTTP/1 response (RFC 9112, sections 4 and 6.3).

use crate::http1::{token_end, value_end};

/// Maximum bytes of a head.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of headers.
pub const HEADERS_COUNT_MAX: usize = 200;

/// Initial capacity for headers.
const HEADERS_COUNT_USUAL: usize = 16;

/// Properties of a request that determine the framing of its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestKind {
    /// True for HEAD, whose response has no body.
    pub is_head: bool,
    /// True if the request contains an upgrade to another protocol, so that 101 is a valid response.
    pub wants_upgrade: bool,
}

/// How the end of a response's body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The response has no body.
    Empty,
    /// The body has this many bytes.
    Length(u64),
    /// The body ends with its last chunk.
    Chunked,
    /// The body ends when the connection closes.
    UntilClose,
    /// The connection switches to another protocol.
    Upgraded,
}

/// A response without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub reason: Vec<u8>,
    /// Headers in the order received.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Framing of the body.
    pub body: Body,
    /// True if the server keeps the connection open after the body.
    pub keep_alive: bool,
}

/// Reason why bytes are not a valid head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The head is longer than [`HEAD_BYTES_MAX`].
    #[error("the response has a head of more than {HEAD_BYTES_MAX} bytes")]
    TooLarge,
    /// The head has more than [`HEADERS_COUNT_MAX`] headers.
    #[error("the response has more than {HEADERS_COUNT_MAX} headers")]
    TooMany,
    /// The first line is not `HTTP/1.x NNN REASON`.
    #[error("the response does not start with an HTTP/1 status line")]
    StatusLine,
    /// A line is not a header, is folded, or has another line end than the status line (CRLF and LF are mixed).
    #[error("the response head contains a line that is not a header")]
    Line,
    /// Different lengths, a length together with chunked coding, or a coding other than `chunked`.
    #[error(
        "the end of the response is ambiguous: its Content-Length or Transfer-Encoding contradict each other or are malformed"
    )]
    Framing {
        /// Status code from the status line.
        status: u16,
    },
    /// Status 101 without an upgrade request.
    #[error("the server switches protocols without an Upgrade request")]
    Upgrade,
}

impl Head {
    /// Parses the head at the start of `bytes` and returns it with its length. Returns `None` if the head is incomplete.
    ///
    /// # Errors
    /// The bytes are not a head, or two parsers could read the head differently.
    pub fn read(bytes: &[u8], request: RequestKind) -> Result<Option<(Self, usize)>, HeadError> {
        // The first bytes show that this is not HTTP. Fail now, instead of waiting for more bytes until a time-out.
        let start = bytes.len().min(b"HTTP/1.".len());
        if bytes[..start] != b"HTTP/1."[..start] {
            return Err(HeadError::StatusLine);
        }
        let view = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
        let Some(end) = end_of(view) else {
            return match view.len() {
                HEAD_BYTES_MAX => Err(HeadError::TooLarge),
                // Fail now: no further bytes can make this head valid.
                _ if Newline::of(view).is_some_and(|it| it.is_mixed(view)) => Err(HeadError::Line),
                _ => Ok(None),
            };
        };
        let mut lines = Lines {
            rest: &view[..end.lines_len],
            newline: end.newline,
        };
        let (minor, status, reason) = status_line(lines.next().ok_or(HeadError::StatusLine)??)?;
        let mut headers = Vec::with_capacity(HEADERS_COUNT_USUAL);
        for line in lines {
            if headers.len() == HEADERS_COUNT_MAX {
                return Err(HeadError::TooMany);
            }
            headers.push(header(line?)?);
        }
        let framing = framing(minor, &headers).ok_or(HeadError::Framing { status })?;
        let body = match (status, framing) {
            (101, _) if request.wants_upgrade => Body::Upgraded,
            (101, _) => return Err(HeadError::Upgrade),
            (100..=199 | 204 | 304, _) => Body::Empty,
            _ if request.is_head => Body::Empty,
            (_, Body::Length(0)) => Body::Empty,
            (_, body) => body,
        };
        let says = |option: &[u8]| {
            tokens(&headers, b"connection").any(|token| token.eq_ignore_ascii_case(option))
        };
        let keep_alive = match minor {
            0 => says(b"keep-alive") && !says(b"close"),
            _ => !says(b"close"),
        };
        let keep_alive = keep_alive && !matches!(body, Body::UntilClose | Body::Upgraded);
        Ok(Some((
            Self {
                status,
                reason,
                headers,
                body,
                keep_alive,
            },
            end.head_len,
        )))
    }

    /// Returns true if another head follows: 100, 102, 103.
    pub fn is_interim(&self) -> bool {
        (100..=199).contains(&self.status) && self.status != 101
    }
}

/// Line end of a head.
///
/// A sender ends lines with CRLF; a recipient may accept LF (RFC 9112, section 2.2), which some CGI programs and devices send. The
/// line end of the status line applies to all lines of the head. A mixture is rejected: otherwise a value that contains an LF,
/// perhaps from a client, would be read as two headers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newline {
    CrLf,
    Lf,
}

impl Newline {
    /// Returns the line end of the first line, or `None` if it has not arrived.
    fn of(bytes: &[u8]) -> Option<Self> {
        let end = memchr::memchr(b'\n', bytes)?;
        let before = end.checked_sub(1).map(|at| bytes[at]);
        Some(match before {
            Some(b'\r') => Self::CrLf,
            _ => Self::Lf,
        })
    }

    /// Returns true if the received part of an incomplete head contains a line with another line end.
    fn is_mixed(self, bytes: &[u8]) -> bool {
        match self {
            Self::CrLf => bytes.windows(2).any(|two| two == b"\n\n"),
            Self::Lf => memchr::memchr(b'\r', bytes).is_some(),
        }
    }
}

/// Position of a head's end.
pub(super) struct End {
    newline: Newline,
    /// Bytes of the lines with their line ends.
    lines_len: usize,
    /// Bytes of the lines and the empty line.
    head_len: usize,
}

/// Finds the end of the head at the start of `bytes`. Returns `None` if it has not arrived.
pub(super) fn end_of(bytes: &[u8]) -> Option<End> {
    // Use a separate loop per line end, because arrays of constant length are compared without a function call.
    match Newline::of(bytes)? {
        newline @ Newline::CrLf => memchr::memchr_iter(b'\n', bytes).find_map(|at| {
            let start = at.checked_sub(3)?;
            (bytes[start..=at] == *b"\r\n\r\n").then_some(End {
                newline,
                lines_len: at - 1,
                head_len: at + 1,
            })
        }),
        newline @ Newline::Lf => memchr::memchr_iter(b'\n', bytes).find_map(|at| {
            let before = at.checked_sub(1)?;
            (bytes[before] == b'\n').then_some(End {
                newline,
                lines_len: at,
                head_len: at + 1,
            })
        }),
    }
}

/// Lines that end in `newline`; a CR or LF anywhere else is an error.
struct Lines<'a> {
    rest: &'a [u8],
    newline: Newline,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<&'a [u8], HeadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', self.rest).unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        let line = match self.newline {
            Newline::CrLf => line.strip_suffix(b"\r"),
            Newline::Lf => Some(line),
        };
        let line = line.filter(|line| memchr::memchr(b'\r', line).is_none());
        Some(line.ok_or(HeadError::Line))
    }
}

fn status_line(line: &[u8]) -> Result<(u8, u16, Vec<u8>), HeadError> {
    let rest = line.strip_prefix(b"HTTP/1.").ok_or(HeadError::StatusLine)?;
    let [minor @ (b'0' | b'1'), b' ', digits @ ..] = rest else {
        return Err(HeadError::StatusLine);
    };
    let (digits, reason) = digits.split_at_checked(3).ok_or(HeadError::StatusLine)?;
    let is_number = digits.iter().all(u8::is_ascii_digit) && digits[0] != b'0';
    let is_apart = reason.first().is_none_or(|&byte| byte == b' ');
    if !is_number || !is_apart || !reason.iter().all(is_text) {
        return Err(HeadError::StatusLine);
    }
    let status = digits
        .iter()
        .fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    Ok((minor - b'0', status, reason.trim_ascii().to_vec()))
}

fn header(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), HeadError> {
    let colon = token_end(line, 0);
    if line.get(colon) != Some(&b':') {
        return Err(HeadError::Line);
    }
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.is_empty() || value_end(value, 0) != value.len() {
        return Err(HeadError::Line);
    }
    Ok((name.to_vec(), value.to_vec()))
}

/// Returns the framing of the body, or `None` if two parsers could find different ends.
fn framing(minor: u8, headers: &[(Vec<u8>, Vec<u8>)]) -> Option<Body> {
    let mut codings = tokens(headers, b"transfer-encoding");
    if let Some(coding) = codings.next() {
        let is_alone =
            codings.next().is_none() && tokens(headers, b"content-length").next().is_none();
        // HTTP/1.0 has no chunked coding: parsers would disagree about such a response.
        let is_chunked = is_alone && minor == 1 && coding.eq_ignore_ascii_case(b"chunked");
        return is_chunked.then_some(Body::Chunked);
    }
    let mut length = None;
    for text in tokens(headers, b"content-length") {
        let found = crate::number::parse_decimal(text)?;
        if length.is_some_and(|length| length != found) {
            return None;
        }
        length = Some(found);
    }
    Some(length.map_or(Body::UntilClose, Body::Length))
}

/// Returns the elements of a list header. Empty elements are included, because an empty element is an invalid length.
fn tokens<'a>(headers: &'a [(Vec<u8>, Vec<u8>)], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    headers
        .iter()
        .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
        .flat_map(|(_, value)| value.split(|&byte| byte == b','))
        .map(|token| token.trim_ascii())
}

fn is_text(byte: &u8) -> bool {
    *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f)
}
