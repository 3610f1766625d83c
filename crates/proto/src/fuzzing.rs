//! Bodies of the fuzz targets. Each accepts any bytes and panics if its parser violates a documented property.
//!
//! `fuzz/` runs them under libFuzzer; the tests below run them on seeds and mutations of them.

use crate::http1::{Body, Head, Limits, Parse, is_token, parse};
use crate::response::{valid_name, valid_value};
use crate::{Refusal, Span, chunk, chunked, date, percent, proxy, sse};

mod content;
mod http2;
mod multipart;
mod ws;

pub use content::content;
pub use http2::{http2, http2_exchange, http2_hpack};
#[cfg(test)]
pub(crate) use multipart::events as multipart_events;
pub use multipart::multipart;
pub use ws::{ws, ws_deflate, ws_extensions};

/// Maximum input length for checks of quadratic cost.
const SQUARE_BYTES_MAX: usize = 600;

/// Checks a request head: every split gives the same result, spans are within the head, and the parsed head
/// round-trips.
pub fn head(data: &[u8]) {
    // The first byte selects the limits, so that small limits are also tested.
    let Some((&selector, buf)) = data.split_first() else {
        return;
    };
    let limits = match selector % 4 {
        0 => Limits {
            head_bytes_max: 64,
            target_bytes_max: 16,
            headers_count_max: 2,
        },
        1 => Limits {
            head_bytes_max: 200,
            target_bytes_max: 100,
            headers_count_max: 5,
        },
        _ => Limits::default(),
    };
    let mut head = Head::new();
    let whole = parse(buf, &limits, &mut head);
    let decided_at = check_prefixes(buf, &limits, whole);
    let Parse::Complete { head_bytes } = whole else {
        return;
    };
    assert_eq!(
        decided_at,
        Some(head_bytes).filter(|_| buf.len() <= SQUARE_BYTES_MAX)
    );
    assert!(head_bytes <= limits.head_bytes_max && buf[..head_bytes].ends_with(b"\r\n\r\n"));
    assert!(head.headers.len() <= limits.headers_count_max);
    assert!(head.target.len as usize <= limits.target_bytes_max);

    let buf = &buf[..head_bytes];
    assert!(is_token(head.method_span.of(buf)));
    assert!(matches!(head.path.of(buf), [b'/', ..] | b"*"));
    assert!(
        !head
            .target
            .of(buf)
            .iter()
            .any(|byte| byte.is_ascii_control() || b" #".contains(byte))
    );
    for header in &head.headers {
        assert!(valid_name(header.name.of(buf)) && valid_value(header.value.of(buf)));
    }
    // The framing matches a naive reading of the lines and is never ambiguous.
    let lengths = count(&head, buf, "content-length");
    let codings = count(&head, buf, "transfer-encoding");
    assert!(lengths + codings <= 1 || (lengths == 0 && codings > 0));
    assert_eq!(head.body == Body::Chunked, codings > 0);
    assert!(count(&head, buf, "host") == 1 || head.minor_version == 0);
    check_reads_back(&head, buf, &limits);
}

fn count(head: &Head, buf: &[u8], name: &str) -> usize {
    head.headers
        .iter()
        .filter(|line| line.name.of(buf).eq_ignore_ascii_case(name.as_bytes()))
        .count()
}

/// Checks that every prefix is `Partial` up to some length and has one fixed result from there on. Returns that length.
fn check_prefixes(buf: &[u8], limits: &Limits, whole: Parse) -> Option<usize> {
    if buf.len() > SQUARE_BYTES_MAX {
        return None;
    }
    let mut head = Head::new();
    let mut decided_at = None;
    for end in 0..=buf.len() {
        let part = parse(&buf[..end], limits, &mut head);
        match (decided_at, part) {
            (None, Parse::Partial) => {}
            (None, _) => {
                assert_eq!(
                    part, whole,
                    "the first {end} bytes give another result than all"
                );
                decided_at = Some(end);
            }
            (Some(_), _) => assert_eq!(part, whole, "the first {end} bytes give another result"),
        }
    }
    decided_at
}

