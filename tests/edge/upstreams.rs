//! Selection among several targets, and health of targets. Pushpin has neither.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fermata_testkit::websocket::{CLOSE, TEXT, close_payload};
use fermata_testkit::{Directory, free_port, wait_until};
use serde_json::json;

use crate::bench::PROBE;
use crate::origin::{Origin, Reply, ok, text};
use crate::own::Own;
use crate::socket;

/// Starts a backend that returns its name.
fn named(name: &'static str) -> Origin {
    let origin = Origin::start();
    origin.on("x", move |_| text(name));
    origin
}

fn up(own: &Own, route: &str, port: u16) -> Option<u64> {
    of_target(own, "up", route, port)
}

fn of_target(own: &Own, figure: &str, route: &str, port: u16) -> Option<u64> {
    own.figure(&format!(
        "fermata_edge_target_{figure}{{route=\"{route}\",target=\"127.0.0.1:{port}\"}}"
    ))
}

#[test]
fn requests_take_turns_by_weight() {
    let (one, other) = (named("one"), named("other"));
    let route = format!(
        "*,id=r,balance=round_robin 127.0.0.1:{},weight=2 127.0.0.1:{}",
        one.port(),
        other.port()
    );
    let own = Own::start(&["--route", &route]);
    let answers: Vec<String> = (0..6).map(|_| own.get("/x").text().to_owned()).collect();
    assert_eq!(answers, ["one", "other", "one", "one", "other", "one"]);
    assert_eq!(of_target(&own, "requests_total", "r", one.port()), Some(4));
    assert_eq!(
        of_target(&own, "requests_total", "r", other.port()),
        Some(2)
    );
    assert_eq!(up(&own, "r", one.port()), Some(1));
}

#[test]
fn requests_go_where_the_fewest_are_under_way() {
    let (one, other) = (named("one"), named("other"));
    one.on("busy", |_| Reply::Hang(Vec::new()));
    let route = format!(
        "*,balance=least_requests 127.0.0.1:{} 127.0.0.1:{}",
        one.port(),
        other.port()
    );
    let own = Own::start(&["--route", &route]);
    let mut busy = own.client();
    busy.send("GET", "/busy", &[], b"");
    wait_until("it is asked", || {
        (!one.seen("busy").is_empty()).then_some(())
    });
    for _ in 0..4 {
        assert_eq!(own.get("/x").text(), "other");
    }
    // The client disconnects, which ends its request.
    drop(busy);
    wait_until("both are asked again", || {
        (own.get("/x").text() == "one").then_some(())
    });
}

#[test]
fn requests_with_the_same_header_get_the_same_target() {
    let (one, other) = (named("one"), named("other"));
    let route = format!(
        "*,balance=hash:header:X-User 127.0.0.1:{} 127.0.0.1:{}",
        one.port(),
        other.port()
    );
    let own = Own::start(&["--workers", "2", "--route", &route]);
    let ask = |user: usize| {
        let user = user.to_string();
        let headers = [("X-User", &user[..])];
        let answer = own.client().request("GET", "/x", &headers, b"");
        answer.text().to_owned()
    };
    let answers: Vec<String> = (0..20).map(ask).collect();
    assert_eq!((0..20).map(ask).collect::<Vec<_>>(), answers);
    assert_eq!(answers.iter().collect::<BTreeSet<_>>().len(), 2);
}

#[test]
fn a_target_that_fails_is_left_alone() {
    let (dead, origin) = (free_port(), named("alive"));
    let route = format!(
        "*,id=r,out_after=2,out_for=600 127.0.0.1:{dead} 127.0.0.1:{}",
        origin.port()
    );
    let own = Own::start(&["--route", &route]);
    for _ in 0..5 {
        assert_eq!(own.get("/x").text(), "alive");
    }
    assert_eq!(up(&own, "r", dead), Some(0));
    assert_eq!(of_target(&own, "requests_total", "r", dead), Some(2));
    assert_eq!(of_target(&own, "failures_total", "r", dead), Some(2));
    assert_eq!(
        of_target(&own, "requests_total", "r", origin.port()),
        Some(5)
    );
    own.wait_for_log("is out for 600000 ms: 2 requests failed");
}

#[test]
fn one_request_tries_a_target_that_was_out() {
    let (dead, origin) = (free_port(), named("reserve"));
    let route = format!(
        "*,id=r,out_after=1,out_for=1 127.0.0.1:{dead} 127.0.0.1:{},reserve",
        origin.port()
    );
    let own = Own::start(&["--route", &route]);
    assert_eq!(own.get("/x").text(), "reserve");
    assert_eq!(up(&own, "r", dead), Some(0));
    let back = Origin::start_on(dead);
    back.on("x", |_| text("back"));
    wait_until("it is tried", || {
        (own.get("/x").text() == "back").then_some(())
    });
    assert_eq!(up(&own, "r", dead), Some(1));
    assert_eq!(own.get("/x").text(), "back");
    own.wait_for_log("is back");
}

