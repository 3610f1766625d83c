//! WebSockets to a backend that supports them, with and without control messages.

use std::time::{Duration, Instant};

use fermata_testkit::deadline;
use fermata_testkit::websocket::{BINARY, PING, PONG, TEXT};
use serde_json::{Value, json};

use super::cases;
use crate::bench::{Bench, PROBE};
use crate::origin::{Reply, Request};
use crate::socket::{Socket, accept, ask, open};

cases!(
    a_socket_is_kept_alive_as_told,
    a_delayed_message_is_sent_later,
    a_socket_passes_messages_both_ways,
    a_socket_passes_fragments,
    a_socket_passes_pings,
    a_close_passes_with_its_code,
    a_close_of_the_backend_passes,
    a_refused_socket_gets_the_answer,
    a_socket_to_a_dead_backend_is_refused,
    a_subprotocol_passes,
    control_messages_subscribe,
    control_messages_unsubscribe,
    only_prefixed_messages_pass,
    without_grip_control_messages_are_messages,
    a_published_close_closes,
    a_detached_socket_lives_on,
    a_socket_has_filters_and_meta,
    published_types_are_kept,
    a_socket_gets_only_its_format,
);

const GRIP: &str = "Sec-WebSocket-Extensions: grip\r\n";

fn echo(request: &Request) -> Reply {
    accept(request, "", |mut socket| {
        while let Some(frame) = socket.next() {
            socket.send(frame.first, frame.payload);
        }
    })
}

/// Starts a backend that first sends these control messages, then returns every message with the
/// prefix `m:`.
fn control(bench: &Bench, messages: Vec<Value>) {
    bench.origin(move |request| {
        let messages = messages.clone();
        accept(request, GRIP, move |mut socket| {
            // The client sends first, so that later messages follow the handshake.
            socket.next();
            for message in messages {
                socket.text(&format!("c:{message}"));
            }
            socket.text("m:ready");
            while let Some(frame) = socket.next() {
                let text = String::from_utf8_lossy(&frame.payload).into_owned();
                socket.text(&format!("m:{text}"));
            }
        })
    });
}

fn subscribe(bench: &Bench, channel: &str) -> Value {
    json!({"type": "subscribe", "channel": bench.channel(channel)})
}

/// Opens a socket to a backend of [`control`].
fn begun(bench: &Bench) -> Socket {
    let mut socket = open(bench.client("plain.test"), &bench.path("/ws"));
    socket.text("go");
    socket
}

/// Opens a socket, and waits until it is subscribed.
fn subscribed(bench: &Bench) -> Socket {
    let mut socket = begun(bench);
    assert_eq!(socket.next_text(), "ready");
    probe(bench, &mut socket);
    socket
}

fn probe(bench: &Bench, socket: &mut Socket) {
    let end = Instant::now() + deadline();
    loop {
        bench.publish(json!([{"channel": bench.channel("c"), "ws-message": {"content": PROBE}}]));
        if socket.has_probe(Duration::from_millis(100)) {
            return;
        }
        assert!(Instant::now() < end, "the socket gets nothing");
    }
}

fn publish(bench: &Bench, message: Value) {
    bench.publish(json!([{"channel": bench.channel("c"), "formats": {"ws-message": message}}]));
}

fn a_socket_passes_messages_both_ways(bench: &Bench) {
    bench.origin(echo);
    let mut socket = open(bench.client("plain.test"), &bench.path("/ws?a=b"));
    let long = "x".repeat(4_000);
    for text in ["hello", "grüße", &long] {
        socket.text(text);
        assert_eq!(socket.next_text(), text);
    }
    socket.send(BINARY, b"\0\xff");
    assert_eq!(socket.message(), (BINARY, b"\0\xff".to_vec()));
    let request = &bench.requests()[0];
    assert_eq!(request.target, bench.path("/ws?a=b"));
    assert_eq!(
        request.header("sec-websocket-extensions").as_deref(),
        Some("grip")
    );
    assert!(request.header("grip-sig").is_some());
}

fn a_socket_passes_fragments(bench: &Bench) {
    bench.origin(echo);
    let mut socket = open(bench.client("plain.test"), &bench.path("/ws"));
    socket.send(0x01, "one ");
    socket.send(0x00, "two ");
    socket.send(0x80, "three");
    assert_eq!(socket.next_text(), "one two three");
}

