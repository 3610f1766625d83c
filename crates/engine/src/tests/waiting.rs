//! Tests of waiting handlers: responses in order, disconnects, wake-ups, postponed work, stopping.

use fermata_config::Settings;
use fermata_io::Deadline;
use fermata_io::sys::fake::{End, FakePeer};

use super::client::answers;
use super::sockets::{Call, handshake, text};
use super::{Rig, get, settings};
use crate::id::RequestId;
use crate::{Event, Left};

/// Creates a rig with one request whose handler waits, and its client.
fn waiting() -> (Rig, FakePeer, RequestId) {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&get("/late"));
    let handle = rig.late.pop_front().expect("it was handed out");
    rig.worker.defer(handle).expect("it is open");
    (rig, peer, handle)
}

fn answer(rig: &mut Rig, handle: RequestId, body: &str) -> Result<(), crate::Gone> {
    let none = std::iter::empty();
    rig.worker.respond(handle, 200, None, none, body.as_bytes())
}

fn bodies(peer: &FakePeer) -> Vec<String> {
    let text = |body: &Vec<u8>| String::from_utf8_lossy(body).into_owned();
    let answers = answers(&peer.read(), &[]);
    answers.iter().map(|answer| text(&answer.body)).collect()
}

#[test]
fn delays_the_next_request_until_the_response() {
    let (mut rig, peer, handle) = waiting();
    peer.write(&[get("/hello"), get("/hello")].concat());
    rig.run();
    assert_eq!(rig.requests, 1);
    let other = rig.peer(&get("/hello"));
    assert_eq!(bodies(&other), ["hello"]);
    answer(&mut rig, handle, "late").expect("the client is there");
    rig.run();
    assert_eq!(bodies(&peer), ["late", "hello", "hello"]);
    assert_eq!(rig.left, []);
}

#[test]
fn reports_a_disconnect_once_and_accepts_a_later_response() {
    let (mut rig, peer, handle) = waiting();
    peer.shutdown_write();
    rig.run();
    assert_eq!(rig.left, [Left::Request(handle)]);
    answer(&mut rig, handle, "late").expect("it may read on");
    rig.run();
    assert_eq!(bodies(&peer), ["late"]);
    assert_eq!(rig.left.len(), 1);
    assert_eq!(peer.end(), End::Finished);
}

#[test]
fn drops_a_request_and_closes_its_connection() {
    let (mut rig, peer, handle) = waiting();
    peer.shutdown_write();
    rig.run();
    assert_eq!(rig.left, [Left::Request(handle)]);
    let open = rig.worker.net.sockets_len();
    rig.worker.drop_request(handle);
    rig.run();
    assert_eq!(rig.worker.net.sockets_len(), open - 1);
    assert_eq!(rig.left.len(), 1, "its owner knows already");
    assert!(bodies(&peer).is_empty());
    // An answered request cannot be dropped.
    let (mut rig, peer, handle) = waiting();
    answer(&mut rig, handle, "late").expect("the client is there");
    rig.worker.drop_request(handle);
    rig.run();
    assert_eq!(bodies(&peer), ["late"]);
}

#[test]
fn drops_a_started_response() {
    let (mut rig, peer, handle) = waiting();
    peer.shutdown_write();
    let begun = rig
        .worker
        .begin_stream(handle, 200, None, std::iter::empty(), None, b"some");
    assert_eq!(begun, Ok(4));
    rig.worker.drop_request(handle);
    rig.run();
    assert_eq!(peer.end(), End::Finished);
    assert!(!peer.read().ends_with(b"0\r\n\r\n"), "it is not whole");
}

#[test]
fn sends_responses_before_a_dropped_request() {
    let mut rig = Rig::new(1);
    let peer = rig.peer(&[get("/hello"), get("/late")].concat());
    let handle = rig.late.pop_front().expect("it was handed out");
    rig.worker.defer(handle).expect("it is open");
    rig.worker.drop_request(handle);
    rig.run();
    assert_eq!(bodies(&peer), ["hello"]);
    assert_eq!(peer.end(), End::Finished);
}

#[test]
fn reports_a_client_that_disconnected_before_its_handler_waited() {
    let mut rig = Rig::new(2);
    let peer = rig.connect();
    peer.write(&get("/late"));
    peer.shutdown_write();
    rig.run();
    let handle = rig.late.pop_front().expect("it was handed out");
    assert_eq!(rig.left, []);
    rig.worker.defer(handle).expect("it is open");
    rig.run();
    assert_eq!(rig.left, [Left::Request(handle)]);
}

