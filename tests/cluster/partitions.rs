//! Network failures: a server is disconnected from its log, or its connection stays open without
//! delivering bytes.

use std::thread;
use std::time::Duration;

use fermata_testkit::sse::Stream;
use fermata_testkit::{LogServer, Relay, Server, over_each_log, wait_until};
use fermata_tests::{json, publish};

use crate::node::{cluster_figure, node, wait_ready};
use crate::presence::{join, members, next, start_as, told, wait_members};

over_each_log!(
    a_server_that_was_cut_off_has_what_others_published,
    what_the_log_has_lost_meanwhile_is_one_gap,
    a_half_open_connection_loses_and_doubles_nothing,
    an_event_whose_acknowledgement_is_lost_is_there_once,
    members_of_a_server_that_is_cut_off_leave_once_and_come_back_once,
    members_behind_a_half_open_connection_leave_once_and_come_back_once,
);

/// Number of events published while a server is disconnected.
const EVENTS: usize = 20;
/// Number of events in history (`history_count_max`), fewer than the smallest log retains.
const HISTORY: usize = 500;
/// More than the smallest log retains.
const TOO_MANY: usize = 2_500;
/// Publisher's time-out on a server that must reject publishes.
const WAIT_MS: u64 = 1_000;

fn publish_numbers(server: &Server) {
    for number in 0..EVENTS {
        publish(server, "news", &number.to_string());
    }
}

/// Returns the data of the events up to the last one. The log has retained the missed events, so
/// there is no gap.
fn read_to(stream: &mut Stream, last: &str) -> Vec<String> {
    let mut all = Vec::new();
    while all.last().map(String::as_str) != Some(last) {
        let event = stream.next_event();
        assert_eq!(event.name, "message", "after {all:?}");
        all.push(event.data);
    }
    all
}

fn numbers_and(rest: &[&str]) -> Vec<String> {
    let numbers = (0..EVENTS).map(|number| number.to_string());
    let rest = rest.iter().map(|data| (*data).to_owned());
    numbers.chain(rest).collect()
}

fn expect_same_history(servers: &[&Server]) {
    let [first, rest @ ..] = servers else { return };
    let history = |server: &Server| json(&server.connect().get("/history/news"));
    for server in rest {
        assert_eq!(history(first), history(server));
    }
}

fn a_server_that_was_cut_off_has_what_others_published(log: LogServer) {
    let relay = Relay::start(&log);
    let there = node(&log).start();
    let away = node(&log).setting("publish_wait_ms_max", WAIT_MS);
    let away = relay.before(away).start();
    for server in [&there, &away] {
        wait_ready(server, 200);
    }
    let mut streams = [&there, &away].map(|it| Stream::open(it.connect(), "/events", None));
    let id = publish(&away, "news", "before");
    for stream in &mut streams {
        assert_eq!(read_to(stream, "before"), ["before"]);
    }
    relay.cut();
    wait_ready(&away, 503);
    let response = away.connect().post("/publish/news", "refused");
    assert_ne!(response.status(), 200);
    away.log().wait_for(0, "BackpressureException");
    wait_ready(&there, 200);
    publish_numbers(&there);
    streams[1].expect_silence(Duration::from_millis(100));
    // A client that connects now is held, and receives the missed events like the others.
    let late = Stream::open(away.connect(), "/events", Some(&id));
    relay.delay(Duration::from_millis(20));
    wait_ready(&away, 200);
    publish(&away, "news", "after");
    let [first, second] = streams;
    let resumed = Stream::open(away.connect(), "/events", Some(&id));
    for mut stream in [first, second, late, resumed] {
        assert_eq!(read_to(&mut stream, "after"), numbers_and(&["after"]));
    }
    assert_eq!(cluster_figure(&away, "gaps_total"), 0);
    expect_same_history(&[&there, &away]);
}

/// The log retains too few events: clients receive one gap and all later events.
fn what_the_log_has_lost_meanwhile_is_one_gap(log: LogServer) {
    let relay = Relay::start(&log);
    let small = || {
        node(&log)
            .setting("cluster_bytes_max", "1m")
            .setting("cluster_events_max", 1_000)
            .setting("history_count_max", HISTORY)
    };
    let there = small().start();
    let away = relay.before(small()).start();
    for server in [&there, &away] {
        wait_ready(server, 200);
    }
    let mut live = Stream::open(away.connect(), "/events", None);
    let id = publish(&there, "news", "before");
    assert_eq!(read_to(&mut live, "before"), ["before"]);
    relay.cut();
    wait_ready(&away, 503);
    let padding = "x".repeat(1_000);
    for number in 0..TOO_MANY {
        publish(&there, "news", &format!("{number} {padding}"));
    }
    relay.delay(Duration::ZERO);
    wait_ready(&away, 200);
    publish(&there, "news", "after");
    let mut gaps = 0;
    let mut numbers: Vec<usize> = Vec::new();
    loop {
        let event = live.next_event();
        match (event.name.as_str(), event.data.split_once(' ')) {
            ("gap", _) => gaps += 1,
            (_, Some((number, _))) => numbers.push(number.parse().expect("a number")),
            (_, None) => {
                assert_eq!(event.data, "after");
                break;
            }
        }
    }
    assert_eq!(
        gaps,
        1,
        "of a client that then got {} events",
        numbers.len()
    );
    let first = TOO_MANY - numbers.len();
    assert!(first > 0, "the log has lost nothing");
    assert_eq!(numbers, (first..TOO_MANY).collect::<Vec<_>>());
    // The client resumes from before the lost events: it receives one gap, then the later events
    // that are still in history.
    let mut resumed = Stream::open(away.connect(), "/events", Some(&id));
    assert_eq!(resumed.next_event().name, "gap");
    let mut rest: Vec<String> = read_to(&mut resumed, "after");
    assert_eq!(rest.pop().as_deref(), Some("after"));
    let rest: Vec<usize> = rest
        .iter()
        .map(|data| data.split(' ').next().expect("a word").parse())
        .collect::<Result<_, _>>()
        .expect("numbers");
    assert!(
        numbers.ends_with(&rest) && rest.len() >= HISTORY - 1,
        "{}",
        rest.len()
    );
    publish(&there, "news", "later");
    for stream in [&mut live, &mut resumed] {
        assert_eq!(read_to(stream, "later"), ["later"]);
    }
    assert_eq!(cluster_figure(&away, "gaps_total"), 1);
}

