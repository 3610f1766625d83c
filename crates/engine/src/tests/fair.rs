//! Tests that a client with endless work gets only its share of a turn, whatever it sends or reads.
//! Other clients are served in between. The tests count turns and bytes, never time.

use fermata_config::Settings;
use fermata_io::sys::fake::FakePeer;
use fermata_proto::ws::frame::Opcode;

use super::client::answers;
use super::sockets::{handshake, masked, text};
use super::{Rig, get, post, settings};
use crate::http::body::{SPOOL_TURN_BYTES, TURN_BYTES_MAX};
use crate::net::READ_BYTES;
use crate::{Event, Read};

/// Maximum number of bytes of a client per turn: a read, a slice of a file, or reads of handlers. A
/// client is served at most twice per turn: for the rest of earlier input, and for new input.
const TURN_BYTES: usize = 2 * (1024 * 1024 + 4 * READ_BYTES);

/// Maximum requests or messages of one client per turn, plus the visitor's.
const TURN_EVENTS: usize = 2 * 128 + 1;

/// Number of turns until a visitor has its response: one accepts, one reads, one sends.
const VISIT_TURNS: usize = 3;

/// Several times the number of bytes that a turn transfers.
const LONG: usize = 8 * 1024 * 1024;

fn roomy() -> Settings {
    Settings {
        body_bytes_max: 1 << 30,
        body_memory_bytes_max: 1 << 30,
        queue_bytes_max: 1 << 30,
        websocket_queue_bytes_max: 1 << 30,
        websocket_message_bytes_max: 1 << 30,
        history_bytes_max: 1 << 20,
        ..settings()
    }
}

/// Runs until `greedy` has sent and read everything, with a visitor every few turns. `on_turn`
/// acts as the handlers.
#[track_caller]
fn others_pass(rig: &mut Rig, greedy: &FakePeer, mut on_turn: impl FnMut(&mut Rig)) {
    let mut turns = 0;
    let mut moved_last = usize::MAX;
    while moved_last > 0 {
        let visitor = rig.connect();
        visitor.write(&get("/hello"));
        moved_last = 0;
        for _ in 0..VISIT_TURNS {
            let unread = greedy.unread_bytes();
            let (requests, calls) = (rig.requests, rig.calls.len());
            rig.turn();
            on_turn(rig);
            let moved = unread - greedy.unread_bytes() + greedy.read().len();
            let events = rig.requests - requests + rig.calls.len() - calls;
            assert!(moved <= TURN_BYTES, "{moved} bytes in turn {turns}");
            assert!(events <= TURN_EVENTS, "{events} events in turn {turns}");
            moved_last += moved;
            turns += 1;
        }
        let answered = answers(&visitor.read(), &[]);
        assert_eq!(answered.len(), 1, "turn {turns}: the visitor still waits");
        visitor.close();
    }
    assert!(
        turns > 3 * VISIT_TURNS,
        "{turns} turns: all was done at once"
    );
}

/// Connects a client that sends all of `bytes`.
fn client(rig: &Rig, bytes: &[u8]) -> FakePeer {
    let peer = rig.connect();
    peer.set_window(1 << 30);
    peer.write(bytes);
    peer
}

/// Acts as a handler that reads its complete body and waits for pieces that have not arrived.
fn read_early(rig: &mut Rig) {
    while let Some(handle) = rig.late.pop_front() {
        rig.worker.defer(handle).expect("it is open");
        rig.arrived.push(handle);
    }
    for handle in std::mem::take(&mut rig.arrived) {
        let mut bytes = 0;
        loop {
            match rig
                .worker
                .read_body(handle, READ_BYTES)
                .expect("it is open")
            {
                Read::Piece => bytes += rig.worker.http.body_piece().len(),
                Read::Pending => break,
                Read::Last | Read::End => {
                    let none = std::iter::empty();
                    let answered = rig.worker.respond(handle, 200, None, none, b"done");
                    answered.expect("it is open");
                    break;
                }
            }
        }
        assert!(
            bytes <= TURN_BYTES_MAX + READ_BYTES,
            "{bytes} bytes at once"
        );
    }
}

fn chunked(path: &str, chunk: &str, bytes: usize) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = format!("{:x}\r\n{chunk}\r\n", chunk.len());
    let body = chunk.repeat(bytes / chunk.len());
    [head.as_bytes(), body.as_bytes(), b"0\r\n\r\n"].concat()
}

#[test]
fn a_handler_that_reads_an_endless_body() {
    let mut rig = Rig::with(1, roomy());
    let greedy = client(&rig, &post("/early", &"x".repeat(LONG)));
    others_pass(&mut rig, &greedy, read_early);

    let mut rig = Rig::with(2, roomy());
    let greedy = client(&rig, &chunked("/early", "x", LONG));
    others_pass(&mut rig, &greedy, read_early);
}

#[test]
fn reads_a_body_over_several_turns_to_its_end() {
    let mut rig = Rig::with(1, roomy());
    let body = "x".repeat(LONG);
    let peer = client(&rig, &[post("/early", &body), get("/hello")].concat());
    for _ in 0..1000 {
        rig.turn();
        read_early(&mut rig);
    }
    let statuses: Vec<u16> = answers(&peer.read(), &[])
        .iter()
        .map(|it| it.status)
        .collect();
    assert_eq!(statuses, [200, 200]);

    // The client disconnects while its handler waits for its turn.
    let peer = client(&rig, &post("/early", &body)[..LONG / 2]);
    while rig.late.is_empty() {
        rig.turn();
    }
    let handle = rig.late[0];
    read_early(&mut rig);
    peer.reset();
    rig.run();
    assert_eq!(rig.arrived, [handle], "whoever waits for the body is told");
    let mut left = (0..1000).map(|_| {
        rig.run();
        rig.worker.read_body(handle, READ_BYTES)
    });
    assert!(left.any(|read| read.is_err()));
}

