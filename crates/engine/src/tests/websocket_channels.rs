//! Tests of sockets in channels: formats, excluded senders, resuming, presence, slow clients,
//! messages by id.

use fermata_proto::ws::frame::Opcode;

use super::sockets::{Call, close, masked, text};
use super::*;
use crate::Since;
use crate::channels::encode::ChannelEvent;
use crate::channels::presence::MembersError;
use crate::websocket::{Format, Join};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

/// Runs all workers until published messages have reached all workers.
fn settle(rigs: &mut [Rig]) {
    for _ in 0..3 {
        for rig in rigs.iter_mut() {
            rig.run();
        }
    }
}

#[test]
fn delivers_to_all_but_the_sender_in_every_worker() {
    let mut rigs = Rig::pair(1, &settings());
    let mut clients = Vec::new();
    for rig in &mut rigs {
        for _ in 0..3 {
            let client = rig.socket("/ws");
            client.peer.write(&text("/join room"));
            rig.run();
            clients.push(client);
        }
    }
    let stream = rigs[0].peer(&get("/hold/room"));
    clients[1].peer.write(&text("/say room one"));
    clients[1].peer.write(&text("/say room two"));
    settle(&mut rigs);
    rigs[1].publish("room", "three");
    settle(&mut rigs);
    for (at, client) in clients.iter_mut().enumerate() {
        let expected: &[&str] = if at == 1 {
            &["three"]
        } else {
            &["one", "two", "three"]
        };
        assert_eq!(client.texts(), expected, "client {at}");
    }
    // Clients of event streams receive the same messages.
    assert_eq!(client::data(&stream.read()), ["one", "two", "three"]);
}

#[test]
fn sends_a_burst_in_one_write() {
    let mut rig = Rig::new(2);
    let mut client = rig.socket("/ws");
    client.peer.write(&text("/join room"));
    rig.run();
    let before = client.peer.sends();
    for at in 0..50 {
        rig.publish("room", &at.to_string());
    }
    rig.run();
    assert_eq!(client.texts().len(), 50);
    assert_eq!(client.peer.sends() - before, 1);
}

#[test]
fn sends_nothing_after_leave_and_reports_misuse() {
    let mut rig = Rig::new(3);
    let mut client = rig.socket("/ws");
    for command in [
        "/join a",
        "/join b",
        "/join c",
        "/leave b",
        "/leave nowhere",
    ] {
        client.peer.write(&text(command));
    }
    rig.run();
    for channel in ["a", "b", "c"] {
        rig.publish(channel, channel);
    }
    rig.run();
    assert_eq!(client.texts(), ["a", "c"]);
    for (command, word) in [
        ("/join a", "already"),
        ("/join \u{1}", "control character"),
        ("/as d ", "user"),
    ] {
        client.peer.write(&text(command));
        rig.run();
        let texts = client.texts();
        assert!(texts[0].contains(word), "{command}: {texts:?}");
    }
    client.peer.write(&close(1000, ""));
    rig.run();
    assert_eq!(rig.worker.channels.local.subscriptions(), 0);
    assert_eq!(rig.worker.channels.local.channels(), 0);
}

#[test]
fn limits_channels_per_socket() {
    let mut rig = Rig::with(
        4,
        Settings {
            channels_per_hold_max: 2,
            ..settings()
        },
    );
    let mut client = rig.socket("/ws");
    for command in ["/join a", "/join b", "/join c"] {
        client.peer.write(&text(command));
    }
    rig.run();
    let texts = client.texts();
    assert!(texts[0].contains("channels_per_hold_max"), "{texts:?}");
}

#[test]
fn sends_json_events_and_resumes_by_id() {
    let mut rig = Rig::new(5);
    let mut client = rig.socket("/ws");
    client.peer.write(&text("/json room"));
    rig.run();
    let position = json(&client.texts()[0]);
    assert_eq!(position["event"], "position");
    let id = rig.publish("room", "a \"quoted\"\nline \u{1}ü");
    rig.run();
    let event = json(&client.texts()[0]);
    let expected = serde_json::json!({
        "channel": "room", "id": id, "event": null, "data": "a \"quoted\"\nline \u{1}ü",
    });
    assert_eq!(event, expected);

    // The client reconnects with its last id, or with its initial position.
    client.peer.close();
    rig.run();
    rig.publish("room", "missed");
    for (since, count) in [
        (id.as_str(), 1),
        (position["id"].as_str().expect("an id"), 2),
    ] {
        let mut client = rig.socket("/ws");
        client.peer.write(&text(&format!("/json room {since}")));
        rig.run();
        let texts = client.texts();
        assert_eq!(texts.len(), count + 1, "{texts:?}");
        assert_eq!(json(&texts[count - 1])["data"], "missed");
        assert_eq!(json(&texts[count])["event"], "position");
        // A client that resumes from the current position has missed nothing.
        let position = json(&texts[count])["id"].to_string();
        client.peer.write(&text("/leave room"));
        client
            .peer
            .write(&text(&format!("/json room {}", position.trim_matches('"'))));
        rig.run();
        assert_eq!(client.texts().len(), 1);
    }
    let mut client = rig.socket("/ws");
    client.peer.write(&text("/json room unknown"));
    rig.run();
    let gap = json(&client.texts()[0]);
    assert_eq!(
        (&gap["event"], &gap["channel"]),
        (&"gap".into(), &"room".into())
    );
}

