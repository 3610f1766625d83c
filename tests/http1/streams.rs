//! Streamed bodies: framing, back-pressure, and bodies that end early.

use std::time::Duration;

use fermata_testkit::{Builder, Framing, ReadError, Server, wait_until};
use fermata_tests::fixture;

fn site() -> Builder {
    fixture("responses").workers(1)
}

fn notes(server: &Server) -> String {
    server.connect().get("/notes").text().to_owned()
}

fn pieces(count: usize, bytes: usize) -> String {
    (0..count)
        .map(|i| char::from(b'a' + (i % 26) as u8).to_string().repeat(bytes))
        .collect()
}

#[test]
fn pieces_are_chunks_and_the_connection_goes_on() {
    let server = site().start();
    let mut connection = server.connect();
    for _ in 0..3 {
        let response = connection.get("/stream/30/10");
        assert_eq!(response.framing, Framing::Chunked);
        assert_eq!(response.header("content-type"), Some("text/plain"));
        assert_eq!(response.text(), pieces(30, 10));
    }
    assert_eq!(notes(&server).matches("whole").count(), 3);
}

#[test]
fn a_known_length_is_announced() {
    let server = site().start();
    let mut connection = server.connect();
    let response = connection.get("/stream/5/100?length=500");
    assert_eq!(
        (response.framing, response.text()),
        (Framing::Length(500), &*pieces(5, 100))
    );
    let none = connection.get("/stream/0/0?length=0");
    assert_eq!((none.status(), none.text()), (200, ""));
}

#[test]
fn lists_and_iterators_are_streams_too() {
    let server = site().start();
    let mut connection = server.connect();
    let list = connection.get("/list");
    assert_eq!((list.status(), list.text()), (201, "one two three"));
    assert_eq!(
        list.header("content-type"),
        Some("application/octet-stream")
    );
    assert_eq!(connection.get("/iterator").text(), "ab");
    assert_eq!(connection.get("/none").text(), "");
}

#[test]
fn head_does_not_run_it() {
    let server = site().start();
    let mut connection = server.connect();
    let head = connection.request("HEAD", "/stream/3/3?length=9", &[], b"");
    assert_eq!(
        (head.status(), head.header("content-length")),
        (200, Some("9"))
    );
    let head = connection.request("HEAD", "/stream/3/3", &[], b"");
    assert_eq!(head.header("transfer-encoding"), Some("chunked"));
    assert_eq!(notes(&server), "");
}

