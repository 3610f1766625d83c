//! Tests that broadcasts do not block the worker, and the worker does not block broadcasts.

use fermata_io::sys::fake::FakePeer;

use super::client::data;
use crate::channels::fanout::{PUMP_SLICE, PUMPS_MAX};
use crate::worker::FANOUT_SLICE;

use super::sockets::text;
use super::{Rig, get, post};

fn subscribers(rig: &mut Rig, count: usize) -> Vec<FakePeer> {
    let peers: Vec<FakePeer> = (0..count).map(|_| rig.connect()).collect();
    for peer in &peers {
        peer.write(&get("/hold/all?keep=0"));
    }
    rig.run();
    for peer in &peers {
        let _ = peer.read();
    }
    peers
}

#[test]
fn answers_a_request_during_a_broadcast() {
    let mut settings = super::settings();
    settings.connections_max = 20_000;
    let mut rig = Rig::with(1, settings);
    let peers = subscribers(&mut rig, 10_000);
    let visitor = rig.peer(&get("/hello"));
    let _ = visitor.read();
    rig.publish("all", "to everybody");
    rig.turn();
    visitor.write(&get("/hello"));
    let mut turns = 0;
    while visitor.arrived_bytes() == 0 {
        rig.turn();
        turns += 1;
    }
    let reached = peers.iter().filter(|peer| peer.arrived_bytes() > 0).count();
    assert!(
        turns <= 3 && reached < 5_000,
        "{turns} turns, {reached} reached"
    );
    // Subscribers that join or leave during the broadcast affect no others.
    peers[0].close();
    let _late = rig.connect();
    rig.run();
    for peer in &peers[1..] {
        assert_eq!(
            peer.sends(),
            2,
            "one write for the opening, one for the news"
        );
        assert!(peer.read().ends_with(b"data: to everybody\n\n\r\n"));
    }
}

/// Counts the sends before a response instead of measuring time, because the clock of a test
/// machine is unreliable.
#[test]
fn delays_a_request_by_at_most_one_slice_of_a_broadcast() {
    let mut settings = super::settings();
    settings.connections_max = 20_000;
    let mut rig = Rig::with(1, settings);
    let peers = subscribers(&mut rig, 10_000);
    let visitor = rig.peer(b"");
    for n in 0..3 {
        rig.publish("all", &n.to_string());
    }
    let start = rig.fake.calls().sends;
    let mut answers = 0;
    while rig.fake.calls().sends - start < 9_000 {
        visitor.write(&get("/hello"));
        let before = rig.fake.calls().sends;
        while visitor.arrived_bytes() == 0 {
            rig.turn();
        }
        let waited = rig.fake.calls().sends - before;
        // One slice is sent before the request is read. The next slice follows the response in the
        // same turn.
        assert!(
            waited <= 2 * FANOUT_SLICE as u64 + 1,
            "{waited} sends before its answer"
        );
        let _ = visitor.read();
        answers += 1;
    }
    assert!(answers >= 9_000 / (2 * FANOUT_SLICE + 1));
    rig.run();
    for peer in &peers {
        assert!(peer.read().ends_with(b"data: 2\n\n\r\n"));
    }
}

#[test]
fn sends_quick_messages_to_a_crowd_together() {
    let mut settings = super::settings();
    settings.gather_ms_max = 10;
    let mut rig = Rig::with(1, settings);
    let per_ms = crate::channels::gather::SERVED_PER_MS as usize;
    let peers = subscribers(&mut rig, 4 * per_ms);
    let sends = |peers: &[FakePeer]| peers.iter().map(FakePeer::sends).collect::<Vec<_>>();
    rig.publish("all", "alone");
    rig.turn();
    rig.turn();
    assert_eq!(
        sends(&peers),
        vec![2; peers.len()],
        "what comes alone does not wait"
    );
    for text in ["first", "second", "third"] {
        rig.publish("all", text);
        rig.turn();
    }
    assert_eq!(sends(&peers), vec![2; peers.len()]);
    rig.advance(10);
    for peer in &peers {
        assert_eq!(peer.sends(), 3, "the three of them together");
        assert!(peer.read().ends_with(b"data: third\n\n\r\n"));
    }
}

#[test]
fn delivers_gathered_messages_on_drain() {
    let mut settings = super::settings();
    settings.gather_ms_max = 10;
    let mut rig = Rig::with(1, settings);
    let peers = subscribers(
        &mut rig,
        4 * crate::channels::gather::SERVED_PER_MS as usize,
    );
    rig.publish("all", "first");
    rig.turn();
    for text in ["second", "third"] {
        rig.publish("all", text);
    }
    rig.turn();
    rig.worker.begin_drain(false);
    rig.turn();
    for peer in &peers {
        let text = String::from_utf8_lossy(&peer.read()).into_owned();
        let places = ["first", "second", "third", "retry:"].map(|it| text.find(it));
        assert!(places.is_sorted() && places[0].is_some(), "{text}");
    }
}

#[test]
fn sends_no_part_of_a_running_broadcast_to_a_joining_socket() {
    let mut settings = super::settings();
    settings.connections_max = 20_000;
    let mut rig = Rig::with(1, settings);
    let peers = subscribers(&mut rig, 10_000);
    let mut client = rig.socket("/ws");
    // The second is read from the ring when every client has received the first.
    rig.publish("all", "first");
    rig.turn();
    rig.publish("all", "second");
    client.peer.write(&text("/join all"));
    let before = rig.fake.calls().sends;
    rig.turn();
    rig.turn();
    let sent = rig.fake.calls().sends - before;
    assert!(sent <= 2 * FANOUT_SLICE as u64 + 2, "{sent} sends");
    rig.publish("all", "third");
    rig.run();
    assert_eq!(
        client.texts(),
        ["third"],
        "what came before it joined is no news"
    );
    for peer in &peers {
        let bytes = peer.read();
        for line in ["data: first\n", "data: second\n", "data: third\n"] {
            let times = bytes
                .windows(line.len())
                .filter(|window| *window == line.as_bytes());
            assert_eq!(times.count(), 1, "{line}");
        }
    }
    rig.publish("all", "fourth");
    rig.run();
    assert_eq!(client.texts(), ["fourth"]);
}

