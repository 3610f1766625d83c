//! Cases of strict parsing: rejected heads with the reason, accepted heads with the result.

use proptest::prelude::*;

use super::*;
use crate::Refusal::*;

/// Parses `text` with the default limits. Also checks every prefix and the round trip.
fn parsed(text: &[u8]) -> Result<Head, Parse> {
    let mut input = vec![2];
    input.extend_from_slice(text);
    crate::fuzzing::head(&input);
    let mut head = Head::new();
    match parse(text, &Limits::default(), &mut head) {
        Parse::Complete { head_bytes } => {
            assert_eq!(head_bytes, text.len());
            Ok(head)
        }
        other => Err(other),
    }
}

fn refuses(cases: &[(&str, Refusal)]) {
    for (text, refusal) in cases {
        let result = parsed(text.as_bytes());
        assert_eq!(
            result.map(|_| ()),
            Err(Parse::Refused(*refusal)),
            "{text:?}"
        );
    }
}

/// Returns a GET request with `lines` after `Host`.
fn with(lines: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n")
}

fn refuses_lines(cases: &[(&str, Refusal)]) {
    for (lines, refusal) in cases {
        refuses(&[(&with(lines), *refusal)]);
    }
}

#[test]
fn a_common_request() {
    let text = b"GET /a%20b?c=d?e HTTP/1.1\r\nHost: example.org:80\r\nAccept:*/*\r\nX-Empty:\r\nX-Tab:\t a\tb \t\r\n\r\n";
    let head = parsed(text).expect("it is right");
    assert_eq!(head.method, Method::Get);
    assert_eq!(head.method_span.of(text), b"GET");
    assert_eq!(head.target.of(text), b"/a%20b?c=d?e");
    assert_eq!(head.path.of(text), b"/a%20b");
    assert_eq!(head.query.map(|query| query.of(text)), Some(&b"c=d?e"[..]));
    assert_eq!(
        head.host.map(|host| host.of(text)),
        Some(&b"example.org:80"[..])
    );
    assert_eq!((head.minor_version, head.body), (1, Body::None));
    assert!(head.keep_alive && !head.expect_continue && !head.upgrade);
    assert_eq!(head.headers.len(), 4);
    assert_eq!(head.header(text, b"accept", 0), Some(&b"*/*"[..]));
    assert_eq!(head.header(text, b"x-empty", 0), Some(&b""[..]));
    assert_eq!(head.header(text, b"X-TAB", 0), Some(&b"a\tb"[..]));
    assert_eq!(head.header(text, b"accept", 1), None);
}

#[test]
fn methods_are_tokens() {
    for (name, method) in [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("POST", Method::Post),
        ("PUT", Method::Put),
        ("PATCH", Method::Patch),
        ("DELETE", Method::Delete),
        ("OPTIONS", Method::Options),
        ("TRACE", Method::Trace),
        ("get", Method::Other),
        ("PROPFIND", Method::Other),
        ("M-SEARCH", Method::Other),
        ("GETX", Method::Other),
        ("A!#$%&'*+.^_`|~9", Method::Other),
    ] {
        let head = parsed(format!("{name} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert_eq!(head.expect(name).method, method, "{name}");
    }
    let long = "M".repeat(METHOD_BYTES_MAX + 1);
    refuses(&[
        ("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", Connect),
        (
            &format!("{long} / HTTP/1.1\r\nHost: a\r\n\r\n"),
            MethodTooLong,
        ),
        ("G(T / HTTP/1.1\r\n\r\n", RequestLine),
        ("G\0T / HTTP/1.1\r\n\r\n", RequestLine),
        ("GÄT / HTTP/1.1\r\n\r\n", RequestLine),
        (" GET / HTTP/1.1\r\n\r\n", RequestLine),
        ("\tGET / HTTP/1.1\r\n\r\n", RequestLine),
        ("GET\t/ HTTP/1.1\r\n\r\n", RequestLine),
        ("GET\r\n\r\n", RequestLine),
        ("GET\n\n", BareLineFeed),
        // A TLS client hello.
        ("\x16\x03\x01\x02", RequestLine),
    ]);
}

#[test]
fn request_line_has_single_spaces_and_a_version() {
    refuses(&[
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", RequestLine),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", RequestLine),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", RequestLine),
        ("GET /\r\n\r\n", RequestLine),
        ("GET / \r\n\r\n", RequestLine),
        ("GET /\n\n", BareLineFeed),
        ("GET / HTTP/1.1\nHost: a\n\n", BareLineFeed),
        ("GET / HTTP/1.1\rHost: a\r\n\r\n", BareCarriageReturn),
        ("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", BareCarriageReturn),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", RequestLine),
        ("GET / HTTP/1,1\r\nHost: a\r\n\r\n", RequestLine),
        ("GET / HTTP/11\r\nHost: a\r\n\r\n", RequestLine),
        ("GET / HTTP/1.11\r\nHost: a\r\n\r\n", RequestLine),
        ("GET / HTTP/1\r\nHost: a\r\n\r\n", RequestLine),
        ("GET / HTTP/\r\nHost: a\r\n\r\n", RequestLine),
        ("GET / HTTPS/1.1\r\nHost: a\r\n\r\n", RequestLine),
        ("GET / ICY/1.1\r\nHost: a\r\n\r\n", RequestLine),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Version),
        ("GET / HTTP/0.9\r\n\r\n", Version),
        ("GET / HTTP/2\r\n\r\n", Version),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Target),
    ]);
    for minor in 2..10 {
        let text = format!("GET / HTTP/1.{minor}\r\nHost: a\r\n\r\n");
        let head = parsed(text.as_bytes()).expect("minor versions are compatible");
        assert!(head.keep_alive && head.minor_version == minor);
    }
}

