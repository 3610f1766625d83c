//! Watchlists: watchers receive events when users go online and offline, over tabs and workers.

use std::collections::BTreeMap;
use std::time::Duration;

use fermata_pusher::auth;
use fermata_testkit::websocket::Item;
use fermata_testkit::{Signal, deadline, send_signal, wait_until};
use serde_json::json;

use crate::hub::{Client, Hub, data_of, json_of};

/// Time after which a client counts as still connected if neither data nor a close has arrived.
const LOOK: Duration = Duration::from_millis(50);

/// Signs in as a user with a watchlist.
fn sign_in(hub: &Hub, user: &str, watchlist: &[&str]) -> Client {
    let mut client = hub.client();
    let data = json!({"id": user, "watchlist": watchlist}).to_string();
    let auth = auth::user(&hub.app, &client.id, &data);
    client.send_event("pusher:signin", &json!({"auth": auth, "user_data": data}));
    let frame = client.next();
    assert_eq!(frame["event"], "pusher:signin_success", "{frame}");
    client
}

/// Reads events until the watcher has this state of users; no state repeats.
fn wait_for(client: &mut Client, known: &mut BTreeMap<String, bool>, wanted: &[(&str, bool)]) {
    let wanted: BTreeMap<String, bool> = wanted
        .iter()
        .map(|(user, is_online)| ((*user).to_owned(), *is_online))
        .collect();
    while *known != wanted {
        let frame = match client.socket.try_next(deadline()) {
            Some(Item::Frame(frame)) => json_of(std::str::from_utf8(&frame.payload).expect("text")),
            other => panic!("{other:?} with {known:?}"),
        };
        assert_eq!(frame["event"], "pusher_internal:watchlist_events");
        let data = data_of(&frame);
        for event in data["events"].as_array().expect("a list") {
            let is_online = event["name"] == "online";
            assert!(is_online || event["name"] == "offline", "{event}");
            for user in event["user_ids"].as_array().expect("a list") {
                let user = user.as_str().expect("text").to_owned();
                let before = known.insert(user.clone(), is_online);
                assert_ne!(before, Some(is_online), "{user}");
            }
        }
    }
}

#[test]
fn a_watchlist_tells_who_comes_and_goes() {
    let hub = Hub::start(&[]);
    let ann = sign_in(&hub, "ann", &[]);
    let mut known = BTreeMap::new();
    let mut watcher = sign_in(&hub, "eve", &["ann", "bob", "carl"]);
    wait_for(
        &mut watcher,
        &mut known,
        &[("ann", true), ("bob", false), ("carl", false)],
    );
    let (bob, tab) = (sign_in(&hub, "bob", &[]), sign_in(&hub, "bob", &["eve"]));
    // No user watches dave.
    let _dave = sign_in(&hub, "dave", &[]);
    wait_for(
        &mut watcher,
        &mut known,
        &[("ann", true), ("bob", true), ("carl", false)],
    );
    drop(bob);
    let _carl = sign_in(&hub, "carl", &[]);
    wait_for(
        &mut watcher,
        &mut known,
        &[("ann", true), ("bob", true), ("carl", true)],
    );
    drop((tab, ann));
    wait_for(
        &mut watcher,
        &mut known,
        &[("ann", false), ("bob", false), ("carl", true)],
    );
}

#[test]
fn users_of_a_killed_worker_are_offline() {
    let hub = Hub::start(&[]);
    let users: Vec<String> = (0..12).map(|at| format!("user{at}")).collect();
    let names: Vec<&str> = users.iter().map(String::as_str).collect();
    let mut clients: Vec<Client> = names.iter().map(|user| sign_in(&hub, user, &[])).collect();
    let killed = hub.workers()[0];
    assert!(send_signal(killed, Signal::Kill));
    wait_until("another one comes in its place", || {
        let workers = hub.workers();
        (workers.len() == 3 && !workers.contains(&killed)).then_some(())
    });
    // The kernel has closed the connections of the killed worker.
    let wanted: Vec<(&str, bool)> = names
        .iter()
        .zip(&mut clients)
        .map(|(user, client)| (*user, client.socket.try_next(LOOK).is_none()))
        .collect();
    let mut known = BTreeMap::new();
    let mut watcher = sign_in(&hub, "eve", &names);
    wait_for(&mut watcher, &mut known, &wanted);
}
