//! Auto cross origin: CORS headers and JSON-P.

use serde_json::{Value, json};

use super::cases;
use crate::bench::Bench;
use crate::origin::{Reply, ok, text};
use crate::subject::Kind;

cases!(
    cross_origin_headers_are_added,
    a_preflight_is_answered_with_headers,
    headers_of_the_backend_are_kept,
    json_p_wraps_everything,
    json_p_wraps_the_body_alone,
    json_p_makes_any_request,
    a_bad_callback_is_refused,
    a_long_poll_is_wrapped,
    what_cannot_be_a_script_is_an_error,
);

fn cross_origin_headers_are_added(bench: &Bench) {
    bench.origin(|_| ok(&[("X-Own", "1"), ("Content-Type", "text/plain")], "x"));
    let headers = [("Origin", "https://page.example")];
    let answer = bench
        .client("aco.test")
        .request("GET", &bench.path("/x"), &headers, b"");
    assert_eq!((answer.status, answer.text()), (200, "x"));
    for (name, value) in [
        ("access-control-allow-origin", Some("https://page.example")),
        ("access-control-allow-credentials", Some("true")),
        ("access-control-max-age", Some("3600")),
        (
            "access-control-allow-methods",
            Some("OPTIONS, HEAD, GET, POST, PUT, DELETE"),
        ),
    ] {
        assert_eq!(answer.header(name).as_deref(), value, "{name}");
    }
    let exposed = answer
        .header("access-control-expose-headers")
        .unwrap_or_default();
    assert!(
        exposed
            .split(", ")
            .any(|name| name.eq_ignore_ascii_case("x-own")),
        "{exposed}"
    );
    assert!(
        !exposed.to_lowercase().contains("content-type"),
        "{exposed}"
    );
    let answer = bench.get("plain.test", "/x");
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

fn a_preflight_is_answered_with_headers(bench: &Bench) {
    bench.origin(|request| text(&request.method));
    let headers = [
        ("Origin", "https://page.example"),
        ("Access-Control-Request-Method", "PATCH"),
        ("Access-Control-Request-Headers", "X-A, X-B"),
    ];
    let answer = bench
        .client("aco.test")
        .request("OPTIONS", &bench.path("/x"), &headers, b"");
    assert_eq!(answer.text(), "OPTIONS");
    assert_eq!(
        answer.header("access-control-allow-methods").as_deref(),
        Some("PATCH")
    );
    assert_eq!(
        answer.header("access-control-allow-headers").as_deref(),
        Some("X-A, X-B")
    );
}

fn headers_of_the_backend_are_kept(bench: &Bench) {
    bench.origin(|_| {
        ok(
            &[("Access-Control-Allow-Origin", "https://own.example")],
            "x",
        )
    });
    let headers = [("Origin", "https://page.example")];
    let answer = bench
        .client("aco.test")
        .request("GET", &bench.path("/x"), &headers, b"");
    assert_eq!(
        answer.header("access-control-allow-origin").as_deref(),
        Some("https://own.example")
    );
}

/// Returns the argument of the JSON-P call in a body.
fn called(body: &str) -> Value {
    let rest = body
        .strip_prefix("/**/cb(")
        .unwrap_or_else(|| panic!("{body:?}"));
    let json = rest
        .trim_end()
        .strip_suffix(");")
        .unwrap_or_else(|| panic!("{body:?}"));
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {body:?}"))
}

fn json_p_wraps_everything(bench: &Bench) {
    bench.origin(|_| {
        Reply::Answer(
            404,
            vec![("X-Own", "1".into()), ("Cache-Control", "no-store".into())],
            b"a \"text\"\n\xc3\xbc".to_vec(),
        )
    });
    let answer = bench.get("aco.test", "/x?callback=cb&a=b");
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type").as_deref(),
        Some("application/javascript")
    );
    assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"));
    let called = called(answer.text());
    assert_eq!(
        (&called["code"], &called["reason"]),
        (&json!(404), &json!("Whatever"))
    );
    assert_eq!(called["body"], "a \"text\"\nü");
    assert_eq!(called["headers"]["X-Own"], "1");
    assert_eq!(bench.requests()[0].target, bench.path("/x?a=b"));
}

fn json_p_wraps_the_body_alone(bench: &Bench) {
    bench.origin(|_| ok(&[("Content-Type", "application/json")], "{\"a\": 1}\n"));
    let answer = bench.get("basic.test", "/x?callback=cb");
    assert_eq!(
        (answer.status, called(answer.text())),
        (200, json!({"a": 1}))
    );
}

fn json_p_makes_any_request(bench: &Bench) {
    bench.origin(|request| {
        let own = request.header("x-own").unwrap_or_default();
        text(&format!("{} {own} {}", request.method, request.text()))
    });
    let query =
        "callback=cb&_method=PUT&_body=some%20text&_headers=%7B%22X-Own%22%3A%221%22%7D&kept=1";
    let answer = bench.get("aco.test", &format!("/x?{query}"));
    assert_eq!(called(answer.text())["body"], "PUT 1 some text");
    assert_eq!(bench.requests()[0].target, bench.path("/x?kept=1"));
}

fn a_bad_callback_is_refused(bench: &Bench) {
    bench.origin(|_| text("x"));
    let answer = bench.get("aco.test", "/x?callback=cb&_headers=nonsense");
    assert_eq!(answer.status, 400);
    let answer = bench.get("aco.test", "/x?callback=");
    assert_eq!(
        (answer.status, answer.text()),
        (400, "Invalid callback parameter.\n")
    );
    assert!(bench.requests().is_empty());
}

fn a_long_poll_is_wrapped(bench: &Bench) {
    let channel = bench.channel("c");
    bench.origin(move |_| {
        ok(
            &[("Grip-Hold", "response"), ("Grip-Channel", &channel)],
            "nothing",
        )
    });
    let mut client = bench.client("aco.test");
    client.send("GET", &bench.path("/x?callback=cb"), &[], b"");
    let item = json!({"channel": bench.channel("c"), "http-response": {"body": "something"}});
    let answer = bench.publish_until_answered(&mut client, item);
    assert_eq!(called(answer.text())["body"], "something");
}

fn what_cannot_be_a_script_is_an_error(bench: &Bench) {
    // Pushpin's behaviour here is undocumented.
    if bench.kind() == Kind::Pushpin {
        return;
    }
    let channel = bench.channel("c");
    bench.origin(move |request| {
        if request.target.ends_with("/stream") {
            ok(
                &[("Grip-Hold", "stream"), ("Grip-Channel", &channel)],
                "opened",
            )
        } else {
            text(&"x".repeat(200_000))
        }
    });
    for path in ["/stream", "/large"] {
        let answer = bench.get("aco.test", &format!("{path}?callback=cb"));
        let called = called(answer.text());
        assert_eq!(
            (answer.status, &called["code"]),
            (200, &json!(502)),
            "{path}"
        );
    }
    let answer = bench.get("basic.test", "/large?callback=cb");
    assert_eq!(answer.status, 500);
}
