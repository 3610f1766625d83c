//! Messages published anywhere reach subscribers everywhere, in order.

use std::thread;

use fermata_testkit::Server;
use fermata_testkit::sse::{Event, Stream};
use fermata_tests::{fixture, json, publish, sequence};

/// Opens one stream of `path` on each worker.
fn stream_per_worker(server: &Server, path: &str) -> Vec<Stream> {
    let pids = server.worker_pids();
    pids.values()
        .map(|pid| Stream::open(server.connect_to(*pid), path, None))
        .collect()
}

#[track_caller]
fn assert_ascending(events: &[Event]) {
    let numbers: Vec<u64> = events
        .iter()
        .map(|event| sequence(event.id.as_deref().expect("it has an id")))
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}

#[test]
fn a_message_published_on_any_worker_reaches_subscribers_on_all() {
    let server = fixture("hub").workers(3).start();
    let mut streams = stream_per_worker(&server, "/events");
    for pid in server.worker_pids().values() {
        let mut connection = server.connect_to(*pid);
        for round in 0..5 {
            let data = format!("from {pid} round {round}");
            let response = connection.post("/publish/news", &data);
            for stream in &mut streams {
                let event = stream.next_event();
                assert_eq!(event.data, data);
                assert_eq!(event.id.as_deref(), Some(response.text()));
            }
        }
    }
}

#[test]
fn all_subscribers_see_the_same_order() {
    let server = fixture("hub").start();
    let mut streams = stream_per_worker(&server, "/events");
    streams.extend(stream_per_worker(&server, "/events"));
    thread::scope(|scope| {
        for publisher in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.connect();
                for number in 0..100 {
                    let data = format!("{publisher}:{number}");
                    assert_eq!(connection.post("/publish/news", &data).status(), 200);
                }
            });
        }
    });
    let all: Vec<Vec<Event>> = streams
        .iter_mut()
        .map(|stream| stream.next_events(400))
        .collect();
    for events in &all {
        assert_eq!(events, &all[0]);
    }
    assert_ascending(&all[0]);
    for publisher in 0..4 {
        let prefix = format!("{publisher}:");
        let own: Vec<&str> = all[0]
            .iter()
            .filter_map(|e| e.data.strip_prefix(&prefix))
            .collect();
        let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(own, expected, "a publisher's messages keep their order");
    }
}

#[test]
fn channels_do_not_mix() {
    let server = fixture("hub").start();
    let mut red = Stream::open(server.connect(), "/events?channels=red", None);
    let mut blue = Stream::open(server.connect(), "/events?channels=blue", None);
    for number in 0..20 {
        publish(&server, "red", &format!("red {number}"));
        publish(&server, "blue", &format!("blue {number}"));
        publish(&server, "nobody", "unheard");
    }
    for number in 0..20 {
        assert_eq!(red.next_event().data, format!("red {number}"));
        assert_eq!(blue.next_event().data, format!("blue {number}"));
    }
}

#[test]
fn one_hold_merges_several_channels_in_order() {
    let server = fixture("hub").start();
    let before = publish(&server, "a", "seen");
    for number in 0..30 {
        publish(
            &server,
            ["a", "b", "c", "d"][number % 4],
            &format!("missed {number}"),
        );
    }
    let path = "/events?channels=a,b,c";
    let mut streams = stream_per_worker(&server, path);
    let mut resumed = Stream::open(server.connect(), path, Some(&before));
    for number in 0..60 {
        let channel = ["c", "d", "a", "b"][number % 4];
        let data = format!("live {number}");
        // Some events are published separately, and some as three in a row, which arrive in one
        // turn of the loop.
        if number % 5 == 0 {
            let burst = format!("/burst/{channel}?count=3&prefix=burst{number}.");
            assert_eq!(server.connect().post(&burst, "").status(), 200);
        } else {
            publish(&server, channel, &data);
        }
    }
    let live: Vec<String> = (0..60)
        .filter(|number| ["c", "d", "a", "b"][number % 4] != "d")
        .flat_map(|number| match number % 5 {
            0 => (0..3).map(|n| format!("burst{number}.{n}")).collect(),
            _ => vec![format!("live {number}")],
        })
        .collect();
    for stream in &mut streams {
        let events = stream.next_events(live.len());
        assert_eq!(
            events.iter().map(|e| e.data.clone()).collect::<Vec<_>>(),
            live
        );
        assert_ascending(&events);
    }
    let missed: Vec<String> = (0..30)
        .filter(|number| number % 4 != 3)
        .map(|number| format!("missed {number}"))
        .collect();
    let events = resumed.next_events(missed.len() + live.len());
    let received: Vec<String> = events.iter().map(|event| event.data.clone()).collect();
    assert_eq!(received, [missed, live].concat());
    assert_ascending(&events);
}

#[test]
fn a_burst_in_one_handler_arrives_whole() {
    let server = fixture("hub").start();
    let mut streams = stream_per_worker(&server, "/events");
    let ids = json(
        &server
            .connect()
            .post("/burst/news?count=1000&prefix=n&bytes=64", ""),
    );
    let ids: Vec<&str> = ids
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|id| id.as_str())
        .collect();
    assert_eq!(ids.len(), 1_000);
    for stream in &mut streams {
        let events = stream.next_events(1_000);
        let received: Vec<&str> = events
            .iter()
            .filter_map(|event| event.id.as_deref())
            .collect();
        assert_eq!(received, ids);
    }
}

#[test]
fn a_burst_larger_than_a_channels_log_reaches_who_reads() {
    // One handler publishes 1.6 MB. A log retains 256 KiB for slow clients, but no client here is
    // slow.
    let server = fixture("hub").start();
    let mut streams = stream_per_worker(&server, "/events");
    streams.extend(stream_per_worker(&server, "/events?channels=news,other"));
    let mut connection = server.connect();
    std::thread::scope(|scope| {
        for stream in &mut streams {
            scope.spawn(|| {
                for number in 0..200 {
                    let data = stream.next_event().data;
                    assert_eq!(data.trim_end_matches('.'), number.to_string());
                }
            });
        }
        let response = connection.post("/burst/news?count=200&bytes=8000", "");
        assert_eq!(response.status(), 200);
    });
}

#[test]
fn channel_names_may_be_any_text() {
    let server = fixture("hub").start();
    let longest = "n".repeat(255);
    for name in ["a b", "room.42", "user:7", "你好", "%41", longest.as_str()] {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/events?channels={encoded}");
        let mut streams = stream_per_worker(&server, &path);
        publish(&server, &encoded, name);
        for stream in &mut streams {
            assert_eq!(stream.next_event().data, name);
        }
    }
}
