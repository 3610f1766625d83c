//! The wire format of an event stream.

use fermata_testkit::Framing;
use fermata_testkit::sse::{Event, Item, Stream, StreamEnd};
use fermata_tests::{fixture, publish};

#[test]
fn an_event_stream_is_not_cached_and_not_closed() {
    let server = fixture("hub").workers(1).start();
    let stream = Stream::open(server.connect(), "/events", None);
    let head = stream.head();
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert!(
        head.header("cache-control")
            .is_some_and(|value| value.contains("no-"))
    );
    assert_eq!(head.header("x-held"), Some("yes"));
    assert_eq!(head.framing(false), Ok(Framing::Chunked));
    assert!(!head.connection_says("close"));
}

#[test]
fn data_of_any_form_arrives_as_the_browser_defines_it() {
    let server = fixture("hub").workers(1).start();
    let mut stream = Stream::open(server.connect(), "/events", None);
    let long = "0123456789".repeat(5_000);
    for (sent, received) in [
        ("plain", "plain"),
        ("", ""),
        (" leading space", " leading space"),
        ("two\nlines", "two\nlines"),
        ("two\r\nlines", "two\nlines"),
        ("two\rlines", "two\nlines"),
        ("\n\n", "\n\n"),
        ("ends\n", "ends\n"),
        (
            "id: 7\nevent: fake\nretry: 1",
            "id: 7\nevent: fake\nretry: 1",
        ),
        ("a\n\ndata: injected", "a\n\ndata: injected"),
        (": no comment", ": no comment"),
        ("你好 🎵", "你好 🎵"),
        (long.as_str(), long.as_str()),
    ] {
        let id = publish(&server, "news", sent);
        let event = stream.next_event();
        let expected = Event {
            id: Some(id),
            name: "message".into(),
            data: received.into(),
        };
        assert_eq!(event, expected, "{sent:?}");
    }
}

#[test]
fn names_and_ids_travel_with_the_event() {
    let server = fixture("hub").workers(1).start();
    let mut stream = Stream::open(server.connect(), "/events", None);
    let response = server.connect().post("/publish/news?name=price", "7");
    let event = stream.next_event();
    assert_eq!((event.name.as_str(), event.data.as_str()), ("price", "7"));
    assert_eq!(event.id.as_deref(), Some(response.text()));
}

#[test]
fn events_for_this_client_alone_come_first_and_without_id() {
    let server = fixture("hub").workers(1).start();
    publish(&server, "news", "before");
    let id = publish(&server, "news", "missed");
    let since = publish(&server, "news", "last seen");
    publish(&server, "news", "replayed");
    assert_ne!(id, since);
    let mut other = Stream::open(server.connect(), "/events", None);
    let mut stream = Stream::open(server.connect(), "/events?with=hello", Some(&since));
    let events = stream.next_events(3);
    assert_eq!(
        (events[0].name.as_str(), events[0].data.as_str()),
        ("welcome", "hello")
    );
    assert_eq!(
        (events[1].name.as_str(), events[1].data.as_str()),
        ("message", r#"{"second":true}"#)
    );
    assert_eq!((&events[0].id, &events[1].id), (&None, &None));
    assert_eq!(events[2].data, "replayed");

    publish(&server, "news", "live");
    assert_eq!(stream.next_event().data, "live");
    assert_eq!(
        other.next_event().data,
        "live",
        "nobody else saw the welcome"
    );
}

#[test]
fn http_1_0_gets_the_stream_without_chunks() {
    let server = fixture("hub").workers(1).start();
    let mut connection = server.connect();
    connection.send("GET /events HTTP/1.0\r\n\r\n");
    let mut stream = Stream::after_request(connection).expect("it is held");
    assert_eq!(stream.head().framing(false), Ok(Framing::UntilClose));
    for number in 0..20 {
        publish(&server, "news", &number.to_string());
        assert_eq!(stream.next_event().data, number.to_string());
    }
    server.signal(fermata_testkit::Signal::Terminate);
    assert_eq!(
        stream.read_to_end().pop(),
        Some(Item::End(StreamEnd::Clean))
    );
}

#[test]
fn head_of_an_event_stream_is_not_held() {
    let server = fixture("hub").workers(1).start();
    let mut watcher = Stream::open(server.connect(), "/events", None);
    let mut connection = server.connect();
    let response = connection.request("HEAD", "/events?user=ann", &[], b"");
    assert_eq!(response.status(), 200);
    let kind = response.header("content-type");
    assert!(kind.is_some_and(|kind| kind.starts_with("text/event-stream")));
    publish(&server, "news", "live");
    assert_eq!(
        watcher.next_event().data,
        "live",
        "HEAD makes nobody present"
    );
}
