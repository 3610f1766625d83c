//! Headers of a part, and the boundary parameter of the body's `Content-Type`.

use super::BOUNDARY_BYTES_MAX;
use crate::Refusal;
use crate::http1::is_token;
use crate::percent::decode_text;

/// Parsed headers of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the form field.
    pub name: Vec<u8>,
    /// File name without directories, empty if the user chose no file. `None` for a field that is not a file.
    pub filename: Option<Vec<u8>>,
    /// `Content-Type` as sent.
    pub content_type: Option<Vec<u8>>,
}

/// Returns the boundary of a body with this `Content-Type`, or `None` if it is not `multipart/form-data`.
///
/// # Errors
/// [`Refusal::MultipartBoundary`] if the boundary is absent, repeated or malformed.
#[must_use]
pub fn boundary(content_type: &[u8]) -> Option<Result<Vec<u8>, Refusal>> {
    const TYPE: &[u8] = b"multipart/form-data";
    let (is, rest) = content_type.split_at_checked(TYPE.len())?;
    let ends = matches!(rest.first(), None | Some(b';' | b' ' | b'\t'));
    (ends && is.eq_ignore_ascii_case(TYPE))
        .then(|| find_boundary(rest).ok_or(Refusal::MultipartBoundary))
}

fn find_boundary(parameters: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    each_parameter(parameters, |name, value| {
        let is_boundary = name.eq_ignore_ascii_case(b"boundary");
        if is_boundary && found.is_some() {
            return None;
        }
        if is_boundary {
            found = Some(value);
        }
        Some(())
    })?;
    found.filter(|boundary| valid_boundary(boundary))
}

fn valid_boundary(boundary: &[u8]) -> bool {
    (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len())
        && boundary.last() != Some(&b' ')
        && boundary
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte))
}

impl Part {
    /// Parses headers including their final empty line. `head` contains only field bytes in lines that end with CRLF.
    pub(super) fn parse(head: &[u8]) -> Result<Part, Refusal> {
        let (mut disposition, mut content_type) = (None, None);
        let lines = head.strip_suffix(b"\r\n").unwrap_or(head);
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r\n").ok_or(Refusal::MultipartHead)?;
            let colon = memchr::memchr(b':', line).ok_or(Refusal::MultipartHead)?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            // No token starts with a space, so this also rejects folded lines.
            if !is_token(name) {
                return Err(Refusal::MultipartHead);
            }
            let place = if name.eq_ignore_ascii_case(b"content-disposition") {
                &mut disposition
            } else if name.eq_ignore_ascii_case(b"content-type") {
                &mut content_type
            } else {
                continue;
            };
            if place.replace(value).is_some() {
                return Err(Refusal::MultipartDisposition);
            }
        }
        let (name, filename) = disposition
            .and_then(read_disposition)
            .ok_or(Refusal::MultipartDisposition)?;
        Ok(Part {
            name,
            filename,
            content_type: content_type.map(<[u8]>::to_vec),
        })
    }
}

/// Returns the name and file name of a `Content-Disposition`.
fn read_disposition(value: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    const TYPE: &[u8] = b"form-data";
    let (is, rest) = value.split_at_checked(TYPE.len())?;
    if !is.eq_ignore_ascii_case(TYPE) {
        return None;
    }
    let (mut name, mut filename, mut extended) = (None, None, None);
    each_parameter(rest, |parameter, value| {
        let place = match parameter {
            _ if parameter.eq_ignore_ascii_case(b"name") => &mut name,
            _ if parameter.eq_ignore_ascii_case(b"filename") => &mut filename,
            _ if parameter.eq_ignore_ascii_case(b"filename*") => &mut extended,
            _ => return Some(()),
        };
        // Reject repeated parameters: recipients differ in which one they use.
        place.replace(value).is_none().then_some(())
    })?;
    // RFC 7578, section 4.2, forbids `filename*`, but some clients send no other file name.
    let filename = match (filename, extended) {
        (None, Some(extended)) => Some(decode_extended(&extended)?),
        (filename, _) => filename,
    };
    Some((name?, filename.map(without_directories)))
}

/// Calls `take` for each parameter of a header: `; name=token` or `; name="quoted"`. Returns `None` if the parameters
/// are malformed or `take` returns `None`.
fn each_parameter(
    mut rest: &[u8],
    mut take: impl FnMut(&[u8], Vec<u8>) -> Option<()>,
) -> Option<()> {
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(());
        }
        rest = rest.strip_prefix(b";")?.trim_ascii_start();
        if rest.is_empty() {
            return Some(());
        }
        let equals = memchr::memchr(b'=', rest)?;
        let name = rest[..equals].trim_ascii_end();
        if !is_token(name) {
            return None;
        }
        rest = rest[equals + 1..].trim_ascii_start();
        let value = if let Some(quoted) = rest.strip_prefix(b"\"") {
            let (value, behind) = unquote(quoted)?;
            rest = behind;
            value
        } else {
            let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
            let value = rest[..end].trim_ascii_end();
            if value.is_empty() || value.contains(&b'"') {
                return None;
            }
            rest = &rest[end..];
            value.to_vec()
        };
        take(name, value)?;
    }
}

/// Returns the quoted string that starts after its opening quote, and the rest of the text. Only quotes and backslashes
/// count as escaped, because browsers do not escape backslashes in file names.
fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    let mut at = 0;
    loop {
        match text[at..] {
            [b'"', ..] => return Some((value, &text[at + 1..])),
            [b'\\', escaped @ (b'"' | b'\\'), ..] => {
                value.push(escaped);
                at += 2;
            }
            [byte, ..] => {
                value.push(byte);
                at += 1;
            }
            [] => return None,
        }
    }
}

/// Decodes `UTF-8'language'percent-encoded` (RFC 8187).
fn decode_extended(value: &[u8]) -> Option<Vec<u8>> {
    let mut parts = value.splitn(3, |&byte| byte == b'\'');
    let charset = parts.next()?;
    let (_language, text) = (parts.next()?, parts.next()?);
    if !charset.eq_ignore_ascii_case(b"utf-8") {
        return None;
    }
    let decoded = decode_text(text)?;
    let is_plain = !decoded.iter().any(u8::is_ascii_control);
    (is_plain && simdutf8::basic::from_utf8(&decoded).is_ok()).then_some(decoded)
}

/// Returns the last segment of a Unix or Windows path, so that a file name cannot point to another directory.
fn without_directories(mut filename: Vec<u8>) -> Vec<u8> {
    if let Some(slash) = memchr::memrchr2(b'/', b'\\', &filename) {
        filename.drain(..=slash);
    }
    filename
}
