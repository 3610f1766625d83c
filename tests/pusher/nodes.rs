//! Several hubs that share a log act as one: events, members, counts, users and webhooks cover all
//! of them.

use fermata_testkit::{Directory, LogServer, over_each_log, wait_until};
use serde_json::{Value, json};

use crate::hub::{Client, Hub, data_of};
use crate::webhooks::{Backend, Does, config, local};

over_each_log!(
    backends_are_told_once_however_many_servers_there_are,
    clients_of_all_servers_get_the_same,
    members_and_counts_are_those_of_all_servers,
    two_applications_with_one_prefix_do_not_meet,
    a_join_is_refused_with_4100_while_a_server_knows_no_members,
    without_the_log_publishing_fails_and_clients_stay,
);

/// Time after which a killed server's state is dropped.
const LEASE_MS: &str = "4000";
const WAIT_MS: &str = "3000";

/// Starts a hub that may not be connected to the log yet.
fn start_at_once(log: &LogServer, arguments: &[&str]) -> Hub {
    start_as("", log, arguments)
}

/// Starts a hub of an application; without a name, the log identifies the application by its
/// secrets.
fn start_as(application: &str, log: &LogServer, arguments: &[&str]) -> Hub {
    let url = log.url();
    let environment = [
        ("FERMATA_CLUSTER_APPLICATION", application),
        ("FERMATA_CLUSTER", url.as_str()),
        // NATS reserves this size, and rejects the stream on a machine with less space.
        ("FERMATA_CLUSTER_BYTES_MAX", "16m"),
        ("FERMATA_CLUSTER_LEASE_MS", LEASE_MS),
        ("FERMATA_PUBLISH_WAIT_MS_MAX", WAIT_MS),
    ];
    Hub::start_with(arguments, &environment)
}

fn start_with(log: &LogServer, arguments: &[&str]) -> Hub {
    let hub = start_at_once(log, arguments);
    wait_until("the log is there", || {
        (try_publish(&hub, "ready", "x").0 == 200).then_some(())
    });
    // Members on other servers become visible with a delay.
    wait_until("members are known", || {
        let mut client = hub.client();
        client.ask_to_subscribe(&hub, "presence-ready", Some("ready"));
        let frame = client.next();
        (frame["event"] == "pusher_internal:subscription_succeeded").then_some(())
    });
    hub
}

fn start(log: &LogServer) -> Hub {
    start_with(log, &[])
}

fn try_publish(hub: &Hub, channel: &str, data: &str) -> (u16, Value) {
    let body = json!({"name": "item", "channel": channel, "data": data}).to_string();
    hub.ask("POST", "/apps/1/events", &[], &body)
}

/// Returns the next message that is not a subscription count.
fn next(client: &mut Client) -> (String, Value) {
    let frame = client.next();
    let event = frame["event"].as_str().expect("a name").to_owned();
    (event, frame["data"].clone())
}

fn item(data: &str) -> (String, Value) {
    ("item".to_owned(), json!(data))
}

fn state(hub: &Hub, channel: &str, info: &str) -> Value {
    let path = format!("/apps/1/channels/{channel}");
    hub.ask("GET", &path, &[("info", info)], "").1
}

/// Events, and messages between servers, do not leave their application.
fn two_applications_with_one_prefix_do_not_meet(log: LogServer) {
    let hubs = ["one", "two"].map(|application| {
        let hub = start_as(application, &log, &[]);
        wait_until("the log is there", || {
            (try_publish(&hub, "ready", "x").0 == 200).then_some(())
        });
        hub
    });
    let mut clients: Vec<Client> = hubs.iter().map(Hub::client).collect();
    for (hub, client) in hubs.iter().zip(&mut clients) {
        client.subscribe(hub, "news", None);
    }
    for (hub, own) in hubs.iter().zip(["ours", "theirs"]) {
        hub.publish("news", "item", own);
    }
    for (client, own) in clients.iter_mut().zip(["ours", "theirs"]) {
        assert_eq!(next(client), item(own));
    }
}