#[test]
fn reports_no_gone_client_unless_its_handler_waits() {
    let mut rig = Rig::new(3);
    let peer = rig.peer(&get("/late"));
    peer.close();
    rig.run();
    assert_eq!(rig.left, []);
    let (mut rig, peer, handle) = waiting();
    answer(&mut rig, handle, "late").expect("the client is there");
    rig.run();
    peer.close();
    rig.run();
    assert_eq!(rig.left, []);
    assert!(rig.worker.defer(handle).is_err());
}

#[test]
fn wakes_the_application_on_time() {
    let mut rig = Rig::new(4);
    let due_ms = rig.worker.net.now_ms() + 500;
    rig.worker.waiting.wake_at(Deadline::at(due_ms));
    rig.advance(499);
    assert_eq!(rig.wakes, 0);
    rig.advance(1);
    assert_eq!(rig.wakes, 1);
    rig.advance(1000);
    assert_eq!(rig.wakes, 1);
    rig.worker.waiting.wake_at(Deadline::NOW);
    rig.run();
    assert_eq!(rig.wakes, 2);
    rig.worker.waiting.wake_at(Deadline::at(due_ms + 3000));
    rig.worker.waiting.wake_at(Deadline::NEVER);
    rig.advance(5000);
    assert_eq!(rig.wakes, 2);
}

#[test]
fn postpones_new_work_while_all_handlers_wait() {
    let mut rig = Rig::new(5);
    let old = rig.peer(&get("/hello"));
    let mut socket = rig.socket("/ws");
    let _ = old.read();
    rig.worker.set_full(true);
    let requests = rig.requests;
    old.write(&[get("/hello"), get("/hello")].concat());
    let new = rig.peer(&get("/hello"));
    socket.peer.write(&text("one"));
    for _ in 0..3 {
        new.write(&get("/hello"));
        rig.run();
    }
    assert_eq!(rig.requests, requests);
    assert_eq!(socket.texts(), [""; 0]);
    rig.worker.set_full(false);
    rig.run();
    assert_eq!(bodies(&old), ["hello"; 2]);
    assert_eq!(bodies(&new), ["hello"; 4]);
    assert_eq!(socket.texts(), ["one"]);
}

#[test]
fn refuses_a_request_that_waits_too_long_with_503() {
    let mut rig = Rig::with(
        6,
        Settings {
            header_timeout_ms: 1000,
            ..settings()
        },
    );
    rig.worker.set_full(true);
    let peer = rig.peer(&get("/hello"));
    rig.advance(1100);
    let answers = answers(&peer.read(), &[]);
    assert_eq!(answers[0].status, 503);
    rig.worker.set_full(false);
    rig.advance(5000);
    assert_eq!(rig.requests, 0);
}

#[test]
fn delays_messages_until_the_sockets_handler_returns() {
    let mut rig = Rig::new(7);
    let mut socket = rig.socket("/ws");
    let handle = rig.open[0];
    rig.worker.defer_socket(handle).expect("it is open");
    socket.peer.write(&[text("one"), text("two")].concat());
    rig.run();
    socket.peer.write(&text("three"));
    rig.run();
    assert_eq!(socket.texts(), [""; 0]);
    rig.worker.net.resume_socket(handle);
    rig.run();
    assert_eq!(socket.texts(), ["one", "two", "three"]);
    rig.worker.defer_socket(handle).expect("it is open");
    socket.peer.close();
    rig.run();
    assert_eq!(rig.left, [Left::Socket(handle)]);
    rig.worker.net.resume_socket(handle);
    rig.run();
    assert!(rig.open.is_empty());
    assert!(rig.worker.defer_socket(handle).is_err());
}

