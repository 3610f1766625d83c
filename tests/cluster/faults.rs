//! The log, bridges and workers are killed while events are published: acknowledged events reach
//! each client once.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fermata_testkit::sse::{Follower, Stream};
use fermata_testkit::{
    Connection, LogServer, Server, Signal, over_each_log, send_signal, wait_until,
};

use fermata_tests::publish;

use crate::node::{bridge_pid, cluster_figure, node, readiness, wait_ready};

over_each_log!(
    a_client_that_is_ahead_waits_until_the_log_is_back,
    without_the_log_publishing_fails_and_held_clients_stay,
    whatever_is_killed_nothing_is_lost_doubled_or_out_of_order,
);

/// Publishes an event, and retries until this succeeds.
fn publish_at_last(server: &Server, data: &str) {
    wait_until("the event is published", || {
        let response = server.connect().post("/publish/news", data);
        (response.status() == 200).then_some(())
    });
}

fn a_client_that_is_ahead_waits_until_the_log_is_back(mut log: LogServer) {
    let (first, second) = (node(&log).start(), node(&log).start());
    wait_ready(&first, 200);
    wait_ready(&second, 200);
    // The second server misses these events: its bridge is stopped, then its log is down.
    let bridge = bridge_pid(&second);
    assert!(send_signal(bridge, Signal::Stop));
    let id = publish(&first, "news", "one");
    log.kill();
    assert!(send_signal(bridge, Signal::Kill));
    wait_ready(&second, 503);
    let mut stream = Stream::open(second.connect(), "/events", Some(&id));
    // Longer than a client waits for a server that has its log.
    stream.expect_silence(Duration::from_millis(3_000));
    log.restart();
    wait_ready(&second, 200);
    publish_at_last(&first, "two");
    let event = stream.next_event();
    assert_eq!((&event.name[..], &event.data[..]), ("message", "two"));
}

fn without_the_log_publishing_fails_and_held_clients_stay(mut log: LogServer) {
    let nodes: Vec<Server> = (0..2)
        .map(|_| node(&log).setting("publish_wait_ms_max", 1_000).start())
        .collect();
    for node in &nodes {
        wait_ready(node, 200);
    }
    let mut stream = Stream::open(nodes[1].connect(), "/events", None);
    publish_at_last(&nodes[0], "before");
    assert_eq!(stream.next_event().data, "before");
    // Servers also publish presence records, so most numbers cannot be checked exactly.
    assert_eq!(cluster_figure(&nodes[0], "ready"), 1);
    assert!(cluster_figure(&nodes[0], "published_total") > 0);
    assert!(cluster_figure(&nodes[1], "received_total") > 0);
    assert_eq!(cluster_figure(&nodes[1], "disconnects_total"), 0);
    log.kill();
    for node in &nodes {
        wait_ready(node, 503);
    }
    assert_eq!(cluster_figure(&nodes[1], "ready"), 0);
    wait_until("it is counted", || {
        (cluster_figure(&nodes[1], "disconnects_total") == 1).then_some(())
    });
    wait_until("publishing fails", || {
        let response = nodes[0].connect().post("/publish/news", "lost");
        (response.status() != 200).then_some(())
    });
    nodes[0].log().wait_for(0, "BackpressureException");
    log.restart();
    for node in &nodes {
        wait_ready(node, 200);
    }
    publish_at_last(&nodes[0], "after");
    // The connection stays open and receives no gap. Events that were rejected may have been
    // published anyway.
    let mut event = stream.next_event();
    while event.data != "after" {
        assert_ne!(event.name, "gap");
        event = stream.next_event();
    }
    assert_eq!(cluster_figure(&nodes[1], "gaps_total"), 0);
}

