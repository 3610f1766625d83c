//! Subscribers that do not read: their unread messages are limited by the channel's log. The policy
//! is to send a gap or to close them. Other clients are not affected.

use fermata_testkit::sse::{Event, Item, Stream, StreamEnd};
use fermata_testkit::{Connection, Server, Signal, Target, send_signal, wait_until};
use fermata_tests::{fixture, publish};

/// Number of messages, together much larger than socket buffers and the channel's log.
const MESSAGES: usize = 1_600;

/// Size of each message.
const MESSAGE_BYTES: usize = 8_192;

fn slow_hub() -> Server {
    let builder = fixture("hub")
        .workers(1)
        .setting("channel_log_bytes_max", 65_536);
    builder.setting("queue_bytes_max", 65_536).start()
}

fn open_slow(server: &Server, path: &str) -> Stream {
    let target = Target {
        address: server.address(),
        source: None,
        receive_bytes: Some(4_096),
    };
    Stream::open(target.connect().expect("the server listens"), path, None)
}

/// Publishes all messages in small steps; `attentive` reads each step before the next one.
fn publish_all(server: &Server, attentive: &mut Stream) {
    let mut connection = server.connect();
    for start in (0..MESSAGES).step_by(4) {
        for number in start..start + 4 {
            let data = format!("{number:0width$}", width = MESSAGE_BYTES);
            assert_eq!(connection.post("/publish/news", data).status(), 200);
        }
        for number in start..start + 4 {
            assert_eq!(
                number_of(&attentive.next_event()),
                number,
                "the attentive one misses nothing"
            );
        }
    }
}

fn number_of(event: &Event) -> usize {
    event.data.parse().expect("test messages are numbers")
}

#[test]
fn with_gap_policy_a_slow_subscriber_is_told_and_goes_on() {
    let server = slow_hub();
    let mut slow = open_slow(&server, "/events?slow=gap");
    let mut attentive = Stream::open(server.connect(), "/events", None);
    publish_all(&server, &mut attentive);

    let (mut expected, mut gaps) = (0, 0);
    publish(&server, "news", "the end");
    loop {
        let event = slow.next_event();
        match event.name.as_str() {
            "gap" => {
                let data: serde_json::Value =
                    serde_json::from_str(&event.data).expect("a gap's data is JSON");
                assert!(data["reason"].is_string(), "{data}");
                gaps += 1;
                expected = usize::MAX;
            }
            _ if event.data == "the end" => break,
            _ => {
                let number = number_of(&event);
                // Messages are missing only where a gap was announced, and none is repeated.
                assert!(
                    number == expected || expected == usize::MAX,
                    "{number} after {expected}"
                );
                expected = number + 1;
            }
        }
    }
    assert!(gaps > 0, "{MESSAGES} messages cannot all have been queued");
    publish(&server, "news", "live");
    assert_eq!(slow.next_event().data, "live");
}

#[test]
fn with_close_policy_a_slow_subscriber_is_closed_and_can_resume() {
    let server = slow_hub();
    let mut slow = open_slow(&server, "/events?slow=close");
    let mut attentive = Stream::open(server.connect(), "/events", None);
    publish_all(&server, &mut attentive);

    let mut last: Option<Event> = None;
    let mut expected = 0;
    let end = loop {
        match slow.next_item() {
            Item::Event(event) => {
                assert_eq!(
                    number_of(&event),
                    expected,
                    "no message is missing before the end"
                );
                expected += 1;
                last = Some(event);
            }
            Item::Comment(_) | Item::Retry(_) | Item::Position(_) => {}
            Item::End(end) => break end,
        }
    };
    assert!(matches!(end, StreamEnd::Clean | StreamEnd::Cut(_)));
    assert!(
        expected < MESSAGES,
        "{MESSAGES} messages cannot all have been queued"
    );

    // After it resumes, the subscriber receives the retained history. Missing messages are
    // announced by a gap.
    let last_id = last.and_then(|event| event.id);
    let mut resumed = Stream::open(server.connect(), "/events", last_id.as_deref());
    publish(&server, "news", "the end");
    while resumed.next_event().data != "the end" {}
}

