//! Tests an edge with several workers while a worker crashes, under floods and at its limits.
//! Pushpin has no workers to kill and no metrics for this, so only `fermata edge` is tested.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fermata_grip::zmtp::Socket;
use fermata_testkit::{Signal, free_port, send_signal, wait_until};
use serde_json::{Value, json};

use crate::client::Client;
use crate::figures::{Running, figure, start, sum};
use crate::origin::{Origin, Reply, Request, ok, text};
use crate::zmq::Zmq;

/// Number of held clients when a worker crashes.
const HOLDS: usize = 2_000;
/// Number of crashes.
const DEATHS: usize = 3;
/// Time for which the tests wait to verify that no bytes arrive.
const QUIET: Duration = Duration::from_millis(300);

/// Returns the number of open descriptors of a process and of its shared memory mappings.
fn resources(pid: u32) -> (usize, usize) {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("our own process")
        .count();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("our own process");
    (
        fds,
        maps.lines().filter(|line| line.contains("memfd:")).count(),
    )
}

fn publish(edge: &Running, items: &Value) -> u16 {
    let body = json!({ "items": items }).to_string();
    let json = [("Content-Type", "application/json")];
    let mut client = Client::open(edge.control, "localhost");
    client
        .request("POST", "/publish/", &json, body.as_bytes())
        .status
}

fn item(channel: &str, id: &str, prev_id: Option<&str>) -> Value {
    let mut item = json!({"channel": channel, "id": id, "http-stream": {"content": id}, "http-response": {"body": id}});
    if let Some(prev_id) = prev_id {
        item["prev-id"] = prev_id.into();
    }
    item
}

/// Sends a request and reads the response up to `start`.
fn stream(edge: &Running, path: &str, start: &str) -> Client {
    let mut client = Client::open(edge.port, "localhost");
    client.send("GET", path, &[], b"");
    assert_eq!(client.read_head().status, 200);
    client.read_until(start);
    client
}

fn is_link(request: &Request) -> bool {
    request.target.ends_with("/next")
}

#[test]
fn a_worker_that_dies_takes_nobody_else_along() {
    let (origin, metrics) = (Origin::start(), free_port());
    let edge = start(&origin, &[format!("--prometheus=127.0.0.1:{metrics}")]);
    let mut clients = edge.clients(HOLDS as u64);
    let connected = || figure(metrics, "connection_connected").unwrap_or(0) as usize;
    wait_until("all are held", || (connected() == HOLDS).then_some(()));
    let before = (resources(edge.pid()), resources(edge.workers()[1]).1);
    for death in 0..DEATHS {
        let pids = edge.workers();
        let victim = pids[death % 2];
        assert!(send_signal(victim, Signal::Kill));
        wait_until("it is replaced", || {
            let now = edge.workers();
            (now.len() == 2 && !now.contains(&victim)).then_some(())
        });
        let count = clients.len();
        // The kernel releases a ring, and then its connections, only after the process has exited.
        wait_until("the figures are those of the living", || {
            clients.retain_mut(|client| !client.has_ended(Duration::ZERO));
            (clients.len() < count && connected() == clients.len()).then_some(())
        });
        let living = clients.len();
        assert!(0 < living, "{living}");
        wait_until("publishers are served", || {
            std::net::TcpStream::connect(("127.0.0.1", edge.control)).ok()
        });
        let word = format!("after {death};");
        let item = json!([{"channel": "c", "http-stream": {"content": word}}]);
        assert_eq!(publish(&edge, &item), 200);
        for client in &mut clients {
            client.read_until(&word);
        }
        clients.extend(edge.clients((count - clients.len()) as u64));
        wait_until("all are held again", || {
            (connected() == HOLDS).then_some(())
        });
    }
    let after = (resources(edge.pid()), resources(edge.workers()[1]).1);
    assert_eq!(after, before, "descriptors, shared memory");
}

#[test]
fn recovering_reaches_the_clients_of_all_workers() {
    let origin = Origin::start();
    let edge = start(&origin, &[]);
    origin.on("recover", |request| {
        let body = if is_link(request) {
            "asked\n"
        } else {
            "opened\n"
        };
        let hold = [
            ("Grip-Hold", "stream"),
            ("Grip-Channel", "recover; prev-id=1"),
            ("Grip-Link", "</recover/next>; rel=next"),
        ];
        ok(&hold, body)
    });
    // Make the channel's last id known, so that no client polls because the message is the
    // channel's first.
    publish(&edge, &json!([item("recover", "1", None)]));
    let mut clients: Vec<Client> = (0..16)
        .map(|_| stream(&edge, "/recover/first", "opened\n"))
        .collect();
    let mut control = Client::open(edge.control, "localhost");
    assert_eq!(
        control.request("POST", "/recover", &[], b"").text(),
        "Updated\n"
    );
    for client in &mut clients {
        client.read_until("asked\n");
    }
}