#[test]
fn shortens_a_slice_of_slow_sends() {
    let mut settings = super::settings();
    settings.connections_max = 20_000;
    let mut rig = Rig::with(1, settings);
    let peers = subscribers(&mut rig, 10_000);
    rig.fake.set_sends_per_ms(50);
    rig.publish("all", "slow");
    let reached = |rig: &Rig| rig.fake.calls().sends;
    let start = reached(&rig);
    while reached(&rig) - start < 10_000 {
        let before = reached(&rig);
        rig.turn();
        let sent = reached(&rig) - before;
        // 64 sends until the clock is first read, 100 in two milliseconds, and 64 until it is read
        // again.
        assert!(sent <= 64 + 100 + 64, "{sent} sends in one turn");
    }
    rig.run();
    for peer in &peers {
        assert!(peer.read().ends_with(b"data: slow\n\n\r\n"));
    }
}

#[test]
fn limits_records_without_subscribers_per_turn() {
    let [mut here, mut elsewhere] = Rig::pair(1, &super::settings());
    let visitor = here.peer(b"");
    for n in 0..11_000 {
        elsewhere.publish("quiet", &n.to_string());
    }
    let read = |rig: &Rig| rig.worker.channels.local.traffic().records_read;
    visitor.write(&get("/hello"));
    let mut turns = 0;
    while read(&here) < 11_000 {
        let before = read(&here);
        here.turn();
        let slice = (PUMPS_MAX * PUMP_SLICE) as u64;
        assert!(
            read(&here) - before <= slice,
            "more than a slice in one turn"
        );
        turns += 1;
        assert!(turns < 10, "it sleeps with records to read");
    }
    here.turn();
    assert!(visitor.arrived_bytes() > 0 && turns > 1);
}

#[test]
fn a_burst_is_one_write_per_subscriber() {
    let mut rig = Rig::new(1);
    let peers = subscribers(&mut rig, 50);
    let publisher = rig.connect();
    let burst: Vec<u8> = (0..20)
        .flat_map(|n| post("/publish/all", &n.to_string()))
        .collect();
    publisher.write(&burst);
    rig.run();
    for peer in &peers {
        assert_eq!(peer.sends(), 2);
    }
}

#[test]
fn serves_a_client_far_behind_without_new_events() {
    let mut settings = super::settings();
    settings.channel_log_bytes_max = 1 << 20;
    settings.event_bytes_max = 4096;
    let mut rig = Rig::with(1, settings);
    let peer = rig.connect();
    peer.write(&get("/hold/all?keep=0"));
    rig.run();
    let mut got = peer.read();
    peer.set_window(0);
    for n in 0..150 {
        rig.publish("all", &format!("{n:04000}"));
        rig.run();
    }
    peer.set_window(10 << 20);
    rig.run();
    got.extend(peer.read());
    assert_eq!(data(&got).len(), 150);
}

/// The worker must not sleep before work that takes several turns is done. With `auto_advance`, a
/// sleep advances the clock.
#[test]
fn never_sleeps_with_unfinished_work() {
    let mut settings = super::settings();
    settings.channel_log_bytes_max = 8192;
    let mut rig = Rig::with(1, settings);
    let subscribers = subscribers(&mut rig, 2_000);
    let _idle = rig.peer(b"");
    let file = rig.connect();
    let pipeline = rig.connect();
    file.set_window(usize::MAX);
    pipeline.set_window(usize::MAX);
    file.write(&get("/files/huge.bin"));
    let many: Vec<u8> = (0..1_000).flat_map(|_| get("/hello")).collect();
    pipeline.write(&many);
    for n in 0..60 {
        rig.publish("all", &format!("{n:0800}"));
    }
    rig.fake.set_auto_advance(true);
    let start_ms = rig.fake.clock_ms();
    let is_done = || {
        file.arrived_bytes() > super::FILE_BYTES * super::HUGE
            && pipeline.arrived_bytes() > 100_000
            && subscribers.iter().all(|peer| peer.arrived_bytes() > 48_000)
    };
    while !is_done() {
        assert_eq!(
            rig.fake.clock_ms(),
            start_ms,
            "it slept with work left: {} of the file, {} of the pipeline, {:?} for subscribers",
            file.arrived_bytes(),
            pipeline.arrived_bytes(),
            subscribers.iter().map(|peer| peer.arrived_bytes()).min(),
        );
        rig.turn();
    }
    assert_eq!(rig.requests, 2_000 + 1_000);
}

#[test]
fn publishes_more_than_the_ring_holds_in_one_handler() {
    let mut rig = Rig::new(1);
    let peers = subscribers(&mut rig, 3);
    for peer in &peers {
        peer.set_window(64 << 20);
    }
    for n in 0..1000 {
        rig.publish("all", &format!("{n:04000}"));
    }
    rig.run();
    for peer in &peers {
        let bytes = peer.read();
        let news = bytes.windows(6).filter(|it| it == b"data: ").count();
        assert_eq!(news, 1000);
        assert_eq!(
            bytes.windows(10).filter(|it| it == b"event: gap").count(),
            0
        );
    }
}
