//! SockJS below a path.

use std::time::Duration;

use fermata_testkit::wait_until;
use serde_json::{Value, json};

use super::cases;
use crate::bench::Bench;
use crate::client::Answer;
use crate::origin::{Reply, Request, ok};
use crate::socket::{accept, open};
use crate::subject::Kind;

cases!(
    sockjs_speaks_to_its_backend,
    sockjs_reaches_backends_over_http,
    sockjs_gets_what_is_published,
    sockjs_ends_as_its_backend_says,
    sockjs_tells_that_its_client_has_left,
    sockjs_passes_a_refusal_on,
    sockjs_refuses_what_it_is_not,
    sockjs_is_for_pages_of_other_hosts,
    sockjs_wraps_messages_of_sockets,
);

/// Maximum size of the messages of one client request, exclusive.
const BODY_BYTES_MAX: usize = 100_000;

fn echo(request: &Request) -> Reply {
    accept(request, "", |mut socket| {
        while let Some(frame) = socket.next() {
            socket.send(frame.first, frame.payload);
        }
    })
}

/// One case for all transports, because they share the route's only path to its backend.
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

    let mut socket = open(bench.client("sockjs.test"), "/sockjs/000/one/websocket");
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

/// Sends a POST, as polling clients do for both directions.
#[track_caller]
fn post(bench: &Bench, host: &str, path: &str, body: &str) -> Answer {
    bench
        .client(host)
        .request("POST", path, &[], body.as_bytes())
}

/// Opens a polling session and returns its path without the transport.
#[track_caller]
fn session(bench: &Bench, host: &str, base: &str) -> String {
    let path = format!("{base}/000/{}", bench.channel("s"));
    let opened = post(bench, host, &format!("{path}/xhr"), "");
    assert_eq!((opened.status, opened.text()), (200, "o\n"));
    path
}

fn sockjs_reaches_backends_over_http(bench: &Bench) {
    let events = [("Content-Type", "application/websocket-events")];
    bench.origin(move |request| {
        if request.body == b"OPEN\r\n" {
            ok(&events, "OPEN\r\n")
        } else {
            ok(&events, &request.body)
        }
    });
    let path = session(bench, "sockjs-over.test", &bench.path(""));
    let sent = post(
        bench,
        "sockjs-over.test",
        &format!("{path}/xhr_send"),
        "[\"one\"]",
    );
    assert_eq!((sent.status, sent.text()), (200, "ok"));
    let polled = post(bench, "sockjs-over.test", &format!("{path}/xhr"), "");
    assert_eq!(polled.text(), "a[\"one\"]\n");
}

fn sockjs_gets_what_is_published(bench: &Bench) {
    // A backend's control message crashes Debian's Pushpin.
    if bench.kind() == Kind::Pushpin {
        return;
    }
    let subscribe = json!({"type": "subscribe", "channel": bench.channel("c")}).to_string();
    bench.origin(move |request| {
        let subscribe = format!("c:{subscribe}");
        accept(
            request,
            "Sec-WebSocket-Extensions: grip\r\n",
            move |mut socket| {
                while let Some(frame) = socket.next() {
                    socket.text(&subscribe);
                    socket.text(&format!("m:{}", String::from_utf8_lossy(&frame.payload)));
                }
            },
        )
    });
    let path = session(bench, "sockjs-own.test", &bench.path(""));
    post(
        bench,
        "sockjs-own.test",
        &format!("{path}/xhr_send"),
        "[\"ready\"]",
    );
    let mut poll = bench.client("sockjs-own.test");
    let ready = poll.request("POST", &format!("{path}/xhr"), &[], b"");
    assert_eq!(ready.text(), "a[\"ready\"]\n");
    poll.send("POST", &format!("{path}/xhr"), &[], b"");
    let item = json!({"channel": bench.channel("c"), "ws-message": {"content": "ü \"x\""}});
    let answer = bench.publish_until_answered(&mut poll, item);
    assert!(
        answer.text().starts_with("a[\"ü \\\"x\\\"\""),
        "{}",
        answer.text()
    );
    // The backend's path is below the SockJS path.
    let seen = bench.requests();
    let ours = bench.path("/websocket");
    assert_eq!(seen[0].target, ours);
}

fn sockjs_ends_as_its_backend_says(bench: &Bench) {
    // Pushpin loses messages that a backend sends right before it closes, and may crash.
    if bench.kind() == Kind::Pushpin {
        return;
    }
    bench.origin(|request| {
        accept(request, "", |mut socket| {
            if socket.next().is_some() {
                socket.text("last");
                socket.close(4000, "bye");
                while socket.next().is_some() {}
            }
        })
    });
    let path = session(bench, "sockjs-own.test", &bench.path(""));
    post(
        bench,
        "sockjs-own.test",
        &format!("{path}/xhr_send"),
        "[\"go\"]",
    );
    let poll = || {
        post(bench, "sockjs-own.test", &format!("{path}/xhr"), "")
            .text()
            .to_owned()
    };
    assert_eq!(poll(), "a[\"last\"]\n");
    for _ in 0..2 {
        assert_eq!(poll(), "c[4000,\"bye\"]\n");
    }
}