#[test]
fn targets_that_are_all_out_are_tried_all_the_same() {
    let [one, other] = [free_port(), free_port()];
    let route = format!("*,id=r,out_after=1,out_for=600 127.0.0.1:{one} 127.0.0.1:{other}");
    let own = Own::start(&["--route", &route]);
    assert_eq!(own.get("/x").status, 502);
    assert_eq!(
        (up(&own, "r", one), up(&own, "r", other)),
        (Some(0), Some(0))
    );
    let back = Origin::start_on(other);
    back.on("x", |_| text("back"));
    assert_eq!(own.get("/x").text(), "back");
    assert_eq!(up(&own, "r", other), Some(1));
}

#[test]
fn checks_put_a_target_out_and_bring_it_back() {
    let (checked, other) = (named("checked"), named("other"));
    let is_well = Arc::new(AtomicBool::new(false));
    let says = Arc::clone(&is_well);
    checked.on("health", move |request| {
        assert_eq!(request.target, "/health?deep=1");
        let status = if says.load(Ordering::SeqCst) {
            200
        } else {
            503
        };
        Reply::Answer(status, Vec::new(), b"how it is".to_vec())
    });
    other.on("health", |_| ok(&[], ""));
    let route = format!(
        "*,id=r,path_beg=/x,replace_beg=/x,check=/health?deep=1,check_interval=1,check_rise=2,check_fall=2 127.0.0.1:{} 127.0.0.1:{}",
        checked.port(),
        other.port()
    );
    // A failure that one worker detects counts for all workers.
    let own = Own::start(&["--workers", "2", "--route", &route]);
    wait_until("it is out", || {
        (up(&own, "r", checked.port()) == Some(0)).then_some(())
    });
    assert_eq!(up(&own, "r", other.port()), Some(1));
    for _ in 0..8 {
        assert_eq!(own.get("/x").text(), "other");
    }
    own.wait_for_log("is out: its check is answered 503");
    is_well.store(true, Ordering::SeqCst);
    wait_until("it is back", || {
        (up(&own, "r", checked.port()) == Some(1)).then_some(())
    });
    for _ in 0..8 {
        assert_eq!(own.get("/x").text(), "checked");
    }
    // Health checks do not count as requests.
    assert_eq!(
        of_target(&own, "requests_total", "r", checked.port()),
        Some(8)
    );
}

#[test]
fn a_check_that_is_not_answered_is_bad() {
    let (silent, other) = (named("silent"), named("other"));
    silent.on("health", |_| Reply::Hang(Vec::new()));
    other.on("health", |_| ok(&[], ""));
    let route = format!(
        "*,id=r,check=/health,check_timeout=1,check_fall=1 127.0.0.1:{} 127.0.0.1:{}",
        silent.port(),
        other.port()
    );
    let own = Own::start(&["--route", &route]);
    wait_until("it is out", || {
        (up(&own, "r", silent.port()) == Some(0)).then_some(())
    });
    own.wait_for_log("is out: its check fails");
    assert_eq!(own.get("/x").text(), "other");
}

#[test]
fn names_are_looked_up_and_the_next_target_is_tried_without() {
    let origin = named("found");
    let routes = [
        format!("by-name.test localhost:{}", origin.port()),
        // RFC 6761: this name never resolves. The lookup may take long.
        format!(
            "nowhere.test fermata.invalid:80 localhost:{}",
            origin.port()
        ),
        "nobody.test,debug fermata.invalid:80".to_owned(),
    ];
    let mut arguments = vec!["--origin-connect-timeout-ms", "2000"];
    for route in &routes {
        arguments.extend(["--route", route]);
    }
    let own = Own::start(&arguments);
    for host in ["by-name.test", "nowhere.test", "nowhere.test"] {
        let answer = crate::client::Client::open(own.port, host).get("/x");
        assert_eq!((answer.status, answer.text()), (200, "found"), "{host}");
    }
    // All requests that wait for one name receive the result.
    let mut clients: Vec<_> = (0..8)
        .map(|_| {
            let mut client = crate::client::Client::open(own.port, "nobody.test");
            client.send("GET", "/x", &[], b"");
            client
        })
        .collect();
    for client in &mut clients {
        assert_eq!(client.read_answer(false).status, 502);
    }
}