fn clients_of_all_servers_get_the_same(log: LogServer) {
    let hubs = [(); 2].map(|()| start(&log));
    let mut clients: Vec<Client> = hubs.iter().map(Hub::client).collect();
    for (hub, client) in hubs.iter().zip(&mut clients) {
        client.subscribe(hub, "news", None);
        client.subscribe(hub, "private-room", None);
    }
    let numbers: Vec<String> = (0..20).map(|at| at.to_string()).collect();
    for (at, number) in numbers.iter().enumerate() {
        hubs[at % 2].publish("news", "item", number);
    }
    let batch: Vec<Value> = (0..3)
        .map(|at| json!({"name": "item", "channel": "news", "data": format!("b{at}")}))
        .collect();
    let (status, answer) = hubs[1].ask(
        "POST",
        "/apps/1/batch_events",
        &[],
        &json!({"batch": batch}).to_string(),
    );
    assert_eq!(status, 200, "{answer}");
    let expected = numbers.iter().map(String::as_str);
    for data in expected.chain(["b0", "b1", "b2"]) {
        for client in &mut clients {
            assert_eq!(next(client), item(data));
        }
    }
    // An event is published at one server, excluding a socket of the other.
    let body =
        json!({"name": "item", "channel": "news", "data": "but one", "socket_id": clients[1].id});
    let (status, answer) = hubs[0].ask("POST", "/apps/1/events", &[], &body.to_string());
    assert_eq!(status, 200, "{answer}");
    clients[0].send_event_on("client-typing", "private-room", &json!({"key": "a"}));
    assert_eq!(next(&mut clients[0]), item("but one"));
    let frame = clients[1].next();
    assert_eq!(
        (&frame["event"], &frame["channel"]),
        (&json!("client-typing"), &json!("private-room"))
    );
    // A client with an event id of one server resumes at the other server.
    hubs[0].publish("news", "item", "seen");
    let seen = clients[0].next();
    assert_eq!(seen["data"], "seen");
    let id = seen["id"].as_str().expect("an id").to_owned();
    assert_eq!(next(&mut clients[1]), item("seen"));
    hubs[0].publish("news", "item", "missed");
    let mut back = hubs[1].client();
    back.send_event(
        "pusher:subscribe",
        &json!({"channel": "news", "fermata:since": id}),
    );
    assert_eq!(next(&mut back).0, "pusher_internal:subscription_succeeded");
    assert_eq!(next(&mut back), item("missed"));
    // A server that starts later knows the last event of a cache channel.
    hubs[0].publish("cache-weather", "item", "grey");
    let late = start(&log);
    let mut client = late.client();
    client.subscribe(&late, "cache-weather", None);
    assert_eq!(next(&mut client), item("grey"));
    // Closing a user's connections affects all servers.
    let mut users: Vec<Client> = hubs.iter().map(Hub::client).collect();
    for (hub, user) in hubs.iter().zip(&mut users) {
        user.sign_in(hub, "ann");
    }
    let path = "/apps/1/users/ann/terminate_connections";
    let (status, answer) = hubs[0].ask("POST", path, &[], "{}");
    assert_eq!(status, 200, "{answer}");
    for user in &mut users {
        let frame = user.next();
        assert_eq!(data_or_text(&frame)["code"], 4009, "{frame}");
    }
}

fn data_or_text(frame: &Value) -> Value {
    if frame["data"].is_string() {
        data_of(frame)
    } else {
        frame["data"].clone()
    }
}

fn members_and_counts_are_those_of_all_servers(log: LogServer) {
    let mut hubs: Vec<Hub> = (0..3).map(|_| start(&log)).collect();
    let mut ann = hubs[0].client();
    ann.subscribe(&hubs[0], "presence-room", Some("ann"));
    let mut bobs: Vec<Client> = Vec::new();
    for hub in &hubs[1..] {
        // Ann's join arrives through the log. A client that subscribes earlier would receive an
        // event that she was added.
        wait_until("Ann is there", || {
            let users = hub
                .ask("GET", "/apps/1/channels/presence-room/users", &[], "")
                .1;
            users.to_string().contains("ann").then_some(())
        });
        let mut bob = hub.client();
        let data = bob.subscribe(hub, "presence-room", Some("bob"));
        let mut ids: Vec<&str> = data["presence"]["ids"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|id| id.as_str().expect("text"))
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, ["ann", "bob"]);
        bobs.push(bob);
        let expected =
            json!({"occupied": true, "user_count": 2, "subscription_count": bobs.len() + 1});
        for hub in &hubs {
            wait_until("the counts", || {
                let info = "user_count,subscription_count";
                (state(hub, "presence-room", info) == expected).then_some(())
            });
        }
    }
    let (name, data) = next(&mut ann);
    assert_eq!(name, "pusher_internal:member_added");
    assert!(data.as_str().is_some_and(|it| it.contains("bob")), "{data}");
    // Bob stays present when one of his servers is killed, and leaves when the other is killed.
    for left in [1, 0] {
        hubs.remove(1 + left).kill();
        drop(bobs.remove(left));
        let expected =
            json!({"occupied": true, "user_count": 1 + left, "subscription_count": 1 + left});
        wait_until("the counts", || {
            let info = "user_count,subscription_count";
            (state(&hubs[0], "presence-room", info) == expected).then_some(())
        });
    }
    let (name, data) = next(&mut ann);
    assert_eq!(name, "pusher_internal:member_removed");
    assert!(data.as_str().is_some_and(|it| it.contains("bob")), "{data}");
    hubs[0].publish("presence-room", "item", "end");
    assert_eq!(next(&mut ann), item("end"));
}

