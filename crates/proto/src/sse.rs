//! Serializes Server-Sent Events (WHATWG HTML, section 9.2).

use crate::number::decimal;

/// Media type of an event stream.
pub const CONTENT_TYPE: &[u8] = b"text/event-stream";

/// Returns true if `text` is a valid id or event name: it contains no NUL, LF or CR.
///
/// Browsers ignore an id that contains NUL. LF or CR would end the field and allow forged fields.
#[must_use]
pub fn valid_field(text: &[u8]) -> bool {
    memchr::memchr3(0, b'\n', b'\r', text).is_none()
}

/// Appends one event. `id` and `name` must satisfy [`valid_field`]; an empty name means no name.
///
/// `data` may contain any bytes. Each LF, CR or CRLF in it starts another `data:` line, and the browser joins the lines
/// with LF. `data` should be UTF-8: browsers replace invalid sequences.
pub fn event(out: &mut Vec<u8>, id: Option<&[u8]>, name: Option<&[u8]>, data: &[u8]) {
    out.reserve(data.len() + id.map_or(0, <[u8]>::len) + name.map_or(0, <[u8]>::len) + 24);
    if let Some(id) = id {
        field(out, b"id: ", id);
    }
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        field(out, b"event: ", name);
    }
    lines(out, b"data: ", data);
    out.push(b'\n');
}

/// Appends a comment, which clients ignore; it keeps the connection open. Line ends in `text` start further comments.
pub fn comment(out: &mut Vec<u8>, text: &[u8]) {
    lines(out, b": ", text);
    out.push(b'\n');
}

/// Appends the delay in milliseconds before the client reconnects.
pub fn retry(out: &mut Vec<u8>, ms: u64) {
    out.extend_from_slice(b"retry: ");
    decimal(out, ms);
    out.extend_from_slice(b"\n\n");
}

fn field(out: &mut Vec<u8>, prefix: &[u8], value: &[u8]) {
    debug_assert!(
        valid_field(value),
        "the caller checks ids and names when it takes them"
    );
    out.extend_from_slice(prefix);
    out.extend_from_slice(value);
    out.push(b'\n');
}

fn lines(out: &mut Vec<u8>, prefix: &[u8], mut text: &[u8]) {
    loop {
        out.extend_from_slice(prefix);
        let Some(end) = memchr::memchr2(b'\n', b'\r', text) else {
            out.extend_from_slice(text);
            out.push(b'\n');
            return;
        };
        out.extend_from_slice(&text[..end]);
        out.push(b'\n');
        let line_end = if text[end..].starts_with(b"\r\n") {
            2
        } else {
            1
        };
        text = &text[end + line_end..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(id: Option<&str>, name: Option<&str>, data: &str) -> String {
        let mut out = Vec::new();
        event(
            &mut out,
            id.map(str::as_bytes),
            name.map(str::as_bytes),
            data.as_bytes(),
        );
        String::from_utf8(out).expect("input was UTF-8")
    }

    #[test]
    fn events() {
        assert_eq!(written(None, None, "x"), "data: x\n\n");
        assert_eq!(
            written(Some("a-1"), Some("join"), "{}"),
            "id: a-1\nevent: join\ndata: {}\n\n"
        );
        assert_eq!(written(Some(""), Some(""), ""), "id: \ndata: \n\n");
        assert_eq!(written(None, None, " x"), "data:  x\n\n");
    }

    #[test]
    fn every_line_end_starts_a_data_line() {
        assert_eq!(
            written(None, None, "a\nb\rc\r\nd"),
            "data: a\ndata: b\ndata: c\ndata: d\n\n"
        );
        assert_eq!(written(None, None, "a\n"), "data: a\ndata: \n\n");
        assert_eq!(
            written(None, None, "\n\r\r\n"),
            "data: \ndata: \ndata: \ndata: \n\n"
        );
        assert_eq!(
            written(None, None, "x\nid: 9\n\n"),
            "data: x\ndata: id: 9\ndata: \ndata: \n\n"
        );
    }

    #[test]
    fn comments_and_retry() {
        let mut out = Vec::new();
        comment(&mut out, b"");
        comment(&mut out, b"a\ndata: b");
        retry(&mut out, 1000);
        assert_eq!(out, b": \n\n: a\n: data: b\n\nretry: 1000\n\n");
    }

    #[test]
    fn rejects_fields_with_line_ends() {
        assert!(valid_field(b"") && valid_field("ü-1".as_bytes()));
        assert!(!valid_field(b"a\nb") && !valid_field(b"a\r") && !valid_field(b"\0"));
    }
}
