//! Presence on all servers of a cluster.

use std::time::Duration;

use fermata_testkit::sse::{Event, Stream};
use fermata_testkit::{Builder, LogServer, Server, Signal, over_each_log, send_signal, wait_until};
use fermata_tests::{json, publish};

use crate::node::{bridge_pid, node, wait_ready};

over_each_log!(
    a_channel_has_as_many_members_on_all_servers_as_it_may_have,
    a_server_that_comes_later_knows_who_is_present,
    members_are_those_of_all_servers_and_come_and_go_once,
    members_of_a_killed_server_leave_once,
    members_stay_when_a_bridge_or_the_log_is_killed,
);

/// Time after which a killed server's members leave. On a busy machine, a running server must still
/// renew its lease in time.
const LEASE_MS: u64 = 6_000;

fn start(log: &LogServer) -> Server {
    start_as(node(log))
}

/// Starts the server with the settings of these tests.
pub fn start_as(server: Builder) -> Server {
    let server = server
        .setting("cluster_lease_ms", LEASE_MS)
        .setting("leave_delay_ms", 50)
        .start();
    wait_ready(&server, 200);
    server
}

pub fn join(server: &Server, user: &str) -> Stream {
    Stream::open(server.connect(), &format!("/events?user={user}"), None)
}

/// Returns the users of the channel with their numbers of connections, sorted by name; `None` while
/// the server has no complete state.
pub fn members(server: &Server) -> Option<Vec<(String, u64)>> {
    let response = server.connect().get("/members/news");
    if response.status() != 200 {
        return None;
    }
    let list = json(&response);
    let list = list.as_array().expect("a list");
    let mut members: Vec<_> = list
        .iter()
        .map(|it| {
            (
                it[0].as_str().unwrap_or_default().to_owned(),
                it[2].as_u64().unwrap_or(0),
            )
        })
        .collect();
    members.sort();
    Some(members)
}

pub fn wait_members(server: &Server, expected: &[(&str, u64)]) {
    let expected: Vec<(String, u64)> = expected.iter().map(|it| (it.0.to_owned(), it.1)).collect();
    wait_until("the members", || {
        (members(server).as_ref() == Some(&expected)).then_some(())
    });
    let count = server.connect().get("/members/news/count");
    assert_eq!(count.text(), expected.len().to_string());
}

/// Returns the next event that is not about the watching user.
pub fn next(stream: &mut Stream) -> (String, String) {
    loop {
        let Event { name, data, .. } = stream.next_event();
        if !data.contains("\"watch\"") {
            return (name, data);
        }
    }
}

pub fn told(name: &str, user: &str) -> (String, String) {
    (
        name.to_owned(),
        format!("{{\"user\":\"{user}\",\"info\":null}}"),
    )
}

fn members_are_those_of_all_servers_and_come_and_go_once(log: LogServer) {
    let servers = [start(&log), start(&log)];
    let mut watch = [join(&servers[0], "watch"), join(&servers[1], "watch")];
    for server in &servers {
        wait_members(server, &[("watch", 2)]);
    }
    let first = join(&servers[0], "ann");
    let second = join(&servers[1], "ann");
    for server in &servers {
        wait_members(server, &[("ann", 2), ("watch", 2)]);
    }
    publish(&servers[1], "news", "both are there");
    drop(first);
    for server in &servers {
        wait_members(server, &[("ann", 1), ("watch", 2)]);
    }
    publish(&servers[0], "news", "one is there");
    drop(second);
    for server in &servers {
        wait_members(server, &[("watch", 2)]);
    }
    publish(&servers[0], "news", "end");
    let expected = [
        told("join", "ann"),
        ("message".to_owned(), "both are there".to_owned()),
        ("message".to_owned(), "one is there".to_owned()),
        told("leave", "ann"),
        ("message".to_owned(), "end".to_owned()),
    ];
    for stream in &mut watch {
        let seen: Vec<_> = expected.iter().map(|_| next(stream)).collect();
        assert_eq!(seen, expected);
    }
    // Both servers have stored the events at the same positions.
    let histories: Vec<_> = servers
        .iter()
        .map(|server| json(&server.connect().get("/history/news")))
        .collect();
    assert_eq!(histories[0], histories[1]);
}

