//! The head of a response (RFC 9112, 4 and 6.3).

use crate::http1::{token_end, value_end};

/// The largest head.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The most headers.
pub const HEADERS_COUNT_MAX: usize = 200;

/// Headers that there is room for from the beginning.
const HEADERS_COUNT_USUAL: usize = 16;

/// The request, as far as its response's framing depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestKind {
    /// A HEAD, whose response has no body.
    pub is_head: bool,
    /// It asked for another protocol, so 101 may answer it.
    pub wants_upgrade: bool,
}

/// How a response's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    Empty,
    /// After so many bytes.
    Length(u64),
    /// With its last chunk.
    Chunked,
    /// With the connection.
    UntilClose,
    /// It does not: from here on another protocol is spoken.
    Upgraded,
}

/// A response without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Status.
    pub status: u16,
    /// Reason phrase.
    pub reason: Vec<u8>,
    /// Headers, in order.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// How the body ends.
    pub body: Body,
    /// Whether the server lets the connection be used again, once the body has ended.
    pub keep_alive: bool,
}

/// Why bytes are no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// More than [`HEAD_BYTES_MAX`].
    #[error("the response has a head of more than {HEAD_BYTES_MAX} bytes")]
    TooLarge,
    /// More than [`HEADERS_COUNT_MAX`].
    #[error("the response has more than {HEADERS_COUNT_MAX} headers")]
    TooMany,
    /// Not `HTTP/1.x NNN REASON`.
    #[error("the response begins with no status line of HTTP/1")]
    StatusLine,
    /// A line that is no header, is folded, or does not end in CRLF.
    #[error("the response has a line in its head that is no header")]
    Line,
    /// Several lengths that differ, a length beside chunks, or a coding other than chunked.
    #[error(
        "the end of the response is ambiguous: its Content-Length or Transfer-Encoding contradict each other or are malformed"
    )]
    Framing {
        /// What the status line says all the same.
        status: u16,
    },
    /// 101 that nobody asked for.
    #[error("the server switches protocols though nobody asked for it")]
    Upgrade,
}

impl Head {
    /// Reads the head in front of `bytes`, and how many bytes it has. `None`: it is not all there.
    ///
    /// # Errors
    /// The bytes are no head, or one that two readers could take differently.
    pub fn read(bytes: &[u8], request: RequestKind) -> Result<Option<(Self, usize)>, HeadError> {
        // Something else than HTTP is told by its first bytes; waiting for more would wait for a time-out.
        let start = bytes.len().min(b"HTTP/1.".len());
        if bytes[..start] != b"HTTP/1."[..start] {
            return Err(HeadError::StatusLine);
        }
        let view = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
        let Some(end) = end_of(view) else {
            return match view.len() {
                HEAD_BYTES_MAX => Err(HeadError::TooLarge),
                _ => Ok(None),
            };
        };
        let mut lines = Lines(&view[..end + 2]);
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
            end + 4,
        )))
    }

    /// Whether another head follows: 100, 102, 103.
    pub fn is_interim(&self) -> bool {
        (100..=199).contains(&self.status) && self.status != 101
    }
}

/// Where the first empty line begins: the CRLF before it.
pub(super) fn end_of(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|at| {
        let start = at.checked_sub(3)?;
        (bytes[start..=at] == *b"\r\n\r\n").then_some(start)
    })
}

/// Lines that end in CRLF; a CR or LF anywhere else is an error.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = Result<&'a [u8], HeadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', self.0).unwrap_or(self.0.len());
        let line = &self.0[..end];
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        let line = line
            .strip_suffix(b"\r")
            .filter(|line| memchr::memchr(b'\r', line).is_none());
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

/// `None`: two readers could find different ends.
fn framing(minor: u8, headers: &[(Vec<u8>, Vec<u8>)]) -> Option<Body> {
    let mut codings = tokens(headers, b"transfer-encoding");
    if let Some(coding) = codings.next() {
        let is_alone =
            codings.next().is_none() && tokens(headers, b"content-length").next().is_none();
        // Before 1.1 there were no chunks; who sends them then is misunderstood by somebody.
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

/// The elements of a list header, an empty one too: where lengths are lists, it is no length.
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
