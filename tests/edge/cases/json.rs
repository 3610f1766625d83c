//! Instructions as JSON in the body.

use serde_json::{Value, json};

use super::cases;
use crate::bench::Bench;
use crate::origin::{Reply, ok};

cases!(
    json_without_hold_is_a_response,
    json_holds_a_long_poll,
    json_holds_a_stream,
    json_keeps_a_stream_alive,
    json_has_filters_and_meta,
    json_needs_status_200,
    json_errors_are_told_with_debug,
);

fn instruct(value: &Value) -> Reply {
    ok(
        &[
            ("Content-Type", "application/grip-instruct"),
            ("X-Dropped", "1"),
        ],
        value.to_string(),
    )
}

fn answer_with(bench: &Bench, value: Value) {
    bench.origin(move |_| instruct(&value));
}

fn json_without_hold_is_a_response(bench: &Bench) {
    bench.origin(|request| {
        instruct(&match request.target.rsplit('/').next() {
            Some("object") => json!({"response": {"code": 201, "reason": "Made", "headers": {"X-Own": "1"}, "body": "text"}}),
            Some("list") => json!({"response": {"headers": [["X-Own", "1"]], "body": "not this", "body-bin": "dGV4dA=="}}),
            Some("code") => json!({"response": {"code": 404}}),
            _ => json!({}),
        })
    });
    let answer = bench.get("plain.test", "/object");
    assert_eq!(
        (answer.status, &answer.head.reason[..], answer.text()),
        (201, "Made", "text")
    );
    assert_eq!(answer.header("x-own").as_deref(), Some("1"));
    assert_eq!(answer.header("x-dropped"), None);
    assert_ne!(
        answer.header("content-type").as_deref(),
        Some("application/grip-instruct")
    );
    let answer = bench.get("plain.test", "/list");
    assert_eq!((answer.status, answer.text()), (200, "text"));
    assert_eq!(answer.header("x-own").as_deref(), Some("1"));
    // An instruction needs no body, but Pushpin requires one.
    let answer = bench.get("plain.test", "/code");
    bench.differs(answer.status, 502, 404);
    let answer = bench.get("plain.test", "/empty");
    bench.differs(answer.status, 502, 200);
}

fn json_holds_a_long_poll(bench: &Bench) {
    let channel = bench.channel("c");
    answer_with(
        bench,
        json!({"hold": {"channels": [{"name": channel}], "timeout": 5},
            "response": {"headers": {"X-Own": "1"}, "body": "nothing"}}),
    );
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let item = json!({"channel": channel, "http-response": {"body": "something"}});
    let answer = bench.publish_until_answered(&mut client, item);
    assert_eq!(answer.text(), "something");
    assert_eq!(answer.header("x-own").as_deref(), Some("1"));
    assert_eq!(bench.get("plain.test", "/x").text(), "nothing");
}

fn json_holds_a_stream(bench: &Bench) {
    let channel = bench.channel("c");
    answer_with(
        bench,
        json!({"hold": {"mode": "stream", "channels": [{"name": channel}]},
            "response": {"headers": [["Content-Type", "text/plain"]], "body": "opened\n"}}),
    );
    let mut client = bench.stream("plain.test", "/x", "c", "opened\n");
    bench.publish_stream("c", "one");
    assert_eq!(client.read_until("one"), "one");
}

fn json_keeps_a_stream_alive(bench: &Bench) {
    let channel = bench.channel("c");
    answer_with(
        bench,
        json!({"hold": {"mode": "stream", "channels": [{"name": channel}],
            "keep-alive": {"content-bin": "YgBi", "timeout": 1}}, "response": {"body": "opened\n"}}),
    );
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    client.read_head();
    assert_eq!(client.read_until("opened\n"), "opened\n");
    assert_eq!(client.read_until("b\0bb\0b"), "b\0bb\0b");
}

fn json_has_filters_and_meta(bench: &Bench) {
    let channel = bench.channel("c");
    answer_with(
        bench,
        json!({"hold": {"mode": "stream", "channels": [{"name": channel, "filters": ["skip-self"]}],
            "meta": {"user": "me"}}, "response": {"body": "opened\n"}}),
    );
    let mut client = bench.stream("plain.test", "/x", "c", "opened\n");
    bench.publish(json!([
        {"channel": channel, "meta": {"sender": "me"}, "http-stream": {"content": "mine"}},
        {"channel": channel, "meta": {"sender": "you"}, "http-stream": {"content": "yours"}}]));
    assert_eq!(client.read_until("yours"), "yours");
}

fn json_needs_status_200(bench: &Bench) {
    bench.origin(|_| {
        let headers = vec![("Content-Type", "application/grip-instruct".to_owned())];
        Reply::Answer(201, headers, b"{}".to_vec())
    });
    let answer = bench.get("debug.test", "/x");
    assert_eq!(answer.status, 502);
    let answer = bench.get("plain.test", "/x");
    assert_eq!(
        (answer.status, answer.text()),
        (502, "Error while proxying to origin.\n")
    );
}

fn json_errors_are_told_with_debug(bench: &Bench) {
    let bodies = [
        "",
        "[]",
        "{",
        r#"{"hold": 1}"#,
        r#"{"hold": {}}"#,
        r#"{"hold": {"mode": "x", "channels": []}}"#,
        r#"{"hold": {"channels": 1}}"#,
        r#"{"hold": {"channels": [{}]}}"#,
        r#"{"hold": {"channels": [{"name": 1}]}}"#,
        r#"{"hold": {"channels": [{"name": "a"}], "timeout": -1}}"#,
        r#"{"response": 1}"#,
        r#"{"response": {"code": 1000}}"#,
        r#"{"response": {"body": 1}}"#,
    ];
    bench.origin(move |request| {
        let at: usize = request
            .target
            .rsplit('/')
            .next()
            .and_then(|at| at.parse().ok())
            .unwrap_or(0);
        ok(&[("Content-Type", "application/grip-instruct")], bodies[at])
    });
    for (at, body) in bodies.iter().enumerate() {
        let answer = bench.get("plain.test", &format!("/{at}"));
        assert_eq!(
            (answer.status, answer.text()),
            (502, "Error while proxying to origin.\n"),
            "{body}"
        );
        let answer = bench.get("debug.test", &format!("/{at}"));
        assert_eq!(answer.status, 502, "{body}");
        assert_ne!(answer.text(), "Error while proxying to origin.\n", "{body}");
    }
}
