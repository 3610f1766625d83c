//! Limits on connections, and clients that disconnect or send slowly.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use fermata_testkit::{Connection, ReadError, Server, Target, wait_until};
use fermata_tests::fixture;

/// Connects from this loopback address.
fn connect_from(server: &Server, last: u8) -> Connection {
    let source = Some(Ipv4Addr::new(127, 0, 0, last));
    let target = Target {
        address: server.address(),
        source,
        receive_bytes: None,
    };
    target.connect().expect("the server listens")
}

#[test]
fn connections_over_the_limit_wait_or_are_refused_and_places_become_free() {
    let server = fixture("http")
        .workers(1)
        .setting("connections_max", 2)
        .start();
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.get("/rooms/1").text(), "1");
    assert_eq!(second.get("/rooms/2").text(), "2");

    let mut third = server.connect();
    let _ = third.try_send_request("GET", "/rooms/3", &[], b"");
    for _ in 0..50 {
        assert_eq!(first.get("/rooms/1").text(), "1");
        assert_eq!(second.get("/rooms/2").text(), "2");
    }
    // The connection waits in the kernel's queue, is closed, or gets 503. It is never served.
    if third.has_data(Duration::ZERO) {
        let answer = third
            .try_read_response(false)
            .map(|response| response.status());
        assert!(
            matches!(answer, Ok(503) | Err(ReadError::Ended(_))),
            "{answer:?}"
        );
    }

    drop(first);
    wait_until("a place becomes free", || {
        let mut fourth = Connection::try_open(server.address()).ok()?;
        fourth.try_send_request("GET", "/rooms/4", &[], b"").ok()?;
        // The third connection may have been accepted, so close it before the next check.
        third = Connection::open(server.address());
        (fourth.has_data(Duration::from_millis(200))
            && fourth.try_read_response(false).ok()?.status() == 200)
            .then_some(())
    });
    assert_eq!(second.get("/rooms/2").text(), "2");
}

#[test]
fn one_address_cannot_take_every_place() {
    let server = fixture("http")
        .workers(1)
        .setting("connections_per_address_max", 2)
        .start();
    let (mut first, mut second) = (connect_from(&server, 7), connect_from(&server, 7));
    assert_eq!(first.get("/rooms/1").text(), "1");
    assert_eq!(second.get("/rooms/2").text(), "2");

    let mut third = connect_from(&server, 7);
    let answer = third
        .try_request("GET", "/rooms/3", &[], b"")
        .map(|response| response.status());
    assert!(
        matches!(answer, Ok(429 | 503) | Err(ReadError::Ended(_))),
        "{answer:?}"
    );

    assert_eq!(connect_from(&server, 8).get("/rooms/4").text(), "4");
    assert_eq!(first.get("/rooms/1").text(), "1");

    drop(second);
    wait_until("the address has a place again", || {
        let answer = connect_from(&server, 7).try_request("GET", "/rooms/5", &[], b"");
        answer.ok().filter(|response| response.status() == 200)
    });
}

#[test]
fn clients_may_vanish_at_every_byte() {
    let server = fixture("http").start();
    let pids = server.worker_pids();
    let wire = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
        GET /bytes/65536 HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for len in 0..=wire.len() {
        let mut connection = server.connect();
        connection.send(&wire[..len]);
        if len % 2 == 0 {
            connection.reset();
        }
    }
    for pid in pids.values() {
        assert_eq!(server.connect_to(*pid).get("/rooms/1").text(), "1");
    }
    assert_eq!(server.worker_pids(), pids, "no worker was replaced");
}

#[test]
fn clients_may_vanish_in_the_middle_of_an_answer() {
    let server = fixture("http").workers(1).start();
    let pids = server.worker_pids();
    for _ in 0..20 {
        let mut connection = server.connect();
        connection.send("GET /bytes/4194304 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(4));
        assert!(
            connection.has_data(Duration::from_secs(10)),
            "the answer begins"
        );
        connection.reset();
    }
    assert_eq!(server.connect().get("/rooms/1").text(), "1");
    assert_eq!(server.worker_pids(), pids, "no worker was replaced");
}

#[test]
fn a_client_that_vanishes_while_its_handler_runs_harms_nobody() {
    let server = fixture("http").workers(1).start();
    for _ in 0..5 {
        let mut connection = server.connect();
        connection.send("GET /slow/20 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
        connection.reset();
    }
    assert_eq!(server.connect().get("/rooms/1").text(), "1");
}

#[test]
fn a_slow_reader_gets_everything_and_delays_nobody() {
    let server = fixture("http").workers(1).start();
    let target = Target {
        address: server.address(),
        source: None,
        receive_bytes: Some(4_096),
    };
    let mut slow = target.connect().expect("the server listens");
    slow.send("GET /bytes/8388608 HTTP/1.1\r\nHost: a\r\n\r\nGET /rooms/after HTTP/1.1\r\nHost: a\r\n\r\n");
    for number in 0..20 {
        thread::sleep(Duration::from_millis(5));
        assert_eq!(
            server.connect().get(&format!("/rooms/{number}")).text(),
            number.to_string()
        );
    }
    let response = slow.read_response();
    assert!(response.body == b"0123456789abcdef".repeat(8_388_608 / 16));
    assert_eq!(slow.read_response().text(), "after");
}
