//! Updates: their recipients, order and resumption.

use std::time::Duration;

use fermata_testkit::sse::Stream;

use crate::hub::{Hub, PATH, publisher, reader};

const BOOK: &str = "https://example.com/books/1";
const BOOKS: &str = "https://example.com/books/{id}";

fn data(stream: &mut Stream, count: usize) -> Vec<String> {
    let events = stream.next_events(count);
    events.into_iter().map(|event| event.data).collect()
}

#[test]
fn updates_reach_topics_templates_and_all_in_every_worker() {
    let hub = Hub::start("anonymous");
    let selectors: [&[&str]; 5] = [
        &[BOOK],
        &[BOOKS],
        &["*"],
        &[BOOK, BOOKS, "other"],
        &["other"],
    ];
    let mut clients: Vec<(usize, Stream)> = Vec::new();
    for _ in 0..4 {
        for (at, topics) in selectors.iter().enumerate() {
            clients.push((at, hub.subscribe(topics, None)));
        }
    }
    let second = "https://example.com/books/2";
    let ids = [
        hub.publish(&[("topic", BOOK), ("topic", "other"), ("data", "1")]),
        hub.publish(&[
            ("topic", second),
            ("data", "2"),
            ("type", "new"),
            ("retry", "7"),
        ]),
        hub.publish(&[("topic", "other"), ("data", "3\r\n\n4"), ("id", "urn:x")]),
    ];
    assert_eq!(ids[2], "urn:x");
    for (at, client) in &mut clients {
        let wanted: &[usize] = match *at {
            0 => &[0],
            1 => &[0, 1],
            4 => &[0, 2],
            _ => &[0, 1, 2],
        };
        for &which in wanted {
            let event = client.next_event();
            let (data, name) = [("1", "message"), ("2", "new"), ("3\n\n4", "message")][which];
            assert_eq!((event.data.as_str(), event.name.as_str()), (data, name));
            assert_eq!(event.id.as_deref(), Some(ids[which].as_str()));
        }
    }
    // No update is delivered twice: the next event is the next update.
    hub.publish(&[("topic", BOOK), ("topic", "other"), ("data", "last")]);
    for (_, client) in &mut clients {
        assert_eq!(client.next_event().data, "last");
    }
}

#[test]
fn a_form_with_a_file_is_not_stored() {
    let hub = Hub::start("anonymous");
    let bearer = format!("Bearer {}", publisher(&["*"]));
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "multipart/form-data; boundary=b"),
    ];
    let body = b"--b\r\nContent-Disposition: form-data; name=\"data\"; filename=\"a\"\r\n\r\nx\r\n--b--\r\n";
    let response = hub.connect().request("POST", PATH, &headers, body);
    assert_eq!(response.status(), 413, "{}", response.text());
}

#[test]
fn private_updates_reach_those_who_may() {
    let hub = Hub::start("anonymous");
    let mut anybody = hub.subscribe(&["*"], None);
    let mut allowed = hub.subscribe(&[BOOK], Some(&reader(&[BOOKS])));
    let mut other = hub.subscribe(&[BOOK], Some(&reader(&["https://example.com/users/1"])));
    let mut everything = hub.subscribe(&["*"], Some(&reader(&["*"])));
    // One readable topic is enough, even if it is not the subscribed one.
    let mut alternate = hub.subscribe(&["alternate"], Some(&reader(&[BOOK])));
    hub.publish(&[("topic", BOOK), ("data", "secret"), ("private", "on")]);
    let fields = [
        ("topic", BOOK),
        ("topic", "alternate"),
        ("data", "both"),
        ("private", ""),
    ];
    hub.publish(&fields);
    hub.publish(&[("topic", BOOK), ("topic", "alternate"), ("data", "public")]);
    assert_eq!(data(&mut anybody, 1), ["public"]);
    assert_eq!(data(&mut other, 1), ["public"]);
    assert_eq!(data(&mut allowed, 3), ["secret", "both", "public"]);
    assert_eq!(data(&mut everything, 3), ["secret", "both", "public"]);
    assert_eq!(data(&mut alternate, 2), ["both", "public"]);
    // History is as private as live updates.
    let path = Hub::path(&["*"], None);
    let mut late = Stream::open(hub.connect(), &path, Some("earliest"));
    assert_eq!(data(&mut late, 1), ["public"]);
}

