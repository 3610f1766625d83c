//! Parses a request head in one pass.
//!
//! Each check fails at a byte that does not depend on the bytes after it. So the result is the same however a head is split:
//! `Partial` up to some byte, and one fixed result from that byte on.

use super::fields::Fields;
use super::head::{Head, HeaderSpan, Limits, Method};
use super::repeats::Repeats;
use super::scan::{target_end, token_end, trim, value_end};
use crate::{Refusal, Span};

/// Maximum length of a method in bytes. The longest registered method has 17.
pub const METHOD_BYTES_MAX: usize = 32;

/// Result of [`parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Parse {
    /// The head is incomplete and valid so far. Call again with these bytes and more.
    Partial,
    /// `Head` is filled; the body starts after this many bytes.
    Complete {
        /// Bytes of the head, including its final empty line and a leading empty line.
        head_bytes: usize,
    },
    /// The head is invalid. Respond with `Refusal::status` and close: the start of the next request is unknown.
    Refused(Refusal),
}

/// Reason why the pass stopped before the end of the head.
enum Stop {
    Partial { in_request_line: bool },
    Refused(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

const MORE_LINE: Stop = Stop::Partial {
    in_request_line: true,
};
const MORE_HEADERS: Stop = Stop::Partial {
    in_request_line: false,
};

/// Parses one request head at the start of `buf`, which may be incomplete or contain more than the head.
///
/// Skips one leading empty line (RFC 9112, section 2.2). `head` is valid only after `Complete`; its spans are positions
/// in `buf`. A head that is incomplete at `limits.head_bytes_max` bytes is rejected.
pub fn parse(buf: &[u8], limits: &Limits, head: &mut Head) -> Parse {
    parse_any(buf, limits, head, None)
}

/// Parses like [`parse`], but faster if the header lines equal those of the previous head parsed with the same
/// `repeats`.
#[inline]
pub fn parse_after(repeats: &mut Repeats, buf: &[u8], limits: &Limits, head: &mut Head) -> Parse {
    parse_any(buf, limits, head, Some(repeats))
}

fn parse_any(buf: &[u8], limits: &Limits, head: &mut Head, repeats: Option<&mut Repeats>) -> Parse {
    let view = &buf[..buf.len().min(limits.head_bytes_max).min(u32::MAX as usize)];
    match run(view, limits, head, repeats) {
        Ok(head_bytes) => Parse::Complete { head_bytes },
        Err(Stop::Refused(refusal)) => Parse::Refused(refusal),
        Err(Stop::Partial { .. }) if view.len() < limits.head_bytes_max => Parse::Partial,
        Err(Stop::Partial {
            in_request_line: true,
        }) => Parse::Refused(Refusal::TargetTooLong),
        Err(Stop::Partial {
            in_request_line: false,
        }) => Parse::Refused(Refusal::HeadTooLarge),
    }
}

fn run(
    buf: &[u8],
    limits: &Limits,
    head: &mut Head,
    repeats: Option<&mut Repeats>,
) -> Result<usize, Stop> {
    head.clear();
    let mut at = match buf {
        [b'\r', b'\n', ..] => 2,
        [] | [b'\r'] => return Err(MORE_LINE),
        [b'\r', ..] => return Err(Refusal::BareCarriageReturn.into()),
        [b'\n', ..] => return Err(Refusal::BareLineFeed.into()),
        _ => 0,
    };
    at = method(buf, at, head)?;
    at = target(buf, at, limits, head)?;
    at = version(buf, at, head)?;
    if let Some(repeats) = &repeats
        && let Some(lines_len) = repeats.recall(buf, at, limits, head)
    {
        return Ok(at + lines_len);
    }
    lines(buf, at, limits, head, repeats)
}

/// Parses the header lines from `start`; returns the position after the head.
fn lines(
    buf: &[u8],
    start: usize,
    limits: &Limits,
    head: &mut Head,
    repeats: Option<&mut Repeats>,
) -> Result<usize, Stop> {
    let mut at = start;
    let mut fields = Fields::default();
    loop {
        match buf[at..] {
            [b'\r', b'\n', ..] => break,
            [] | [b'\r'] => return Err(MORE_HEADERS),
            [b'\r', ..] => return Err(Refusal::BareCarriageReturn.into()),
            _ if head.headers.len() == limits.headers_count_max => {
                return Err(Refusal::HeadersTooMany.into());
            }
            _ => at = header(buf, at, head, &mut fields)?,
        }
    }
    fields.finish(head)?;
    let end = at + 2;
    if let Some(repeats) = repeats {
        let Fields {
            host, has_secrets, ..
        } = fields;
        repeats.keep(buf, (start, end), head, host, has_secrets);
    }
    Ok(end)
}

/// Parses the method at `start`; returns the position of the target.
#[inline]
fn method(buf: &[u8], start: usize, head: &mut Head) -> Result<usize, Stop> {
    if buf[start..].starts_with(b"GET ") {
        head.method_span = Span::new(start, start + 3);
        head.method = Method::Get;
        return Ok(start + 4);
    }
    let end = token_end(buf, start);
    if end - start > METHOD_BYTES_MAX {
        return Err(Refusal::MethodTooLong.into());
    }
    match buf.get(end) {
        None => return Err(MORE_LINE),
        Some(b' ') if end > start => {}
        Some(b'\n') => return Err(Refusal::BareLineFeed.into()),
        Some(_) => return Err(Refusal::RequestLine.into()),
    }
    head.method_span = Span::new(start, end);
    head.method = Method::from_bytes(&buf[start..end]);
    if head.method == Method::Connect {
        return Err(Refusal::Connect.into());
    }
    Ok(end + 1)
}

/// Parses the target at `start`; returns the position of the version.
#[inline]
fn target(buf: &[u8], start: usize, limits: &Limits, head: &mut Head) -> Result<usize, Stop> {
    let (end, question) = target_end(buf, start);
    if end - start > limits.target_bytes_max {
        return Err(Refusal::TargetTooLong.into());
    }
    match buf.get(end) {
        None => return Err(MORE_LINE),
        Some(b' ') => {}
        Some(b'\n') => return Err(Refusal::BareLineFeed.into()),
        // The version is missing, as in HTTP/0.9.
        Some(b'\r') => return Err(Refusal::RequestLine.into()),
        Some(_) => return Err(Refusal::Target.into()),
    }
    head.target = Span::new(start, end);
    head.query = question.map(|question| Span::new(question + 1, end));
    let path_end = question.unwrap_or(end);
    match buf[start..end] {
        [b'/', ..] => head.path = Span::new(start, path_end),
        [b'*'] if head.method == Method::Options => head.path = Span::new(start, end),
        _ => absolute(buf, start, path_end, head)?,
    }
    Ok(end + 1)
}

/// Parses a target with scheme and authority (RFC 9112, section 3.2.2). `end` is the start of its query, or the end of
/// the target.
#[cold]
fn absolute(buf: &[u8], start: usize, end: usize, head: &mut Head) -> Result<(), Refusal> {
    let url = &buf[start..end];
    let scheme_len = [&b"http://"[..], b"https://"]
        .iter()
        .find(|scheme| {
            url.get(..scheme.len())
                .is_some_and(|is| is.eq_ignore_ascii_case(scheme))
        })
        .ok_or(Refusal::Target)?
        .len();
    let authority = start + scheme_len;
    let slash = memchr::memchr(b'/', &buf[authority..end]).map(|at| authority + at);
    head.path = match slash {
        Some(slash) => Span::new(slash, end),
        // An empty path means `/`; the span reuses the last slash of the scheme.
        None => Span::new(authority - 1, authority),
    };
    let authority = Span::new(authority, slash.unwrap_or(end));
    if !super::fields::valid_host(authority.of(buf)) {
        return Err(Refusal::Target);
    }
    // The authority of the target takes precedence over `Host` (RFC 9112, section 3.2.2).
    head.host = Some(authority);
    Ok(())
}

/// Parses the version at `start`; returns the position of the header lines.
#[inline]
fn version(buf: &[u8], start: usize, head: &mut Head) -> Result<usize, Stop> {
    match buf[start..] {
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'1',
            b'.',
            minor @ b'0'..=b'9',
            b'\r',
            b'\n',
            ..,
        ] => {
            head.minor_version = minor - b'0';
            Ok(start + 10)
        }
        _ => Err(version_stop(&buf[start..])),
    }
}

/// Returns the error for a version that is incomplete or invalid.
#[cold]
fn version_stop(rest: &[u8]) -> Stop {
    const NAME: &[u8] = b"HTTP/";
    for (i, &byte) in rest.iter().enumerate().take(10) {
        let refusal = match (i, byte) {
            (0..5, _) if byte == NAME[i] => continue,
            (5 | 7, b'0'..=b'9') | (6, b'.') | (8, b'\r') => {
                // Report another major version only at the minor digit. Until then, the bytes may turn out not to be a version
                // at all.
                if i == 7 && rest[5] != b'1' {
                    Refusal::Version
                } else {
                    continue;
                }
            }
            (_, b'\n') => Refusal::BareLineFeed,
            (9, _) => Refusal::BareCarriageReturn,
            // A later version may have no minor digit, as `HTTP/2`.
            (6, b'\r') if rest[5] != b'1' => Refusal::Version,
            _ => Refusal::RequestLine,
        };
        return refusal.into();
    }
    MORE_LINE
}

/// Parses the header line at `start`. Returns the position of the next line.
#[inline]
fn header(buf: &[u8], start: usize, head: &mut Head, fields: &mut Fields) -> Result<usize, Stop> {
    let name_end = token_end(buf, start);
    match buf.get(name_end) {
        Some(b':') if name_end > start => {}
        found => return Err(name_stop(found.copied(), name_end == start)),
    }
    let value_end = value_end(buf, name_end + 1);
    match buf[value_end..] {
        [b'\r', b'\n', ..] => {}
        [] | [b'\r'] => return Err(MORE_HEADERS),
        [b'\r', ..] => return Err(Refusal::BareCarriageReturn.into()),
        [b'\n', ..] => return Err(Refusal::BareLineFeed.into()),
        _ => return Err(Refusal::HeaderValue.into()),
    }
    let (value_start, value_stop) = trim(buf, name_end + 1, value_end);
    let line = HeaderSpan {
        name: Span::new(start, name_end),
        value: Span::new(value_start, value_stop),
    };
    head.headers.push(line);
    fields.take(buf, line, head)?;
    Ok(value_end + 2)
}

/// Returns the error for a header name that is not followed by a colon.
#[cold]
fn name_stop(found: Option<u8>, at_line_start: bool) -> Stop {
    match found {
        None => MORE_HEADERS,
        Some(b' ' | b'\t') if at_line_start => Refusal::LineFolding.into(),
        Some(b' ' | b'\t') => Refusal::SpaceBeforeColon.into(),
        Some(b'\n') => Refusal::BareLineFeed.into(),
        Some(_) => Refusal::HeaderName.into(),
    }
}
