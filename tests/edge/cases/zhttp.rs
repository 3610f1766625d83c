//! Backends with sessions over ZeroMQ: streams in both directions, credit, WebSockets, and the end
//! of sessions.

use std::thread;

use fermata_grip::value::Value;
use fermata_testkit::websocket::{BINARY, TEXT};

use super::cases;
use crate::bench::Bench;
use crate::socket::open;
use crate::zhttp_backend::{Backend, bytes, header, is_on, number};

cases!(
    a_session_holds_a_stream,
    a_session_takes_a_body_as_it_gives_credit,
    a_session_answers_as_its_client_reads,
    a_session_carries_a_socket,
    a_session_that_goes_wrong_is_an_error,
);

/// Larger than the initial credit.
const LARGE_BYTES: usize = 700_000;
/// Credit that the backend grants at a time.
const CREDITS: usize = 150_000;

fn a_session_holds_a_stream(bench: &Bench) {
    let mut backend = Backend::of(bench.subject(), "held");
    let mut client = bench.client("held.zhttp.test");
    client.send("GET", "/a?b", &[("X-Own", "1")], b"");
    let mut session = backend.next();
    let request = &session.request;
    assert_eq!(bytes(request, "method"), b"GET");
    assert_eq!(bytes(request, "uri"), b"http://held.zhttp.test/a?b");
    assert!(is_on(request, "stream") && !is_on(request, "more"));
    assert!(number(request, "credits").is_some_and(|it| it > 0));
    let Some(Value::List(headers)) = request.get("headers") else {
        panic!("{request:?}");
    };
    assert!(headers.contains(&header("X-Own", "1")), "{headers:?}");
    let headers = vec![
        header("Grip-Hold", "stream"),
        header("Grip-Channel", &bench.channel("c")),
    ];
    backend.send_packet(
        &mut session,
        [
            ("code", Value::Integer(200)),
            ("reason", "OK".into()),
            ("headers", Value::List(headers)),
            ("body", "ope".into()),
            ("more", Value::Bool(true)),
        ],
    );
    backend.send_packet(&mut session, [("body", "ned\n".into())]);
    assert_eq!(client.read_head().status, 200);
    client.read_until("opened\n");
    bench.probe(&mut client, "c");
    bench.publish_stream("c", "one");
    assert_eq!(client.read_until("one"), "one");
}

fn a_session_takes_a_body_as_it_gives_credit(bench: &Bench) {
    let mut backend = Backend::of(bench.subject(), "upload");
    let port = bench.subject().port;
    let sending = thread::spawn(move || {
        let mut client = crate::client::Client::open(port, "upload.zhttp.test");
        let body: Vec<u8> = (0..LARGE_BYTES).map(|at| at as u8).collect();
        client.request("POST", "/upload", &[], &body)
    });
    let mut session = backend.next();
    let mut body = bytes(&session.request, "body").to_vec();
    assert!(body.len() < LARGE_BYTES / 2, "{}", body.len());
    assert!(is_on(&session.request, "more"));
    let mut given = body.len() + CREDITS;
    let credit = |bytes: usize| ("credits", Value::Integer(bytes as i64));
    backend.send_packet(&mut session, [("type", "credit".into()), credit(CREDITS)]);
    let mut sequence = 1;
    loop {
        let packet = backend.packet();
        assert_eq!(number(&packet, "seq"), Some(sequence));
        sequence += 1;
        let piece = bytes(&packet, "body");
        body.extend_from_slice(piece);
        assert!(body.len() <= given, "{} bytes for {given}", body.len());
        if !is_on(&packet, "more") {
            break;
        }
        if !piece.is_empty() {
            given += piece.len();
            backend.send_packet(
                &mut session,
                [("type", "credit".into()), credit(piece.len())],
            );
        }
    }
    let is_same = body.iter().enumerate().all(|(at, &byte)| byte == at as u8);
    assert!(is_same && body.len() == LARGE_BYTES, "{}", body.len());
    backend.send_packet(
        &mut session,
        [
            ("code", Value::Integer(201)),
            ("reason", "Made".into()),
            ("body", "taken".into()),
        ],
    );
    let answer = sending.join().expect("an answer");
    assert_eq!((answer.status, answer.text()), (201, "taken"));
}

fn a_session_answers_as_its_client_reads(bench: &Bench) {
    let mut backend = Backend::of(bench.subject(), "download");
    let mut client = bench.client("download.zhttp.test");
    client.send("GET", "/download", &[], b"");
    let mut session = backend.next();
    let mut credits = number(&session.request, "credits").expect("credit") as usize;
    backend.send_packet(
        &mut session,
        [
            ("code", Value::Integer(200)),
            ("headers", Value::List(vec![header("X-Own", "2")])),
            ("more", Value::Bool(true)),
        ],
    );
    let reading = thread::spawn(move || {
        let head = client.read_head();
        assert_eq!(head.header("x-own").as_deref(), Some("2"));
        client.read_end()
    });
    let mut left = LARGE_BYTES;
    while left > 0 {
        if credits == 0 {
            let packet = backend.packet();
            assert_eq!(bytes(&packet, "type"), b"credit", "{packet:?}");
            credits += number(&packet, "credits").expect("credit") as usize;
        }
        let len = left.min(credits).min(50_000);
        (left, credits) = (left - len, credits - len);
        let body = Value::Bytes(vec![b'x'; len]);
        backend.send_packet(&mut session, [("body", body), ("more", Value::Bool(true))]);
    }
    backend.send_packet(&mut session, [("body", "".into())]);
    let (body, is_whole) = reading.join().expect("a body");
    assert_eq!((body.len(), is_whole), (LARGE_BYTES, true));
}

