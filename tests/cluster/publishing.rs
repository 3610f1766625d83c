//! Publishers wait for the log, and nobody waits for them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fermata_testkit::sse::{Follower, Stream};
use fermata_testkit::{Nats, Signal, send_signal, wait_until};

use crate::node::{bridge_pid, node, wait_ready};

#[test]
fn a_worker_serves_others_while_handlers_wait_for_the_log() {
    let Some(nats) = Nats::start() else { return };
    let server = node(&nats).workers(1).start();
    wait_ready(&server, 200);
    let mut follower = Follower::new(server.address(), "/events");
    follower.connect();
    let published = AtomicUsize::new(0);
    thread::scope(|scope| {
        nats.pause();
        for number in 0..20 {
            let (server, published) = (&server, &published);
            scope.spawn(move || {
                let response = server.connect().post("/publish/news", format!("{number}"));
                assert_eq!(response.status(), 200, "{}", response.text());
                published.fetch_add(1, Ordering::Relaxed);
            });
        }
        // The log answers nobody, the one worker does.
        let mut connection = server.connect();
        for _ in 0..50 {
            assert_eq!(connection.get("/pid").status(), 200);
        }
        assert_eq!(published.load(Ordering::Relaxed), 0);
        nats.resume();
    });
    follower.read_until("all events", |events| events.len() == 20);
    let mut all: Vec<u32> = follower
        .events
        .iter()
        .map(|event| event.data.parse().expect("a number"))
        .collect();
    all.sort_unstable();
    assert_eq!(all, (0..20).collect::<Vec<_>>());
}

#[test]
fn events_of_many_tasks_are_published_once_and_each_in_its_order() {
    let Some(nats) = Nats::start() else { return };
    let server = node(&nats).workers(1).start();
    wait_ready(&server, 200);
    for ack in ["cluster", "local"] {
        let mut follower = Follower::new(server.address(), &format!("/events?channels={ack}"));
        follower.connect();
        let path = format!("/publish-many/{ack}?count=1600&tasks=16&ack={ack}");
        let response = server.connect().post(&path, "");
        assert_eq!(response.status(), 200, "{}", response.text());
        follower.read_until("all events", |events| events.len() == 1600);
        for task in 0..16 {
            let own: Vec<usize> = follower
                .events
                .iter()
                .filter_map(|event| event.data.strip_prefix(&format!("{task}:")))
                .map(|number| number.parse().expect("a number"))
                .collect();
            assert_eq!(own, (0..100).collect::<Vec<_>>(), "task {task}, ack {ack}");
        }
    }
}

#[test]
fn who_does_not_wait_gets_no_id_and_needs_no_log() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let server = node(&nats).setting("publish_wait_ms_max", 60_000).start();
    wait_ready(&server, 200);
    let mut stream = Stream::open(server.connect(), "/events", None);
    let response = server.connect().post("/publish-local/news", "first");
    assert_eq!((response.status(), response.text()), (200, ""));
    assert_eq!(stream.next_event().data, "first");
    nats.kill();
    wait_ready(&server, 503);
    let response = server.connect().post("/publish-local/news", "second");
    assert_eq!((response.status(), response.text()), (200, ""));
    // It is back before the event is too old to be sent.
    nats.restart();
    assert_eq!(stream.next_event().data, "second");
}

#[test]
fn a_server_whose_bridge_hangs_is_not_ready() {
    let Some(nats) = Nats::start() else { return };
    let server = node(&nats).setting("publish_wait_ms_max", 100).start();
    wait_ready(&server, 200);
    let bridge = bridge_pid(&server);
    assert!(send_signal(bridge, Signal::Stop));
    wait_ready(&server, 503);
    wait_until("publishing fails", || {
        let response = server.connect().post("/publish/news", "refused");
        (response.status() != 200).then_some(())
    });
    assert!(send_signal(bridge, Signal::Continue));
    wait_ready(&server, 200);
    assert_eq!(bridge_pid(&server), bridge);
}
