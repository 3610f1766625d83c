//! Tests of HTTP/2 over the fake network. The client uses the same state machine in the other role.

use std::collections::BTreeMap;

use fermata_config::Settings;
use fermata_io::sys::fake::FakePeer;
use fermata_proto::http2::{
    Connection, ErrorCode, Event, Limits, Message, Opening, Origin, Rest, StreamId,
};
use fermata_proto::ws;
use fermata_proto::ws::frame::{Opcode, Reserved};
use proptest::prelude::*;

use super::sockets::Call;
use super::{FILE_BYTES, HUGE, Rig, cases, file_content, get, settings};
use crate::admin::stats::Counter;
use crate::net::READ_BYTES;
use crate::{Left, Read};

/// The received part of a response.
#[derive(Default)]
pub(super) struct Answer {
    pub status: u16,
    interim: Vec<u16>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
    has_ended: bool,
    reset: Option<ErrorCode>,
}

pub(super) struct Client {
    pub peer: FakePeer,
    pub machine: Connection,
    message: Message,
    limits: Limits,
    pub out: Vec<u8>,
    answers: BTreeMap<u32, Answer>,
    /// Return windows of received DATA immediately.
    pub takes: bool,
    /// Last stream of each GOAWAY.
    go_aways: Vec<u32>,
    now_ms: u64,
}

pub(super) fn on() -> Settings {
    Settings {
        http2: "on".to_owned(),
        ..settings()
    }
}

impl Client {
    pub fn new(rig: &Rig) -> Client {
        Client::with(rig, Limits::default())
    }

    pub fn with(rig: &Rig, limits: Limits) -> Client {
        let mut out = Vec::new();
        let machine = Connection::client(&limits, 0, &mut out);
        Client {
            peer: rig.connect(),
            machine,
            message: Message::new(),
            limits,
            out,
            answers: BTreeMap::new(),
            takes: true,
            go_aways: Vec::new(),
            now_ms: 0,
        }
    }

    pub fn open(&mut self, method: &str, path: &str, end: bool) -> StreamId {
        self.open_with(method, path, &[], end)
    }

    fn open_with(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        end: bool,
    ) -> StreamId {
        self.open_as(method, path, None, fields, end)
    }

    /// Requests a WebSocket (RFC 8441).
    fn connect(&mut self, path: &str, fields: &[(&str, &str)]) -> StreamId {
        let fields = [&[("sec-websocket-version", "13")], fields].concat();
        self.open_as("CONNECT", path, Some("websocket"), &fields, false)
    }

    fn open_as(
        &mut self,
        method: &str,
        path: &str,
        protocol: Option<&str>,
        fields: &[(&str, &str)],
        end: bool,
    ) -> StreamId {
        let opening = Opening {
            method: method.as_bytes(),
            scheme: b"http",
            authority: b"test",
            path: path.as_bytes(),
            protocol: protocol.map(str::as_bytes),
        };
        let fields = fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
        self.machine
            .open(&opening, fields, end, &self.limits, &mut self.out)
            .expect("room for one more stream")
    }

    pub fn get(&mut self, path: &str) -> StreamId {
        self.open("GET", path, true)
    }

    pub fn post(&mut self, path: &str, body: &[u8]) -> StreamId {
        let length = body.len().to_string();
        let stream = self.open_with("POST", path, &[("content-length", &length)], false);
        self.send(stream, body, Rest::End);
        stream
    }

    pub fn send(&mut self, stream: StreamId, data: &[u8], rest: Rest) {
        let sent = self.machine.send_data(stream, data, rest, &mut self.out);
        assert_eq!(sent, data.len(), "the window has room for it");
    }

    /// Returns window credit for received DATA of these streams, and for all later DATA.
    pub fn read_on(&mut self, streams: &[StreamId]) {
        self.takes = true;
        for &stream in streams {
            let len = self
                .answers
                .get(&stream.number())
                .map_or(0, |it| it.body.len());
            self.machine
                .consumed(stream, len, &self.limits, &mut self.out);
        }
    }

    /// Returns a part of a window.
    pub fn read_some(&mut self, stream: StreamId, bytes: usize) {
        self.machine
            .consumed(stream, bytes, &self.limits, &mut self.out);
    }

    /// Exchanges bytes with the server until none arrive.
    pub fn run(&mut self, rig: &mut Rig) {
        loop {
            if !self.out.is_empty() {
                self.peer.write(&self.out);
                self.out.clear();
            }
            rig.run();
            let received = self.peer.read();
            if received.is_empty() && self.out.is_empty() {
                return;
            }
            self.take(&received);
        }
    }

    fn take(&mut self, received: &[u8]) {
        let mut at = 0;
        while at < received.len() {
            let (machine, out) = (&mut self.machine, &mut self.out);
            let step = machine
                .handle(
                    &received[at..],
                    self.now_ms,
                    &self.limits,
                    &mut self.message,
                    out,
                )
                .expect("the server keeps to the protocol");
            at += step.consumed;
            match step.event {
                Some(Event::Response { stream, end }) => {
                    let answer = self.answers.entry(stream.number()).or_default();
                    if self.message.status < 200 {
                        answer.interim.push(self.message.status);
                        continue;
                    }
                    assert_eq!(answer.status, 0, "one head");
                    answer.status = self.message.status;
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let headers = self.message.headers();
                    answer.headers = headers.map(|(n, v)| (text(n), text(v))).collect();
                    answer.has_ended = end;
                }
                Some(Event::Data { stream, data, end }) => {
                    let answer = self.answers.entry(stream.number()).or_default();
                    answer.body.extend_from_slice(data);
                    answer.has_ended |= end;
                    let len = data.len();
                    if self.takes {
                        machine.consumed(stream, len, &self.limits, out);
                    }
                }
                Some(Event::Reset {
                    stream,
                    code,
                    origin,
                }) => {
                    assert_eq!(origin, Origin::Peer, "the server keeps to the protocol");
                    let answer = self.answers.entry(stream.number()).or_default();
                    answer.reset = Some(code);
                }
                Some(Event::GoAway { last, .. }) => self.go_aways.push(last),
                _ => {}
            }
        }
    }