#[test]
fn one_leading_empty_line_is_skipped() {
    assert!(parsed(b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").is_ok());
    refuses(&[
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", RequestLine),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", BareLineFeed),
        ("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", BareCarriageReturn),
    ]);
}

#[test]
fn targets() {
    for (method, target, path, query, host) in [
        ("GET", "/", "/", None, "a"),
        ("GET", "/?", "/", Some(""), "a"),
        ("GET", "//b/c", "//b/c", None, "a"),
        ("GET", "/|\"<>[]{}\\^`", "/|\"<>[]{}\\^`", None, "a"),
        ("GET", "/a?b=/c?d", "/a", Some("b=/c?d"), "a"),
        ("GET", "http://b/c?d", "/c", Some("d"), "b"),
        ("GET", "http://b", "/", None, "b"),
        ("GET", "HTTP://b:80?x", "/", Some("x"), "b:80"),
        ("GET", "https://[::1]:8443/", "/", None, "[::1]:8443"),
        ("GET", "http://b?c/d", "/", Some("c/d"), "b"),
        ("OPTIONS", "*", "*", None, "a"),
        ("OPTIONS", "http://b", "/", None, "b"),
    ] {
        let text = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let text = text.as_bytes();
        let head = parsed(text).expect(target);
        assert_eq!(head.target.of(text), target.as_bytes());
        assert_eq!(head.path.of(text), path.as_bytes(), "{target}");
        assert_eq!(
            head.query.map(|query| query.of(text)),
            query.map(str::as_bytes),
            "{target}"
        );
        assert_eq!(
            head.host.map(|span| span.of(text)),
            Some(host.as_bytes()),
            "{target}"
        );
    }
    for target in [
        "*",
        "a",
        "/ü",
        "/a?ü",
        "a.b:80",
        "?a",
        "/a#b",
        "/#",
        "/a\u{7f}",
        "/a\0",
        "/a\tb",
        "http:/b",
        "http:///c",
        "http://",
        "http://u@b/",
        "http://u:p@b/",
        "http://b:x/",
        "http://b:65536/",
        "ftp://b/",
        "javascript:x",
        "http://[::1/",
        "http://[x]/",
        "http://b c/",
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let expected = if target.contains(' ') {
            RequestLine
        } else {
            Target
        };
        refuses(&[(&text, expected)]);
    }
    refuses(&[
        ("OPTIONS ** HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("OPTIONS *?a HTTP/1.1\r\nHost: a\r\n\r\n", Target),
        ("GET http://b/ HTTP/1.1\r\n\r\n", HostMissing),
        ("GET http://b/ HTTP/1.1\r\nHost: @\r\n\r\n", HostInvalid),
    ]);
}

#[test]
fn header_lines() {
    refuses_lines(&[
        ("A : b", SpaceBeforeColon),
        ("A\t: b", SpaceBeforeColon),
        ("A b: c", SpaceBeforeColon),
        (": b", HeaderName),
        ("A", HeaderName),
        ("A\0: b", HeaderName),
        ("Ä: b", HeaderName),
        ("A(: b", HeaderName),
        ("\"A\": b", HeaderName),
        ("A: b\r\n c", LineFolding),
        ("A: b\r\n\tc", LineFolding),
        ("A: b\r\n \r\nC: d", LineFolding),
        ("A: b\nC: d", BareLineFeed),
        ("A\nC: d", BareLineFeed),
        ("A: b\rC: d", BareCarriageReturn),
        ("A: b\r\rC: d", BareCarriageReturn),
        ("A: \0", HeaderValue),
        ("A: b\0c", HeaderValue),
        ("A: \x1b[0m", HeaderValue),
        ("A: \x7f", HeaderValue),
        ("A: b\x0b", HeaderValue),
        ("A: b\r\n\nC: d", BareLineFeed),
        ("A: b\r\n\rC: d", BareCarriageReturn),
    ]);
    refuses(&[
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", LineFolding),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", BareLineFeed),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\r", BareCarriageReturn),
    ]);
    let text = with("A: \u{fc}\u{20ac}");
    let head = parsed(text.as_bytes()).expect("bytes from 0x80 may stand in values");
    assert_eq!(
        head.header(text.as_bytes(), b"a", 0),
        Some("\u{fc}\u{20ac}".as_bytes())
    );
}

#[test]
fn host_is_there_once_and_valid() {
    refuses(&[
        ("GET / HTTP/1.1\r\n\r\n", HostMissing),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", HostRepeated),
        ("GET / HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n", HostRepeated),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", HostRepeated),
        ("GET / HTTP/1.0\r\nHost: a/b\r\n\r\n", HostInvalid),
    ]);
    for host in [
        "",
        "a b",
        "a/b",
        "a@b",
        "a,b:80:80",
        "a:",
        "a:x",
        "a:65536",
        "a:-1",
        "a:000080",
        "[::1",
        "[]",
        "[::1]x",
        "[1.2.3.4]",
        "a%",
        "a%4",
        "a%zz",
        "http://a",
        "a#",
        "a?",
        "a\\b",
        "<a>",
        "ä",
        ":80",
        "[::1]:",
        "a\"",
    ] {
        // The grammar allows an empty port.
        let result = parsed(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        if host.ends_with(':') {
            assert!(result.is_ok(), "{host:?}");
        } else {
            assert_eq!(
                result.map(|_| ()),
                Err(Parse::Refused(HostInvalid)),
                "{host:?}"
            );
        }
    }
    for host in [
        "a",
        "A.b",
        "a:80",
        "127.0.0.1:8080",
        "[::1]",
        "[::1]:80",
        "[2001:db8::1.2.3.4]",
        "a_b",
        "xn--bcher-kva.example",
        "a%C3%BC",
        "a.",
        "a~b!$&'()*+,;=",
    ] {
        assert!(
            parsed(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).is_ok(),
            "{host}"
        );
    }
    let head = parsed(b"GET / HTTP/1.0\r\n\r\n").expect("HTTP/1.0 needs no Host");
    assert_eq!(head.host, None);
}

#[test]
fn body_framing() {
    for (lines, body) in [
        ("A: b", Body::None),
        ("Content-Length: 0", Body::None),
        ("Content-Length: 5", Body::Length(5)),
        ("content-length:0005 ", Body::Length(5)),
        (
            "Content-Length: 18446744073709551615",
            Body::Length(u64::MAX),
        ),
        ("Transfer-Encoding: chunked", Body::Chunked),
        ("transfer-encoding:\tCHUNKED\t", Body::Chunked),
    ] {
        assert_eq!(
            parsed(with(lines).as_bytes()).expect(lines).body,
            body,
            "{lines}"
        );
    }
    refuses_lines(&[
        ("Content-Length:", ContentLengthInvalid),
        ("Content-Length: +5", ContentLengthInvalid),
        ("Content-Length: -5", ContentLengthInvalid),
        ("Content-Length: 5 5", ContentLengthInvalid),
        ("Content-Length: 5,5", ContentLengthInvalid),
        ("Content-Length: 5, 6", ContentLengthInvalid),
        ("Content-Length: 0x5", ContentLengthInvalid),
        ("Content-Length: 5.0", ContentLengthInvalid),
        ("Content-Length: five", ContentLengthInvalid),
        ("Content-Length: 5;a", ContentLengthInvalid),
        ("Content-Length: 18446744073709551616", ContentLengthInvalid),
        (
            "Content-Length: 99999999999999999999999",
            ContentLengthInvalid,
        ),
        ("Content-Length: \u{ff15}", ContentLengthInvalid),
        (
            "Content-Length: 5\r\nContent-Length: 5",
            ContentLengthRepeated,
        ),
        (
            "Content-Length: 5\r\ncontent-length: 6",
            ContentLengthRepeated,
        ),
        ("Content-Length : 5", SpaceBeforeColon),
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            LengthAndChunked,
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 0",
            LengthAndChunked,
        ),
        (
            "Transfer-Encoding: gzip\r\nContent-Length: 5",
            LengthAndChunked,
        ),
        ("Transfer-Encoding: gzip", TransferEncodingUnknown),
        ("Transfer-Encoding: identity", TransferEncodingUnknown),
        ("Transfer-Encoding: xchunked", TransferEncodingUnknown),
        ("Transfer-Encoding: gzip, chunked", TransferEncodingUnknown),
        (
            "Transfer-Encoding: gzip;q=1, chunked",
            TransferEncodingUnknown,
        ),
        (
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
            TransferEncodingUnknown,
        ),
        ("Transfer-Encoding: chunked;a=b", TransferEncodingUnknown),
        (
            "Transfer-Encoding: chunked, chunked",
            TransferEncodingInvalid,
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            TransferEncodingInvalid,
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            TransferEncodingInvalid,
        ),
        ("Transfer-Encoding: chunked, gzip", TransferEncodingInvalid),
        (
            "Transfer-Encoding: gzip, chunked, gzip",
            TransferEncodingInvalid,
        ),
        ("Transfer-Encoding:", TransferEncodingInvalid),
        ("Transfer-Encoding: ,chunked", TransferEncodingInvalid),
        ("Transfer-Encoding: chunked,", TransferEncodingInvalid),
        ("Transfer-Encoding: \"chunked\"", TransferEncodingInvalid),
        ("Transfer-Encoding: chun ked", TransferEncodingInvalid),
        ("Transfer-Encoding: \u{b}chunked", HeaderValue),
        ("Transfer-Encoding : chunked", SpaceBeforeColon),
        ("Transfer-Encoding:\r\n chunked", TransferEncodingInvalid),
    ]);
    refuses(&[
        (
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            TransferEncodingVersion,
        ),
        (
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
            LengthAndChunked,
        ),
    ]);
}

#[test]
fn connection_options() {
    for (version, lines, keeps) in [
        ("1.1", "A: b", true),
        ("1.1", "Connection: close", false),
        ("1.1", "connection: foo, CLOSE", false),
        ("1.1", "Connection: keep-alive, close", false),
        ("1.1", "Connection: keep-alive\r\nConnection: close", false),
        ("1.1", "Connection: closed", true),
        ("1.1", "Connection: ,,", true),
        ("1.1", "Connection:", true),
        ("1.0", "A: b", false),
        ("1.0", "Connection: Keep-Alive", true),
        ("1.0", "Connection: keep-alive, close", false),
        ("1.0", "Connection: foo", false),
    ] {
        let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n\r\n");
        assert_eq!(
            parsed(text.as_bytes()).expect(lines).keep_alive,
            keeps,
            "{version} {lines}"
        );
    }
}

#[test]
fn upgrade_is_told_and_otherwise_ignored() {
    for (lines, upgrade) in [
        ("Connection: Upgrade\r\nUpgrade: websocket", true),
        ("Upgrade: h2c\r\nConnection: keep-alive, upgrade", true),
        ("Upgrade: h2c", false),
        ("Connection: Upgrade", false),
    ] {
        assert_eq!(
            parsed(with(lines).as_bytes()).expect(lines).upgrade,
            upgrade,
            "{lines}"
        );
    }
}

#[test]
fn expectations() {
    let expects = |version: &str, lines: &str| {
        parsed(format!("POST / HTTP/{version}\r\nHost: a\r\n{lines}\r\n\r\n").as_bytes())
            .expect(lines)
            .expect_continue
    };
    assert!(expects("1.1", "Expect: 100-continue\r\nContent-Length: 1"));
    assert!(expects(
        "1.1",
        "Transfer-Encoding: chunked\r\nexpect: 100-Continue"
    ));
    assert!(
        !expects("1.1", "Expect: 100-continue"),
        "there is no body to wait for"
    );
    assert!(!expects("1.0", "Expect: 100-continue\r\nContent-Length: 1"));
    assert!(
        !expects("1.0", "Expect: else"),
        "HTTP/1.0 has no expectations"
    );
    refuses_lines(&[
        ("Expect: 200-ok", Expectation),
        ("Expect:", Expectation),
        ("Expect: 100-continue, 100-continue", Expectation),
    ]);
}

#[test]
fn limits() {
    let limits = Limits {
        head_bytes_max: 100,
        target_bytes_max: 20,
        headers_count_max: 3,
    };
    let result = |text: &str| parse(text.as_bytes(), &limits, &mut Head::new());
    let of_length = |len: usize| {
        let start = "GET / HTTP/1.1\r\nHost: a\r\nA: ";
        format!("{start}{}\r\n\r\n", "x".repeat(len - start.len() - 4))
    };
    assert_eq!(result(&of_length(100)), Parse::Complete { head_bytes: 100 });
    assert_eq!(result(&of_length(101)), Parse::Refused(HeadTooLarge));
    assert_eq!(result(&of_length(101)[..99]), Parse::Partial);
    assert_eq!(result(&of_length(200)[..100]), Parse::Refused(HeadTooLarge));
    assert_eq!(
        result(&(of_length(100) + &"body".repeat(100))),
        Parse::Complete { head_bytes: 100 }
    );

    let target = |len: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(len - 1));
    assert!(matches!(result(&target(20)), Parse::Complete { .. }));
    assert_eq!(result(&target(21)), Parse::Refused(TargetTooLong));
    assert_eq!(result(&target(21)[..25]), Parse::Refused(TargetTooLong));
    assert_eq!(result(&target(21)[..24]), Parse::Partial);

    let roomy = Limits {
        target_bytes_max: 1000,
        ..limits
    };
    let line = parse(target(300).as_bytes(), &roomy, &mut Head::new());
    assert_eq!(
        line,
        Parse::Refused(TargetTooLong),
        "the head ends within its first line"
    );

    let lines = |count: usize| {
        format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "Host: a\r\nB: c\r\nD: e\r\nF: g\r\n"
                .split_inclusive('\n')
                .take(count)
                .collect::<String>()
        )
    };
    assert!(matches!(result(&lines(3)), Parse::Complete { .. }));
    assert_eq!(result(&lines(4)), Parse::Refused(HeadersTooMany));
}

