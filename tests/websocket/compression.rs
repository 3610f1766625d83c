//! permessage-deflate: its negotiation, and messages compressed by another implementation.

use fermata_testkit::Server;
use fermata_testkit::websocket::{BINARY, PING, PONG, RSV1, Socket, TEXT};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use crate::start;

/// A client with its own streams.
struct Client {
    socket: Socket,
    compress: Compress,
    decompress: Decompress,
    forgets: bool,
}

impl Client {
    #[track_caller]
    fn open(server: &Server, path: &str, offer: &str, expected: Option<&str>) -> Client {
        let line = format!("Sec-WebSocket-Extensions: {offer}");
        let socket = Socket::open_with(server.connect(), path, &[&line]);
        let answer = socket.head().header("sec-websocket-extensions");
        assert_eq!(answer, expected, "{offer}");
        let answer = answer.unwrap_or("");
        let bits = answer
            .split("client_max_window_bits=")
            .nth(1)
            .map_or(15, |bits| {
                bits.split(';')
                    .next()
                    .and_then(|bits| bits.parse().ok())
                    .expect("a number")
            });
        Client {
            forgets: answer.contains("server_no_context_takeover"),
            compress: Compress::new_with_window_bits(Compression::best(), false, bits),
            decompress: Decompress::new(false),
            socket,
        }
    }

    fn packed(&mut self, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(message.len() + 100);
        let done = self
            .compress
            .compress_vec(message, &mut out, FlushCompress::Sync);
        done.expect("compresses");
        assert_eq!(out.split_off(out.len() - 4), [0, 0, 0xff, 0xff]);
        out
    }

    /// Returns the next message, and true if it was compressed.
    #[track_caller]
    fn next(&mut self) -> (Vec<u8>, bool) {
        let frame = self.socket.next_frame();
        assert_eq!(frame.first & 0x0c, 0, "a message in one frame");
        if frame.first & RSV1 == 0 {
            return (frame.payload, false);
        }
        let mut out = Vec::with_capacity(1 << 20);
        for part in [&frame.payload[..], &[0, 0, 0xff, 0xff]] {
            let done = self
                .decompress
                .decompress_vec(part, &mut out, FlushDecompress::Sync);
            done.expect("decompresses");
        }
        if self.forgets {
            self.decompress.reset(false);
        }
        (out, true)
    }
}

const NO_TAKEOVER: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

#[test]
fn messages_are_compressed_both_ways() {
    let server = start();
    let offer = "permessage-deflate; client_max_window_bits";
    for (path, expected) in [
        ("/deflate", NO_TAKEOVER),
        ("/takeover", "permessage-deflate"),
    ] {
        let mut client = Client::open(&server, path, offer, Some(expected));
        let mut sizes = Vec::new();
        for number in 0..5 {
            let message = format!(
                "{{\"number\":{number},{}}}",
                "\"word\":\"fermata\",".repeat(20)
            );
            let payload = client.packed(message.as_bytes());
            if expected == NO_TAKEOVER {
                client.compress.reset();
            }
            sizes.push(payload.len());
            client.socket.send(TEXT | RSV1, payload);
            assert_eq!(client.next(), (message.into_bytes(), true));
        }
        assert_eq!(sizes[1] < sizes[0] / 2, expected != NO_TAKEOVER);
    }
}

#[test]
fn large_messages_and_every_window() {
    let server = start();
    for bits in 9..=15 {
        let offer = format!(
            "permessage-deflate; server_max_window_bits={bits}; client_max_window_bits={bits}"
        );
        let expected = match bits {
            15 => "permessage-deflate; server_max_window_bits=15".into(),
            _ => offer.clone(),
        };
        let mut client = Client::open(&server, "/takeover", &offer, Some(&expected));
        // Decompressing with the negotiated window verifies that the server uses no larger window.
        client.decompress = Decompress::new_with_window_bits(false, bits);
        for seed in 0u32..4 {
            let message: Vec<u8> = (0..100_000u32)
                .map(|at| b"fermata holds this note "[((at / 7 * at + seed) % 24) as usize])
                .collect();
            let payload = client.packed(&message);
            client.socket.send(BINARY | RSV1, payload);
            let (echo, compressed) = client.next();
            assert!(compressed && echo == message, "{bits} bits");
        }
    }
}

#[test]
fn what_is_not_offered_is_not_agreed_on() {
    let server = start();
    for (path, offer, expected) in [
        ("/echo", "permessage-deflate", None),
        ("/deflate", "x-webkit-deflate-frame", None),
        ("/deflate", "permessage-deflate; unknown", None),
        (
            "/deflate",
            "permessage-deflate; server_max_window_bits=8",
            None,
        ),
        (
            "/deflate",
            "permessage-deflate; unknown, permessage-deflate",
            Some(NO_TAKEOVER),
        ),
        ("/deflate", "permessage-deflate", Some(NO_TAKEOVER)),
    ] {
        Client::open(&server, path, offer, expected);
    }
}

#[test]
fn small_and_incompressible_messages_are_sent_as_they_are() {
    let server = start();
    let mut client = Client::open(&server, "/deflate", "permessage-deflate", Some(NO_TAKEOVER));
    let mut state = 1u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    })
    .take(1000)
    .collect();
    for message in [&b""[..], b"short", &noise] {
        client.socket.send(BINARY, message);
        assert_eq!(client.next(), (message.to_vec(), false));
    }
}

#[test]
fn a_compressed_message_in_fragments_with_a_ping_between() {
    let server = start();
    let mut client = Client::open(
        &server,
        "/takeover",
        "permessage-deflate",
        Some("permessage-deflate"),
    );
    let message = b"in three parts ".repeat(50);
    let payload = client.packed(&message);
    let (first, rest) = payload.split_at(10);
    client.socket.send(0x02 | RSV1, first);
    client.socket.send(PING, b"?");
    client.socket.send(0x00, rest);
    client.socket.send(0x80, b"");
    assert_eq!(client.socket.next_frame().first, PONG);
    assert_eq!(client.next(), (message, true));
}

#[test]
fn what_is_no_compressed_message_is_refused() {
    let server = start();
    for (first, payload, code) in [
        (TEXT | RSV1, &b"\x06"[..], 1007),
        (TEXT | RSV1, b"never deflated", 1007),
        // A stored block with a byte that is not UTF-8.
        (TEXT | RSV1, b"\x00\x01\x00\xfe\xff\xff\x00", 1007),
        (0x80 | RSV1, b"", 1002),
        (PING | RSV1, b"", 1002),
    ] {
        let mut client = Client::open(&server, "/deflate", "permessage-deflate", Some(NO_TAKEOVER));
        client.socket.send(first, payload);
        client.socket.expect_close(code);
    }
}