    pub fn answer(&self, stream: StreamId) -> &Answer {
        &self.answers[&stream.number()]
    }

    /// Returns status and body of a complete response.
    pub fn whole(&self, stream: StreamId) -> (u16, String) {
        let answer = self.answer(stream);
        assert!(answer.has_ended, "it is whole");
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        (answer.status, body)
    }
}

pub(super) fn ok(body: &str) -> (u16, String) {
    (200, body.to_owned())
}

/// Asserts that no stream is left.
pub(super) fn check_empty(rig: &Rig) {
    assert_eq!(rig.worker.net.http2.streams_len(), 0);
    assert_eq!(
        rig.worker.net.connections.len(),
        rig.worker.net.sockets_len()
    );
}

#[test]
fn refuses_http2_if_disabled() {
    let mut rig = Rig::with(
        1,
        Settings {
            http2: "off".to_owned(),
            ..settings()
        },
    );
    let client = rig.peer(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let answer = client.read();
    assert!(
        answer.starts_with(b"HTTP/1.1 4"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[test]
fn answers_requests_of_a_connection_concurrently() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    let hello = client.get("/hello");
    let big = client.get("/big/200000");
    let nothing = client.get("/nothing");
    let head = client.open("HEAD", "/hello", true);
    let echo = client.post("/echo", b"from here");
    let empty = client.post("/echo", b"");
    client.run(&mut rig);
    assert_eq!(client.whole(hello), ok("hello"));
    assert_eq!(client.whole(big), ok(&"x".repeat(200_000)));
    assert_eq!(client.whole(nothing).0, 404);
    assert_eq!(client.whole(head), ok(""));
    assert_eq!(client.whole(echo), ok("from here"));
    assert_eq!(client.whole(empty), ok(""));
    let headers = &client.answer(hello).headers;
    assert_eq!(headers["content-type"], "text/plain");
    assert_eq!(headers["content-length"], "5");
    assert!(headers.contains_key("date") && !headers.contains_key("connection"));
    assert_eq!(client.answer(head).headers["content-length"], "5");
    check_empty(&rig);

    // The connection stays open, and other clients use HTTP/1.1.
    let again = client.get("/hello");
    client.run(&mut rig);
    assert_eq!(client.whole(again), ok("hello"));
    let old = rig.peer(&get("/hello"));
    assert!(old.read().starts_with(b"HTTP/1.1 200"));
}

#[test]
fn sends_responses_of_a_turn_in_one_write() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    let streams: Vec<_> = (0..50).map(|_| client.get("/hello")).collect();
    let before = rig.fake.calls().sends;
    client.run(&mut rig);
    assert_eq!(rig.fake.calls().sends - before, 1);
    assert!(streams.iter().all(|it| client.whole(*it) == ok("hello")));
}

#[test]
fn bodies_come_in_pieces_of_any_kind() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    // Unknown length, in separate pieces, together more than a window.
    let echo = client.open("POST", "/echo", false);
    let other = client.open("POST", "/echo", false);
    let mut sent = Vec::new();
    for at in 0..20_u8 {
        let piece = vec![b'a' + at; 10_000];
        client.send(echo, &piece, Rest::Open);
        sent.extend_from_slice(&piece);
        client.run(&mut rig);
    }
    client.send(other, b"other", Rest::End);
    client.send(echo, b"", Rest::End);
    client.run(&mut rig);
    assert_eq!(client.whole(other), ok("other"));
    assert_eq!(client.answer(echo).body, sent);

    // A request with trailers.
    let echo = client.open("POST", "/echo", false);
    client.send(echo, b"body", Rest::Open);
    let trailers = [(&b"x-sum"[..], &b"1"[..])].into_iter();
    client
        .machine
        .send_trailers(echo, trailers, &mut client.out);
    client.run(&mut rig);
    assert_eq!(client.whole(echo), ok("body"));

    // A request with `Expect: 100-continue`.
    let fields = [("expect", "100-continue"), ("content-length", "2")];
    let echo = client.open_with("POST", "/echo", &fields, false);
    client.run(&mut rig);
    assert_eq!(client.answer(echo).interim, [100]);
    client.send(echo, b"ok", Rest::End);
    client.run(&mut rig);
    assert_eq!(client.whole(echo), ok("ok"));
    check_empty(&rig);
}

#[test]
fn accepts_an_http2_body_larger_than_one_read() {
    let wide = Settings {
        stream_window_bytes: 1 << 20,
        ..on()
    };
    let mut rig = Rig::with(1, wide);
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    let body = "b".repeat(4 * READ_BYTES);
    let echo = client.post("/echo", body.as_bytes());
    client.run(&mut rig);
    assert!(client.whole(echo) == ok(&body));
    check_empty(&rig);
}

#[test]
fn bodies_over_a_limit_are_refused_and_the_connection_stays() {
    let mut rig = Rig::with(
        1,
        Settings {
            body_bytes_max: 1000,
            ..on()
        },
    );
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    let fields = [("content-length", "1001")];
    let announced = client.open_with("POST", "/echo", &fields, false);
    client.run(&mut rig);
    assert_eq!(client.answer(announced).status, 413);
    let grown = client.open("POST", "/echo", false);
    client.send(grown, &[0; 600], Rest::Open);
    client.run(&mut rig);
    client.send(grown, &[0; 600], Rest::Open);
    client.run(&mut rig);
    assert_eq!(client.answer(grown).status, 413);
    assert!(client.answer(grown).reset.is_none());
    let slow = client.open("POST", "/echo", false);
    client.run(&mut rig);
    rig.advance(31_000);
    client.run(&mut rig);
    assert_eq!(client.answer(slow).status, 408);
    // A client that still sends may finish within the linger time, without a reset.
    let (finishes, goes_on) = (client.open("POST", "/echo", false), slow);
    client.send(finishes, &[0; 1100], Rest::Open);
    client.run(&mut rig);
    client.send(goes_on, &[0; 600], Rest::Open);
    client.send(finishes, &[0; 600], Rest::End);
    client.run(&mut rig);
    assert_eq!(client.whole(finishes).0, 413);
    assert!(client.answer(finishes).reset.is_none());
    rig.advance(3_000);
    client.run(&mut rig);
    assert_eq!(client.answer(goes_on).reset, Some(ErrorCode::NO_ERROR));
    let hello = client.get("/hello");
    client.run(&mut rig);
    assert_eq!(client.whole(hello), ok("hello"));
    check_empty(&rig);
}

/// WINDOW_UPDATE, RST_STREAM and PING frames are read while no handler is free, because running
/// handlers may need them to finish.
#[test]
fn reads_http2_connections_while_all_handlers_wait() {
    let few = Settings {
        connections_max: 6,
        header_timeout_ms: 5_000,
        ..on()
    };
    let mut rig = Rig::with(1, few);
    let mut client = Client::new(&rig);
    client.takes = false;
    let huge = client.get("/files/huge.bin");
    let late = client.get("/late?waits");
    let held = client.get("/hold/a");
    let early = client.open("POST", "/early?waits", false);
    client.run(&mut rig);
    assert_eq!(client.answer(huge).body.len(), 65_535);
    let (late_handle, early_handle) = (rig.late[0], rig.late[1]);
    assert_eq!(rig.worker.read_body(early_handle, 100), Ok(Read::Pending));
    let mut other = Client::new(&rig);
    other.run(&mut rig);

    rig.worker.set_full(true);
    // A WINDOW_UPDATE continues a response, a handler that reads its body receives DATA, and a
    // disconnect is reported.
    client.takes = true;
    let (machine, out) = (&mut client.machine, &mut client.out);
    machine.consumed(huge, 65_535, &client.limits, out);
    client.send(early, b"body", Rest::Open);
    let (machine, out) = (&mut client.machine, &mut client.out);
    machine.reset(late, ErrorCode::CANCEL, out);
    machine.reset(held, ErrorCode::CANCEL, out);
    client.run(&mut rig);
    assert_eq!(client.answer(huge).body.len(), HUGE * FILE_BYTES);
    assert_eq!(rig.arrived, [early_handle]);
    assert_eq!(rig.left, [Left::Request(late_handle)]);
    assert_eq!(rig.worker.net.gauges.held, 0);
    for over in [huge, late, held] {
        let (machine, out) = (&mut client.machine, &mut client.out);
        machine.release(over, &client.limits, out);
    }

    // Requests wait, at most as many over all connections as the limit of connections.
    let requests = rig.requests;
    let waiting: Vec<_> = (0..4).map(|_| client.get("/hello")).collect();
    client.run(&mut rig);
    assert_eq!(rig.requests, requests);
    let refused = other.get("/hello");
    other.run(&mut rig);
    assert_eq!(other.whole(refused).0, 503);
    let counts = &rig.worker.net.counts;
    assert_eq!(counts.get(Counter::Http2RefusedConnections), 1);
    other.peer.close();
    let cancelled = waiting[1];
    let (machine, out) = (&mut client.machine, &mut client.out);
    machine.reset(cancelled, ErrorCode::CANCEL, out);
    client.run(&mut rig);
    rig.worker.set_full(false);
    client.run(&mut rig);
    assert_eq!(rig.requests, requests + 3);
    for at in [0, 2, 3] {
        assert_eq!(client.whole(waiting[at]), ok("hello"));
    }

    // The wait for a free handler has a limit.
    rig.worker.set_full(true);
    let overdue = client.get("/hello");
    client.run(&mut rig);
    assert!(!client.answers.contains_key(&overdue.number()));
    rig.advance(6_000);
    client.run(&mut rig);
    assert_eq!(client.answer(overdue).status, 503);
    rig.worker.set_full(false);
    rig.worker.drop_request(late_handle);
    rig.respond(early_handle, b"read");
    client.send(early, b"", Rest::End);
    client.run(&mut rig);
    check_empty(&rig);
}

/// A handshake that the application decides on needs a handler, like a request.
#[test]
fn postpones_handshakes_while_all_handlers_wait() {
    let mut rig = Rig::with(
        1,
        Settings {
            header_timeout_ms: 5_000,
            ..on()
        },
    );
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    rig.worker.set_full(true);
    let asked = client.connect("/asked/yes", &[]);
    let left = client.connect("/asked/yes", &[]);
    let plain = client.connect("/ws", &[]);
    client.run(&mut rig);
    let (machine, out) = (&mut client.machine, &mut client.out);
    machine.reset(left, ErrorCode::CANCEL, out);
    // Data after the handshake is not lost.
    client.send(asked, &frame(Opcode::Text, b"early"), Rest::Open);
    client.run(&mut rig);
    assert_eq!(rig.calls, [], "no handler begins");
    assert!(!client.answers.contains_key(&asked.number()));
    assert_eq!(client.answer(plain).status, 200, "it needs none");
    rig.worker.set_full(false);
    client.run(&mut rig);
    assert_eq!(client.answer(asked).status, 200);
    assert_eq!(
        client.answer(asked).body,
        server_frame(Opcode::Text, b"early")
    );
    let upgrades = rig.calls.iter().filter(|it| **it == Call::Upgrade);
    assert_eq!(upgrades.count(), 1);

    rig.worker.set_full(true);
    let overdue = client.connect("/asked/yes", &[]);
    client.run(&mut rig);
    rig.advance(6_000);
    client.run(&mut rig);
    assert_eq!(client.answer(overdue).status, 503);
    rig.worker.set_full(false);
    for stream in [asked, plain, overdue] {
        let (machine, out) = (&mut client.machine, &mut client.out);
        machine.reset(stream, ErrorCode::CANCEL, out);
    }
    client.run(&mut rig);
    assert!(rig.worker.sockets.upgrades.is_empty());
    check_empty(&rig);
}

/// Requests cancelled while they wait release their slots for others.
#[test]
fn releases_slots_of_cancelled_requests() {
    let mut rig = Rig::with(
        1,
        Settings {
            connections_max: 10,
            ..on()
        },
    );
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    rig.worker.set_full(true);
    let first = client.get("/hello");
    client.run(&mut rig);
    for _ in 0..500 {
        let cancelled = client.get("/hello");
        client.run(&mut rig);
        let (machine, out) = (&mut client.machine, &mut client.out);
        machine.reset(cancelled, ErrorCode::CANCEL, out);
        machine.release(cancelled, &client.limits, out);
        client.run(&mut rig);
        let waiting = rig.worker.http.starts.waiting_len();
        assert!(waiting <= 10 + 64, "{waiting}");
    }
    let last = client.get("/hello");
    client.run(&mut rig);
    let requests = rig.requests;
    rig.worker.set_full(false);
    client.run(&mut rig);
    assert_eq!(rig.requests, requests + 2);
    assert_eq!(client.whole(first), ok("hello"));
    assert_eq!(client.whole(last), ok("hello"));
    assert_eq!(rig.worker.http.starts.waiting_len(), 0);
    check_empty(&rig);
}

/// A client may send the rest of an unneeded body, however small its window is.
#[test]
fn returns_the_window_of_a_refused_body() {
    let small = Settings {
        body_bytes_max: 1_000,
        ..on()
    };
    let mut rig = Rig::with(1, small);
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    let refused = client.open("POST", "/echo", false);
    client.send(refused, &[0; 65_535], Rest::Open);
    client.run(&mut rig);
    assert_eq!(client.answer(refused).status, 413);
    // The handler responds without reading the body.
    let answered = client.open("POST", "/early", false);
    client.send(answered, &[0; 65_535], Rest::Open);
    client.run(&mut rig);
    let handle = rig.late.pop_front();
    if let Some(handle) = handle {
        rig.respond(handle, b"enough");
    }
    client.run(&mut rig);
    for stream in [refused, answered] {
        client.send(stream, &[0; 60_000], Rest::Open);
        client.run(&mut rig);
        client.send(stream, &[0; 1_000], Rest::End);
        client.run(&mut rig);
        assert!(client.answer(stream).has_ended && client.answer(stream).reset.is_none());
    }
    check_empty(&rig);
}

/// A client cannot send more input than its stream's window to a handler that delays reading.
#[test]
fn limits_input_of_a_waiting_websocket_to_its_window() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    let chat = client.connect("/ws", &[]);
    client.run(&mut rig);
    let handle = rig.open[0];
    rig.worker.defer_socket(handle).expect("it is open");
    let message = frame(Opcode::Text, &[b'm'; 1_000]);
    let mut sent = 0;
    // Send while the server returns window credit. The number of the server's reads does not
    // matter.
    for _ in 0..200 {
        let window = client.machine.window(chat).min(message.len());
        client.send(chat, &message[..window], Rest::Open);
        sent += window;
        client.run(&mut rig);
        if window < message.len() {
            break;
        }
    }
    assert!(sent <= 65_535, "{sent} bytes were taken");
    let connections = rig.worker.net.connections.iter();
    let kept: usize = connections.map(|(it, _)| it.inbox.len()).sum();
    assert!(kept <= 65_535, "{kept} bytes are kept");
    rig.worker.net.resume_socket(handle);
    client.run(&mut rig);
    let mut expected = Vec::new();
    for _ in 0..sent / message.len() {
        expected.extend_from_slice(&server_frame(Opcode::Text, &[b'm'; 1_000]));
    }
    assert!(client.answer(chat).body == expected);
}