/// Serializes the parsed head and checks that parsing the result gives the same head.
fn check_reads_back(head: &Head, buf: &[u8], limits: &Limits) {
    let mut text = Vec::new();
    text.extend_from_slice(head.method_span.of(buf));
    text.push(b' ');
    text.extend_from_slice(head.target.of(buf));
    text.extend_from_slice(format!(" HTTP/1.{}\r\n", head.minor_version).as_bytes());
    for line in &head.headers {
        text.extend_from_slice(line.name.of(buf));
        text.push(b':');
        text.extend_from_slice(line.value.of(buf));
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    let mut again = Head::new();
    assert_eq!(
        parse(&text, limits, &mut again),
        Parse::Complete {
            head_bytes: text.len()
        }
    );
    let of = |span: Option<Span>, buf| span.map(|span| span.of(buf).to_vec());
    assert_eq!(again.method, head.method);
    assert_eq!(again.path.of(&text), head.path.of(buf));
    assert_eq!(of(again.query, &text), of(head.query, buf));
    assert_eq!(of(again.host, &text), of(head.host, buf));
    assert_eq!(
        (
            again.body,
            again.keep_alive,
            again.expect_continue,
            again.upgrade
        ),
        (
            head.body,
            head.keep_alive,
            head.expect_continue,
            head.upgrade
        )
    );
    for (one, other) in again.headers.iter().zip(&head.headers) {
        assert_eq!(one.name.of(&text), other.name.of(buf));
        assert_eq!(one.value.of(&text), other.value.of(buf));
    }
    assert_eq!(again.headers.len(), head.headers.len());
}

/// Checks a chunked body: every split gives the same data, and framed data round-trips.
pub fn chunked(data: &[u8]) {
    const BODY_BYTES_MAX: u64 = 1000;
    // The first byte selects the splits.
    let Some((&seed, input)) = data.split_first() else {
        return;
    };
    let whole = decode(input, &[], BODY_BYTES_MAX);
    for splits in [
        &[0][..],
        &[seed % 7],
        &[seed % 3, seed / 5 % 11, 0, seed % 29],
    ] {
        assert_eq!(decode(input, splits, BODY_BYTES_MAX), whole);
    }
    if let Ok((out, consumed, done)) = &whole {
        assert!(out.len() as u64 <= BODY_BYTES_MAX);
        assert!(*done || *consumed == input.len());
    }

    let mut framed = Vec::new();
    let mut plain = Vec::new();
    for piece in input.chunks(usize::from(seed) + 1) {
        let payload = chunk::wrap_with(&mut framed, |out| out.extend_from_slice(piece));
        assert_eq!(&framed[payload], piece);
        plain.extend_from_slice(piece);
    }
    framed.extend_from_slice(chunk::LAST_CHUNK);
    let framed_len = framed.len();
    framed.extend_from_slice(b"next request");
    assert_eq!(
        decode(&framed, &[seed], u64::MAX),
        Ok((plain, framed_len, true))
    );
}

/// Decodes `input` in pieces of `splits[i] + 1` bytes, using `splits` cyclically; in one piece if `splits` is empty.
fn decode(input: &[u8], splits: &[u8], max: u64) -> Result<(Vec<u8>, usize, bool), Refusal> {
    let mut decoder = chunked::Decoder::new();
    let (mut out, mut at, mut done) = (Vec::new(), 0, false);
    let mut lengths = splits.iter().cycle().map(|&len| usize::from(len) + 1);
    while at < input.len() && !done {
        let end = input
            .len()
            .min(at.saturating_add(lengths.next().unwrap_or(usize::MAX)));
        let decoded = decoder.decode(&input[at..end], &mut out, max)?;
        assert!(decoded.done || at + decoded.consumed == end);
        at += decoded.consumed;
        done = decoded.done;
    }
    assert_eq!(decoder.body_bytes(), out.len() as u64);
    Ok((out, at, done))
}

/// Checks an event: a browser parses exactly the written event, whatever its data contains.
pub fn sse(data: &[u8]) {
    let mut parts = data.splitn(3, |&byte| byte == 0xff);
    let id = parts.next().filter(|id| sse::valid_field(id));
    let name = parts.next().filter(|name| sse::valid_field(name));
    let text = parts.next().unwrap_or(data);

    let mut out = Vec::new();
    sse::comment(&mut out, text);
    sse::event(&mut out, id, name, text);
    sse::retry(&mut out, 5);
    sse::event(&mut out, None, None, b"after");
    let events = browser(&out);
    let name = name.filter(|name| !name.is_empty()).unwrap_or(b"message");
    let lines = normalised(text);
    assert_eq!(events.len(), 2);
    assert_eq!(
        events[0],
        (id.unwrap_or(b"").to_vec(), name.to_vec(), lines)
    );
    assert_eq!(
        events[1],
        (
            id.unwrap_or(b"").to_vec(),
            b"message".to_vec(),
            b"after".to_vec()
        )
    );
}

/// Replaces each line end in `text` with one LF.
fn normalised(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte == b'\r' {
            bytes.next_if_eq(&b'\n');
            out.push(b'\n');
        } else {
            out.push(byte);
        }
    }
    out
}

