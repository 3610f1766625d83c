//! Clients that resume from before the start of their server's ring: the server reads older events
//! from the log.

use std::time::Duration;

use fermata_testkit::sse::Stream;
use fermata_testkit::{LogServer, Server, Signal, over_each_log, send_signal, wait_until};
use fermata_tests::{json, publish};

use crate::node::{bridge_pid, node, wait_ready};

over_each_log!(
    what_a_server_has_no_more_comes_from_the_log,
    a_server_that_came_later_gives_what_was_before_it,
    a_client_from_the_start_receives_what_only_the_log_has,
    a_server_that_came_later_has_the_same_history,
    history_beyond_what_a_server_has_comes_from_the_log,
    history_that_only_the_log_has_is_an_error_while_that_is_away,
    a_slow_client_is_given_everything_though_its_server_forgets_it,
    a_bridge_that_is_killed_leaves_requests_to_the_next_one,
    an_id_of_an_earlier_epoch_is_one_gap_on_every_server,
);

const EVENTS: usize = 300;
/// More events than a server reads at its start, whatever its ring holds.
const MANY: usize = 12_800;
/// Size of the padding, so that a server's ring holds a tenth of the events.
const PADDING: usize = 3_000;

fn small(log: &LogServer) -> Server {
    node(log)
        .setting("history_bytes_max", "128k")
        .setting("event_bytes_max", "8k")
        .setting("history_count_max", 5_000)
        .start()
}

fn publish_numbers(server: &Server, from: usize) {
    let padding = "x".repeat(PADDING);
    for number in from..from + EVENTS {
        publish(server, "news", &format!("{number} {padding}"));
    }
}

/// Reads up to the last number; none may be missing, repeated or out of order.
fn expect_numbers(stream: &mut Stream, from: usize, to: usize) {
    for expected in from..to {
        let event = stream.next_event();
        assert_eq!(event.name, "message", "before {expected}");
        let number = event.data.split(' ').next().expect("a word");
        assert_eq!(number.parse(), Ok(expected));
    }
}

fn what_a_server_has_no_more_comes_from_the_log(log: LogServer) {
    let servers = [small(&log), small(&log)];
    for server in &servers {
        wait_ready(server, 200);
    }
    let id = publish(&servers[0], "news", "before");
    publish_numbers(&servers[0], 0);
    let mut streams: Vec<Stream> = [0, 1, 0, 1]
        .iter()
        .map(|at| Stream::open(servers[*at].connect(), "/events", Some(&id)))
        .collect();
    for stream in &mut streams {
        expect_numbers(stream, 0, EVENTS);
    }
    // Afterwards the clients are live, and receive each event once.
    publish_numbers(&servers[1], EVENTS);
    for stream in &mut streams {
        expect_numbers(stream, EVENTS, 2 * EVENTS);
        stream.expect_silence(Duration::from_millis(50));
    }
}

fn a_server_that_came_later_gives_what_was_before_it(log: LogServer) {
    let first = small(&log);
    wait_ready(&first, 200);
    let id = publish(&first, "news", "before");
    publish_numbers(&first, 0);
    let late = small(&log);
    wait_ready(&late, 200);
    let mut stream = Stream::open(late.connect(), "/events", Some(&id));
    expect_numbers(&mut stream, 0, EVENTS);
    publish_numbers(&first, EVENTS);
    expect_numbers(&mut stream, EVENTS, 2 * EVENTS);
}

fn a_client_from_the_start_receives_what_only_the_log_has(log: LogServer) {
    let first = small(&log);
    wait_ready(&first, 200);
    publish_numbers(&first, 0);
    let late = small(&log);
    // Before the server has reached the log, and afterwards.
    let paths = ["/events?from=start", "/read/news?from=start"];
    let mut streams = Vec::from(paths.map(|path| Stream::open(late.connect(), path, None)));
    wait_ready(&late, 200);
    for path in paths {
        streams.push(Stream::open(late.connect(), path, None));
        streams.push(Stream::open(first.connect(), path, None));
    }
    publish_numbers(&first, EVENTS);
    for stream in &mut streams {
        expect_numbers(stream, 0, 2 * EVENTS);
        stream.expect_silence(Duration::from_millis(50));
    }
}

/// Regression: such a server had only the last 10,000 events of the log.
fn a_server_that_came_later_has_the_same_history(log: LogServer) {
    let first = node(&log).setting("history_count_max", MANY).start();
    wait_ready(&first, 200);
    publish(&first, "old", "before");
    let target = format!("/publish-many/news?count={MANY}&tasks=64");
    assert_eq!(first.connect().post(&target, "").status(), 200);
    let late = node(&log).setting("history_count_max", MANY).start();
    wait_ready(&late, 200);
    for channel in ["old", "news"] {
        let [known, told] = [&first, &late].map(|server| {
            let response = server.connect().get(&format!("/history/{channel}"));
            json(&response)
        });
        let len = known.as_array().map(Vec::len);
        assert_eq!(len, Some(if channel == "old" { 1 } else { MANY }));
        assert!(told == known, "of {channel}");
    }
}

/// Returns the numbers of the events in history.
fn history(server: &Server, query: &str) -> Vec<usize> {
    let response = server.connect().get(&format!("/history/news{query}"));
    assert_eq!(response.status(), 200, "{}", response.text());
    let events = json(&response);
    let events = events.as_array().expect("a list").iter();
    let number = |event: &serde_json::Value| {
        let word = event[2].as_str().and_then(|it| it.split(' ').next());
        word.and_then(|it| it.parse().ok()).expect("a number")
    };
    events.map(number).collect()
}

