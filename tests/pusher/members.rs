//! In whatever order tabs open and close, a user is added once and removed once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fermata_testkit::websocket::Item;
use fermata_testkit::{Random, wait_until};
use serde_json::{Value, json};

use crate::hub::{Client, Hub, data_of, json_of};

const USERS: usize = 4;
const STEPS: usize = 60;
const CHANNEL: &str = "presence-a";

/// How long to wait for another event before the next action.
const LOOK: Duration = Duration::from_millis(20);

/// The observer of the channel, and the events about each user.
struct Observer {
    client: Client,
    /// In order of arrival; true for an added user.
    told: BTreeMap<String, Vec<bool>>,
}

impl Observer {
    /// Reads the messages that have arrived.
    fn look(&mut self) {
        while let Some(item) = self.client.socket.try_next(LOOK) {
            let Item::Frame(frame) = item else {
                panic!("the observer was closed");
            };
            let event = json_of(&String::from_utf8_lossy(&frame.payload));
            let is_added = match event["event"].as_str() {
                Some("pusher_internal:member_added") => true,
                Some("pusher_internal:member_removed") => false,
                _ => continue,
            };
            let user = data_of(&event)["user_id"].clone();
            let user = user.as_str().expect("text").to_owned();
            self.told.entry(user).or_default().push(is_added);
        }
    }

    /// Waits until exactly these users are present according to the events.
    fn expect(&mut self, present: &BTreeSet<String>) {
        wait_until("the members are who is there", || {
            self.look();
            let last = |told: &Vec<bool>| told.last() == Some(&true);
            let members = self.told.iter().filter(|(_, told)| last(told));
            let members: BTreeSet<String> = members.map(|(user, _)| user.clone()).collect();
            (members == *present).then_some(())
        });
    }
}

/// Reverb finds users only through presence channels, and skips connections that first subscribed
/// to another channel: https://github.com/laravel/reverb/pull/399
#[test]
fn connections_of_a_user_who_is_present_are_ended() {
    let hub = Hub::start(&[]);
    let mut other = hub.client();
    other.subscribe(&hub, CHANNEL, Some("2"));
    // The kernel usually spreads four connections over several workers.
    let mut tabs: Vec<Client> = (0..4).map(|_| hub.client()).collect();
    for tab in &mut tabs {
        tab.subscribe(&hub, "news", None);
        tab.subscribe(&hub, CHANNEL, Some("1"));
    }
    let (status, answer) = hub.ask("POST", "/apps/1/users/1/terminate_connections", &[], "");
    assert_eq!((status, answer), (200, json!({})));
    for tab in &mut tabs {
        while tab.socket.next_frame().close_code() != Some(4009) {}
    }
    let events: Vec<Value> = (0..2).map(|_| other.next()["event"].clone()).collect();
    assert_eq!(
        events,
        [
            "pusher_internal:member_added",
            "pusher_internal:member_removed"
        ]
    );
}

#[test]
fn a_user_is_added_once_and_removed_once() {
    let hub = Hub::start(&[]);
    let mut random = Random::from_environment();
    let mut client = hub.client();
    let seen: Value = client.subscribe(&hub, CHANNEL, Some("observer"));
    assert_eq!(seen["presence"]["count"], 1);
    let told = BTreeMap::new();
    let mut observer = Observer { client, told };
    let mut tabs: Vec<(String, Client)> = Vec::new();
    for step in 0..STEPS {
        if tabs.is_empty() || random.within(0..5) < 3 {
            let user = format!("user{}", random.within(0..USERS));
            let mut tab = hub.client();
            tab.subscribe(&hub, CHANNEL, Some(&user));
            tabs.push((user, tab));
        } else {
            let at = random.within(0..tabs.len());
            let (user, mut tab) = tabs.swap_remove(at);
            if random.within(0..2) == 0 {
                tab.send_event("pusher:unsubscribe", &json!({"channel": CHANNEL}));
                // The tab stays connected and may subscribe again.
                tab.send_event("pusher:ping", &json!({}));
                while tab.next()["event"] != "pusher:pong" {}
                if random.within(0..2) == 0 {
                    tab.subscribe(&hub, CHANNEL, Some(&user));
                    tabs.push((user, tab));
                }
            }
        }
        observer.look();
        if step % 20 == 19 {
            let present = tabs.iter().map(|(user, _)| user.clone()).collect();
            observer.expect(&present);
        }
    }
    tabs.clear();
    observer.expect(&BTreeSet::new());
    assert!(!observer.told.is_empty());
    for (user, told) in &observer.told {
        let turns = told.iter().enumerate();
        let is_alternating = turns
            .into_iter()
            .all(|(at, is_added)| *is_added == (at % 2 == 0));
        assert!(is_alternating, "{user}: {told:?}");
        assert_eq!(told.last(), Some(&false), "{user}: {told:?}");
    }
}

