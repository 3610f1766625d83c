//! Tests of clients that missed more than one piece: in order, complete, with bounded memory, and
//! next to others.

use fermata_hub::{ID_BYTES_MAX, Ids, LogPlace};
use fermata_io::sys::fake::{End, FakePeer, Faults};
use proptest::prelude::*;

use super::client::{data, events, last_id};
use super::{Rig, get, settings};

fn since(path: &str, id: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: t\r\nLast-Event-ID: {id}\r\n\r\n").into_bytes()
}

/// Publishes `count` numbers of 500 digits; returns the id of the first.
fn publish(rig: &mut Rig, first: usize, count: usize) -> String {
    let ids: Vec<String> = (first..first + count)
        .map(|n| rig.publish("a", &format!("{n:0500}")))
        .collect();
    rig.run();
    ids.into_iter().next().expect("at least one")
}

fn numbers(bytes: &[u8]) -> Vec<usize> {
    let data = data(bytes);
    data.iter().map(|n| n.parse().expect("digits")).collect()
}

fn gaps(bytes: &[u8]) -> Vec<String> {
    let gaps = events(bytes).into_iter();
    let gaps = gaps.filter(|event| event.name.as_deref() == Some("gap"));
    gaps.filter_map(|gap| gap.data).collect()
}

/// Reads until no bytes arrive.
fn drain(rig: &mut Rig, peer: &FakePeer, got: &mut Vec<u8>) {
    loop {
        rig.run();
        let bytes = peer.read();
        if bytes.is_empty() {
            return;
        }
        got.extend(bytes);
    }
}

#[test]
fn replays_more_than_a_queue_without_a_gap() {
    let mut settings = settings();
    settings.queue_bytes_max = 4096;
    settings.channel_log_bytes_max = 4096;
    for http10 in [false, true] {
        let mut rig = Rig::with(1, settings.clone());
        let first = publish(&mut rig, 0, 600);
        let peer = rig.connect();
        peer.set_window(700);
        let request = since("/hold/a", &first);
        peer.write(&if http10 {
            let text = String::from_utf8(request).expect("text");
            text.replace("HTTP/1.1", "HTTP/1.0").into_bytes()
        } else {
            request
        });
        let mut got = Vec::new();
        for n in 600..900 {
            // The channel's log is too small for the messages published during the replay, so the
            // worker reads them from the ring, too.
            publish(&mut rig, n, 1);
            got.extend(peer.read());
            let queued: usize = rig
                .worker
                .net
                .connections
                .indexes()
                .into_iter()
                .map(|index| {
                    rig.worker
                        .net
                        .connections
                        .at(index)
                        .map_or(0, |it| it.out.len())
                })
                .sum();
            assert!(queued < 40 * 1024, "{queued} bytes queued for one client");
        }
        drain(&mut rig, &peer, &mut got);
        assert_eq!(gaps(&got), Vec::<String>::new());
        assert_eq!(numbers(&got), (1..900).collect::<Vec<_>>());
        // The client is live, and its position is after the last message.
        assert_eq!(rig.worker.channels.local.subscriptions(), 1);
        publish(&mut rig, 900, 1);
        let position = last_id(&got);
        drain(&mut rig, &peer, &mut got);
        assert_eq!(numbers(&got).last(), Some(&900));
        assert_ne!(last_id(&got), position);
    }
}

#[test]
fn sends_a_gap_to_or_closes_a_client_slower_than_the_ring() {
    for closes in [false, true] {
        let mut rig = Rig::with(1, settings());
        let first = publish(&mut rig, 0, 100);
        let peer = rig.connect();
        peer.set_window(3000);
        peer.write(&since(
            if closes { "/hold/a?close" } else { "/hold/a" },
            &first,
        ));
        rig.run();
        let mut got = peer.read();
        // The ring of these tests holds 1 MiB.
        publish(&mut rig, 100, 3000);
        drain(&mut rig, &peer, &mut got);
        let numbers = numbers(&got);
        assert!(numbers.is_sorted_by(|a, b| a < b), "in order, none twice");
        if closes {
            assert_ne!(peer.end(), End::Open);
            assert!(gaps(&got).is_empty() && *numbers.last().expect("some") < 100);
        } else {
            assert_eq!(gaps(&got), ["{\"reason\":\"too slow\"}"]);
            assert_eq!(numbers.last(), Some(&3099));
            assert!(numbers.len() > 1000 && numbers.len() < 3000);
        }
    }
}

#[test]
fn closes_a_blocked_client_behind_its_log_immediately_if_the_policy_is_close() {
    let mut settings = settings();
    settings.channel_log_bytes_max = 4096;
    let mut rig = Rig::with(1, settings);
    let peer = rig.peer(&get("/hold/a?close"));
    let _ = peer.read();
    peer.set_window(0);
    publish(&mut rig, 0, 100);
    // The client has read nothing since it was blocked.
    assert_eq!(rig.worker.net.sockets_len(), 0);
}

