//! Time-outs. Each test sets one time-out to a fraction of a second, and waits for its effect.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use fermata_testkit::{Connection, End, ReadError, Server, Target, wait_until};
use fermata_tests::fixture;

/// The time-out under test in milliseconds. The others have their defaults, far above the duration
/// of any test.
const LIMIT_MS: u64 = 250;

/// Sends a byte at intervals until the server closes the connection, and returns the status of its
/// response.
fn drip(mut connection: Connection, byte: &str) -> Result<u16, ReadError> {
    wait_until("the server has had enough", || {
        let gone = connection.try_send(byte).is_err();
        (gone || connection.has_data(Duration::from_millis(20))).then_some(())
    });
    connection
        .try_read_response(false)
        .map(|response| response.status())
}

#[test]
fn half_a_head_is_408() {
    let server = fixture("http")
        .workers(1)
        .setting("header_timeout_ms", LIMIT_MS)
        .start();
    let mut connection = server.connect();
    connection.send("GET / HTTP/1.1\r\nHo");
    let response = connection.read_response();
    assert_eq!(response.status(), 408);
    assert!(response.head.connection_says("close"));
    connection.expect_end();
}

#[test]
fn a_head_that_drips_in_is_408_all_the_same() {
    let server = fixture("http")
        .workers(1)
        .setting("header_timeout_ms", LIMIT_MS)
        .start();
    let mut connection = server.connect();
    connection.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
    // A byte sent to the closed socket may discard the response, but not the close.
    let answer = drip(connection, "y");
    assert!(
        matches!(answer, Ok(408) | Err(ReadError::Ended(_))),
        "{answer:?}"
    );
}

#[test]
fn a_body_that_does_not_come_is_408() {
    let server = fixture("http")
        .workers(1)
        .setting("body_timeout_ms", LIMIT_MS)
        .start();
    for framing in [
        "Content-Length: 10\r\n\r\nabc",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    ] {
        let mut connection = server.connect();
        connection.send(format!("POST /body HTTP/1.1\r\nHost: a\r\n{framing}"));
        assert_eq!(connection.read_response().status(), 408, "{framing}");
        connection.expect_end();
    }
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let server = fixture("http")
        .workers(1)
        .setting("idle_timeout_ms", LIMIT_MS)
        .start();
    let mut used = server.connect();
    assert_eq!(used.get("/rooms/1").text(), "1");
    used.expect_end();
}

#[test]
fn a_connection_that_never_asks_is_closed() {
    let builder = fixture("http")
        .workers(1)
        .setting("idle_timeout_ms", LIMIT_MS);
    let server = builder.setting("header_timeout_ms", LIMIT_MS).start();
    let mut silent = server.connect();
    // Without a request, both 408 and no response are valid; the close is required.
    let (bytes, end) = silent.read_to_end();
    assert!(end.is_some(), "it is closed");
    assert!(
        bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 408 "),
        "{bytes:?}"
    );
}

#[test]
fn requests_keep_an_idle_connection_open() {
    let server = fixture("http")
        .workers(1)
        .setting("idle_timeout_ms", 1_500)
        .start();
    let mut connection = server.connect();
    // Longer than the time-out in total; each pause is much shorter.
    for number in 0..20 {
        thread::sleep(Duration::from_millis(100));
        assert_eq!(
            connection.get(&format!("/rooms/{number}")).text(),
            number.to_string()
        );
    }
}

#[test]
fn a_slow_handler_is_not_an_idle_client() {
    let builder = fixture("http")
        .workers(1)
        .setting("idle_timeout_ms", LIMIT_MS);
    let builder = builder.setting("header_timeout_ms", LIMIT_MS);
    let server = builder.setting("body_timeout_ms", LIMIT_MS).start();
    assert_eq!(server.connect().get("/slow/700").text(), "done");
}