/// Returns id, name and data of every event by the rules of WHATWG HTML, section 9.2.6, with bytes instead of
/// characters.
fn browser(stream: &[u8]) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let text = normalised(stream);
    let (mut id, mut name, mut data) = (Vec::new(), Vec::new(), Vec::new());
    let mut events = Vec::new();
    let Some(lines) = text.strip_suffix(b"\n") else {
        return events;
    };
    for line in lines.split(|&byte| byte == b'\n') {
        if line.is_empty() {
            let name = std::mem::take(&mut name);
            let mut data = std::mem::take(&mut data);
            if data.pop().is_some() {
                let name = if name.is_empty() {
                    b"message".to_vec()
                } else {
                    name
                };
                events.push((id.clone(), name, data));
            }
            continue;
        }
        let colon = line
            .iter()
            .position(|&byte| byte == b':')
            .unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            b"event" => name = value.to_vec(),
            b"id" if !value.contains(&0) => id = value.to_vec(),
            _ => {}
        }
    }
    events
}

/// Checks a path: decoding gives the result of a byte-by-byte reading and distinguishes literal and escaped slashes.
pub fn path(data: &[u8]) {
    let (mut out, mut slashes) = (Vec::new(), Vec::new());
    let result = percent::decode_path(data, &mut out, &mut slashes);
    let naive = naive_decode(data);
    match result {
        Err(_) => assert_eq!(naive, None),
        Ok(changed) => {
            assert_eq!(changed, data.contains(&b'%'));
            let decoded = if changed { &out[..] } else { data };
            assert_eq!(naive, Some((decoded.to_vec(), slashes)));
        }
    }
}

fn naive_decode(data: &[u8]) -> Option<(Vec<u8>, Vec<u32>)> {
    let (mut out, mut slashes) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(&byte) = data.get(at) {
        let digit = |at: usize| data.get(at).and_then(|&digit| (digit as char).to_digit(16));
        let (decoded, len) = match byte {
            b'%' => ((digit(at + 1)? * 16 + digit(at + 2)?) as u8, 3),
            _ => (byte, 1),
        };
        if decoded == 0 || byte == b'\\' {
            return None;
        }
        if decoded == b'/' && byte == b'%' {
            slashes.push(out.len() as u32);
        }
        out.push(decoded);
        at += len;
    }
    let mut segments = out.split(|&byte| byte == b'/' || byte == b'\\');
    let has_dots = segments.any(|segment| [&b"."[..], b".."].contains(&segment));
    (!has_dots).then_some((out, slashes))
}

/// Checks a PROXY header: for every split, the parser requests no byte after the header.
pub fn proxy(data: &[u8]) {
    let mut end = 0;
    loop {
        match data.get(..end).map(proxy::read) {
            Some(Ok(proxy::Step::More(more))) => {
                assert!(more > 0 && end + more <= proxy::BINARY_BYTES_MAX);
                end += more;
            }
            Some(Ok(proxy::Step::Complete(_))) => break,
            Some(Err(_)) | None => return,
        }
    }
    for len in 0..end {
        match proxy::read(&data[..len]) {
            Ok(proxy::Step::More(more)) => assert!(more > 0 && len + more <= end),
            other => panic!("{other:?} after {len} of {end} bytes"),
        }
    }
}

/// Checks a date: a parsed date round-trips to the same second.
pub fn http_date(data: &[u8]) {
    if let Some(unix_s) = date::parse(data, 1_800_000_000) {
        let text = date::imf_fixdate(unix_s);
        // The leap second at the end of the year 9999 cannot be formatted.
        let again = date::parse(&text, 0);
        assert!(again == Some(unix_s) || unix_s == 253_402_300_800);
    }
}

#[cfg(test)]
mod tests {
    use fermata_testkit::run_mutations;

    /// Bytes that mutations insert.
    const PIECES: &[&[u8]] = &[
        b"\r\n",
        b"\r",
        b"\n",
        b"\0",
        b" ",
        b"\t",
        b":",
        b",",
        b";",
        b"%",
        b"#",
        b"?",
        b"/",
        b"\x7f",
        b"\xff",
        b"0",
        b"ffffffffffffffff",
        b"18446744073709551616",
        b"chunked",
        b"Host: a\r\n",
        b"HTTP/1.1",
        b"data: ",
        b"Content-Length: 1\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"\r\n\r\n",
        b"%00",
        b"http://",
        b"[::1]",
        b"\x81\x80\0\0\0\0",
        b"\x80\x81\0\0\0\0",
        b"\x89\x00",
        b"\xfe\0",
        b"; client_max_window_bits=",
    ];

