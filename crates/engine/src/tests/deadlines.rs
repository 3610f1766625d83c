//! Tests of all timeouts, with virtual time: silent, slow and stuck connections close at their
//! limit, not before.

use fermata_io::sys::fake::{End, FakePeer};

use super::client::answers;
use super::{Rig, get, post, settings};

/// Tolerated delay in milliseconds: the clock advances in steps of 100 ms.
const SLACK_MS: u64 = 200;

/// Asserts that the connection is open until `ms` have passed, and closes soon after.
fn ends_after(rig: &mut Rig, peer: &FakePeer, ms: u64) {
    rig.advance(ms - SLACK_MS);
    assert_eq!(peer.end(), End::Open, "it ended too early");
    rig.advance(2 * SLACK_MS);
    assert_ne!(peer.end(), End::Open, "it did not end");
}

/// Asserts that no connection is left after the last response and the linger time.
fn is_gone(rig: &mut Rig) {
    rig.advance(3_000);
    assert_eq!(rig.worker.net.sockets_len(), 0);
    assert_eq!(rig.fake.open_streams(), 0);
}

#[test]
fn closes_a_silent_connection_after_header_timeout() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(b"");
    ends_after(&mut rig, &peer, settings().header_timeout_ms);
    assert_eq!(peer.read(), b"");
    is_gone(&mut rig);
}

#[test]
fn refuses_a_dripping_head_after_header_timeout() {
    // Both the first request of a connection, and a later one.
    for first in [&b""[..], &get("/hello")] {
        let mut rig = Rig::new(1);
        let peer = rig.peer(first);
        if !first.is_empty() {
            rig.advance(20_000);
        }
        let _ = peer.read();
        peer.write(b"GET /");
        let mut waited_ms = 0;
        while peer.end() == End::Open {
            peer.write(b"a");
            rig.advance(500);
            waited_ms += 500;
            assert!(waited_ms <= 10_500, "still open");
        }
        assert!(waited_ms >= 10_000, "only {waited_ms} ms");
        assert_eq!(answers(&peer.read(), &[])[0].status, 408);
        is_gone(&mut rig);
    }
}

#[test]
fn closes_an_idle_connection_after_idle_timeout() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&get("/hello"));
    rig.advance(60_000);
    peer.write(&get("/hello"));
    rig.run();
    assert_eq!(answers(&peer.read(), &[]).len(), 2);
    ends_after(&mut rig, &peer, settings().idle_timeout_ms);
    is_gone(&mut rig);
}

#[test]
fn refuses_a_dripping_body_after_body_timeout() {
    for head in [
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n200\r\n",
    ] {
        let mut rig = Rig::new(1);
        let peer = rig.peer(head.as_bytes());
        let mut waited_ms = 0;
        while peer.end() == End::Open {
            peer.write(b"a");
            rig.advance(500);
            waited_ms += 500;
            assert!(waited_ms <= 30_500, "still open");
        }
        assert!(waited_ms >= 30_000, "only {waited_ms} ms");
        assert_eq!(answers(&peer.read(), &[])[0].status, 408);
        is_gone(&mut rig);
    }
}

#[test]
fn extends_the_body_timeout_only_at_the_minimum_rate() {
    const SECONDS: usize = 100;
    for (bytes_per_second, status) in [(1_000, 200), (500, 408)] {
        let mut settings = settings();
        settings.body_timeout_ms = 30_000;
        settings.body_rate_min = 1_000;
        let mut rig = Rig::with(1, settings);
        let length = bytes_per_second * SECONDS;
        let head = format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n");
        let peer = rig.peer(head.as_bytes());
        let mut waited_s = 0;
        let mut got = Vec::new();
        while waited_s < SECONDS && got.is_empty() {
            peer.write(&vec![b'a'; bytes_per_second]);
            rig.advance(1_000);
            waited_s += 1;
            got = peer.read();
        }
        assert_eq!(answers(&got, &[])[0].status, status);
        // At half the rate, each second extends the time by half a second: 30 become 60.
        assert!(status == 200 || (58..=62).contains(&waited_s), "{waited_s}");
    }
}

