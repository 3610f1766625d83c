//! The handshake: accepted and rejected requests, and slow ones.

use std::time::Duration;

use fermata_testkit::websocket::{KEY, Socket, TEXT, frame, request};
use fermata_testkit::{Random, Response};
use fermata_tests::fixture;

use crate::{open, start};

/// Returns the response to a handshake with `from` replaced by `to`.
#[track_caller]
fn refused(path: &str, from: &str, to: &str) -> Response {
    let server = start();
    let mut connection = server.connect();
    let text = request(path, &[]).replace(from, to);
    assert_ne!(text, request(path, &[]), "nothing to replace");
    connection.send(text);
    connection.read_response()
}

#[test]
fn what_is_no_handshake_is_refused() {
    for (from, to, status) in [
        ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8", 426),
        ("Sec-WebSocket-Version: 13\r\n", "", 426),
        ("Upgrade: websocket\r\n", "", 426),
        ("Upgrade: websocket", "Upgrade: h2c", 426),
        (KEY, "short", 400),
        ("Sec-WebSocket-Key: ", "X-Key: ", 400),
        ("Host: fermata.test\r\n", "", 400),
        ("\r\n\r\n", "\r\nSec-WebSocket-Protocol: a, a\r\n\r\n", 400),
        ("\r\n\r\n", "\r\nSec-WebSocket-Extensions: ;\r\n\r\n", 400),
    ] {
        let response = refused("/echo", from, to);
        assert_eq!(response.status(), status, "{from:?} -> {to:?}");
        if status == 426 {
            assert_eq!(response.header("sec-websocket-version"), Some("13"));
            assert_eq!(response.header("upgrade"), Some("websocket"));
        }
    }
    for method in ["POST", "PUT", "DELETE"] {
        let response = refused("/echo", "GET ", &format!("{method} "));
        assert_eq!(response.status(), 405, "{method}");
    }
    assert_eq!(refused("/echo", "/echo", "/nowhere").status(), 404);
}

#[test]
fn a_refusal_leaves_the_server_well() {
    let server = start();
    for _ in 0..3 {
        let mut connection = server.connect();
        connection.send(request("/echo", &["Origin: https://evil.test"]));
        assert_eq!(connection.read_response().status(), 403);
    }
    let mut socket = open(&server, "/echo");
    socket.text("still here");
    assert_eq!(socket.next_text(), "still here");
}

#[test]
fn pages_of_other_sites_may_not_connect() {
    let server = start();
    for (path, origin, accepted) in [
        ("/echo", "http://fermata.test", true),
        ("/echo", "https://FERMATA.test:443", true),
        ("/echo", "https://fermata.test.evil", false),
        ("/echo", "http://fermata.test:81", false),
        ("/echo", "null", false),
        ("/listed", "https://good.test", true),
        ("/listed", "http://good.test:81", true),
        ("/listed", "http://good.test", false),
        ("/listed", "http://fermata.test", false),
        ("/anywhere", "null", true),
    ] {
        let mut connection = server.connect();
        connection.send(request(path, &[&format!("Origin: {origin}")]));
        if accepted {
            let socket = Socket::after_request(connection);
            assert!(socket.is_ok(), "{path} {origin}: {socket:?}");
        } else {
            assert_eq!(connection.read_response().status(), 403, "{path} {origin}");
        }
    }
}

#[test]
fn the_server_prefers_among_subprotocols() {
    let server = start();
    for (offers, chosen) in [
        (&["v1", "v2"][..], "v2"),
        (&["v1, v2"], "v2"),
        (&["v1"], "v1"),
        (&["v3"], "none"),
        (&[], "none"),
    ] {
        let lines: Vec<String> = offers
            .iter()
            .map(|offer| format!("Sec-WebSocket-Protocol: {offer}"))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut socket = Socket::open_with(server.connect(), "/protocols", &lines);
        let answer = socket.head().header("sec-websocket-protocol");
        assert_eq!(answer, Some(chosen).filter(|&chosen| chosen != "none"));
        assert_eq!(socket.next_text(), chosen);
    }
}

#[test]
fn the_program_may_refuse() {
    let server = start();
    let mut connection = server.connect();
    connection.send(request("/secret", &[]));
    assert_eq!(connection.read_response().status(), 401);
    let mut socket = open(&server, "/secret?key=yes");
    socket.text("in");
    assert_eq!(socket.next_text(), "in");
}

#[test]
fn frames_may_follow_the_handshake_at_once_and_in_any_pieces() {
    let server = start();
    let mut random = Random::from_environment();
    for _ in 0..20 {
        let mut bytes = request("/echo", &[]).into_bytes();
        for text in ["one", "two", "three"] {
            bytes.extend(frame(TEXT, text.as_bytes()));
        }
        let mut connection = server.connect();
        connection.send_split(&bytes, 40, &mut random);
        let mut socket = Socket::after_request(connection).expect("accepted");
        for text in ["one", "two", "three"] {
            assert_eq!(socket.next_text(), text);
        }
    }
}

#[test]
fn a_dripping_handshake_ends_at_its_time_out() {
    let server = fixture("websocket")
        .workers(1)
        .setting("header_timeout_ms", 300)
        .start();
    let mut slow = server.connect();
    let bytes = request("/echo", &[]).into_bytes();
    let mut sent = 0;
    // Send one byte at a time until the server responds. Sending all bytes would take longer than
    // any time-out of the test.
    while !slow.has_data(Duration::from_millis(150)) {
        assert!(sent < bytes.len(), "the server takes all the time there is");
        let _ = slow.try_send(&bytes[sent..=sent]);
        sent += 1;
    }
    assert!(sent < 60, "{sent} bytes of the handshake were taken");
    let mut socket = open(&server, "/echo");
    socket.text("others are served");
    assert_eq!(socket.next_text(), "others are served");
}
