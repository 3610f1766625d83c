//! Long polls: held by headers, completed by a publish, a time-out or another request to the
//! backend.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::cases;
use crate::bench::Bench;
use crate::origin::{Reply, ok, text};

cases!(
    a_stream_is_not_compressed_at_its_start_alone,
    a_poll_says_how_its_own_body_is,
    a_long_poll_times_out_with_its_own_body,
    a_long_poll_is_answered_by_a_publish,
    published_headers_replace_those_of_the_instruction,
    a_published_body_patches_that_of_the_instruction,
    a_failed_patch_is_an_error,
    a_long_poll_gets_only_its_format,
    a_long_poll_of_two_channels_takes_the_first,
    a_long_poll_ignores_close,
    a_hint_asks_the_backend_again,
    the_connection_of_a_long_poll_serves_on,
    a_status_is_shown_in_place_of_200,
    headers_are_hidden_but_for_those_exposed,
    exposing_in_a_publish_hides_nothing,
    headers_without_hold_answer_at_once,
);

const HOLD: (&str, &str) = ("Grip-Hold", "response");

fn hold(bench: &Bench, more: &'static [(&'static str, &'static str)]) {
    let channel = bench.channel("c");
    bench.origin(move |_| {
        let headers = [
            &[
                HOLD,
                ("Grip-Channel", &channel),
                ("Content-Type", "text/plain"),
            ],
            more,
        ];
        ok(&headers.concat(), "nothing yet\n")
    });
}

fn response(bench: &Bench, response: serde_json::Value) -> serde_json::Value {
    json!({"channel": bench.channel("c"), "formats": {"http-response": response}})
}

fn a_long_poll_times_out_with_its_own_body(bench: &Bench) {
    hold(bench, &[("Grip-Timeout", "1"), ("X-Own", "1")]);
    let answer = bench.get("plain.test", "/x");
    assert_eq!((answer.status, answer.text()), (200, "nothing yet\n"));
    assert_eq!(answer.header("x-own").as_deref(), Some("1"));
    assert_eq!(answer.header("content-length").as_deref(), Some("12"));
    assert!(
        answer
            .head
            .headers
            .iter()
            .all(|(name, _)| !name.starts_with("Grip-")),
        "{answer:?}"
    );
}

fn a_long_poll_is_answered_by_a_publish(bench: &Bench) {
    hold(bench, &[]);
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let item = response(
        bench,
        json!({"code": 201, "reason": "Made", "headers": {"X-Published": "1"}, "body": "hello\n"}),
    );
    let answer = bench.publish_until_answered(&mut client, item);
    assert_eq!(
        (answer.status, &answer.head.reason[..], answer.text()),
        (201, "Made", "hello\n")
    );
    assert_eq!(answer.header("x-published").as_deref(), Some("1"));
    assert_eq!(answer.header("content-type").as_deref(), Some("text/plain"));
    assert_eq!(bench.requests().len(), 1);
}

fn published_headers_replace_those_of_the_instruction(bench: &Bench) {
    hold(bench, &[("X-Own", "1"), ("X-Kept", "1")]);
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let headers = json!([
        ["content-type", "application/json"],
        ["x-own", "2"],
        ["Grip-Foo", "x"]
    ]);
    let item = response(bench, json!({"headers": headers, "body-bin": "e30K"}));
    let answer = bench.publish_until_answered(&mut client, item);
    assert_eq!(answer.text(), "{}\n");
    for (name, value) in [
        ("content-type", Some("application/json")),
        ("x-own", Some("2")),
        ("x-kept", Some("1")),
        ("content-length", Some("3")),
        ("grip-foo", None),
    ] {
        assert_eq!(answer.header(name).as_deref(), value, "{name}");
    }
}

