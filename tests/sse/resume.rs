//! `Last-Event-ID`: missed events are replayed, and missing ones are reported.

use std::time::Duration;

use fermata_testkit::sse::{Follower, Item, Stream};
use fermata_testkit::{Server, Signal, wait_until};
use fermata_tests::{fixture, json, publish};

#[test]
fn a_client_resumes_on_any_worker_without_loss_or_repetition() {
    let server = fixture("hub").start();
    let mut follower = Follower::new(server.address(), "/events");
    follower.connect();
    for number in 0..60 {
        // Each round publishes one message live, and two while the client is disconnected. The 60
        // reconnections reach both workers.
        publish(&server, "news", &format!("{number}.live"));
        follower.read_until("the live message", |events| events.len() == number * 3 + 1);
        follower.disconnect();
        publish(&server, "news", &format!("{number}.missed"));
        publish(&server, "news", &format!("{number}.missed too"));
        follower.read_until("the missed messages", |events| {
            events.len() == number * 3 + 3
        });
    }
    let received: Vec<&str> = follower
        .events
        .iter()
        .map(|event| event.data.as_str())
        .collect();
    let expected: Vec<String> = (0..60)
        .flat_map(|n| {
            [
                format!("{n}.live"),
                format!("{n}.missed"),
                format!("{n}.missed too"),
            ]
        })
        .collect();
    assert_eq!(received, expected);
}

#[test]
fn a_client_that_has_received_nothing_yet_can_resume_too() {
    let server = fixture("hub").start();
    publish(&server, "news", "before its time");
    for number in 0..10 {
        let mut stream = Stream::open(server.connect(), "/events", None);
        let Item::Position(id) = stream.next_item() else {
            panic!("a stream begins with its place")
        };
        stream.into_connection().reset();
        publish(&server, "news", &format!("missed {number}"));
        let mut resumed = Stream::open(server.connect(), "/events", Some(&id));
        assert_eq!(resumed.next_event().data, format!("missed {number}"));
    }
}

#[test]
fn nothing_is_replayed_to_whom_has_seen_everything() {
    let server = fixture("hub").start();
    let id = publish(&server, "news", "seen");
    for _ in 0..10 {
        let mut stream = Stream::open(server.connect(), "/events", Some(&id));
        stream.expect_silence(Duration::from_millis(20));
    }
    let mut stream = Stream::open(server.connect(), "/events", Some(&id));
    publish(&server, "news", "new");
    assert_eq!(stream.next_event().data, "new");
}

#[test]
fn messages_of_other_channels_are_not_replayed() {
    let server = fixture("hub").start();
    let id = publish(&server, "news", "first");
    for number in 0..50 {
        publish(&server, &format!("other.{number}"), "not for you");
    }
    publish(&server, "news", "second");
    let mut stream = Stream::open(server.connect(), "/events", Some(&id));
    assert_eq!(stream.next_event().data, "second");
    stream.expect_silence(Duration::from_millis(20));
}

#[test]
fn an_id_of_another_server_is_a_gap() {
    let first = fixture("hub").start();
    let id = publish(&first, "news", "elsewhere");
    drop(first);

    let server = fixture("hub").start();
    let mut stream = Stream::open(server.connect(), "/events", Some(&id));
    let gap = stream.next_event();
    assert_eq!(gap.name, "gap");
    let data: serde_json::Value = serde_json::from_str(&gap.data).expect("a gap's data is JSON");
    assert!(data["reason"].is_string(), "{data}");
    publish(&server, "news", "live");
    assert_eq!(stream.next_event().data, "live");
}

