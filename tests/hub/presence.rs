//! Presence: counted per user over tabs and workers, announced once.

use std::time::Duration;

use fermata_testkit::sse::{Event, Stream};
use fermata_testkit::{Builder, Server, Signal, Target, send_signal, wait_until};
use fermata_tests::{fixture, json, stats};
use serde_json::{Value, json};

/// Delay before a user's leave is announced, in milliseconds.
const LEAVE_DELAY_MS: u64 = 300;

fn hub() -> Builder {
    fixture("hub").setting("leave_delay_ms", LEAVE_DELAY_MS)
}

/// `[[user, info, connections], …]` sorted by user.
fn members(server: &Server) -> Value {
    let mut list = json(&server.connect().get("/members/news"));
    if let Some(rows) = list.as_array_mut() {
        rows.sort_by_key(|row| row[0].to_string());
    }
    list
}

#[track_caller]
fn wait_members(server: &Server, expected: Value) {
    wait_until(&format!("members are {expected}"), || {
        (members(server) == expected).then_some(())
    });
}

/// Opens a stream on a given worker, with presence.
fn tab(server: &Server, pid: u32, user: &str) -> Stream {
    let path = format!("/events?user={user}&info={{\"name\":\"{user}\"}}");
    Stream::open(server.connect_to(pid), &path, None)
}

/// Checks an announcement and the user in it.
#[track_caller]
fn assert_announces(event: &Event, name: &str, user: &str) {
    assert_eq!(event.name, name, "{event:?}");
    let data: Value = serde_json::from_str(&event.data).expect("announcements are JSON");
    assert_eq!(data["user"], user);
    assert_eq!(data["info"]["name"], user);
}

#[test]
fn members_can_be_counted_and_listed_in_part() {
    let server = hub().start();
    let count = || {
        server
            .connect()
            .get("/members/news/count")
            .text()
            .to_string()
    };
    assert_eq!(count(), "0");
    let users = ["ann", "bob", "cyd", "dan"];
    let pids: Vec<u32> = server.worker_pids().into_values().collect();
    let tabs: Vec<Stream> = users
        .iter()
        .enumerate()
        .map(|(at, user)| tab(&server, pids[at % 2], user))
        .collect();
    let _second = tab(&server, pids[1], "ann");
    assert_eq!(count(), "4");
    let some = json(&server.connect().get("/members/news?limit=3"));
    assert_eq!(some.as_array().map(Vec::len), Some(3), "{some}");
    assert_eq!(some[0][0], "dan", "the last to come first: {some}");
    let none = server.connect().get("/members/news?limit=0");
    assert_eq!(none.status(), 500, "a limit is positive");
    drop(tabs);
    wait_until("ann's second tab is left", || {
        (count() == "1").then_some(())
    });
}

#[test]
fn tabs_on_all_workers_are_one_user() {
    let server = hub().start();
    let pids: Vec<u32> = server.worker_pids().into_values().collect();
    let mut watcher = Stream::open(server.connect(), "/events", None);
    let first = tab(&server, pids[0], "ann");
    assert_announces(&watcher.next_event(), "join", "ann");
    let second = tab(&server, pids[1], "ann");
    let third = tab(&server, pids[1], "ann");
    wait_members(&server, json!([["ann", {"name": "ann"}, 3]]));
    let bob = tab(&server, pids[0], "bob");
    assert_announces(&watcher.next_event(), "join", "bob");
    wait_members(
        &server,
        json!([["ann", {"name": "ann"}, 3], ["bob", {"name": "bob"}, 1]]),
    );

    drop((first, second));
    wait_members(
        &server,
        json!([["ann", {"name": "ann"}, 1], ["bob", {"name": "bob"}, 1]]),
    );
    watcher.expect_silence(Duration::from_millis(LEAVE_DELAY_MS * 2));
    drop(third);
    assert_announces(&watcher.next_event(), "leave", "ann");
    wait_members(&server, json!([["bob", {"name": "bob"}, 1]]));
    drop(bob);
    assert_announces(&watcher.next_event(), "leave", "bob");
    watcher.expect_silence(Duration::from_millis(LEAVE_DELAY_MS * 2));
}

