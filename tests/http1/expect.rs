//! `Expect: 100-continue` (RFC 9110 section 10.1.1).

use std::time::Duration;

use fermata_tests::{fixture, json};

#[test]
fn a_client_that_waits_is_told_to_continue() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    for framing in ["Content-Length: 3", "Transfer-Encoding: chunked"] {
        let head =
            format!("POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{framing}\r\n\r\n");
        connection.send(head);
        assert_eq!(connection.read_response().status(), 100);
        connection.send(if framing.starts_with('C') {
            "abc"
        } else {
            "3\r\nabc\r\n0\r\n\r\n"
        });
        let response = connection.read_response();
        assert_eq!((response.status(), response.text()), (200, "abc"));
    }
}

#[test]
fn the_expectation_is_not_case_sensitive() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection.send(
        "POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n",
    );
    assert_eq!(connection.read_response().status(), 100);
    connection.send("x");
    assert_eq!(connection.read_response().text(), "x");
}

#[test]
fn a_body_already_sent_needs_no_100_but_one_does_no_harm() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection.send(
        "POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
    );
    let mut response = connection.read_response();
    if response.status() == 100 {
        response = connection.read_response();
    }
    assert_eq!((response.status(), response.text()), (200, "hi"));
    assert_eq!(connection.get("/rooms/1").text(), "1");
}

#[test]
fn too_large_a_body_is_refused_instead_of_invited() {
    let server = fixture("http")
        .workers(1)
        .setting("body_bytes_max", 10)
        .start();
    let mut connection = server.connect();
    connection.send(
        "POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n",
    );
    assert_eq!(connection.read_response().status(), 413);
    connection.expect_end();
}

#[test]
fn unknown_expectations_are_refused() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection
        .send("POST /body HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(connection.read_response().status(), 417);
}

#[test]
fn http_1_0_is_never_sent_an_interim_response() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection.send("POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    assert!(!connection.has_data(Duration::from_millis(100)));
    connection.send("x");
    assert_eq!(json(&connection.read_response())["bytes"], 1);
}
