//! Floods of frames against a running server. The server closes and counts each, and other clients
//! still get responses.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fermata_testkit::{Server, deadline};
use fermata_tests::stats;
use serde_json::Value;

use super::on;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const ENHANCE_YOUR_CALM: u8 = 0xb;

/// `GET /` with the authority `a`.
const HEAD: &[u8] = &[0x82, 0x86, 0x84, 0x01, 1, b'a'];

/// Number of writes: much more than any rate limit allows, even if sending takes a second on a busy
/// machine.
const TIMES: u32 = 20_000;

/// The name of a flood, and its frames for a stream number.
type Attack<'a> = (&'a str, &'a dyn Fn(u32) -> Vec<u8>);

/// Stops the other client when dropped, also after a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload");
    let mut out = length.to_be_bytes()[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// Sends the frames of `attack` for many streams, and returns the code with which the server closes
/// the connection.
fn flood(server: &Server, attack: impl Fn(u32) -> Vec<u8>) -> u8 {
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    stream
        .set_read_timeout(Some(deadline()))
        .expect("a time-out");
    let mut writing = stream.try_clone().expect("a descriptor");
    let mut wire = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    wire.extend(frame(SETTINGS, 0, 0, &[]));
    // A request with an endless body.
    wire.extend(frame(HEADERS, END_HEADERS, 1, HEAD));
    for time in 0..TIMES {
        wire.extend(attack(3 + 2 * time));
    }
    // The server reads only as much as its limits allow, and closes.
    let writer = thread::spawn(move || {
        let _ = writing.write_all(&wire);
    });
    let mut received = Vec::new();
    let mut piece = [0; 64 * 1024];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => received.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the connection is not closed: {error}"),
        }
        if let Some(code) = code_of(&received) {
            drop(stream);
            writer.join().expect("it has written");
            return code;
        }
    }
    panic!("it was closed without a word");
}

/// Returns the code of the GOAWAY among frames.
fn code_of(mut bytes: &[u8]) -> Option<u8> {
    while let [l2, l1, l0, kind, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *l2, *l1, *l0]) as usize;
        let payload = rest.get(5..5 + length)?;
        if *kind == GO_AWAY {
            return Some(payload[7]);
        }
        bytes = &rest[5 + length..];
    }
    None
}

#[test]
fn floods_end_their_connection_and_nobody_else_waits() {
    let server = on("http").control().start();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = Over(&is_over);
        let normal = scope.spawn(|| {
            let mut answered = 0;
            while !is_over.load(Ordering::Relaxed) || answered == 0 {
                assert_eq!(server.connect().get("/").status(), 200);
                answered += 1;
            }
        });
        let whole = END_HEADERS | END_STREAM;
        let cancel = 8_u32.to_be_bytes();
        let attacks: [Attack; 9] = [
            ("resets", &|id| {
                [
                    frame(HEADERS, whole, id, HEAD),
                    frame(RESET, 0, id, &cancel),
                ]
                .concat()
            }),
            ("resets_caused", &|id| {
                let shut = frame(WINDOW_UPDATE, 0, id, &[0; 4]);
                [frame(HEADERS, END_HEADERS, id, HEAD), shut].concat()
            }),
            ("pings", &|_| frame(PING, 0, 0, &[0; 8])),
            ("settings", &|_| frame(SETTINGS, 0, 0, &[])),
            ("empty_data", &|_| frame(DATA, 0, 1, &[])),
            ("connection_window_updates", &|_| {
                frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])
            }),
            ("stream_window_updates", &|_| {
                frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])
            }),
            ("priorities", &|_| frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9])),
            ("unknown_frames", &|_| frame(0xfa, 0, 0, &[])),
        ];
        let mut kinds: Vec<&str> = attacks.iter().map(|(name, _)| *name).collect();
        for (name, attack) in attacks {
            assert_eq!(flood(&server, attack), ENHANCE_YOUR_CALM, "{name}");
        }
        let continued = |id| match id {
            3 => frame(HEADERS, 0, id, HEAD),
            _ => frame(CONTINUATION, 0, 3, b"\0\x01a\x01b"),
        };
        assert_eq!(flood(&server, continued), ENHANCE_YOUR_CALM);
        kinds.push("continuations");
        drop(over);
        normal.join().expect("it was answered all the time");
        let figures = stats(&server);
        for kind in kinds {
            let count = figures.pointer(&format!("/total/http2_closed/flood_{kind}"));
            assert_eq!(
                count.and_then(Value::as_u64),
                Some(1),
                "{kind} in {figures}"
            );
        }
    });
}
