//! Persistent connections (RFC 9112 section 9.3).

use fermata_tests::{fixture, json};

#[test]
fn many_requests_share_a_connection() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    let remote = connection.get("/remote");
    assert_eq!(remote.text(), connection.local_address().to_string());
    for number in 0..100 {
        let response = connection.get(&format!("/rooms/{number}"));
        assert_eq!(
            (response.status(), response.text()),
            (200, number.to_string().as_str())
        );
        assert!(!response.head.connection_says("close"));
    }
}

#[test]
fn a_client_that_asks_to_close_is_told_so_and_closed() {
    let server = fixture("http").workers(1).start();
    for value in ["close", "Close", "x-other, close", "close, te"] {
        let mut connection = server.connect();
        let response = connection.request("GET", "/", &[("Connection", value)], b"");
        assert_eq!(response.status(), 200);
        assert!(response.head.connection_says("close"), "{value}");
        connection.expect_end();
    }
}

#[test]
fn requests_after_close_are_not_answered() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection.send("GET /rooms/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /rooms/2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(connection.read_response().text(), "1");
    connection.expect_end();
}

#[test]
fn http_1_0_closes_unless_asked_to_stay() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(json(&connection.read_response())["status"], "OK");
    connection.expect_end();

    let mut connection = server.connect();
    for _ in 0..3 {
        connection.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = connection.read_response();
        assert_eq!(response.status(), 200);
        assert!(response.head.connection_says("keep-alive"));
    }
}

#[test]
fn a_client_that_stops_sending_still_gets_its_answers() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection
        .send("GET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\nGET /rooms/2 HTTP/1.1\r\nHost: a\r\n\r\n");
    connection.finish_sending();
    assert_eq!(connection.read_response().text(), "1");
    assert_eq!(connection.read_response().text(), "2");
    connection.expect_end();
}

#[test]
fn a_client_that_stops_sending_gets_a_long_answer_whole() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection.send(
        "GET /bytes/16777216 HTTP/1.1\r\nHost: a\r\n\r\nGET /rooms/2 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    connection.finish_sending();
    assert_eq!(connection.read_response().body.len(), 16_777_216);
    assert_eq!(connection.read_response().text(), "2");
    connection.expect_end();
}

#[test]
fn one_empty_line_before_a_request_is_ignored() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection.send("\r\nGET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(connection.read_response().text(), "1");
    connection.send("\r\nGET /rooms/2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(connection.read_response().text(), "2");
}
