//! Simulates bridges of several nodes and a log with the protocol of NATS, in one thread and from a seed.
//!
//! Connections are cut at any byte, and bridges crash. The log restarts, removes old messages, is recreated, and has a copy that
//! lacks messages. At the same time nodes request older messages. The log returns them one by one or in batches, from a lagging
//! copy, and sometimes drops the request.
//!
//! Repeat a run with `FERMATA_TEST_SEED`.

#![allow(clippy::unwrap_used)]

mod node;
#[path = "../options/mod.rs"]
mod options;
mod server;

use std::collections::HashMap;

use fermata_cluster::PastRequest;
use fermata_testkit::Random;

use node::{CHANNELS, Delivered, Node};
use server::Server;

const NODES: usize = 3;

fn below(random: &mut Random, end: u64) -> u64 {
    random.within(0..end as usize) as u64
}

/// Fault of the log, in addition to the faults of connections and bridges.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Log {
    Keeps,
    Forgets,
    LosesItsEnd,
    IsMadeAnew,
    /// The log delivers, but refuses messages for a while.
    Refuses,
    /// One of three servers lacks messages for ever and renumbers the later ones, as NATS 2.9.10 does.
    HasBadCopy,
}

/// Runs one simulation. Returns the number of requests for older messages that returned at least one message.
fn simulate(seed: u64, log: Log) -> u64 {
    let mut random = Random::new(seed);
    let mut server = Server {
        first: 1,
        is_replicated: log == Log::HasBadCopy,
        // Copies of newer versions are complete.
        has_batches: log != Log::HasBadCopy && below(&mut random, 2) == 0,
        is_forgetful: true,
        ..Server::default()
    };
    let mut nodes: Vec<Node> = (0..NODES).map(|at| Node::new(at, log)).collect();
    let mut now_ms = 0;
    let mut is_reachable = true;
    let steps = 4_000;
    // Without faults at the end, everything arrives.
    for step in 0..steps + 20_000 {
        let has_faults = step < steps;
        if !has_faults {
            (is_reachable, server.is_full) = (true, false);
            server.is_forgetful = false;
            if is_at_rest(&server, &nodes) {
                break;
            }
        }
        now_ms += below(&mut random, 20);
        if has_faults {
            match below(&mut random, 400) {
                0 => is_reachable = !is_reachable,
                1 => server.connections.clear(),
                2 if log == Log::Forgets => {
                    let count = below(&mut random, server.stored.len() as u64 + 1);
                    server.stored.drain(..count as usize);
                    server.first += count;
                }
                3 if log == Log::IsMadeAnew => server.delete(),
                3..7 if log == Log::Refuses => server.is_full = !server.is_full,
                4..9 if log == Log::HasBadCopy && server.lacks.is_none() => {
                    let count = below(&mut random, 30.min(server.last() + 1));
                    server.lacks = (count > 0).then_some((server.last() + 1 - count, count));
                }
                4 if log == Log::LosesItsEnd => {
                    let count = below(&mut random, 30.min(server.stored.len() as u64) + 1);
                    server.lose_end(count);
                }
                _ => {}
            }
        }
        let at = below(&mut random, NODES as u64) as usize;
        let node = &mut nodes[at];
        if has_faults {
            match below(&mut random, 200) {
                0 => {
                    server.connections.remove(&at);
                }
                1 => {
                    server.connections.remove(&at);
                    node.kill(at, now_ms);
                }
                2..80 => node.publish(at),
                80..90 => node.ask_past(&mut random, now_ms),
                _ => {}
            }
        }
        if node.bridge.due_ms() <= now_ms {
            node.bridge.handle_time(now_ms);
        }
        node.take_events(at, &mut server, is_reachable, now_ms);
        node.hand_over(now_ms);
        node.take_events(at, &mut server, is_reachable, now_ms);
        let sent = node.bridge.transmit();
        let count = below(&mut random, sent.len().min(3000) as u64 + 1) as usize;
        let bytes: Vec<u8> = sent.drain(..count).collect();
        server.take(at, &bytes);
        for _ in 0..below(&mut random, 8) {
            server.push(at);
        }
        if below(&mut random, 20) == 0 {
            server.beat(at);
        }
        match server.connections.get_mut(&at) {
            None => node.bridge.handle_closed("cut", now_ms),
            Some(connection) => {
                let count =
                    below(&mut random, connection.output.len().min(3000) as u64 + 1) as usize;
                let bytes: Vec<u8> = connection.output.drain(..count).collect();
                node.bridge.handle_input(&bytes, now_ms);
            }
        }
        node.take_events(at, &mut server, is_reachable, now_ms);
    }
    check(&server, &nodes, log);
    nodes.iter().map(|node| node.answers).sum()
}

