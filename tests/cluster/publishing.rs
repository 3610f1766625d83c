//! Publishers wait for the log; handlers and clients never do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fermata_testkit::sse::{Follower, Stream};
use fermata_testkit::{LogServer, Signal, over_each_log, send_signal, wait_until};

use crate::node::{bridge_pid, node, wait_ready};

over_each_log!(
    a_worker_serves_others_while_handlers_wait_for_the_log,
    events_of_many_tasks_are_published_once_and_each_in_its_order,
    a_publisher_that_does_not_wait_gets_no_id_and_needs_no_log,
    a_server_whose_bridge_hangs_is_not_ready,
);

fn a_worker_serves_others_while_handlers_wait_for_the_log(log: LogServer) {
    let server = node(&log).workers(1).start();
    wait_ready(&server, 200);
    let mut follower = Follower::new(server.address(), "/events");
    follower.connect();
    let published = AtomicUsize::new(0);
    thread::scope(|scope| {
        log.pause();
        for number in 0..20 {
            let (server, published) = (&server, &published);
            scope.spawn(move || {
                // A method of Channel, and FrankenPHP's function.
                let path = ["/publish/news", "/update/news"][number % 2];
                let response = server.connect().post(path, format!("{number}"));
                assert_eq!(response.status(), 200, "{}", response.text());
                published.fetch_add(1, Ordering::Relaxed);
            });
        }
        // The log does not respond, but the only worker still responds.
        let mut connection = server.connect();
        for _ in 0..50 {
            assert_eq!(connection.get("/pid").status(), 200);
        }
        assert_eq!(published.load(Ordering::Relaxed), 0);
        log.resume();
    });
    follower.read_until("all events", |events| events.len() == 20);
    let mut all: Vec<usize> = follower
        .events
        .iter()
        .map(|event| event.data.parse().expect("a number"))
        .collect();
    all.sort_unstable();
    assert_eq!(all, (0..20).collect::<Vec<_>>());
}

fn events_of_many_tasks_are_published_once_and_each_in_its_order(log: LogServer) {
    let server = node(&log).workers(1).start();
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

fn a_publisher_that_does_not_wait_gets_no_id_and_needs_no_log(mut log: LogServer) {
    let server = node(&log).setting("publish_wait_ms_max", 60_000).start();
    wait_ready(&server, 200);
    let mut stream = Stream::open(server.connect(), "/events", None);
    let response = server.connect().post("/publish-local/news", "first");
    assert_eq!((response.status(), response.text()), (200, ""));
    assert_eq!(stream.next_event().data, "first");
    log.kill();
    wait_ready(&server, 503);
    let response = server.connect().post("/publish-local/news", "second");
    assert_eq!((response.status(), response.text()), (200, ""));
    // The log is back before the event is too old to be sent.
    log.restart();
    assert_eq!(stream.next_event().data, "second");
}

fn a_server_whose_bridge_hangs_is_not_ready(log: LogServer) {
    let server = node(&log).setting("publish_wait_ms_max", 100).start();
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
