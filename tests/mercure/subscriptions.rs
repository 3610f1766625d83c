//! Subscription events and the subscription API, also when a worker is killed.

use std::collections::BTreeSet;

use fermata_testkit::{Connection, Response, Signal, send_signal, wait_until};
use serde_json::Value;

use crate::hub::{Hub, PATH, escape, now_s, reader, sign};

const ALL: &str = "/.well-known/mercure/subscriptions{/topic}{/subscriber}";

/// Requests subscriptions and returns the response.
pub fn ask(hub: &Hub, below: &str) -> Response {
    let bearer = format!(
        "Bearer {}",
        reader(&["/.well-known/mercure/subscriptions", ALL])
    );
    let path = format!("{PATH}/subscriptions{below}");
    let headers = [("Authorization", bearer.as_str())];
    hub.connect().request("GET", &path, &headers, b"")
}

fn list(hub: &Hub, below: &str) -> Value {
    let response = ask(hub, below);
    assert_eq!(response.status(), 200, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("application/ld+json"));
    serde_json::from_str(response.text()).expect("JSON")
}

pub fn count(hub: &Hub, below: &str) -> usize {
    let found = list(hub, below);
    found["subscriptions"].as_array().expect("a list").len()
}

#[test]
fn coming_and_going_is_told_and_can_be_asked_for() {
    let hub = Hub::start("subscriptions\nanonymous");
    let mut watcher = hub.subscribe(&[ALL], Some(&reader(&[ALL])));
    // The watcher receives the event about itself first.
    let own: Value = serde_json::from_str(&watcher.next_event().data).expect("JSON");
    assert_eq!(own["topic"], ALL);
    let mut stranger = hub.subscribe(&["*"], None);
    let of_stranger: Value = serde_json::from_str(&watcher.next_event().data).expect("JSON");
    assert_eq!(of_stranger["topic"], "*");
    let token = sign(&serde_json::json!({
        "mercure": {"subscribe": ["x"], "payload": {"name": "Ada"}}, "exp": now_s() + 36_000,
    }));
    let client = hub.subscribe(&["https://a/1", "b"], Some(&token));
    let mut told = BTreeSet::new();
    for _ in 0..2 {
        let event: Value = serde_json::from_str(&watcher.next_event().data).expect("JSON");
        assert_eq!(event["active"], true);
        assert_eq!(event["type"], "Subscription");
        assert_eq!(event["payload"]["name"], "Ada");
        let id = event["id"].as_str().expect("text");
        let expected = format!("{PATH}/subscriptions/");
        assert!(id.starts_with(&expected), "{id}");
        told.insert(event["topic"].as_str().expect("text").to_owned());
        // The subscription's own URL returns it.
        let found = list(
            &hub,
            id.strip_prefix(&format!("{PATH}/subscriptions"))
                .expect("it"),
        );
        assert_eq!(found["id"], id);
        assert_eq!(found["active"], true);
    }
    assert_eq!(told.len(), 2);
    assert_eq!(count(&hub, ""), 4);
    assert_eq!(count(&hub, "/b"), 1);
    assert_eq!(count(&hub, &format!("/{}", escape("https://a/1"))), 1);
    assert_eq!(count(&hub, "/none"), 0);
    drop(client);
    for _ in 0..2 {
        let event: Value = serde_json::from_str(&watcher.next_event().data).expect("JSON");
        assert_eq!(event["active"], false);
    }
    assert_eq!(count(&hub, ""), 2);
    // An unauthorized client receives no event about the subscription.
    hub.publish(&[("topic", "a"), ("data", "1")]);
    assert_eq!(stranger.next_event().data, "1");
    let path = format!("{PATH}/subscriptions");
    assert_eq!(hub.connect().get(&path).status(), 401);
    let bearer = format!("Bearer {}", reader(&["a"]));
    let headers = [("Authorization", bearer.as_str())];
    assert_eq!(
        hub.connect().request("GET", &path, &headers, b"").status(),
        403
    );
}

#[test]
fn subscriptions_of_a_killed_worker_end() {
    let hub = Hub::start("subscriptions\nanonymous");
    let mut clients: Vec<_> = (0..12).map(|_| hub.subscribe(&["a"], None)).collect();
    assert_eq!(count(&hub, "/a"), 12);
    let killed = hub.workers()[0];
    assert!(send_signal(killed, Signal::Kill));
    wait_until("another one comes in its place", || {
        let workers = hub.workers();
        (workers.len() == 3 && !workers.contains(&killed)).then_some(())
    });
    wait_until("those who are left are listed, and nobody else", || {
        clients.retain_mut(|client| {
            let patience = std::time::Duration::from_millis(20);
            let item = client.try_next(patience);
            !matches!(item, Some(fermata_testkit::sse::Item::End(_)))
        });
        (count(&hub, "/a") == clients.len()).then_some(())
    });
}

#[test]
fn a_hub_without_subscriptions_tells_nothing() {
    let hub = Hub::start("anonymous");
    let bearer = format!("Bearer {}", reader(&["*"]));
    let headers = [("Authorization", bearer.as_str())];
    let path = format!("{PATH}/subscriptions");
    assert_eq!(
        hub.connect().request("GET", &path, &headers, b"").status(),
        404
    );
    let mut watcher = hub.subscribe(&["*"], Some(&reader(&["*"])));
    let _client = hub.subscribe(&["a"], None);
    hub.publish(&[("topic", "a"), ("data", "1")]);
    assert_eq!(watcher.next_event().data, "1");
}

/// Opens a subscriber with many unique templates, and returns the status of the response.
fn with_templates(hub: &Hub, number: usize) -> (Connection, u16) {
    let topics: Vec<String> = (0..125)
        .map(|at| format!("topic=/%7Ba{number}_{at}%7D"))
        .collect();
    let mut connection = hub.connect();
    let path = format!("{PATH}?{}", topics.join("&"));
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let status = connection.peek_status();
    (connection, status)
}

#[test]
fn one_address_has_a_part_of_the_templates_until_its_clients_leave() {
    let hub = Hub::start("anonymous");
    for round in 0..2 {
        let all: Vec<_> = (0..40)
            .map(|at| with_templates(&hub, 40 * round + at))
            .collect();
        let held = all.iter().filter(|(_, status)| *status == 200).count();
        let refused = all.iter().filter(|(_, status)| *status == 429).count();
        // 1,000 templates in each of three workers; the kernel decides how many clients each worker
        // gets.
        assert!((8..=24).contains(&held) && held + refused == 40, "{held}");
        drop(all);
        wait_until("there is room again", || {
            let (_connection, status) = with_templates(&hub, 1_000 + round);
            (status == 200).then_some(())
        });
    }
}