/// Publishes numbers until it is stopped. Returns the acknowledged numbers, and numbers that may
/// have been published anyway.
fn publish_numbers(
    server: &Server,
    name: &str,
    stops: &AtomicBool,
) -> (Vec<String>, BTreeSet<String>) {
    let (mut acknowledged, mut doubtful) = (Vec::new(), BTreeSet::new());
    let mut number = 0;
    while !stops.load(Ordering::Relaxed) {
        number += 1;
        let data = format!("{name}{number}");
        let status = Connection::try_open(server.address()).and_then(|mut connection| {
            let response = connection.try_request("POST", "/publish/news", &[], data.as_bytes());
            response
                .map(|response| response.status())
                .map_err(|error| std::io::Error::other(format!("{error:?}")))
        });
        match status {
            Ok(200) => acknowledged.push(data),
            _ => {
                doubtful.insert(data);
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    (acknowledged, doubtful)
}

fn whatever_is_killed_nothing_is_lost_doubled_or_out_of_order(log: LogServer) {
    let log = Mutex::new(log);
    let nodes: Vec<Server> = (0..2)
        .map(|_| node(&log.lock().expect("it is ours")).workers(2).start())
        .collect();
    for node in &nodes {
        wait_ready(node, 200);
    }
    let mut followers: Vec<Follower> = nodes
        .iter()
        .map(|node| Follower::new(node.address(), "/events"))
        .collect();
    for follower in &mut followers {
        follower.connect();
    }
    let stops = AtomicBool::new(false);
    let (mut acknowledged, mut doubtful) = (Vec::new(), BTreeSet::new());
    thread::scope(|scope| {
        let publishers: Vec<_> = ["a", "b"]
            .iter()
            .zip(&nodes)
            .map(|(name, node)| scope.spawn(|| publish_numbers(node, name, &stops)))
            .collect();
        let pause = || thread::sleep(Duration::from_millis(150));
        for round in 0..2 {
            pause();
            let bridge = bridge_pid(&nodes[round]);
            assert!(send_signal(bridge, Signal::Kill));
            wait_until("there is another bridge", || {
                (bridge_pid(&nodes[round]) != bridge).then_some(())
            });
            pause();
            let worker = nodes[round].worker_pids()[&0];
            assert!(send_signal(worker, Signal::Kill));
            nodes[round].wait_replaced(0, worker);
            pause();
            log.lock().expect("it is ours").restart();
            pause();
            // Clients change to the other server with their last id.
            let seen = followers[0].events.len();
            followers[0].read_until("some events", |events| events.len() > seen + 5);
            let id = followers[0].last_event_id.clone();
            // A server that lags behind the client's position would send a gap after some time.
            wait_ready(&nodes[1 - round], 200);
            followers[0] = follow_on(&mut followers[0], nodes[1 - round].address(), id);
        }
        for node in &nodes {
            wait_until("the server is ready again", || {
                (readiness(node) == 200).then_some(())
            });
        }
        stops.store(true, Ordering::Relaxed);
        for publisher in publishers {
            let (done, unknown) = publisher.join().expect("it does not panic");
            acknowledged.push(done);
            doubtful.extend(unknown);
        }
    });
    publish_at_last(&nodes[0], "the end");
    let mut told = Vec::new();
    for follower in &mut followers {
        follower.read_until("the end", |events| {
            events.iter().any(|event| event.data == "the end")
        });
        let events: Vec<_> = follower
            .events
            .iter()
            .map(|event| (event.name.clone(), event.data.clone()))
            .take_while(|(_, data)| data != "the end")
            .collect();
        assert!(
            events.iter().all(|(name, _)| name != "gap"),
            "a gap: {events:?}"
        );
        told.push(events.into_iter().map(|(_, data)| data).collect::<Vec<_>>());
    }
    assert_eq!(told[0], told[1]);
    let all: BTreeSet<&String> = told[0].iter().collect();
    assert_eq!(all.len(), told[0].len(), "nothing is doubled");
    for done in &acknowledged {
        assert!(!done.is_empty());
        let name = &done[0][..1];
        let own: Vec<&String> = told[0]
            .iter()
            .filter(|data| data.starts_with(name) && !doubtful.contains(*data))
            .collect();
        assert_eq!(
            own,
            done.iter().collect::<Vec<_>>(),
            "all of them, in their order"
        );
    }
}

/// Returns the same client at another server.
fn follow_on(before: &mut Follower, address: std::net::SocketAddr, id: Option<String>) -> Follower {
    before.disconnect();
    let mut after = Follower::new(address, "/events");
    after.last_event_id = id;
    after.events = std::mem::take(&mut before.events);
    after.connect();
    after
}
