//! Pusher next to the routes of an application, whose channels it shares with SSE, WebSockets and
//! Mercure.

use std::collections::BTreeSet;

use fermata_testkit::install::skipped;
use fermata_testkit::sse::Stream;
use fermata_testkit::websocket::{Item, Socket};
use fermata_testkit::{Signal, deadline, send_signal, wait_until};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::clients::talk;
use crate::hub::{Client, Hub, data_of, json_of};

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
const PONG: &[u8] = br#"{"event":"pusher:pong""#;
const SYMFONY: &str = "/usr/share/php/Symfony/Component/Mercure/autoload.php";

/// A publish: its data, its event's name, and its function.
type Published<'a> = (&'a str, Option<&'a str>, &'a dyn Fn());

fn mercure(hub: &Hub, topics: &[&str], token: Option<&str>) -> Stream {
    let topics: Vec<String> = topics.iter().map(|it| format!("topic={it}")).collect();
    let token = token.map(|it| format!("&authorization={it}"));
    let query = format!("{}{}", topics.join("&"), token.unwrap_or_default());
    Stream::open(
        hub.connect(),
        &format!("/.well-known/mercure?{query}"),
        None,
    )
}

fn token(claims: &Value) -> String {
    let key = EncodingKey::from_secret(b"!ChangeThisMercureHubJWTSecretKey!");
    encode(&Header::new(Algorithm::HS256), claims, &key).expect("a token")
}

fn post(hub: &Hub, path: &str, body: &str) -> String {
    let response = hub.connect().request("POST", path, &[], body.as_bytes());
    assert_eq!(response.status(), 200, "{path}: {}", response.text());
    response.text().to_owned()
}

/// Requests the authorization of a subscription, as a page does.
fn authorize(hub: &Hub, user: &str, form: &str) -> (u16, String) {
    let path = format!("/broadcasting/auth?user={user}");
    let response = hub
        .connect()
        .request("POST", &path, &[FORM], form.as_bytes());
    (response.status(), response.text().to_owned())
}

/// Subscribes as pages do, with the authorization by the application's closure.
fn join(hub: &Hub, client: &mut Client, channel: &str, user: &str) -> Value {
    let form = format!("socket_id={}&channel_name={channel}", client.id);
    let (status, answer) = authorize(hub, user, &form);
    assert_eq!(status, 200, "{answer}");
    let mut data = json_of(&answer);
    data["channel"] = json!(channel);
    client.send_event("pusher:subscribe", &data);
    let frame = client.next();
    assert_eq!(
        frame["event"], "pusher_internal:subscription_succeeded",
        "{frame}"
    );
    data_of(&frame)
}

/// Returns the next message of an application's socket that does not contain its position.
fn next_message(socket: &mut Socket) -> Value {
    loop {
        let text = json_of(&socket.next_text());
        if text["event"] != "position" {
            return text;
        }
    }
}

#[test]
fn pages_without_websockets_talk_to_a_program() {
    for transport in ["xhr_streaming", "xhr_polling"] {
        talk(&Hub::beside("doors.php"), transport);
    }
}

