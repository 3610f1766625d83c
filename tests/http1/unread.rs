//! Clients that do not read, over every kind of response: the worker's memory stays within its
//! limits, and other clients get responses. `python3 -m bench unread` measures this with the
//! defaults and hundreds of clients.

use std::time::Duration;

use fermata_testkit::websocket;
use fermata_testkit::{Connection, Server, wait_until};
use fermata_tests::fixture;
use fermata_tests::memory::anonymous_kb;

/// Memory limits of the server.
const WORKER_BYTES: usize = 16 << 20;
const CONNECTION_BYTES: usize = 8 << 20;

/// Additional memory of a worker: two responses in progress and the PHP values of waiting handlers.
const BESIDE_KB: usize = 80 << 10;

/// Additional memory that a worker may retain after all clients have disconnected.
const AFTER_KB: usize = 32 << 10;

/// Number of clients per kind. Without limits they would use at least five times the allowed
/// memory.
const CLIENTS: usize = 60;

/// Streams per HTTP/2 connection.
const STREAMS: u32 = 30;

fn worker(server: &Server) -> u32 {
    *server.worker_pids().values().next().expect("one worker")
}

/// Opens clients that send `request` and read nothing.
fn check(way: &str, clients: usize, request: &[u8]) {
    let server = fixture("unread")
        .workers(1)
        .setting("buffered_bytes_max", WORKER_BYTES)
        .setting("buffered_per_address_bytes_max", 0)
        .setting("buffered_per_connection_bytes_max", CONNECTION_BYTES)
        .start();
    let pid = worker(&server);
    assert_eq!(server.connect().get("/").text(), "alive");
    let before_kb = anonymous_kb(pid);
    let mut peak_kb = before_kb;
    let mut all: Vec<Connection> = Vec::new();
    for nth in 0..clients {
        let mut client = server.connect();
        // The server may already have closed this connection, because it uses the most memory.
        let _ = client.try_send(request);
        all.push(client);
        if nth % 4 == 3 {
            assert_eq!(server.connect().get("/").text(), "alive", "{way}");
        }
        peak_kb = peak_kb.max(anonymous_kb(pid));
    }
    for _ in 0..10 {
        assert_eq!(server.connect().get("/").text(), "alive", "{way}");
        peak_kb = peak_kb.max(anonymous_kb(pid));
        std::thread::sleep(Duration::from_millis(50));
    }
    let bound_kb = before_kb + WORKER_BYTES / 1024 + BESIDE_KB;
    assert!(
        peak_kb <= bound_kb,
        "{way}: {before_kb} kB became {peak_kb}"
    );
    drop(all);
    wait_until("the worker returns its memory", || {
        // The worker releases memory when it updates its metrics, after a request.
        assert_eq!(server.connect().get("/").text(), "alive", "{way}");
        (anonymous_kb(pid) <= before_kb + AFTER_KB).then_some(())
    });
    assert_eq!(worker(&server), pid, "{way}");
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: fermata.test\r\n\r\n").into_bytes()
}

#[test]
fn whole_responses() {
    check("whole responses", CLIENTS, &get("/big"));
}

#[test]
fn responses_of_handlers_that_have_waited() {
    check("late responses", CLIENTS, &get("/late"));
}

#[test]
fn pipelined_responses() {
    check("pipelined responses", CLIENTS, &get("/big").repeat(4));
}

#[test]
fn pieces_of_streams() {
    check("streams", CLIENTS, &get("/pieces"));
}

#[test]
fn printed_bodies() {
    check("output", CLIENTS, &get("/output"));
}

#[test]
fn events_of_handlers() {
    check("events", CLIENTS, &get("/events"));
}

#[test]
fn bodies_that_do_not_arrive_whole() {
    let head = "POST /body HTTP/1.1\r\nHost: fermata.test\r\nContent-Length: 1000000\r\n\r\n";
    let request = [head.as_bytes(), &[b'x'; 999_999]].concat();
    check("bodies", 3 * CLIENTS, &request);
}

#[test]
fn messages_to_websockets() {
    let handshake = websocket::request("/socket", &[]);
    let request = [handshake.as_bytes(), &websocket::frame(0x81, b"now")].concat();
    check("messages", CLIENTS, &request);
}

#[test]
fn messages_that_do_not_arrive_whole() {
    let handshake = websocket::request("/socket", &[]);
    let header = websocket::header(0x81, 1_000_000);
    let request = [handshake.as_bytes(), &header, &[b'x'; 999_000]].concat();
    check("partial messages", 3 * CLIENTS, &request);
}

#[test]
fn sends_a_slow_client_a_response_above_the_bound_of_its_address() {
    const RESPONSE_BYTES: usize = 8_000_000;
    const STEP_BYTES: usize = 100_000;
    let server = fixture("unread")
        .workers(1)
        .setting("buffered_per_address_bytes_max", 1 << 20)
        .start();
    let mut slow = server.connect();
    slow.send(get("/big"));
    for read in (STEP_BYTES..RESPONSE_BYTES).step_by(STEP_BYTES) {
        slow.wait_for_bytes(read);
        // Requests of other clients with the same address do not cause it to be closed.
        assert_eq!(server.connect().get("/").text(), "alive");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(slow.read_response().body.len(), RESPONSE_BYTES);
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload");
    let mut out = length.to_be_bytes()[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// Returns the bytes of an HTTP/2 connection without stream windows and with many requests for
/// `path`.
fn http2(path: &str) -> Vec<u8> {
    let (settings, headers, acknowledges, whole) = (4, 1, 1, 5);
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    out.extend(frame(settings, 0, 0, &[0, 4, 0, 0, 0, 0]));
    out.extend(frame(settings, acknowledges, 0, &[]));
    let length = u8::try_from(path.len()).expect("a short path");
    let head = [
        &[0x82, 0x86, 0x04, length],
        path.as_bytes(),
        &[0x01, 1, b'a'],
    ]
    .concat();
    for nth in 0..STREAMS {
        out.extend(frame(headers, whole, 2 * nth + 1, &head));
    }
    out
}

#[test]
fn http2_streams_without_a_window() {
    check("HTTP/2", 6, &http2("/big"));
}

#[test]
fn late_responses_over_http2() {
    check("HTTP/2, late", 6, &http2("/late"));
}