#[test]
fn closes_a_socket_whose_client_left_before_the_101() {
    let mut rig = Rig::new(7);
    let peers = [0; 2].map(|_| rig.peer(&handshake("/asked/late", "")));
    let handles = std::mem::take(&mut rig.late);
    for handle in &handles {
        rig.worker.defer(*handle).expect("it is open");
    }
    peers.iter().for_each(FakePeer::close);
    // The disconnect of one client was reported. The disconnect of the other one is queued after
    // it.
    let gone = std::iter::repeat_with(|| {
        rig.worker.begin_poll();
        rig.worker.poll_event()
    });
    let gone = gone.take(10).flatten().next();
    let other = { handles.iter() }.find(|it| gone != Some(Event::Gone(**it)));
    let other = *other.expect("there are two");
    let accepted = rig.worker.accept_upgrade(other, None, &[]);
    let socket = accepted.expect("its place is there");
    rig.calls.clear();
    rig.run();
    assert_eq!(rig.left, []);
    let close = Call::Close(socket, 1006, String::new());
    assert_eq!(rig.calls, [Call::Open(socket), close]);
    assert!(matches!(gone, Some(Event::Gone(it)) if it != other));
}

#[test]
fn waits_for_handlers_and_tasks_on_drain_until_its_timeout() {
    let (mut rig, peer, handle) = waiting();
    rig.worker.begin_drain(false);
    rig.advance(1000);
    assert!(!rig.is_stopped);
    answer(&mut rig, handle, "late").expect("the client is there");
    let due_ms = rig.worker.net.now_ms() + 1000;
    rig.worker.waiting.wake_at(Deadline::at(due_ms));
    rig.worker.waiting.set_busy(true);
    rig.run();
    assert_eq!(bodies(&peer), ["late"]);
    peer.close();
    rig.advance(500);
    assert!(!rig.is_stopped, "a task waits for the clock");
    rig.advance(600);
    assert!(rig.is_stopped, "it waits for nothing that can happen");

    let (mut rig, _peer, _) = waiting();
    rig.worker.begin_drain(false);
    rig.advance(11_000);
    assert!(rig.is_stopped, "drain_timeout_ms is over");
}

/// Returns the response to a `GET /late` with these headers, whose handler has waited.
fn answer_to(request: &str, headers: &[(&[u8], &[u8])], body: &[u8]) -> super::client::Answer {
    let mut rig = Rig::new(8);
    let peer = rig.peer(request.as_bytes());
    let handle = rig.late.pop_front().expect("it was handed out");
    // Another request reuses the buffers of the first request.
    let _other = rig.peer(&get("/hello"));
    assert_eq!(rig.worker.http.deferred.len(), 1);
    let headers = headers.iter().copied();
    rig.worker
        .respond(handle, 200, Some(b"text/plain"), headers, body)
        .expect("it is open");
    rig.worker.http.settle_request(handle);
    assert_eq!(rig.worker.http.deferred.len(), 0);
    rig.run();
    let is_head = request.starts_with("HEAD");
    answers(&peer.read(), &[is_head]).remove(0)
}

#[test]
fn applies_conditions_to_a_late_response() {
    let tag: &[(&[u8], &[u8])] = &[(b"ETag", b"\"1\"")];
    let ask = |method: &str, line: &str| {
        let request = format!("{method} /late?waits HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
        answer_to(&request, tag, b"content")
    };
    assert_eq!(ask("GET", "If-None-Match: \"1\"").status, 304);
    assert_eq!(ask("GET", "If-None-Match: \"2\"").status, 200);
    assert_eq!(ask("GET", "If-Match: \"2\"").status, 412);
    let head = ask("HEAD", "Accept: */*");
    assert_eq!(
        (head.status, &head.headers["content-length"][..]),
        (200, "7")
    );
    assert_eq!(ask("HEAD", "If-None-Match: \"1\"").status, 304);
    let error = ask("GET", "If-Match: \"2\"\r\nAccept: application/json");
    assert_eq!(error.headers["content-type"], "application/json");
}

#[test]
fn compresses_a_late_response() {
    let body = [b'x'; 5000];
    let ask = |line: &str| {
        let request = format!("GET /late?waits HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
        answer_to(&request, &[], &body)
    };
    let packed = ask("Accept-Encoding: gzip");
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert!(packed.body.len() < 1000);
    assert_eq!(ask("Accept-Encoding: identity").body, body);
}

#[test]
fn drops_stored_request_data_with_its_handler() {
    let mut rig = Rig::new(9);
    let peer = rig.peer(&get("/late?waits"));
    let handle = rig.late.pop_front().expect("it was handed out");
    assert_eq!(rig.worker.http.deferred.len(), 1);
    peer.close();
    rig.run();
    rig.worker.http.settle_request(handle);
    assert_eq!(rig.worker.http.deferred.len(), 0);
}
