//! Tests of limits: queues, buffers, connections, addresses, descriptors.

use std::net::Ipv4Addr;

use fermata_io::Peer;
use fermata_io::sys::fake::End;

use super::client::answers;
use super::{Rig, get, post, settings};
use crate::http::body::SPOOL_TURN_BYTES;
use crate::http::exchange::{Exchange, Stage};
use crate::net::READ_BYTES;
use crate::net::connection::Connection;
use crate::net::index::ConnectionIndex;

/// Returns all connections.
fn connections(rig: &Rig) -> Vec<(&Connection, &Exchange)> {
    rig.worker.net.connections.iter().collect()
}

#[test]
fn exceeds_the_queue_limit_by_at_most_one_response() {
    let mut settings = settings();
    settings.queue_bytes_max = 4096;
    let mut rig = Rig::with(1, settings);
    let peer = rig.connect();
    peer.set_window(0);
    for _ in 0..3000 {
        peer.write(&get("/big/3000"));
        rig.turn();
        let longest = connections(&rig).iter().map(|it| it.0.unsent()).max();
        assert!(longest.unwrap_or(0) <= 4096 + 3200);
    }
    rig.run();
    assert!(rig.requests < 10, "{} requests were taken", rig.requests);
    assert!(peer.unread_bytes() > 0, "the rest waits in the kernel");
    let inbox = connections(&rig)[0].0.inbox.len();
    assert!(inbox <= 16384 + READ_BYTES, "{inbox} bytes in the inbox");
    peer.set_window(1 << 20);
    let mut got = Vec::new();
    for _ in 0..3000 {
        rig.run();
        got.extend(peer.read());
    }
    assert_eq!(answers(&got, &[]).len(), 3000);
}

#[test]
fn bounds_the_queue_of_a_client_that_is_always_slightly_behind() {
    let mut rig = Rig::new(1);
    let peer = rig.connect();
    peer.set_window(4_000);
    peer.write(&get("/big/20000"));
    rig.run();
    let mut got = Vec::new();
    for _ in 0..500 {
        peer.write(&get("/big/4000"));
        rig.turn();
        got.extend(peer.read());
        rig.turn();
        let all = connections(&rig);
        let queued = all[0].0.out.len();
        assert!(
            all[0].0.unsent() > 0,
            "the test is about a queue that is never empty"
        );
        assert!(queued < 200_000, "{queued} bytes queued");
    }
    peer.set_window(1 << 20);
    rig.run();
    got.extend(peer.read());
    let answers = answers(&got, &[]);
    assert_eq!(answers.len(), 501);
    assert!(answers.iter().all(|it| it.is_whole));
}

#[test]
fn idle_and_held_connections_have_no_buffers() {
    let mut rig = Rig::new(1);
    let _fresh = rig.peer(b"");
    let _idle = rig.peer(&get("/hello"));
    let after_body = rig.peer(&post("/echo", &"x".repeat(200_000)));
    after_body.set_window(1 << 20);
    let _held = rig.peer(&get("/hold/a"));
    let talks = rig.peer(&get("/hold/b"));
    // The client is held and sends data.
    talks.write(&[b'x'; 50_000]);
    let mut pipelined = get("/hold/c");
    pipelined.extend(get("/hello"));
    let _pipelined = rig.peer(&pipelined);
    rig.run();
    rig.publish("a", "news");
    rig.run();
    let all = connections(&rig);
    assert_eq!(all.len(), 6);
    for (connection, exchange) in all {
        assert_eq!(connection.out.capacity(), 0);
        assert_eq!(connection.inbox.capacity(), 0);
        assert!(!matches!(exchange.stage, Stage::Body(_)) && exchange.body.is_none());
    }
}

#[test]
fn shares_buffers_among_a_thousand_keep_alives_and_ends() {
    let mut rig = Rig::new(1);
    let peers: Vec<_> = (0..1000).map(|_| rig.connect()).collect();
    for peer in &peers {
        peer.write(&get("/hold/a?keep=5000"));
    }
    rig.run();
    for peer in &peers {
        let _ = peer.read();
    }
    let kept = rig.worker.net.pool.kept();
    rig.advance(5_100);
    assert!(
        peers
            .iter()
            .all(|peer| peer.read().ends_with(b": \n\n\r\n"))
    );
    assert!(rig.worker.net.pool.kept() <= kept.max(2));
    rig.worker.begin_drain(false);
    assert!(rig.worker.net.pool.kept() <= kept.max(2));
    rig.run();
    assert!(peers.iter().all(|peer| peer.read().ends_with(b"0\r\n\r\n")));
}

