//! Tests of compressed messages, shared and per socket.

use fermata_proto::ws::Role;
use fermata_proto::ws::deflate::{Compressor, Context, Decompressor};
use fermata_proto::ws::extension::Agreed;
use fermata_proto::ws::frame::{Header, Parse, Reserved, Rules};
use fermata_proto::ws::message::Kind;
use proptest::prelude::*;

use super::sockets::{Client, handshake};
use super::*;

/// A client with negotiated compression.
pub struct Party {
    pub peer: FakePeer,
    context: Context,
    compressor: Compressor,
    decompressor: Decompressor,
    bytes: Vec<u8>,
    /// Bytes of received frames, and number of compressed messages.
    received: usize,
    pub compressed: usize,
}

impl Party {
    pub fn open(rig: &mut Rig, path: &str, offer: &str, takeover: bool) -> Party {
        let lines = format!("Sec-WebSocket-Extensions: {offer}\r\n");
        let peer = rig.peer(&handshake(path, &lines));
        let mut client = Client::new(peer.clone());
        let head = client.accepted();
        assert!(head.contains("permessage-deflate"), "{head}");
        assert_eq!(
            head.contains("server_no_context_takeover"),
            !takeover,
            "{head}"
        );
        let agreed = Agreed {
            server_no_context_takeover: !takeover,
            client_no_context_takeover: !takeover,
            server_max_window_bits: None,
            client_max_window_bits: None,
        };
        Party {
            peer,
            context: Context::new(Role::Client, &agreed),
            compressor: Compressor::new(6, 0),
            decompressor: Decompressor::new(),
            bytes: Vec::new(),
            received: 0,
            compressed: 0,
        }
    }

    fn send(&mut self, text: &str) {
        let mut out = Vec::new();
        let key = Some([9, 8, 7, 6]);
        self.compressor.write(
            &mut self.context,
            Kind::Text,
            text.as_bytes(),
            key,
            &mut out,
        );
        self.peer.write(&out);
    }

    pub fn texts(&mut self) -> Vec<String> {
        self.bytes.extend(self.peer.read());
        let rules = Rules {
            reserved: Reserved::RSV1,
            ..Rules::for_role(Role::Client, u64::MAX)
        };
        let mut texts = Vec::new();
        while let Ok(Parse::Complete {
            header,
            header_bytes,
        }) = Header::parse(&self.bytes, &rules)
        {
            let end = header_bytes + header.payload_len as usize;
            if end > self.bytes.len() {
                break;
            }
            let frame: Vec<u8> = self.bytes.drain(..end).collect();
            self.received += frame.len();
            let mut text = Vec::new();
            if header.reserved == Reserved::RSV1 {
                self.compressed += 1;
                let payload = &frame[header_bytes..];
                self.decompressor
                    .read(&mut self.context, Kind::Text, payload, 1 << 20, &mut text)
                    .expect("what the server compresses can be read");
            } else {
                text.extend_from_slice(&frame[header_bytes..]);
            }
            texts.push(String::from_utf8(text).expect("text"));
        }
        texts
    }
}

pub const OFFER: &str = "permessage-deflate; client_max_window_bits";

#[test]
fn messages_are_compressed_both_ways() {
    for (path, takeover) in [("/small", false), ("/smaller", true)] {
        let mut rig = Rig::new(1);
        let mut party = Party::open(&mut rig, path, OFFER, takeover);
        let texts: Vec<String> = (0..20)
            .map(|at| format!("the same words again and again, number {at}, the same words"))
            .collect();
        for text in &texts {
            party.send(text);
            rig.run();
        }
        assert_eq!(party.texts(), texts, "{path}");
        assert_eq!(party.compressed, 20);
    }
}

#[test]
fn compresses_only_if_client_and_route_agree() {
    let mut rig = Rig::new(2);
    let mut client = rig.socket("/small");
    assert!(!client.head.contains("Extensions"));
    client.peer.write(&super::sockets::text("plain"));
    rig.run();
    assert_eq!(client.texts(), ["plain"]);
    let lines = format!("Sec-WebSocket-Extensions: {OFFER}\r\n");
    let peer = rig.peer(&handshake("/ws", &lines));
    let mut client = Client::new(peer);
    assert!(!client.accepted().contains("Extensions"));
}