#[test]
fn reads_a_body_while_it_arrives() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    let stream = client.open("POST", "/early?waits", false);
    client.run(&mut rig);
    let handle = rig
        .late
        .pop_front()
        .expect("it is handed out before its body");
    assert_eq!(rig.worker.read_body(handle, 100), Ok(Read::Pending));
    // The client can send more than the window only as the handler reads.
    client.send(stream, &[b'x'; 60_000], Rest::Open);
    client.run(&mut rig);
    assert_eq!(rig.arrived, [handle]);
    let mut all = 0;
    for _ in 0..4 {
        while rig.worker.read_body(handle, 50_000) == Ok(Read::Piece) {
            all += rig.worker.http.body_piece().len();
        }
        client.run(&mut rig);
        client.send(stream, &[b'y'; 40_000], Rest::Open);
        client.run(&mut rig);
    }
    client.send(stream, b"z", Rest::End);
    client.run(&mut rig);
    loop {
        match rig.worker.read_body(handle, 50_000) {
            Ok(Read::Piece) => all += rig.worker.http.body_piece().len(),
            Ok(Read::Last) => {
                all += rig.worker.http.body_piece().len();
                break;
            }
            Ok(Read::End) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(all, 60_000 + 4 * 40_000 + 1);
    rig.respond(handle, b"read");
    client.run(&mut rig);
    assert_eq!(client.whole(stream), ok("read"));

    // The client cancels while the handler waits.
    let stream = client.open("POST", "/early?waits", false);
    client.run(&mut rig);
    let handle = rig.late.pop_front().expect("another one");
    assert_eq!(rig.worker.read_body(handle, 100), Ok(Read::Pending));
    rig.arrived.clear();
    client
        .machine
        .reset(stream, ErrorCode::CANCEL, &mut client.out);
    client.run(&mut rig);
    assert_eq!(rig.arrived, [handle]);
    assert!(rig.worker.read_body(handle, 100).is_err());
    rig.worker.drop_request(handle);
    client.run(&mut rig);
    check_empty(&rig);
}

#[test]
fn sends_files_and_ranges() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    let large = client.get("/files/large.bin");
    let huge = client.get("/files/huge.bin");
    let range = [("range", "bytes=10-19")];
    let part = client.open_with("GET", "/files/large.bin", &range, true);
    let ranges = [("range", "bytes=0-1,100000-250000")];
    let parts = client.open_with("GET", "/files/large.bin", &ranges, true);
    let head = client.open("HEAD", "/files/large.bin", true);
    client.run(&mut rig);
    assert_eq!(client.answer(large).body, file_content());
    assert_eq!(client.answer(huge).body.len(), HUGE * FILE_BYTES);
    assert!(client.answer(huge).has_ended);
    assert_eq!(client.answer(part).status, 206);
    assert_eq!(client.answer(part).body, file_content()[10..20]);
    assert_eq!(client.answer(parts).status, 206);
    assert!(client.answer(parts).has_ended && client.answer(parts).body.len() > 150_001);
    let length = client.answer(head).headers["content-length"].clone();
    assert_eq!(length, FILE_BYTES.to_string());
    assert!(client.whole(head).1.is_empty());
    let etag = client.answer(large).headers["etag"].clone();
    let known = [("if-none-match", &*etag)];
    let known = client.open_with("GET", "/files/large.bin", &known, true);
    client.run(&mut rig);
    assert_eq!(client.whole(known), (304, String::new()));
    check_empty(&rig);
}

