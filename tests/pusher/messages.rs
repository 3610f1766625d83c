//! The protocol, byte by byte.

use fermata_testkit::websocket::{PING, Socket};
use fermata_testkit::{Connection, Directory, Random, free_port, wait_until};
use serde_json::json;

use crate::hub::{Hub, data_of, json_of};

/// Number of malformed messages of one client.
const MALFORMED: usize = 10_000;
/// Maximum number of malformed messages without a response.
const IN_FLIGHT: usize = 50;

#[test]
fn a_client_that_comes_back_misses_nothing() {
    let hub = Hub::start(&[]);
    let mut client = hub.client();
    client.subscribe(&hub, "private-a", None);
    hub.publish("private-a", "first", "1");
    let first = client.next();
    assert_eq!(
        (&first["event"], &first["data"]),
        (&json!("first"), &json!("1"))
    );
    drop(client);
    for at in 2..5 {
        hub.publish("private-a", "later", &at.to_string());
    }
    let mut client = hub.client();
    let auth = fermata_pusher::auth::subscription(&hub.app, &client.id, "private-a", None);
    client.send_event(
        "pusher:subscribe",
        &json!({"channel": "private-a", "auth": auth, "fermata:since": first["id"]}),
    );
    assert_eq!(
        client.next()["event"],
        "pusher_internal:subscription_succeeded"
    );
    for at in 2..5 {
        assert_eq!(client.next()["data"], at.to_string());
    }
    hub.publish("private-a", "live", "5");
    assert_eq!(client.next()["data"], "5");
    // An unknown position is reported as missed events.
    let mut stranger = hub.client();
    let data = json!({"channel": "news", "fermata:since": "of-another-server"});
    stranger.send_event("pusher:subscribe", &data);
    assert_eq!(
        stranger.next()["event"],
        "pusher_internal:subscription_succeeded"
    );
    let gap = stranger.next();
    assert_eq!(
        (&gap["event"], &gap["channel"]),
        (&json!("fermata:gap"), &json!("news"))
    );
}

#[test]
fn a_newcomer_that_may_not_read_the_past_is_told_that_it_is_missing() {
    let folder = Directory::new();
    let app =
        "[[app]]\nid = '1'\nkey = 'app-key'\nsecret = '0123456789abcdef'\nresume = 'public'\n";
    let config = folder.write("hub.toml", app);
    let hub = Hub::start(&["--config", config.to_str().expect("text")]);
    let mut member = hub.client();
    for channel in ["private-a", "news"] {
        member.subscribe(&hub, channel, None);
    }
    let mut ids = Vec::new();
    for at in 0..3 {
        for channel in ["private-a", "news"] {
            hub.publish(channel, "before", &at.to_string());
            ids.push(member.next()["id"].clone());
        }
    }
    // A client that was not connected at that time, but has the id of such an event.
    let mut newcomer = hub.client();
    let auth = fermata_pusher::auth::subscription(&hub.app, &newcomer.id, "private-a", None);
    let data = json!({"channel": "private-a", "auth": auth, "fermata:since": ids[0]});
    newcomer.send_event("pusher:subscribe", &data);
    let subscribed = "pusher_internal:subscription_succeeded";
    assert_eq!(newcomer.next()["event"], subscribed);
    let gap = newcomer.next();
    assert_eq!(
        (&gap["event"], &gap["channel"]),
        (&json!("fermata:gap"), &json!("private-a"))
    );
    let data = json!({"channel": "news", "fermata:since": ids[1]});
    newcomer.send_event("pusher:subscribe", &data);
    assert_eq!(newcomer.next()["event"], subscribed);
    for at in 1..3 {
        let event = newcomer.next();
        assert_eq!(
            (&event["channel"], &event["data"]),
            (&json!("news"), &json!(at.to_string()))
        );
    }
    hub.publish("private-a", "live", "");
    assert_eq!(newcomer.next()["event"], "live");
}

#[test]
fn figures_and_health_have_an_address_of_their_own() {
    let at = format!("127.0.0.1:{}", free_port());
    let hub = Hub::configured(&format!("metrics_listen = \"{at}\""));
    let address = at.parse().expect("an address");
    let ask = |path| Connection::open(address).request("GET", path, &[], b"");
    assert_eq!(ask("/health/ready").status(), 200);
    assert!(ask("/metrics").text().contains("fermata_workers 3"));
    let public = hub.connect().request("GET", "/metrics", &[], b"");
    assert_eq!(public.status(), 404);
}