#[test]
fn every_refusal_tells_cause_and_fix() {
    for refusal in [
        BareLineFeed,
        HostMissing,
        BodyTooLarge,
        Version,
        Connect,
        ChunkSize,
    ] {
        let text = refusal.to_string();
        assert!(text.contains("; ") && !text.ends_with('.'), "{text}");
        assert!((400..=505).contains(&refusal.status()));
    }
}

#[test]
fn a_head_is_reused_without_traces() {
    let mut head = Head::new();
    let first =
        b"POST http://b/?q HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
    assert!(matches!(
        parse(first, &Limits::default(), &mut head),
        Parse::Complete { .. }
    ));
    let second = b"GET / HTTP/1.0\r\n\r\n";
    assert!(matches!(
        parse(second, &Limits::default(), &mut head),
        Parse::Complete { .. }
    ));
    assert_eq!(
        (head.query, head.host, head.body, head.headers.len()),
        (None, None, Body::None, 0)
    );
}

/// Mostly valid heads, built from valid pieces.
fn any_head() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => "[A-Za-z-]{1,12}:[ \t]{0,2}[ -~\u{80}-\u{ff}]{0,30}[ \t]{0,2}",
        1 => Just("Content-Length: 7".to_owned()),
        1 => Just("Transfer-Encoding: chunked".to_owned()),
        1 => Just("Connection: close".to_owned()),
        1 => Just("Expect: 100-continue".to_owned()),
    ];
    let target = prop_oneof![
        3 => "/[!-\"$-~]{0,20}",
        1 => Just("http://b.c:80/d?e".to_owned()),
    ];
    (
        "[A-Z]{1,8}",
        target,
        0..2,
        proptest::collection::vec(line, 0..6),
    )
        .prop_map(|(method, target, minor, lines)| {
            let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            format!("{method} {target} HTTP/1.{minor}\r\nHost: a\r\n{lines}\r\n")
        })
}

