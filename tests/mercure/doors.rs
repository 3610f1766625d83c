//! Two protocols on the same channels: events published with one reach subscribers of the other, if
//! the settings enable it.

use std::time::{SystemTime, UNIX_EPOCH};

use fermata_pusher::{App, auth};
use fermata_testkit::websocket::Socket;
use fermata_testkit::{Directory, Response};
use serde_json::{Value, json};

use crate::hub::{Hub, reader};

const SETTINGS: &str = r#"
[[app]]
id = "1"
key = "app-key"
secret = "0123456789abcdef"

[mercure]
anonymous = true
pusher_app = "1"
"#;

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn trigger(hub: &Hub, app: &App, channel: &str, name: &str, data: &str) -> Response {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now.expect("after 1970").as_secs().to_string();
    let body = json!({"name": name, "channels": [channel], "data": data}).to_string();
    let mut query: Vec<(String, String)> = [
        ("auth_key", app.key.as_str()),
        ("auth_timestamp", &now_s),
        ("auth_version", "1.0"),
        ("body_md5", &auth::body_md5(body.as_bytes())),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    query.sort();
    let text = auth::request_text("POST", "/apps/1/events", &query);
    let signature = auth::sign(app, text.as_bytes());
    query.push(("auth_signature".to_owned(), signature));
    let query: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let target = format!("/apps/1/events?{}", query.join("&"));
    hub.connect().post(&target, body)
}

#[test]
fn what_one_door_publishes_the_other_hears() {
    let directory = Directory::new();
    let file = directory.path().join("hub.toml");
    std::fs::write(&file, SETTINGS).expect("a file of ours");
    let hub = Hub::start_with("", &["--config", &file.display().to_string()]);
    let app = App::new("1", "app-key", "0123456789abcdef").expect("an application");
    let path = "/app/app-key?protocol=7&client=test&version=1";
    let mut echo = Socket::open(hub.connect(), path);
    let established = json_of(&echo.next_text());
    assert_eq!(established["event"], "pusher:connection_established");
    echo.text(&json!({"event": "pusher:subscribe", "data": {"channel": "news"}}).to_string());
    let succeeded = json_of(&echo.next_text());
    assert_eq!(succeeded["event"], "pusher_internal:subscription_succeeded");
    let mut public = hub.subscribe(&["news", "orders"], None);
    let mut private = hub.subscribe(&["news", "orders"], Some(&reader(&["orders"])));

    hub.publish(&[("topic", "news"), ("type", "added"), ("data", "{\"a\":1}")]);
    let event = json_of(&echo.next_text());
    assert_eq!(event["event"], "added");
    assert_eq!(event["channel"], "news");
    assert_eq!(event["data"], "{\"a\":1}");
    for stream in [&mut public, &mut private] {
        assert_eq!(stream.next_event().data, "{\"a\":1}");
    }

    let response = trigger(&hub, &app, "private-orders", "paid", "7");
    assert_eq!(response.status(), 200, "{}", response.text());
    let response = trigger(&hub, &app, "news", "told", "8");
    assert_eq!(response.status(), 200, "{}", response.text());
    let event = private.next_event();
    assert_eq!((event.name.as_str(), event.data.as_str()), ("paid", "7"));
    for stream in [&mut public, &mut private] {
        let event = stream.next_event();
        assert_eq!((event.name.as_str(), event.data.as_str()), ("told", "8"));
    }
    // Events do not loop: the next event is the one that is published next.
    assert_eq!(json_of(&echo.next_text())["event"], "told");
    hub.publish(&[("topic", "news"), ("data", "last")]);
    assert_eq!(json_of(&echo.next_text())["data"], "last");
    assert_eq!(public.next_event().data, "last");
}

#[test]
fn hides_types_of_pushers_protocol_from_clients_of_pusher() {
    let directory = Directory::new();
    let file = directory.write("hub.toml", SETTINGS);
    let hub = Hub::start_with("", &["--config", &file.display().to_string()]);
    let path = "/app/app-key?protocol=7&client=test&version=1";
    let mut echo = Socket::open(hub.connect(), path);
    let established = json_of(&echo.next_text());
    assert_eq!(established["event"], "pusher:connection_established");
    echo.text(&json!({"event": "pusher:subscribe", "data": {"channel": "news"}}).to_string());
    let succeeded = json_of(&echo.next_text());
    assert_eq!(succeeded["event"], "pusher_internal:subscription_succeeded");
    let mut stream = hub.subscribe(&["news"], None);
    for kind in [
        "pusher:error",
        "pusher:connection_established",
        "pusher:cache_miss",
        "pusher_internal:member_removed",
        "pusher_internal:subscription_count",
        "fermata:gap",
    ] {
        let forged = r#"{"code":4009,"message":"forged"}"#;
        hub.publish(&[("topic", "news"), ("type", kind), ("data", forged)]);
        // Mercure subscribers receive every type.
        let event = stream.next_event();
        assert_eq!((event.name.as_str(), event.data.as_str()), (kind, forged));
        // Events of a channel arrive in order, so a forged event would arrive next.
        hub.publish(&[("topic", "news"), ("type", "told"), ("data", kind)]);
        let event = json_of(&echo.next_text());
        assert_eq!(
            (&event["event"], &event["data"]),
            (&json!("told"), &json!(kind))
        );
        stream.next_event();
    }
}