#[test]
fn a_handshake_is_refused_where_clients_can_read_it() {
    let folder = Directory::new();
    let config = folder.write(
        "hub.toml",
        r#"
            [[app]]
            id = "1"
            key = "app-key"
            secret = "0123456789abcdef"
            allowed_origins = ["example.com"]
            connections_max = 1
            [[app]]
            id = "2"
            key = "disabled"
            secret = "fedcba9876543210"
            enabled = false
        "#,
    );
    let hub = Hub::start(&["--config", &config.display().to_string()]);
    for (path, lines, code) in [
        ("/app/no-such?protocol=7", &[][..], 4001),
        ("/app/disabled?protocol=7", &[], 4003),
        ("/app/app-key?protocol=x", &[], 4006),
        ("/app/app-key?protocol=6", &[], 4007),
        ("/app/app-key", &[], 4008),
        (
            "/app/app-key?protocol=7",
            &["Origin: https://evil.example"],
            4009,
        ),
    ] {
        let mut socket = Socket::open_with(hub.connect(), path, lines);
        let frame = json_of(&socket.next_text());
        assert_eq!(
            (&frame["event"], &frame["data"]["code"]),
            (&json!("pusher:error"), &json!(code))
        );
        socket.expect_close(code);
    }
    let held = hub.client();
    // Other workers receive the new count with a delay, so repeat.
    wait_until("another one is refused", || {
        let mut socket = Socket::open(hub.connect(), "/app/app-key?protocol=7");
        let frame = json_of(&socket.next_text());
        (frame["data"]["code"] == 4004).then_some(())
    });
    drop(held);
    wait_until("its place is free", || {
        let mut socket = Socket::open(hub.connect(), "/app/app-key?protocol=7");
        let frame = json_of(&socket.next_text());
        (frame["event"] == "pusher:connection_established").then_some(())
    });
}

#[test]
fn a_client_that_answers_no_ping_is_closed_with_a_code() {
    // The timeout is so long that even a busy machine sends the later messages before the close.
    // Otherwise the close would become a reset.
    let hub = Hub::configured("ping_interval_s = 3\nactivity_timeout_s = 3");
    let mut silent = hub.client();
    silent.ask_to_subscribe(&hub, "presence-a", Some("silent"));
    let mut pings = 0;
    let code = loop {
        let frame = silent.socket.next_frame();
        if let Some(code) = frame.close_code() {
            break code;
        }
        pings += usize::from(frame.first == PING);
    };
    assert_eq!(code, 4201);
    // The server may have counted an earlier message as the response to the first ping.
    assert!((1..=2).contains(&pings), "{pings}");
    wait_until("it is no member any more", || {
        let (_, users) = hub.ask("GET", "/apps/1/channels/presence-a/users", &[], "");
        (users == json!({"users": []})).then_some(())
    });
}