#[test]
fn reports_a_gap_for_each_id_that_is_none() {
    let server = fixture("hub").workers(1).start();
    let valid = publish(&server, "news", "before");
    let (epoch, number) = valid.rsplit_once('-').expect("an id is EPOCH-NUMBER");
    let long = "9".repeat(4_000);
    // 2^64 in base 36 is 3w5e11264sgsg.
    let ids = [
        "x".to_owned(),
        "-".to_owned(),
        "1-".to_owned(),
        "-1".to_owned(),
        "0".to_owned(),
        "0-0".to_owned(),
        "1-2-3".to_owned(),
        "18446744073709551616".to_owned(),
        "-9223372036854775809".to_owned(),
        "zzzzzzzzzzzzzzzz-zzzzzzzzzzzzzzzz".to_owned(),
        format!("{epoch}-3w5e11264sgsf"),
        format!("{epoch}-3w5e11264sgsg"),
        format!("3w5e11264sgsg-{number}"),
        format!("{epoch}-zzzzzzzzzzzzz"),
        format!("{epoch}-zzzzzzzzzzzzzz"),
        format!("{epoch}-0{number}"),
        format!("0{epoch}-{number}"),
        format!("{epoch}-+{number}"),
        format!("{epoch}--{number}"),
        format!("{epoch} -{number}"),
        format!("{epoch}-{number}, {valid}"),
        format!("\"{valid}\""),
        format!("{valid}\u{e9}"),
        format!("{epoch}-{number}\u{ff11}"),
        format!("{epoch}-{}", number.to_uppercase() + "A"),
        long,
        "\u{e9}".to_owned(),
    ];
    for id in &ids {
        let mut stream = Stream::open(server.connect(), "/events", Some(id));
        let gap = stream.next_event();
        assert_eq!(gap.name, "gap", "{id:?}: {gap:?}");
        publish(&server, "news", id);
        // Whatever events are replayed after a gap, the live event is the last one.
        let mut event = stream.next_event();
        while event.data != *id {
            event = stream.next_event();
        }
    }
}

#[test]
fn an_id_from_the_future_is_a_gap_or_ignored_but_hides_nothing() {
    let server = fixture("hub").workers(1).start();
    let id = publish(&server, "news", "now");
    let (epoch, _) = id.rsplit_once('-').expect("an id is EPOCH-NUMBER");
    let mut stream = Stream::open(
        server.connect(),
        "/events",
        Some(&format!("{epoch}-zzzzzz")),
    );
    publish(&server, "news", "live");
    let event = stream.next_event();
    let event = if event.name == "gap" {
        stream.next_event()
    } else {
        event
    };
    assert_eq!(event.data, "live");
}

#[test]
fn history_is_kept_by_count() {
    let server = fixture("hub").setting("history_count_max", 10).start();
    let first = publish(&server, "news", "0");
    for number in 1..=30 {
        publish(&server, "news", &number.to_string());
    }
    let mut late = Stream::open(server.connect(), "/events", Some(&first));
    let events = late.next_events(11);
    assert_eq!(
        events[0].name, "gap",
        "the client is told that it missed something"
    );
    let received: Vec<&str> = events[1..]
        .iter()
        .map(|event| event.data.as_str())
        .collect();
    let expected: Vec<String> = (21..=30).map(|number| number.to_string()).collect();
    assert_eq!(received, expected);
    assert_eq!(
        json(&server.connect().get("/history/news"))
            .as_array()
            .map(Vec::len),
        Some(10)
    );
}

#[test]
fn history_is_kept_by_age() {
    let server = fixture("hub").setting("history_age_ms_max", 300).start();
    let old = publish(&server, "news", "old");
    publish(&server, "news", "missed for ever");
    wait_until("history grows old", || {
        (server.connect().get("/history/news").text() == "[]").then_some(())
    });
    let mut late = Stream::open(server.connect(), "/events", Some(&old));
    assert_eq!(late.next_event().name, "gap");
    publish(&server, "news", "fresh");
    assert_eq!(late.next_event().data, "fresh");
}

#[test]
fn history_is_kept_by_bytes() {
    let server = fixture("hub")
        .setting("history_bytes_max", 1_048_576)
        .start();
    let first = publish(&server, "news", "first");
    for _ in 0..4 {
        let path = "/burst/news?count=100&bytes=8000";
        assert_eq!(server.connect().post(path, "").status(), 200);
    }
    let mut late = Stream::open(server.connect(), "/events", Some(&first));
    assert_eq!(late.next_event().name, "gap");
    let last = publish(&server, "news", "last");
    while late.next_event().id.as_deref() != Some(&last) {}
}