fn a_half_open_connection_loses_and_doubles_nothing(log: LogServer) {
    let relay = Relay::start(&log);
    let there = node(&log).start();
    let away = node(&log).setting("publish_wait_ms_max", WAIT_MS);
    let away = relay.before(away).start();
    let patient = relay.before(node(&log)).start();
    let servers = [&there, &away, &patient];
    for server in servers {
        wait_ready(server, 200);
    }
    let mut streams = servers.map(|it| Stream::open(it.connect(), "/events", None));
    relay.hold();
    thread::scope(|scope| {
        let publisher = scope.spawn(|| publish(&patient, "news", "waits"));
        // The event was sent, so it may or may not have been stored.
        let response = away.connect().post("/publish/news", "doubtful");
        assert_ne!(response.status(), 200);
        away.log().wait_for(0, "BackpressureException");
        publish_numbers(&there);
        // Neither side detects that the other is unreachable.
        wait_ready(&away, 503);
        wait_ready(&patient, 503);
        streams[1].expect_silence(Duration::from_millis(100));
        // The relay delivers the bytes now, although the sender has closed the connection and sends
        // the event again.
        relay.heal();
        publisher.join().expect("it is published");
    });
    wait_ready(&away, 200);
    publish(&away, "news", "after");
    let seen = streams.each_mut().map(|stream| read_to(stream, "after"));
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    let count = |data: &str| seen[0].iter().filter(|it| *it == data).count();
    assert_eq!(count("waits"), 1);
    assert!(count("doubtful") <= 1);
    let sure = seen[0]
        .iter()
        .filter(|it| !["waits", "doubtful"].contains(&it.as_str()));
    assert_eq!(sure.cloned().collect::<Vec<_>>(), numbers_and(&["after"]));
    for mut stream in streams {
        stream.expect_silence(Duration::from_millis(300));
    }
    expect_same_history(&servers);
}

fn an_event_whose_acknowledgement_is_lost_is_there_once(log: LogServer) {
    let relay = Relay::start(&log);
    let (there, away) = (node(&log).start(), relay.before(node(&log)).start());
    for server in [&there, &away] {
        wait_ready(server, 200);
    }
    let mut streams = [&there, &away].map(|it| Stream::open(it.connect(), "/events", None));
    relay.hold_answers();
    let id = thread::scope(|scope| {
        let publisher = scope.spawn(|| publish(&away, "news", "once"));
        // The log has stored the event, but its acknowledgement is lost.
        let event = streams[0].next_event();
        assert_eq!(event.data, "once");
        relay.cut();
        relay.heal();
        let id = publisher.join().expect("it is published");
        assert_eq!(event.id.as_ref(), Some(&id));
        id
    });
    let event = streams[1].next_event();
    assert_eq!((event.id, &event.data[..]), (Some(id), "once"));
    publish(&away, "news", "after");
    for stream in &mut streams {
        assert_eq!(read_to(stream, "after"), ["after"]);
    }
    expect_same_history(&[&there, &away]);
}

fn members_of_a_server_that_is_cut_off_leave_once_and_come_back_once(log: LogServer) {
    members_leave_and_come_back(&log, Relay::cut);
}

fn members_behind_a_half_open_connection_leave_once_and_come_back_once(log: LogServer) {
    members_leave_and_come_back(&log, Relay::hold);
}

fn members_leave_and_come_back(log: &LogServer, fail: fn(&Relay)) {
    let relay = Relay::start(log);
    let (there, away) = (start_as(node(log)), start_as(relay.before(node(log))));
    let mut watch = [&there, &away].map(|server| join(server, "watch"));
    let _ann = join(&away, "ann");
    let all = [("ann", 1), ("watch", 2)];
    for server in [&there, &away] {
        wait_members(server, &all);
    }
    fail(&relay);
    wait_members(&there, &[("watch", 1)]);
    wait_ready(&away, 503);
    // The last state received.
    wait_members(&away, &all);
    relay.heal();
    wait_ready(&away, 200);
    wait_until("they are back", || {
        let known = [&there, &away].map(|it| members(it).map_or(0, |list| list.len()));
        (known == [2, 2]).then_some(())
    });
    for server in [&there, &away] {
        wait_members(server, &all);
    }
    // No more events follow when each member is present again.
    for stream in &mut watch {
        for expected in [
            told("join", "ann"),
            told("leave", "ann"),
            told("join", "ann"),
        ] {
            assert_eq!(next(stream), expected);
        }
    }
    publish(&away, "news", "after");
    for stream in &mut watch {
        assert_eq!(next(stream).1, "after");
    }
    expect_same_history(&[&there, &away]);
}