#[test]
fn what_waited_in_a_worker_that_died_is_delivered() {
    let origin = Origin::start();
    let edge = start(&origin, &["--message-wait-ms=60000".to_owned()]);
    let first = item("c", "a;", None);
    assert_eq!(
        publish(&edge, &json!([first, item("c", "c;", Some("b;"))])),
        200
    );
    let killed = edge.workers()[0];
    assert!(send_signal(killed, Signal::Kill));
    wait_until("it is replaced", || {
        let now = edge.workers();
        (now.len() == 2 && !now.contains(&killed)).then_some(())
    });
    let mut clients = edge.clients(4);
    wait_until("publishers are served", || {
        std::net::TcpStream::connect(("127.0.0.1", edge.control)).ok()
    });
    // The edge still stores the ids of the delivered items. The items that waited follow.
    assert_eq!(
        publish(&edge, &json!([first, item("c", "b;", Some("a;"))])),
        200
    );
    for client in &mut clients {
        assert_eq!(client.read_until("c;"), "b;c;");
    }
}

#[test]
fn what_the_edge_has_itself_is_not_asked_for() {
    let (origin, metrics) = (Origin::start(), free_port());
    let edge = start(&origin, &[format!("--prometheus=127.0.0.1:{metrics}")]);
    origin.on("history", |request| {
        let mode = if request.target.ends_with("/poll") {
            "response"
        } else {
            "stream"
        };
        ok(
            &[("Grip-Hold", mode), ("Grip-Channel", "h; prev-id=1")],
            "opened\n",
        )
    });
    let items = [("1", None), ("2", Some("1")), ("3", Some("2"))];
    let items: Vec<Value> = items.map(|(id, prev_id)| item("h", id, prev_id)).into();
    publish(&edge, &json!(items));
    let mut held = stream(&edge, "/history/x", "opened\n");
    held.read_until("23");
    publish(&edge, &json!([item("h", "4", Some("3"))]));
    assert_eq!(held.read_until("4"), "4");
    let answer = Client::open(edge.port, "localhost").get("/history/poll");
    assert_eq!(answer.text(), "2");
    assert_eq!(origin.seen("history").len(), 2);
    wait_until("it is counted", || {
        (sum(metrics, "fermata_edge_catch_ups_total", "from=\"history\"") == 2).then_some(())
    });
}

#[test]
fn the_first_client_of_an_unknown_channel_catches_up_once() {
    let origin = Origin::start();
    let edge = start(&origin, &[]);
    let count = AtomicUsize::new(0);
    origin.on("first", move |request| {
        let body = if is_link(request) {
            format!("asked {}\n", count.fetch_add(1, Ordering::Relaxed))
        } else {
            "opened\n".to_owned()
        };
        let channel = format!(
            "f{}; prev-id=1",
            request.header("x-channel").unwrap_or_default()
        );
        let hold = [
            ("Grip-Hold", "stream"),
            ("Grip-Channel", &channel),
            ("Grip-Link", "</first/next>; rel=next"),
        ];
        ok(&hold, body)
    });
    let mut client = stream(&edge, "/first/x", "opened\n");
    client.read_until("asked 0\n");
    assert!(!client.has_data(QUIET));
}

