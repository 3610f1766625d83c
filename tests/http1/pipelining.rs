//! Several requests before the first response (RFC 9112, section 9.3.2): responses arrive in order,
//! however the requests are split into packets.

use fermata_testkit::{Builder, Connection, Random};
use fermata_tests::{fixture, json};

/// Requests of one test round and their expected responses.
struct Round {
    wire: Vec<u8>,
    answers: Vec<Answer>,
}

/// An expected response.
struct Answer {
    is_head: bool,
    body: Vec<u8>,
}

/// Size of the static file of [`round`].
const FILE_BYTES: usize = 200_000;

/// Returns `count` requests of all kinds in random order.
fn round(count: usize, random: &mut Random) -> Round {
    let mut round = Round {
        wire: Vec::new(),
        answers: Vec::new(),
    };
    for number in 0..count {
        let body: Vec<u8> = (0..random.within(0..400))
            .map(|_| random.bits() as u8)
            .collect();
        let (head, content, answer) = match random.within(0..8) {
            0 | 1 => (
                format!("GET /rooms/{number}"),
                vec![],
                number.to_string().into_bytes(),
            ),
            2 => ("POST /body".into(), body.clone(), body),
            3 => ("POST /body".into(), chunked(&body, random), body),
            4 => ("HEAD /bytes/4096".into(), vec![], vec![]),
            5 => (
                "GET /bytes/4096".into(),
                vec![],
                b"0123456789abcdef".repeat(256),
            ),
            6 => (
                "GET /bytes/50000".into(),
                vec![],
                b"0123456789abcdef".repeat(3_125),
            ),
            _ => ("GET /assets/file.bin".into(), vec![], file_content()),
        };
        let framing = match (content.len(), answer.len()) {
            (0, _) => String::new(),
            (len, answer_len) if len == answer_len => format!("Content-Length: {len}\r\n"),
            _ => "Transfer-Encoding: chunked\r\n".into(),
        };
        round
            .wire
            .extend(format!("{head} HTTP/1.1\r\nHost: a\r\n{framing}\r\n").bytes());
        round.wire.extend(content);
        round.answers.push(Answer {
            is_head: head.starts_with("HEAD"),
            body: answer,
        });
    }
    round
}

fn file_content() -> Vec<u8> {
    (0..FILE_BYTES).map(|at| (at / 251) as u8).collect()
}

/// Maximum number of chunks with an extension, because the server limits the extensions of a body.
const EXTENSIONS_MAX: usize = 100;

/// Encodes `body` in chunks of random size, some with extensions and upper-case digits.
pub(crate) fn chunked(body: &[u8], random: &mut Random) -> Vec<u8> {
    let mut wire = Vec::new();
    for (number, piece) in random.split(body, 90).into_iter().enumerate() {
        let size = match random.within(0..3) {
            0 => format!("{:X}\r\n", piece.len()),
            1 if number < EXTENSIONS_MAX => format!("00{:x};name=value\r\n", piece.len()),
            _ => format!("{:x}\r\n", piece.len()),
        };
        wire.extend(size.bytes());
        wire.extend(piece);
        wire.extend(b"\r\n");
    }
    wire.extend(b"0\r\n");
    if random.within(0..3) == 0 {
        wire.extend(b"X-Trailer: ignored\r\n");
    }
    wire.extend(b"\r\n");
    wire
}

#[track_caller]
fn check_answers(connection: &mut Connection, round: &Round) {
    for (number, answer) in round.answers.iter().enumerate() {
        let response = connection.try_read_response(answer.is_head);
        let response = response.unwrap_or_else(|error| panic!("request {number}: {error}"));
        assert_eq!(response.status(), 200, "request {number}");
        assert!(
            response.body == answer.body,
            "request {number} got another answer"
        );
    }
    // No bytes are left over, so requests and responses still correspond.
    assert_eq!(connection.get("/rooms/last").text(), "last");
}

/// Returns the server of these tests, with a static file.
fn pipelined() -> Builder {
    let builder = fixture("http");
    builder.directory().write("assets/file.bin", file_content());
    builder
}