#[test]
fn ends_a_replay_between_events_on_drain() {
    let mut rig = Rig::new(1);
    let first = publish(&mut rig, 0, 600);
    let peer = rig.connect();
    peer.set_window(700);
    peer.write(&since("/hold/a", &first));
    rig.run();
    let mut got = peer.read();
    rig.worker.begin_drain(false);
    drain(&mut rig, &peer, &mut got);
    let received = numbers(&got);
    assert_eq!(received, (1..=received.len()).collect::<Vec<_>>());
    assert!(!received.is_empty() && received.len() < 599);
    assert!(rig.is_stopped || rig.worker.net.sockets_len() <= 1);
}

#[test]
fn shares_turns_between_resuming_and_other_clients() {
    let mut settings = settings();
    settings.connections_max = 1000;
    let mut rig = Rig::with(1, settings);
    let first = publish(&mut rig, 0, 900);
    let peers: Vec<FakePeer> = (0..200).map(|_| rig.connect()).collect();
    for peer in &peers {
        peer.set_window(1 << 20);
        peer.write(&since("/hold/a", &first));
    }
    let visitor = rig.peer(b"");
    rig.turn();
    visitor.write(&get("/hello"));
    let before = rig.fake.calls().sends;
    while visitor.arrived_bytes() == 0 {
        rig.turn();
    }
    let between = rig.fake.calls().sends - before;
    assert!(between <= 2 * 16 + 200, "{between} sends before the answer");
    for peer in &peers {
        let mut got = Vec::new();
        drain(&mut rig, peer, &mut got);
        assert_eq!(numbers(&got).len(), 899);
    }
}

#[test]
fn sends_a_gap_to_clients_ahead_of_the_log_in_time() {
    let mut settings = settings();
    settings.connections_max = 1000;
    let mut rig = Rig::with(1, settings);
    let place = LogPlace { epoch: 77, seq: 5 };
    let channels = &mut rig.worker.channels;
    channels
        .ring
        .begin_log(&channels.owner, place)
        .expect("the ring is free");
    let mut text = [0; ID_BYTES_MAX];
    let id = Ids::new(place.epoch).text(9, &mut text);
    let request = since("/hold/a", std::str::from_utf8(id).expect("ids are text"));
    let peer = rig.peer(&request);
    // Disconnected clients stay in the list no longer than a client that waits.
    for _ in 0..100 {
        rig.peer(&request).close();
    }
    rig.run();
    rig.advance(1_000);
    let mut got = peer.read();
    assert_eq!(gaps(&got), Vec::<String>::new());
    assert!(!rig.worker.channels.ahead.is_empty());
    rig.advance(1_500);
    got.extend(peer.read());
    assert_eq!(gaps(&got).len(), 1, "the log has not come there in time");
    assert_eq!(rig.worker.channels.ahead.len(), 0);
    assert!(rig.worker.channels.ahead.due.is_never());
    assert_eq!(rig.worker.channels.local.subscriptions(), 1);
}

#[test]
fn starts_a_hold_during_a_broadcast_immediately() {
    let mut settings = settings();
    settings.connections_max = 20_000;
    let mut rig = Rig::with(1, settings);
    let peers: Vec<FakePeer> = (0..5_000).map(|_| rig.connect()).collect();
    for peer in &peers {
        peer.write(&get("/hold/a?keep=0"));
    }
    rig.run();
    rig.publish("a", "1");
    rig.turn();
    // Published before the client connected, and not read by this worker yet.
    rig.publish("a", "2");
    let late = rig.connect();
    late.write(&get("/hold/a?keep=0"));
    let before = rig.fake.calls().sends;
    while late.arrived_bytes() == 0 {
        rig.turn();
    }
    let between = rig.fake.calls().sends - before;
    assert!(between < 2_000, "{between} sends before its answer");
    rig.publish("a", "3");
    rig.run();
    assert_eq!(data(&late.read()), ["3"], "news are what came after it");
    for peer in &peers {
        assert_eq!(data(&peer.read()), ["1", "2", "3"]);
    }
}

proptest! {
    #![proptest_config(super::cases(60))]

    /// For any network behavior, a client that reconnects repeatedly receives every message once.
    #[test]
    fn delivers_once_over_many_reconnects(
        seed: u64,
        lives in prop::collection::vec((0..60usize, 1..40usize, 200..6000usize), 1..12),
    ) {
        let mut rig = Rig::new(seed);
        rig.fake.set_faults(Faults { short_write: 100, would_block: 100, ..Faults::default() });
        let mut id = publish(&mut rig, 0, 1);
        let (mut next, mut received) = (1, Vec::new());
        for (missed, turns, window) in lives {
            if missed > 0 {
                publish(&mut rig, next, missed);
                next += missed;
            }
            let peer = rig.connect();
            peer.set_window(window);
            peer.write(&since("/hold/a", &id));
            let mut got = Vec::new();
            for turn in 0..turns {
                rig.turn();
                got.extend(peer.read());
                if turn % 5 == 4 {
                    publish(&mut rig, next, 1);
                    next += 1;
                }
            }
            peer.close();
            rig.run();
            got.extend(peer.read());
            // A partially received opening is not a response yet.
            if got.windows(4).any(|it| it == b"\r\n\r\n") && events(&got).iter().any(|it| it.id.is_some()) {
                received.extend(numbers(&got));
                id = last_id(&got);
            }
        }
        let expected: Vec<usize> = (1..=received.len()).collect();
        prop_assert_eq!(received, expected);
    }
}