/// Returns true if every node has sent all its records and has read the present log to the end. A node that has not detected
/// the replacement of its log is still at the end of the former one.
fn is_at_rest(server: &Server, nodes: &[Node]) -> bool {
    let epoch = |node: &Node| node.reached().map(|place| place.epoch);
    nodes.iter().enumerate().all(|(at, node)| {
        let seq = node.reached().map(|place| place.seq);
        server.has_consumer(at)
            && node.is_ready
            && node.outbox.is_empty()
            && node.asked.is_empty()
            && seq.is_some_and(|seq| seq >= server.last_record())
            && epoch(node) == epoch(&nodes[0])
    })
}

fn check(server: &Server, nodes: &[Node], log: Log) {
    assert!(
        is_at_rest(server, nodes),
        "a node has not come to rest; the last record is at {}:{}",
        server.last_record(),
        nodes.iter().enumerate().map(|(at, node)| format!(
            "\nnode {at}: consumer {}, ready {}, outbox {}, questions about older messages {}, reached {:?}",
            server.has_consumer(at),
            node.is_ready,
            node.outbox.len(),
            node.asked.len(),
            node.reached()
        ))
        .collect::<String>()
    );
    for (at, node) in nodes.iter().enumerate() {
        assert_eq!(
            node.accepted.len() as u64,
            node.written,
            "node {at}: every record is accepted"
        );
        // Events have one order, without holes except after a gap.
        for pair in node.delivered.windows(2) {
            let (Delivered::Gap(before) | Delivered::Event(before, _)) = &pair[0];
            if let Delivered::Event(place, _) = &pair[1] {
                assert_eq!(place.epoch, before.epoch);
                assert!(place.seq > before.seq, "node {at}");
                let skipped = before.seq + 1..place.seq;
                assert!(
                    skipped.clone().all(|seq| server.probes.contains(&seq)),
                    "node {at}: a hole at {skipped:?}"
                );
            }
        }
        // A position belongs to one event for ever. A gap follows the messages of a bad copy.
        let mut data_of = HashMap::new();
        for event in &node.delivered {
            if let Delivered::Event(place, data) = event {
                let before = data_of.insert(place, data);
                assert!(
                    log == Log::HasBadCopy || before.is_none_or(|before| before == data),
                    "node {at}: {place:?}"
                );
            }
        }
        let gaps = node
            .delivered
            .iter()
            .filter(|it| matches!(it, Delivered::Gap(_)))
            .count();
        if matches!(log, Log::Keeps | Log::Refuses) {
            assert_eq!(gaps, 1, "node {at}: only the beginning");
        }
        // The delivered events of the present log equal the log's content.
        let end = node
            .delivered
            .iter()
            .rev()
            .take_while(|it| matches!(it, Delivered::Event(..)));
        for event in end {
            if let Delivered::Event(place, data) = event
                && place.seq >= server.first
            {
                assert_eq!(
                    *data,
                    server.stored[(place.seq - server.first) as usize].data
                );
            }
        }
        // Each record is in the log at the acknowledged position.
        if matches!(log, Log::Keeps | Log::Refuses) {
            for (outbox, place) in &node.accepted {
                let stored = &server.stored[(place.seq - server.first) as usize];
                assert_eq!(stored.data, format!("{at}:{outbox}").into_bytes());
            }
        }
    }
    let mut all: Vec<&[u8]> = server
        .stored
        .iter()
        .map(|stored| &stored.data[..])
        .filter(|data| !data.is_empty())
        .collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "a record is in the log twice");
    if matches!(log, Log::Keeps | Log::Refuses) {
        assert_eq!(
            count as u64,
            nodes.iter().map(|node| node.written).sum::<u64>()
        );
    }
}

fn run(log: Log) {
    let seed = Random::seed_from_environment();
    let mut answers = 0;
    for round in 0..40 {
        let seed = seed.wrapping_add(round);
        println!("round {round}: FERMATA_TEST_SEED={seed}");
        answers += simulate(seed, log);
    }
    assert!(answers > 20, "{answers} were given something of the past");
}

#[test]
fn complete_log_is_the_same_on_every_node() {
    run(Log::Keeps);
}

#[test]
fn refusing_log_has_each_record_once() {
    run(Log::Refuses);
}

/// Regression test: a node that read the bad copy continued without the missing messages.
#[test]
fn incomplete_copy_is_left_or_followed_by_a_gap() {
    run(Log::HasBadCopy);
}

