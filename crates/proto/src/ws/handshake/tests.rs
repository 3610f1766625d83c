use super::*;
use crate::http1::{Limits, Parse, parse};

const REQUEST: &str = "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://server.example.com\r\n\
    Sec-WebSocket-Protocol: chat, superchat\r\nSec-WebSocket-Version: 13\r\n\r\n";

fn parsed(request: &str) -> Head {
    let mut head = Head::new();
    let result = parse(request.as_bytes(), &Limits::default(), &mut head);
    assert!(matches!(result, Parse::Complete { .. }), "{result:?}");
    head
}

fn checked(request: &str, origins: Origins<'_>) -> Result<Handshake, Refused> {
    check(&parsed(request), request.as_bytes(), origins, None)
}

/// Returns the request with one header line replaced, or added if absent. An empty value removes the line.
fn with(name: &str, value: &str) -> String {
    let mut lines: Vec<String> = REQUEST
        .trim_end()
        .split("\r\n")
        .map(str::to_owned)
        .collect();
    lines.retain(|line| !line.starts_with(&format!("{name}:")));
    if !value.is_empty() {
        lines.push(format!("{name}: {value}"));
    }
    lines.join("\r\n") + "\r\n\r\n"
}

#[test]
fn the_example_of_the_standard() {
    let handshake = checked(REQUEST, Origins::SameHost).expect("valid");
    let head = parsed(REQUEST);
    let protocol = choose_protocol(&head, REQUEST.as_bytes(), [&b"chat"[..]]);
    let mut out = Vec::new();
    let headers = [(&b"Set-Cookie"[..], &b"a=b"[..])];
    write_accepted(&mut out, &handshake, protocol, headers.into_iter());
    let expected = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: chat\r\nSet-Cookie: a=b\r\n\r\n";
    assert_eq!(String::from_utf8(out).expect("ASCII"), expected);
}

#[test]
fn what_is_accepted() {
    for request in [
        with("Connection", "keep-alive, Upgrade"),
        with("Upgrade", "WebSocket"),
        with("Upgrade", "h2c, websocket"),
        with("Origin", ""),
        with("Sec-WebSocket-Protocol", ""),
        with("Sec-WebSocket-Extensions", "foo; bar=1"),
        REQUEST.replace("HTTP/1.1", "HTTP/1.2"),
        REQUEST.replace("Sec-WebSocket-Key", "sec-websocket-KEY"),
    ] {
        assert!(checked(&request, Origins::SameHost).is_ok(), "{request}");
    }
}

#[test]
fn what_is_refused() {
    use Refused as R;
    let key_twice = "dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    for (request, refused, status) in [
        (REQUEST.replace("GET", "POST"), R::Method, 405),
        (REQUEST.replace("HTTP/1.1", "HTTP/1.0"), R::HttpVersion, 400),
        (with("Upgrade", ""), R::UpgradeRequired, 426),
        (with("Upgrade", "websockets"), R::UpgradeRequired, 426),
        (with("Connection", "keep-alive"), R::UpgradeRequired, 426),
        (with("Sec-WebSocket-Version", ""), R::Version, 426),
        (with("Sec-WebSocket-Version", "8"), R::Version, 426),
        (with("Sec-WebSocket-Version", "13, 8"), R::Version, 426),
        (with("Content-Length", "5"), R::Body, 400),
        (with("Transfer-Encoding", "chunked"), R::Body, 400),
        (with("Sec-WebSocket-Key", ""), R::Key, 400),
        (with("Sec-WebSocket-Key", "c2hvcnQ="), R::Key, 400),
        (with("Sec-WebSocket-Key", key_twice), R::Key, 400),
        (with("Origin", "http://evil.example"), R::Origin, 403),
        (with("Sec-WebSocket-Protocol", "a b"), R::Protocols, 400),
        (with("Sec-WebSocket-Protocol", "a, b, a"), R::Protocols, 400),
        (with("Sec-WebSocket-Protocol", ","), R::Protocols, 400),
        (with("Sec-WebSocket-Extensions", "a;"), R::Extensions, 400),
    ] {
        assert_eq!(
            checked(&request, Origins::SameHost),
            Err(refused),
            "{request}"
        );
        assert_eq!(refused.status(), status);
    }
    assert_eq!(R::Method.headers(), &[(&b"Allow"[..], &b"GET"[..])]);
    let names = R::Version.headers().iter().map(|(name, _)| *name);
    assert!(names.eq([&b"Upgrade"[..], b"Connection", b"Sec-WebSocket-Version"]));
    assert!(R::Key.headers().is_empty());
}