#[test]
fn for_http10_it_ends_with_the_connection() {
    let server = site().start();
    let mut connection = server.connect();
    connection.send("GET /stream/3/4 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let response = connection.read_response();
    assert_eq!(response.framing, Framing::UntilClose);
    assert!(response.head.connection_says("close"));
    assert_eq!(response.text(), "aaaabbbbcccc");
}

#[test]
fn pipelined_streams_keep_their_order() {
    let server = site().start();
    let mut connection = server.connect();
    let paths = [
        "/stream/3/100000",
        "/list",
        "/stream/40/1",
        "/text/10",
        "/stream/1/1",
    ];
    let wire: Vec<String> = paths
        .iter()
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
        .collect();
    connection.send(wire.concat());
    let lengths: Vec<usize> = paths
        .iter()
        .map(|_| connection.read_response().body.len())
        .collect();
    assert_eq!(lengths, [300_000, 13, 40, 10, 1]);
}

#[test]
fn a_piece_larger_than_the_queue_arrives_whole() {
    let server = site()
        .setting("queue_bytes_max", 4096)
        .setting("event_bytes_max", 4096)
        .start();
    let response = server.connect().get("/stream/2/1000000");
    assert!(response.text() == pieces(2, 1_000_000));
}

#[test]
fn many_streams_go_on_side_by_side() {
    let server = site().start();
    let mut connections: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.send("GET /stream/50/2000 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for mut connection in connections {
        assert!(connection.read_response().text() == pieces(50, 2000));
    }
}

#[test]
fn a_client_that_reads_nothing_is_asked_for_nothing() {
    let server = site().start();
    let mut slow = server.connect();
    // Much larger than all kernel buffers.
    slow.send("GET /stream/2000/100000 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the stream begins", || {
        (notes(&server).contains("begun")).then_some(())
    });
    // Other clients are served while the generator waits.
    for _ in 0..50 {
        assert_eq!(server.connect().get("/text/10").body.len(), 10);
    }
    assert!(!notes(&server).contains("finally"));
    drop(slow);
    wait_until("the generator is destroyed", || {
        (notes(&server).contains("finally after")).then_some(())
    });
    let notes = notes(&server);
    assert!(!notes.contains("whole"), "{notes}");
}

#[test]
fn a_piece_is_sent_before_the_next_is_made() {
    let server = site().start();
    let mut connection = server.connect();
    connection.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(connection.has_data(Duration::from_secs(10)));
    let response = connection.read_response();
    assert_eq!(response.text(), "firstsecond");
}

#[test]
fn a_failure_before_the_first_piece_is_a_500() {
    let server = site().start();
    let mut connection = server.connect();
    for how in ["throw", "exit", "type"] {
        let response = connection.get(&format!("/fails/0?how={how}"));
        assert_eq!(response.status(), 500, "{how}");
    }
    server.log().wait_for(0, "the source has dried up");
    server
        .log()
        .wait_for(0, "a stream must yield strings, int yielded");
    assert_eq!(connection.get("/text/10").status(), 200);
}

#[test]
fn a_failure_later_ends_the_connection_without_a_last_chunk() {
    let server = site().start();
    for (how, logged) in [
        ("throw", "the source has dried up"),
        ("exit", "exit() called while a stream was made"),
        ("type", "a stream must yield strings, int yielded"),
        ("fatal", "Cannot"),
    ] {
        let mut connection = server.connect();
        connection.send(format!(
            "GET /fails/2?how={how} HTTP/1.1\r\nHost: a\r\n\r\n"
        ));
        let (bytes, _) = connection.read_to_end();
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            text.contains("piece 0\n") && text.contains("piece 1\n"),
            "{how}: {text}"
        );
        assert!(!text.contains("\r\n0\r\n"), "{how}: {text}");
        server.log().wait_for(0, logged);
    }
}

#[test]
fn a_broken_promise_of_length_cuts_the_connection() {
    let server = site().start();
    for (path, logged) in [
        ("/stream/5/10?length=45", "exceeds its announced length"),
        (
            "/stream/5/10?length=60",
            "10 bytes before its announced length",
        ),
    ] {
        let mut connection = server.connect();
        assert!(connection.try_send_request("GET", path, &[], b"").is_ok());
        let outcome = connection.try_read_response(false);
        assert!(
            matches!(outcome, Err(ReadError::Truncated(..))),
            "{path}: {outcome:?}"
        );
        server.log().wait_for(0, logged);
    }
    // The first piece already exceeds the length, so the server can still send an error status.
    assert_eq!(server.connect().get("/stream/1/10?length=5").status(), 500);
}

#[test]
fn more_than_may_be_are_503() {
    let server = site().setting("streams_max", 1).start();
    let mut first = server.connect();
    first.send("GET /stream/2000/100000 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the stream begins", || {
        (notes(&server).contains("begun")).then_some(())
    });
    let mut second = server.connect();
    assert_eq!(second.get("/stream/1/1").status(), 503);
    drop(first);
    wait_until("the first has ended", || {
        (second.get("/stream/1/1").status() == 200).then_some(())
    });
}

#[test]
fn a_stopping_server_finishes_its_streams() {
    let mut server = site().start();
    let mut connection = server.connect();
    connection.send("GET /stream/300/100000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(connection.has_data(Duration::from_secs(10)));
    server.signal(fermata_testkit::Signal::Terminate);
    assert!(connection.read_response().text() == pieces(300, 100_000));
    assert!(server.wait_exit().success());
}
