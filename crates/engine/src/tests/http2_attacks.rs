//! Tests of HTTP/2 clients that cause the server more work than themselves. Each client is closed
//! with an error and counted; other clients are served at the same time.

use fermata_config::Settings;
use fermata_io::sys::fake::FakePeer;
use fermata_proto::http2::frame::{self, Header, Kind, flag};
use fermata_proto::http2::{ErrorCode, Limits};

use super::http2::{Client, check_empty, ok, on};
use super::{Rig, get};
use crate::admin::stats::Counter;

/// `GET /hello` of the authority `a`, without the end of the head.
const GET: [u8; 12] = [
    0x82, 0x86, 0x04, 6, b'/', b'h', b'e', b'l', b'l', b'o', 0x01, 1,
];

/// Stream that is opened before the repeated frames, which refer to it.
const STREAM: u32 = 1;

fn head() -> Vec<u8> {
    [&GET[..], b"a"].concat()
}

fn bytes(frames: &[(Kind, u8, u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(kind, flags, stream, payload) in frames {
        frame::write(&mut out, kind, flags, stream, payload);
    }
    out
}

/// A client that writes arbitrary bytes.
struct Attacker {
    peer: FakePeer,
    received: Vec<u8>,
}

impl Attacker {
    fn new(rig: &Rig) -> Attacker {
        let peer = rig.connect();
        peer.write(frame::PREFACE);
        peer.write(&bytes(&[(Kind::Settings, 0, 0, &[])]));
        Attacker {
            peer,
            received: Vec::new(),
        }
    }

    /// Returns the received frames.
    fn frames(&mut self) -> Vec<(Header, Vec<u8>)> {
        self.received.extend(self.peer.read());
        let mut frames = Vec::new();
        let mut rest = &self.received[..];
        while let Some((header, behind)) = rest.split_first_chunk() {
            let header = Header::parse(header);
            let (payload, behind) = behind.split_at(header.len as usize);
            frames.push((header, payload.to_vec()));
            rest = behind;
        }
        frames
    }

    fn has(&mut self, kind: Kind) -> usize {
        let frames = self.frames();
        let of_kind = frames.iter().filter(|(it, _)| it.kind == kind as u8);
        of_kind.count()
    }

    /// Returns the error code with which the server closed the connection.
    fn go_away(&mut self) -> Option<ErrorCode> {
        let frames = self.frames();
        let (_, payload) = frames
            .iter()
            .find(|(it, _)| it.kind == Kind::GoAway as u8)?;
        let code = payload[4..8].try_into().expect("four bytes");
        Some(ErrorCode(u32::from_be_bytes(code)))
    }
}

/// Writes `attack` for successive stream numbers until the connection is closed, or `times` is
/// reached. After each write, another client is served. Returns the number of writes.
fn attack(
    rig: &mut Rig,
    attacker: &mut Attacker,
    times: u32,
    mut attack: impl FnMut(u32) -> Vec<u8>,
) -> u32 {
    let mut normal = Client::new(rig);
    for time in 0..times {
        attacker.peer.write(&attack(STREAM + 2 + 2 * time));
        let hello = normal.get("/hello");
        normal.run(rig);
        assert_eq!(normal.whole(hello), ok("hello"), "in round {time}");
        if attacker.go_away().is_some() {
            return time + 1;
        }
    }
    times
}

/// Frames permitted beyond the limits because of the first request's HEADERS.
const HEAD_CREDIT: u32 = 4;

/// Asserts that a client is closed and counted in `counter` at write `borne` plus 1.
#[track_caller]
fn check_flood(counter: Counter, borne: u32, what: impl FnMut(u32) -> Vec<u8>) {
    let low = Settings {
        http2_resets_per_second_max: 1,
        http2_pings_per_second_max: 20,
        http2_settings_per_second_max: 20,
        http2_empty_data_per_second_max: 20,
        http2_window_updates_per_second_max: 20,
        http2_priorities_per_second_max: 20,
        http2_unknown_frames_per_second_max: 20,
        http2_continuations_max: 20,
        ..on()
    };
    let mut rig = Rig::with(1, low);
    let mut attacker = Attacker::new(&rig);
    // A request with an unfinished body.
    attacker.peer.write(&bytes(&[(
        Kind::Headers,
        flag::END_HEADERS,
        STREAM,
        &head(),
    )]));
    rig.run();
    let written = attack(&mut rig, &mut attacker, borne + 10, what);
    assert_eq!(written, borne + 1);
    assert_eq!(attacker.go_away(), Some(ErrorCode::ENHANCE_YOUR_CALM));
    assert_eq!(rig.worker.net.counts.get(counter), 1);
    assert_eq!(rig.worker.net.counts.get(Counter::Http2Violations), 0);
    rig.advance(3_000);
    rig.run();
    assert_eq!(rig.worker.net.sockets_len(), 1, "the other one stays");
    check_empty(&rig);
}

const WHOLE: u8 = flag::END_HEADERS | flag::END_STREAM;

/// CVE-2023-44487.
#[test]
fn rapid_reset() {
    check_flood(Counter::Http2FloodResets, 30, |stream| {
        let code = 8_u32.to_be_bytes();
        bytes(&[
            (Kind::Headers, WHOLE, stream, &head()),
            (Kind::RstStream, 0, stream, &code),
        ])
    });
}

/// CVE-2025-8671.
#[test]
fn made_you_reset() {
    check_flood(Counter::Http2FloodResetsCaused, 30, |stream| {
        bytes(&[
            (Kind::Headers, flag::END_HEADERS, stream, &head()),
            (Kind::WindowUpdate, 0, stream, &[0; 4]),
        ])
    });
}

/// Requests of one read that are reset or refused are limited per turn like pipelined HTTP/1
/// requests.
#[test]
fn limits_reset_streams_per_turn() {
    const ATTACKS: usize = 600;
    let many = Settings {
        http2_resets_per_second_max: 1_000,
        ..on()
    };
    let reset: fn(u32) -> Vec<u8> = |stream| {
        bytes(&[
            (Kind::Headers, flag::END_HEADERS, stream, &head()),
            (Kind::WindowUpdate, 0, stream, &[0; 4]),
        ])
    };
    // A header name in upper case.
    let refused: fn(u32) -> Vec<u8> = |stream| {
        let block = [&head()[..], &[0, 1, b'A', 1, b'b']].concat();
        bytes(&[(Kind::Headers, WHOLE, stream, &block)])
    };
    for what in [reset, refused] {
        let mut rig = Rig::with(1, many.clone());
        let mut attacker = Attacker::new(&rig);
        rig.run();
        let all = (0..ATTACKS as u32).map(|nth| what(STREAM + 2 * nth));
        attacker.peer.write(&all.collect::<Vec<_>>().concat());
        let (mut taken, mut turns) = (0, 0);
        while taken < ATTACKS {
            rig.turn();
            turns += 1;
            let now = attacker.has(Kind::RstStream);
            assert!(now - taken <= 128, "{} in turn {turns}", now - taken);
            taken = now;
            assert!(turns < ATTACKS, "{taken} were taken");
        }
        assert_eq!(attacker.go_away(), None);
        drop(attacker);
        rig.run();
        check_empty(&rig);
    }
}

#[test]
fn frames_without_work_in_them() {
    check_flood(Counter::Http2FloodPings, 20 + HEAD_CREDIT, |_| {
        bytes(&[(Kind::Ping, 0, 0, &[0; 8])])
    });
    // One SETTINGS frame was part of the preface.
    check_flood(Counter::Http2FloodSettings, 19, |_| {
        bytes(&[(Kind::Settings, 0, 0, &[])])
    });
    check_flood(Counter::Http2FloodEmptyData, 20 + HEAD_CREDIT, |_| {
        bytes(&[(Kind::Data, 0, STREAM, &[])])
    });
    check_flood(Counter::Http2FloodUnknownFrames, 40 + HEAD_CREDIT, |_| {
        b"\0\0\0\xfa\0\0\0\0\0".to_vec()
    });
}

#[test]
fn windows_that_are_opened_bit_by_bit() {
    check_flood(
        Counter::Http2FloodConnectionWindowUpdates,
        4 + HEAD_CREDIT,
        |_| bytes(&[(Kind::WindowUpdate, 0, 0, &[0, 0, 0, 1])]),
    );
    // The first of a stream is free.
    check_flood(
        Counter::Http2FloodStreamWindowUpdates,
        41 + HEAD_CREDIT,
        |_| bytes(&[(Kind::WindowUpdate, 0, STREAM, &[0, 0, 0, 1])]),
    );
}

#[test]
fn priorities_that_change_all_the_time() {
    check_flood(Counter::Http2FloodPriorities, 40 + HEAD_CREDIT, |_| {
        bytes(&[(Kind::PriorityUpdate, 0, 0, b"\0\0\0\x01u=1")])
    });
    check_flood(Counter::Http2FloodPriorities, 40 + HEAD_CREDIT, |_| {
        bytes(&[(Kind::Priority, 0, STREAM, &[0, 0, 0, 0, 9])])
    });
}

/// CVE-2024-27316.
#[test]
fn header_blocks_without_an_end() {
    let mut begun = false;
    check_flood(Counter::Http2FloodContinuations, 20, |stream| {
        let begin = if std::mem::replace(&mut begun, true) {
            Vec::new()
        } else {
            bytes(&[(Kind::Headers, 0, stream, &head())])
        };
        [
            begin,
            bytes(&[(Kind::Continuation, 0, STREAM + 2, b"\0\x01a\x01b")]),
        ]
        .concat()
    });
}

/// One large table entry, referred to thousands of times with one byte each: each request is
/// refused, and memory is limited.
#[test]
fn heads_that_become_large_when_they_are_decoded() {
    let mut rig = Rig::with(1, on());
    let mut attacker = Attacker::new(&rig);
    let mut entry = head();
    entry.extend_from_slice(&[0x40, 1, b'x', 127, 0x81, 0x1e]);
    entry.extend([b'v'; 127 + 0x1e * 128 + 1]);
    attacker
        .peer
        .write(&bytes(&[(Kind::Headers, WHOLE, STREAM, &entry)]));
    rig.run();
    let bomb = [head(), vec![0xbe; 16_000]].concat();
    let crumbs = [head(), b"\x60\x01c".to_vec(), vec![0xbe; 200]].concat();
    for block in [bomb, crumbs] {
        let before = attacker.has(Kind::Headers);
        let written = attack(&mut rig, &mut attacker, 50, |stream| {
            let stream = stream + 2 * before as u32;
            bytes(&[(Kind::Headers, WHOLE, stream, &block)])
        });
        assert_eq!((written, attacker.go_away()), (50, None));
        assert_eq!(attacker.has(Kind::Headers) - before, 50);
    }
    assert_eq!(rig.worker.net.counts.get(Counter::Refused431), 100);
    check_empty(&rig);
}

/// CVE-2026-49975, with trailers.
#[test]
fn counts_trailers_as_headers() {
    let mut rig = Rig::with(1, on());
    let mut attacker = Attacker::new(&rig);
    let mut trailers = b"\x40\x01c\x01d".to_vec();
    trailers.extend([0xbe; 200]);
    attacker.peer.write(&bytes(&[
        (Kind::Headers, flag::END_HEADERS, STREAM, &head()),
        (Kind::Headers, WHOLE, STREAM, &trailers),
    ]));
    rig.run();
    // The request is reset, which counts as a reset caused by the client.
    let frames = attacker.frames();
    let reset = frames
        .iter()
        .find(|(it, _)| it.kind == Kind::RstStream as u8);
    let code = reset.map(|(_, payload)| payload.clone());
    let calm = ErrorCode::ENHANCE_YOUR_CALM.0.to_be_bytes();
    assert_eq!(code, Some(calm.to_vec()));
    check_empty(&rig);
}

/// Responses of which the client never reads anything.
#[test]
fn windows_that_stay_shut() {
    let mut rig = Rig::with(1, on());
    let mut attacker = Attacker::new(&rig);
    attacker
        .peer
        .write(&bytes(&[(Kind::Settings, 0, 0, b"\0\x04\0\0\0\0")]));
    let requests: Vec<u8> = (0..100)
        .flat_map(|at| bytes(&[(Kind::Headers, WHOLE, STREAM + 2 * at, &head())]))
        .collect();
    attacker.peer.write(&requests);
    rig.run();
    attacker
        .peer
        .write(&bytes(&[(Kind::Settings, flag::ACK, 0, &[])]));
    rig.run();
    assert_eq!(rig.worker.net.http2.streams_len(), 100);
    let mut normal = Client::new(&rig);
    for _ in 0..40 {
        rig.advance(1_000);
        let hello = normal.get("/hello");
        normal.run(&mut rig);
        assert_eq!(normal.whole(hello), ok("hello"));
    }
    assert_eq!(attacker.has(Kind::RstStream), 100);
    assert_eq!(rig.worker.net.counts.get(Counter::DroppedWriteTimeout), 100);
    check_empty(&rig);
}

/// The limit of an address covers the streams of all its connections.
#[test]
fn limits_streams_per_address() {
    let few = Settings {
        streams_per_address_max: 3,
        ..on()
    };
    let mut rig = Rig::with(1, few);
    check_address(&mut rig);
}

/// A hundred streams cost as much as a hundred connections.
#[test]
fn applies_the_connection_limit_to_streams() {
    let few = Settings {
        connections_per_address_max: 3,
        ..on()
    };
    let mut rig = Rig::with(1, few);
    check_address(&mut rig);
}

/// Asserts that an address may have three streams.
fn check_address(rig: &mut Rig) {
    let mut one = Client::with(rig, Limits::default());
    let mut two = Client::new(rig);
    one.run(rig);
    let held = [one.get("/hold/a"), one.get("/hold/a"), one.get("/hold/a")];
    one.run(rig);
    assert!(held.iter().all(|it| one.answer(*it).status == 200));
    // The client receives the limit in SETTINGS, and sends no more requests over one connection.
    assert_eq!(one.machine.room(), 0);
    let more = two.get("/hello");
    two.run(rig);
    assert_eq!(two.whole(more).0, 429);
    assert_eq!(
        rig.worker.net.counts.get(Counter::Http2RefusedPerAddress),
        1
    );
    let (machine, out) = (&mut one.machine, &mut one.out);
    machine.reset(held[0], ErrorCode::CANCEL, out);
    machine.release(held[0], &Limits::default(), out);
    one.run(rig);
    let again = one.get("/hello");
    one.run(rig);
    assert_eq!(one.whole(again), ok("hello"));
    two.peer.close();
    rig.run();
    // HTTP/1 requests are not counted.
    let plain = rig.peer(&get("/hello"));
    assert!(plain.read().starts_with(b"HTTP/1.1 200"));
    one.peer.close();
    rig.run();
    assert!(rig.worker.net.http2.addresses_len() == 0);
}