fn a_socket_passes_pings(bench: &Bench) {
    bench.origin(|request| {
        accept(request, "", |mut socket| {
            while let Some(frame) = socket.next() {
                match frame.first {
                    PING => socket.send(PONG, frame.payload),
                    PONG => {
                        socket.text(&format!("pong {}", String::from_utf8_lossy(&frame.payload)))
                    }
                    _ => socket.send(PING, "from the backend"),
                }
            }
        })
    });
    let mut socket = open(bench.client("plain.test"), &bench.path("/ws"));
    socket.send(PING, "from the client");
    let pong = socket.next().expect("a pong");
    assert_eq!(pong.first, PONG);
    bench.differs(pong.payload, Vec::new(), b"from the client".to_vec());
    socket.text("ping me");
    let ping = socket.next().expect("a ping");
    assert_eq!(ping.first, PING);
    let content = b"from the backend".to_vec();
    bench.differs(ping.payload.clone(), Vec::new(), content);
    // Only the PONG for this PING is forwarded.
    socket.send(PONG, "nobody asked");
    socket.send(PONG, &ping.payload[..]);
    let (pushpin, ours) = ("pong ".to_owned(), "pong from the backend".to_owned());
    bench.differs(socket.next_text(), pushpin, ours);
}

fn a_close_passes_with_its_code(bench: &Bench) {
    let (sender, closed) = std::sync::mpsc::channel();
    bench.origin(move |request| {
        let sender = sender.clone();
        accept(request, "", move |mut socket| {
            while let Some(frame) = socket.next() {
                if let Some(close) = frame.close() {
                    let _ = sender.send(close);
                    socket.close(4001, "and you");
                }
            }
        })
    });
    let mut socket = open(bench.client("plain.test"), &bench.path("/ws"));
    socket.close(4000, "bye");
    let answer = socket.next().expect("a close frame");
    let heard = closed.recv_timeout(deadline());
    assert_eq!(heard, Ok((4000, "bye".to_owned())));
    let pushpin = Some((4001, "and you".to_owned()));
    bench.differs(answer.close(), pushpin, Some((4000, String::new())));
    assert_eq!(socket.next(), None);
}

fn a_close_of_the_backend_passes(bench: &Bench) {
    bench.origin(|request| {
        accept(request, "", |mut socket| {
            socket.next();
            socket.close(4002, "enough");
            socket.next();
        })
    });
    let mut socket = open(bench.client("plain.test"), &bench.path("/ws"));
    socket.text("x");
    let close = socket.next().expect("a close frame");
    assert_eq!(close.close(), Some((4002, "enough".to_owned())));
}

fn a_refused_socket_gets_the_answer(bench: &Bench) {
    bench.origin(|_| Reply::Answer(403, vec![("X-Own", "1".into())], b"not you\n".to_vec()));
    let (head, mut client) = ask(bench.client("plain.test"), &bench.path("/ws"), &[]);
    assert_eq!(head.status, 403);
    bench.differs(head.header("x-own"), None, Some("1".to_owned()));
    assert_eq!(client.read_until("not you"), "not you");
}

fn a_socket_to_a_dead_backend_is_refused(bench: &Bench) {
    let (head, _) = ask(bench.client("dead.test"), &bench.path("/ws"), &[]);
    assert_eq!(head.status, 502);
}

fn a_subprotocol_passes(bench: &Bench) {
    bench.origin(|request| {
        let asked = request.header("sec-websocket-protocol").unwrap_or_default();
        assert_eq!(asked, "v2, v1");
        accept(request, "Sec-WebSocket-Protocol: v1\r\n", |mut socket| {
            socket.next();
        })
    });
    let headers = [
        ("Sec-WebSocket-Protocol", "v2, v1"),
        ("Sec-WebSocket-Extensions", "permessage-deflate"),
    ];
    let (head, _) = ask(bench.client("plain.test"), &bench.path("/ws"), &headers);
    assert_eq!(head.status, 101);
    assert_eq!(head.header("sec-websocket-protocol").as_deref(), Some("v1"));
    assert_eq!(
        bench.requests()[0]
            .header("sec-websocket-extensions")
            .as_deref(),
        Some("grip")
    );
}

fn control_messages_subscribe(bench: &Bench) {
    control(bench, vec![subscribe(bench, "c")]);
    let mut socket = subscribed(bench);
    publish(bench, json!({"content": "one"}));
    assert_eq!(socket.next_text(), "one");
    socket.text("to the backend");
    assert_eq!(socket.next_text(), "to the backend");
}

fn control_messages_unsubscribe(bench: &Bench) {
    let unsubscribe = json!({"type": "unsubscribe", "channel": bench.channel("d")});
    control(
        bench,
        vec![subscribe(bench, "c"), subscribe(bench, "d"), unsubscribe],
    );
    let mut socket = subscribed(bench);
    bench.publish(json!([
        {"channel": bench.channel("d"), "ws-message": {"content": "gone"}},
        {"channel": bench.channel("c"), "ws-message": {"content": "there"}}]));
    assert_eq!(socket.next_text(), "there");
}

