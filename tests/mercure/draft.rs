//! Version 1.0 of the protocol, a draft: its differences.

use fermata_testkit::sse::Stream;
use fermata_testkit::{Response, wait_until};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::hub::{Hub, PATH, SECRET, escape, now_s, reader};

const RESOURCE: &str = "https://example.com/.well-known/mercure";
const ISSUER: &str = "https://example.com";
const BOOK: &str = "https://example.com/books/1";
const BOOKS: &str = "https://example.com/books/:id";
const ALL: &str = "/.well-known/mercure/subscriptions/*";

fn start(directives: &str) -> Hub {
    let directives = format!("{directives}\nresource_identifier {RESOURCE}\nissuer {ISSUER}");
    Hub::start_as(&directives, &[], &[("MERCURE_PROTOCOL_VERSION", "1.0")])
}

fn sign_for(resource: &str, actions: &[&str], topics: &Value) -> String {
    let header = Header {
        typ: Some("at+jwt".to_owned()),
        ..Header::new(Algorithm::HS256)
    };
    let claims = json!({
        "iss": ISSUER, "aud": resource, "exp": now_s() + 36_000, "iat": now_s(), "sub": "s", "client_id": "c", "jti": "j",
        "authorization_details": [{
            "type": "https://mercure.rocks/authorization-detail",
            "actions": actions, "topics": topics, "payload": {"name": "Ada"},
        }],
    });
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    encode(&header, &claims, &key).expect("a token")
}

fn sign(actions: &[&str], topics: &Value) -> String {
    sign_for(RESOURCE, actions, topics)
}

fn path(matchers: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = matchers
        .iter()
        .map(|(name, value)| format!("{name}={}", escape(value)))
        .collect();
    format!("{PATH}?{}", pairs.join("&"))
}

fn subscribe(hub: &Hub, matchers: &[(&str, &str)], token: Option<&str>) -> Stream {
    let cookie = token.map(|it| format!("__Secure-mercure_access_token={it}"));
    let headers: Vec<(&str, &str)> = cookie.iter().map(|it| ("Cookie", it.as_str())).collect();
    let mut connection = hub.connect();
    connection
        .try_send_request("GET", &path(matchers), &headers, b"")
        .expect("a request");
    Stream::after_request(connection).expect("a stream")
}

fn publish(hub: &Hub, fields: &[(&str, &str)]) -> Response {
    hub.try_publish(&sign(&["publish"], &json!([{"match": "*"}])), fields)
}

#[test]
fn updates_reach_topics_and_patterns() {
    let hub = start("anonymous");
    let mut exact = subscribe(&hub, &[("match", BOOK)], None);
    let mut pattern = subscribe(
        &hub,
        &[("match_urlpattern", BOOKS), ("match", "last")],
        None,
    );
    let mut all = subscribe(&hub, &[("match", "*")], None);
    let first = publish(&hub, &[("topic", BOOK), ("data", "1"), ("type", "new")]);
    assert_eq!(first.status(), 200, "{}", first.text());
    assert!(first.text().starts_with('#'), "{}", first.text());
    publish(
        &hub,
        &[("topic", "https://example.com/books/1/2"), ("data", "2")],
    );
    publish(&hub, &[("topic", "last"), ("data", "3")]);
    for (stream, expected) in [
        (&mut exact, &["1"][..]),
        (&mut pattern, &["1", "3"]),
        (&mut all, &["1", "2", "3"]),
    ] {
        let events = stream.next_events(expected.len());
        let data: Vec<&str> = events.iter().map(|event| event.data.as_str()).collect();
        assert_eq!(data, expected);
        assert_eq!(events[0].id.as_deref(), Some(first.text()));
        assert_eq!(events[0].name, "new");
    }
    // Resumes from the id that the hub returned.
    let again = [
        ("match_urlpattern", BOOKS),
        ("match", "last"),
        ("last_event_id", first.text()),
    ];
    let mut again = subscribe(&hub, &again, None);
    assert_eq!(
        again.head().header("mercure-last-event-id"),
        Some(first.text())
    );
    assert_eq!(again.next_event().data, "3");
    let mut earliest = subscribe(&hub, &[("match", "*"), ("last_event_id", "earliest")], None);
    assert_eq!(earliest.next_events(3)[0].data, "1");
    // A subscription with parameters in the body, which may be longer than a URL.
    let body = format!("match_urlpattern={}&last_event_id=earliest", escape(BOOKS));
    let mut connection = hub.connect();
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    let target = path(&[("match", "last")]);
    connection
        .try_send_request("QUERY", &target, &headers, body.as_bytes())
        .expect("a request");
    let mut by_body = Stream::after_request(connection).expect("a stream");
    let events = by_body.next_events(2);
    assert_eq!((&*events[0].data, &*events[1].data), ("1", "3"));
    publish(&hub, &[("topic", "last"), ("data", "live")]);
    assert_eq!(by_body.next_event().data, "live");
    // Parameters of 0.x are not supported any more.
    for query in ["topic=a", "match_regexp=a", "match_urlpattern=("] {
        let response = hub.connect().get(&format!("{PATH}?{query}"));
        assert_eq!(response.status(), 400, "{query}");
    }
}

