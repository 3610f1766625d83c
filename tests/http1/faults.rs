//! Handlers that fail: their client gets 500, the log contains the source position, and other
//! clients are not affected.

use std::time::Duration;

use fermata_testkit::{Connection, Server, Target, sse, wait_until};
use fermata_tests::{fixture, json};

/// Requests `path`, expects 500 without details, and a log line with `message` and the fixture's
/// file and line.
#[track_caller]
fn check_fault(server: &Server, connection: &mut Connection, path: &str, message: &str) {
    let mark = server.log().len();
    let response = connection.get(path);
    assert_eq!(response.status(), 500, "{path}");
    assert!(
        !response.text().contains(message),
        "{path} tells the client {:?}",
        response.text()
    );
    server
        .log()
        .wait_map(mark, &format!("{message} in faults.php:LINE"), |line| {
            let (_, place) = line.text.split_once("faults.php")?;
            let numbered = place.trim_start_matches(|c: char| !c.is_ascii_digit());
            (line.text.contains(message) && numbered.starts_with(|c: char| c.is_ascii_digit()))
                .then_some(())
        });
}

#[test]
fn exceptions_are_500_and_the_worker_lives() {
    let server = fixture("faults").start();
    let pids = server.worker_pids();
    let mut connection = server.connect();
    let pid = connection.get("/pid").text().to_string();
    for (path, message) in [
        ("/throw", "secret detail of a failure"),
        ("/error", "a_function_that_is_missing"),
        ("/wrong-type", "int"),
        ("/nothing", "null"),
        ("/no-such-parameter", "nobody"),
        ("/big-channel-name", "255"),
    ] {
        check_fault(&server, &mut connection, path, message);
        assert_eq!(
            connection.get("/pid").text(),
            pid,
            "the same worker goes on after {path}"
        );
    }
    assert_eq!(server.worker_pids(), pids);
}

#[test]
fn an_error_cannot_forge_a_log_line() {
    let server = fixture("faults").workers(1).start();
    assert_eq!(server.connect().get("/throw-lines").status(), 500);
    let line = server.log().wait_for(0, "first line").text;
    assert!(line.contains("second line"), "{line}");
    assert!(!server.log().contains("\u{1b}"));
}

#[test]
fn mistakes_with_channels_and_json_are_500() {
    let server = fixture("faults").workers(1).start();
    let mut connection = server.connect();
    let paths = [
        "/injected-channel-name",
        "/injected-event-name",
        "/too-large-event",
        "/unencodable",
    ];
    for path in paths {
        assert_eq!(connection.get(path).status(), 500, "{path}");
    }
    assert_eq!(connection.get("/pid").status(), 200);
}

#[test]
fn exit_in_a_handler_ends_the_request_only() {
    let server = fixture("faults").start();
    let pids = server.worker_pids();
    let mut connection = server.connect();
    let pid = connection.get("/pid").text().to_string();
    for path in ["/exit", "/die"] {
        let mark = server.log().len();
        assert_eq!(connection.get(path).status(), 500);
        server.log().wait_for(mark, "exit() called in handler");
        assert_eq!(
            connection.get("/pid").text(),
            pid,
            "the same worker goes on after {path}"
        );
    }
    assert_eq!(server.worker_pids(), pids);
}

#[test]
fn a_fatal_error_is_500_and_the_worker_is_replaced() {
    let server = fixture("faults").ini("memory_limit=64M").start();
    for (path, message) in [
        ("/fatal", "DeclaredTwice"),
        ("/memory", "Allowed memory size"),
    ] {
        let pids = server.worker_pids();
        let mut connection = server.connect_to(pids[&0]);
        check_fault(&server, &mut connection, path, message);
        let new_pid = server.wait_replaced(0, pids[&0]);
        assert_eq!(
            server.connect_to(new_pid).get("/pid").text(),
            new_pid.to_string()
        );
        assert_eq!(
            server.connect_to(pids[&1]).get("/pid").text(),
            pids[&1].to_string()
        );
    }
}

#[test]
fn others_of_the_worker_are_served_to_the_end_after_a_fatal_error() {
    let server = fixture("faults").start();
    let pids = server.worker_pids();
    let mut held = sse::Stream::open(server.connect_to(pids[&0]), "/events", None);

    // Another client of the same worker has not read its response yet.
    let mut reader = wait_until("a slow reader is with worker 0", || {
        let target = Target {
            address: server.address(),
            source: None,
            receive_bytes: Some(4_096),
        };
        let mut connection = target.connect().ok()?;
        let pid = connection.get("/pid").text().to_string();
        (pid == pids[&0].to_string()).then_some(connection)
    });
    reader.send("GET /bytes/8000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(
        reader.has_data(Duration::from_secs(10)),
        "its answer begins"
    );

    assert_eq!(server.connect_to(pids[&0]).get("/fatal").status(), 500);
    assert_eq!(reader.read_response().body.len(), 8_000_000);
    assert_eq!(
        held.read_to_end().pop(),
        Some(sse::Item::End(sse::StreamEnd::Clean))
    );
    server.wait_replaced(0, pids[&0]);
    assert_eq!(server.worker_pids()[&1], pids[&1]);
}

#[test]
fn the_clients_fault_is_400_with_its_message() {
    let server = fixture("faults").workers(1).start();
    let mut connection = server.connect();
    let response = connection.get("/bad-request");
    assert_eq!(response.status(), 400);
    assert!(response.text().contains("the colour is missing"));
    assert_eq!(connection.post("/json", r#"{"a":"#).status(), 400);
    assert_eq!(connection.post("/json", "").status(), 400);
    assert_eq!(json(&connection.post("/json", r#"{"a":[1]}"#))["a"][0], 1);
}

#[test]
fn a_client_cannot_fill_the_log_with_bad_requests() {
    const REQUESTS: usize = 300;
    let server = fixture("faults").workers(1).start();
    let mut connection = server.connect();
    for _ in 0..REQUESTS {
        assert_eq!(connection.get("/bad-request").status(), 400);
    }
    // A later log line of the application is still written.
    assert_eq!(connection.get("/throw").status(), 500);
    server.log().wait_for(0, "secret detail");
    let lines = server.log().lines_from(0);
    let written = lines
        .iter()
        .filter(|line| line.text.contains("the colour is missing"))
        .count();
    assert!((1..REQUESTS).contains(&written), "{written}");
}

#[test]
fn output_and_warnings_do_not_reach_the_client() {
    let server = fixture("faults").workers(1).start();
    let mut connection = server.connect();
    assert_eq!(connection.get("/output").text(), "clean");
    assert_eq!(connection.get("/warning").text(), "warned");
    server.log().wait_for(0, "only a warning");
    assert_eq!(connection.get("/pid").status(), 200);
}

#[test]
fn a_throwing_destructor_does_not_stop_the_worker() {
    let server = fixture("faults").start();
    let pids = server.worker_pids();
    let mut connection = server.connect();
    let response = connection.get("/destructor");
    assert!(
        matches!(response.status(), 200 | 500),
        "{}",
        response.status()
    );
    assert_eq!(connection.get("/pid").status(), 200);
    assert_eq!(server.worker_pids(), pids);
}