#[test]
fn serves_others_while_one_client_reads_nothing() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    client.takes = false;
    let huge = client.get("/files/huge.bin");
    client.run(&mut rig);
    // Only the window of the stream is used up.
    assert_eq!(client.answer(huge).body.len(), 65_535);
    rig.advance(1_000);
    client.run(&mut rig);
    // The connection's window has the same size: responses without a body still pass.
    let head = client.open("HEAD", "/hello", true);
    client.run(&mut rig);
    assert_eq!(client.whole(head), ok(""));
    rig.advance(33_000);
    client.run(&mut rig);
    assert!(client.answer(huge).reset.is_some());
    check_empty(&rig);
}

#[test]
fn continues_a_formerly_blocked_connection_in_its_turn() {
    let mut rig = Rig::with(1, on());
    let limits = Limits {
        stream_window_bytes: 1 << 24,
        connection_window_bytes: 1 << 24,
        ..Limits::default()
    };
    let mut client = Client::with(&rig, limits);
    client.run(&mut rig);
    client.peer.set_window(1000);
    let huge = client.get("/files/huge.bin");
    client.peer.write(&client.out);
    client.out.clear();
    rig.run();
    assert_eq!(rig.worker.net.gauges.blocked, 2);
    // More bytes than a turn sends.
    client.peer.set_window(1 << 24);
    client.run(&mut rig);
    assert_eq!(client.answer(huge).body.len(), HUGE * FILE_BYTES);
    assert!(client.answer(huge).has_ended);
    check_empty(&rig);
}

