//! Fuzz targets for HTTP/2.

use std::collections::BTreeMap;

use crate::http2::frame::{self, Kind, PREFACE};
use crate::http2::hpack::{Decoder, Error};
use crate::http2::{
    Connection, ErrorCode, Event, Limits, Message, Opening, Origin, Priority, Rate, Rest, StreamId,
    Violation,
};

/// Limits small enough to be reached.
fn small_limits() -> Limits {
    Limits {
        streams_max: 4,
        header_list_bytes_max: 400,
        headers_count_max: 10,
        target_bytes_max: 20,
        header_table_bytes: 200,
        stream_window_bytes: 100,
        continuations_max: 3,
        connect_protocol: true,
        pings: Rate::new(1, 5),
        settings: Rate::new(1, 5),
        empty_data: Rate::new(1, 5),
        ..Limits::default()
    }
}

/// Checks header blocks, each preceded by a length. Decoded fields are bounded by the block, with and without storing,
/// and round-trip.
pub fn http2_hpack(data: &[u8]) {
    let mut decoder = Decoder::new();
    let mut follower = Decoder::new();
    let mut rest = data;
    while let Some((&len, after)) = rest.split_first() {
        let (block, after) = after.split_at(after.len().min(usize::from(len)));
        rest = after;
        let mut text = Vec::new();
        let stored = decode(&mut decoder, block, &mut text, true);
        let mut followed_text = Vec::new();
        let followed = decode(&mut follower, block, &mut followed_text, false);
        assert_eq!(stored.as_ref().err(), followed.as_ref().err());
        assert!(decoder.kept_bytes() <= 16_384);
        let Ok(fields) = stored else {
            return;
        };
        // Without storing, output is bounded by the block: eight bits for each code of five, and names from the table.
        assert!(followed_text.len() <= block.len() * (8 + 4096));
        let mut again = Vec::new();
        for (name, value) in &fields {
            crate::http2::hpack::encode(&mut again, name, value);
        }
        let mut text = Vec::new();
        let lower: Vec<_> = fields
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        assert_eq!(
            decode(&mut Decoder::new(), &again, &mut text, true),
            Ok(lower)
        );
    }
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn decode(
    decoder: &mut Decoder,
    block: &[u8],
    text: &mut Vec<u8>,
    store: bool,
) -> Result<Fields, Error> {
    let mut at = decoder.begin(block)?;
    let mut fields = Vec::new();
    while let Some(field) = decoder.next(block, &mut at, text, store)? {
        fields.push((field.name.of(text).to_vec(), field.value.of(text).to_vec()));
    }
    Ok(fields)
}

/// Result of an input: events as text, sent bytes, and the error.
type Outcome = (Vec<String>, Vec<u8>, Option<Violation>);

/// Checks the bytes of a connection: every split gives the same events and output, and memory stays within the limits.
pub fn http2(data: &[u8]) {
    // The first byte selects limits, role and the caller's behaviour, the second the splits.
    let [selector, seed, input @ ..] = data else {
        return;
    };
    let limits = if selector & 1 == 0 {
        small_limits()
    } else {
        Limits::default()
    };
    let mut bytes = Vec::new();
    if selector & 2 == 0 {
        bytes.extend_from_slice(PREFACE);
    }
    if selector & 4 == 0 {
        frame::write(&mut bytes, Kind::Settings, 0, 0, &[]);
        frame::write(&mut bytes, Kind::Settings, frame::flag::ACK, 0, &[]);
    }
    bytes.extend_from_slice(input);
    let whole = run(&bytes, &[], *selector, &limits);
    for splits in [
        &[0][..],
        &[seed % 7],
        &[seed % 3, seed / 5 % 11, 0, seed % 29],
    ] {
        assert_eq!(run(&bytes, splits, *selector, &limits), whole);
    }
}

/// Passes the input to a server, or to a client with one open stream, in pieces of `splits[i] + 1` bytes, using `splits`
/// cyclically.
fn run(input: &[u8], splits: &[u8], selector: u8, limits: &Limits) -> Outcome {
    let (mut message, mut out, mut events) = (Message::new(), Vec::new(), Vec::new());
    let is_server = selector & 2 == 0;
    let mut connection = if is_server {
        Connection::server(limits, 0, &mut out)
    } else {
        let mut connection = Connection::client(limits, 0, &mut out);
        let opening = Opening {
            method: if selector & 8 == 0 { b"GET" } else { b"HEAD" },
            scheme: b"https",
            authority: b"a",
            path: b"/",
            protocol: None,
        };
        for end in [true, false] {
            let opened = connection.open(&opening, std::iter::empty(), end, limits, &mut out);
            assert!(opened.is_ok());
        }
        connection
    };
    let mut sizes = splits.iter().cycle().map(|&size| usize::from(size) + 1);
    let mut rest = input;
    while !rest.is_empty() {
        let size = sizes.next().unwrap_or(usize::MAX).min(rest.len());
        let (piece, after) = rest.split_at(size);
        rest = after;
        let mut at = 0;
        while at < size {
            let step = connection.handle(&piece[at..], 0, limits, &mut message, &mut out);
            let step = match step {
                Ok(step) => step,
                Err(violation) => return (joined(events), out, Some(violation)),
            };
            assert!(step.event.is_some() || at + step.consumed == size);
            at += step.consumed;
            if let Some(event) = step.event {
                check(&event, &message, limits);
                events.push(described(&event, &message));
                if is_server {
                    answer(&mut connection, event, selector, limits, &mut out);
                }
            }
        }
        assert!(connection.streams_count() <= usize::from(limits.streams_max).max(2));
        // Memory for a block, one frame of it, the table and the streams; doubled because vectors grow by doubling.
        let bytes_max = 4 * (limits.block_bytes_max() + 16_384) + 16_384 + 100 * 96;
        assert!(connection.kept_bytes() <= bytes_max);
    }
    (joined(events), out, None)
}

/// Responds immediately, and releases some streams before their body has arrived.
fn answer(
    connection: &mut Connection,
    event: Event<'_>,
    selector: u8,
    limits: &Limits,
    out: &mut Vec<u8>,
) {
    match event {
        Event::Request { stream, .. } => {
            let fields = [(&b"a"[..], &b"b"[..])];
            assert!(connection.send_head(stream, 200, fields.into_iter(), false, out));
            let sent = connection.send_data(stream, b"some bytes", Rest::End, out);
            assert!(sent <= 10);
            if stream.number() / 2 % 4 < u32::from(selector >> 4) % 5 {
                connection.release(stream, limits, out);
            }
        }
        Event::Reset { stream, .. } => {
            assert!(!connection.send_head(stream, 200, std::iter::empty(), true, out));
            connection.release(stream, limits, out);
        }
        _ => {}
    }
}

fn check(event: &Event<'_>, message: &Message, limits: &Limits) {
    if !matches!(event, Event::Request { .. } | Event::Trailers { .. }) {
        return;
    }
    assert!(message.head.headers.len() <= usize::from(limits.headers_count_max));
    for (name, value) in message.headers() {
        assert!(crate::response::valid_name(name) && crate::response::valid_value(value));
        assert!(!name.iter().any(u8::is_ascii_uppercase));
        assert!(![&b"connection"[..], b"transfer-encoding", b"upgrade"].contains(&name));
    }
    if matches!(event, Event::Request { .. }) {
        let (head, text) = (&message.head, &message.text);
        assert!(matches!(head.path.of(text), [b'/', ..] | b"*"));
        let host = head.host.expect("a request has one");
        assert_eq!(message.header(b"host", 0), Some(host.of(text)));
        assert_eq!(message.header(b"host", 1), None);
        assert_eq!(message.header(b"cookie", 1), None);
        assert!(crate::http1::valid_host(host.of(text)));
    }
}

fn described(event: &Event<'_>, message: &Message) -> String {
    match event {
        Event::Data { stream, data, end } => {
            format!("{stream:?} data {} end {end}", data.escape_ascii())
        }
        Event::Request { .. } | Event::Response { .. } | Event::Trailers { .. } => {
            let lines: Vec<String> = message
                .headers()
                .map(|(name, value)| format!("{}: {}", name.escape_ascii(), value.escape_ascii()))
                .collect();
            format!(
                "{event:?} {} {:?} {lines:?}",
                message.status, message.head.body
            )
        }
        other => format!("{other:?}"),
    }
}

/// Joins adjacent pieces of a body.
fn joined(events: Vec<String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for event in events {
        if let Some(last) = joined.last_mut()
            && let (Some((stream, before)), Some((other, more))) =
                (last.split_once(" data "), event.split_once(" data "))
            && stream == other
            && let Some(before) = before.strip_suffix(" end false")
        {
            // An empty last piece is equivalent to an end that arrives with the previous piece.
            *last = format!("{stream} data {before}{more}");
        } else {
            joined.push(event);
        }
    }
    joined
}

/// One endpoint in [`http2_exchange`].
struct End {
    connection: Connection,
    limits: Limits,
    message: Message,
    out: Vec<u8>,
    streams: BTreeMap<u32, Progress>,
    /// Maximum body length. Only a few runs exceed all windows, because such runs are slow.
    length_max: usize,
}

/// Progress of one endpoint on a stream.
#[derive(Debug, Default)]
struct Progress {
    /// Bytes to send, and bytes sent.
    length: usize,
    sent: usize,
    /// True after the end of the stream was sent.
    ended: bool,
    /// Bytes received, and received bytes not consumed.
    received: usize,
    unconsumed: usize,
    /// True after the end of the stream was received.
    complete: bool,
    trailers: bool,
}

/// Maximum number of moves in a run.
const MOVES_MAX: usize = 40;

/// Returns the byte of a body at `offset`; it differs for each stream and direction.
fn content(id: u32, from_client: bool, offset: usize) -> u8 {
    (id as usize * 31 + usize::from(from_client) * 7 + offset % 251) as u8
}

/// Checks random actions of a client and a server: opening, sending, consuming, resetting, and delivering bytes in any pieces.
/// Received bytes equal sent bytes, every stream ends, and both sides agree about every window.
pub fn http2_exchange(data: &[u8]) {
    let [selector, moves @ ..] = data else {
        return;
    };
    let limits = Limits {
        streams_max: 8,
        stream_window_bytes: [100, 65_535, 200_000, 1][usize::from(selector & 3)],
        connection_window_bytes: 70_000,
        header_table_bytes: if selector & 4 == 0 { 4096 } else { 0 },
        // The clock does not advance.
        resets: Rate::new(0, 100_000),
        resets_caused: Rate::new(0, 100_000),
        connection_window_updates: Rate::new(0, 1_000_000),
        stream_window_updates: Rate::new(0, 1_000_000),
        ..Limits::default()
    };
    let (mut client_out, mut server_out) = (Vec::new(), Vec::new());
    let client = Connection::client(&limits, 0, &mut client_out);
    let server = Connection::server(&limits, 0, &mut server_out);
    let mut client = End::new(client, &limits, client_out);
    let mut server = End::new(server, &limits, server_out);
    if selector & 0x7b == 0x79 {
        client.length_max = usize::MAX;
    }
    for step in moves.chunks(2).take(MOVES_MAX) {
        let (&what, amount) = (&step[0], usize::from(*step.get(1).unwrap_or(&0)));
        match what % 8 {
            0 | 1 => open(&mut client, amount),
            2 => deliver(&mut client, &mut server, amount + 1),
            3 => deliver(&mut server, &mut client, amount + 1),
            4 => client.pump(true, amount * 40 + 1),
            5 => server.pump(false, amount * 40 + 1),
            6 if amount.is_multiple_of(2) => server.consume(amount),
            6 => client.consume(amount),
            _ => client.give_up(amount),
        }
    }
    // Finish: each round does everything that is possible.
    for _ in 0..10_000 {
        client.pump(true, usize::MAX);
        deliver(&mut client, &mut server, usize::MAX);
        server.consume(usize::MAX);
        server.pump(false, usize::MAX);
        deliver(&mut server, &mut client, usize::MAX);
        client.consume(usize::MAX);
        if client.streams.is_empty() && client.out.is_empty() && server.out.is_empty() {
            break;
        }
    }
    assert!(client.streams.is_empty(), "{:?}", client.streams);
    assert!(server.streams.is_empty(), "{:?}", server.streams);
    assert_eq!(client.connection.streams_count(), 0);
    assert_eq!(server.connection.streams_count(), 0);
    assert_eq!(client.connection.windows().0, server.connection.windows().1);
    assert_eq!(server.connection.windows().0, client.connection.windows().1);
}

/// Opens a request; `amount` selects the lengths of its body and response.
fn open(client: &mut End, amount: usize) {
    const LENGTHS: [usize; 6] = [0, 1, 99, 16_384, 20_000, 70_000];
    // Limit the number of rounds for a small window.
    let most = client.length_max;
    let length = |which: usize| LENGTHS[which % LENGTHS.len()].min(most);
    let (request, response) = (length(amount), length(amount / 6));
    let text = [request.to_string(), response.to_string()];
    let fields = [
        (&b"x-request"[..], text[0].as_bytes()),
        (b"x-response", text[1].as_bytes()),
        (b"content-length", text[0].as_bytes()),
        (
            b"priority",
            if amount.is_multiple_of(2) {
                b"u=1, i"
            } else {
                b"u=5"
            },
        ),
        (b"cookie", b"a=b"),
        (b"cookie", b"c=d"),
    ];
    let opening = Opening {
        method: b"POST",
        scheme: b"https",
        authority: b"example.com",
        path: b"/a?b",
        protocol: None,
    };
    let trailers = amount.is_multiple_of(5) && request > 0;
    let End {
        connection,
        limits,
        out,
        ..
    } = client;
    let fields = fields.into_iter();
    let Ok(stream) = connection.open(&opening, fields, request == 0, limits, out) else {
        return;
    };
    connection.set_pending(stream, request > 0);
    let progress = Progress {
        length: request,
        ended: request == 0,
        trailers,
        ..Progress::default()
    };
    client.streams.insert(stream.number(), progress);
}

/// Delivers at most `bytes` of the output of `from`.
fn deliver(from: &mut End, to: &mut End, bytes: usize) {
    let bytes = bytes.min(from.out.len());
    let moved: Vec<u8> = from.out.drain(..bytes).collect();
    let mut at = 0;
    while at < moved.len() {
        let End {
            connection,
            limits,
            message,
            out,
            ..
        } = to;
        let step = connection
            .handle(&moved[at..], 0, limits, message, out)
            .expect("both keep to the protocol");
        at += step.consumed;
        if let Some(event) = step.event {
            to.take(event);
        }
    }
}

impl End {
    fn new(connection: Connection, limits: &Limits, out: Vec<u8>) -> Self {
        Self {
            connection,
            limits: limits.clone(),
            message: Message::new(),
            out,
            streams: BTreeMap::new(),
            length_max: 1_000.min(limits.stream_window_bytes as usize * 40),
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Request { stream, .. } => self.take_request(stream),
            Event::Response { .. } if self.message.status == 103 => {}
            Event::Response { end, stream } => {
                assert_eq!(self.message.status, 200);
                self.received(stream, false, &[], end);
            }
            Event::Data { stream, data, end } => {
                let from_client = self.is_server();
                self.received(stream, from_client, data, end);
            }
            Event::Trailers { stream } => {
                assert_eq!(self.message.header(b"x-end", 0), Some(&b"yes"[..]));
                self.received(stream, false, &[], true);
            }
            Event::Reset { stream, origin, .. } => {
                assert_eq!(origin, Origin::Peer);
                self.streams.remove(&stream.number());
                self.connection.release(stream, &self.limits, &mut self.out);
            }
            Event::Refused { refusal, .. } => {
                // The client regards a stream as closed before the server does.
                assert_eq!(refusal, crate::Refusal::StreamsTooMany);
            }
            Event::Settings | Event::Pong(_) | Event::GoAway { .. } => {}
        }
    }

    fn is_server(&self) -> bool {
        self.connection.role() == crate::http2::Role::Server
    }

    fn take_request(&mut self, stream: StreamId) {
        let number = |name: &[u8]| {
            let value = self.message.header(name, 0).expect("the client sent it");
            crate::number::parse_decimal(value).expect("a number") as usize
        };
        assert_eq!(self.message.header(b"cookie", 0), Some(&b"a=b; c=d"[..]));
        assert_eq!(self.message.header(b"host", 0), Some(&b"example.com"[..]));
        let (request, response) = (number(b"x-request"), number(b"x-response"));
        let out = &mut self.out;
        let fields = [(&b"content-type"[..], &b"text/plain"[..])];
        let end = response == 0;
        let none = std::iter::empty();
        assert!(self.connection.send_head(stream, 103, none, false, out));
        assert!(
            self.connection
                .send_head(stream, 200, fields.into_iter(), end, out)
        );
        self.connection.set_pending(stream, !end);
        let progress = Progress {
            length: response,
            ended: end,
            complete: request == 0,
            trailers: response % 2 == 1,
            ..Progress::default()
        };
        self.streams.insert(stream.number(), progress);
        self.settle(stream);
    }

    fn received(&mut self, stream: StreamId, from_client: bool, data: &[u8], end: bool) {
        let id = stream.number();
        let Some(progress) = self.streams.get_mut(&id) else {
            // The stream is already closed on this side.
            return;
        };
        for (i, &byte) in data.iter().enumerate() {
            assert_eq!(byte, content(id, from_client, progress.received + i));
        }
        progress.received += data.len();
        progress.unconsumed += data.len();
        progress.complete |= end;
        self.settle(stream);
    }

    /// Sends at most `bytes` bytes in the order of the streams' turns.
    fn pump(&mut self, from_client: bool, bytes: usize) {
        let mut room = bytes;
        while room > 0
            && let Some(ready) = self.connection.next_ready()
        {
            let id = ready.stream.number();
            let Some(progress) = self.streams.get_mut(&id) else {
                self.connection.set_pending(ready.stream, false);
                continue;
            };
            let left = progress.length - progress.sent;
            let len = left.min(ready.bytes_max).min(room);
            let data: Vec<u8> = (0..len)
                .map(|i| content(id, from_client, progress.sent + i))
                .collect();
            let rest = match (len == left, progress.trailers) {
                (false, _) => Rest::Pending,
                (true, false) => Rest::End,
                (true, true) => Rest::Open,
            };
            let out = &mut self.out;
            let sent = self.connection.send_data(ready.stream, &data, rest, out);
            assert_eq!(sent, len, "a turn lets through what it says");
            room -= sent;
            progress.sent += sent;
            if progress.sent == progress.length {
                if progress.trailers {
                    let fields = [(&b"X-End"[..], &b"yes"[..])].into_iter();
                    assert!(self.connection.send_trailers(ready.stream, fields, out));
                }
                progress.ended = true;
                self.settle(ready.stream);
            }
        }
    }

    /// Consumes up to `amount` units of each stream, and everything of ended streams.
    fn consume(&mut self, amount: usize) {
        let ids: Vec<u32> = self.streams.keys().copied().collect();
        let open: Vec<StreamId> = self.connection.streams().collect();
        for stream in open {
            if !ids.contains(&stream.number()) {
                continue;
            }
            let Some(progress) = self.streams.get_mut(&stream.number()) else {
                // The stream is already closed on this side.
                continue;
            };
            let len = progress.unconsumed.min(amount.saturating_mul(37));
            progress.unconsumed -= len;
            self.connection
                .consumed(stream, len, &self.limits, &mut self.out);
        }
    }

    /// Resets the stream that `amount` selects.
    fn give_up(&mut self, amount: usize) {
        let Some(stream) = self.connection.streams().nth(amount % 8) else {
            return;
        };
        let (limits, out) = (&self.limits, &mut self.out);
        self.connection.reset(stream, ErrorCode::CANCEL, out);
        self.connection.release(stream, limits, out);
        self.streams.remove(&stream.number());
    }

    /// Releases a stream that is complete in both directions.
    fn settle(&mut self, stream: StreamId) {
        let progress = &self.streams[&stream.number()];
        if !progress.complete || !progress.ended {
            return;
        }
        self.connection.set_priority(stream, Priority::new(7, true));
        self.streams.remove(&stream.number());
        self.connection.release(stream, &self.limits, &mut self.out);
    }
}