#[test]
fn a_client_that_comes_back_to_a_presence_channel_is_not_told_of_itself() {
    let hub = Hub::start_with(&[], &[("FERMATA_LEAVE_DELAY_MS", "100")]);
    let mut observer = hub.client();
    observer.subscribe(&hub, CHANNEL, Some("observer"));
    let mut ann = hub.client();
    ann.subscribe(&hub, CHANNEL, Some("ann"));
    hub.publish(CHANNEL, "item", "seen");
    let seen = ann.next();
    assert_eq!(seen["data"], "seen");
    let was = ann.id.clone();
    // Events to other clients: one of the client, and one that its backend publishes with its
    // `socket_id` excluded.
    ann.send_event_on("client-own", CHANNEL, &json!("own"));
    let body = json!({"name": "item", "channel": CHANNEL, "data": "to others", "socket_id": was})
        .to_string();
    assert_eq!(hub.ask("POST", "/apps/1/events", &[], &body).0, 200);
    let next = |client: &mut Client| client.next()["event"].clone();
    assert_eq!(next(&mut observer), "pusher_internal:member_added");
    assert_eq!(next(&mut observer), "item");
    // The two events reach the ring on different paths, so their order varies.
    let mut events = [next(&mut observer), next(&mut observer)];
    events.sort_by_key(Value::to_string);
    assert_eq!(events, [json!("client-own"), json!("item")]);
    drop(ann);
    assert_eq!(next(&mut observer), "pusher_internal:member_removed");
    let mut bob = hub.client();
    bob.subscribe(&hub, CHANNEL, Some("bob"));
    assert_eq!(next(&mut observer), "pusher_internal:member_added");
    hub.publish(CHANNEL, "item", "missed");
    assert_eq!(next(&mut observer), "item");
    for is_same_device in [true, false] {
        let mut ann = hub.client();
        let data = json!({"user_id": "ann"}).to_string();
        let auth = fermata_pusher::auth::subscription(&hub.app, &ann.id, CHANNEL, Some(&data));
        let mut subscribe = json!({"channel": CHANNEL, "auth": auth, "channel_data": data,
            "fermata:since": seen["id"]});
        if is_same_device {
            subscribe["fermata:socket_id"] = json!(was);
        }
        ann.send_event("pusher:subscribe", &subscribe);
        let mut got = Vec::new();
        while got.last() != Some(&json!("live")) {
            let frame = ann.next();
            if frame["event"] == "pusher_internal:subscription_succeeded" {
                let mut ids = data_of(&frame)["presence"]["ids"].clone();
                let ids = ids.as_array_mut().expect("a list");
                ids.sort_by_key(Value::to_string);
                assert_eq!(*ids, ["ann", "bob", "observer"]);
                hub.publish(CHANNEL, "item", "live");
                continue;
            }
            let is_message = ["item", "client-own"]
                .iter()
                .any(|it| frame["event"] == *it);
            assert!(is_message, "{frame}");
            got.push(frame["data"].clone());
        }
        if is_same_device {
            assert_eq!(got, ["missed", "live"]);
        } else {
            got[..2].sort_by_key(Value::to_string);
            assert_eq!(got, ["own", "to others", "missed", "live"]);
        }
    }
    let mut client = hub.client();
    client.send_event(
        "pusher:subscribe",
        &json!({"channel": "news", "fermata:socket_id": "x"}),
    );
    let frame = client.next();
    assert!(
        frame["data"].to_string().contains("fermata:socket_id"),
        "{frame}"
    );
}