#[test]
fn origins_hear_of_clients_that_leave() {
    let origin = Origin::start();
    let edge = start(&origin, &[]);
    origin.on("gone", |request| match request.target.rsplit('/').next() {
        Some("told") => ok(&[], ""),
        Some(mode @ ("stream" | "response")) => ok(
            &[
                ("Grip-Hold", mode),
                ("Grip-Channel", "g"),
                ("Grip-Link", "</gone/told>; rel=gone"),
            ],
            "opened\n",
        ),
        _ => text("nothing\n"),
    });
    let told = || {
        let mut requests = origin.seen("gone").into_iter();
        requests
            .by_ref()
            .filter(|it| it.target == "/gone/told")
            .collect::<Vec<_>>()
    };
    let streaming = stream(&edge, "/gone/stream", "opened\n");
    let mut ended = stream(&edge, "/gone/stream", "opened\n");
    let mut polling = Client::open(edge.port, "localhost");
    polling.send("GET", "/gone/response", &[], b"");
    wait_until("it is asked", || {
        (origin.seen("gone").len() == 3).then_some(())
    });
    drop(streaming);
    wait_until("it is told", || (told().len() == 1).then_some(()));
    assert_eq!(
        (told()[0].method.as_str(), told()[0].body.len()),
        ("POST", 0)
    );
    // Clients whose response is complete or whose stream was closed do not count as disconnected.
    let close = json!([{"channel": "g", "http-stream": {"action": "close"}, "http-response": {"body": "x"}}]);
    while !polling.has_data(QUIET) {
        publish(&edge, &close);
    }
    assert_eq!(polling.read_answer(false).text(), "x");
    assert!(ended.read_end().1);
    drop((polling, ended));
    let mut another = Client::open(edge.port, "localhost");
    another.send("GET", "/gone/response", &[], b"");
    wait_until("it is asked", || {
        (origin.seen("gone").len() == 5).then_some(())
    });
    // The edge sends nothing while it holds the poll, so silence is the only sign of a hold.
    assert!(!another.has_data(QUIET));
    drop(another);
    wait_until("it is told", || (told().len() == 2).then_some(()));
}

#[test]
fn a_large_answer_of_a_link_is_passed_on() {
    let origin = Origin::start();
    let edge = start(&origin, &[]);
    let large = "0123456789".repeat(200_000);
    let body = large.clone();
    origin.on("large", move |request| {
        if request.target.ends_with("/next") {
            return ok(
                &[("Grip-Hold", "stream"), ("Grip-Channel", "l")],
                format!("{body}end\n"),
            );
        }
        ok(&[("Grip-Link", "</large/next>; rel=next")], "begin\n")
    });
    let mut client = stream(&edge, "/large/x", "begin\n");
    let got = client.read_until("end\n");
    assert!(
        got.starts_with(&large) && got.len() == large.len() + 4,
        "{}",
        got.len()
    );
    wait_until("it is held", || {
        publish(
            &edge,
            &json!([{"channel": "l", "http-stream": {"content": "more"}}]),
        );
        client.has_data(QUIET).then_some(())
    });
    client.read_until("more");
}

#[test]
fn a_link_that_hangs_or_breaks_is_tried_again() {
    let origin = Origin::start();
    let edge = start(&origin, &["--origin-response-timeout-ms=300".to_owned()]);
    let count = AtomicUsize::new(0);
    origin.on("hang", move |request| {
        if is_link(request) {
            match count.fetch_add(1, Ordering::Relaxed) {
                0 => Reply::Hang(Vec::new()),
                1 => Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_vec()),
                _ => text("two"),
            }
        } else {
            ok(&[("Grip-Link", "</hang/next>; rel=next")], "one ")
        }
    });
    let mut client = stream(&edge, "/hang/x", "one ");
    assert_eq!(client.read_end(), ("two".to_owned(), true));
}

#[test]
fn what_exceeds_the_rate_is_dropped_and_counted() {
    let (origin, metrics) = (Origin::start(), free_port());
    let edge = start(
        &origin,
        &[
            format!("--prometheus=127.0.0.1:{metrics}"),
            "--message-rate=40".to_owned(),
            "--message-hwm=20".to_owned(),
        ],
    );
    let mut client = edge.clients(1).remove(0);
    let items: Vec<Value> = (0..100)
        .map(|at| json!({"channel": "c", "http-stream": {"content": format!("{at};")}}))
        .collect();
    assert_eq!(publish(&edge, &json!(items)), 200);
    // Numbers arrive in order from the first on, as many as fit into the queue and the time.
    let mut got = String::new();
    let numbers = |got: &str| -> Vec<usize> {
        let numbers = got.split_terminator(';');
        numbers.filter_map(|it| it.parse().ok()).collect()
    };
    wait_until("each is delivered or counted", || {
        got += &client.read_some(Duration::from_millis(50));
        let dropped = sum(
            metrics,
            "fermata_edge_deliveries_dropped_total",
            "reason=\"message_hwm\"",
        );
        (numbers(&got).len() + dropped as usize == 100).then_some(())
    });
    let numbers = numbers(&got);
    assert!(numbers.is_sorted() && numbers[0] == 0, "{numbers:?}");
    assert!((10..100).contains(&numbers.len()), "{numbers:?}");
}