#[test]
fn a_quick_reconnect_is_silent() {
    let server = hub().setting("leave_delay_ms", 5_000).start();
    let pids: Vec<u32> = server.worker_pids().into_values().collect();
    let mut watcher = Stream::open(server.connect(), "/events", None);
    let mut current = tab(&server, pids[0], "ann");
    assert_announces(&watcher.next_event(), "join", "ann");
    for round in 0..6 {
        drop(current);
        current = tab(&server, pids[round % 2], "ann");
    }
    wait_members(&server, json!([["ann", {"name": "ann"}, 1]]));
    watcher.expect_silence(Duration::from_millis(100));
}

#[test]
fn a_member_that_is_not_announced_is_present_all_the_same() {
    let server = hub().start();
    let mut watcher = Stream::open(server.connect(), "/events", None);
    let silent = Stream::open(server.connect(), "/events?user=ghost&silent=1", None);
    wait_members(&server, json!([["ghost", null, 1]]));
    drop(silent);
    wait_members(&server, json!([]));
    watcher.expect_silence(Duration::from_millis(LEAVE_DELAY_MS * 2));
}

#[test]
fn a_new_client_sees_its_own_join_at_most_once() {
    let server = hub().start();
    let pid = server.worker_pids()[&0];
    let mut ann = tab(&server, pid, "ann");
    let _bob = tab(&server, pid, "bob");
    fermata_tests::publish(&server, "news", "the end");
    let mut joined = Vec::new();
    while joined.last().is_none_or(|data: &String| data != "the end") {
        joined.push(ann.next_event().data);
    }
    let of_bob = joined.iter().filter(|data| data.contains("bob")).count();
    let of_ann = joined.iter().filter(|data| data.contains("ann")).count();
    assert_eq!(of_bob, 1, "{joined:?}");
    assert!(of_ann <= 1, "{joined:?}");
}

#[test]
fn presence_is_right_after_a_worker_was_killed() {
    let server = hub().setting("restart_delay_ms_max", 200).start();
    let pids: Vec<u32> = server.worker_pids().into_values().collect();
    let mut watcher = Stream::open(server.connect_to(pids[1]), "/events", None);
    let lost = tab(&server, pids[0], "ann");
    let lost_too = tab(&server, pids[0], "bob");
    let kept = tab(&server, pids[1], "bob");
    wait_members(
        &server,
        json!([["ann", {"name": "ann"}, 1], ["bob", {"name": "bob"}, 2]]),
    );
    assert_announces(&watcher.next_event(), "join", "ann");
    assert_announces(&watcher.next_event(), "join", "bob");

    assert!(send_signal(pids[0], Signal::Kill));
    assert_announces(&watcher.next_event(), "leave", "ann");
    server.wait_replaced(0, pids[0]);
    wait_members(&server, json!([["bob", {"name": "bob"}, 1]]));
    // Ann is announced once. Bob has another tab and is not announced.
    watcher.expect_silence(Duration::from_millis(LEAVE_DELAY_MS * 3));
    drop((lost, lost_too, kept));
    assert_announces(&watcher.next_event(), "leave", "bob");
    wait_members(&server, json!([]));
}

#[test]
fn a_user_who_returns_in_time_after_a_kill_was_never_away() {
    let server = hub().setting("leave_delay_ms", 5_000).start();
    let pids: Vec<u32> = server.worker_pids().into_values().collect();
    let mut watcher = Stream::open(server.connect_to(pids[1]), "/events", None);
    let lost = tab(&server, pids[0], "ann");
    assert_announces(&watcher.next_event(), "join", "ann");
    assert!(send_signal(pids[0], Signal::Kill));
    drop(lost);
    let new_pid = server.wait_replaced(0, pids[0]);
    let _back = tab(&server, new_pid, "ann");
    wait_members(&server, json!([["ann", {"name": "ann"}, 1]]));
    watcher.expect_silence(Duration::from_millis(100));
}