#[test]
fn closes_a_client_that_reads_nothing_after_write_timeout() {
    for sends in [false, true] {
        let mut rig = Rig::new(1);
        let peer = rig.connect();
        peer.set_window(1000);
        peer.write(&get("/big/100000"));
        rig.run();
        let mut waited_ms = 0;
        while rig.worker.net.sockets_len() > 0 {
            if sends {
                peer.write(&get("/hello"));
                peer.write(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\na");
            }
            rig.advance(1000);
            waited_ms += 1000;
            assert!(waited_ms <= 31_000, "still open");
        }
        assert!(waited_ms >= 29_000, "only {waited_ms} ms");
        // A reset, because the kernel would otherwise retain unread bytes.
        assert_eq!(peer.end(), End::Reset);
    }
}

#[test]
fn does_not_extend_write_timeout_for_new_requests() {
    let mut settings = settings();
    settings.write_timeout_ms = 5_000;
    settings.body_timeout_ms = 60_000;
    settings.header_timeout_ms = 60_000;
    let begins: [&[u8]; 3] = [
        b"GET /hel",
        b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\na",
        b"POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n",
    ];
    for begun in begins {
        let mut rig = Rig::with(1, settings.clone());
        let peer = rig.connect();
        peer.set_window(1000);
        peer.write(&get("/big/100000"));
        rig.advance(3_000);
        peer.write(begun);
        rig.advance(1_800);
        assert_eq!(rig.worker.net.sockets_len(), 1);
        rig.advance(400);
        assert_eq!(rig.worker.net.sockets_len(), 0);
    }
}

#[test]
fn keeps_a_slow_reading_client_and_restarts_its_idle_time() {
    let mut rig = Rig::new(1);
    let peer = rig.connect();
    peer.set_window(1000);
    peer.write(&get("/big/4000"));
    rig.run();
    let mut got = Vec::new();
    while got.len() < 4000 {
        rig.advance(25_000);
        let bytes = peer.read();
        assert!(!bytes.is_empty());
        got.extend(bytes);
        rig.run();
    }
    got.extend(peer.read());
    rig.run();
    assert!(answers(&got, &[])[0].is_whole);
    ends_after(&mut rig, &peer, settings().idle_timeout_ms);
    is_gone(&mut rig);
}

#[test]
fn limits_a_body_after_its_client_read_slowly() {
    let mut rig = Rig::new(1);
    let peer = rig.connect();
    peer.set_window(1000);
    let mut bytes = get("/big/3000");
    bytes.extend_from_slice(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\na");
    peer.write(&bytes);
    rig.run();
    rig.advance(20_000);
    peer.set_window(100_000);
    rig.run();
    rig.advance(29_000);
    assert_eq!(peer.end(), End::Open);
    rig.advance(2_000);
    let answers = answers(&peer.read(), &[]);
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[1].status, 408);
    is_gone(&mut rig);
}

#[test]
fn closes_a_refused_client_that_keeps_sending_after_lingering() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999\r\n\r\n");
    assert_eq!(answers(&peer.read(), &[])[0].status, 413);
    for _ in 0..10 {
        peer.write(&[b'x'; 10_000]);
        rig.advance(150);
        assert_eq!(peer.unread_bytes(), 0, "what comes is discarded");
    }
    assert_eq!(rig.worker.net.sockets_len(), 1);
    rig.advance(1_000);
    assert_eq!(rig.worker.net.sockets_len(), 0);
}

