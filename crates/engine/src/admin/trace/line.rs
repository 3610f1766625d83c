//! Lines of the access log: common, combined or JSON.
//!
//! Client-supplied text cannot end a line, end a quoted string or control a terminal. Control
//! characters, quotes, backslashes and (in the first two formats) non-ASCII characters are escaped.
//! The only headers written are Referer, User-Agent and (in JSON) the ids of Traceparent. The query
//! is written only if the setting enables it.

use std::io::Write as _;

use fermata_io::Peer;
use fermata_proto::date;
use fermata_proto::http1::{Head, Span};
use fermata_proto::number::{address, decimal};
use fermata_proto::traceparent::TraceParent;

use crate::admin::json::{FIELD_BYTES_MAX, escape_json, is_all_plain, is_plain};
use crate::http::protocol::Protocol;

/// Line format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Common,
    Combined,
    Json,
}

impl Format {
    pub fn of(setting: &str) -> Format {
        match setting {
            "common" => Format::Common,
            "json" => Format::Json,
            _ => Format::Combined,
        }
    }
}

/// The start of a line that all lines of one second share.
#[derive(Default)]
pub(super) struct Stamp {
    second: u64,
    plain: Vec<u8>,
    json: Vec<u8>,
}

impl Stamp {
    /// Updates the text if the second has changed.
    #[inline]
    pub fn refresh(&mut self, unix_ms: u64) {
        if self.second != unix_ms / 1000 {
            self.renew(unix_ms / 1000);
        }
    }

    #[cold]
    fn renew(&mut self, second: u64) {
        self.second = second;
        // "Sat, 21 Nov 2026 07:00:00 GMT"
        let date = date::imf_fixdate(second);
        self.plain.clear();
        self.plain.extend_from_slice(b" - - [");
        for (part, end) in [(5..7, b'/'), (8..11, b'/'), (12..16, b':'), (17..25, b' ')] {
            self.plain.extend_from_slice(&date[part]);
            self.plain.push(end);
        }
        self.plain.extend_from_slice(b"+0000] \"");
        let time = crate::log::rfc3339(second * 1000);
        let to_the_second = time.rfind('.').map_or(&*time, |end| &time[..=end]);
        self.json = format!("{{\"time\":\"{to_the_second}").into_bytes();
    }
}

/// Data of a finished request.
pub(super) struct Line<'a> {
    pub unix_ms: u64,
    pub peer: Peer,
    /// Output of `write_request`; empty if the request could not be parsed.
    pub text: &'a [u8],
    pub status: u16,
    /// Number of body bytes sent, or queued if the connection stays open.
    pub bytes: u64,
    pub duration_us: u64,
}

/// The server's span of a request.
#[derive(Clone, Copy)]
pub(super) struct Recorded {
    pub trace_id: u128,
    pub id: u64,
    pub parent_id: Option<u64>,
}

/// Writes the part of a line determined by the request. In the first two formats this is the
/// request line, a NUL, and the part after the number of bytes.
pub(super) fn write_request(
    out: &mut Vec<u8>,
    format: Format,
    protocol: Protocol,
    (parsed, head): (&Head, &[u8]),
    has_query: bool,
    recorded: Option<Recorded>,
) {
    let method = parsed.method_span.of(head);
    let target = parsed.target.of(head);
    let target = if has_query {
        target
    } else {
        without_query(target)
    };
    let header = |name: &[u8]| find(parsed, head, name);
    let referer = header(b"referer").map(|referer| {
        if has_query {
            referer
        } else {
            without_query(referer)
        }
    });
    let agent = header(b"user-agent");
    let version: &[u8] = match protocol {
        Protocol::Http10 => b"HTTP/1.0",
        Protocol::Http11 => b"HTTP/1.1",
        Protocol::Http2 => b"HTTP/2.0",
    };
    if format == Format::Json {
        out.extend_from_slice(b",\"method\":\"");
        escape_json(out, method);
        out.extend_from_slice(b"\",\"target\":\"");
        escape_json(out, target);
        out.extend_from_slice(b"\",\"protocol\":\"");
        out.extend_from_slice(version);
        out.push(b'"');
        for (name, value) in [("referer", referer), ("user_agent", agent)] {
            if let Some(value) = value {
                out.extend_from_slice(b",\"");
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":\"");
                escape_json(out, value);
                out.push(b'"');
            }
        }
        if let Some(span) = recorded {
            // The server's own span has the same parent.
            let _ = write!(
                out,
                ",\"trace_id\":\"{:032x}\",\"span_id\":\"{:016x}\"",
                span.trace_id, span.id
            );
            if let Some(parent_id) = span.parent_id {
                let _ = write!(out, ",\"parent_id\":\"{parent_id:016x}\"");
            }
        } else if let Some(of) = only(parsed, head, b"traceparent").and_then(TraceParent::parse) {
            out.extend_from_slice(b",\"trace_id\":\"");
            out.extend_from_slice(of.trace_id);
            out.extend_from_slice(b"\",\"parent_id\":\"");
            out.extend_from_slice(of.parent_id);
            out.push(b'"');
        }
        return;
    }
    escape(out, method);
    out.push(b' ');
    escape(out, target);
    out.push(b' ');
    out.extend_from_slice(version);
    out.push(0);
    if format == Format::Combined {
        for value in [referer, agent] {
            out.extend_from_slice(b" \"");
            match value {
                Some(value) => escape(out, value),
                None => out.push(b'-'),
            }
            out.push(b'"');
        }
    }
}