#[test]
fn the_libraries_talk_to_a_program() {
    let hub = Hub::beside("doors.php");
    talk(&hub, "ws");
    assert!(!hub.connect().get("/pid").text().is_empty());
    assert_eq!(hub.connect().get("/up").status(), 404);
    // The other application has its own channels.
    let mut other = Socket::open(hub.connect(), "/app/other-key?protocol=7");
    other.next_text();
    other.text(r#"{"event":"pusher:subscribe","data":{"channel":"news"}}"#);
    other.next_text();
    let mut client = hub.client();
    client.send_event("pusher:subscribe", &json!({"channel": "news"}));
    client.next();
    post(&hub, "/publish", "for the first");
    assert_eq!(client.next()["data"], "for the first");
    other.text(r#"{"event":"pusher:ping","data":{}}"#);
    assert_eq!(json_of(&other.next_text())["event"], "pusher:pong");
}

#[test]
fn what_anyone_publishes_reaches_everyone() {
    let hub = Hub::beside("doors.php");
    let mut echo = hub.client();
    echo.send_event("pusher:subscribe", &json!({"channel": "news"}));
    assert_eq!(
        echo.next()["event"],
        "pusher_internal:subscription_succeeded"
    );
    let mut events = Stream::open(hub.connect(), "/events", None);
    let mut updates = mercure(&hub, &["news"], None);
    let mut socket = Socket::open(hub.connect(), "/socket");
    // The client receives its position when it has joined.
    socket.next_text();

    let publisher = token(&json!({"mercure": {"publish": ["*"]}}));
    let bearer = format!("Bearer {publisher}");
    let by_mercure = |form: &str| {
        let headers = [FORM, ("Authorization", bearer.as_str())];
        let response =
            hub.connect()
                .request("POST", "/.well-known/mercure", &headers, form.as_bytes());
        assert_eq!(response.status(), 200, "{}", response.text());
    };
    let publish: [Published<'_>; 6] = [
        ("channel", Some("said"), &|| {
            post(&hub, "/publish?name=said", "channel");
        }),
        ("unnamed", None, &|| {
            post(&hub, "/publish", "unnamed");
        }),
        ("function", Some("told"), &|| {
            post(&hub, "/update?name=told", "function");
        }),
        ("api", Some("sent"), &|| hub.publish("news", "sent", "api")),
        ("form", Some("posted"), &|| {
            by_mercure("topic=news&type=posted&data=form");
        }),
        // Private updates reach no other client.
        ("last", Some("end"), &|| {
            post(&hub, "/update?private", "secret");
            by_mercure("topic=news&private=on&data=secret");
            post(&hub, "/publish?name=end", "last");
        }),
    ];
    for (data, name, publish) in publish {
        publish();
        let frame = echo.next();
        assert_eq!(
            (&frame["event"], &frame["channel"], &frame["data"]),
            (
                &json!(name.unwrap_or("message")),
                &json!("news"),
                &json!(data)
            )
        );
        let shown = |event: &fermata_testkit::sse::Event| {
            assert_eq!(event.data, data);
            assert_eq!(event.name, name.unwrap_or("message"), "{data}");
        };
        shown(&events.next_event());
        shown(&updates.next_event());
        let text = next_message(&mut socket);
        assert_eq!(text["data"], data, "{text}");
        let named = text["event"].as_str().filter(|it| *it != "message");
        assert_eq!(named, name, "{text}");
    }
}

#[test]
fn private_updates_and_channels_are_one() {
    let hub = Hub::beside("doors.php");
    let mut echo = hub.client();
    join(&hub, &mut echo, "private-orders", "ann");
    let reader = token(&json!({"mercure": {"subscribe": ["orders", "https://example.com/{id}"]}}));
    let mut updates = mercure(&hub, &["orders"], Some(&reader));
    let mut public = mercure(&hub, &["orders", "end"], None);
    post(&hub, "/publish?channel=private-orders", "by channel");
    assert_eq!(echo.next()["data"], "by channel");
    assert_eq!(updates.next_event().data, "by channel");
    post(&hub, "/update?private&topics=orders", "by update");
    assert_eq!(echo.next()["data"], "by update");
    assert_eq!(updates.next_event().data, "by update");
    // Topics that are not valid Pusher channel names are still channels of the application.
    let book = "https://example.com/1";
    let mut books = mercure(&hub, &[book], Some(&reader));
    let channel = format!("/events?channel=private-{book}");
    let mut events = Stream::open(hub.connect(), &channel, None);
    let path = format!("/update?private&topics={book}");
    post(&hub, &path, "a book");
    assert_eq!(books.next_event().data, "a book");
    assert_eq!(events.next_event().data, "a book");
    post(&hub, "/publish?channel=end", "nothing before");
    assert_eq!(public.next_event().data, "nothing before");
}

#[test]
fn the_hub_in_the_process_of_symfony_publishes() {
    if !std::path::Path::new(SYMFONY).exists() {
        return skipped("php-symfony-mercure is not installed");
    }
    let hub = Hub::beside("doors.php");
    let book = "https://example.com/books/1";
    let reader = token(&json!({"mercure": {"subscribe": ["https://example.com/books/{id}"]}}));
    let mut updates = mercure(&hub, &[book], Some(&reader));
    let mut public = mercure(&hub, &[book], None);
    assert_eq!(post(&hub, "/symfony?private", book), "urn:given");
    let event = updates.next_event();
    assert_eq!(
        (event.name.as_str(), event.data.as_str()),
        ("added", "by symfony")
    );
    assert_eq!(event.id.as_deref(), Some("urn:given"));
    post(&hub, "/symfony", book);
    assert_eq!(public.next_event().data, "by symfony");
    // An invalid update is an error of the application.
    for path in ["/update?topics=", "/update?name=a%0Ab"] {
        let response = hub.connect().request("POST", path, &[], b"x");
        assert_eq!(response.status(), 500, "{path}");
    }
}

#[test]
fn a_closure_decides_who_may() {
    let hub = Hub::beside("doors.php");
    let mut client = hub.client();
    let id = client.id.clone();
    let on = |channel: &str| format!("socket_id={id}&channel_name={channel}");
    let members = join(&hub, &mut client, "presence-room", "bob");
    assert_eq!(
        members["presence"]["hash"],
        json!({"bob": {"name": "Bob"}}),
        "{members}"
    );
    join(&hub, &mut client, "private-a", "ann");
    let (_, answer) = authorize(&hub, "ann", &on("private-encrypted-a"));
    assert!(json_of(&answer)["shared_secret"].is_string(), "{answer}");
    for (user, form, status) in [
        ("nobody", on("private-a"), 403),
        ("elsewhere", on("private-a"), 419),
        ("broken", on("private-a"), 500),
        ("wrong", on("private-a"), 500),
        ("ann", String::new(), 400),
        ("ann", "channel_name=private-a".to_owned(), 400),
        ("ann", format!("socket_id={id}"), 400),
        ("ann", on("private-%00"), 400),
        ("ann", on(&"x".repeat(165)), 400),
        // Names that could be mistaken for another signed text.
        (
            "ann",
            "socket_id=1.2::user::&channel_name=a".to_owned(),
            400,
        ),
        (
            "ann",
            format!("socket_id={id}:private-b&channel_name=c"),
            400,
        ),
        ("ann", format!("socket_id[]={id}&channel_name[]=a"), 400),
    ] {
        assert_eq!(authorize(&hub, user, &form).0, status, "{user} {form}");
    }
    let sign_in = |user: &str| {
        let path = format!("/broadcasting/user-auth?user={user}");
        let form = format!("socket_id={id}");
        hub.connect()
            .request("POST", &path, &[FORM], form.as_bytes())
    };
    assert_eq!(sign_in("nobody").status(), 403);
    client.send_event("pusher:signin", &json_of(sign_in("ann").text()));
    let frame = client.next();
    assert_eq!(frame["event"], "pusher:signin_success", "{frame}");
    let user = json_of(data_of(&frame)["user_data"].as_str().expect("text"));
    assert_eq!(user["id"], "42");
}

/// Returns true if the client's worker is running. Its response follows earlier events about
/// members.
fn answers(client: &mut Client) -> bool {
    client
        .socket
        .send(0x81, r#"{"event":"pusher:ping","data":{}}"#);
    loop {
        match client.socket.try_next(deadline()) {
            Some(Item::Frame(frame)) if frame.payload.starts_with(PONG) => return true,
            Some(Item::Frame(_)) => {}
            Some(Item::End(_)) | None => return false,
        }
    }
}

#[test]
fn members_end_right_when_a_worker_of_the_program_is_killed() {
    const USERS: usize = 6;
    let hub = Hub::beside("doors.php");
    let mut clients: Vec<(String, Client)> = Vec::new();
    for tab in 0..2 {
        for user in 0..USERS {
            let (user, mut client) = (format!("user{user}"), hub.client());
            let members = join(&hub, &mut client, "presence-room", &user);
            let known = if tab == 0 { clients.len() + 1 } else { USERS };
            assert_eq!(members["presence"]["count"], known);
            clients.push((user, client));
        }
    }
    assert!(send_signal(hub.workers()[0], Signal::Kill));
    let mut left = BTreeSet::new();
    // Keep the clients connected until the application's member list is checked.
    let mut living = Vec::new();
    for (user, mut client) in clients {
        if answers(&mut client) {
            left.insert(user);
            living.push(client);
        }
    }
    wait_until("the program knows who is left", || {
        let response = hub
            .connect()
            .try_request("GET", "/members", &[], b"")
            .ok()?;
        let members = json_of(response.text());
        let members: BTreeSet<String> = members
            .as_array()?
            .iter()
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect();
        (members == left).then_some(())
    });
    // The subscription counts are correct, too.
    wait_until("the counts are those of who is left", || {
        let path = "/apps/1/channels/presence-room";
        let (status, answer) = hub.ask("GET", path, &[("info", "user_count")], "");
        (status == 200 && answer["user_count"] == left.len()).then_some(())
    });
}

#[test]
fn garbage_harms_nobody() {
    let hub = Hub::beside("doors.php");
    let mut client = hub.client();
    for text in [
        "",
        "{",
        "[]",
        "null",
        r#"{"event":7}"#,
        r#"{"event":"pusher:subscribe","data":{"channel":7}}"#,
        r#"{"event":"pusher:subscribe","data":{"channel":"private-a","auth":"x"}}"#,
        r#"{"event":"client-x","channel":"news","data":{}}"#,
    ] {
        let mut other = hub.client();
        other.socket.text(text);
    }
    for (method, path) in [
        ("GET", "/apps/1/channels"),
        ("POST", "/apps/1/events"),
        ("DELETE", "/apps/1/%2F"),
        ("POST", "/.well-known/mercure"),
        ("PUT", "/.well-known/mercure/subscriptions/a%2Fb/c"),
        ("GET", "/.well-known/mercure"),
    ] {
        let response = hub.connect().request(method, path, &[], b"{");
        let status = response.status();
        assert!((400..500).contains(&status), "{method} {path}: {status}");
    }
    client.send_event("pusher:ping", &json!({}));
    assert_eq!(client.next()["event"], "pusher:pong");
}

#[test]
fn hides_events_of_the_protocol_that_a_program_publishes() {
    let hub = Hub::beside("doors.php");
    let mut client = hub.client();
    client.subscribe(&hub, "news", None);
    for name in [
        "pusher:error",
        "pusher_internal:member_removed",
        "fermata:gap",
    ] {
        // Names that an application may receive from its users.
        post(&hub, &format!("/publish?name={name}"), "forged");
        post(&hub, &format!("/update?name={name}"), "forged");
        post(&hub, "/publish?name=told", name);
        let event = client.next();
        assert_eq!(
            (&event["event"], &event["data"]),
            (&json!("told"), &json!(name))
        );
    }
}
