//! Subscribers that do not read: bounded by their channel's log, by policy told of a gap or closed, and
//! nobody else notices.

use fermata_testkit::sse::{Event, Item, Stream, StreamEnd};
use fermata_testkit::{Server, Target};
use fermata_tests::{fixture, publish};

/// Messages that are together far more than socket buffers and the channel's log can hold.
const MESSAGES: usize = 1_600;

/// Size of each.
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

/// Publishes everything in small steps; `attentive` reads each step before the next begins.
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
                // Messages are missing only where a gap was announced, and none comes twice.
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

    // What was kept of the history comes after it resumes; the rest is announced as a gap.
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
