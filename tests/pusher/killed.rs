//! A worker is killed during presence changes: its users leave once, and the member lists of all
//! other clients become correct.

use std::collections::BTreeSet;
use std::time::Duration;

use fermata_testkit::websocket::Item;
use fermata_testkit::{Directory, Signal, deadline, send_signal, wait_until};
use serde_json::json;

use crate::hub::{Client, Hub, data_of};

/// Number of users, each with two tabs, which are mostly on different workers.
const USERS: usize = 8;

/// Time after which a client counts as still connected if neither data nor a close has arrived.
const LOOK: Duration = Duration::from_millis(50);

fn users_of(hub: &Hub) -> BTreeSet<String> {
    let (status, answer) = hub.ask("GET", "/apps/1/channels/presence-a/users", &[], "");
    assert_eq!(status, 200, "{answer}");
    let users = answer["users"].as_array().expect("a list");
    let id = |user: &serde_json::Value| user["id"].as_str().expect("text").to_owned();
    users.iter().map(id).collect()
}

#[test]
fn every_member_list_ends_right() {
    let hub = Hub::start(&[]);
    let mut clients: Vec<(String, Client)> = Vec::new();
    for tab in 0..2 {
        for user in 0..USERS {
            let user = format!("user{user}");
            let mut client = hub.client();
            let members = client.subscribe(&hub, "presence-a", Some(&user));
            let count = members["presence"]["count"].as_u64().expect("a number");
            let known = if tab == 0 { clients.len() + 1 } else { USERS };
            assert_eq!(count as usize, known);
            clients.push((user, client));
        }
    }
    let all: BTreeSet<String> = (0..USERS).map(|at| format!("user{at}")).collect();
    let mut lists: Vec<List> = Vec::new();
    for (user, client) in clients {
        lists.push(List {
            user,
            client,
            members: all.clone(),
        });
    }
    // These users connect and disconnect while a worker is killed.
    let mut coming: Vec<(String, Client)> = (0..USERS)
        .map(|at| (format!("late{at}"), hub.client()))
        .collect();
    let going = lists.split_off(lists.len() - USERS / 2);
    for (user, client) in &mut coming {
        client.ask_to_subscribe(&hub, "presence-a", Some(user));
    }
    drop(going);
    let total = lists.len() + coming.len();
    let killed = hub.workers()[0];
    assert!(send_signal(killed, Signal::Kill));
    replaced(&hub, killed);
    for (user, client) in coming {
        lists.push(List {
            user,
            client,
            members: BTreeSet::new(),
        });
    }
    // The connections themselves show which are closed.
    let mut left = settle(&hub, &mut lists);
    // The killed worker may have had no clients. Kill another worker until a client is
    // disconnected.
    while lists.len() == total {
        let killed = hub.workers()[0];
        assert!(send_signal(killed, Signal::Kill));
        replaced(&hub, killed);
        left = settle(&hub, &mut lists);
    }
    for list in &mut lists {
        wait_until("the list is right", || {
            while list.members != left {
                match list.client.socket.try_next(deadline()) {
                    Some(Item::Frame(frame)) => take(&frame.payload, &mut list.members),
                    other => panic!("{}: {other:?}", list.user),
                }
            }
            Some(())
        });
    }
    // A user who reconnects is a member again.
    let mut back = hub.client();
    let members = back.subscribe(&hub, "presence-a", Some("back"));
    let count = members["presence"]["count"].as_u64().expect("a number");
    assert_eq!(count as usize, left.len() + 1);
}

/// A client and its member list, built from its events.
struct List {
    user: String,
    client: Client,
    members: BTreeSet<String>,
}

fn replaced(hub: &Hub, killed: u32) {
    wait_until("another one comes in its place", || {
        let workers = hub.workers();
        (workers.len() == 3 && !workers.contains(&killed)).then_some(())
    });
}

/// Drops the clients whose connections are closed, and waits until the hub's members are the
/// remaining users.
fn settle(hub: &Hub, lists: &mut Vec<List>) -> BTreeSet<String> {
    let mut left = BTreeSet::new();
    wait_until("the connections of the killed worker have ended", || {
        lists.retain_mut(|list| {
            loop {
                match list.client.socket.try_next(LOOK) {
                    None => return true,
                    Some(Item::End(_)) => return false,
                    Some(Item::Frame(frame)) => take(&frame.payload, &mut list.members),
                }
            }
        });
        left = lists.iter().map(|list| list.user.clone()).collect();
        (users_of(hub) == left).then_some(())
    });
    left
}

/// Applies a message to a member list, and asserts that no change repeats.
fn take(payload: &[u8], members: &mut BTreeSet<String>) {
    let frame: serde_json::Value = serde_json::from_slice(payload).expect("JSON");
    let event = frame["event"].as_str().expect("text");
    let user = || {
        data_of(&frame)["user_id"]
            .as_str()
            .expect("text")
            .to_owned()
    };
    match event {
        "pusher_internal:subscription_succeeded" => {
            let ids = data_of(&frame)["presence"]["ids"].clone();
            let ids = ids.as_array().expect("a list").iter();
            *members = ids
                .map(|id| id.as_str().expect("text").to_owned())
                .collect();
        }
        // Sent for connections that joined while the channel was being filled.
        "pusher_internal:member_added" => {
            members.insert(user());
        }
        "pusher_internal:member_removed" => {
            let user = user();
            assert!(members.remove(&user), "{user} has left twice");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_hub_that_keeps_a_file_goes_on_where_it_was_killed() {
    let folder = Directory::new();
    let path = folder.join("history");
    let lines = format!("history_path = '{}'", path.display());
    let hub = Hub::configured(&lines);
    let mut ann = hub.client();
    ann.subscribe(&hub, "presence-a", Some("ann"));
    for at in 0..4 {
        hub.publish("presence-a", "item", &at.to_string());
    }
    hub.publish("cache-a", "item", "cached");
    let first = ann.next();
    assert_eq!(first["data"], "0");
    hub.kill();
    drop(ann);
    let hub = Hub::configured(&lines);
    wait_until("nobody is present any more", || {
        users_of(&hub).is_empty().then_some(())
    });
    let (_, channels) = hub.ask("GET", "/apps/1/channels", &[], "");
    assert_eq!(channels, json!({"channels": {}}));
    let mut bob = hub.client();
    let data = json!({"user_id": "bob"}).to_string();
    let auth = fermata_pusher::auth::subscription(&hub.app, &bob.id, "presence-a", Some(&data));
    bob.send_event(
        "pusher:subscribe",
        &json!({"channel": "presence-a", "auth": auth, "channel_data": data, "fermata:since": first["id"]}),
    );
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let frame = bob.next();
        match frame["event"].as_str() {
            Some("item") => seen.push(frame["data"].clone()),
            Some("pusher_internal:subscription_succeeded") => {
                assert_eq!(data_of(&frame)["presence"]["ids"], json!(["bob"]));
                hub.publish("presence-a", "item", "live");
            }
            other => panic!("{other:?}: {frame}"),
        }
    }
    assert_eq!(seen, ["1", "2", "3", "live"]);
    let mut cached = hub.client();
    cached.subscribe(&hub, "cache-a", None);
    assert_eq!(cached.next()["data"], "cached");
}