#[test]
fn origins() {
    let request = |origin: &str, host: &str| {
        with("Origin", origin).replace("Host: server.example.com", &format!("Host: {host}"))
    };
    for (origin, host, same) in [
        ("http://a.example", "a.example", true),
        ("https://A.example", "a.EXAMPLE", true),
        ("http://a.example:8080", "a.example:8080", true),
        ("http://a.example", "a.example:80", true),
        ("https://a.example", "a.example:443", true),
        ("http://[::1]:80", "[::1]", true),
        ("http://a.example", "a.example:8080", false),
        ("https://a.example", "a.example:80", false),
        ("http://b.example", "a.example", false),
        ("http://a.example.evil", "a.example", false),
        ("http://evil.a.example", "a.example", false),
        ("null", "null", false),
        ("file://", "a.example", false),
        ("http://", "a.example", false),
        ("chrome-extension://a.example", "a.example", false),
        (
            "http://a.example\r\nOrigin: http://a.example",
            "a.example",
            false,
        ),
    ] {
        let request = request(origin, host);
        assert_eq!(
            checked(&request, Origins::SameHost).is_ok(),
            same,
            "{request}"
        );
    }

    let listed = [b"https://a.example".to_vec(), b"null".to_vec()];
    for (origin, allowed) in [
        ("https://a.example", true),
        ("https://A.example", true),
        ("null", true),
        ("http://a.example", false),
        ("https://server.example.com", false),
    ] {
        let request = with("Origin", origin);
        let result = checked(&request, Origins::Listed(&listed));
        assert_eq!(result.is_ok(), allowed, "{origin}");
    }
    assert!(checked(&with("Origin", "x"), Origins::Any).is_ok());
}

#[test]
fn the_server_chooses_among_the_offered_protocols() {
    let request = with("Sec-WebSocket-Protocol", "a,b\r\nSec-WebSocket-Protocol: c");
    let head = parsed(&request);
    let choose = |supported: &[&'static str]| {
        let supported = supported.iter().map(|name| name.as_bytes());
        choose_protocol(&head, request.as_bytes(), supported)
    };
    assert_eq!(choose(&["c", "a"]), Some(&b"c"[..]));
    assert_eq!(choose(&["x", "b"]), Some(&b"b"[..]));
    assert_eq!(choose(&["A"]), None);
    assert_eq!(choose(&[]), None);
    let offered: Vec<&[u8]> = protocols(&head, request.as_bytes()).collect();
    assert_eq!(offered, [b"a", b"b", b"c"]);
}

#[test]
fn compression_is_answered() {
    let request = with(
        "Sec-WebSocket-Extensions",
        "permessage-deflate; client_max_window_bits",
    );
    let head = parsed(&request);
    let policy = Policy::default();
    let handshake = check(&head, request.as_bytes(), Origins::Any, Some(&policy)).expect("valid");
    assert!(handshake.compression.is_some());
    let mut out = Vec::new();
    write_accepted(&mut out, &handshake, None, std::iter::empty());
    assert!(out.ends_with(b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"));
}

#[test]
fn headers_of_the_handshake_are_reserved() {
    for name in [
        "Upgrade",
        "connection",
        "sec-WebSocket-accept",
        "Content-Length",
    ] {
        assert!(reserved_name(name.as_bytes()), "{name}");
    }
    for name in ["Set-Cookie", "sec-websocket", "X-Sec-WebSocket-Key"] {
        assert!(!reserved_name(name.as_bytes()), "{name}");
    }
}
