use proptest::prelude::*;
use serde_json::json;

use super::*;

const ID: &str = "12.34";

fn app() -> App {
    App::new("1", "key", "0123456789abcdef").expect("an application")
}

fn send_event(connection: &mut Connection, app: &App, event: &str, data: Value) -> Outcome {
    let text = json!({"event": event, "data": data}).to_string();
    connection.on_message(app, ID, text.as_bytes(), 0)
}

fn subscribe(connection: &mut Connection, app: &App, channel: &str, data: Option<&str>) -> Outcome {
    let auth = auth::subscription(app, ID, channel, data);
    let data = json!({"channel": channel, "auth": auth, "channel_data": data});
    send_event(connection, app, "pusher:subscribe", data)
}

fn error_code(outcome: &Outcome) -> Option<u64> {
    let Outcome::Reply(text) = outcome else {
        return None;
    };
    let frame: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(frame["event"], "pusher:error", "{text}");
    frame["data"]["code"].as_u64()
}

#[test]
fn a_public_channel_needs_no_signature() {
    let (app, mut connection) = (app(), Connection::new());
    let outcome = send_event(
        &mut connection,
        &app,
        "pusher:subscribe",
        json!({"channel": "news"}),
    );
    assert!(
        matches!(outcome, Outcome::Subscribe(it) if it.channel == "news" && it.member.is_none())
    );
    assert_eq!(connection.channels().collect::<Vec<_>>(), ["news"]);
    let outcome = send_event(
        &mut connection,
        &app,
        "pusher:unsubscribe",
        json!({"channel": "news"}),
    );
    assert_eq!(outcome, Outcome::Unsubscribe("news".to_owned()));
    assert_eq!(connection.channels().count(), 0);
}

#[test]
fn a_private_channel_needs_its_own_signature() {
    let (app, mut connection) = (app(), Connection::new());
    for auth in [
        Value::Null,
        json!("key:00"),
        json!(auth::subscription(&app, ID, "private-b", None)),
        json!(auth::subscription(&app, "12.35", "private-a", None)),
    ] {
        let data = json!({"channel": "private-a", "auth": auth});
        let outcome = send_event(&mut connection, &app, "pusher:subscribe", data);
        assert_eq!(error_code(&outcome), Some(4009));
    }
    assert_eq!(connection.channels().count(), 0);
    let outcome = subscribe(&mut connection, &app, "private-a", None);
    assert!(matches!(outcome, Outcome::Subscribe(_)));
    // A repeated subscription is confirmed and changes nothing.
    let outcome = subscribe(&mut connection, &app, "private-a", None);
    assert_eq!(
        (error_code(&outcome), connection.channels().count()),
        (None, 1)
    );
}

#[test]
fn a_connection_belongs_to_its_user_and_its_members() {
    let (app, mut connection) = (app(), Connection::new());
    subscribe(&mut connection, &app, "private-a", None);
    assert!(!connection.belongs_to("10"));
    let data = r#"{"user_id":10}"#;
    subscribe(&mut connection, &app, "presence-room", Some(data));
    assert!(connection.belongs_to("10") && !connection.belongs_to("1"));
    let left = json!({"channel": "presence-room"});
    send_event(&mut connection, &app, "pusher:unsubscribe", left);
    assert!(!connection.belongs_to("10"));
    let data = r#"{"id":"7"}"#;
    let auth = auth::user(&app, ID, data);
    let data = json!({"auth": auth, "user_data": data});
    send_event(&mut connection, &app, "pusher:signin", data);
    assert!(connection.belongs_to("7"));
}