#[test]
fn a_vanished_subscriber_holds_nothing_up() {
    let server = slow_hub();
    let silent: Vec<Stream> = (0..20).map(|_| open_slow(&server, "/events")).collect();
    let mut attentive = Stream::open(server.connect(), "/events", None);
    publish_all(&server, &mut attentive);
    drop(silent);
    publish(&server, "news", "the end");
    assert_eq!(attentive.next_event().data, "the end");
}

/// Publishes numbers to `connection` until one is rejected; returns how many were accepted.
fn publish_until_refused(connection: &mut Connection, start: usize) -> usize {
    for number in start.. {
        let data = format!("{number:0width$}", width = MESSAGE_BYTES);
        let response = connection.post("/publish/news", data);
        if response.status() != 200 {
            assert_eq!(response.status(), 500);
            return number - start;
        }
        assert!(number - start < 10_000, "the ring takes messages for ever");
    }
    0
}

#[test]
fn a_frozen_worker_stops_publishers_instead_of_losing_messages() {
    let builder = fixture("hub").setting("history_bytes_max", 1_048_576);
    let server = builder.setting("publish_wait_ms_max", 100).start();
    let pids = server.worker_pids();
    let mut subscriber = Stream::open(server.connect_to(pids[&0]), "/events", None);
    let mut publisher = server.connect_to(pids[&1]);
    publish(&server, "news", "0");
    assert_eq!(number_of(&subscriber.next_event()), 0);

    assert!(send_signal(pids[&0], Signal::Stop));
    let accepted = publish_until_refused(&mut publisher, 1);
    assert!(accepted > 0);
    server.log().wait_for(0, "BackpressureException");
    assert!(send_signal(pids[&0], Signal::Continue));
    for number in 1..=accepted {
        assert_eq!(
            number_of(&subscriber.next_event()),
            number,
            "what was accepted arrives"
        );
    }
    let data = (accepted + 1).to_string();
    assert_eq!(
        publisher.post("/publish/news", &data).status(),
        200,
        "there is room again"
    );
    assert_eq!(subscriber.next_event().data, data);

    // Publishers wait for a crashed worker only until the crash is detected.
    assert!(send_signal(pids[&0], Signal::Stop));
    publish_until_refused(&mut publisher, 1);
    assert!(send_signal(pids[&0], Signal::Kill));
    wait_until("publishing goes on", || {
        (publisher.post("/publish/news", "1").status() == 200).then_some(())
    });
}

#[test]
fn a_subscriber_whose_events_lie_in_the_kernel_is_given_up() {
    for io in ["epoll", "io_uring"] {
        let server = fixture("hub")
            .workers(1)
            .control()
            .setting("io", io)
            .setting("write_timeout_ms", 1_000)
            .start();
        let mut slow = open_slow(&server, "/events?keepalive=0");
        let mut attentive = Stream::open(server.connect(), "/events?keepalive=0", None);
        // Too few bytes for the server to detect the slow client, because the kernel buffers all of
        // them.
        for number in 0..4 {
            let data = format!("{number:0width$}", width = MESSAGE_BYTES);
            publish(&server, "news", &data);
            assert_eq!(number_of(&attentive.next_event()), number);
        }
        wait_until("the server gives up", || {
            let figures = fermata_tests::stats(&server);
            let figure = |path| figures.pointer(path).and_then(|count| count.as_u64());
            let dropped = figure("/total/connections_dropped/write_timeout");
            (dropped == Some(1) && figure("/total/connections/sse") == Some(1)).then_some(())
        });
        // A client that has read everything is not slow, even if no message arrives for a long
        // time.
        publish(&server, "news", "the end");
        assert_eq!(attentive.next_event().data, "the end", "{io}");
        let end = loop {
            if let Item::End(end) = slow.next_item() {
                break end;
            }
        };
        assert!(matches!(end, StreamEnd::Cut(_)), "{io}: {end:?}");
    }
}