#[test]
fn completes_a_file_for_a_slow_steady_client() {
    let mut rig = Rig::new(1);
    let peer = rig.connect();
    peer.set_window(5_000);
    peer.write(&get("/files/large.bin"));
    let mut got = Vec::new();
    while got.len() < super::FILE_BYTES {
        rig.advance(5_000);
        let bytes = peer.read();
        assert!(!bytes.is_empty(), "cut after {} bytes", got.len());
        got.extend(bytes);
        rig.run();
    }
    rig.run();
    got.extend(peer.read());
    assert!(answers(&got, &[])[0].is_whole);
    ends_after(&mut rig, &peer, settings().idle_timeout_ms);
}

#[test]
fn sets_no_deadline_while_a_request_waits_for_its_handler() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&get("/late"));
    rig.advance(200_000);
    assert_eq!(peer.end(), End::Open);
    let handle = rig.late.pop_front().expect("it was asked for");
    rig.respond(handle, b"at last");
    rig.run();
    assert_eq!(answers(&peer.read(), &[])[0].body, b"at last");
    ends_after(&mut rig, &peer, settings().idle_timeout_ms);
    is_gone(&mut rig);
}

#[test]
fn does_not_count_handler_time_against_clients() {
    let mut rig = Rig::new(1);
    let peer = rig.connect();
    let other = rig.peer(&get("/hello"));
    let _ = other.read();
    peer.set_window(1000);
    peer.write(&get("/late"));
    rig.run();
    let handle = rig.late.pop_front().expect("it was asked for");
    // The handler of this request runs for 100 s, which is longer than every timeout. The worker
    // does not read the clock before the handler has responded.
    rig.fake.advance(100_000);
    rig.respond(handle, &[b'x'; 50_000]);
    other.write(&get("/hello"));
    rig.run();
    assert_eq!(peer.end(), End::Open, "the write time-out has just begun");
    assert_eq!(
        answers(&other.read(), &[]).len(),
        1,
        "its request was there in time"
    );
    let mut got = Vec::new();
    for _ in 0..60 {
        got.extend(peer.read());
        rig.run();
    }
    assert!(answers(&got, &[])[0].is_whole);
}

#[test]
fn flushes_ready_responses_between_slow_handlers() {
    let mut rig = Rig::new(1);
    let first = rig.connect();
    let second = rig.connect();
    first.write(&get("/hello"));
    second.write(&get("/late"));
    // One turn, driven manually: the first handler answers, the second one takes ten milliseconds.
    loop {
        rig.worker.begin_poll();
        match rig.worker.poll_event() {
            Some(_) if rig.worker.request().handler() == super::LATE => break,
            Some(_) => {
                rig.answer();
                rig.fake.advance(10);
            }
            None => {}
        }
    }
    assert!(
        first.arrived_bytes() > 0,
        "it waits for a stranger's handler"
    );
}

#[test]
fn sends_comments_on_a_silent_stream() {
    const COMMENT: &[u8] = b"4\r\n: \n\n\r\n";
    let mut rig = Rig::new(1);
    let peer = rig.peer(&get("/hold/a?keep=10000"));
    let _ = peer.read();
    for _ in 0..3 {
        rig.advance(10_000);
        assert_eq!(peer.read(), COMMENT, "one in each interval");
    }
    rig.publish("a", "news");
    rig.run();
    assert!(!peer.read().is_empty());
    rig.advance(4_900);
    assert_eq!(peer.read(), b"", "news count as a sign of life");
    rig.advance(5_100);
    assert_eq!(peer.read(), COMMENT);
}

#[test]
fn closes_a_disconnected_client_when_a_comment_is_due() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&get("/hold/a?keep=10000"));
    rig.fake.advance(10_000);
    // The worker reads the clock when a turn waits, and writes the comment in the next turn.
    rig.turn();
    peer.reset();
    rig.run();
    assert_eq!(rig.worker.net.sockets_len(), 0);
}