#[test]
fn a_client_that_does_not_read_leaves_nothing_in_the_kernel() {
    let server = fixture("http")
        .workers(1)
        .control()
        .setting("write_timeout_ms", LIMIT_MS)
        .start();
    let target = Target {
        address: server.address(),
        source: None,
        receive_bytes: Some(4_096),
    };
    let mut connection = target.connect().expect("the server listens");
    connection.send("GET /bytes/16777216 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the server gives up", || {
        let figures = fermata_tests::stats(&server);
        let dropped = figures.pointer("/total/connections_dropped/write_timeout");
        (dropped.and_then(|count| count.as_u64()) == Some(1)).then_some(())
    });
    // Only received bytes are readable; bytes queued in the server's kernel are dropped.
    let (bytes, end) = connection.read_to_end();
    assert_eq!(end, Some(End::Reset));
    assert!(bytes.len() < 65_536, "{}", bytes.len());
}

#[test]
fn a_client_that_does_not_read_is_dropped() {
    let server = fixture("http")
        .workers(1)
        .setting("write_timeout_ms", LIMIT_MS)
        .start();
    let target = Target {
        address: server.address(),
        source: None,
        receive_bytes: Some(4_096),
    };
    let mut connection = target.connect().expect("the server listens");
    connection.send("GET /bytes/16777216 HTTP/1.1\r\nHost: a\r\n\r\n");
    // This client does not read, so it cannot detect the close. Instead, another client sends
    // requests for longer than the time-out.
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(LIMIT_MS / 4));
        assert_eq!(server.connect().get("/rooms/1").text(), "1");
    }
    let answer = connection.try_read_response(false);
    assert!(
        matches!(answer, Err(ReadError::Truncated(..) | ReadError::Ended(_))),
        "dropped midway"
    );
}

/// Returns the state of the server's side of a connection in `/proc/net/tcp`, while it exists.
fn kernel_state(server: &Server, client: SocketAddr) -> Option<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let ends = format!(
        ":{:04X} 0100007F:{:04X} ",
        server.address().port(),
        client.port()
    );
    let line = table.lines().find(|line| line.contains(&ends))?;
    line.split_whitespace().nth(3).map(str::to_owned)
}

#[test]
fn an_answer_that_lies_in_the_kernel_is_given_up_as_well() {
    for io in ["epoll", "io_uring"] {
        let server = fixture("http")
            .workers(1)
            .control()
            .setting("io", io)
            .setting("write_timeout_ms", 1_000)
            .start();
        let target = Target {
            address: server.address(),
            source: None,
            receive_bytes: Some(4_096),
        };
        // The client reads almost nothing of the response and keeps the connection open. The kernel
        // of the server has accepted the complete response.
        let mut connection = target.connect().expect("the server listens");
        connection.send("GET /bytes/65536 HTTP/1.1\r\nHost: a\r\n\r\n");
        wait_until("the server gives up", || {
            let figures = fermata_tests::stats(&server);
            let dropped = figures.pointer("/total/connections_dropped/write_timeout");
            (dropped.and_then(|count| count.as_u64()) == Some(1)).then_some(())
        });
        let (bytes, end) = connection.read_to_end();
        assert_eq!(end, Some(End::Reset), "{io}");
        assert!(bytes.len() < 65_536, "{io}: {}", bytes.len());
    }
}

#[test]
fn an_answer_that_lies_in_the_kernel_behind_a_close_is_given_up() {
    for io in ["epoll", "io_uring"] {
        let server = fixture("http")
            .workers(1)
            .setting("io", io)
            .setting("write_timeout_ms", 1_000)
            .start();
        let target = Target {
            address: server.address(),
            source: None,
            receive_bytes: Some(4_096),
        };
        let mut connection = target.connect().expect("the server listens");
        let client = connection.local_address();
        connection.send("GET /bytes/65536 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut seen = false;
        // FIN_WAIT1: the server has closed the connection, and its kernel still has unsent bytes.
        wait_until("the kernel has dropped it", || {
            let state = kernel_state(&server, client);
            seen |= state.is_some();
            (seen && state.is_none()).then_some(())
        });
        let (bytes, _) = connection.read_to_end();
        assert!(bytes.len() < 65_536, "{io}: {}", bytes.len());
    }
}
