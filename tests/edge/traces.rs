//! Spans of the edge: one for the client's request, and child spans for its requests to the origin.

use std::collections::HashMap;

use fermata_testkit::wait_until;
use serde_json::Value;

use crate::origin::{Origin, Reply, ok, text};
use crate::own::Own;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn own(collector: &Origin, ratio: &str, routes: &[&str]) -> Own {
    let endpoint = format!("http://127.0.0.1:{}", collector.port());
    let variables = [
        ("FERMATA_OTLP_ENDPOINT", &*endpoint),
        ("FERMATA_OTLP_PROTOCOL", "http/json"),
        ("FERMATA_OTLP_SAMPLING_RATIO", ratio),
    ];
    Own::start_with(&variables, routes)
}

fn spans(collector: &Origin) -> Vec<Value> {
    let mut spans = Vec::new();
    for post in collector.seen("v1") {
        let body: Value = serde_json::from_slice(&post.body).expect("JSON");
        let of_post = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        spans.extend(of_post.as_array().expect("a list").iter().cloned());
    }
    spans
}

fn wait(collector: &Origin, count: usize) -> Vec<Value> {
    wait_until(&format!("{count} spans have come"), || {
        let spans = spans(collector);
        (spans.len() >= count).then_some(spans)
    })
}

fn of_kind(spans: &[Value], kind: u64) -> &Value {
    let found = spans.iter().find(|span| span["kind"] == kind);
    found.unwrap_or_else(|| panic!("{spans:#?}"))
}

fn attributes(span: &Value) -> HashMap<&str, &str> {
    let list = span["attributes"].as_array().expect("a list");
    let each = list.iter().map(|one| {
        let value = one["value"].as_object().and_then(|it| it.values().next());
        let value = value.and_then(Value::as_str).expect("text");
        (one["key"].as_str().expect("a name"), value)
    });
    each.collect()
}

#[test]
fn what_an_origin_is_asked_is_a_span_below_its_clients_and_the_origin_is_told() {
    let (collector, origin) = (Origin::start(), Origin::start());
    collector.on("v1", |_| ok(&[], "{}"));
    origin.on("x", |_| text("x"));
    let route = format!("* 127.0.0.1:{}", origin.port());
    let own = own(&collector, "1", &["--route", &route]);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", &*parent), ("tracestate", "a=1")];
    let mut client = own.client();
    let answer = client.request("GET", "/x/y?key=secret", &headers, b"");
    assert_eq!(answer.status, 200);
    let spans = wait(&collector, 2);
    let (server, asked) = (of_kind(&spans, 2), of_kind(&spans, 3));
    assert_eq!(
        (&server["traceId"], &server["name"]),
        (&TRACE.into(), &"GET".into())
    );
    assert_eq!(server["parentSpanId"], PARENT);
    assert_eq!(asked["traceId"], TRACE);
    assert_eq!(asked["parentSpanId"], server["spanId"]);
    let found = attributes(asked);
    let port = origin.port().to_string();
    for (key, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/x/y"),
        ("server.address", "127.0.0.1"),
        ("server.port", &port),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(found.get(key), Some(&value), "{key}");
    }
    let seen = &origin.seen("x")[0];
    let told = format!("00-{TRACE}-{}-01", asked["spanId"].as_str().expect("an id"));
    assert_eq!(seen.header("traceparent"), Some(told));
    assert_eq!(seen.header("tracestate").as_deref(), Some("a=1"));
    // The exporter counts spans when it has read the collector's response.
    wait_until("they are counted", || {
        (own.figure("fermata_spans_exported_total") == Some(2)).then_some(())
    });
    // The `tracestate` of an invalid trace is not copied to the new trace.
    let headers = [("traceparent", "00-1-2-01"), ("tracestate", "a=1")];
    assert_eq!(client.request("GET", "/x", &headers, b"").status, 200);
    let seen = &origin.seen("x")[1];
    let begun = seen.header("traceparent").expect("the edge records it");
    assert!(begun.ends_with("-01") && !begun.contains(TRACE), "{begun}");
    assert_eq!(seen.header("tracestate"), None);
}

#[test]
fn a_client_that_is_not_asked_does_not_make_an_origin_record() {
    let (collector, origin) = (Origin::start(), Origin::start());
    origin.on("x", |_| text("x"));
    let route = format!("* 127.0.0.1:{}", origin.port());
    let endpoint = format!("http://127.0.0.1:{}", collector.port());
    let variables = [
        ("FERMATA_OTLP_ENDPOINT", &*endpoint),
        ("FERMATA_OTLP_PROTOCOL", "http/json"),
        ("FERMATA_OTLP_SAMPLER", "always_off"),
    ];
    let own = Own::start_with(&variables, &["--route", &route]);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", &*parent)];
    assert_eq!(own.client().request("GET", "/x", &headers, b"").status, 200);
    let passed_on = origin.seen("x")[0].header("traceparent");
    assert_eq!(passed_on, Some(format!("00-{TRACE}-{PARENT}-00")));
}

#[test]
fn an_origin_that_does_not_answer_is_an_error_and_what_is_not_recorded_is_passed_on() {
    let (collector, origin) = (Origin::start(), Origin::start());
    collector.on("v1", |_| ok(&[], "{}"));
    origin.on("x", |_| text("x"));
    origin.on("cut", |_| Reply::Close(Vec::new()));
    let route = format!("* 127.0.0.1:{}", origin.port());
    let own = own(&collector, "0", &["--route", &route]);
    let ask = |path: &str, flags: &str| {
        let parent = format!("00-{TRACE}-{PARENT}-{flags}");
        let headers = [("traceparent", &*parent)];
        own.client().request("GET", path, &headers, b"").status
    };
    assert_eq!(ask("/x", "00"), 200);
    let passed_on = origin.seen("x")[0].header("traceparent");
    assert_eq!(passed_on, Some(format!("00-{TRACE}-{PARENT}-00")));
    assert_eq!(ask("/cut", "01"), 502);
    let spans = wait(&collector, 2);
    assert_eq!(spans.len(), 2, "{spans:#?}");
    let (server, asked) = (of_kind(&spans, 2), of_kind(&spans, 3));
    assert_eq!(attributes(server)["http.response.status_code"], "502");
    assert_eq!(attributes(asked)["error.type"], "no_answer");
    for span in [server, asked] {
        assert_eq!(span["status"]["code"], 2);
    }
}