#[test]
fn sleeps_while_statistics_are_watched() {
    let mut rig = Rig::new(1);
    let _held = rig.peer(&get("/hold/a?keep=0"));
    let now_ms = rig.worker.net.now_ms();
    rig.worker.reporter.watch(now_ms, &[]);
    rig.worker.report();
    // The steps are coprime to the intervals of counters and lists.
    for step in 0..100 {
        rig.publish("a", "news");
        rig.run();
        assert_ne!(rig.worker.sleep_ms(), Some(0), "in step {step}");
        rig.fake.advance(37);
    }
}

#[test]
fn frees_the_buffer_of_a_large_body() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&post("/echo", &"x".repeat(1_000_000)));
    assert!(!peer.read().is_empty());
    rig.run();
    assert!(rig.worker.http.request.body_bytes.capacity() <= READ_BYTES);
}

#[test]
fn connections_over_the_limit_are_answered_503() {
    let mut settings = settings();
    settings.connections_max = 3;
    let mut rig = Rig::with(1, settings);
    let peers: Vec<_> = (0..3).map(|_| rig.peer(&get("/hello"))).collect();
    let refused = rig.peer(&get("/hello"));
    assert_eq!(answers(&refused.read(), &[])[0].status, 503);
    assert_eq!(
        refused.end(),
        End::Finished,
        "not reset: the answer arrives"
    );
    peers[0].close();
    rig.run();
    let peer = rig.peer(&get("/hello"));
    assert_eq!(answers(&peer.read(), &[])[0].status, 200);
}

#[test]
fn counts_connections_per_address_on_every_close() {
    let mut settings = settings();
    settings.connections_per_address_max = 2;
    let mut rig = Rig::with(1, settings);
    let address = |last| Peer::V4(Ipv4Addr::new(198, 51, 100, last), 4000);
    for round in 0..20 {
        let first = rig.fake.connect_from(rig.listener, address(1));
        let second = rig.fake.connect_from(rig.listener, address(1));
        let third = rig.fake.connect_from(rig.listener, address(1));
        let other = rig.fake.connect_from(rig.listener, address(2));
        for peer in [&first, &second, &third, &other] {
            peer.write(&get("/hello"));
        }
        rig.run();
        let status = |peer: &fermata_io::sys::fake::FakePeer| answers(&peer.read(), &[])[0].status;
        assert_eq!(status(&first), 200, "round {round}");
        assert_eq!(status(&second), 200);
        assert_eq!(status(&third), 429);
        assert_eq!(status(&other), 200);
        match round % 4 {
            0 => first.close(),
            1 => first.reset(),
            2 => first.write(b"GARBAGE\n"),
            _ => first.write(b"GET /hello HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"),
        }
        second.close();
        other.close();
        rig.run();
        first.close();
        rig.run();
        assert!(rig.worker.net.addresses.is_empty(), "round {round}");
    }
}

#[test]
fn pauses_accepting_without_descriptors() {
    let mut rig = Rig::new(1);
    rig.fake.set_streams_max(2);
    let peers: Vec<_> = (0..5).map(|_| rig.connect()).collect();
    rig.run();
    let before = rig.fake.calls();
    rig.advance(2_000);
    let after = rig.fake.calls();
    assert!(
        after.accepts - before.accepts <= 25,
        "it tries ten times a second"
    );
    // Waiting clients are served after descriptors become available.
    peers[0].close();
    peers[1].close();
    rig.fake.set_streams_max(100);
    for peer in &peers[2..] {
        peer.write(&get("/hello"));
    }
    rig.advance(300);
    for peer in &peers[2..] {
        assert_eq!(answers(&peer.read(), &[])[0].status, 200);
    }
    // A drain while accepting is paused stops as usual.
    rig.fake.set_streams_max(3);
    let _waiting = rig.connect();
    rig.run();
    rig.worker.begin_drain(false);
    rig.advance(3_000);
    assert!(rig.is_stopped);
}