#[test]
fn shares_a_connection_among_streams() {
    let mut rig = Rig::with(1, on());
    let limits = Limits {
        stream_window_bytes: 1000,
        ..Limits::default()
    };
    let mut small = Client::with(&rig, limits);
    small.takes = false;
    small.run(&mut rig);
    let first = small.get("/files/huge.bin");
    small.run(&mut rig);
    assert_eq!(small.answer(first).body.len(), 1000);
    // Each stream has its own window.
    let second = small.get("/hello");
    small.run(&mut rig);
    assert_eq!(small.whole(second), ok("hello"));
    let (machine, out) = (&mut small.machine, &mut small.out);
    machine.consumed(first, 1000, &small.limits, out);
    small.run(&mut rig);
    assert_eq!(small.answer(first).body.len(), 2000);
}

#[test]
fn events_go_to_all_streams_of_a_connection_in_one_write() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    let held: Vec<_> = (0..20).map(|_| client.get("/hold/a,b")).collect();
    let other = client.get("/hold/c");
    client.run(&mut rig);
    assert_eq!(client.answer(held[0]).status, 200);
    let kind = client.answer(held[0]).headers["content-type"].clone();
    assert_eq!(kind, "text/event-stream");
    assert_eq!(rig.worker.net.gauges.held, 21);
    let before = rig.fake.calls().sends;
    rig.publish("a", "news");
    rig.run();
    assert_eq!(rig.fake.calls().sends - before, 1);
    client.run(&mut rig);
    for stream in &held {
        let body = String::from_utf8_lossy(&client.answer(*stream).body).into_owned();
        assert!(body.ends_with("data: news\n\n"), "{body}");
        assert!(body.starts_with("id: "), "no chunks: {body}");
    }
    let body = &client.answer(other).body;
    assert!(!String::from_utf8_lossy(body).contains("news"));

    // Keep-alive comments while the channel is silent.
    rig.advance(56_000);
    client.run(&mut rig);
    let body = String::from_utf8_lossy(&client.answer(other).body).into_owned();
    assert!(
        body.ends_with(":\n\n") || body.ends_with(": \n\n"),
        "{body:?}"
    );

    // Closing some pages does not affect the others.
    for stream in &held[1..] {
        client
            .machine
            .reset(*stream, ErrorCode::CANCEL, &mut client.out);
    }
    client.run(&mut rig);
    assert_eq!(rig.worker.net.gauges.held, 2);
    rig.publish("b", "more");
    client.run(&mut rig);
    let body = String::from_utf8_lossy(&client.answer(held[0]).body).into_owned();
    assert!(body.ends_with("data: more\n\n"), "{body}");

    // Closing the connection closes everything.
    client.peer.close();
    rig.run();
    assert_eq!(rig.worker.net.gauges.held, 0);
    assert_eq!(rig.worker.net.connections.len(), 0);
}

