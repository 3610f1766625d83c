//! Requests that are rejected instead of guessed at (RFC 9112, sections 2.2, 3, 5, 6.3 and 11.2).

use fermata_testkit::{Server, wait_until};
use fermata_tests::fixture;

/// The request that an attacker tries to smuggle.
const SMUGGLED: &str = "GET /rooms/smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Sends `attack` with a smuggled request after it. Expects one error response, then the close.
#[track_caller]
fn check_refused(server: &Server, what: &str, attack: &str, statuses: &[u16]) {
    let mut connection = server.connect();
    connection.send(format!("{attack}{SMUGGLED}"));
    let response = connection.try_read_response(false);
    let response = response.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(
        statuses.contains(&response.status()),
        "{what}: {}",
        response.status()
    );
    assert!(
        response.head.connection_says("close"),
        "{what}: the client is told of the end"
    );
    connection.expect_end();
}

#[test]
fn ambiguous_framing_is_refused_and_the_connection_closed() {
    let server = fixture("http").workers(1).start();
    let table: &[(&str, &str, &[u16])] = &[
        (
            "length and chunked",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            &[400],
        ),
        (
            "chunked and length",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            &[400],
        ),
        (
            "different lengths",
            "Content-Length: 1\r\nContent-Length: 2\r\n",
            &[400],
        ),
        (
            "equal lengths",
            "Content-Length: 0\r\nContent-Length: 0\r\n",
            &[400],
        ),
        ("length list", "Content-Length: 0, 0\r\n", &[400]),
        ("signed length", "Content-Length: +0\r\n", &[400]),
        ("negative length", "Content-Length: -1\r\n", &[400]),
        ("hex length", "Content-Length: 0x0\r\n", &[400]),
        ("length with a space", "Content-Length: 0 0\r\n", &[400]),
        ("empty length", "Content-Length:\r\n", &[400]),
        (
            "overflowing length",
            "Content-Length: 18446744073709551616\r\n",
            &[400, 413],
        ),
        (
            "huge length",
            "Content-Length: 99999999999999999999999999\r\n",
            &[400, 413],
        ),
        (
            "two codings",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            &[400, 501],
        ),
        (
            "coding twice",
            "Transfer-Encoding: chunked, chunked\r\n",
            &[400, 501],
        ),
        ("unknown coding", "Transfer-Encoding: gzip\r\n", &[400, 501]),
        (
            "other coding before",
            "Transfer-Encoding: gzip, chunked\r\n",
            &[400, 501],
        ),
        (
            "other coding after",
            "Transfer-Encoding: chunked, identity\r\n",
            &[400, 501],
        ),
        ("identity", "Transfer-Encoding: identity\r\n", &[400, 501]),
        (
            "almost chunked",
            "Transfer-Encoding: xchunked\r\n",
            &[400, 501],
        ),
        (
            "chunked in quotes",
            "Transfer-Encoding: \"chunked\"\r\n",
            &[400, 501],
        ),
        (
            "chunked with a parameter",
            "Transfer-Encoding: chunked;q=1\r\n",
            &[400, 501],
        ),
        ("empty coding", "Transfer-Encoding:\r\n", &[400, 501]),
        (
            "vertical tab before chunked",
            "Transfer-Encoding: \x0bchunked\r\n",
            &[400, 501],
        ),
        ("space before colon", "Content-Length : 5\r\n", &[400]),
        (
            "tab before colon",
            "Transfer-Encoding\t: chunked\r\n",
            &[400],
        ),
        ("folded line", "X-One: a\r\n b\r\n", &[400]),
        ("folded first line", " X-One: a\r\n", &[400]),
        ("bare LF", "X-One: a\nX-Two: b\r\n", &[400]),
        ("bare CR", "X-One: a\rX-Two: b\r\n", &[400]),
        ("CR CR LF", "X-One: a\r\r\n", &[400]),
        ("NUL in a value", "X-One: a\0b\r\n", &[400]),
        ("control byte in a value", "X-One: a\x01b\r\n", &[400]),
        ("DEL in a value", "X-One: a\x7fb\r\n", &[400]),
        ("no colon", "X-One\r\n", &[400]),
        ("empty name", ": a\r\n", &[400]),
        ("space in a name", "X One: a\r\n", &[400]),
        ("bracket in a name", "X[One]: a\r\n", &[400]),
        ("non-ASCII name", "X-Öne: a\r\n", &[400]),
        ("second host", "Host: b\r\n", &[400]),
        ("second equal host", "Host: a\r\n", &[400]),
    ];
    for (what, lines, statuses) in table {
        let attack = format!("POST /body HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        check_refused(&server, what, &attack, statuses);
    }
    assert_eq!(server.connect().get("/rooms/1").text(), "1");
}

#[test]
fn malformed_request_lines_are_refused_and_the_connection_closed() {
    let server = fixture("http").workers(1).start();
    let table: &[(&str, &str, &[u16])] = &[
        ("no host", "GET / HTTP/1.1\r\n\r\n", &[400]),
        ("empty line with LF", "GET / HTTP/1.1\nHost: a\n\n", &[400]),
        ("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
        (
            "space in the target",
            "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
            &[400],
        ),
        (
            "tab in the target",
            "GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n",
            &[400],
        ),
        (
            "NUL in the target",
            "GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n",
            &[400],
        ),
        ("fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
        ("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
        (
            "relative target",
            "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
            &[400],
        ),
        (
            "asterisk with GET",
            "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            &[400],
        ),
        ("no version", "GET /\r\nHost: a\r\n\r\n", &[400, 505]),
        (
            "trailing space",
            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
            &[400, 505],
        ),
        (
            "lower-case version",
            "GET / http/1.1\r\nHost: a\r\n\r\n",
            &[400, 505],
        ),
        (
            "long minor version",
            "GET / HTTP/1.10\r\nHost: a\r\n\r\n",
            &[400, 505],
        ),
        (
            "method with a colon",
            "GE:T / HTTP/1.1\r\nHost: a\r\n\r\n",
            &[400],
        ),
        (
            "control byte first",
            "\x01GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            &[400],
        ),
        ("space first", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
        (
            "invalid host",
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            &[400],
        ),
        (
            "host with a path",
            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
            &[400],
        ),
        (
            "host with a user",
            "GET / HTTP/1.1\r\nHost: x@a\r\n\r\n",
            &[400],
        ),
        ("host list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", &[400]),
        ("bad escape", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
        ("cut escape", "GET /%2 HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
        (
            "escaped NUL",
            "GET /rooms/%00 HTTP/1.1\r\nHost: a\r\n\r\n",
            &[400],
        ),
        (
            "chunked in 1.0",
            "POST /body HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            &[400],
        ),
        ("HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", &[505]),
        ("HTTP/3.1", "GET / HTTP/3.1\r\nHost: a\r\n\r\n", &[505]),
        ("HTTP/0.9", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", &[400, 505]),
        ("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n", &[400]),
    ];
    for (what, attack, statuses) in table {
        check_refused(&server, what, attack, statuses);
    }
    assert_eq!(server.connect().get("/rooms/1").text(), "1");
}

#[test]
fn long_targets_are_414() {
    let server = fixture("http")
        .workers(1)
        .setting("target_bytes_max", 200)
        .start();
    let mut connection = server.connect();
    let fits = format!("/rooms/{}", "x".repeat(200 - 7));
    assert_eq!(connection.get(&fits).status(), 200);
    let long = format!("GET {fits}x HTTP/1.1\r\nHost: a\r\n\r\n");
    check_refused(&server, "one byte too long", &long, &[414]);

    // Rejected even before the request line is complete.
    let mut connection = server.connect();
    let _ = connection.try_send(format!("GET /{}", "x".repeat(100_000)));
    assert_eq!(connection.read_response().status(), 414);
}

#[test]
fn large_heads_are_431() {
    let builder = fixture("http")
        .workers(1)
        .setting("target_bytes_max", 1_000);
    let server = builder
        .setting("header_bytes_max", 2_000)
        .setting("headers_count_max", 20)
        .start();
    let mut connection = server.connect();
    let lines: Vec<(String, String)> = (0..18)
        .map(|n| (format!("X-{n}"), "y".repeat(50)))
        .collect();
    let lines: Vec<(&str, &str)> = lines
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    assert_eq!(connection.request("GET", "/", &lines, b"").status(), 200);

    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(30));
    check_refused(&server, "too many lines", &many, &[431]);
    let long = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "y".repeat(3_000)
    );
    check_refused(&server, "too many bytes", &long, &[431]);

    let mut connection = server.connect();
    let endless = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "y".repeat(100_000));
    let _ = connection.try_send(endless);
    assert_eq!(connection.read_response().status(), 431);
}

#[test]
fn a_refused_head_gets_no_content() {
    let server = fixture("http")
        .workers(1)
        .setting("header_timeout_ms", 300)
        .setting("connections_max", 2)
        .start();
    for (attack, status) in [
        ("HEAD / HTTP/1.1\r\nBad Header: x\r\n\r\n", 400),
        ("\r\nHEAD /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("HEAD /rooms/\\ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("HEAD / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nExpect: 200\r\n\r\n", 417),
        (
            "HEAD /rooms/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n",
            413,
        ),
        // Incomplete requests.
        ("HEAD / HTTP/1.1\r\nHost: a\r\n", 408),
    ] {
        let mut connection = server.connect();
        connection.send(attack);
        let (bytes, _) = connection.read_to_end();
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            text.starts_with(&format!("HTTP/1.1 {status} ")),
            "{attack}: {text}"
        );
        assert!(text.ends_with("\r\n\r\n"), "{attack}: {text}");
    }
    // A connection above the limit gets no content either. Refused connections count until the server has closed them.
    let _idle = wait_until("the refused connections are closed", || {
        let mut idle = [server.connect(), server.connect()];
        let are_served = idle.iter_mut().all(|it| it.get("/").status() == 200);
        are_served.then_some(idle)
    });
    let mut connection = server.connect();
    let _ = connection.try_send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (bytes, _) = connection.read_to_end();
    assert!(bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 503"));
}

#[test]
fn bytes_that_are_no_part_of_a_url_are_400() {
    let server = fixture("http").workers(1).start();
    for byte in [0x80u8, 0xa9, 0xc3, 0xff] {
        for (before, behind) in [("GET /rooms/", ""), ("GET /echo?x=", "y")] {
            let mut connection = server.connect();
            let line = [before.as_bytes(), &[byte], behind.as_bytes()].concat();
            connection.send([&line[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
            assert_eq!(connection.read_response().status(), 400, "{byte:x}");
        }
    }
}

/// Error responses that close a connection have common properties.
#[test]
fn refusals_have_one_style() {
    let server = fixture("http")
        .workers(1)
        .setting("header_timeout_ms", 300)
        .setting("body_timeout_ms", 300)
        .start();
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(9_000));
    let lines = "X: y\r\n".repeat(200);
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET /.. HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n".to_owned(), 408),
        (
            "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx".to_owned(),
            408,
        ),
        (
            "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n".to_owned(),
            413,
        ),
        (long, 414),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n".to_owned(),
            417,
        ),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"), 431),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".to_owned(),
            501,
        ),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n".to_owned(), 505),
    ] {
        let mut connection = server.connect();
        connection.send(&request);
        let response = connection.read_response();
        let start = &request[..request.len().min(60)];
        assert_eq!(response.status(), status, "{start}");
        assert_eq!(
            response.header("content-type"),
            Some("text/plain; charset=utf-8"),
            "{start}"
        );
        assert!(response.head.connection_says("close"), "{start}");
        assert!(response.header("date").is_some(), "{start}");
        let text = response.text();
        let is_sentence =
            text.ends_with(".\n") && text.starts_with(|c: char| c.is_ascii_uppercase());
        assert!(is_sentence && text.lines().count() == 1, "{start}: {text}");
    }
}
