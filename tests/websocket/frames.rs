//! Messages: sizes, fragments, any split of the bytes, and protocol violations.

use fermata_testkit::Random;
use fermata_testkit::websocket::{BINARY, PING, PONG, RSV1, TEXT, frame};

use crate::{open, start};

#[test]
fn messages_of_every_size_class_come_back() {
    let server = start();
    let mut socket = open(&server, "/echo");
    for len in [0, 1, 125, 126, 127, 65_535, 65_536, 300_000] {
        for first in [TEXT, BINARY] {
            let payload = vec![b'a'; len];
            socket.send(first, &payload);
            let echo = socket.next_frame();
            assert!(echo.first == first && echo.payload == payload, "{len}");
        }
    }
}

#[test]
fn any_split_gives_the_same_messages() {
    let server = start();
    let mut random = Random::from_environment();
    let mut bytes = Vec::new();
    bytes.extend(frame(TEXT, "grüße".as_bytes()));
    bytes.extend(frame(0x01, "ge".as_bytes()));
    bytes.extend(frame(PING, b"inside"));
    bytes.extend(frame(0x00, "teil".as_bytes()));
    bytes.extend(frame(0x00, b""));
    bytes.extend(frame(0x80, "t €".as_bytes()));
    bytes.extend(frame(BINARY, &[0, 255, 128]));
    for piece_bytes_max in [1, 2, 7, 40] {
        let mut socket = open(&server, "/echo");
        socket
            .connection()
            .send_split(&bytes, piece_bytes_max, &mut random);
        assert_eq!(socket.next_text(), "grüße");
        let pong = socket.next_frame();
        assert_eq!((pong.first, &pong.payload[..]), (PONG, &b"inside"[..]));
        assert_eq!(socket.next_text(), "geteilt €");
        assert_eq!(socket.next_frame().payload, [0, 255, 128]);
    }
}

#[test]
fn a_thousand_messages_in_one_write_come_back_in_order() {
    let server = start();
    let mut socket = open(&server, "/echo");
    let mut bytes = Vec::new();
    for number in 0..1000 {
        bytes.extend(frame(TEXT, number.to_string().as_bytes()));
    }
    socket.connection().send(bytes);
    for number in 0..1000 {
        assert_eq!(socket.next_text(), number.to_string());
    }
}

#[test]
fn what_breaks_the_protocol_is_closed_with_the_code_it_deserves() {
    let server = start();
    let text = |first: u8, payload: &[u8]| frame(first, payload);
    for (what, bytes, code) in [
        ("unmasked", b"\x81\x01a".to_vec(), 1002),
        ("a reserved opcode", text(0x83, b""), 1002),
        ("a reserved control opcode", text(0x8b, b""), 1002),
        ("RSV1 without agreement", text(TEXT | RSV1, b"x"), 1002),
        ("RSV2", text(TEXT | 0x20, b"x"), 1002),
        ("a fragmented ping", text(0x09, b""), 1002),
        ("a long ping", text(PING, &[0; 126]), 1002),
        ("a continuation of nothing", text(0x80, b"x"), 1002),
        (
            "a message in a message",
            [text(0x01, b"x"), text(TEXT, b"y")].concat(),
            1002,
        ),
        (
            "a length that is not minimal",
            b"\x81\xfe\x00\x01\0\0\0\0x".to_vec(),
            1002,
        ),
        (
            "a length of 2^63",
            b"\x82\xff\xff\0\0\0\0\0\0\0".to_vec(),
            1002,
        ),
        ("text that is not UTF-8", text(TEXT, b"\xff"), 1007),
        (
            "text that ends inside a character",
            text(TEXT, b"\xc3"),
            1007,
        ),
        (
            "a character cut wrongly",
            [text(0x01, b"\xc3"), text(0x80, b"(")].concat(),
            1007,
        ),
        ("a long close", text(0x88, &[3; 126]), 1002),
        ("a fragmented close", text(0x08, b""), 1002),
        ("half a close code", text(0x88, b"\x03"), 1002),
        (
            "a forbidden close code",
            text(0x88, &1005u16.to_be_bytes()),
            1002,
        ),
        (
            "a reason that is not UTF-8",
            text(0x88, b"\x03\xe8\xff"),
            1007,
        ),
    ] {
        let mut socket = open(&server, "/echo");
        socket.text("before");
        assert_eq!(socket.next_text(), "before");
        socket.connection().send(bytes);
        let reason = socket.expect_close(code);
        assert!(!reason.is_empty(), "{what}: no reason");
        server.log().wait_for(0, &format!("closed {code}"));
    }
}