#[test]
fn treats_a_subscriber_without_window_as_slow() {
    let mut rig = Rig::with(
        1,
        Settings {
            channel_log_bytes_max: 8192,
            ..on()
        },
    );
    let limits = Limits {
        stream_window_bytes: 2000,
        ..Limits::default()
    };
    let mut client = Client::with(&rig, limits);
    client.run(&mut rig);
    let slow = client.get("/hold/a");
    let closed = client.get("/hold/a?close");
    let quick = client.get("/hold/a");
    client.takes = false;
    client.run(&mut rig);
    let mut published = Vec::new();
    for number in 0..60 {
        let data = format!("{number:0>500}");
        rig.publish("a", &data);
        published.push(data);
        client.run(&mut rig);
        // One client reads the bytes that it receives.
        let unread = client.answer(quick).body.len();
        let (machine, out) = (&mut client.machine, &mut client.out);
        machine.consumed(quick, unread, &client.limits, out);
        client.run(&mut rig);
    }
    let text = |client: &Client, it: StreamId| {
        String::from_utf8_lossy(&client.answer(it).body).into_owned()
    };
    let body = text(&client, quick);
    assert!(published.iter().all(|data| body.contains(data.as_str())));
    assert_eq!(client.answer(slow).body.len(), 2000);
    assert!(client.answer(closed).reset.is_some());
    // The client reads again and continues after a gap event.
    for _ in 0..40 {
        let (machine, out) = (&mut client.machine, &mut client.out);
        machine.consumed(slow, 2000, &client.limits, out);
        client.run(&mut rig);
    }
    let body = text(&client, slow);
    assert!(body.contains("event: gap"), "{body}");
    assert!(body.contains(published.last().expect("some").as_str()));
}

/// Encodes a frame of a client.
fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mask = Some([1, 2, 3, 4]);
    ws::frame::write(&mut out, opcode, true, Reserved::NONE, mask, payload);
    out
}

/// Encodes a frame of a server.
fn server_frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ws::frame::write(&mut out, opcode, true, Reserved::NONE, None, payload);
    out
}