/// Returns "EVENT USER" of each received event.
fn member_events(texts: &[String]) -> Vec<String> {
    texts
        .iter()
        .map(|text| {
            let event = json(text);
            let data = json(event["data"].as_str().expect("data"));
            let (event, user) = (event["event"].as_str(), data["user"].as_str());
            format!("{} {}", event.expect("a name"), user.expect("a user"))
        })
        .collect()
}

#[test]
fn counts_sockets_in_presence_until_they_close() {
    let mut rig = Rig::new(6);
    let mut watcher = rig.socket("/ws");
    watcher.peer.write(&text("/json room"));
    let mut plain = rig.socket("/ws");
    plain.peer.write(&text("/join room"));
    rig.run();
    watcher.texts();
    let ann = rig.socket("/ws");
    ann.peer.write(&text("/as room ann"));
    let bob = rig.socket("/ws");
    bob.peer.write(&text("/as room bob"));
    rig.run();
    let members = rig.worker.channels.members(b"room", 10).expect("a channel");
    assert_eq!(members.len(), 2);
    let closing = [("cat", Some(1000)), ("dan", None), ("eve", Some(1001))].map(|(user, code)| {
        let socket = rig.socket("/ws");
        socket.peer.write(&text(&format!("/as room {user}")));
        (socket, code)
    });
    rig.run();
    let users = ["ann", "bob", "cat", "dan", "eve"];
    let joins = users.map(|user| format!("join {user}"));
    assert_eq!(member_events(&watcher.texts()), joins);
    // After a lost connection or a reload (1001), this user may reconnect. The other users leave on
    // purpose.
    ann.peer.close();
    bob.peer.write(&text("/leave room"));
    for (socket, code) in &closing {
        let payload = code.map_or_else(Vec::new, |code: u16| code.to_be_bytes().to_vec());
        socket.peer.write(&masked(Opcode::Close, true, &payload));
    }
    rig.run();
    rig.run();
    let mut left = member_events(&watcher.texts());
    left.sort();
    assert_eq!(left, ["leave bob", "leave cat", "leave dan"]);
    rig.advance(5_000);
    let mut left = member_events(&watcher.texts());
    left.sort();
    assert_eq!(left, ["leave ann", "leave eve"]);
    assert!(plain.texts().is_empty(), "data alone has no joins");
    assert!(
        rig.worker
            .channels
            .members(b"room", 10)
            .expect("a channel")
            .is_empty()
    );
}

