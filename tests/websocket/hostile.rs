//! Malicious clients: memory stays bounded and other clients are served.

use std::time::Duration;

use fermata_testkit::websocket::{Item, PING, PONG, Socket, frame};
use fermata_testkit::{Target, wait_until};
use fermata_tests::fixture;

use crate::{open, start, worker_memory};

/// Returns a client with a small receive buffer, so that the server soon detects that it does not
/// read.
fn slow(server: &fermata_testkit::Server, path: &str) -> Socket {
    let target = Target {
        address: server.address(),
        source: None,
        receive_bytes: Some(4096),
    };
    Socket::open(target.connect().expect("a connection"), path)
}

#[test]
fn a_flood_of_pings_is_answered_within_bounds() {
    let server = start();
    let mut other = open(&server, "/echo");
    let before = worker_memory(&server);
    let mut flooder = slow(&server, "/echo");
    let flood = frame(PING, &[b'x'; 125]).repeat(100_000);
    // The client reads nothing, so at some point the server stops reading from it.
    let sending = flooder.connection().send_in_background(flood);
    for _ in 0..100 {
        other.text("served");
        assert_eq!(other.next_text(), "served");
    }
    let grown = worker_memory(&server).saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes for a flood of pings");
    // When the client reads, it receives at least one pong.
    assert_eq!(flooder.next_frame().first, PONG);
    while !sending.is_finished() {
        let _ = flooder.try_next(Duration::from_millis(20));
    }
    let _ = sending.join().expect("no panic");
}

#[test]
fn a_client_that_never_reads_while_10_000_messages_are_published() {
    let server = start();
    let mut lazy = slow(&server, "/rooms/busy");
    assert_eq!(lazy.next_text(), "joined");
    let mut keen = open(&server, "/rooms/busy");
    assert_eq!(keen.next_text(), "joined");
    let before = worker_memory(&server);
    for _ in 0..10 {
        let target = "/burst/busy?count=1000&bytes=1000";
        assert_eq!(server.connect().post(target, b"").status(), 204);
        for number in 0..1000 {
            assert!(keen.next_text().starts_with(&format!("{number} ")));
        }
    }
    let grown = worker_memory(&server).saturating_sub(before);
    assert!(
        grown < 16 << 20,
        "{grown} bytes for one client that does not read"
    );
    // The client is closed, or receives at most as many bytes as the limits allow.
    let mut got = 0;
    while let Some(Item::Frame(frame)) = lazy.try_next(Duration::from_secs(5)) {
        got += frame.payload.len();
        assert!(got <= 10_000_000);
        if frame.first == PING || frame.close_code().is_some() {
            break;
        }
    }
}

#[test]
fn queue_policies() {
    let server = fixture("websocket")
        .workers(1)
        .setting("write_timeout_ms", 1000)
        .start();
    // More than kernel and queue can hold.
    let burst = "burst 200 65536";

    // A client that finally reads receives the queued messages and the reason for the close.
    let mut closed = slow(&server, "/does/close");
    closed.text(burst);
    server.log().wait_for(0, "refused at");
    let mut got = 0;
    while closed.next_frame().close_code() != Some(1013) {
        got += 1;
    }
    assert!(got > 0 && got < 200, "{got}");
    // A client that never reads is disconnected.
    let from = server.log().len();
    let mut deaf = slow(&server, "/does/close");
    deaf.text(burst);
    server.log().wait_for(from, "closed 10");

    let from = server.log().len();
    let mut refused = slow(&server, "/does/refuse");
    refused.text(burst);
    server.log().wait_for(from, "refused at");
    assert!(refused.next_text().starts_with("0 "));

    let mut dropped = slow(&server, "/does/drop-oldest");
    dropped.text(burst);
    // Whatever was dropped, order is kept and the newest messages arrive.
    let mut last = None;
    while last != Some(199) {
        let text = dropped.next_text();
        let number = text
            .split(' ')
            .next()
            .and_then(|number| number.parse::<u32>().ok());
        assert!(number > last, "{last:?} before {number:?}");
        last = number;
    }
}

#[test]
fn half_open_peers_are_given_up() {
    let server = start();
    let mut gone: Vec<_> = (0..200).map(|_| open(&server, "/watched")).collect();
    // No client responds to pings. The server closes all of them, including the last one.
    wait_until("all are closed", || {
        let closed = server.log().text().matches("closed 1006").count();
        (closed == 200).then_some(())
    });
    for socket in &mut gone {
        while let Some(item) = socket.try_next(Duration::from_secs(5)) {
            if matches!(item, Item::End(_)) {
                break;
            }
        }
    }
    let mut other = open(&server, "/echo");
    other.text("room again");
    assert_eq!(other.next_text(), "room again");
}

#[test]
fn one_byte_reads_and_writes() {
    let server = start();
    let mut socket = slow(&server, "/echo");
    for byte in frame(0x81, "dripping ü".as_bytes()) {
        socket.connection().send([byte]);
    }
    assert_eq!(socket.next_text(), "dripping ü");
}

#[test]
fn unfinished_messages_of_many_clients_hold_only_what_has_come() {
    let server = fixture("websocket").workers(1).start();
    let before = worker_memory(&server);
    let mut sockets: Vec<_> = (0..300).map(|_| open(&server, "/echo")).collect();
    for socket in &mut sockets {
        socket.send(0x01, [b'a'; 1000]);
    }
    let mut other = open(&server, "/echo");
    other.text("served");
    assert_eq!(other.next_text(), "served");
    let grown = worker_memory(&server).saturating_sub(before);
    assert!(
        grown < 8 << 20,
        "{grown} bytes for 300 beginnings of 1,000 bytes"
    );
}
