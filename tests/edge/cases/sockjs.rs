//! SockJS below a path.

use std::time::Duration;

use serde_json::Value;

use super::cases;
use crate::bench::Bench;
use crate::origin::{Reply, Request};
use crate::socket::{accept, open};

cases!(sockjs_speaks_to_its_backend);

fn echo(request: &Request) -> Reply {
    accept(request, "", |mut socket| {
        while let Some(frame) = socket.next() {
            socket.send(frame.first, frame.payload);
        }
    })
}

/// One case for all transports: they share the only path the route has for its backend.
fn sockjs_speaks_to_its_backend(bench: &Bench) {
    bench.origin(echo);
    let answer = bench.client("sockjs.test").get("/sockjs/info");
    assert_eq!(answer.status, 200);
    let info: Value = serde_json::from_str(answer.text()).expect("JSON");
    assert_eq!(
        (&info["websocket"], &info["cookie_needed"]),
        (&true.into(), &false.into())
    );
    assert_eq!(info["origins"], serde_json::json!(["*:*"]));
    assert!(info["entropy"].is_u64(), "{info}");

    let page = bench.client("sockjs.test").get("/sockjs/iframe.html");
    assert_eq!(page.status, 200);
    assert!(
        page.text().contains("http://localhost/sockjs.js"),
        "{}",
        page.text()
    );

    let mut raw = open(bench.client("sockjs.test"), "/sockjs/websocket");
    raw.text("hello");
    assert_eq!(raw.next_text(), "hello");

    // Its first frame may get lost on the way through Pushpin.
    let mut sessions = (0..10).map(|session| {
        let path = format!("/sockjs/000/one{session}/websocket");
        open(bench.client("sockjs.test"), &path)
    });
    let mut socket = sessions
        .find_map(|mut socket| socket.has_news(Duration::from_secs(1)).then_some(socket))
        .expect("a session that begins");
    assert_eq!(socket.next_text(), "o");
    socket.text("[\"hello\",\"again\"]");
    assert_eq!(socket.next_text(), "a[\"hello\"]");
    assert_eq!(socket.next_text(), "a[\"again\"]");

    let path = |rest: &str| format!("/sockjs/000/two/{rest}");
    let opened = bench
        .client("sockjs.test")
        .request("POST", &path("xhr"), &[], b"");
    assert_eq!((opened.status, opened.text()), (200, "o\n"));
    let sent = bench
        .client("sockjs.test")
        .request("POST", &path("xhr_send"), &[], b"[\"hello\"]");
    assert_eq!((sent.status, sent.text()), (200, "ok"));
    let polled = bench
        .client("sockjs.test")
        .request("POST", &path("xhr"), &[], b"");
    assert_eq!((polled.status, polled.text()), (200, "a[\"hello\"]\n"));

    let path = |rest: &str| format!("/sockjs/000/three/{rest}");
    let opened = bench.client("sockjs.test").get(&path("jsonp?c=cb"));
    assert!(opened.text().contains("cb(\"o\");"), "{}", opened.text());
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    let sent = bench.client("sockjs.test").request(
        "POST",
        &path("jsonp_send"),
        &headers,
        b"d=%5B%22hello%22%5D",
    );
    assert_eq!(sent.status, 200);
    let polled = bench.client("sockjs.test").get(&path("jsonp?c=cb"));
    assert!(
        polled.text().contains("cb(\"a[\\\"hello\\\"]\");"),
        "{}",
        polled.text()
    );

    let missing = bench.client("sockjs.test").get("/sockjs/000/none/nonsense");
    assert_eq!(missing.status, 404);
}