#[test]
fn removed_messages_are_a_gap() {
    run(Log::Forgets);
}

#[test]
fn replacements_of_lost_messages_have_other_positions() {
    run(Log::LosesItsEnd);
}

#[test]
fn recreated_log_is_a_gap() {
    run(Log::IsMadeAnew);
}

/// Exchanges bytes between a node and the log until both are idle, or `stops` returns true for the bytes of the node.
fn converse(
    node: &mut Node,
    at: usize,
    server: &mut Server,
    now_ms: u64,
    stops: impl Fn(&[u8]) -> bool,
) {
    for _ in 0..100 {
        node.bridge.handle_time(now_ms);
        node.take_events(at, server, true, now_ms);
        node.hand_over(now_ms);
        let sent = std::mem::take(node.bridge.transmit());
        let is_end = stops(&sent);
        server.take(at, &sent);
        if is_end {
            return;
        }
        while server.push(at) {}
        server.beat(at);
        if let Some(connection) = server.connections.get_mut(&at) {
            let bytes = std::mem::take(&mut connection.output);
            node.bridge.handle_input(&bytes, now_ms);
        }
        node.take_events(at, server, true, now_ms);
    }
}

#[test]
fn log_recreated_before_its_consumer_is_another_log() {
    let mut server = Server {
        first: 1,
        ..Server::default()
    };
    let mut nodes: Vec<Node> = (0..2).map(|at| Node::new(at, Log::IsMadeAnew)).collect();
    nodes[0].publish(0);
    converse(&mut nodes[0], 0, &mut server, 0, |_| false);
    assert_eq!(server.last(), 1);
    // The second node has requested the description of the log. Its next request creates a consumer.
    let asks = |sent: &[u8]| String::from_utf8_lossy(sent).contains("STREAM.INFO");
    converse(&mut nodes[1], 1, &mut server, 0, asks);
    let connection = server.connections.get_mut(&1).unwrap();
    let described = std::mem::take(&mut connection.output);
    // Now the log is deleted, and the first node recreates it and publishes.
    server.delete();
    server.connections.remove(&0);
    nodes[0].bridge.handle_closed("cut", 0);
    nodes[0].publish(0);
    nodes[0].publish(0);
    converse(&mut nodes[0], 0, &mut server, 60_000, |_| false);
    assert_eq!((server.life, server.last()), (2, 2));
    nodes[1].bridge.handle_input(&described, 60_000);
    for turn in 1..10 {
        converse(&mut nodes[1], 1, &mut server, 60_000 + turn * 1_000, |_| {
            false
        });
    }
    let events = |node: &Node| -> Vec<Delivered> {
        let is_event = |it: &&Delivered| matches!(it, Delivered::Event(..));
        node.delivered.iter().filter(is_event).cloned().collect()
    };
    let of_second_log = &events(&nodes[0])[1..];
    assert_eq!(of_second_log.len(), 2);
    assert!(nodes[1].is_ready);
    assert_eq!(
        nodes[1].reached().map(|place| place.epoch),
        nodes[0].reached().map(|place| place.epoch)
    );
    assert!(
        events(&nodes[1])
            .iter()
            .all(|it| of_second_log.contains(it))
    );
}

/// The recreated log has the same positions with other messages.
#[test]
fn older_messages_of_a_recreated_log_are_a_gap() {
    let mut server = Server {
        first: 1,
        ..Server::default()
    };
    let mut node = Node::new(0, Log::IsMadeAnew);
    for _ in 0..5 {
        node.publish(0);
    }
    converse(&mut node, 0, &mut server, 0, |_| false);
    let reached = node.reached().unwrap();
    assert_eq!(reached.seq, 5);
    let request = PastRequest {
        id: 0,
        epoch: reached.epoch,
        after: 1,
        up_to: 5,
        oldest_ms: 0,
        events_max: 100,
        bytes_max: 1 << 20,
        channels: CHANNELS.iter().map(|name| name.to_vec()).collect(),
        events_only: false,
    };
    node.asked.insert(0, request.clone());
    node.bridge.ask_past(request, 0);
    // The log is recreated before the request arrives.
    let mut other = Node::new(1, Log::IsMadeAnew);
    server.delete();
    for _ in 0..5 {
        other.publish(1);
    }
    converse(&mut other, 1, &mut server, 0, |_| false);
    assert_eq!((server.life, server.last()), (2, 5));
    converse(&mut node, 0, &mut server, 10, |_| false);
    assert!(node.asked.is_empty());
    assert_eq!(node.answers, 0);
}