#[test]
fn a_crowd_in_one_channel_is_refused_and_leaves_room_for_the_users_of_others() {
    let server = hub()
        .setting("leave_delay_ms", 60_000)
        .setting("members_max", 30)
        .setting("members_per_channel_max", 20)
        .control()
        .start();
    // Clients connect briefly, with unique names. Users who have left still count.
    for user in 0..60 {
        let mut connection = server.connect();
        let head = format!("GET /events?channels=crowd&user=u{user} HTTP/1.1\r\nHost: a\r\n\r\n");
        connection.send(head);
        if user < 20 {
            assert!(connection.has_data(fermata_testkit::deadline()), "{user}");
        } else {
            let response = connection.read_response();
            assert_eq!(response.status(), 503, "{}", response.text());
        }
    }
    server.log().wait_for(
        0,
        "refused a user in channel crowd: members_per_channel_max (20)",
    );
    let _others: Vec<Stream> = (0..10)
        .map(|user| Stream::open(server.connect(), &format!("/events?user=o{user}"), None))
        .collect();
    let mut late = server.connect();
    late.send("GET /events?user=late HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(late.read_response().status(), 503);
    // Present users may open as many tabs as before.
    let _tab = Stream::open(server.connect(), "/events?user=o1", None);
    wait_until("it is counted", || {
        let refused = &stats(&server)["total"]["members_refused"];
        (refused == &json!({"members_max": 1, "members_per_channel_max": 40, "members_per_address_max": 0})).then_some(())
    });
}

/// Returns the status for a client with this address that requests a hold as `user`.
fn status_of(server: &Server, from: &Client<'_>, user: &str) -> u16 {
    let target = Target {
        address: server.address(),
        source: from
            .source
            .map(|source| source.parse().expect("an address")),
        receive_bytes: None,
    };
    let mut connection = target.connect().expect("the server listens");
    let path = from.path;
    let said = from.said;
    connection.send(format!(
        "GET {path}?channels={user}&user={user} HTTP/1.1\r\nHost: a\r\n{said}\r\n"
    ));
    connection.peek_status()
}

struct Client<'a> {
    source: Option<&'a str>,
    path: &'a str,
    said: &'a str,
}

#[test]
fn a_client_with_many_names_leaves_room_for_the_users_of_others() {
    let server = hub()
        .workers(2)
        .setting("leave_delay_ms", 60_000)
        .setting("members_per_address_max", 10)
        .setting("trusted_proxies", "127.0.0.9")
        .control()
        .start();
    let direct = |source| Client {
        source: Some(source),
        path: "/events",
        said: "",
    };
    let proxied = |path, said| Client {
        source: Some("127.0.0.9"),
        path,
        said,
    };
    let crowds = [
        direct("127.0.0.2"),
        proxied("/events", "X-Forwarded-For: 192.0.2.1\r\n"),
        // A hold after a wait, when the request's head was already released.
        proxied("/events-later", "X-Forwarded-For: 192.0.2.2\r\n"),
        // All IPv6 addresses of one network count as one client.
        proxied("/events", "X-Forwarded-For: 2001:db8::1\r\n"),
    ];
    for (crowd, client) in crowds.iter().enumerate() {
        for user in 0..15 {
            // Each client uses a separate channel. Users who have left still count.
            let status = status_of(&server, client, &format!("u{crowd}-{user}"));
            assert_eq!(status, if user < 10 { 200 } else { 503 }, "{crowd} {user}");
        }
    }
    let others = [
        direct("127.0.0.3"),
        proxied("/events", "X-Forwarded-For: 192.0.2.3\r\n"),
        proxied("/events-later", "X-Forwarded-For: 192.0.2.4\r\n"),
        proxied("/events", "X-Forwarded-For: 2001:db8:0:1::1\r\n"),
    ];
    for (other, client) in others.iter().enumerate() {
        assert_eq!(status_of(&server, client, &format!("o{other}")), 200);
    }
    let same = proxied("/events", "X-Forwarded-For: 2001:db8::2\r\n");
    assert_eq!(status_of(&server, &same, "late"), 503);
    // Present users may reconnect.
    assert_eq!(status_of(&server, &direct("127.0.0.2"), "u0-3"), 200);
    wait_until("it is counted", || {
        let refused = &stats(&server)["total"]["members_refused"];
        (refused["members_per_address_max"] == json!(21)).then_some(())
    });
}
