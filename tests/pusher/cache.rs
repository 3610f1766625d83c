//! Cache channels as documented by Pusher: a new subscriber first receives the last event of a
//! publisher.

use fermata_pusher::auth;
use fermata_testkit::Directory;
use serde_json::{Value, json};

use crate::hub::{Client, Hub};
use crate::webhooks::{Backend, Does, local, start};

/// One channel of each kind, and the user of its subscribers.
const CHANNELS: [(&str, Option<&str>); 4] = [
    ("cache-a", None),
    ("private-cache-a", None),
    ("private-encrypted-cache-a", None),
    ("presence-cache-a", Some("ann")),
];

/// Returns a new subscriber whose subscription was confirmed.
fn subscriber(hub: &Hub, channel: &str, user: Option<&str>) -> Client {
    let mut client = hub.client();
    client.subscribe(hub, channel, user);
    client
}

fn miss(channel: &str) -> Value {
    json!({"event": "pusher:cache_miss", "channel": channel})
}

#[test]
fn a_subscriber_receives_the_last_event_or_a_miss() {
    let folder = Directory::new();
    let backend = Backend::start(Does::Take);
    let hub = start(
        &folder,
        &local(&backend),
        "events = ['cache_miss', 'channel_occupied']\n",
    );
    for (channel, user) in CHANNELS {
        let mut first = subscriber(&hub, channel, user);
        // The cache miss follows the confirmation and has no data.
        assert_eq!(first.next(), miss(channel));
        let told = backend.wait_for("cache_miss", channel);
        assert_eq!(told, json!({"name": "cache_miss", "channel": channel}));

        hub.publish(channel, "price", "1");
        hub.publish(channel, "price", "2");
        let mut event = first.next();
        while event["data"] != "2" {
            event = first.next();
        }
        let mut second = subscriber(&hub, channel, user);
        let cached = second.next();
        assert_eq!(cached, event, "the event as it was sent live");
        // The cache has only one event: the next one is live.
        hub.publish(channel, "price", "3");
        assert_eq!(second.next()["data"], "3");
        // An event of another channel is not delivered.
        hub.publish("cache-other", "price", "9");
        let mut third = subscriber(&hub, channel, user);
        assert_eq!(third.next()["data"], "3");

        let path = format!("/apps/1/channels/{channel}");
        let (status, state) = hub.ask("GET", &path, &[("info", "cache")], "");
        assert_eq!(
            (status, &state["cache"]["data"]),
            (200, &json!("3")),
            "{state}"
        );
        assert_eq!(
            backend
                .channels("cache_miss")
                .iter()
                .filter(|it| *it == channel)
                .count(),
            1,
            "a subscriber that receives an event is no miss"
        );
    }
}

#[test]
fn events_of_clients_fill_no_cache() {
    let hub = Hub::start(&[]);
    let mut member = subscriber(&hub, "private-cache-b", None);
    assert_eq!(member.next(), miss("private-cache-b"));
    member.send_event_on("client-typing", "private-cache-b", &json!({"x": 1}));
    let mut other = subscriber(&hub, "private-cache-b", None);
    assert_eq!(other.next(), miss("private-cache-b"));
    // Events of clients do not replace the cached event of a publisher.
    hub.publish("private-cache-b", "price", "1");
    for at in 0..5 {
        member.send_event_on("client-typing", "private-cache-b", &json!({"x": at}));
    }
    let mut heard = 0;
    while heard < 5 {
        heard += usize::from(other.next()["event"] == "client-typing");
    }
    let mut third = subscriber(&hub, "private-cache-b", None);
    let cached = third.next();
    assert_eq!(
        (&cached["event"], &cached["data"]),
        (&json!("price"), &json!("1"))
    );
}

#[test]
fn a_refused_subscriber_receives_nothing_of_the_cache() {
    let folder = Directory::new();
    let backend = Backend::start(Does::Take);
    let hub = start(
        &folder,
        &local(&backend),
        "events = ['cache_miss', 'channel_occupied']\n",
    );
    hub.publish("private-cache-c", "secret", "1");
    let mut client = hub.client();
    for (channel, auth) in [
        ("private-cache-c", "app-key:00".to_owned()),
        ("private-cache-d", "app-key:00".to_owned()),
        (
            "private-cache-c",
            auth::subscription(&hub.app, "1.1", "private-cache-c", None),
        ),
    ] {
        client.send_event(
            "pusher:subscribe",
            &json!({"channel": channel, "auth": auth}),
        );
        let frame = client.next();
        assert!(
            frame["event"] == "pusher:error" || frame["event"] == "pusher:subscription_error",
            "{frame}"
        );
    }
    // The earlier events do not arrive later either.
    let data = client.subscribe(&hub, "cache-e", None);
    assert_eq!(data, json!({}));
    assert_eq!(client.next(), miss("cache-e"));
    backend.wait_for("cache_miss", "cache-e");
    assert_eq!(backend.channels("cache_miss"), ["cache-e"]);
    // The client with the valid signature receives the event.
    let mut member = subscriber(&hub, "private-cache-c", None);
    let cached = member.next();
    assert_eq!(
        (&cached["event"], &cached["data"]),
        (&json!("secret"), &json!("1"))
    );
}