#[test]
fn runs_websockets_over_http2_streams() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    let chat = client.connect("/ws", &[]);
    let hello = client.get("/hello");
    client.run(&mut rig);
    assert_eq!(client.whole(hello), ok("hello"));
    let headers = &client.answer(chat).headers;
    assert_eq!(client.answer(chat).status, 200);
    assert!(!headers.contains_key("sec-websocket-accept") && !headers.contains_key("upgrade"));
    assert_eq!((rig.open.len(), rig.worker.net.gauges.sockets), (1, 1));

    // The frame arrives in one piece, and byte by byte.
    let mut expected = server_frame(Opcode::Text, b"echo me");
    client.send(chat, &frame(Opcode::Text, b"echo me"), Rest::Open);
    client.run(&mut rig);
    for byte in frame(Opcode::Text, b"and me") {
        client.send(chat, &[byte], Rest::Open);
        client.run(&mut rig);
    }
    expected.extend_from_slice(&server_frame(Opcode::Text, b"and me"));
    client.send(chat, &frame(Opcode::Ping, b"there?"), Rest::Open);
    client.run(&mut rig);
    expected.extend_from_slice(&server_frame(Opcode::Pong, b"there?"));
    // Together more than a window.
    for _ in 0..10 {
        let long = vec![b'y'; 20_000];
        client.send(chat, &frame(Opcode::Text, &long), Rest::Open);
        client.run(&mut rig);
        expected.extend_from_slice(&server_frame(Opcode::Text, &long));
    }
    assert!(client.answer(chat).body == expected);
    let code = 1000_u16.to_be_bytes();
    client.send(chat, &frame(Opcode::Close, &code), Rest::Open);
    client.run(&mut rig);
    expected.extend_from_slice(&server_frame(Opcode::Close, &code));
    assert!(client.answer(chat).body == expected && client.answer(chat).has_ended);
    assert!(rig.open.is_empty());
    assert!(matches!(rig.calls.last(), Some(Call::Close(_, 1000, _))));
    client.send(chat, b"", Rest::End);
    client.run(&mut rig);
    assert!(client.answer(chat).reset.is_none());
    check_empty(&rig);

    // The client closes without a close frame: by the end of the stream, and by a reset.
    for ends in [true, false] {
        let chat = client.connect("/ws", &[]);
        client.run(&mut rig);
        assert_eq!(rig.open.len(), 1);
        if ends {
            client.send(chat, b"", Rest::End);
        } else {
            client
                .machine
                .reset(chat, ErrorCode::CANCEL, &mut client.out);
        }
        client.run(&mut rig);
        assert!(matches!(rig.calls.last(), Some(Call::Close(_, 1006, _))));
        check_empty(&rig);
    }
}

#[test]
fn checks_handshakes_over_http2() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    let foreign = client.connect("/ws", &[("origin", "https://other.test")]);
    let elsewhere = client.connect("/hello", &[]);
    let nowhere = client.connect("/nothing", &[]);
    let version = [("sec-websocket-version", "12")];
    let old = client.open_as("CONNECT", "/ws", Some("websocket"), &version, false);
    let other = client.open_as("CONNECT", "/ws", Some("connect-udp"), &[], false);
    let plain = client.get("/ws");
    let offers = [
        ("sec-websocket-protocol", "other, chat"),
        ("origin", "http://test"),
    ];
    let asked = client.connect("/asked/yes", &offers);
    client.run(&mut rig);
    assert_eq!(client.answer(foreign).status, 403);
    assert_eq!(client.answer(elsewhere).status, 404);
    assert_eq!(client.answer(nowhere).status, 404);
    assert_eq!(client.answer(old).status, 426);
    assert_eq!(client.answer(other).status, 501);
    assert_eq!(client.answer(plain).status, 426);
    assert_eq!(client.answer(asked).status, 200);
    assert_eq!(
        client.answer(asked).headers["sec-websocket-protocol"],
        "chat"
    );
}

#[test]
fn sends_application_streams_piece_by_piece() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    let stream = client.get("/late");
    client.run(&mut rig);
    let handle = rig.late.pop_front().expect("it was handed out");
    let none = std::iter::empty();
    let taken = rig
        .worker
        .begin_stream(handle, 200, None, none, None, b"one ");
    assert_eq!(taken, Ok(4));
    client.run(&mut rig);
    assert_eq!(client.answer(stream).body, b"one ");
    rig.worker
        .net
        .write_stream(handle, b"two")
        .expect("it is open");
    rig.worker.end_stream(handle).expect("it is open");
    client.run(&mut rig);
    assert_eq!(client.whole(stream), ok("one two"));

    // A stream without its end does not look complete.
    let stream = client.get("/late");
    client.run(&mut rig);
    let handle = rig.late.pop_front().expect("it was handed out");
    let none = std::iter::empty();
    let begun = rig
        .worker
        .begin_stream(handle, 200, None, none, Some(10), b"some");
    assert_eq!(begun, Ok(4));
    rig.worker.drop_stream(handle);
    client.run(&mut rig);
    assert_eq!(client.answer(stream).body, b"some");
    assert!(!client.answer(stream).has_ended && client.answer(stream).reset.is_some());
    check_empty(&rig);
}

#[test]
fn counts_a_cancelled_request_until_its_handler_returns() {
    let mut rig = Rig::with(
        1,
        Settings {
            streams_per_connection_max: 4,
            ..on()
        },
    );
    let mut client = Client::new(&rig);
    client.run(&mut rig);
    // A quarter above the limit: the client does not count cancelled streams.
    for _ in 0..5 {
        let stream = client.get("/late?waits");
        client.run(&mut rig);
        client
            .machine
            .reset(stream, ErrorCode::CANCEL, &mut client.out);
        client
            .machine
            .release(stream, &client.limits, &mut client.out);
        client.run(&mut rig);
    }
    assert_eq!((rig.left.len(), rig.late.len()), (5, 5));
    let refused = client.get("/hello");
    client.run(&mut rig);
    assert_eq!(
        client.answer(refused).reset,
        Some(ErrorCode::REFUSED_STREAM)
    );
    // One handler answers after the disconnect, the others drop their requests.
    for handle in std::mem::take(&mut rig.late) {
        assert!(rig.left.contains(&Left::Request(handle)));
        if rig.left.first() == Some(&Left::Request(handle)) {
            rig.respond(handle, b"too late");
        } else {
            rig.worker.drop_request(handle);
        }
    }
    client.run(&mut rig);
    check_empty(&rig);
    let hello = client.get("/hello");
    client.run(&mut rig);
    assert_eq!(client.whole(hello), ok("hello"));
}