#[test]
fn presence_subscription_has_its_member() {
    let (app, mut connection) = (app(), Connection::new());
    let outcome = subscribe(
        &mut connection,
        &app,
        "presence-room",
        Some(r#"{"user_id":10,"user_info":{"name":"Ann"}}"#),
    );
    let Outcome::Subscribe(subscribe_) = outcome else {
        panic!("{outcome:?}");
    };
    let member = subscribe_.member.expect("a member");
    assert_eq!(
        (member.user_id.as_str(), member.user_info),
        ("10", json!({"name": "Ann"}))
    );
    for data in [
        None,
        Some("{}"),
        Some("[]"),
        Some(r#"{"user_id":""}"#),
        Some(r#"{"user_id":"a\n"}"#),
    ] {
        let outcome = subscribe(&mut connection, &app, "presence-other", data);
        assert_eq!(error_code(&outcome), Some(4009), "{data:?}");
    }
}

#[test]
fn integers_of_any_length_keep_their_digits_as_user_ids() {
    let (app, mut connection) = (app(), Connection::new());
    for (number, id) in [
        ("18446744073709551616", "18446744073709551616"),
        ("-9223372036854775809", "-9223372036854775809"),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("7.0", "7.0"),
    ] {
        let data = format!(r#"{{"user_id":{number}}}"#);
        let channel = format!("presence-{number}");
        let outcome = subscribe(&mut connection, &app, &channel, Some(&data));
        let Outcome::Subscribe(subscribed) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(subscribed.member.expect("a member").user_id, id);
        let data = format!(r#"{{"id":{number},"watchlist":[{number}]}}"#);
        let auth = auth::user(&app, ID, &data);
        let data = json!({"auth": auth, "user_data": data});
        let outcome = send_event(&mut Connection::new(), &app, "pusher:signin", data);
        let Outcome::SignedIn(signed_in) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(signed_in.watchlist, [id]);
    }
}

#[test]
fn only_the_user_may_subscribe_to_the_own_channel() {
    let (app, mut connection) = (app(), Connection::new());
    let channel = user_channel("12");
    let wanted = json!({"channel": channel});
    let outcome = send_event(&mut connection, &app, "pusher:subscribe", wanted.clone());
    assert_eq!(error_code(&outcome), Some(4009));
    let data = r#"{"id":"12"}"#;
    let auth = auth::user(&app, ID, data);
    let outcome = send_event(
        &mut connection,
        &app,
        "pusher:signin",
        json!({"auth": auth, "user_data": data}),
    );
    let signed_in = SignedIn {
        user_data: data.to_owned(),
        watchlist: Vec::new(),
        is_first: true,
    };
    assert_eq!(outcome, Outcome::SignedIn(signed_in));
    let outcome = send_event(&mut connection, &app, "pusher:subscribe", wanted);
    assert!(matches!(outcome, Outcome::Subscribe(_)));
    let outcome = send_event(
        &mut connection,
        &app,
        "pusher:subscribe",
        json!({"channel": user_channel("13")}),
    );
    assert_eq!(error_code(&outcome), Some(4009));
    let data = r#"{"id":"13"}"#;
    let auth = auth::user(&app, ID, data);
    let outcome = send_event(
        &mut connection,
        &app,
        "pusher:signin",
        json!({"auth": auth, "user_data": data}),
    );
    assert_eq!(error_code(&outcome), Some(4009), "the user stays who it is");
}

#[test]
fn closes_a_connection_with_an_invalid_user() {
    let (app, mut connection) = (app(), Connection::new());
    let outcome = send_event(
        &mut connection,
        &app,
        "pusher:signin",
        json!({"auth": "key:00", "user_data": r#"{"id":"1"}"#}),
    );
    assert!(matches!(outcome, Outcome::Close(Code::Unauthorized, _)));
    assert_eq!(connection.user(), None);
}

#[test]
fn limits_client_events_to_subscribed_channels_and_a_rate() {
    let (mut app, mut connection) = (app(), Connection::new());
    app.limits.client_events_per_second = 2;
    let event = |channel: &str| {
        json!({"event": "client-typing", "channel": channel, "data": {"a": 1}}).to_string()
    };
    let text = event("presence-room");
    let outcome = connection.on_message(&app, ID, text.as_bytes(), 0);
    assert_eq!(error_code(&outcome), Some(4301));
    subscribe(
        &mut connection,
        &app,
        "presence-room",
        Some(r#"{"user_id":"7"}"#),
    );
    subscribe(&mut connection, &app, "news", None);
    for _ in 0..2 {
        let outcome = connection.on_message(&app, ID, text.as_bytes(), 0);
        assert_eq!(
            outcome,
            Outcome::Publish(ClientEvent {
                channel: "presence-room".to_owned(),
                name: "client-typing\u{1f}7".to_owned(),
                data: "{\"a\":1}".to_owned(),
            })
        );
    }
    let outcome = connection.on_message(&app, ID, text.as_bytes(), 999);
    assert_eq!(error_code(&outcome), Some(4301));
    let outcome = connection.on_message(&app, ID, text.as_bytes(), 1000);
    assert!(matches!(outcome, Outcome::Publish(_)));
    let outcome = connection.on_message(&app, ID, event("news").as_bytes(), 2000);
    assert_eq!(
        error_code(&outcome),
        Some(4301),
        "a public channel is the publisher's"
    );
    app.client_events = ClientEvents::Refused;
    let outcome = connection.on_message(&app, ID, text.as_bytes(), 3000);
    assert_eq!(error_code(&outcome), Some(4301));
}

#[test]
fn rejects_client_events_with_malformed_data() {
    let (app, mut connection) = (app(), Connection::new());
    subscribe(&mut connection, &app, "private-a", None);
    let mut send = |data: &str| {
        let text = format!(r#"{{"event":"client-x","channel":"private-a"{data}}}"#);
        connection.on_message(&app, ID, text.as_bytes(), 0)
    };
    assert!(matches!(send(""), Outcome::Publish(event) if event.data.is_empty()));
    for data in [r#","data":1e999"#, r#","data":1,"data":2"#] {
        assert_eq!(error_code(&send(data)), Some(4200), "{data}");
    }
}

#[test]
fn rejects_event_names_with_a_sender() {
    let (app, mut connection) = (app(), Connection::new());
    subscribe(&mut connection, &app, "private-a", None);
    let text =
        json!({"event": "client-x\u{1f}root", "channel": "private-a", "data": 1}).to_string();
    let outcome = connection.on_message(&app, ID, text.as_bytes(), 0);
    assert_eq!(error_code(&outcome), Some(4301));
}

#[test]
fn reports_malformed_messages() {
    let (app, mut connection) = (app(), Connection::new());
    let long = format!("\"{}\"", "x".repeat(app.limits.message_bytes_max));
    for text in ["", "{", "[]", "1", "{\"event\":1}", "\u{0}", &long] {
        let outcome = connection.on_message(&app, ID, text.as_bytes(), 0);
        assert_eq!(error_code(&outcome), Some(4200), "{text:.20}");
    }
    let outcome = send_event(&mut connection, &app, "pusher:subscribe", json!(["a"]));
    assert_eq!(error_code(&outcome), Some(4200));
    let outcome = send_event(&mut connection, &app, "hello", json!({}));
    assert_eq!(error_code(&outcome), Some(4301));
    let outcome = send_event(
        &mut connection,
        &app,
        "pusher:of_a_later_version",
        json!({}),
    );
    assert_eq!(outcome, Outcome::Nothing);
}

#[test]
fn enforces_limits_of_a_connection() {
    let (mut app, mut connection) = (app(), Connection::new());
    app.limits.channels_per_connection_max = 2;
    app.limits.user_id_bytes_max = 3;
    app.limits.user_info_bytes_max = 10;
    app.limits.watchlist_users_max = 1;
    app.limits.event_name_chars_max = 8;
    app.limits.event_data_bytes_max = 4;
    for data in [
        r#"{"user_id":"four"}"#,
        r#"{"user_id":"1","user_info":{"a":"12345"}}"#,
    ] {
        let outcome = subscribe(&mut connection, &app, "presence-a", Some(data));
        assert_eq!(error_code(&outcome), Some(4009), "{data}");
    }
    let long = format!("c{}", "x".repeat(200));
    let outcome = subscribe(&mut connection, &app, &long, None);
    assert_eq!(error_code(&outcome), Some(4009));
    for (user, is_taken) in [
        (r#"{"id":"four"}"#, false),
        (r#"{"id":"1","watchlist":["2","3"]}"#, false),
        (r#"{"id":"1","watchlist":["four"]}"#, false),
        (r#"{"id":"1","watchlist":["2"]}"#, true),
    ] {
        let data = json!({"auth": auth::user(&app, ID, user), "user_data": user});
        let outcome = send_event(&mut connection, &app, "pusher:signin", data);
        assert_eq!(
            matches!(outcome, Outcome::SignedIn(_)),
            is_taken,
            "{user}: {outcome:?}"
        );
        let is_closed = matches!(outcome, Outcome::Close(Code::Unauthorized, _));
        assert_ne!(is_taken, is_closed);
    }
    for channel in ["private-a", "b"] {
        let outcome = subscribe(&mut connection, &app, channel, None);
        assert!(matches!(outcome, Outcome::Subscribe(_)), "{outcome:?}");
    }
    let outcome = subscribe(&mut connection, &app, "c", None);
    assert_eq!(error_code(&outcome), Some(4004));
    for (event, data, is_taken) in [
        ("client-a", "1234", true),
        ("client-ab", "1", false),
        ("client-a", "12345", false),
    ] {
        let text = json!({"event": event, "channel": "private-a", "data": data}).to_string();
        let outcome = connection.on_message(&app, ID, text.as_bytes(), 0);
        let is_published = matches!(outcome, Outcome::Publish(_));
        assert_eq!(is_published, is_taken, "{event} {data}: {outcome:?}");
        assert!(is_taken || error_code(&outcome) == Some(4301));
    }
}

#[test]
fn handshake_requires_protocol_7() {
    let mut app = app();
    let code = |app: &App, protocol, origin| {
        check_handshake(app, protocol, origin)
            .err()
            .map(|(code, _)| code.number())
    };
    assert_eq!(code(&app, Some("7"), None), None);
    assert_eq!(code(&app, None, None), Some(4008));
    assert_eq!(code(&app, Some("x"), None), Some(4006));
    assert_eq!(code(&app, Some("5"), None), Some(4007));
    app.allowed_origins = vec!["example.com".to_owned()];
    assert_eq!(
        code(&app, Some("7"), Some("https://evil.example")),
        Some(4009)
    );
    app.is_enabled = false;
    assert_eq!(code(&app, Some("7"), None), Some(4003));
}

proptest! {
    /// Whatever a client sends, its connection is subscribed only to signed channels, and to no more than the limit.
    #[test]
    fn only_a_signature_opens_a_channel(messages in proptest::collection::vec(message(), 0..60)) {
        let (mut app, mut connection) = (app(), Connection::new());
        app.limits.channels_per_connection_max = 3;
        for (text, is_signed) in messages {
            let before: Vec<String> = connection.channels().map(str::to_owned).collect();
            connection.on_message(&app, ID, text.as_bytes(), 0);
            for channel in connection.channels() {
                let is_public = ChannelName::new(channel).map(ChannelName::access) == Ok(Access::Public);
                prop_assert!(is_public || is_signed || before.iter().any(|it| it == channel));
            }
            prop_assert!(connection.channels().count() <= 3);
        }
    }
}

fn message() -> impl Strategy<Value = (String, bool)> {
    let channel = prop_oneof!["private-[ab]", "presence-[ab]", "[ab]", ".{0,4}"];
    let event = prop_oneof![
        Just("pusher:subscribe"),
        Just("pusher:unsubscribe"),
        Just("client-x")
    ];
    (event, channel, any::<bool>(), ".{0,8}").prop_map(|(event, channel, is_signed, noise)| {
        let data = channel
            .starts_with("presence-")
            .then(|| json!({"user_id": noise}).to_string());
        let auth = if is_signed {
            auth::subscription(&app(), ID, &channel, data.as_deref())
        } else {
            format!("key:{noise}")
        };
        let data = json!({"channel": channel, "auth": auth, "channel_data": data});
        let text = json!({"event": event, "channel": channel, "data": data}).to_string();
        (text, is_signed)
    })
}

#[test]
fn idle_connection_is_small() {
    assert_eq!(size_of::<Connection>(), 24);
    let mut connection = Connection::new();
    for channel in ["one", "two", "three"] {
        let text = format!(r#"{{"event":"pusher:subscribe","data":{{"channel":"{channel}"}}}}"#);
        let outcome = connection.on_message(&app(), "1.2", text.as_bytes(), 0);
        assert!(matches!(outcome, Outcome::Subscribe(_)), "{outcome:?}");
    }
    assert!(connection.channels().eq(["one", "two", "three"]));
    assert!(connection.active.is_none());
    connection.forget("two");
    assert!(connection.channels().eq(["one", "three"]));
}