#[test]
fn a_long_absence_is_replayed_whole_whatever_a_queue_may_hold() {
    let server = fixture("hub").setting("queue_bytes_max", 65_536).start();
    let first = publish(&server, "news", "first");
    for _ in 0..8 {
        let path = "/burst/news?count=100&bytes=4000";
        assert_eq!(server.connect().post(path, "").status(), 200);
    }
    let history = server
        .connect()
        .get(&format!("/history/news?since={first}"));
    let history = json(&history);
    let rows = history.as_array().into_iter().flatten();
    let kept: Vec<&str> = rows.filter_map(|row| row[0].as_str()).collect();
    assert_eq!(kept.len(), 800);
    let mut late = Stream::open(server.connect(), "/events", Some(&first));
    for id in &kept {
        let event = late.next_event();
        assert_eq!(event.id.as_deref(), Some(*id), "{}", event.name);
    }
    let live = publish(&server, "news", "live");
    assert_eq!(late.next_event().id, Some(live));
}

#[test]
fn history_lists_events_with_id_name_and_time() {
    let server = fixture("hub").start();
    let first = publish(&server, "news", "a");
    let second = server
        .connect()
        .post("/publish/news?name=price", "b")
        .text()
        .to_string();
    publish(&server, "news", "c");
    let all = json(&server.connect().get("/history/news"));
    assert_eq!(all[0][0], first.as_str());
    assert_eq!(all[1][0], second.as_str());
    assert_eq!(
        (all[1][1].as_str(), all[1][2].as_str()),
        (Some("price"), Some("b"))
    );
    assert!(
        all[1][3].as_u64().is_some_and(|ms| ms > 1_600_000_000_000),
        "{all}"
    );
    let after = json(
        &server
            .connect()
            .get(&format!("/history/news?since={second}")),
    );
    assert_eq!(
        (after[0][2].as_str(), after.as_array().map(Vec::len)),
        (Some("c"), Some(1))
    );
    let latest = json(&server.connect().get("/history/news?count=2"));
    assert_eq!(
        (latest[0][2].as_str(), latest[1][2].as_str()),
        (Some("b"), Some("c"))
    );
    assert_eq!(server.connect().get("/history/never").text(), "[]");
}

#[test]
fn a_ring_in_a_file_survives_restarts_and_kills() {
    let builder = fixture("hub");
    let path = builder.directory().join("history.ring");
    let builder = builder.setting("history_path", path.display());
    let mut seen: Option<String> = None;
    let signals = [Signal::Terminate, Signal::Kill, Signal::Terminate];
    for (round, signal) in signals.into_iter().enumerate() {
        let mut server: Server = builder.clone().start();
        let mut stream = Stream::open(server.connect(), "/events", seen.as_deref());
        if seen.is_some() {
            assert_eq!(stream.next_event().data, format!("{} missed", round - 1));
        }
        let id = publish(&server, "news", &format!("{round} seen"));
        assert_eq!(stream.next_event().id.as_ref(), Some(&id));
        drop(stream);
        publish(&server, "news", &format!("{round} missed"));
        seen = Some(id);
        server.signal(signal);
        server.wait_exit();
        let workers = server.worker_pids();
        wait_until("its workers have ended", || {
            (!workers
                .values()
                .any(|pid| fermata_testkit::is_running(*pid)))
            .then_some(())
        });
    }
    let server = builder.start();
    let history = json(&server.connect().get("/history/news"));
    assert_eq!(history.as_array().map(Vec::len), Some(6));
}

#[test]
fn one_ring_file_serves_one_server() {
    let builder = fixture("hub");
    let path = builder.directory().join("history.ring");
    let builder = builder.setting("history_path", path.display());
    let server = builder.clone().start();
    let refused = builder.start_refused();
    assert!(!refused.status.success());
    refused.log.wait_for(0, "history.ring");
    assert_eq!(
        publish(&server, "news", "still served").split('-').count(),
        2
    );
}