proptest! {
    #[test]
    fn any_split_gives_the_same_result(text in any_head(), selector: u8) {
        let mut input = vec![selector];
        input.extend_from_slice(text.as_bytes());
        crate::fuzzing::head(&input);
    }

    /// Every head that the parser accepts means the same to an independent parser.
    #[test]
    fn agrees_with_httparse(text in any_head(), change: Option<(usize, u8)>) {
        let mut text = text.into_bytes();
        if let Some((at, byte)) = change {
            let at = at % text.len();
            text[at] = byte;
        }
        let mut head = Head::new();
        if let Parse::Complete { head_bytes } = parse(&text, &Limits::default(), &mut head) {
            // httparse accepts only minor versions 0 and 1, and only targets in UTF-8.
            prop_assume!(head.minor_version < 2 && std::str::from_utf8(head.target.of(&text)).is_ok());
            let mut headers = [httparse::EMPTY_HEADER; 32];
            let mut request = httparse::Request::new(&mut headers);
            prop_assert_eq!(request.parse(&text), Ok(httparse::Status::Complete(head_bytes)));
            prop_assert_eq!(request.method.map(str::as_bytes), Some(head.method_span.of(&text)));
            prop_assert_eq!(request.path.map(str::as_bytes), Some(head.target.of(&text)));
            prop_assert_eq!(request.version, Some(head.minor_version));
            prop_assert_eq!(request.headers.len(), head.headers.len());
            for (theirs, ours) in request.headers.iter().zip(&head.headers) {
                prop_assert_eq!(theirs.name.as_bytes(), ours.name.of(&text));
                prop_assert_eq!(theirs.value, ours.value.of(&text));
            }
        }
    }

    /// Previously parsed heads never change the result of a later one.
    #[test]
    fn lines_that_repeat_mean_the_same(texts in proptest::collection::vec(any_head(), 1..4), order: Vec<(u8, u8)>) {
        let limits = Limits { headers_count_max: 5, ..Limits::default() };
        let mut repeats = Repeats::default();
        let mut head = Head::new();
        for (which, target) in order {
            let text = &texts[usize::from(which) % texts.len()];
            // Change the target's length in some cases.
            let text = text.replacen(" /", &format!(" /{}", "x".repeat(usize::from(target % 3))), 1);
            let mut fresh = Head::new();
            let expected = parse(text.as_bytes(), &limits, &mut fresh);
            prop_assert_eq!(parse_after(&mut repeats, text.as_bytes(), &limits, &mut head), expected);
            if matches!(expected, Parse::Complete { .. }) {
                prop_assert_eq!(format!("{:?}", &head), format!("{:?}", &fresh));
            }
        }
    }
}

#[test]
fn credentials_are_never_kept_for_comparing() {
    let mut head = Head::new();
    for secret in [
        "Cookie: a=b",
        "authorization: Basic eA==",
        "Proxy-Authorization: x",
    ] {
        let mut repeats = Repeats::default();
        let text = with("X-A: 1");
        let _ = parse_after(&mut repeats, text.as_bytes(), &Limits::default(), &mut head);
        assert!(format!("{repeats:?}").contains("bytes: [72"), "{repeats:?}");
        let text = with(secret);
        let _ = parse_after(&mut repeats, text.as_bytes(), &Limits::default(), &mut head);
        assert!(format!("{repeats:?}").contains("bytes: []"), "{repeats:?}");
    }
}
