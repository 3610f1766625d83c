//! Harmful effects that no backend or client may cause. Runs against Fermata alone, because
//! Pushpin's behaviour is undocumented.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::cases;
use crate::bench::Bench;
use crate::origin::{Reply, ok, text};
use crate::socket::open;
use crate::subject::Kind;

cases!(
    events_are_known_however_they_are_named,
    events_are_not_said_twice,
    an_origin_that_accepts_nothing_is_left_alone,
    an_instruction_does_not_frame_its_response,
    a_response_without_body_is_not_held,
    an_interim_status_is_no_answer,
    a_handshake_has_no_body,
    a_large_control_request_is_refused,
    a_hint_hides_no_id,
    what_a_link_has_missed_is_asked_for,
    an_item_for_others_is_no_gap,
);

const EVENTS: &str = "application/websocket-events";

fn is_elsewhere(bench: &Bench) -> bool {
    bench.kind() == Kind::Pushpin
}

fn events_are_known_however_they_are_named(bench: &Bench) {
    if is_elsewhere(bench) {
        return;
    }
    bench.origin(|request| {
        let told: Vec<&str> = ["connection-id", "meta-user", "content-bytes-replayed"]
            .into_iter()
            .filter(|name| request.header(name).is_some())
            .collect();
        text(&told.join(" "))
    });
    let parameter = format!("{EVENTS}; x=y");
    for types in [
        &[("Content-Type", parameter.as_str())][..],
        &[("Content-Type", "text/plain"), ("Content-Type", EVENTS)],
    ] {
        let mut client = bench.client("over.test");
        let answer = client.request("POST", &bench.path("/x"), types, b"OPEN\r\n");
        assert_eq!(answer.status, 403, "{types:?}");
    }
    let headers = [
        ("Connection-Id", "1"),
        ("Meta-User", "admin"),
        ("Content-Bytes-Replayed", "1"),
    ];
    let mut client = bench.client("over.test");
    assert_eq!(
        client
            .request("POST", &bench.path("/x"), &headers, b"x")
            .text(),
        ""
    );
}

fn events_are_not_said_twice(bench: &Bench) {
    if is_elsewhere(bench) {
        return;
    }
    bench.origin(|request| {
        if request.body == b"OPEN\r\n" {
            ok(&[("Content-Type", EVENTS)], "OPEN\r\n")
        } else {
            Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_vec())
        }
    });
    let mut socket = open(bench.client("over.test"), &bench.path("/ws"));
    socket.text("order");
    let close = socket.next().and_then(|frame| frame.close());
    assert_eq!(close.map(|it| it.0), Some(1011));
    let requests = bench.requests();
    let said = requests.iter().filter(|it| it.text().contains("order"));
    assert_eq!(said.count(), 1);
}

fn an_origin_that_accepts_nothing_is_left_alone(bench: &Bench) {
    if is_elsewhere(bench) {
        return;
    }
    let count = AtomicUsize::new(0);
    bench.origin(move |request| match request.body == b"OPEN\r\n" {
        true => ok(&[("Content-Type", EVENTS)], "OPEN\r\n"),
        false if count.fetch_add(1, Ordering::Relaxed) == 0 => ok(
            &[("Content-Type", EVENTS), ("Content-Bytes-Accepted", "0")],
            "",
        ),
        false => ok(&[("Content-Type", EVENTS)], &request.body),
    });
    let mut socket = open(bench.client("over.test"), &bench.path("/ws"));
    socket.text("hello");
    // The message arrives when the backend reads it.
    assert_eq!(socket.next_text(), "hello");
}

