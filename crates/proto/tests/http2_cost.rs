//! What HTTP/2 costs, counted in instructions, which a busy machine does not change:
//! `cargo test --release -p fermata-proto --test http2_cost -- --nocapture` prints them.

use fermata_proto::http2::frame::{self, Kind, PREFACE, flag};
use fermata_proto::http2::{Connection, Event, Limits, Message, Priority, Rest, StreamId};
use fermata_testkit::instructions;

/// Tells a run of this program under callgrind how many rounds of a hundred to make.
const ROUNDS: &str = "FERMATA_HTTP2_ROUNDS";

/// Streams at a time.
const STREAMS: u32 = 100;

/// The encoded head of a small request as clients repeat it: every field stands in a table.
const REPEATED: [u8; 6] = [0x82, 0x86, 0xc1, 0xc0, 0xbf, 0xbe];

fn rounds() -> u32 {
    let rounds = std::env::var(ROUNDS).unwrap_or_else(|_| "3".to_owned());
    rounds.parse().expect("a number")
}

/// A server whose client has opened all windows and put four fields into the table.
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

/// The streams of the requests in `input`.
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

/// The frames of a hundred requests from stream `first` on.
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

/// Instructions per stream: start and end cancel out.
fn per_stream(test: &str) -> u64 {
    let rounds = |count| instructions(test, ROUNDS, count);
    (rounds("110") - rounds("10")) / u64::from(100 * STREAMS)
}

/// Far above what it is, and far below what a table per answer or a copy per event would make of it.
#[test]
fn a_request_and_an_event_are_cheap() {
    let get = per_stream("small_gets");
    let event = per_stream("events_to_a_hundred_streams");
    println!("{get} instructions per small GET, {event} per event and stream");
    assert!(get < 8_000, "{get}");
    assert!(event < 1_500, "{event}");
}