fn a_published_body_patches_that_of_the_instruction(bench: &Bench) {
    let channel = bench.channel("c");
    bench.origin(move |_| {
        ok(
            &[
                HOLD,
                ("Grip-Channel", &channel),
                ("Content-Type", "application/json"),
            ],
            "{\"a\":1,\"list\":[1]}\n",
        )
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let patch = json!([
        {"op": "replace", "path": "/a", "value": 2}, {"op": "add", "path": "/list/-", "value": "x"},
        {"op": "copy", "from": "/a", "path": "/b"}, {"op": "test", "path": "/b", "value": 2}]);
    let item = response(bench, json!({"body-patch": patch}));
    let answer = bench.publish_until_answered(&mut client, item);
    assert!(answer.text().ends_with('\n'), "{}", answer.text());
    let body: serde_json::Value = serde_json::from_str(answer.text()).expect("JSON");
    assert_eq!(body, json!({"a": 2, "b": 2, "list": [1, "x"]}));
}

fn a_failed_patch_is_an_error(bench: &Bench) {
    let channel = bench.channel("c");
    bench.origin(move |_| ok(&[HOLD, ("Grip-Channel", &channel)], "{}"));
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let item = response(
        bench,
        json!({"body-patch": [{"op": "remove", "path": "/a"}]}),
    );
    let answer = bench.publish_until_answered(&mut client, item);
    assert_eq!(
        (answer.status, answer.text()),
        (502, "Error while proxying to origin.\n")
    );
}

fn a_long_poll_gets_only_its_format(bench: &Bench) {
    hold(bench, &[]);
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let item = json!({"channel": bench.channel("c"), "formats": {
        "http-stream": {"content": "stream"}, "ws-message": {"content": "message"},
        "http-response": {"body": "response"}}});
    assert_eq!(
        bench.publish_until_answered(&mut client, item).text(),
        "response"
    );
}

fn a_long_poll_of_two_channels_takes_the_first(bench: &Bench) {
    let channels = format!("{}, {}", bench.channel("a"), bench.channel("b"));
    bench.origin(move |_| ok(&[HOLD, ("Grip-Channel", &channels)], ""));
    for name in ["b", "a"] {
        let mut client = bench.client("plain.test");
        client.send("GET", &bench.path("/x"), &[], b"");
        let item = json!({"channel": bench.channel(name), "http-response": {"body": name}});
        assert_eq!(bench.publish_until_answered(&mut client, item).text(), name);
    }
}

fn a_long_poll_ignores_close(bench: &Bench) {
    hold(bench, &[]);
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let close = response(bench, json!({"action": "close"}));
    bench.publish(json!([close]));
    let item = response(bench, json!({"body": "after"}));
    assert_eq!(
        bench.publish_until_answered(&mut client, item).text(),
        "after"
    );
}

fn a_hint_asks_the_backend_again(bench: &Bench) {
    let channel = bench.channel("c");
    let first = std::sync::atomic::AtomicBool::new(true);
    bench.origin(move |request| {
        if first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            ok(
                &[HOLD, ("Grip-Channel", &format!("{channel}; prev-id=7"))],
                "",
            )
        } else {
            text(&format!(
                "{} {} {:?}",
                request.method,
                request.text(),
                request.header("grip-last")
            ))
        }
    });
    let mut client = bench.client("plain.test");
    client.send("POST", &bench.path("/x"), &[("X-Own", "1")], b"body");
    let hint = response(bench, json!({"action": "hint"}));
    let answer = bench.publish_until_answered(&mut client, hint);
    let last = format!("{}; last-id=7", bench.channel("c"));
    assert_eq!(answer.text(), format!("POST body {:?}", Some(last)));
    assert_eq!(bench.requests()[1].header("x-own").as_deref(), Some("1"));
}

fn the_connection_of_a_long_poll_serves_on(bench: &Bench) {
    let channel = bench.channel("c");
    bench.origin(move |request| {
        if request.target.ends_with("/held") {
            ok(&[HOLD, ("Grip-Channel", &channel)], "")
        } else {
            text("plain")
        }
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/held"), &[], b"");
    let item = response(bench, json!({"body": "x"}));
    assert_eq!(bench.publish_until_answered(&mut client, item).text(), "x");
    assert_eq!(client.get(&bench.path("/plain")).text(), "plain");
}

fn a_status_is_shown_in_place_of_200(bench: &Bench) {
    bench.origin(|request| {
        if request.target.ends_with("/reason") {
            ok(&[("Grip-Status", "404 Gone For Good")], "x")
        } else {
            ok(&[("Grip-Status", "404")], "x")
        }
    });
    let answer = bench.get("plain.test", "/reason");
    assert_eq!(
        (answer.status, &answer.head.reason[..]),
        (404, "Gone For Good")
    );
    assert_eq!(answer.header("grip-status"), None);
    let answer = bench.get("plain.test", "/none");
    assert_eq!((answer.status, &answer.head.reason[..]), (404, "Not Found"));
}

fn headers_are_hidden_but_for_those_exposed(bench: &Bench) {
    bench.origin(|_| {
        ok(
            &[
                ("Grip-Expose-Headers", "X-Shown, content-type"),
                ("X-Shown", "1"),
                ("X-Hidden", "1"),
                ("Content-Type", "text/plain"),
            ],
            "x",
        )
    });
    let answer = bench.get("plain.test", "/x");
    assert_eq!(answer.header("x-shown").as_deref(), Some("1"));
    assert_eq!(answer.header("x-hidden"), None);
    assert_eq!(answer.header("content-type").as_deref(), Some("text/plain"));
}

fn exposing_in_a_publish_hides_nothing(bench: &Bench) {
    hold(bench, &[]);
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let headers = json!([["X-A", "1"], ["X-B", "1"], ["Grip-Expose-Headers", "X-A"]]);
    let item = response(bench, json!({"headers": headers, "body": "x"}));
    let answer = bench.publish_until_answered(&mut client, item);
    let shown = (
        answer.header("x-a").is_some(),
        answer.header("x-b").is_some(),
    );
    bench.differs(shown, (false, true), (true, true));
}

fn headers_without_hold_answer_at_once(bench: &Bench) {
    bench.origin(|request| {
        if request.target.ends_with("/channel") {
            ok(&[("Grip-Channel", "c")], "channel")
        } else {
            Reply::Answer(404, vec![("Grip-Set-Meta", "a=b".into())], b"meta".to_vec())
        }
    });
    assert_eq!(bench.get("plain.test", "/channel").text(), "channel");
    let answer = bench.get("plain.test", "/meta");
    assert_eq!((answer.status, answer.text()), (404, "meta"));
    assert_eq!(answer.header("grip-set-meta"), None);
}

/// The header of an origin that compresses every response.
const GZIP: (&str, &str) = ("Content-Encoding", "gzip");

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

fn a_stream_is_not_compressed_at_its_start_alone(bench: &Bench) {
    let channel = bench.channel("c");
    bench.origin(move |_| {
        let headers = [GZIP, ("Grip-Hold", "stream"), ("Grip-Channel", &channel)];
        ok(&headers, gzip("opened\n"))
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let head = client.read_head();
    let encoding = head.header("content-encoding");
    bench.differs((head.status, encoding), (200, None), (502, None));
}

fn a_poll_says_how_its_own_body_is(bench: &Bench) {
    let channel = bench.channel("c");
    let own = channel.clone();
    bench.origin(move |_| {
        let headers = [GZIP, ("Grip-Hold", "response"), ("Grip-Channel", &own)];
        ok(&headers, gzip("opened\n"))
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let item = json!({"channel": channel, "formats": {"http-response": {"body": "plain"}}});
    let answer = bench.publish_until_answered(&mut client, item);
    assert_eq!((answer.status, answer.text()), (200, "plain"));
    assert_eq!(answer.header("content-encoding"), None);
}