impl Line<'_> {
    /// Appends the line.
    pub fn write(&self, out: &mut Vec<u8>, format: Format, worker: u16, stamp: &Stamp) {
        // Writing to a `Vec` cannot fail.
        let _ = match format {
            Format::Json => self.write_json(out, worker, stamp),
            Format::Common | Format::Combined => self.write_plain(out, format, stamp),
        };
        out.push(b'\n');
    }

    fn write_plain(&self, out: &mut Vec<u8>, format: Format, stamp: &Stamp) -> std::io::Result<()> {
        write_peer(out, self.peer);
        out.extend_from_slice(&stamp.plain);
        let unread: &[u8] = match format {
            Format::Combined => b"-\0 \"-\" \"-\"",
            _ => b"-\0",
        };
        let text = if self.text.is_empty() {
            unread
        } else {
            self.text
        };
        let end = text
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(text.len());
        out.extend_from_slice(&text[..end]);
        out.extend_from_slice(b"\" ");
        decimal(out, u64::from(self.status));
        out.push(b' ');
        decimal(out, self.bytes);
        out.extend_from_slice(text.get(end + 1..).unwrap_or_default());
        Ok(())
    }

    fn write_json(&self, out: &mut Vec<u8>, worker: u16, stamp: &Stamp) -> std::io::Result<()> {
        out.extend_from_slice(&stamp.json);
        write!(out, "{:03}Z\",\"client\":\"", self.unix_ms % 1000)?;
        write_peer(out, self.peer);
        out.push(b'"');
        if self.peer != Peer::Unix {
            out.extend_from_slice(b",\"port\":");
            decimal(out, u64::from(self.peer.port()));
        }
        out.extend_from_slice(self.text);
        let (ms, us) = (self.duration_us / 1000, self.duration_us % 1000);
        write!(
            out,
            ",\"status\":{},\"bytes\":{},\"duration_ms\":{ms}.{us:03},\"worker\":{worker}}}",
            self.status, self.bytes
        )
    }
}

fn write_peer(out: &mut Vec<u8>, peer: Peer) {
    match peer.ip() {
        Some(ip) => address(out, ip),
        None => out.extend_from_slice(b"unix:"),
    }
}

/// Returns the first field line of that name.
pub(super) fn find<'a>(parsed: &Head, head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    lines(parsed, head, name).next()
}

/// Returns the field line of that name, unless it is repeated.
pub(super) fn only<'a>(parsed: &Head, head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut lines = lines(parsed, head, name);
    let first = lines.next();
    first.filter(|_| lines.next().is_none())
}

pub(super) fn lines<'a>(
    parsed: &Head,
    head: &'a [u8],
    name: &[u8],
) -> impl Iterator<Item = &'a [u8]> {
    let of = |span: Span| span.of(head);
    let named =
        (parsed.headers.iter()).filter(move |line| of(line.name).eq_ignore_ascii_case(name));
    named.map(move |line| of(line.value))
}

fn without_query(target: &[u8]) -> &[u8] {
    let end = target
        .iter()
        .position(|byte| *byte == b'?' || *byte == b'#');
    &target[..end.unwrap_or(target.len())]
}