fn only_prefixed_messages_pass(bench: &Bench) {
    bench.origin(|request| {
        let lines = "Sec-WebSocket-Extensions: grip; message-prefix=\"p:\"\r\n";
        accept(request, lines, |mut socket| {
            socket.next();
            socket.text("no prefix");
            socket.text("m:the usual prefix");
            socket.text("p:own prefix");
            socket.send(BINARY, b"p:binary");
            socket.next();
        })
    });
    let mut socket = begun(bench);
    assert_eq!(socket.next_text(), "own prefix");
    assert_eq!(socket.message(), (BINARY, b"binary".to_vec()));
}

fn without_grip_control_messages_are_messages(bench: &Bench) {
    bench.origin(|request| {
        accept(request, "", |mut socket| {
            socket.next();
            socket.text("c:{\"type\":\"detach\"}");
            socket.next();
        })
    });
    let mut socket = begun(bench);
    assert_eq!(socket.next_text(), "c:{\"type\":\"detach\"}");
}

fn a_published_close_closes(bench: &Bench) {
    control(bench, vec![subscribe(bench, "c")]);
    let mut socket = subscribed(bench);
    publish(
        bench,
        json!({"action": "close", "code": 4003, "reason": "published"}),
    );
    let close = socket.next().expect("a close frame");
    assert_eq!(close.close(), Some((4003, "published".to_owned())));
}

fn a_detached_socket_lives_on(bench: &Bench) {
    control(
        bench,
        vec![subscribe(bench, "c"), json!({"type": "detach"})],
    );
    let mut socket = begun(bench);
    probe(bench, &mut socket);
    socket.text("to nobody");
    publish(bench, json!({"content": "one"}));
    let text = socket.next_text();
    // A message that the backend sent before the detach may arrive.
    if text == "ready" {
        assert_eq!(socket.next_text(), "one");
    } else {
        assert_eq!(text, "one");
    }
}

fn a_socket_has_filters_and_meta(bench: &Bench) {
    let mut subscribe = subscribe(bench, "c");
    subscribe["filters"] = json!(["skip-self"]);
    let meta = json!({"type": "set-meta", "name": "user", "value": "me"});
    control(bench, vec![meta, subscribe]);
    let mut socket = subscribed(bench);
    bench.publish(json!([
        {"channel": bench.channel("c"), "meta": {"sender": "me"}, "ws-message": {"content": "mine"}},
        {"channel": bench.channel("c"), "meta": {"sender": "you"}, "ws-message": {"content": "yours"}}]));
    assert_eq!(socket.next_text(), "yours");
}

fn a_socket_is_kept_alive_as_told(bench: &Bench) {
    let keep_alive = json!({"type": "keep-alive", "content": "beat", "timeout": 1});
    control(bench, vec![subscribe(bench, "c"), keep_alive]);
    let mut socket = begun(bench);
    assert_eq!(socket.next_text(), "ready");
    assert_eq!(socket.next_text(), "beat");
    assert_eq!(socket.next_text(), "beat");
}

fn a_delayed_message_is_sent_later(bench: &Bench) {
    let delayed = |content: &str| json!({"type": "send-delayed", "content": content, "timeout": 1});
    control(bench, vec![delayed("first"), delayed("second")]);
    let mut socket = begun(bench);
    let texts = [socket.next_text(), socket.next_text(), socket.next_text()];
    assert!(texts.contains(&"ready".to_owned()), "{texts:?}");
    let at = |text: &str| texts.iter().position(|other| other == text);
    assert!(at("first") < at("second"), "{texts:?}");
}

fn published_types_are_kept(bench: &Bench) {
    control(bench, vec![subscribe(bench, "c")]);
    let mut socket = subscribed(bench);
    for (message, first, payload) in [
        (json!({"content": "text"}), TEXT, &b"text"[..]),
        (json!({"content-bin": "AP8="}), BINARY, b"\0\xff"),
        (
            json!({"content": "bytes", "type": "binary"}),
            BINARY,
            b"bytes",
        ),
        (json!({"type": "ping", "content": "?"}), PING, b"?"),
        (json!({"type": "pong", "content": "!"}), PONG, b"!"),
    ] {
        publish(bench, message.clone());
        let frame = socket.next().unwrap_or_else(|| panic!("no {message}"));
        assert_eq!(
            (frame.first, &frame.payload[..]),
            (first, payload),
            "{message}"
        );
    }
}

fn a_socket_gets_only_its_format(bench: &Bench) {
    control(bench, vec![subscribe(bench, "c")]);
    let mut socket = subscribed(bench);
    bench.publish(json!([
        {"channel": bench.channel("c"), "http-stream": {"content": "stream"}},
        {"channel": bench.channel("c"), "http-stream": {"content": "stream"}, "ws-message": {"content": "message"}}]));
    assert_eq!(socket.next_text(), "message");
}