#[test]
fn announces_changed_info_of_a_present_user() {
    let mut rig = Rig::new(8);
    let mut watcher = rig.socket("/ws");
    watcher.peer.write(&text("/json room"));
    rig.run();
    watcher.texts();
    let mut join = |info: &str| {
        let tab = rig.socket("/ws");
        tab.peer.write(&text(&format!("/as room ann {info}")));
        rig.run();
        let data = |text: &String| json(json(text)["data"].as_str().expect("data"));
        let events: Vec<_> = watcher.texts().iter().map(data).collect();
        (tab, events)
    };
    let (_first, events) = join("1");
    assert_eq!(events, [json(r#"{"user":"ann","info":1}"#)]);
    let (_second, events) = join("1");
    assert!(events.is_empty(), "{events:?}");
    let (_third, events) = join("2");
    assert_eq!(events, [json(r#"{"user":"ann","info":2,"changed":true}"#)]);
}

#[test]
fn applies_the_policy_to_a_socket_behind_its_channel() {
    for (path, is_closed) in [("/drop", false), ("/refuse", false), ("/close", true)] {
        let mut rig = Rig::with(
            7,
            Settings {
                channel_log_bytes_max: 2048,
                ..settings()
            },
        );
        let mut slow = rig.socket(path);
        slow.peer.write(&text("/json room"));
        rig.run();
        slow.texts();
        slow.peer.set_window(100);
        for at in 0..100 {
            rig.publish("room", &format!("{at:0100}"));
            rig.run();
        }
        slow.peer.set_window(100_000);
        let mut frames = slow.frames();
        for _ in 0..20 {
            rig.run();
            frames.extend(slow.frames());
        }
        let has_gap = frames
            .iter()
            .any(|(_, payload)| String::from_utf8_lossy(payload).contains("too slow"));
        assert_eq!(has_gap, !is_closed, "{path}");
        let (opcode, payload) = frames.last().expect("frames");
        if is_closed {
            assert_eq!(
                (*opcode, &payload[..2]),
                (Opcode::Close, &1013u16.to_be_bytes()[..])
            );
        } else {
            let last = json(std::str::from_utf8(payload).expect("text"));
            assert_eq!(last["data"], format!("{:0100}", 99));
        }
    }
}

#[test]
fn fails_members_while_the_table_is_locked() {
    let [mut here, mut elsewhere] = Rig::pair(10, &settings());
    let ann = here.socket("/ws");
    ann.peer.write(&text("/as room ann"));
    here.run();
    let worker = &mut here.worker;
    let mut outcomes = None;
    worker
        .channels
        .ring
        .members(&worker.channels.owner, b"room", 1, &mut |_, _, _| {
            let other = &mut elsewhere.worker;
            outcomes = Some((
                other.channels.member_count(b"room"),
                other.channels.members(b"room", 1),
            ));
        })
        .expect("the lock is free");
    let (count, members) = outcomes.expect("ann is present");
    assert!(
        matches!(count, Err(MembersError::Backpressure(_))),
        "{count:?}"
    );
    assert!(
        matches!(members, Err(MembersError::Backpressure(_))),
        "{members:?}"
    );
    let misuse = elsewhere.worker.channels.member_count(b"");
    assert!(matches!(misuse, Err(MembersError::Misuse(_))), "{misuse:?}");
    assert_eq!(elsewhere.worker.channels.member_count(b"room"), Ok(1));
}

#[test]
fn delivers_a_message_by_id_to_any_worker() {
    let mut rigs = Rig::pair(8, &settings());
    let mut client = rigs[0].socket("/ws");
    let socket = rigs[0].open[0];
    let id = rigs[0].worker.socket_id(socket).expect("it is open");
    for (at, rig) in rigs.iter_mut().enumerate() {
        rig.worker
            .send_to(id.as_bytes(), false, format!("from {at}").as_bytes())
            .expect("room in the ring");
        rig.worker
            .send_to(id.as_bytes(), true, &[at as u8])
            .expect("room in the ring");
    }
    settle(&mut rigs);
    let frames = client.frames();
    let expected = [
        (Opcode::Text, b"from 0".to_vec()),
        (Opcode::Binary, vec![0]),
        (Opcode::Text, b"from 1".to_vec()),
        (Opcode::Binary, vec![1]),
    ];
    assert_eq!(frames, expected);

    let worker = &mut rigs[1].worker;
    for (id, data, word) in [
        ("nonsense", &b"x"[..], "id"),
        (&id, b"\xff", "UTF-8"),
        (&id, &[b'x'; 5000], "event_bytes_max"),
    ] {
        let error = worker.send_to(id.as_bytes(), false, data).expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
    }
    // Sending to a closed socket causes no error, and the next socket at the same index does not
    // receive its messages.
    client.peer.close();
    settle(&mut rigs);
    let mut next = rigs[0].socket("/ws");
    assert!(rigs[0].worker.socket_id(socket).is_none());
    for rig in &mut rigs {
        rig.worker
            .send_to(id.as_bytes(), false, b"too late")
            .expect("nothing happens");
    }
    settle(&mut rigs);
    assert!(next.frames().is_empty());
}

#[test]
fn bounds_the_cost_of_a_client_that_never_reads() {
    let mut rig = Rig::new(9);
    let dead = rig.socket("/drop");
    dead.peer.write(&text("/join room"));
    let mut alive = rig.socket("/ws");
    alive.peer.write(&text("/join room"));
    rig.run();
    dead.peer.set_window(0);
    let mut got = 0;
    for at in 0..10_000 {
        rig.publish("room", &format!("{at:050}"));
        if at % 100 == 99 {
            rig.run();
            got += alive.texts().len();
        }
    }
    assert_eq!(got, 10_000);
    let info = rig.worker.socket_info(rig.open[0]).expect("it is open");
    let bound = 4096 + rig.worker.settings().channel_log_bytes_max;
    assert!(info.queued_bytes <= bound, "{}", info.queued_bytes);
    assert!(matches!(rig.calls.last(), Some(Call::Text(..))));
}

#[test]
fn pings_and_messages_pass_between_channel_messages() {
    let mut rig = Rig::new(10);
    let mut client = rig.socket("/ws");
    client.peer.set_window(30);
    client.peer.write(&text("/join room"));
    rig.run();
    let mut frames = Vec::new();
    for at in 0..50 {
        rig.publish("room", &format!("message {at}"));
        client.peer.write(&masked(Opcode::Ping, true, b"p"));
        client.peer.write(&text("echo"));
        rig.run();
        frames.extend(client.frames());
    }
    for _ in 0..200 {
        rig.run();
        frames.extend(client.frames());
    }
    let count = |text: &str| {
        let is_it = |frame: &&(Opcode, Vec<u8>)| frame.1.starts_with(text.as_bytes());
        frames.iter().filter(is_it).count()
    };
    assert_eq!((count("message"), count("echo"), count("p")), (50, 50, 50));
}

#[test]
fn counts_users_by_client_address_behind_a_proxy() {
    let mut builder = fermata_config::Builder::new();
    let proxies = ("trusted_proxies", "192.0.2.0/24");
    builder
        .set(proxies.0, proxies.1, fermata_config::Source::Code)
        .expect("a network");
    let of_proxies = builder.build().expect("settings");
    let mut rig = Rig::with(
        1,
        Settings {
            trusted_proxies: of_proxies.trusted_proxies,
            proxy_headers: of_proxies.proxy_headers,
            members_per_address_max: 1,
            ..settings()
        },
    );
    // The server accepts on the first route, the application on the second.
    for path in ["/ws", "/asked/x"] {
        for (address, users) in [
            ("198.51.100.1", [true, false]),
            ("198.51.100.2", [true, false]),
        ] {
            for (at, is_let_in) in users.into_iter().enumerate() {
                let peer = rig.connect();
                peer.write(
                    format!("PROXY TCP4 192.0.2.7 192.0.2.8 {} 80\r\n", 1000 + at).as_bytes(),
                );
                let line = format!("X-Forwarded-For: {address}{}\r\n", path.len());
                peer.write(&super::sockets::handshake(path, &line));
                rig.run();
                let mut client = super::sockets::Client::new(peer);
                assert!(client.accepted().contains("101"), "{}", client.head);
                client
                    .peer
                    .write(&text(&format!("/as room {address}-{path}-{at}")));
                rig.run();
                let texts = client.texts().join(" ");
                let is_refused = texts.contains("members_per_address_max (1)");
                assert_eq!(is_refused, !is_let_in, "{path} {address} {at}: {texts}");
            }
        }
    }
}

/// Formats an event as text.
fn show(event: &ChannelEvent<'_>, out: &mut Vec<u8>) -> bool {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let text = match event {
        ChannelEvent::Message { name, data, .. } => {
            format!("{} {}", lossy(name.unwrap_or_default()), lossy(data))
        }
        ChannelEvent::Join { data, .. } => format!("join {}", lossy(data)),
        ChannelEvent::Leave { data, .. } => format!("leave {}", lossy(data)),
        ChannelEvent::Gap { channel } => format!("gap {}", lossy(channel.unwrap_or_default())),
    };
    out.extend_from_slice(text.as_bytes());
    text != "secret "
}

#[test]
fn sends_messages_in_the_embedders_format() {
    let mut rigs = Rig::pair(1, &settings());
    let mut clients = Vec::new();
    let mut sockets = Vec::new();
    for (rig, user) in rigs.iter_mut().zip(["ann", "bob"]) {
        rig.worker.channels.write_messages(Box::new(show));
        clients.push(rig.socket("/ws"));
        rig.run();
        let socket = *rig.open.last().expect("it is open");
        let join = Join {
            channel: b"room",
            user: Some(user.as_bytes()),
            info: None,
            announces: true,
            since: Since::After(b"of another server"),
            formerly: None,
            format: Format::Own,
        };
        rig.worker.join_channel(socket, &join).expect("it joins");
        sockets.push(rig.worker.socket_id(socket).expect("it is open"));
    }
    settle(&mut rigs);
    for (name, except) in [
        (&b"all"[..], ""),
        (b"but-bob", sockets[1].as_str()),
        (b"secret", ""),
    ] {
        let message = Message {
            name: Some(name),
            data: b"",
        };
        rigs[0]
            .worker
            .publish_except_id(b"room", message, except.as_bytes())
            .expect("there is room");
    }
    settle(&mut rigs);
    // A member receives no event for its own join.
    let joined = r#"join {"user":"bob","info":null}"#;
    assert_eq!(clients[0].texts(), ["gap room", joined, "all ", "but-bob "]);
    assert_eq!(clients[1].texts(), ["gap room", "all "]);
    clients[1].peer.write(&close(1000, ""));
    settle(&mut rigs);
    for rig in &mut rigs {
        rig.advance(5_000);
    }
    settle(&mut rigs);
    let left = r#"leave {"user":"bob","info":null}"#;
    assert_eq!(clients[0].texts(), [left]);
}