#[test]
fn spreads_keep_alives_of_a_crowd_permanently() {
    let mut rig = Rig::new(1);
    let peers: Vec<_> = (0..1000).map(|_| rig.connect()).collect();
    for peer in &peers {
        peer.write(&get("/hold/a?keep=10000"));
    }
    rig.run();
    let comments = |rig: &mut Rig| {
        rig.advance(1000);
        peers.iter().filter(|peer| !peer.read().is_empty()).count()
    };
    comments(&mut rig);
    // In every second of the first and the second interval, the same number of comments is sent.
    for second in 1..20 {
        let count = comments(&mut rig);
        assert!((90..=110).contains(&count), "{count} in second {second}");
    }
    rig.publish("a", "to all");
    rig.run();
    let _ = comments(&mut rig);
    let after: Vec<_> = (1..20).map(|_| comments(&mut rig)).collect();
    assert_eq!(after[..3], [0; 3], "half an interval of rest");
    assert!(after.iter().all(|count| *count <= 220), "{after:?}");
}

#[test]
fn batches_comments_of_many_clients() {
    let mut rig = Rig::new(1);
    let peers: Vec<_> = (0..500).map(|_| rig.connect()).collect();
    for peer in &peers {
        peer.write(&get("/hold/a?keep=10000"));
    }
    rig.run();
    rig.advance(10_000);
    let connections = rig.worker.net.connections.iter();
    let mut times: Vec<_> = connections.map(|it| it.0.deadline).collect();
    assert_eq!(times.len(), 500);
    times.sort_unstable();
    times.dedup();
    assert!(times.len() <= 101, "{} times in 10 seconds", times.len());
}

#[test]
fn keeps_silent_streams_open() {
    let mut rig = Rig::new(1);
    let month_ms = 40 * 24 * 3_600 * 1_000_u64;
    let never = rig.peer(&get("/hold/a?keep=0"));
    let rarely = rig.peer(&get(&format!("/hold/a?keep={month_ms}")));
    let _ = (never.read(), rarely.read());
    for _ in 0..41 {
        rig.fake.advance(24 * 3_600 * 1_000);
        rig.run();
    }
    assert_eq!(never.read(), b"");
    assert_eq!(rarely.read(), b"4\r\n: \n\n\r\n");
    assert_eq!(rig.worker.net.sockets_len(), 2);
}

#[test]
fn resets_a_stuck_stream_after_write_timeout() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&get("/hold/a?keep=0"));
    let _ = peer.read();
    peer.set_window(100);
    rig.publish("a", &"x".repeat(1000));
    rig.run();
    rig.advance(20_000);
    rig.publish("a", "more");
    rig.run();
    assert_eq!(rig.worker.net.sockets_len(), 1);
    rig.advance(10_200);
    assert_eq!(rig.worker.net.sockets_len(), 0);
}

#[test]
fn waits_idle_timeout_for_the_next_request() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&post("/echo", "one"));
    rig.advance(70_000);
    peer.write(b"GET /hello HTTP/1.1\r\n");
    rig.advance(9_000);
    peer.write(b"Host: test\r\n\r\n");
    rig.run();
    assert_eq!(answers(&peer.read(), &[]).len(), 2);
}

#[test]
fn refuses_a_fast_body_that_pauses_longer_than_body_timeout() {
    let mut settings = settings();
    settings.body_timeout_ms = 30_000;
    settings.body_rate_min = 1_000;
    let mut rig = Rig::with(1, settings);
    let peer = rig.peer(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 200000\r\n\r\n");
    // Worth 100 seconds, which cannot be saved up.
    peer.write(&vec![b'a'; 100_000]);
    rig.advance(1_000);
    let mut waited_s = 0;
    let mut got = Vec::new();
    while got.is_empty() && waited_s < 60 {
        rig.advance(1_000);
        waited_s += 1;
        got = peer.read();
    }
    assert_eq!(answers(&got, &[])[0].status, 408);
    assert!((28..=31).contains(&waited_s), "{waited_s}");
}
