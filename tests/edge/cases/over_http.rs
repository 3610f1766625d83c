//! WebSockets over HTTP: the backend receives requests with events.

use fermata_testkit::websocket::BINARY;
use fermata_testkit::{deadline, wait_until};
use serde_json::json;

use super::cases;
use super::zmq::command;
use crate::bench::{Bench, PROBE};
use crate::origin::{Reply, Request, ok};
use crate::socket::{Frame, ask, open};

cases!(
    a_client_that_vanishes_is_reported,
    events_carry_messages_both_ways,
    events_subscribe_and_close,
    a_backend_may_refuse_to_open,
    meta_comes_back,
    a_client_may_not_send_events_itself,
    a_refresh_asks_at_once,
    a_socket_is_checked_and_refreshed_by_its_id,
    an_error_later_ends_the_socket,
);

const EVENTS: &str = "application/websocket-events";

fn event(kind: &str, content: &str) -> String {
    format!("{kind} {:x}\r\n{content}\r\n", content.len())
}

fn answer(headers: &[(&'static str, &str)], body: &str) -> Reply {
    ok(&[&[("Content-Type", EVENTS)], headers].concat(), body)
}

fn is_opening(request: &Request) -> bool {
    request.body == b"OPEN\r\n"
}

fn events_carry_messages_both_ways(bench: &Bench) {
    bench.origin(|request| {
        if is_opening(request) {
            answer(&[], "OPEN\r\n")
        } else {
            ok(&[("Content-Type", EVENTS)], &request.body)
        }
    });
    let mut socket = open(bench.client("over.test"), &bench.path("/ws"));
    socket.text("hello");
    assert_eq!(socket.next_text(), "hello");
    socket.send(0x01, "in ");
    socket.send(0x80, "parts");
    assert_eq!(socket.next_text(), "in parts");
    socket.send(BINARY, b"\x01\x02");
    assert_eq!(socket.message(), (BINARY, vec![1, 2]));
    socket.close(4000, "bye");
    let close = socket.next().expect("a close frame");
    let pushpin = Some((4000, "bye".to_owned()));
    bench.differs(close.close(), pushpin, Some((4000, String::new())));
    let requests = bench.requests();
    let first = &requests[0];
    assert_eq!(
        (&first.method[..], first.text()),
        ("POST", "OPEN\r\n".to_owned())
    );
    for (name, value) in [
        ("content-type", EVENTS),
        ("accept", EVENTS),
        ("sec-websocket-extensions", "grip"),
    ] {
        assert_eq!(first.header(name).as_deref(), Some(value), "{name}");
    }
    assert!(first.header("grip-sig").is_some());
    assert_eq!(first.header("upgrade"), None);
    let id = first.header("connection-id").expect("an id");
    assert!(
        requests
            .iter()
            .all(|request| request.header("connection-id").as_ref() == Some(&id))
    );
    assert_eq!(requests[1].text(), event("TEXT", "hello"));
    assert_eq!(requests[2].text(), event("TEXT", "in parts"));
}

fn events_subscribe_and_close(bench: &Bench) {
    let subscribe = json!({"type": "subscribe", "channel": bench.channel("c")}).to_string();
    bench.origin(move |request| {
        let grip = ("Sec-WebSocket-Extensions", "grip");
        match is_opening(request) {
            true => {
                let body = format!("OPEN\r\n{}", event("TEXT", &format!("c:{subscribe}")));
                answer(&[grip], &body)
            }
            false if request.text().contains("go") => answer(&[], &event("TEXT", "m:ready")),
            false => ok(&[("Content-Type", EVENTS)], b"CLOSE 5\r\n\x0f\xa0bye\r\n"),
        }
    });
    let mut socket = open(bench.client("over.test"), &bench.path("/ws"));
    // The client sends first, so that later messages follow the handshake.
    socket.text("go");
    assert_eq!(socket.next_text(), "ready");
    let end = std::time::Instant::now() + deadline();
    loop {
        bench.publish(json!([{"channel": bench.channel("c"), "ws-message": {"content": PROBE}}]));
        if socket.has_probe(std::time::Duration::from_millis(100)) {
            break;
        }
        assert!(std::time::Instant::now() < end, "the socket gets nothing");
    }
    bench.publish(json!([{"channel": bench.channel("c"), "ws-message": {"content": "one"}}]));
    assert_eq!(socket.next_text(), "one");
    socket.text("close me");
    let close = socket.next().expect("a close frame");
    assert_eq!(close.close(), Some((4000, "bye".to_owned())));
}

fn a_backend_may_refuse_to_open(bench: &Bench) {
    bench.origin(|_| Reply::Answer(401, vec![("X-Own", "1".into())], b"who are you\n".to_vec()));
    let (head, mut client) = ask(bench.client("over.test"), &bench.path("/ws"), &[]);
    assert_eq!(
        (head.status, head.header("x-own").as_deref()),
        (401, Some("1"))
    );
    assert_eq!(client.read_until("who are you"), "who are you");
}

fn meta_comes_back(bench: &Bench) {
    bench.origin(|request| match is_opening(request) {
        true => answer(
            &[("Set-Meta-User", "me"), ("Set-Meta-Place", "here")],
            "OPEN\r\n",
        ),
        false if request.header("meta-place").is_some() => answer(
            &[("Set-Meta-Place", "")],
            &event("TEXT", &request.header("meta-user").unwrap_or_default()),
        ),
        false => answer(&[], &event("TEXT", "no place")),
    });
    let mut socket = open(bench.client("over.test"), &bench.path("/ws"));
    socket.text("x");
    assert_eq!(socket.next_text(), "me");
    socket.text("x");
    assert_eq!(socket.next_text(), "no place");
}

fn a_client_that_vanishes_is_reported(bench: &Bench) {
    bench.origin(|request| {
        if is_opening(request) {
            answer(&[], "OPEN\r\n")
        } else {
            answer(&[], "")
        }
    });
    let mut socket = open(bench.client("over.test"), &bench.path("/ws"));
    socket.text("x");
    drop(socket);
    fermata_testkit::wait_until("the backend hears of it", || {
        let requests = bench.requests();
        requests
            .iter()
            .any(|request| request.text() == "DISCONNECT\r\n")
            .then_some(())
    });
}

fn a_client_may_not_send_events_itself(bench: &Bench) {
    bench.origin(|_| ok(&[], "it came through"));
    let headers = [("Content-Type", EVENTS)];
    let answer =
        bench
            .client("over.test")
            .request("POST", &bench.path("/x"), &headers, b"OPEN\r\n");
    assert_eq!(
        (answer.status, answer.text()),
        (
            403,
            "Client not allowed to send WebSocket events directly.\n"
        )
    );
}

fn a_refresh_asks_at_once(bench: &Bench) {
    let subscribe = json!({"type": "subscribe", "channel": bench.channel("c")}).to_string();
    bench.origin(move |request| match is_opening(request) {
        true => answer(
            &[("Sec-WebSocket-Extensions", "grip; message-prefix=\"\"")],
            &format!("OPEN\r\n{}", event("TEXT", &format!("c:{subscribe}"))),
        ),
        false if request.text().contains("go") => answer(&[], &event("TEXT", "ready")),
        false => answer(
            &[],
            &event("TEXT", &format!("asked with {:?}", request.text())),
        ),
    });
    let mut socket = open(bench.client("over.test"), &bench.path("/ws"));
    socket.text("go");
    assert_eq!(socket.next_text(), "ready");
    let end = std::time::Instant::now() + deadline();
    while !socket.has_probe(std::time::Duration::from_millis(100)) {
        assert!(std::time::Instant::now() < end, "the socket gets nothing");
        bench.publish(json!([{"channel": bench.channel("c"), "ws-message": {"content": PROBE}}]));
    }
    let refreshed = command(bench, "refresh", json!({"channel": bench.channel("c")}));
    assert_eq!(refreshed["success"], true, "{refreshed}");
    assert_eq!(socket.next_text(), "asked with \"\"");
}

fn a_socket_is_checked_and_refreshed_by_its_id(bench: &Bench) {
    bench.origin(|request| match is_opening(request) {
        true => answer(&[], "OPEN\r\n"),
        false if request.text().starts_with("CLOSE") => {
            ok(&[("Content-Type", EVENTS)], &request.body)
        }
        false => answer(
            &[],
            &event("TEXT", &format!("asked with {:?}", request.text())),
        ),
    });
    let mut socket = open(bench.client("over.test"), &bench.path("/ws"));
    let id = bench.requests()[0].header("connection-id").expect("an id");
    let check = || command(bench, "conncheck", json!({"ids": [id, "none"]}));
    let refresh = || command(bench, "refresh", json!({"cid": id}));
    assert_eq!(check(), json!({"success": true, "value": [id]}));
    assert_eq!(refresh()["success"], true);
    assert_eq!(socket.next_text(), "asked with \"\"");
    socket.close(1000, "");
    socket.next();
    drop(socket);
    wait_until("it is gone", || {
        (check()["value"] == json!([])).then_some(())
    });
    assert_eq!(refresh()["condition"], "item-not-found");
}

fn an_error_later_ends_the_socket(bench: &Bench) {
    bench.origin(|request| {
        if is_opening(request) {
            answer(&[], "OPEN\r\n")
        } else {
            Reply::Answer(404, Vec::new(), Vec::new())
        }
    });
    let mut socket = open(bench.client("over.test"), &bench.path("/ws"));
    socket.text("x");
    let close = socket.next();
    assert!(close.is_none_or(|frame: Frame| frame.close().is_some()));
}