fn a_session_carries_a_socket(bench: &Bench) {
    let mut backend = Backend::of(bench.subject(), "socket");
    let client = bench.client("socket.zhttp.test");
    let channel = bench.channel("c");
    let opening = thread::spawn(move || open(client, "/socket"));
    let mut session = backend.next();
    assert_eq!(
        bytes(&session.request, "uri"),
        b"ws://socket.zhttp.test/socket"
    );
    let offer = header("Sec-WebSocket-Extensions", "grip");
    let Some(Value::List(headers)) = session.request.get("headers") else {
        panic!("{:?}", session.request);
    };
    assert!(headers.contains(&offer), "{headers:?}");
    backend.send_packet(
        &mut session,
        [
            ("code", Value::Integer(101)),
            ("headers", Value::List(vec![offer])),
            ("credits", Value::Integer(10)),
        ],
    );
    let mut socket = opening.join().expect("a socket");
    let subscribe = format!("c:{{\"type\":\"subscribe\",\"channel\":\"{channel}\"}}");
    let text = |text: &str| [("content-type", "text".into()), ("body", text.into())];
    backend.send_packet(&mut session, text(&subscribe));
    backend.send_packet(&mut session, text("m:hello"));
    assert_eq!(socket.next_text(), "hello");
    // Two pieces of a message, as credit allows.
    socket.send(BINARY, b"0123456789ab");
    let mut message = Vec::new();
    loop {
        let packet = backend.packet();
        if bytes(&packet, "type") == b"credit" {
            continue;
        }
        assert_eq!(bytes(&packet, "content-type"), b"binary");
        message.extend_from_slice(bytes(&packet, "body"));
        if !is_on(&packet, "more") {
            break;
        }
        assert_eq!(message.len(), 10);
        let credit = ("credits", Value::Integer(100));
        backend.send_packet(&mut session, [("type", "credit".into()), credit]);
    }
    assert_eq!(message, b"0123456789ab");
    socket.send(TEXT, b"x");
    while bytes(&backend.packet(), "body") != b"x" {}
    bench.publish(
        serde_json::json!([{"channel": channel, "formats": {"ws-message": {"content": "news"}}}]),
    );
    assert_eq!(socket.next_text(), "news");
    backend.send_packet(
        &mut session,
        [
            ("type", "close".into()),
            ("code", Value::Integer(4_001)),
            ("body", "why".into()),
        ],
    );
    let close = socket.next().expect("a close");
    assert_eq!(close.close(), Some((4_001, "why".to_owned())));
    socket.close(4_001, "why");
    loop {
        let packet = backend.packet();
        if bytes(&packet, "type") == b"close" {
            assert_eq!(number(&packet, "code"), Some(4_001));
            break;
        }
    }
}

fn a_session_that_goes_wrong_is_an_error(bench: &Bench) {
    let mut backend = Backend::of(bench.subject(), "wrong");
    let failed = |mut client: crate::client::Client| {
        let answer = client.read_answer(false);
        let expected = (502, "Error while proxying to origin.\n");
        assert_eq!((answer.status, answer.text()), expected);
    };
    let mut client = bench.client("wrong.zhttp.test");
    client.send("GET", "/refused", &[], b"");
    let mut session = backend.next();
    let condition = ("condition", "bad-request".into());
    backend.send_packet(&mut session, [("type", "error".into()), condition]);
    failed(client);

    let mut client = bench.client("wrong.zhttp.test");
    client.send("GET", "/lost", &[], b"");
    let mut session = backend.next();
    session.lose_one();
    let more = || ("more", Value::Bool(true));
    backend.send_packet(&mut session, [("code", Value::Integer(200)), more()]);
    failed(client);

    // Within the body, only the close of the connection signals the error.
    let mut client = bench.client("wrong.zhttp.test");
    client.send("GET", "/within", &[], b"");
    let mut session = backend.next();
    let code = ("code", Value::Integer(200));
    backend.send_packet(&mut session, [code, ("body", "some".into()), more()]);
    assert_eq!(client.read_head().status, 200);
    client.read_until("some");
    backend.send_packet(&mut session, [("type", "cancel".into())]);
    let (rest, is_whole) = client.read_end();
    assert_eq!(rest, "");
    bench.differs(is_whole, true, false);
}
