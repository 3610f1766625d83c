//! SIGTERM and SIGINT: running requests complete, then the server exits.

use std::time::{Duration, Instant};

use fermata_testkit::sse::{Item, Stream, StreamEnd};
use fermata_testkit::{Connection, Server, Signal, Target, deadline, wait_until};
use fermata_tests::fixture;

/// Waits until no process accepts connections, so every worker drains.
fn wait_draining(server: &Server) {
    wait_until("new connections are refused", || {
        match Connection::try_open(server.address()) {
            Err(_) => Some(()),
            // A connection in a closing listener's backlog is reset instead of served.
            Ok(mut connection) => connection
                .try_request("GET", "/pid", &[], b"")
                .err()
                .map(drop),
        }
    });
}

#[test]
fn a_running_handler_is_finished() {
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let mut server = fixture("hub").start();
        let mut connection = server.connect();
        connection.send("GET /slow/300 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(!connection.has_data(Duration::from_millis(30)));
        server.signal(signal);
        let response = connection.read_response();
        assert_eq!((response.status(), response.text()), (200, "done"));
        connection.expect_end();
        assert_eq!(server.wait_exit().code(), Some(0));
    }
}

#[test]
fn a_request_that_is_still_arriving_is_finished() {
    let mut server = fixture("hub").start();
    let mut connection = server.connect();
    assert_eq!(connection.get("/pid").status(), 200);
    connection.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    // The server has read the first half before it receives the signal.
    assert!(!connection.has_data(Duration::from_millis(100)));
    server.signal(Signal::Terminate);
    wait_draining(&server);
    connection.send("world");
    let response = connection.read_response();
    assert_eq!((response.status(), response.text()), (200, "helloworld"));
    assert!(
        response.head.connection_says("close"),
        "the client is told of the end"
    );
    connection.expect_end();
    assert_eq!(server.wait_exit().code(), Some(0));
}

#[test]
fn a_long_answer_is_sent_to_its_end() {
    let mut server = fixture("http").start();
    let target = Target {
        address: server.address(),
        source: None,
        receive_bytes: Some(16_384),
    };
    let mut connection = target.connect().expect("the server listens");
    connection.send("GET /bytes/16777216 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(connection.has_data(deadline()), "the answer begins");
    server.signal(Signal::Terminate);
    wait_draining(&server);
    assert_eq!(connection.read_response().body.len(), 16_777_216);
    connection.expect_end();
    assert_eq!(server.wait_exit().code(), Some(0));
}

#[test]
fn held_clients_get_a_retry_hint_and_a_clean_end() {
    let mut server = fixture("hub").setting("retry_ms", 1_234).start();
    let pids = server.worker_pids();
    let mut streams: Vec<Stream> = (0..10)
        .map(|n| Stream::open(server.connect_to(pids[&(n % 2)]), "/events", None))
        .collect();
    server.signal(Signal::Terminate);
    for stream in &mut streams {
        let items = stream.read_to_end();
        assert_eq!(items.last(), Some(&Item::End(StreamEnd::Clean)));
        let hint = items.iter().find_map(|item| match item {
            Item::Retry(ms) => Some(*ms),
            _ => None,
        });
        // The server may spread the reconnections of its clients, but only close to the setting.
        assert!(
            hint.is_some_and(|ms| (617..=4_936).contains(&ms)),
            "{items:?}"
        );
    }
    assert_eq!(server.wait_exit().code(), Some(0));
}

#[test]
fn idle_connections_are_closed_and_only_the_master_goes_on_after_run() {
    let mut server = fixture("hub").start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/pid").status(), 200);
    let mut untouched = server.connect();
    server.signal(Signal::Terminate);
    idle.expect_end();
    untouched.expect_end();
    assert_eq!(server.wait_exit().code(), Some(0));
    server.log().wait_for(0, "after run");
    let lines = server.log().lines_from(0);
    let after = lines
        .iter()
        .filter(|line| line.text.contains("after run"))
        .count();
    assert_eq!(after, 1, "code after run() is the master's alone");
}

#[test]
fn a_client_that_never_finishes_is_cut_at_the_deadline() {
    let mut server = fixture("hub").setting("drain_timeout_ms", 300).start();
    let mut stuck = server.connect();
    stuck.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    assert!(!stuck.has_data(Duration::from_millis(100)));
    server.signal(Signal::Terminate);
    server.wait_exit();
    let (_, end) = stuck.read_to_end();
    assert!(end.is_some());
}

/// Container runtimes and shells send one signal to the group and one to the process.
#[test]
fn two_signals_in_a_row_are_one() {
    let mut server = fixture("hub").start();
    let mut connection = server.connect();
    connection.send("GET /slow/1000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!connection.has_data(Duration::from_millis(30)));
    server.signal(Signal::Terminate);
    std::thread::sleep(Duration::from_millis(20));
    server.signal(Signal::Terminate);
    let response = connection.read_response();
    assert_eq!((response.status(), response.text()), (200, "done"));
    assert_eq!(server.wait_exit().code(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let patience_ms = deadline().as_millis() * 3;
    let mut server = fixture("hub")
        .setting("drain_timeout_ms", patience_ms)
        .setting("body_timeout_ms", patience_ms)
        .start();
    let mut stuck = server.connect();
    stuck.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    assert!(!stuck.has_data(Duration::from_millis(100)));
    server.signal(Signal::Terminate);
    wait_draining(&server);
    // Wait: an earlier second signal would count as a repetition of the first.
    std::thread::sleep(Duration::from_millis(600));
    let began = Instant::now();
    server.signal(Signal::Terminate);
    server.wait_exit();
    assert!(began.elapsed() < deadline());
    let pids = server.worker_pids();
    wait_until("no worker is left", || {
        (!pids.values().any(|pid| fermata_testkit::is_running(*pid))).then_some(())
    });
}

#[test]
fn a_frozen_worker_does_not_keep_the_server_from_ending() {
    let mut server = fixture("hub").setting("drain_timeout_ms", 300).start();
    let pid = server.worker_pids()[&0];
    assert!(fermata_testkit::send_signal(pid, Signal::Stop));
    server.signal(Signal::Terminate);
    server.wait_exit();
    wait_until("the frozen worker is gone", || {
        (!fermata_testkit::is_running(pid)).then_some(())
    });
}