#[test]
fn a_large_body_in_memory() {
    let mut rig = Rig::with(1, roomy());
    let greedy = client(&rig, &post("/late", &"x".repeat(LONG)));
    others_pass(&mut rig, &greedy, |_| {});

    let mut rig = Rig::with(2, roomy());
    let greedy = client(&rig, &chunked("/late", "xy", LONG));
    others_pass(&mut rig, &greedy, |_| {});
}

#[test]
fn pipelined_requests() {
    let mut rig = Rig::with(1, roomy());
    let greedy = client(&rig, &get("/hello").repeat(5_000));
    others_pass(&mut rig, &greedy, |_| {});
    // Files and refusals, which need no handler.
    let greedy = client(&rig, &get("/nothing").repeat(50_000));
    others_pass(&mut rig, &greedy, |_| {});
}

#[test]
fn bytes_that_nobody_reads() {
    let mut rig = Rig::with(1, roomy());
    let noise = vec![b'x'; LONG];
    let held = client(&rig, &[get("/hold/a"), noise.clone()].concat());
    others_pass(&mut rig, &held, |_| {});
    let refused = client(&rig, &[b"GET\r\n\r\n".to_vec(), noise].concat());
    others_pass(&mut rig, &refused, |_| {});
}

#[test]
fn messages_of_a_websocket() {
    for (path, frames) in [
        ("/ws", text("a message").repeat(20_000)),
        ("/ws", masked(Opcode::Ping, true, b"").repeat(100_000)),
        (
            "/ws",
            [
                masked(Opcode::Text, false, b"x"),
                masked(Opcode::Continuation, false, b"x").repeat(100_000),
            ]
            .concat(),
        ),
        ("/silent", masked(Opcode::Binary, true, &vec![1; LONG])),
        ("/silent", text("a message").repeat(100_000)),
    ] {
        let mut rig = Rig::with(1, roomy());
        let greedy = client(&rig, &[handshake(path, ""), frames].concat());
        others_pass(&mut rig, &greedy, |_| {});
    }
}

#[test]
fn limits_files_and_replays_per_turn() {
    let mut rig = Rig::with(1, roomy());
    let greedy = client(&rig, &get("/files/huge.bin").repeat(3));
    others_pass(&mut rig, &greedy, |_| {});

    let first = rig.publish("a", "first");
    for number in 0..400 {
        rig.publish("a", &format!("{number:02000}"));
    }
    rig.run();
    let lines = format!("GET /hold/a HTTP/1.1\r\nHost: t\r\nLast-Event-ID: {first}\r\n\r\n");
    let greedy = client(&rig, lines.as_bytes());
    let mut most = 0;
    for _ in 0..100 {
        rig.turn();
        most = most.max(greedy.read().len());
    }
    assert!(most < 400_000, "{most} bytes of a replay in one turn");
}

#[test]
fn a_stream_that_never_ends() {
    let mut rig = Rig::with(1, roomy());
    let greedy = client(&rig, &get("/late"));
    rig.run();
    let handle = rig.late.pop_front().expect("it was handed out");
    let none = std::iter::empty();
    let begun = rig.worker.begin_stream(handle, 200, None, none, None, b"");
    begun.expect("it is open");
    let mut asked = 0;
    for _ in 0..50 {
        let before = asked;
        loop {
            rig.worker.begin_poll();
            match rig.worker.poll_event() {
                Some(Event::Stream(_)) => {
                    asked += 1;
                    let given = rig.worker.net.write_stream(handle, &[b'x'; 10_000]);
                    given.expect("it is open");
                }
                Some(_) => {}
                None => break,
            }
        }
        let _ = greedy.read();
        assert!(asked - before <= 1, "{} pieces in one turn", asked - before);
    }
    assert!(asked > 10, "{asked} pieces");
}

#[test]
fn gives_each_upload_a_turn() {
    const UPLOADS: usize = 50;
    let mut settings = roomy();
    settings.body_memory_bytes_max = 4096;
    let mut rig = Rig::with(1, settings);
    let body = "x".repeat(LONG / 2);
    let clients: Vec<FakePeer> = (0..UPLOADS)
        .map(|_| client(&rig, &post("/echo", &body)))
        .collect();
    let left = || {
        clients
            .iter()
            .map(FakePeer::unread_bytes)
            .collect::<Vec<_>>()
    };
    for _ in 0..3 {
        rig.turn();
    }
    // Number of reads that fit into one turn.
    let served = SPOOL_TURN_BYTES as usize / READ_BYTES;
    for round in 0..5 {
        let before = left();
        for _ in 0..2 * UPLOADS.div_ceil(served) {
            rig.turn();
        }
        let waits = left()
            .iter()
            .zip(&before)
            .filter(|(now, then)| now == then)
            .count();
        assert_eq!(
            waits, 0,
            "{waits} of {UPLOADS} uploads stood still in round {round}"
        );
    }
}