fn an_instruction_does_not_frame_its_response(bench: &Bench) {
    if is_elsewhere(bench) {
        return;
    }
    let channel = bench.channel("c");
    bench.origin(move |request| {
        let headers = json!({"Content-Length": "5", "Transfer-Encoding": "gzip", "Connection": "close", "X-Own": "1"});
        let response = json!({"headers": headers, "body": "opened\n"});
        let hold = json!({"mode": "stream", "channels": [{"name": channel}]});
        let instruct = if request.target.ends_with("/held") { json!({"hold": hold, "response": response}) } else { json!({"response": response}) };
        ok(&[("Content-Type", "application/grip-instruct")], instruct.to_string())
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/held"), &[], b"");
    let head = client.read_head();
    assert_eq!(head.header("content-length"), None);
    assert_eq!(head.header("transfer-encoding").as_deref(), Some("chunked"));
    assert_eq!(head.header("x-own").as_deref(), Some("1"));
    let answer = bench.get("plain.test", "/answered");
    assert_eq!(answer.header("content-length").as_deref(), Some("7"));
    assert_eq!(answer.header("transfer-encoding"), None);
}

fn a_response_without_body_is_not_held(bench: &Bench) {
    if is_elsewhere(bench) {
        return;
    }
    let channel = bench.channel("c");
    bench.origin(move |request| {
        let headers = vec![
            ("Grip-Hold", "stream".to_owned()),
            ("Grip-Channel", channel.clone()),
        ];
        if request.target.ends_with("/next") {
            text("next")
        } else {
            Reply::Answer(304, headers, Vec::new())
        }
    });
    let mut client = bench.client("plain.test");
    let answer = client.get(&bench.path("/x"));
    assert_eq!(
        (answer.status, answer.header("transfer-encoding")),
        (304, None)
    );
    bench.publish_stream("c", "to nobody");
    assert_eq!(client.get(&bench.path("/next")).text(), "next");
}

fn an_interim_status_is_no_answer(bench: &Bench) {
    if is_elsewhere(bench) {
        return;
    }
    bench.origin(|request| {
        if request.target.ends_with("/json") {
            ok(
                &[("Content-Type", "application/grip-instruct")],
                r#"{"response": {"code": 100}}"#,
            )
        } else {
            ok(&[("Grip-Status", "103")], "x")
        }
    });
    for rest in ["/json", "/header"] {
        assert_eq!(bench.get("plain.test", rest).status, 502, "{rest}");
    }
}

fn a_handshake_has_no_body(bench: &Bench) {
    if is_elsewhere(bench) {
        return;
    }
    bench.origin(|_| text("it came through"));
    let headers = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let mut client = bench.client("plain.test");
    assert_eq!(
        client
            .request("GET", &bench.path("/ws"), &headers, b"body")
            .status,
        400
    );
}

fn a_large_control_request_is_refused(bench: &Bench) {
    if is_elsewhere(bench) {
        return;
    }
    for bytes in [1_000_001, 2_000_000] {
        let answer = bench.control("/publish/", &" ".repeat(bytes));
        assert_eq!(answer.status, 413, "{bytes}");
    }
}

/// Publishes an item without id after one with id, and holds with an older id.
fn a_hint_hides_no_id(bench: &Bench) {
    if is_elsewhere(bench) {
        return;
    }
    let channel = bench.channel("c");
    bench.publish(json!([
        {"channel": channel, "id": "2", "http-response": {"body": "x"}},
        {"channel": channel, "http-stream": {"action": "hint"}},
    ]));
    let count = AtomicUsize::new(0);
    bench.origin(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => {
            let channel = format!("{channel}; prev-id=1");
            ok(
                &[("Grip-Hold", "response"), ("Grip-Channel", &channel)],
                "held",
            )
        }
        _ => text("asked again"),
    });
    assert_eq!(bench.get("plain.test", "/poll").text(), "asked again");
}

fn what_a_link_has_missed_is_asked_for(bench: &Bench) {
    if is_elsewhere(bench) {
        return;
    }
    let (channel, path, count) = (bench.channel("c"), bench.path(""), AtomicUsize::new(1));
    bench.publish(json!([{"channel": channel, "id": "3", "http-stream": {"content": "3"}}]));
    // The first two responses are older than the published items.
    bench.origin(move |_| {
        let id = count.fetch_add(1, Ordering::Relaxed).min(3);
        ok(
            &[
                ("Grip-Hold", "stream"),
                ("Grip-Channel", &format!("{channel}; prev-id={id}")),
                ("Grip-Link", &format!("<{path}/next>; rel=next")),
            ],
            format!("up to {id}\n"),
        )
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    client.read_head();
    assert_eq!(
        client.read_until("up to 3\n"),
        "up to 1\nup to 2\nup to 3\n"
    );
}

fn an_item_for_others_is_no_gap(bench: &Bench) {
    if is_elsewhere(bench) {
        return;
    }
    let channel = bench.channel("c");
    let held = channel.clone();
    bench.origin(move |_| {
        ok(
            &[
                ("Grip-Hold", "stream"),
                (
                    "Grip-Channel",
                    &format!("{held}; prev-id=1; filter=skip-self"),
                ),
                ("Grip-Set-Meta", "user=me"),
            ],
            "opened\n",
        )
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    client.read_head();
    client.read_until("opened\n");
    let item = |id: &str, prev_id: &str, sender: &str| json!({"channel": channel, "id": id, "prev-id": prev_id, "meta": {"sender": sender}, "http-stream": {"content": id}});
    // The client already has item 1, and sent item 2 itself.
    bench.publish(json!([
        item("1", "0", "you"),
        item("2", "1", "me"),
        item("3", "2", "you"),
    ]));
    assert_eq!(client.read_until("3"), "3");
}
