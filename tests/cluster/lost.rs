//! Events that the log had when a server connects are history. No live client receives them,
//! whatever the log has lost and whenever the client connected.

use std::time::Duration;

use fermata_testkit::sse::{Item, Stream};
use fermata_testkit::websocket::Socket;
use fermata_testkit::{LogServer, Relay, Server, Signal, over_each_log, send_signal, wait_until};
use fermata_tests::health::of_operators;
use fermata_tests::publish;

use crate::node::{PATIENT_MS, bridge_pid, node, node_at, wait_ready};

over_each_log!(
    a_client_of_a_server_that_starts_gets_nothing_of_the_past,
    a_client_with_an_id_waits_until_the_log_is_known,
    a_log_that_was_rolled_back_is_one_gap_and_what_comes_then,
    a_publish_after_the_log_was_deleted_has_an_id_of_its_own,
    a_server_with_history_of_a_former_life_gives_its_clients_no_past,
);

/// Publishes many events in one request.
fn publish_many(server: &Server, prefix: &str, count: usize) {
    let target = format!("/publish-many/news?count={count}&tasks=1&prefix={prefix}");
    let response = server.connect().post(&target, "");
    assert_eq!(response.status(), 200, "{}", response.text());
}

/// Returns names and data of the events up to one with this data.
#[track_caller]
fn read_until(stream: &mut Stream, last: &str) -> Vec<(String, String)> {
    let mut read = Vec::new();
    while read.last().is_none_or(|(_, data)| data != last) {
        let event = stream.next_event();
        read.push((event.name, event.data));
    }
    read
}