    fn run(name: &str, body: fn(&[u8]), seeds: &[&[u8]]) {
        run_mutations(name, PIECES, seeds, body);
    }

    #[test]
    fn head() {
        run(
            "head",
            super::head,
            &[
                b"",
                b"2GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                b"0GET /?q HTTP/1.0\r\n\r\n",
                b"1\r\nPOST /x%20y?a=b HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
                b"3GET http://a.b:80/c?d HTTP/1.1\r\nhost:e\r\nConnection: close, upgrade\r\nUpgrade: h2c\r\n\r\nrest",
                b"2PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX:\t a \t\r\n\r\n0\r\n\r\n",
                b"2OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
            ],
        );
    }

    #[test]
    fn chunked() {
        run(
            "chunked",
            super::chunked,
            &[
                b"",
                b"\x015\r\nhello\r\n0\r\n\r\nrest",
                b"\x07a;b=\"c\"\r\n0123456789\r\n00\r\nA: b\r\nC:d\r\n\r\n",
                b"\xfe1 \t;x\r\n\r\r\n3e8\r\n",
            ],
        );
    }

    #[test]
    fn multipart() {
        run(
            "multipart",
            super::multipart,
            &[
                b"",
                b"\x01--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--B--\r\n",
                b"\x07\r\n--B \t\r\nContent-Type: x\r\nContent-Disposition: form-data; name=a; filename=\"b\\\"\"\r\n\r\n\r\n--\r\n--B\r\n",
                b"\x00multipart/form-data; boundary=\"B\"",
                b"\x05--B\r\nContent-Disposition: form-data; name=\"\"; filename*=utf-8''%c3%bc\r\n\r\n--B--x",
            ],
        );
    }

    #[test]
    fn sse() {
        run(
            "sse",
            super::sse,
            &[
                b"",
                b"1\xffjoin\xff{\"a\":1}",
                b"\xff\xffa\nb\r\nc\rdata: d\n\n",
                b"\xff\xff\r\n\r\nid: 3\r",
            ],
        );
    }

    #[test]
    fn path() {
        run(
            "path",
            super::path,
            &[b"", b"/a%20b/%C3%bc", b"/%", b"/%0", b"/plain"],
        );
    }

    #[test]
    fn proxy() {
        run(
            "proxy",
            super::proxy,
            &[
                b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n",
                b"PROXY UNKNOWN\r\n",
                b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\x0a\0\0\x01\x12\x34\0\x50",
            ],
        );
    }

    #[test]
    fn http_date() {
        run(
            "http_date",
            super::http_date,
            &[
                b"Sun, 06 Nov 1994 08:49:37 GMT",
                b"Sunday, 06-Nov-94 08:49:37 GMT",
                b"Sun Nov  6 08:49:37 1994",
                b"Fri, 31 Dec 9999 23:59:60 GMT",
            ],
        );
    }

    #[test]
    fn content() {
        run(
            "content",
            super::content,
            &[
                b"\x0a\0bytes=0-4, 5-, -3",
                b"\xff\0bytes=0-18446744073709551615",
                b"\x0a\0\"x\", W/\"fermata\"",
                b"\x0a\0Sun, 09 Sep 2001 01:46:40 GMT",
                b"\0\0gzip;q=0.5, br, *;q=0, identity",
                b"\0\0text/html, application/json;q=0.9, */*;q=0.1",
            ],
        );
    }

    #[test]
    fn http2_hpack() {
        run(
            "http2_hpack",
            super::http2_hpack,
            &[
                b"",
                b"\x11\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x05\x82\x86\x84\xbe\xbe",
                b"\x1d\x40\x0acustom-key\x0dcustom-header\x02\xbe\xbe\x04\x20\x3f\xe1\x1f",
                b"\x10\x10\x08password\x06secret\x07\x7e\x01a\x7e\x01b\xbe",
                b"\x04\x0f\x10\x01a\x06\x5f\x10\x83\x1f\xff\xff",
            ],
        );
    }

