//! Channels: published messages reach WebSockets and event streams alike, but not their sender;
//! clients that reconnect receive the missed messages.

use std::time::Duration;

use fermata_testkit::sse::Stream;
use fermata_testkit::websocket::{RSV1, Socket, TEXT};
use fermata_tests::{fixture, publish};
use serde_json::Value;

use crate::{open, start};

#[track_caller]
fn joined(server: &fermata_testkit::Server, path: &str) -> Socket {
    let mut socket = open(server, path);
    loop {
        // Replayed messages may arrive before or after the application's greeting.
        if socket.next_text() == "joined" {
            return socket;
        }
    }
}

#[test]
fn publishing_reaches_all_but_the_sender() {
    let server = fixture("websocket").workers(2).start();
    let mut sockets: Vec<_> = (0..6).map(|_| joined(&server, "/rooms/7")).collect();
    let mut elsewhere = joined(&server, "/rooms/8");
    sockets[0].text("hello");
    for socket in &mut sockets[1..] {
        assert_eq!(socket.next_text(), "hello");
    }
    publish(&server, "7", "to all");
    for socket in &mut sockets {
        assert_eq!(socket.next_text(), "to all");
    }
    elsewhere.expect_silence(Duration::from_millis(100));
}

#[test]
fn event_streams_and_sockets_see_the_same() {
    let server = start();
    let mut stream = Stream::open(server.connect(), "/events/both", None);
    let mut socket = joined(&server, "/rooms/both");
    socket.text("from the socket");
    assert_eq!(stream.next_event().data, "from the socket");
    publish(&server, "both", "ü from HTTP");
    assert_eq!(stream.next_event().data, "ü from HTTP");
    assert_eq!(socket.next_text(), "ü from HTTP");
}

#[track_caller]
fn envelope(socket: &mut Socket) -> (String, String) {
    let text = socket.next_text();
    let value: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(value["channel"], "log", "{text}");
    let field = |name| value[name].as_str().map(str::to_owned).unwrap_or_default();
    (field("id"), field("data"))
}

#[test]
fn a_socket_that_comes_back_gets_what_was_missed() {
    let server = start();
    let mut socket = joined(&server, "/rooms/log?format=json");
    let id = publish(&server, "log", "first");
    assert_eq!(envelope(&mut socket), (id.clone(), "first".into()));
    drop(socket);
    let second = publish(&server, "log", "say \"second\"");
    let third = publish(&server, "log", "third");
    let mut socket = open(&server, &format!("/rooms/log?format=json&since={id}"));
    let mut got = Vec::new();
    while got.len() < 2 {
        let text = socket.next_text();
        if text != "joined" {
            let value: Value = serde_json::from_str(&text).expect("JSON");
            got.push((value["id"].clone(), value["data"].clone()));
        }
    }
    assert_eq!(got[0], (second.into(), "say \"second\"".into()));
    assert_eq!(got[1], (third.into(), "third".into()));
}

/// Returns true if a text is an envelope whose field has this value.
fn has(text: &str, field: &str, value: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|it| it[field] == value)
}

#[test]
fn reports_a_gap_to_a_socket_whose_id_is_none() {
    let server = start();
    let valid = publish(&server, "log", "before");
    let (epoch, number) = valid.rsplit_once('-').expect("an id is EPOCH-NUMBER");
    for id in [
        "x".to_owned(),
        "-".to_owned(),
        "18446744073709551616".to_owned(),
        // 2^64 in base 36.
        format!("{epoch}-3w5e11264sgsg"),
        format!("3w5e11264sgsg-{number}"),
        format!("{epoch}-0{number}"),
        format!("{valid}%00"),
        "%FF%FE".to_owned(),
        "9".repeat(4_000),
    ] {
        let mut socket = open(&server, &format!("/rooms/log?format=json&since={id}"));
        let mut texts: Vec<String> = Vec::new();
        // The handler's own messages may arrive before or after the event.
        while texts.len() < 2 && !texts.iter().any(|text| has(text, "event", "gap")) {
            texts.push(socket.next_text());
        }
        assert!(
            texts.iter().any(|text| has(text, "event", "gap")),
            "{id}: {texts:?}"
        );
        publish(&server, "log", "live");
        while !has(&socket.next_text(), "data", "live") {}
    }
}

#[test]
fn a_broadcast_is_compressed_for_those_who_agreed() {
    let server = start();
    let offer = "Sec-WebSocket-Extensions: permessage-deflate";
    let mut packed = Socket::open_with(server.connect(), "/packed/p", &[offer]);
    assert_eq!(packed.next_text(), "joined");
    let mut plain = joined(&server, "/packed/p");
    let text = "again and again ".repeat(100);
    publish(&server, "p", &text);
    assert_eq!(plain.next_text(), text);
    let frame = packed.next_frame();
    assert_eq!(frame.first, TEXT | RSV1);
    assert!(frame.payload.len() < text.len() / 10);
    let mut out = Vec::with_capacity(text.len() + 100);
    let mut stream = flate2::Decompress::new(false);
    for part in [&frame.payload[..], &[0, 0, 0xff, 0xff]] {
        let done = stream.decompress_vec(part, &mut out, flate2::FlushDecompress::Sync);
        done.expect("decompresses");
    }
    assert_eq!(out, text.as_bytes());
}