fn sockjs_tells_that_its_client_has_left(bench: &Bench) {
    // Pushpin does not notify its backends.
    if bench.kind() == Kind::Pushpin {
        return;
    }
    let (left, has_left) = std::sync::mpsc::channel();
    let left = std::sync::Mutex::new(left);
    bench.origin(move |request| {
        let left = left.lock().expect("nobody panics with it").clone();
        accept(request, "", move |mut socket| {
            while socket.next().is_some_and(|frame| frame.close().is_none()) {}
            let _ = left.send(());
        })
    });
    let path = session(bench, "sockjs-own.test", &bench.path(""));
    let mut poll = bench.client("sockjs-own.test");
    poll.send("POST", &format!("{path}/xhr"), &[], b"");
    let second = wait_until("the first poll waits", || {
        let answer = post(
            bench,
            "sockjs-own.test",
            &format!("{path}/xhr_send"),
            "[\"x\"]",
        );
        (answer.status == 200).then(|| post(bench, "sockjs-own.test", &format!("{path}/xhr"), ""))
    });
    assert_eq!(second.text(), "c[2010,\"Another connection still open\"]\n");
    drop(poll);
    has_left
        .recv_timeout(fermata_testkit::deadline())
        .expect("the backend hears of it");
}

fn sockjs_passes_a_refusal_on(bench: &Bench) {
    bench.origin(|_| Reply::Answer(401, vec![("X-Own", "1".into())], b"who are you\n".to_vec()));
    let answer = post(bench, "sockjs-own.test", &bench.path("/000/a/xhr"), "");
    assert_eq!((answer.status, answer.text()), (401, "who are you\n"));
    assert_eq!(
        answer.header("access-control-allow-origin").as_deref(),
        Some("*")
    );
    // The session does not exist.
    let sent = post(
        bench,
        "sockjs-own.test",
        &bench.path("/000/a/xhr_send"),
        "[]",
    );
    assert_eq!(sent.status, 404);
}

fn sockjs_refuses_what_it_is_not(bench: &Bench) {
    let post = |path: &str, body: &str| post(bench, "sockjs-test.test", path, body);
    let said = |answer: Answer| (answer.status, answer.text().to_owned());
    let none = (404, "Not Found\n".to_owned());
    assert_eq!(said(post("/s/000/none/xhr_send", "[\"a\"]")), none);
    assert_eq!(said(post("/s/000/none/xhr_streaming", "")), none);
    let get = |path: &str| bench.client("sockjs-test.test").get(path);
    for path in [
        "/s",
        "/s/none",
        "/s/000/none/xhr",
        "/s/000/none",
        "/s/a/b/c/xhr",
    ] {
        assert_eq!(said(get(path)), none, "{path}");
    }
    assert_eq!(
        said(get("/s/000/none/jsonp")),
        (400, "Bad Request\n".to_owned())
    );

    let path = session(bench, "sockjs-test.test", "/s");
    let send = |body: &str| said(post(&format!("{path}/xhr_send"), body));
    for payload in ["", "x", "{}", "[1]", "[\"a\"", "\"a\""] {
        assert_eq!(
            send(payload),
            (400, "Payload expected\n".to_owned()),
            "{payload}"
        );
    }
    let large = format!("[\"{}\"]", "x".repeat(BODY_BYTES_MAX));
    assert_eq!(send(&large), (400, "Request too large.\n".to_owned()));
    assert_eq!(send("[]"), (200, "ok".to_owned()));
    assert_eq!(send("[\"a\",\"b\"]"), (200, "ok".to_owned()));
    let mut polled = String::new();
    while !polled.contains("\"b\"") {
        polled += post(&format!("{path}/xhr"), "").text();
    }
    assert!(
        matches!(&polled[..], "a[\"a\",\"b\"]\n" | "a[\"a\"]\na[\"b\"]\n"),
        "{polled}"
    );
}

fn sockjs_is_for_pages_of_other_hosts(bench: &Bench) {
    // Pushpin does not complete its response to OPTIONS.
    if bench.kind() == Kind::Pushpin {
        return;
    }
    let origin = [("Origin", "https://page.test")];
    let ask = |method: &str, path: &str| {
        bench
            .client("sockjs-test.test")
            .request(method, path, &origin, b"")
    };
    let path = format!("/s/000/{}", bench.channel("s"));
    for (method, path, status) in [
        ("OPTIONS", format!("{path}/xhr"), 204),
        ("GET", "/s/info".to_owned(), 200),
        ("POST", format!("{path}/xhr"), 200),
        ("POST", format!("{path}/none"), 404),
    ] {
        let answer = ask(method, &path);
        assert_eq!(answer.status, status, "{path}");
        let allowed = answer.header("access-control-allow-origin");
        assert_eq!(allowed.as_deref(), Some("https://page.test"), "{path}");
        let with_cookies = answer.header("access-control-allow-credentials");
        assert_eq!(with_cookies.as_deref(), Some("true"), "{path}");
    }
    let page = ask("GET", "/s/iframe-1.html");
    let tag = page.header("etag").expect("a tag");
    let again = [("If-None-Match", &tag[..])];
    let again = bench
        .client("sockjs-test.test")
        .request("GET", "/s/iframe-1.html", &again, b"");
    assert_eq!(again.status, 304);
}

fn sockjs_wraps_messages_of_sockets(bench: &Bench) {
    let path = format!(
        "/s/000/{}/websocket?channel={}",
        bench.channel("s"),
        bench.channel("c")
    );
    let mut socket = open(bench.client("sockjs-test.test"), &path);
    assert_eq!(socket.next_text(), "o");
    socket.text("[\"a\",\"b\\u00fc\"]");
    assert_eq!(socket.next_text(), "a[\"a\"]");
    assert_eq!(socket.next_text(), "a[\"bü\"]");
    let item = json!({"channel": bench.channel("c"), "ws-message": {"content": "one"}});
    wait_until("it is subscribed", || {
        bench.publish(json!([item]));
        socket.has_data(Duration::from_millis(100)).then_some(())
    });
    assert_eq!(socket.next_text(), "a[\"one\"]");
    // Anything but an array of texts closes the session.
    socket.text("[1]");
    while let Some(frame) = socket.next() {
        if let Some((code, _)) = frame.close() {
            assert_eq!(code, 1002);
        }
    }
}