    #[test]
    fn http2() {
        run(
            "http2",
            super::http2,
            &[
                b"",
                // A request and its body with padding, then trailers.
                b"\x31\x05\0\0\x0e\x01\x04\0\0\0\x01\x83\x86\x84\x01\x01a\x0f\x0d\x01\x30\x40\x01b\x01c\0\0\x05\0\x08\0\0\0\x01\x02ab\0\0",
                b"\0\x09\0\0\x06\x01\x04\0\0\0\x01\x83\x86\x84\x01\x01a\0\0\x03\0\0\0\0\0\x01abc\0\0\x05\x01\x05\0\0\0\x01\x40\x01b\x01c",
                // A header block in three frames, and a second request that uses the table.
                b"\x11\x0b\0\0\x03\x01\x01\0\0\0\x03\x82\x86\x84\0\0\x03\x09\0\0\0\0\x03\x41\x01a\0\0\0\x09\x04\0\0\0\x03\0\0\x04\x01\x05\0\0\0\x05\x82\x86\x84\xbe",
                // Every control frame.
                b"\x01\x03\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\x07\0\0\x08\x06\0\0\0\0\0pingpong\0\0\x04\x08\0\0\0\0\0\0\0\x01\0\0\0\x09\x10\0\0\0\0\0\0\0\0\x01u=1,i\0\0\x05\x02\0\0\0\0\x01\0\0\0\x03\x10\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\x0b\x07\0\0\0\0hi",
                // A reset, and frames for closed streams.
                b"\x21\x02\0\0\x06\x01\x04\0\0\0\x01\x83\x86\x84\x01\x01a\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08\0\0\x01\0\x01\0\0\0\x01x\0\0\x04\x08\0\0\0\0\x01\0\0\0\x08",
                // Frames for a client: an interim head, a head, data and the end, followed by GOAWAY.
                b"\x03\x04\0\0\x05\x01\x04\0\0\0\x01\x08\x03103\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x02\0\x01\0\0\0\x01hi\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0",
            ],
        );
    }

    #[test]
    fn http2_exchange() {
        run(
            "http2_exchange",
            super::http2_exchange,
            &[
                b"\x01",
                b"\x79\0\x23\x02\xff\x05\xff\x03\xff\0\x05\0\x11\x02\xff\x03\xff\x04\xff\x06\x10\x06\x11",
                b"\0\x01\x1d\x01\x1c\x02\x05\x07\0\x02\xff\x03\x09\x05\x03\x03\xff\x06\x01",
                b"\x06\0\x22\0\x21\0\x20\0\x1f\0\x1e\0\x1d\0\x1c\0\x1b\0\x1a\x02\xff\x02\xff\x05\xff\x04\xff\x03\xff",
                b"\x07\0\x08\x02\xff\x04\x01\x02\xff\x07\0\x03\xff",
            ],
        );
    }

    #[test]
    fn ws() {
        run(
            "ws",
            super::ws,
            &[
                b"",
                b"\0\x03\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58\x89\x80\0\0\0\0\x88\x82\0\0\0\0\x03\xe8",
                b"\x01\x05\x01\x03Hel\x89\x05Hello\x80\x02lo\x82\x7e\0\x7exxxxxxxxxxxxx",
                b"\x03\x09\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\0\x41\x03\xf2\x48\xcd\x80\x04\xc9\xc9\x07\0",
                b"\x01\x11\x01\x02\xc3\xbc\0\x03\xe2\x82\xac\x80\0\x88\x05\x0f\xa0bye",
            ],
        );
    }

    #[test]
    fn ws_deflate() {
        run(
            "ws_deflate",
            super::ws_deflate,
            &[
                b"\x66\0\x05\x0f\x07\xf2\x48\xcd\xc9\xc9\x07\x00\x05\xf2\x00\x11\x00\x00",
                b"\x00\x04\x00\xff\x1daaaa\"bbbbbbbbbaaaabbbbb\x1daaaa\"bbbbbbbbbaaaabbbbb",
                b"\x77\x03\x08\x01\x0b\x00\x05\x00\xfa\xffHello\x00\x08\xf3\x48\xcd\xc9\xc9\x07\x00\x00",
                b"\x12\x06\x11\xf7\x0b\x4b\x4c\x1c\x05\xa3\x80\x06\x00\x00\x00\x00",
            ],
        );
    }

    #[test]
    fn ws_extensions() {
        run(
            "ws_extensions",
            super::ws_extensions,
            &[
                b"",
                b"\xffpermessage-deflate; client_max_window_bits; server_max_window_bits=10",
                b"\x07foo; bar=\"b\\az\", permessage-deflate; server_no_context_takeover",
                b"\x31permessage-deflate; server_max_window_bits=8, permessage-deflate; client_no_context_takeover",
            ],
        );
    }
}