fn event(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

fn gaps(server: &Server, reason: &str) -> u64 {
    let metrics = of_operators(server, "/metrics");
    let label = format!("reason=\"{reason}\"");
    let lines = metrics.text().lines();
    let lines =
        lines.filter(|line| line.starts_with("fermata_gaps_total{") && line.contains(&label));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

fn a_log_that_was_rolled_back_is_one_gap_and_what_comes_then(mut log: LogServer) {
    let servers = [(); 2].map(|()| node(&log).workers(1).start());
    for server in &servers {
        wait_ready(server, 200);
    }
    publish_many(&servers[0], "before", 500);
    let older = log.save();
    let mut live: Vec<Stream> = servers
        .iter()
        .map(|server| Stream::open(server.connect(), "/events", None))
        .collect();
    let mut socket = Socket::open(servers[0].connect(), "/socket");
    socket.next_text();
    publish(&servers[0], "news", "lost");
    for stream in &mut live {
        // The second server may have lagged behind when its client connected.
        read_until(stream, "lost");
    }
    assert_eq!(socket.next_text(), "lost");
    let id = publish(&servers[0], "news", "lost as well");
    for stream in &mut live {
        read_until(stream, "lost as well");
    }
    assert_eq!(socket.next_text(), "lost as well");
    log.roll_back(&older);
    for server in &servers {
        wait_until("the server has noticed", || {
            (gaps(server, "log_lost") > 0).then_some(())
        });
        wait_ready(server, 200);
    }
    publish(&servers[1], "news", "after");
    for stream in &mut live {
        assert_eq!(
            read_until(stream, "after"),
            [
                event("gap", "{\"reason\":\"log lost\"}"),
                event("message", "after")
            ]
        );
    }
    // The route's policy closes a socket, with the matching close code.
    assert_eq!(
        socket.expect_close(1013),
        "the log of the cluster has lost messages; connect again and load the state"
    );
    // A client that resumes with an earlier id also receives a gap and no history.
    let mut back = Stream::open(servers[1].connect(), "/events", Some(&id));
    assert_eq!(back.next_event().name, "gap");
    publish(&servers[0], "news", "later");
    assert_eq!(read_until(&mut back, "later"), [event("message", "later")]);
    assert_eq!(gaps(&servers[0], "too_slow"), 0);
    let response = servers[0].connect().get("/history/news?count=3");
    assert!(
        response.text().contains("before0:499"),
        "{}",
        response.text()
    );
}

fn a_client_of_a_server_that_starts_gets_nothing_of_the_past(log: LogServer) {
    let first = node(&log).workers(1).start();
    wait_ready(&first, 200);
    let id = publish(&first, "news", "first");
    publish_many(&first, "before", 3_000);
    // The log's history arrives slowly, so that clients connect in the middle of it.
    let relay = Relay::start(&log);
    relay.hold();
    let late = node_at("hub", &relay.url())
        .workers(1)
        .setting("history_count_max", 5_000)
        .start();
    let mut early = Stream::open(late.connect(), "/events", None);
    let mut back = Stream::open(late.connect(), "/events", Some(&id));
    relay.heal();
    let mut streams: Vec<Stream> = Vec::new();
    wait_until("it is ready", || {
        streams.push(Stream::open(late.connect(), "/events", None));
        let ready = fermata_tests::health::readiness(&late) == 200;
        ready.then_some(())
    });
    publish(&first, "news", "live");
    // The first client may have connected before the log was reachable.
    for stream in &mut streams {
        let read = read_until(stream, "live");
        assert!(read.len() <= 2 && read.iter().all(|(_, data)| !data.starts_with("before")));
    }
    // The client connected before the log was reachable, so it may have missed events and receives
    // one gap.
    let read = read_until(&mut early, "live");
    assert_eq!(
        read,
        [
            event("gap", "{\"reason\":\"log lost\"}"),
            event("message", "live")
        ]
    );
    let read = read_until(&mut back, "live");
    let numbers = read.iter().map(|(_, data)| data.as_str());
    let expected: Vec<String> = (0..3_000)
        .map(|number| format!("before0:{number}"))
        .collect();
    let expected = expected.iter().map(String::as_str).chain(["live"]);
    assert!(
        numbers.eq(expected),
        "it gets what it has missed, once and in order"
    );
}

fn a_client_with_an_id_waits_until_the_log_is_known(mut log: LogServer) {
    let first = node(&log).workers(1).start();
    wait_ready(&first, 200);
    let id = publish(&first, "news", "one");
    publish(&first, "news", "two");
    log.kill();
    let second = node(&log).workers(1).start();
    let mut stream = Stream::open(second.connect(), "/events", Some(&id));
    // Longer than a client waits for a server that has its log.
    stream.expect_silence(Duration::from_millis(3_000));
    log.restart();
    wait_ready(&second, 200);
    assert_eq!(read_until(&mut stream, "two"), [event("message", "two")]);
    wait_ready(&first, 200);
    publish(&first, "news", "three");
    assert_eq!(
        read_until(&mut stream, "three"),
        [event("message", "three")]
    );
}

fn a_server_with_history_of_a_former_life_gives_its_clients_no_past(log: LogServer) {
    let folder = fermata_testkit::Directory::new();
    let file = folder.join("history");
    let start = |url: &str| {
        node_at("hub", url)
            .workers(1)
            .setting("history_path", file.display())
            .start()
    };
    let first = node(&log).workers(1).start();
    let second = start(&log.url());
    for server in [&first, &second] {
        wait_ready(server, 200);
    }
    let id = publish(&first, "news", "one");
    let mut stream = Stream::open(second.connect(), "/events", None);
    drop(second);
    while !matches!(stream.next_item(), Item::End(_)) {}
    publish_many(&first, "away", 100);
    let relay = Relay::start(&log);
    relay.hold();
    let again = start(&relay.url());
    let mut stream = Stream::open(again.connect(), "/events", None);
    let mut back = Stream::open(again.connect(), "/events", Some(&id));
    relay.heal();
    wait_ready(&again, 200);
    publish(&first, "news", "live");
    let read = read_until(&mut stream, "live");
    assert!(
        read.iter().all(|(_, data)| !data.starts_with("away")),
        "{read:?}"
    );
    assert_eq!(read_until(&mut back, "live").len(), 101);
}

fn a_publish_after_the_log_was_deleted_has_an_id_of_its_own(log: LogServer) {
    let servers = [(); 2].map(|()| {
        node(&log)
            .workers(1)
            .setting("publish_wait_ms_max", PATIENT_MS)
            .start()
    });
    for server in &servers {
        wait_ready(server, 200);
    }
    let mut ids: Vec<String> = (0..5)
        .map(|number| publish(&servers[0], "news", &format!("old{number}")))
        .collect();
    // One server's bridge is stopped while the log is deleted and created again.
    let bridge = bridge_pid(&servers[0]);
    assert!(send_signal(bridge, Signal::Stop));
    log.delete_log("fermata");
    wait_until("another server has made it anew", || {
        let response = servers[1].connect().post("/publish/news", "new");
        (response.status() == 200).then(|| ids.push(response.text().to_owned()))
    });
    for number in 0..7 {
        ids.push(publish(&servers[1], "news", &format!("new{number}")));
    }
    assert!(send_signal(bridge, Signal::Continue));
    for number in 0..20 {
        ids.push(publish(&servers[0], "news", &format!("again{number}")));
    }
    let epoch = |id: &str| id.split_once('-').expect("EPOCH-NUMBER").0.to_owned();
    assert_eq!(epoch(&ids[10]), epoch(ids.last().expect("some")));
    assert_ne!(epoch(&ids[0]), epoch(&ids[10]));
    let mut once = ids.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "an id is of one event: {ids:?}");
}
