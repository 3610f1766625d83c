//! A worker that is killed amid presence: who was in it leaves, once, and everybody else's list is right in the end.

use std::collections::BTreeSet;
use std::time::Duration;

use fermata_testkit::websocket::Item;
use fermata_testkit::{Signal, deadline, send_signal, wait_until};

use crate::hub::{Client, Hub, data_of};

/// Users, each with two tabs, which are mostly in different workers.
const USERS: usize = 8;

/// How long a client is listened to before it counts as one that is still there.
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
    let killed = hub.workers()[0];
    assert!(send_signal(killed, Signal::Kill));
    wait_until("another one comes in its place", || {
        let workers = hub.workers();
        (workers.len() == 3 && !workers.contains(&killed)).then_some(())
    });
    // Whose connections have ended is known from the connections themselves.
    let mut lists: Vec<(String, Client, BTreeSet<String>)> = Vec::new();
    for (user, client) in clients {
        lists.push((
            user,
            client,
            (0..USERS).map(|at| format!("user{at}")).collect(),
        ));
    }
    let mut left: BTreeSet<String> = BTreeSet::new();
    wait_until("the connections of the killed worker have ended", || {
        lists.retain_mut(|(_, client, members)| {
            loop {
                match client.socket.try_next(LOOK) {
                    None => return true,
                    Some(Item::End(_)) => return false,
                    Some(Item::Frame(frame)) => take(&frame.payload, members),
                }
            }
        });
        left = lists.iter().map(|(user, _, _)| user.clone()).collect();
        (users_of(&hub) == left).then_some(())
    });
    for (user, client, members) in &mut lists {
        wait_until("the list is right", || {
            while *members != left {
                match client.socket.try_next(deadline()) {
                    Some(Item::Frame(frame)) => take(&frame.payload, members),
                    other => panic!("{user}: {other:?}"),
                }
            }
            Some(())
        });
    }
    // Who comes back is a member again, and told once.
    let mut back = hub.client();
    let members = back.subscribe(&hub, "presence-a", Some("back"));
    let count = members["presence"]["count"].as_u64().expect("a number");
    assert_eq!(count as usize, left.len() + 1);
}

/// A message that changes a list of members. None is told of anybody twice.
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
        // From when the channel was filled.
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