#[test]
fn a_client_resumes_by_every_form_of_its_last_id() {
    let hub = Hub::start("anonymous");
    let mut ids = Vec::new();
    for at in 0..6 {
        let (text, given) = (at.to_string(), format!("urn:given:{at}"));
        let mut fields = vec![("topic", BOOK), ("data", text.as_str())];
        if at % 2 == 1 {
            fields.push(("id", given.as_str()));
        }
        ids.push(hub.publish(&fields));
        hub.publish(&[("topic", "noise"), ("data", "noise")]);
    }
    let path = Hub::path(&[BOOKS], None);
    let rest = ["0", "1", "2", "3", "4", "5"];
    for (at, id) in ids.iter().enumerate() {
        let left = &rest[at + 1..];
        let mut by_header = Stream::open(hub.connect(), &path, Some(id));
        assert_eq!(by_header.head().header("last-event-id"), Some(id.as_str()));
        assert_eq!(data(&mut by_header, left.len()), left);
        for name in ["lastEventID", "Last-Event-ID"] {
            let path = format!("{path}&{name}={}", crate::hub::escape(id));
            let mut by_query = Stream::open(hub.connect(), &path, None);
            assert_eq!(data(&mut by_query, left.len()), left);
            let last = hub.publish(&[("topic", BOOK), ("data", "more"), ("id", "one id for all")]);
            assert_eq!(last, "one id for all");
            assert_eq!(by_query.next_event().data, "more");
        }
        // The header takes precedence over the URL.
        let path = format!("{path}&lastEventID=earliest");
        let by_both = Stream::open(hub.connect(), &path, Some(id));
        assert_eq!(by_both.head().header("last-event-id"), Some(id.as_str()));
    }
    // If several updates share an id, a client resumes after the earliest one.
    let mut again = Stream::open(hub.connect(), &path, Some("one id for all"));
    assert_eq!(data(&mut again, 11), ["more"; 11]);
    let mut earliest = Stream::open(hub.connect(), &path, Some("earliest"));
    assert_eq!(earliest.head().header("last-event-id"), Some("earliest"));
    assert_eq!(data(&mut earliest, 6), rest);
    // The hub reports that an id is unknown.
    let mut unknown = Stream::open(hub.connect(), &path, Some("urn:nobody"));
    assert_eq!(unknown.head().header("last-event-id"), Some("earliest"));
    assert_eq!(
        hub.subscribe(&[BOOK], None).head().header("last-event-id"),
        None
    );
    hub.publish(&[("topic", BOOK), ("data", "news")]);
    assert_eq!(unknown.next_event().data, "news");
}

#[test]
fn answers_ids_that_are_none_as_unknown() {
    let hub = Hub::start("anonymous");
    let valid = hub.publish(&[("topic", BOOK), ("data", "before")]);
    let path = Hub::path(&[BOOK], None);
    let log_id = valid.strip_prefix("urn:uuid:").unwrap_or(&valid);
    let ids: [Vec<u8>; 8] = [
        b"18446744073709551616".to_vec(),
        b"zzzzzzzzzzzzzzzz-zzzzzzzzzzzzzzzz".to_vec(),
        // 2^64 in base 36.
        b"3w5e11264sgsg-1".to_vec(),
        format!("{log_id}0zzzzzzzzzzzzz").into_bytes(),
        b"#".to_vec(),
        b"\xff\xfe".to_vec(),
        [log_id.as_bytes(), b"\xff"].concat(),
        vec![b'9'; 1_000],
    ];
    for id in &ids {
        let shown = String::from_utf8_lossy(id).into_owned();
        let mut connection = hub.connect();
        let mut head = format!("GET {path} HTTP/1.1\r\nHost: hub\r\nLast-Event-ID: ").into_bytes();
        head.extend_from_slice(id);
        connection.send([&head[..], b"\r\n\r\n"].concat());
        let by_header = Stream::after_request(connection).expect("a stream");
        let escaped: String = id.iter().map(|byte| format!("%{byte:02X}")).collect();
        let target = format!("{path}&lastEventID={escaped}");
        let mut streams = vec![(by_header, "header")];
        match std::str::from_utf8(id) {
            Ok(_) => streams.push((Stream::open(hub.connect(), &target, None), "query")),
            // A query must be UTF-8.
            Err(_) => assert_eq!(hub.connect().get(&target).status(), 400, "{shown}"),
        }
        for (mut stream, way) in streams {
            let answered = stream.head().header("last-event-id");
            assert_eq!(answered, Some("earliest"), "{way} {shown}");
            hub.publish(&[("topic", BOOK), ("data", "live")]);
            assert_eq!(stream.next_event().data, "live", "{way} {shown}");
        }
    }
}