fn escape(out: &mut Vec<u8>, text: &[u8]) {
    let text = &text[..text.len().min(FIELD_BYTES_MAX)];
    if is_all_plain(text) {
        out.extend_from_slice(text);
        return;
    }
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| !is_plain(*byte)) {
        out.extend_from_slice(&rest[..at]);
        let _ = write!(out, "\\x{:02X}", rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use fermata_proto::http1::{Limits, Parse, parse};

    fn line(format: Format, request: &str, has_query: bool) -> String {
        let mut head = Head::new();
        let limits = Limits {
            head_bytes_max: 16_384,
            target_bytes_max: 8_192,
            headers_count_max: 100,
        };
        let parsed = parse(request.as_bytes(), &limits, &mut head);
        assert!(matches!(parsed, Parse::Complete { .. }), "{request:?}");
        let mut text = Vec::new();
        let head = (&head, request.as_bytes());
        write_request(&mut text, format, Protocol::Http11, head, has_query, None);
        written(format, &text)
    }

    fn written(format: Format, text: &[u8]) -> String {
        let mut stamp = Stamp::default();
        stamp.refresh(1_795_244_400_123);
        let line = Line {
            unix_ms: 1_795_244_400_123,
            peer: Peer::V4([192, 0, 2, 7].into(), 4711),
            text,
            status: 200,
            bytes: 15,
            duration_us: 1_234_567,
        };
        let mut out = Vec::new();
        line.write(&mut out, format, 3, &stamp);
        String::from_utf8(out).expect("a line is UTF-8")
    }

    const REQUEST: &str = "GET /a?token=secret HTTP/1.1\r\nHost: x\r\nAuthorization: Basic abc\r\n\
        Cookie: session=1\r\nReferer: http://x/b?key=secret\r\nUser-Agent: a\"b\\\u{e9}\r\n\r\n";

    #[test]
    fn writes_standard_log_formats() {
        assert_eq!(
            line(Format::Common, REQUEST, false),
            "192.0.2.7 - - [21/Nov/2026:07:00:00 +0000] \"GET /a HTTP/1.1\" 200 15\n"
        );
        assert_eq!(
            line(Format::Combined, REQUEST, true),
            "192.0.2.7 - - [21/Nov/2026:07:00:00 +0000] \"GET /a?token=secret HTTP/1.1\" 200 15 \
             \"http://x/b?key=secret\" \"a\\x22b\\x5C\\xC3\\xA9\"\n"
        );
        let json = line(Format::Json, REQUEST, false);
        let json: serde_json::Value = serde_json::from_str(&json).expect("one object per line");
        let expected = serde_json::json!({
            "time": "2026-11-21T07:00:00.123Z", "client": "192.0.2.7", "port": 4711,
            "method": "GET", "target": "/a", "protocol": "HTTP/1.1",
            "referer": "http://x/b", "user_agent": "a\"b\\\u{e9}",
            "status": 200, "bytes": 15, "duration_ms": 1234.567, "worker": 3,
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn writes_trace_ids_of_the_sender_to_json() {
        const PARENT: &str =
            "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
        let request = |lines: &str| {
            let request = format!("GET /a HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
            let json = line(Format::Json, &request, false);
            serde_json::from_str::<serde_json::Value>(&json).expect("one object per line")
        };
        let json = request(PARENT);
        assert_eq!(json["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(json["parent_id"], "00f067aa0ba902b7");
        for lines in ["", "Traceparent: 00-x\r\n", &PARENT.repeat(2)] {
            assert_eq!(request(lines).get("trace_id"), None, "{lines}");
        }
    }

    #[test]
    fn logs_a_malformed_request_in_the_same_format() {
        let combined = written(Format::Combined, b"");
        assert!(
            combined.ends_with("\"-\" 200 15 \"-\" \"-\"\n"),
            "{combined}"
        );
        assert!(written(Format::Common, b"").ends_with("\"-\" 200 15\n"));
        let json = written(Format::Json, b"");
        assert!(
            serde_json::from_str::<serde_json::Value>(&json).is_ok(),
            "{json}"
        );
    }

    #[test]
    fn escapes_client_bytes_in_log_lines() {
        let all: Vec<u8> = (0..=255).collect();
        let mut plain = Vec::new();
        escape(&mut plain, &all);
        assert!(
            plain
                .iter()
                .all(|byte| matches!(byte, b' '..=b'~') && *byte != b'"')
        );
        let mut json = b"\"".to_vec();
        escape_json(&mut json, &all);
        json.push(b'"');
        let text: String = serde_json::from_slice(&json).expect("a JSON string");
        assert!(text.starts_with('\0'));
        assert!(!json.contains(&b'\n') && !json.contains(&0x1b));
        let mut cut = Vec::new();
        escape(&mut cut, &[b'a'; FIELD_BYTES_MAX + 1]);
        assert_eq!(cut.len(), FIELD_BYTES_MAX);
    }
}