fn a_server_that_comes_later_knows_who_is_present(log: LogServer) {
    let first = start(&log);
    let _ann = join(&first, "ann");
    wait_members(&first, &[("ann", 1)]);
    // The number of records before does not matter: a new server requests the members.
    let second = start(&log);
    wait_members(&second, &[("ann", 1)]);
    let _bob = join(&second, "bob");
    wait_members(&first, &[("ann", 1), ("bob", 1)]);
}

fn a_channel_has_as_many_members_on_all_servers_as_it_may_have(log: LogServer) {
    let servers = [0, 1].map(|_| {
        let server = node(&log)
            .setting("members_per_channel_max", 2)
            .setting("leave_delay_ms", 50)
            .start();
        wait_ready(&server, 200);
        server
    });
    let _ann = join(&servers[0], "ann");
    let bob = join(&servers[1], "bob");
    for server in &servers {
        wait_members(server, &[("ann", 1), ("bob", 1)]);
        let refused = server.connect().get("/events?user=cleo");
        assert_eq!(refused.status(), 503);
    }
    // A present user may connect again, on any server.
    let again = join(&servers[0], "bob");
    wait_members(&servers[1], &[("ann", 1), ("bob", 2)]);
    drop((bob, again));
    wait_members(&servers[0], &[("ann", 1)]);
    let _cleo = join(&servers[0], "cleo");
    wait_members(&servers[1], &[("ann", 1), ("cleo", 1)]);
}

fn members_of_a_killed_server_leave_once(log: LogServer) {
    let survivors = [start(&log), start(&log)];
    let killed = start(&log);
    let mut watch = [join(&survivors[0], "watch"), join(&survivors[1], "watch")];
    let gone = [join(&killed, "ann"), join(&killed, "bob")];
    let _stays = join(&survivors[1], "bob");
    for server in &survivors {
        wait_members(server, &[("ann", 1), ("bob", 2), ("watch", 2)]);
    }
    publish(&survivors[0], "news", "all are there");
    // Dropping the server kills all its processes with SIGKILL.
    drop(killed);
    drop(gone);
    for server in &survivors {
        wait_members(server, &[("bob", 1), ("watch", 2)]);
    }
    // The other survivor would send a second leave event one lease later.
    for stream in &mut watch {
        let mut seen = Vec::new();
        while seen.last() != Some(&told("leave", "ann")) {
            seen.push(next(stream));
        }
        let count = |wanted: (String, String)| seen.iter().filter(|is| **is == wanted).count();
        assert_eq!(count(told("join", "ann")), 1);
        assert_eq!(count(told("join", "bob")), 1);
        assert_eq!(count(told("leave", "bob")), 0);
        stream.expect_silence(Duration::from_millis(1_000));
    }
    // The server restarts with a new identity.
    let again = start(&log);
    let _ann = join(&again, "ann");
    for server in survivors.iter().chain([&again]) {
        wait_members(server, &[("ann", 1), ("bob", 1), ("watch", 2)]);
    }
    assert_eq!(next(&mut watch[0]), told("join", "ann"));
}

fn members_stay_when_a_bridge_or_the_log_is_killed(mut log: LogServer) {
    let servers = [start(&log), start(&log)];
    let mut watch = join(&servers[0], "watch");
    let _ann = join(&servers[1], "ann");
    wait_members(&servers[0], &[("ann", 1), ("watch", 1)]);
    for server in &servers {
        let bridge = bridge_pid(server);
        assert!(send_signal(bridge, Signal::Kill));
        wait_until("there is another bridge", || {
            (bridge_pid(server) != bridge).then_some(())
        });
        wait_ready(server, 200);
        wait_members(server, &[("ann", 1), ("watch", 1)]);
    }
    log.kill();
    for server in &servers {
        wait_ready(server, 503);
        // The last state received.
        assert!(members(server).is_some());
    }
    // Users join and leave without a log; the events are sent when the log is back.
    let _bob = join(&servers[1], "bob");
    log.restart();
    for server in &servers {
        wait_members(server, &[("ann", 1), ("bob", 1), ("watch", 1)]);
    }
    assert_eq!(next(&mut watch), told("join", "ann"));
    assert_eq!(next(&mut watch), told("join", "bob"));
}