#[test]
fn sends_channel_messages_in_the_format_of_each_socket() {
    let mut rig = Rig::new(3);
    let mut shared: Vec<Party> = (0..3)
        .map(|_| Party::open(&mut rig, "/small", OFFER, false))
        .collect();
    let narrow = "permessage-deflate; server_max_window_bits=9";
    shared.push(Party::open(&mut rig, "/small", narrow, false));
    let mut alone = Party::open(&mut rig, "/smaller", OFFER, true);
    let mut plain = rig.socket("/ws");
    for party in shared.iter_mut().chain([&mut alone]) {
        party.send("/join room");
    }
    plain.peer.write(&super::sockets::text("/join room"));
    rig.run();
    assert_eq!(
        rig.worker.channels.local.channels(),
        3,
        "one log per way to compress"
    );
    let texts: Vec<String> = (0..30)
        .map(|at| format!("a longer message with words and words and words {at}").repeat(4))
        .collect();
    for text in &texts {
        rig.publish("room", text);
    }
    rig.run();
    for party in shared.iter_mut().chain([&mut alone]) {
        assert_eq!(party.texts(), texts);
        assert_eq!(party.compressed, 30);
    }
    assert_eq!(plain.texts(), texts);
    assert!(alone.received < shared[0].received);
}

#[test]
fn does_not_delay_others_for_a_client_far_behind() {
    let log_bytes_max = 64 * 1024;
    let mut rig = Rig::with(
        6,
        Settings {
            channel_log_bytes_max: log_bytes_max,
            ..settings()
        },
    );
    let mut party = Party::open(&mut rig, "/smaller", OFFER, true);
    let rooms: Vec<String> = (0..8).map(|at| format!("room{at}")).collect();
    for room in &rooms {
        party.send(&format!("/join {room}"));
    }
    rig.run();
    party.peer.set_window(0);
    let text = "some words ".repeat(360);
    for _ in 0..15 {
        for room in &rooms {
            rig.publish(room, &text);
        }
        rig.turn();
    }
    party.peer.set_window(1 << 24);
    rig.turn();
    rig.turn();
    let first: usize = party.texts().iter().map(String::len).sum();
    // The client is served twice per turn.
    let enough = 4 * (log_bytes_max + 32 * 1024);
    assert!(first <= enough, "{first} bytes in two turns");
    rig.run();
    let rest: usize = party.texts().iter().map(String::len).sum();
    assert_eq!(first + rest, 15 * 8 * text.len());
}

#[test]
fn spreads_highly_compressed_input_over_turns() {
    let mut rig = Rig::new(7);
    let mut party = Party::open(&mut rig, "/small", OFFER, false);
    let texts = vec!["0".repeat(600_000); 20];
    for text in &texts {
        party.send(text);
    }
    let (mut calls, mut most) = (rig.calls.len(), 0);
    while rig.calls.len() < 1 + texts.len() {
        rig.turn();
        most = most.max(rig.calls.len() - calls);
        calls = rig.calls.len();
    }
    assert!(most <= 2, "{most} messages in one turn");
    rig.run();
    assert_eq!(party.texts(), texts);
}

#[test]
fn closes_a_socket_that_sends_a_compression_bomb() {
    let mut rig = Rig::new(4);
    let mut party = Party::open(&mut rig, "/small", OFFER, false);
    party.send(&"0".repeat(2 << 20));
    rig.run();
    let bytes = party.peer.read();
    assert_eq!(bytes[0], 0x88);
    assert_eq!(bytes[2..4], 1009u16.to_be_bytes());
}

#[test]
fn rejects_invalid_compressed_data() {
    let mut rig = Rig::new(5);
    let party = Party::open(&mut rig, "/small", OFFER, false);
    let mut frame = super::sockets::text("\u{7f}\u{7f}\u{7f}\u{7f}");
    frame[0] |= 0x40;
    party.peer.write(&frame);
    rig.run();
    assert_eq!(party.peer.read()[2..4], 1007u16.to_be_bytes());
}

proptest! {
    #![proptest_config(cases(60))]

    /// With takeover, the context covers everything sent to a socket in order, from all sources.
    #[test]
    fn keeps_the_compression_context_in_order(
        seed: u64,
        steps in proptest::collection::vec((0..3u8, 0..400usize), 1..60),
        window in 20..3000usize,
    ) {
        let mut rig = Rig::new(seed);
        let mut party = Party::open(&mut rig, "/smaller", OFFER, true);
        party.send("/join room");
        rig.run();
        party.peer.set_window(window);
        let mut got = Vec::new();
        let mut sent = 0;
        for (way, len) in steps {
            let text = "some words ".repeat(1 + len / 11);
            match way {
                0 => party.send(&text),
                1 => { rig.publish("room", &text); }
                _ => {
                    let socket = rig.open[0];
                    rig.worker.send(socket, false, text.as_bytes()).expect("room in the queue");
                }
            }
            sent += 1;
            rig.run();
            got.extend(party.texts());
        }
        for _ in 0..200 {
            rig.run();
            got.extend(party.texts());
        }
        prop_assert_eq!(got.len(), sent);
        prop_assert!(got.iter().all(|text| text.starts_with("some words ")));
    }
}