#[test]
fn more_than_a_piece_is_resumed_and_filtered() {
    let hub = Hub::start("anonymous");
    let first = hub.publish(&[("topic", "first"), ("data", "0")]);
    let token = format!("Bearer {}", publisher(&["*"]));
    let headers = [
        ("Authorization", token.as_str()),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let mut connection = hub.connect();
    for at in 0..3000 {
        // The client subscribes to one topic in a hundred.
        let body = format!("topic=t{}&data={at}", at % 100);
        let response = connection.request("POST", PATH, &headers, body.as_bytes());
        assert_eq!(response.status(), 200);
    }
    let mut wanted = Stream::open(hub.connect(), &Hub::path(&["t7"], None), Some(&first));
    let mut all = Stream::open(hub.connect(), &Hub::path(&["t{n}"], None), Some(&first));
    hub.publish(&[("topic", "t7"), ("data", "live")]);
    let expected: Vec<String> = (0..30).map(|at| (at * 100 + 7).to_string()).collect();
    assert_eq!(data(&mut wanted, 30), expected);
    assert_eq!(wanted.next_event().data, "live");
    let expected: Vec<String> = (0..3000).map(|at| at.to_string()).collect();
    assert_eq!(data(&mut all, 3000), expected);
    assert_eq!(all.next_event().data, "live");
}

#[test]
fn pages_find_the_hub_and_what_they_may() {
    let hub = Hub::start("anonymous\ncors_origins https://page.example\nheartbeat 200ms");
    let path = Hub::path(&["a"], None);
    let origin = [("Origin", "https://page.example")];
    let mut asking = hub.connect();
    let preflight = asking.request("OPTIONS", &path, &origin, b"");
    assert_eq!(preflight.status(), 204);
    let allowed = preflight.header("access-control-allow-headers");
    assert!(allowed.is_some_and(|it| it.contains("Last-Event-ID")));
    let evil = asking.request("OPTIONS", &path, &[("Origin", "https://evil.example")], b"");
    assert_eq!(evil.header("access-control-allow-origin"), None);
    let head = asking.request("HEAD", &path, &origin, b"");
    assert_eq!(head.status(), 200);
    let link = head.header("link");
    assert_eq!(link, Some("</.well-known/mercure>; rel=\"mercure\""));
    assert_eq!(
        head.header("access-control-allow-origin"),
        Some(origin[0].1)
    );
    assert_eq!(
        head.header("access-control-allow-credentials"),
        Some("true")
    );
    assert_eq!(asking.get("/healthz").status(), 200);
    assert_eq!(asking.get("/elsewhere").status(), 404);
    assert_eq!(asking.get(PATH).status(), 400);
    assert_eq!(asking.request("DELETE", PATH, &[], b"").status(), 405);
    // The keep-alive comments arrive.
    let mut stream = hub.subscribe(&["a"], None);
    for _ in 0..3 {
        let comment = |item: &fermata_testkit::sse::Item| {
            matches!(item, fermata_testkit::sse::Item::Comment(_))
        };
        while !comment(&stream.next_item()) {}
    }
}

#[test]
fn a_client_that_got_nothing_yet_can_resume() {
    let hub = Hub::start("anonymous");
    let mut stream = hub.subscribe(&["a"], None);
    let position = loop {
        match stream.next_item() {
            fermata_testkit::sse::Item::Position(id) => break id,
            fermata_testkit::sse::Item::Comment(_) => {}
            other => panic!("{other:?}"),
        }
    };
    drop(stream);
    hub.publish(&[("topic", "a"), ("data", "meanwhile")]);
    let mut back = Stream::open(hub.connect(), &Hub::path(&["a"], None), Some(&position));
    assert_eq!(back.next_event().data, "meanwhile");
    back.expect_silence(Duration::from_millis(50));
}