#[test]
fn a_socket_goes_on_with_the_next_target_whatever_that_speaks() {
    let (dead, origin) = (free_port(), Origin::start());
    origin.on("ws", |request| match request.method.as_str() {
        "GET" => socket::accept(request, "", |mut socket| {
            while socket.next().is_some_and(|frame| frame.payload == b"hello") {
                socket.text("of a WebSocket");
            }
        }),
        _ => ok(
            &[("Content-Type", "application/websocket-events")],
            if request.text().contains("hello") {
                "TEXT a\r\nof a reply\r\n"
            } else {
                "OPEN\r\n"
            },
        ),
    });
    let port = origin.port();
    let routes = [
        format!("plain.test 127.0.0.1:{dead},over_http 127.0.0.1:{port}"),
        format!("over.test 127.0.0.1:{dead} 127.0.0.1:{port},over_http"),
        format!("both.test 127.0.0.1:{dead},over_http 127.0.0.1:{dead} 127.0.0.1:{port},over_http"),
    ];
    let arguments: Vec<&str> = routes.iter().flat_map(|it| ["--route", it]).collect();
    let own = Own::start(&arguments);
    for (host, expected) in [
        ("plain.test", "of a WebSocket"),
        ("over.test", "of a reply"),
        ("both.test", "of a reply"),
    ] {
        let client = crate::client::Client::open(own.port, host);
        let mut socket = socket::open(client, "/ws");
        socket.text("hello");
        assert_eq!(socket.next_text(), expected, "{host}");
    }
}

/// The origin sends a message and a close after its detach, all in one write.
#[test]
fn a_socket_outlives_the_origin_that_detaches_and_closes_at_once() {
    let origin = Origin::start();
    let subscribe = r#"c:{"type":"subscribe","channel":"c"}"#;
    let detach = r#"c:{"type":"detach"}"#;
    origin.on("close", move |request| {
        socket::accept(
            request,
            "Sec-WebSocket-Extensions: grip\r\n",
            move |mut socket| {
                socket.next();
                let close = close_payload(1000, "");
                socket.send_together(&[text_frame(subscribe), text_frame(detach), (CLOSE, &close)]);
            },
        )
    });
    origin.on("end", move |request| {
        socket::accept(
            request,
            "Sec-WebSocket-Extensions: grip\r\n",
            move |mut socket| {
                socket.next();
                socket.send_together(&[
                    text_frame(subscribe),
                    text_frame(detach),
                    text_frame("m:late"),
                ]);
            },
        )
    });
    origin.on("events", move |request| {
        let event = |text: &str| format!("TEXT {:x}\r\n{text}\r\n", text.len());
        let said = if request.text().contains("go") {
            [event(subscribe), event(detach), "CLOSE\r\n".to_owned()].concat()
        } else {
            "OPEN\r\n".to_owned()
        };
        let lines = [
            ("Content-Type", "application/websocket-events"),
            ("Sec-WebSocket-Extensions", "grip"),
        ];
        ok(&lines, &said)
    });
    let port = origin.port();
    let routes = [
        format!("frames.test 127.0.0.1:{port}"),
        format!("events.test 127.0.0.1:{port},over_http"),
    ];
    let arguments: Vec<&str> = routes.iter().flat_map(|it| ["--route", it]).collect();
    let own = Own::start(&arguments);
    for (host, path) in [
        ("frames.test", "/close"),
        ("frames.test", "/end"),
        ("events.test", "/events"),
    ] {
        let client = crate::client::Client::open(own.port, host);
        let mut socket = socket::open(client, path);
        socket.text("go");
        wait_until("it is subscribed", || {
            let items = [json!({"channel": "c", "ws-message": {"content": PROBE}})];
            own.publish_items(&items);
            socket.has_probe(Duration::from_millis(100)).then_some(())
        });
        own.publish_items(&[json!({"channel": "c", "ws-message": {"content": path}})]);
        assert_eq!(socket.next_text(), path, "{host}");
    }
}

fn text_frame(text: &str) -> (u8, &[u8]) {
    (TEXT, text.as_bytes())
}

/// Returns a Unix socket whose backlog is one connection.
fn tight(path: &Path) -> UnixListener {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let socket = tokio::net::UnixSocket::new_stream().expect("a socket");
    socket.bind(path).expect("a free path");
    let listener = socket.listen(0).expect("it listens");
    listener.into_std().expect("a socket")
}

#[test]
fn requests_wait_for_a_full_socket_in_their_order() {
    const WAITING: u64 = 12;
    let folder = Directory::new();
    let path = folder.join("backend.sock");
    let listener = tight(&path);
    let route = format!("* unix/{}", path.display());
    let own = Own::start(&["--workers", "1", "--route", &route]);
    let mut clients: Vec<_> = (1..=WAITING)
        .map(|number| {
            let mut client = own.client();
            client.send("GET", &format!("/{number}"), &[], b"");
            wait_until("it is read", || {
                let count = own.figure("fermata_requests_total{worker=\"0\"}");
                (count == Some(number)).then_some(())
            });
            client
        })
        .collect();
    for number in 1..=WAITING {
        let (mut stream, _) = wait_until("it is asked", || listener.accept().ok());
        stream.set_nonblocking(false).expect("a socket");
        let mut line = String::new();
        let mut reader = BufReader::new(&stream);
        reader.read_line(&mut line).expect("a request");
        assert!(line.starts_with(&format!("GET /{number} ")), "{line}");
        let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer).expect("it reads");
    }
    for client in &mut clients {
        assert_eq!(client.read_answer(false).status, 200);
    }
}