#[test]
fn private_updates_need_an_access_token() {
    let hub = start("anonymous");
    let token = sign(
        &["subscribe"],
        &json!([{"match": BOOKS, "match_type": "urlpattern"}]),
    );
    let mut reader_of_books = subscribe(&hub, &[("match", "*")], Some(&token));
    let mut anonymous = subscribe(&hub, &[("match", "*")], None);
    publish(
        &hub,
        &[("topic", BOOK), ("data", "secret"), ("private", "")],
    );
    publish(
        &hub,
        &[
            ("topic", "orders"),
            ("data", "another's"),
            ("private", "on"),
        ],
    );
    publish(&hub, &[("topic", "all"), ("data", "public")]);
    assert_eq!(reader_of_books.next_event().data, "secret");
    assert_eq!(reader_of_books.next_event().data, "public");
    assert_eq!(anonymous.next_event().data, "public");
    let metadata = "/.well-known/oauth-protected-resource/.well-known/mercure";
    let response = hub.connect().get(metadata);
    let document: Value = serde_json::from_str(response.text()).expect("JSON");
    assert_eq!(document["resource"], RESOURCE);
    let bad = [
        reader(&["*"]),
        sign_for(
            "https://other.example",
            &["subscribe"],
            &json!([{"match": "*"}]),
        ),
        "x".to_owned(),
    ];
    for token in &bad {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        let response = hub
            .connect()
            .request("GET", &path(&[("match", "a")]), &headers, b"");
        assert_eq!(response.status(), 401, "{token}");
        let challenge = response.header("www-authenticate").unwrap_or_default();
        assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
        assert!(
            challenge.contains(&format!("{ISSUER}{metadata}")),
            "{challenge}"
        );
        assert_eq!(hub.try_publish(token, &[("topic", "a")]).status(), 401);
    }
    let response = hub.try_publish(
        &sign(&["publish"], &json!([{"match": "a"}])),
        &[("topic", "b")],
    );
    assert_eq!(response.status(), 403);
    let challenge = response.header("www-authenticate").unwrap_or_default();
    assert!(challenge.contains("insufficient_scope"), "{challenge}");
    for fields in [
        [("topic", "*"), ("data", "")],
        [("topic", "a"), ("type", "mercure")],
        [
            ("topic", "/.well-known/mercure/subscriptions/exact/a/b"),
            ("data", ""),
        ],
    ] {
        assert_eq!(publish(&hub, &fields).status(), 400, "{fields:?}");
    }
}

#[test]
fn subscriptions_are_told_with_their_type() {
    let hub = start("subscriptions\nanonymous");
    let topics = json!([{"match": ALL, "match_type": "urlpattern"}, {"match": format!("{PATH}/subscriptions")}]);
    let token = sign(&["subscribe"], &topics);
    let mut watcher = subscribe(&hub, &[("match_urlpattern", ALL)], Some(&token));
    let own = watcher.next_event();
    assert_eq!(own.name, "mercure");
    let stranger = subscribe(&hub, &[("match_urlpattern", BOOKS), ("match", "b")], None);
    let mut told: Vec<(String, String)> = Vec::new();
    for _ in 0..2 {
        let event = watcher.next_event();
        assert_eq!(event.name, "mercure");
        let document: Value = serde_json::from_str(&event.data).expect("JSON");
        assert_eq!(
            (&document["type"], &document["active"]),
            (&json!("subscription"), &json!(true))
        );
        let text = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
        told.push((text("match_type"), text("match")));
        let id = text("id");
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        // Another worker may not have read any update yet. It then returns the earliest position,
        // after which nothing is missed.
        let found = wait_until("its worker knows of an update", || {
            let found = hub.connect().request("GET", &id, &headers, b"");
            assert_eq!(
                (found.status(), found.header("content-type")),
                (200, Some("application/json"))
            );
            let link = found.header("link").unwrap_or_default();
            let is_known = link.contains("last-event-id=\"#");
            assert!(
                is_known || link.contains("last-event-id=\"earliest\""),
                "{link}"
            );
            is_known.then_some(found)
        });
        assert_eq!(
            serde_json::from_str::<Value>(found.text()).expect("JSON"),
            document
        );
        assert!(found.header("etag").is_some());
        let all = hub
            .connect()
            .request("GET", &format!("{PATH}/subscriptions"), &headers, b"");
        let all: Value = serde_json::from_str(all.text()).expect("JSON");
        assert_eq!(
            (&all["type"], all["subscriptions"].as_array().map(Vec::len)),
            (&json!("subscriptions"), Some(3))
        );
    }
    told.sort();
    let expected = [("exact", "b"), ("urlpattern", BOOKS)]
        .map(|(kind, text)| (kind.to_owned(), text.to_owned()));
    assert_eq!(told, expected);
    drop(stranger);
    wait_until("its end is told", || {
        let document: Value = serde_json::from_str(&watcher.next_event().data).expect("JSON");
        (document["active"] == false).then_some(())
    });
}