#[test]
fn sends_goaway_on_drain_and_completes_streams() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    let late = client.get("/late?waits");
    let held = client.get("/hold/a");
    let mut idle = Client::new(&rig);
    idle.run(&mut rig);
    client.run(&mut rig);
    rig.worker.begin_drain(false);
    client.run(&mut rig);
    idle.run(&mut rig);
    assert_eq!(client.go_aways, [(1 << 31) - 1, held.number()]);
    assert!(client.answer(held).has_ended);
    let body = String::from_utf8_lossy(&client.answer(held).body).into_owned();
    assert!(body.contains("retry: "), "{body}");
    assert!(!rig.is_stopped);
    let handle = rig.late.pop_front().expect("it was handed out");
    rig.respond(handle, b"at last");
    client.run(&mut rig);
    assert_eq!(client.whole(late), ok("at last"));
    rig.advance(3_000);
    assert!(rig.is_stopped);
}

#[test]
fn client_may_repeat_a_request_that_a_retired_worker_has_not_started() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    let started = client.get("/late?waits");
    let unread = client.open("POST", "/echo", false);
    client.run(&mut rig);
    // This one waits for its turn.
    rig.worker.set_full(true);
    let postponed = client.get("/hello");
    client.run(&mut rig);
    let requests = rig.requests;
    rig.worker.retire();
    rig.worker.set_full(false);
    client.run(&mut rig);
    for refused in [unread, postponed] {
        assert_eq!(
            client.answer(refused).reset,
            Some(ErrorCode::REFUSED_STREAM),
            "no handler has the request"
        );
    }
    assert_eq!(rig.requests, requests);
    let counts = &rig.worker.net.counts;
    assert_eq!(counts.get(Counter::Refused503), 2);
    assert!(!client.answers.contains_key(&started.number()));
}

#[test]
fn idle_connections_are_closed() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    let hello = client.get("/hello");
    client.run(&mut rig);
    assert_eq!(client.whole(hello), ok("hello"));
    let mut held = Client::new(&rig);
    held.get("/hold/a");
    held.run(&mut rig);
    rig.advance(80_000);
    client.run(&mut rig);
    held.run(&mut rig);
    rig.advance(3_000);
    assert_eq!(client.go_aways, [hello.number()]);
    assert!(held.go_aways.is_empty());
    assert_eq!(rig.worker.net.sockets_len(), 1);
}

#[test]
fn sends_goaway_to_a_client_that_violates_the_protocol() {
    let mut rig = Rig::with(1, on());
    let mut client = Client::new(&rig);
    client.get("/hold/a");
    client.get("/late?waits");
    client.run(&mut rig);
    // DATA of a stream that was never opened.
    client.peer.write(&[0, 0, 0, 0, 0, 0, 0, 0, 99]);
    client.run(&mut rig);
    assert_eq!(client.go_aways.len(), 1);
    rig.advance(3_000);
    assert_eq!(rig.worker.net.connections.len(), 0);
    assert_eq!(rig.left.len(), 1);

    // A client that acknowledges no SETTINGS is disconnected.
    let silent = rig.connect();
    silent.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    rig.run();
    rig.advance(15_000);
    assert_eq!(rig.worker.net.connections.len(), 0);
}

proptest! {
    #![proptest_config(cases(48))]

    /// For any behavior of clients and network, responses are complete, and nothing is left.
    #[test]
    fn loses_nothing_and_leaves_no_stream(
        seed in any::<u64>(),
        window in 2_000_u32..70_000,
        steps in prop::collection::vec((0_u8..9, any::<u8>()), 1..40),
    ) {
        let mut rig = Rig::with(seed, on());
        let limits = Limits { stream_window_bytes: window, ..Limits::default() };
        let mut client = Client::with(&rig, limits);
        let mut expected: Vec<(StreamId, Vec<u8>)> = Vec::new();
        let mut held = Vec::new();
        client.run(&mut rig);
        for (what, which) in steps {
            match what {
                0 => expected.push((client.get("/hello"), b"hello".to_vec())),
                1 => {
                    let bytes = usize::from(which) * 500;
                    let path = format!("/big/{bytes}");
                    expected.push((client.get(&path), vec![b'x'; bytes]));
                }
                2 => {
                    let body = vec![which; usize::from(which) * 10];
                    expected.push((client.post("/echo", &body), body));
                }
                3 => expected.push((client.get("/files/large.bin"), file_content())),
                4 => held.push(client.get("/hold/a")),
                5 => {
                    rig.publish("a", "data");
                }
                6 if !held.is_empty() => {
                    let stream = held.remove(usize::from(which) % held.len());
                    client.machine.reset(stream, ErrorCode::CANCEL, &mut client.out);
                    client.machine.release(stream, &client.limits, &mut client.out);
                }
                7 => client.peer.set_window(usize::from(which) * 100 + 100),
                _ => client.run(&mut rig),
            }
        }
        client.peer.set_window(1 << 20);
        client.run(&mut rig);
        for (stream, body) in expected {
            let answer = client.answer(stream);
            prop_assert_eq!(answer.status, 200);
            prop_assert!(answer.has_ended);
            prop_assert!(answer.body == body);
        }
        prop_assert_eq!(rig.worker.net.gauges.held as usize, held.len());
        client.peer.close();
        rig.run();
        prop_assert_eq!(rig.worker.net.connections.len(), 0);
    }
}