#[test]
fn malformed_messages_do_no_harm() {
    let hub = Hub::start(&[]);
    let mut random = Random::from_environment();
    let mut client = hub.client();
    client.subscribe(&hub, "news", None);
    let whole = json!({
        "event": "pusher:subscribe", "data": {"channel": "presence-a", "auth": "app-key:00", "channel_data": "{}"},
    })
    .to_string()
    .into_bytes();
    let mut answered = 0;
    for at in 0..MALFORMED {
        let mut text = whole.clone();
        for _ in 0..=random.within(0..3) {
            let place = random.within(0..text.len());
            text[place] = b' ' + random.within(0..95) as u8;
        }
        text.truncate(random.within(1..text.len() + 1));
        client.socket.send(0x81, &text);
        client.socket.text(r#"{"event":"pusher:ping"}"#);
        if at % IN_FLIGHT == IN_FLIGHT - 1 || at == MALFORMED - 1 {
            let due = at + 1;
            while answered < due {
                let frame = client.next();
                match frame["event"].as_str() {
                    Some("pusher:pong") => answered += 1,
                    // A mutated message may still be valid, for example for another public channel.
                    Some("pusher:error" | "pusher_internal:subscription_succeeded") => {}
                    other => panic!("{other:?}: {frame}"),
                }
            }
        }
    }
    hub.publish("news", "still", "there");
    assert_eq!(client.next()["event"], "still");
}

#[test]
fn what_a_publisher_asks_too_much_is_refused_and_named() {
    let hub = Hub::start(&[]);
    let path = "/apps/1/events";
    for (body, status, word) in [
        (
            json!({"name": "x", "data": "x", "channel": "a b"}),
            400,
            "a b",
        ),
        (
            json!({"name": "x", "data": "x".repeat(20_000), "channel": "a"}),
            413,
            "20000",
        ),
        (json!({"data": "x", "channel": "a"}), 400, "name"),
    ] {
        let (found, answer) = hub.ask("POST", path, &[], &body.to_string());
        assert_eq!(found, status);
        let error = answer["error"].as_str().expect("a sentence");
        assert!(error.contains(word), "{error}");
    }
    let (status, _) = hub.ask("GET", "/apps/2/channels", &[], "");
    assert_eq!(status, 404);
}

#[test]
fn a_request_for_sockjs_where_it_is_off_is_told_what_helps() {
    let hub = Hub::configured("sockjs = false");
    for path in [
        "/pusher/app/app-key/940/cu3cooh1/xhr_streaming?protocol=7&client=js&version=8.6.0&t=1&n=1",
        "/pusher/app/app-key/940/cu3cooh1/xhr?protocol=7",
        "/app/app-key/940/cu3cooh1/xhr_send",
        "/pusher/info",
    ] {
        let answer = hub.connect().post(path, "[]");
        assert_eq!(answer.status(), 404, "{path}");
        assert!(answer.text().contains("enabledTransports"), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        // A page of a foreign origin can read neither status nor text of this response.
        let asks = [
            ("Origin", "https://page.example"),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "content-type"),
        ];
        let may = hub.connect().request("OPTIONS", path, &asks, b"");
        assert_eq!(may.status(), 204, "{path}");
        assert_eq!(may.header("access-control-allow-origin"), Some("*"));
        assert_eq!(
            may.header("access-control-allow-headers"),
            Some("Content-Type")
        );
        assert_eq!(may.header("content-type"), None);
    }
    for path in [
        "/xhr",
        "/a/b/c/xhr_send",
        "/app/app-key/xhr",
        "/app/app-key/1/a/b/xhr",
    ] {
        let answer = hub.connect().post(path, "[]");
        assert_eq!(answer.status(), 404, "{path}");
        assert!(!answer.text().contains("enabledTransports"), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
        let may = hub.connect().request("OPTIONS", path, &[], b"");
        assert_eq!(may.status(), 404, "{path}");
    }
}

#[test]
fn members_are_bounded_and_said() {
    let folder = Directory::new();
    let config = folder.write(
        "hub.toml",
        "[[app]]\nid = '1'\nkey = 'app-key'\nsecret = '0123456789abcdef'\npresence_members_max = 2\n",
    );
    let hub = Hub::start(&["--config", &config.display().to_string()]);
    let (mut ann, mut bob, mut bobs_tab) = (hub.client(), hub.client(), hub.client());
    ann.subscribe(&hub, "presence-a", Some("ann"));
    bob.subscribe(&hub, "presence-a", Some("bob"));
    let members = bobs_tab.subscribe(&hub, "presence-a", Some("bob"));
    assert_eq!(members["presence"]["count"], 2);
    let mut eva = hub.client();
    let data = json!({"user_id": "eva"}).to_string();
    let auth = fermata_pusher::auth::subscription(&hub.app, &eva.id, "presence-a", Some(&data));
    eva.send_event(
        "pusher:subscribe",
        &json!({"channel": "presence-a", "auth": auth, "channel_data": data}),
    );
    let frame = eva.next();
    assert_eq!(
        (&frame["event"], &frame["data"]["code"]),
        (&json!("pusher:error"), &json!(4004))
    );
    // Ann received one event about Bob, and no other.
    let added = ann.next();
    assert_eq!(added["event"], "pusher_internal:member_added");
    assert_eq!(data_of(&added)["user_id"], "bob");
    hub.publish("presence-a", "end", "");
    assert_eq!(ann.next()["event"], "end");
}