/// The server's ring holds a tenth of the events.
fn history_beyond_what_a_server_has_comes_from_the_log(log: LogServer) {
    let server = small(&log);
    wait_ready(&server, 200);
    // Records of other channels and presence records are not part of history.
    let mut held = Stream::open(server.connect(), "/events?user=ann", None);
    let ids: Vec<String> = (0..EVENTS)
        .map(|number| {
            if number % 10 == 0 {
                publish(&server, "other", "x");
            }
            let padding = "x".repeat(PADDING);
            publish(&server, "news", &format!("{number} {padding}"))
        })
        .collect();
    held.next_event();
    let late = small(&log);
    wait_ready(&late, 200);
    let all: Vec<usize> = (0..EVENTS).collect();
    for server in [&server, &late] {
        assert_eq!(history(server, ""), all);
        assert_eq!(history(server, "?count=2"), all[EVENTS - 2..]);
        assert_eq!(history(server, "?count=250"), all[EVENTS - 250..]);
        assert_eq!(history(server, &format!("?since={}", ids[9])), all[10..]);
        let query = format!("?count=200&since={}", ids[9]);
        assert_eq!(history(server, &query), all[EVENTS - 200..]);
        let query = format!("?since={}", ids[EVENTS - 1]);
        assert!(history(server, &query).is_empty());
        let response = server.connect().get("/history/none");
        assert_eq!(response.text(), "[]");
    }
    // In the form that clients receive.
    let response = late.connect().get("/history/news");
    let told = json(&response);
    let told = told.as_array().expect("a list").iter();
    assert!(
        told.map(|event| event[0].as_str())
            .eq(ids.iter().map(|id| Some(&id[..])))
    );
    // The request repeats while the ring advances.
    publish_numbers(&late, EVENTS);
    let all: Vec<usize> = (0..2 * EVENTS).collect();
    for server in [&server, &late] {
        wait_until("it has read all", || {
            (history(server, "?count=1") == [2 * EVENTS - 1]).then_some(())
        });
        // The events are one megabyte from the log, and the content of the ring.
        let newest = history(server, "");
        assert!(newest.len() > EVENTS && newest == all[2 * EVENTS - newest.len()..]);
    }
}

fn history_that_only_the_log_has_is_an_error_while_that_is_away(mut log: LogServer) {
    let server = small(&log);
    wait_ready(&server, 200);
    publish_numbers(&server, 0);
    wait_until("it has read all", || {
        (history(&server, "?count=1") == [EVENTS - 1]).then_some(())
    });
    log.kill();
    wait_ready(&server, 503);
    let all: Vec<usize> = (0..EVENTS).collect();
    assert_eq!(history(&server, "?count=5"), all[EVENTS - 5..]);
    let response = server.connect().get("/history/news");
    assert_eq!(response.status(), 500);
    server
        .log()
        .wait_for(0, "the log of the cluster has older ones");
}

fn a_slow_client_is_given_everything_though_its_server_forgets_it(log: LogServer) {
    let server = small(&log);
    wait_ready(&server, 200);
    let id = publish(&server, "news", "before");
    publish_numbers(&server, 0);
    let mut stream = Stream::open(server.connect(), "/events", Some(&id));
    expect_numbers(&mut stream, 0, 5);
    // The client reads nothing while the ring is overwritten several times.
    publish_numbers(&server, EVENTS);
    publish_numbers(&server, 2 * EVENTS);
    expect_numbers(&mut stream, 5, 3 * EVENTS);
}

fn a_bridge_that_is_killed_leaves_requests_to_the_next_one(log: LogServer) {
    let server = small(&log);
    wait_ready(&server, 200);
    let id = publish(&server, "news", "before");
    publish_numbers(&server, 0);
    let bridge = bridge_pid(&server);
    assert!(send_signal(bridge, Signal::Stop));
    let mut stream = Stream::open(server.connect(), "/events", Some(&id));
    stream.expect_silence(Duration::from_millis(200));
    assert!(send_signal(bridge, Signal::Kill));
    expect_numbers(&mut stream, 0, EVENTS);
}

/// A log that was created again stores other events at the positions of earlier ids.
fn an_id_of_an_earlier_epoch_is_one_gap_on_every_server(mut log: LogServer) {
    let before = node(&log).start();
    wait_ready(&before, 200);
    let ids: Vec<String> = (0..10)
        .map(|number| publish(&before, "news", &number.to_string()))
        .collect();
    log.restart_empty();
    wait_until("the log has a new epoch", || {
        let response = before.connect().post("/publish/news", "first");
        let (epoch, _) = ids[0].split_once('-').expect("an epoch and a number");
        (response.status() == 200 && !response.text().starts_with(epoch)).then_some(())
    });
    // One server that was running before, and one that was started afterwards.
    let after = node(&log).start();
    for server in [&before, &after] {
        wait_ready(server, 200);
    }
    for round in 0..2 {
        // Positions that exist again in the new log, and one that does not exist yet.
        for id in [&ids[0], &ids[1], &ids[9]] {
            for server in [&before, &after] {
                let mut stream = Stream::open(server.connect(), "/events", Some(id));
                let gap = stream.next_event();
                assert_eq!(gap.name, "gap", "round {round}, since {id}");
                let end = format!("round {round} behind {id}");
                let last = publish(&after, "news", &end);
                let mut event = stream.next_event();
                while event.data != end {
                    assert_eq!(event.name, "message", "round {round}, since {id}");
                    event = stream.next_event();
                }
                assert_eq!(event.id.as_ref(), Some(&last));
                // A client that resumes from the new epoch receives no gap.
                let mut stream = Stream::open(before.connect(), "/events", Some(&last));
                let next = publish(&after, "news", "next");
                assert_eq!(stream.next_event().id, Some(next));
            }
        }
        publish_numbers(&after, 0);
    }
}