fn a_join_is_refused_with_4100_while_a_server_knows_no_members(mut log: LogServer) {
    log.kill();
    let hub = start_at_once(&log, &[]);
    let mut early = hub.client();
    // Channels without members do not wait.
    early.subscribe(&hub, "news", None);
    early.ask_to_subscribe(&hub, "presence-room", Some("ann"));
    let frame = early.next();
    assert_eq!(
        (&frame["event"], &frame["data"]["code"]),
        (&json!("pusher:error"), &json!(4100))
    );
    early.socket.expect_close(4100);
    log.restart();
    wait_until("members are known", || {
        let mut client = hub.client();
        client.ask_to_subscribe(&hub, "presence-room", Some("ann"));
        let frame = client.next();
        (frame["event"] == "pusher_internal:subscription_succeeded").then_some(())
    });
}

fn without_the_log_publishing_fails_and_clients_stay(mut log: LogServer) {
    let hubs = [(); 2].map(|()| start(&log));
    let mut client = hubs[0].client();
    client.subscribe(&hubs[0], "news", None);
    log.kill();
    wait_until("publishing fails", || {
        let (status, answer) = try_publish(&hubs[1], "news", "lost");
        let text = answer["error"].as_str().unwrap_or_default().to_owned();
        (status == 503 && text.contains("log of the cluster")).then_some(())
    });
    log.restart();
    wait_until("publishing works", || {
        (try_publish(&hubs[1], "news", "again").0 == 200).then_some(())
    });
    // Either the client did not receive the first event, or it receives a report that events may be
    // missing.
    loop {
        match next(&mut client) {
            it if it == item("again") => break,
            (name, data) => assert!(name == "fermata:gap" || data == "lost", "{name}: {data}"),
        }
    }
}

fn backends_are_told_once_however_many_servers_there_are(log: LogServer) {
    let backend = Backend::start(Does::Take);
    let folder = Directory::new();
    let file = config(&folder, &local(&backend), "").display().to_string();
    let arguments = ["--config", file.as_str()];
    let mut hubs: Vec<Hub> = (0..2).map(|_| start_with(&log, &arguments)).collect();
    let mut ann = hubs[1].client();
    ann.subscribe(&hubs[1], "presence-room", Some("ann"));
    backend.wait_for("channel_occupied", "presence-room");
    backend.wait_for("member_added", "presence-room");
    let mut bob = hubs[0].client();
    bob.subscribe(&hubs[0], "presence-other", Some("bob"));
    backend.wait_for("member_added", "presence-other");
    for (name, channel) in [
        ("channel_occupied", "presence-room"),
        ("member_added", "presence-room"),
        ("member_added", "presence-other"),
    ] {
        let told = backend.channels(name);
        assert_eq!(
            told.iter().filter(|it| *it == channel).count(),
            1,
            "{name}: {told:?}"
        );
    }
    // The hub that sends webhooks is killed. The other hub continues, including for channels that
    // only the first one had.
    hubs.remove(0).kill();
    drop(bob);
    backend.wait_for("member_removed", "presence-other");
    backend.wait_for("channel_vacated", "presence-other");
    drop(ann);
    backend.wait_for("channel_vacated", "presence-room");
    assert_eq!(
        backend
            .channels("channel_occupied")
            .iter()
            .filter(|it| *it == "presence-room")
            .count(),
        1
    );
}
