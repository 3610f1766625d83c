//! Request bodies: Content-Length and chunked (RFC 9112 sections 6 and 7), and their limit.

use fermata_testkit::Random;
use fermata_tests::{fixture, json};

use crate::pipelining::chunked;

#[test]
fn bodies_of_all_sizes_arrive_whole() {
    let server = fixture("http").workers(1).start();
    let mut random = Random::from_environment();
    let mut connection = server.connect();
    for len in [
        0, 1, 2, 1_000, 16_383, 16_384, 16_385, 65_536, 300_000, 1_048_576,
    ] {
        let body: Vec<u8> = (0..len).map(|_| random.bits() as u8).collect();
        let length = format!("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n");
        connection.send(length);
        connection.send(&body);
        assert!(
            connection.read_response().body == body,
            "{len} bytes with a length"
        );

        connection.send("POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        connection.send(chunked(&body, &mut random));
        assert!(
            connection.read_response().body == body,
            "{len} bytes in chunks"
        );
    }
}

#[test]
fn a_post_without_length_has_an_empty_body() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection.send("POST /echo HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(json(&connection.read_response())["bytes"], 0);
}

#[test]
fn a_body_over_the_limit_is_refused_at_its_announcement() {
    let server = fixture("http")
        .workers(1)
        .setting("body_bytes_max", 1_000)
        .start();
    let mut connection = server.connect();
    assert_eq!(connection.post("/body", [b'x'; 1_000]).status(), 200);
    connection.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n");
    let response = connection.read_response();
    assert_eq!(response.status(), 413);
    assert!(response.head.connection_says("close"));
    connection.expect_end();
}

#[test]
fn chunks_over_the_limit_are_refused_when_they_cross_it() {
    let server = fixture("http")
        .workers(1)
        .setting("body_bytes_max", 1_000)
        .start();
    let head = "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut connection = server.connect();
    let full = format!(
        "{head}1f4\r\n{0}\r\n1f4\r\n{0}\r\n0\r\n\r\n",
        "x".repeat(500)
    );
    connection.send(full);
    assert_eq!(connection.read_response().body.len(), 1_000);

    connection.send(format!("{head}1f4\r\n{0}\r\n1f5\r\n{0}", "x".repeat(500)));
    assert_eq!(connection.read_response().status(), 413);
    connection.expect_end();

    // A size above the limit is rejected before any data arrives.
    let mut connection = server.connect();
    connection.send(format!("{head}ffffffff\r\n"));
    assert_eq!(connection.read_response().status(), 413);
    connection.expect_end();
}

#[test]
fn broken_chunks_are_refused_and_the_connection_closed() {
    let server = fixture("http").workers(1).start();
    let head = "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let smuggled = "GET /rooms/smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for chunks in [
        "xyz\r\n",
        "-1\r\n",
        "+1\r\na\r\n0\r\n\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
        " 1\r\na\r\n0\r\n\r\n",
        "1 \r\na\r\n0\r\n\r\n",
        "\r\n1\r\na\r\n0\r\n\r\n",
        "1\na\r\n0\r\n\r\n",
        "1\r\na\n0\r\n\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "1\r\na0\r\n\r\n",
        "1;a\nb\r\na\r\n0\r\n\r\n",
        "1;a\rb\r\na\r\n0\r\n\r\n",
        "0\r\nX: y\nZ: a\r\n\r\n",
        "ffffffffffffffffff\r\n",
    ] {
        let mut connection = server.connect();
        connection.send(format!("{head}{chunks}{smuggled}"));
        let response = connection.read_response();
        assert!(
            matches!(response.status(), 400 | 413),
            "{chunks:?}: {}",
            response.status()
        );
        connection.expect_end();
    }
    assert_eq!(server.connect().get("/rooms/1").text(), "1");
}

#[test]
fn long_chunk_extensions_and_trailers_are_bounded() {
    let server = fixture("http").workers(1).start();
    let head = "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for chunks in [
        format!("1;{}", "e".repeat(1_000_000)),
        format!("0\r\nX: {}", "t".repeat(1_000_000)),
        format!("0\r\n{}", "X: y\r\n".repeat(200_000)),
    ] {
        let mut connection = server.connect();
        // The server may respond and close before it has received the complete body.
        let _ = connection.try_send(format!("{head}{chunks}"));
        let answer = connection
            .try_read_response(false)
            .map(|response| response.status());
        assert!(!matches!(answer, Ok(200..=399)), "{answer:?}");
    }
    assert_eq!(server.connect().get("/rooms/1").text(), "1");
}
