//! Waiting handlers: many at a time, disconnected clients, failures, and shutdown.

use std::time::Duration;

use fermata_testkit::{Connection, Server, Signal};
use fermata_tests::{fixture, json};

/// Polls the metric until it has the value `expected`. If the test hangs, the connection's own
/// time-out ends it.
const MANY: usize = 1_000;

fn server() -> Server {
    fixture("fibers").workers(1).start()
}

fn state(connection: &mut Connection, name: &str) -> u64 {
    let state = json(&connection.get("/state"));
    state[name].as_u64().expect("a number")
}

/// Requests until the metric is `expected`; the connection's own time-out ends a test that hangs.
fn wait_for(connection: &mut Connection, name: &str, expected: u64) {
    while state(connection, name) != expected {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ask(connection: &mut Connection, target: &str) {
    connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
}

#[test]
fn a_thousand_handlers_wait_at_the_same_time() {
    let server = server();
    let mut watcher = server.connect();
    let mut clients: Vec<Connection> = (0..MANY).map(|_| server.connect()).collect();
    // Long enough that the last handler starts before the first has finished waiting.
    for (at, client) in clients.iter_mut().enumerate() {
        ask(client, &format!("/wait/3000?{at}"));
    }
    wait_for(&mut watcher, "most", MANY as u64);
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read_response().text(), format!("/wait/3000?{at}"));
    }
    assert_eq!(state(&mut watcher, "waiting"), 0);
    // Again, on reused fibers.
    for client in &mut clients {
        ask(client, "/wait/50");
    }
    for client in &mut clients {
        assert_eq!(client.read_response().text(), "/wait/50");
    }
}

#[test]
fn clients_that_leave_end_their_handlers() {
    let server = server();
    let mut watcher = server.connect();
    for (round, by_reset) in [false, true].into_iter().enumerate() {
        let mut clients: Vec<Connection> = (0..100).map(|_| server.connect()).collect();
        for client in &mut clients {
            ask(client, "/wait/600000");
        }
        wait_for(&mut watcher, "waiting", 100);
        for client in clients {
            if by_reset {
                client.reset();
            }
        }
        wait_for(&mut watcher, "waiting", 0);
        assert_eq!(state(&mut watcher, "left"), 100 * (round as u64 + 1));
    }
    assert!(
        !server.log().text().contains(" error "),
        "{}",
        server.log().text()
    );
}

#[test]
fn tasks_locks_and_pipelining_together() {
    let server = server();
    let mut clients: Vec<Connection> = (0..20).map(|_| server.connect()).collect();
    for round in 0..10 {
        for (at, client) in clients.iter_mut().enumerate() {
            let requests: String = (0..5)
                .map(|n| format!("GET /mix/{round}{at}{n} HTTP/1.1\r\nHost: a\r\n\r\n"))
                .collect();
            client.send(requests);
        }
        for (at, client) in clients.iter_mut().enumerate() {
            for n in 0..5 {
                assert_eq!(client.read_response().text(), format!("{round}{at}{n}:10"));
            }
        }
    }
}

#[test]
fn exit_in_a_handler_that_has_waited_ends_that_handler_alone() {
    let server = server();
    let mut watcher = server.connect();
    let pid = state(&mut watcher, "pid");
    let mut other = server.connect();
    ask(&mut other, "/wait/100");
    for _ in 0..3 {
        assert_eq!(watcher.get("/exit").status(), 500);
    }
    assert_eq!(other.read_response().text(), "/wait/100");
    assert_eq!(state(&mut watcher, "pid"), pid);
}

#[test]
fn a_fatal_error_answers_everybody_who_waits() {
    let server = server();
    let mut watcher = server.connect();
    let mut waiting: Vec<Connection> = (0..20).map(|_| server.connect()).collect();
    for client in &mut waiting {
        ask(client, "/wait/600000");
    }
    wait_for(&mut watcher, "waiting", 20);
    let pid = state(&mut watcher, "pid");
    assert_eq!(watcher.get("/fatal").status(), 500);
    for client in &mut waiting {
        assert_eq!(client.read_response().status(), 503);
    }
    server.wait_replaced(0, pid as u32);
    assert_eq!(server.connect().get("/wait/1").status(), 200);
}

#[test]
fn a_server_that_stops_answers_those_who_wait() {
    let mut server = server();
    let mut waiting: Vec<Connection> = (0..50).map(|_| server.connect()).collect();
    for client in &mut waiting {
        ask(client, "/wait/300");
    }
    let mut watcher = server.connect();
    wait_for(&mut watcher, "waiting", 50);
    server.signal(Signal::Terminate);
    for client in &mut waiting {
        assert_eq!(client.read_response().text(), "/wait/300");
    }
    assert_eq!(server.wait_exit().code(), Some(0));
}

#[test]
fn more_than_can_wait_wait_their_turn() {
    let server = fixture("fibers")
        .workers(1)
        .setting("fibers_max", 8)
        .start();
    let mut clients: Vec<Connection> = (0..100).map(|_| server.connect()).collect();
    for client in &mut clients {
        ask(client, "/wait/10");
    }
    for client in &mut clients {
        assert_eq!(client.read_response().text(), "/wait/10");
    }
    let mut watcher = server.connect();
    assert!(state(&mut watcher, "most") <= 7);
    assert!(server.log().text().contains("all fibers (8) wait"));
}

#[test]
fn tasks_of_one_request_leave_fibers_for_others() {
    let server = fixture("fibers")
        .workers(1)
        .setting("tasks_per_request_max", 65_536)
        .start();
    for path in ["/tasks/65536", "/deferred/60000"] {
        let mut greedy = server.connect();
        greedy.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        // Each of these requests takes at most ten seconds, although all fibers were occupied for
        // half a minute.
        for _ in 0..3 {
            let mut other = server.connect();
            assert_eq!(other.get("/wait/1").status(), 200, "{path}");
        }
    }
    // The queue still has room for tasks of other requests.
    let server = fixture("fibers").workers(1).start();
    assert_eq!(server.connect().get("/tasks/16384").text(), "begun");
    assert_eq!(server.connect().get("/tasks/16385").status(), 500);
    server
        .log()
        .wait_for(0, "this request has 16384 tasks (tasks_per_request_max)");
    assert!(server.connect().get("/mix/1").text().starts_with("1:"));
}

#[test]
fn tasks_that_await_their_own_are_not_held_back_for_ever() {
    let server = fixture("fibers")
        .workers(1)
        .setting("fibers_max", 600)
        .start();
    // 256 leaves below 255 awaiting tasks, in a share of at most 300.
    assert_eq!(server.connect().get("/sum/8").text(), "256");
}
