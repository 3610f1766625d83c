//! Cost of HTTP/2 in instructions, which do not depend on the load of the machine. `cargo test --release -p
//! fermata-proto --test http2_cost -- --nocapture` prints the counts.

use fermata_proto::http2::frame::{self, Kind, PREFACE, flag};
use fermata_proto::http2::{Connection, Event, Limits, Message, Priority, Rest, StreamId};
use fermata_testkit::instructions;

/// Environment variable with the number of rounds of a hundred streams, for runs under callgrind.
const ROUNDS: &str = "FERMATA_HTTP2_ROUNDS";

/// Concurrent streams.
const STREAMS: u32 = 100;

/// Encoded head of a repeated small request: every field is a table entry.
const REPEATED: [u8; 6] = [0x82, 0x86, 0xc1, 0xc0, 0xbf, 0xbe];

fn rounds() -> u32 {
    let rounds = std::env::var(ROUNDS).unwrap_or_else(|_| "3".to_owned());
    rounds.parse().expect("a number")
}

/// Returns a server whose client has opened all windows and inserted four fields into the table.
fn server(limits: &Limits, message: &mut Message, out: &mut Vec<u8>) -> Connection {
    let mut connection = Connection::server(limits, 0, out);
    let mut input = PREFACE.to_vec();
    frame::write(&mut input, Kind::Settings, 0, 0, b"\0\x04\x7f\xff\xff\xff");
    frame::write(&mut input, Kind::Settings, flag::ACK, 0, &[]);
    frame::write_window_update(&mut input, 0, i32::MAX as u32 - 65_535);
    let mut block = vec![0x82, 0x86];
    for (name_index, value) in [
        (4, &b"/json"[..]),
        (1, b"127.0.0.1:8080"),
        (58, b"h2load nghttp2/1.52.0"),
        (19, b"*/*"),
    ] {
        block.extend([0x40 | name_index, value.len() as u8]);
        block.extend_from_slice(value);
    }
    frame::write(&mut input, Kind::Headers, 5, 1, &block);
    for stream in feed(&mut connection, &input, limits, message, out) {
        connection.release(stream, limits, out);
    }
    out.clear();
    connection
}

/// Returns the streams of the requests in `input`.
fn feed(
    connection: &mut Connection,
    input: &[u8],
    limits: &Limits,
    message: &mut Message,
    out: &mut Vec<u8>,
) -> Vec<StreamId> {
    let mut streams = Vec::new();
    let mut at = 0;
    while at < input.len() {
        let step = connection
            .handle(&input[at..], 0, limits, message, out)
            .expect("valid");
        at += step.consumed;
        if let Some(Event::Request { stream, .. }) = step.event {
            streams.push(stream);
        }
    }
    streams
}

/// Returns the frames of a hundred requests, starting with stream `first`.
fn requests(first: u32) -> Vec<u8> {
    let mut input = Vec::new();
    for nth in 0..STREAMS {
        frame::write(&mut input, Kind::Headers, 5, first + nth * 2, &REPEATED);
    }
    input
}

#[test]
fn small_gets() {
    let (limits, mut message, mut out) = (Limits::default(), Message::new(), Vec::new());
    let mut connection = server(&limits, &mut message, &mut out);
    let mut input = requests(3);
    for round in 0..rounds() {
        for nth in 0..STREAMS {
            let id = 3 + (round * STREAMS + nth) * 2;
            let at = nth as usize * (9 + REPEATED.len()) + 5;
            input[at..at + 4].copy_from_slice(&id.to_be_bytes());
        }
        let mut at = 0;
        while at < input.len() {
            let step = connection
                .handle(&input[at..], 0, &limits, &mut message, &mut out)
                .expect("valid");
            at += step.consumed;
            let Some(Event::Request { stream, .. }) = step.event else {
                panic!("a request");
            };
            let fields = [
                (&b"Content-Type"[..], &b"application/json"[..]),
                (b"Content-Length", b"27"),
                (b"Date", b"Sun, 06 Nov 1994 08:49:37 GMT"),
            ];
            let body = b"{\"message\":\"Hello, World!\"}";
            connection.send_head(stream, 200, fields.into_iter(), false, &mut out);
            assert_eq!(connection.send_data(stream, body, Rest::End, &mut out), 27);
            connection.release(stream, &limits, &mut out);
        }
        out.clear();
    }
}

#[test]
fn events_to_a_hundred_streams() {
    let (limits, mut message, mut out) = (Limits::default(), Message::new(), Vec::new());
    let mut connection = server(&limits, &mut message, &mut out);
    let input = requests(3);
    let streams = feed(&mut connection, &input, &limits, &mut message, &mut out);
    assert_eq!(streams.len(), STREAMS as usize);
    for &stream in &streams {
        connection.set_priority(stream, Priority::STREAM);
        connection.send_head(stream, 200, std::iter::empty(), false, &mut out);
    }
    let event = b"id: 1\ndata: {\"text\":\"hello to everybody\"}\n\n";
    for _ in 0..rounds() {
        out.clear();
        for &stream in &streams {
            let sent = connection.send_data(stream, event, Rest::Open, &mut out);
            assert_eq!(sent, event.len());
        }
    }
}

/// Returns the instructions per stream, without start-up and shutdown.
fn per_stream(test: &str) -> u64 {
    let rounds = |count| instructions(test, ROUNDS, count);
    (rounds("110") - rounds("10")) / u64::from(100 * STREAMS)
}

/// The limits are far above the measured cost, and far below that of a table per response or a copy per event.
#[test]
fn a_request_and_an_event_are_cheap() {
    let get = per_stream("small_gets");
    let event = per_stream("events_to_a_hundred_streams");
    println!("{get} instructions per small GET, {event} per event and stream");
    assert!(get < 8_000, "{get}");
    assert!(event < 1_500, "{event}");
}
