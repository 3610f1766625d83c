//! Events have one order and one id on every server.

use std::thread;

use fermata_testkit::sse::{Follower, Stream};
use fermata_testkit::{LogServer, Server, over_each_log};
use fermata_tests::{json, publish};

use crate::node::{node, wait_ready};

over_each_log!(
    all_servers_have_one_order_in_live_events_replay_and_history,
    a_server_that_comes_later_has_the_past_under_the_same_ids,
    applications_do_not_see_each_other,
    a_client_that_has_everything_is_told_of_what_its_server_leaves_out,
);

const EVENTS: usize = 60;

fn all_servers_have_one_order_in_live_events_replay_and_history(log: LogServer) {
    let servers: Vec<Server> = (0..3).map(|_| node(&log).start()).collect();
    for server in &servers {
        wait_ready(server, 200);
    }
    let mut followers: Vec<Follower> = servers
        .iter()
        .map(|server| Follower::new(server.address(), "/events"))
        .collect();
    for follower in &mut followers {
        follower.connect();
    }
    thread::scope(|scope| {
        for (at, server) in servers.iter().enumerate() {
            scope.spawn(move || {
                for number in 0..EVENTS {
                    publish(server, "news", &format!("{at}:{number}"));
                }
            });
        }
    });
    let mut orders = Vec::new();
    for follower in &mut followers {
        follower.read_until("all events", |events| events.len() == 3 * EVENTS);
        let order: Vec<_> = follower
            .events
            .iter()
            .map(|event| {
                (
                    event.id.clone().expect("events have ids"),
                    event.data.clone(),
                )
            })
            .collect();
        orders.push(order);
    }
    assert_eq!(orders[0], orders[1]);
    assert_eq!(orders[0], orders[2]);
    for at in 0..3 {
        let own: Vec<&str> = orders[0]
            .iter()
            .filter_map(|(_, data)| data.strip_prefix(&format!("{at}:")))
            .collect();
        let expected: Vec<String> = (0..EVENTS).map(|number| number.to_string()).collect();
        assert_eq!(own, expected, "what server {at} has published");
    }
    let histories: Vec<_> = servers
        .iter()
        .map(|server| json(&server.connect().get("/history/news")))
        .collect();
    assert_eq!(histories[0], histories[1]);
    assert_eq!(histories[0], histories[2]);
    // Every id is valid on every server, for clients and for handlers.
    for (at, server) in servers.iter().enumerate() {
        let (id, _) = &orders[0][40 + at];
        let mut stream = Stream::open(server.connect(), "/events", Some(id));
        let rest: Vec<_> = stream
            .next_events(3 * EVENTS - 41 - at)
            .into_iter()
            .map(|event| (event.id.expect("events have ids"), event.data))
            .collect();
        assert_eq!(rest, orders[0][41 + at..]);
        let since = json(&server.connect().get(&format!("/history/news?since={id}")));
        assert_eq!(since.as_array().map(Vec::len), Some(3 * EVENTS - 41 - at));
    }
}

fn a_server_that_comes_later_has_the_past_under_the_same_ids(log: LogServer) {
    let first = node(&log).start();
    wait_ready(&first, 200);
    let ids: Vec<String> = (0..5)
        .map(|number| publish(&first, "news", &number.to_string()))
        .collect();
    drop(first);
    let second = node(&log).start();
    wait_ready(&second, 200);
    let mut stream = Stream::open(second.connect(), "/events", Some(&ids[1]));
    for (event, number) in stream.next_events(3).into_iter().zip(2..) {
        assert_eq!(event.data, number.to_string());
        assert_eq!(event.id.as_ref(), Some(&ids[number]));
    }
    // An id that was not issued by a server of this log results in a gap.
    let mut stream = Stream::open(second.connect(), "/events", Some("abc-1"));
    assert_eq!(stream.next_event().name, "gap");
}

/// A server skips events larger than its own limit, and reports them like lost events.
fn a_client_that_has_everything_is_told_of_what_its_server_leaves_out(log: LogServer) {
    let small = node(&log).start();
    let large = node(&log).setting("event_bytes_max", 200_000).start();
    wait_ready(&small, 200);
    wait_ready(&large, 200);
    let mut stream = Stream::open(small.connect(), "/events", None);
    for round in 0..3 {
        let before = publish(&large, "news", "before");
        let event = stream.next_event();
        assert_eq!((event.data.as_str(), event.id), ("before", Some(before)));
        publish(&large, "news", &"x".repeat(100_000));
        let gap = stream.next_event();
        assert_eq!(gap.name, "gap", "round {round}: {gap:?}");
        let behind = publish(&large, "news", "behind");
        let event = stream.next_event();
        assert_eq!((event.data.as_str(), event.id), ("behind", Some(behind)));
    }
}

fn applications_do_not_see_each_other(log: LogServer) {
    let one = node(&log).setting("cluster_prefix", "one").start();
    let other = node(&log).setting("cluster_prefix", "other").start();
    wait_ready(&one, 200);
    wait_ready(&other, 200);
    let mut stream = Stream::open(other.connect(), "/events", None);
    publish(&one, "news", "of one");
    publish(&other, "news", "of the other");
    assert_eq!(stream.next_event().data, "of the other");
}