#[test]
fn isolates_a_reused_index_from_its_former_owner() {
    let mut rig = Rig::new(1);
    // In one turn the old owner is listed as dirty, again and ready, and is closed.
    let old = rig.peer(&get("/hold/a?user=old"));
    let _ = old.read();
    rig.publish("a", "for the old one");
    old.write(b"ignored");
    old.reset();
    rig.worker.net.mark_dirty(ConnectionIndex(0));
    rig.worker.net.go_on(ConnectionIndex(0));
    let crate::Worker { net, http, .. } = &mut rig.worker;
    net.close(http, ConnectionIndex(0));
    rig.worker.after_output();
    let new = rig.connect();
    new.write(b"GET /hel");
    rig.run();
    assert_eq!(rig.worker.net.connections.indexes(), [ConnectionIndex(0)]);
    assert_eq!(new.read(), b"");
    new.write(b"lo HTTP/1.1\r\nHost: t\r\n\r\n");
    rig.run();
    assert_eq!(answers(&new.read(), &[])[0].body, b"hello");
    let held = rig.peer(&get("/hold/a"));
    rig.run();
    assert_eq!(super::client::data(&held.read()), [""; 0]);
}

#[test]
fn sleeps_while_idle() {
    let mut rig = Rig::new(1);
    let _idle: Vec<_> = (0..50).map(|_| rig.peer(&get("/hello"))).collect();
    let _held: Vec<_> = (0..50).map(|_| rig.peer(&get("/hold/a?keep=0"))).collect();
    rig.run();
    rig.fake.set_auto_advance(true);
    let before = rig.fake.calls();
    let start_ms = rig.fake.clock_ms();
    while rig.fake.clock_ms() < start_ms + 60_000 {
        rig.turn();
    }
    let waits = rig.fake.calls().waits - before.waits;
    assert!(waits < 50, "{waits} wake-ups in a minute of silence");
}

#[test]
fn limits_upload_writes_per_turn() {
    const UPLOADS: usize = 60;
    const BODY_BYTES: usize = 200_000;
    let mut settings = settings();
    settings.body_bytes_max = 1 << 30;
    settings.body_memory_bytes_max = 4096;
    let mut rig = Rig::with(1, settings);
    let written = |rig: &Rig| -> u64 {
        let all = connections(rig);
        let spooled = all.iter().map(|it| match &it.1.stage {
            Stage::Body(partial) => partial.spooled(),
            _ => 0,
        });
        spooled.sum::<u64>() + (rig.requests * BODY_BYTES) as u64
    };
    let clients: Vec<_> = (0..UPLOADS)
        .map(|_| {
            let peer = rig.connect();
            peer.write(&post("/echo", &"x".repeat(BODY_BYTES)));
            peer
        })
        .collect();
    let (mut turns, mut before, mut most) = (0, 0, 0);
    while rig.requests < UPLOADS && turns < 10_000 {
        rig.turn();
        let now = written(&rig);
        most = most.max(now.saturating_sub(before));
        before = now;
        turns += 1;
    }
    assert_eq!(rig.requests, UPLOADS);
    // The limit is exceeded by at most one read.
    let bound = SPOOL_TURN_BYTES + READ_BYTES as u64;
    assert!(most <= bound, "{most} bytes in one turn");
    assert!(most > bound / 2, "the test is about many uploads at a time");
    for client in &clients {
        assert_eq!(answers(&client.read(), &[])[0].status, 200);
    }

    // A small request does not wait for earlier uploads.
    let _uploads: Vec<_> = (0..UPLOADS)
        .map(|_| {
            let peer = rig.connect();
            peer.write(&post("/echo", &"x".repeat(BODY_BYTES)));
            peer
        })
        .collect();
    let peer = rig.connect();
    peer.write(&get("/hello"));
    // One turn accepts the connection, and the next turn reads.
    for _ in 0..3 {
        rig.turn();
    }
    assert_eq!(answers(&peer.read(), &[])[0].body, b"hello");
    assert!(rig.requests < 2 * UPLOADS, "all uploads are done already");
}