#[test]
fn sixteen_requests_in_one_packet_are_answered_in_order() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    for _ in 0..20 {
        let wire: String = (0..16)
            .map(|n| format!("GET /rooms/{n} HTTP/1.1\r\nHost: a\r\n\r\n"))
            .collect();
        connection.send(wire);
        for number in 0..16 {
            assert_eq!(connection.read_response().text(), number.to_string());
        }
    }
}

#[test]
fn mixed_requests_split_at_random_bytes_are_answered_in_order() {
    let server = pipelined().start();
    let mut random = Random::from_environment();
    for piece_bytes_max in [1, 2, 7, 40, 700, 5_000, 100_000] {
        let count = if piece_bytes_max < 7 { 4 } else { 16 };
        let round = round(count, &mut random);
        let mut connection = server.connect();
        connection.send_split(&round.wire, piece_bytes_max, &mut random);
        check_answers(&mut connection, &round);
    }
}

#[test]
fn long_mixed_pipelines_are_answered_in_order_whatever_the_queue_holds() {
    let mut random = Random::from_environment();
    for queue_bytes_max in [4_096, 60_000, 1_048_576] {
        let builder = pipelined()
            .workers(1)
            .setting("queue_bytes_max", queue_bytes_max);
        let server = builder.setting("event_bytes_max", 4_096).start();
        let round = round(400, &mut random);
        let mut connection = server.connect();
        let sender = connection.send_in_background(round.wire.clone());
        check_answers(&mut connection, &round);
        sender
            .join()
            .expect("the sender does not panic")
            .expect("everything was taken");
    }
}

#[test]
fn a_thousand_requests_in_a_row_are_answered_while_reading_lags() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    // 1,000 responses of 16 KiB exceed queue and socket buffers, so the server must stop reading
    // and resume later.
    let wire = "GET /bytes/16384 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1_000);
    connection.send(wire + "GET /rooms/last HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..1_000 {
        assert_eq!(connection.read_response().body.len(), 16_384);
    }
    assert_eq!(connection.read_response().text(), "last");
}

#[test]
fn a_client_far_ahead_of_its_answers_is_served_to_the_end() {
    // Every response overfills the queue, so the server stops after each one with the later
    // requests unparsed.
    let server = fixture("http")
        .workers(1)
        .setting("queue_bytes_max", 4_096)
        .setting("event_bytes_max", 4_096)
        .start();
    let mut connection = server.connect();
    let padding = "x".repeat(200);
    let mut wire: Vec<u8> = (0..2_000)
        .flat_map(|n| {
            let line = format!("GET /bytes/8192?{n} HTTP/1.1\r\nHost: a\r\nX: {padding}\r\n\r\n");
            line.into_bytes()
        })
        .collect();
    wire.extend(b"GET /rooms/last HTTP/1.1\r\nHost: a\r\n\r\n");
    let sender = connection.send_in_background(wire);
    for _ in 0..2_000 {
        assert_eq!(connection.read_response().body.len(), 8_192);
    }
    assert_eq!(connection.read_response().text(), "last");
    let sent = sender.join().expect("the sender does not panic");
    sent.expect("everything was taken");
}

#[test]
fn errors_of_handlers_and_routes_keep_their_place() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection.send(
        "GET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n\
         GET /missing HTTP/1.1\r\nHost: a\r\n\r\n\
         POST /rooms/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
         HEAD /rooms/3 HTTP/1.1\r\nHost: a\r\n\r\n\
         GET /echo?n=4 HTTP/1.1\r\nHost: a\r\n\r\n\
         BROKEN\r\n\r\n\
         GET /rooms/6 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(connection.read_response().text(), "1");
    assert_eq!(connection.read_response().status(), 404);
    assert_eq!(connection.read_response().status(), 405);
    let head = connection
        .try_read_response(true)
        .expect("HEAD is answered");
    assert_eq!(
        (head.status(), head.header("content-length")),
        (200, Some("1"))
    );
    assert_eq!(json(&connection.read_response())["queries"]["n"], "4");
    assert_eq!(connection.read_response().status(), 400);
    connection.expect_end();
}