#[test]
fn bounds_of_ports_are_their_own() {
    let (origin, metrics) = (Origin::start(), free_port());
    let edge = start(
        &origin,
        &[
            format!("--prometheus=127.0.0.1:{metrics}"),
            "--body-bytes-max=2000".to_owned(),
            "--header-bytes-max=2000".to_owned(),
            "--control-body-bytes-max=5000".to_owned(),
            "--control-header-bytes-max=4000".to_owned(),
        ],
    );
    origin.on("bounds", |_| text("fine"));
    let head = |bytes: usize| "h".repeat(bytes);
    for (port, path, head_bytes, body_bytes, status) in [
        (edge.port, "/bounds", 100, 2_000, 200),
        (edge.port, "/bounds", 100, 2_001, 413),
        (edge.port, "/bounds", 3_000, 0, 431),
        (edge.port, "/bounds", 5_000, 0, 431),
        (edge.control, "/publish/", 100, 5_000, 400),
        (edge.control, "/publish/", 100, 5_001, 413),
        (edge.control, "/publish/", 3_000, 10, 400),
        (edge.control, "/publish/", 5_000, 10, 431),
    ] {
        let body = " ".repeat(body_bytes);
        let answer = Client::open(port, "localhost").request(
            "POST",
            path,
            &[("X-Long", &head(head_bytes))],
            body.as_bytes(),
        );
        assert_eq!(answer.status, status, "{path} {head_bytes} {body_bytes}");
    }
    wait_until("refusals are counted", || {
        let of = |status: &str| sum(metrics, "fermata_requests_refused_total", status);
        (of("status=\"413\"") == 2 && of("status=\"431\"") == 3).then_some(())
    });
}

#[test]
fn drops_of_publishers_are_counted() {
    let (origin, metrics, pull) = (Origin::start(), free_port(), free_port());
    let edge = start(
        &origin,
        &[
            format!("--prometheus=127.0.0.1:{metrics}"),
            format!("--zmq-pull=tcp://127.0.0.1:{pull}"),
            "--message-wait-bytes-max=2000".to_owned(),
            "--message-wait-ms=500".to_owned(),
        ],
    );
    let mut large = item("d", "z", Some("y"));
    large["http-stream"]["content"] = "x".repeat(3_000).into();
    publish(&edge, &json!([item("d", "a", None), item("d", "a", None)]));
    publish(
        &edge,
        &json!([item("d", "c", Some("b")), item("d", "C", Some("b")), large]),
    );
    Zmq::tcp(pull, Socket::Push).send(&[b"no item"]);
    for reason in ["duplicate", "rival", "waiting_full", "malformed"] {
        wait_until(reason, || {
            let label = format!("reason=\"{reason}\"");
            (sum(metrics, "fermata_edge_items_dropped_total", &label) == 1).then_some(())
        });
    }
    wait_until("what waited in vain is counted", || {
        (sum(metrics, "fermata_edge_items_overdue_total", "") == 1).then_some(())
    });
}

#[test]
fn a_flood_of_publishers_loses_nothing() {
    const PUBLISHERS: usize = 8;
    const REQUESTS: usize = 25;
    const ITEMS: usize = 40;
    let origin = Origin::start();
    let edge = start(&origin, &[]);
    let mut clients = edge.clients(6);
    let content = "y".repeat(1_000);
    std::thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let (edge, content) = (&edge, &content);
            scope.spawn(move || {
                for request in 0..REQUESTS {
                    let items: Vec<Value> = (0..ITEMS)
                        .map(|at| {
                            let number = request * ITEMS + at;
                            json!({"channel": "c", "http-stream": {"content": format!("{publisher}:{number}:{content};")}})
                        })
                        .collect();
                    while publish(edge, &json!(items)) == 503 {}
                }
            });
        }
        for client in &mut clients {
            scope.spawn(move || {
                let mut next = [0; PUBLISHERS];
                let mut text = String::new();
                while next.iter().sum::<usize>() < PUBLISHERS * REQUESTS * ITEMS {
                    text += &client.read_until(";");
                    while let Some((one, rest)) = text.split_once(';') {
                        let mut parts = one.split(':');
                        let mut number = || parts.next().and_then(|it| it.parse::<usize>().ok());
                        let (publisher, at) =
                            (number().expect("a number"), number().expect("a number"));
                        assert_eq!(at, next[publisher], "of {publisher}");
                        next[publisher] += 1;
                        text = rest.to_owned();
                    }
                }
            });
        }
    });
}
