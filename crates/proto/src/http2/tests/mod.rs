//! Tests of rules, floods, flow control and memory use, driven by the bytes of a peer.

mod attacks;
mod flow;
mod requests;
mod rules;
mod shutdown;

use super::frame::{self, Kind, PREFACE, flag};
use super::hpack;
use super::{
    Connection, ErrorCode, Event, Limits, Message, Opening, Origin, Priority, Rate, Rest, StreamId,
    Violation,
};
use crate::Refusal;

/// An event as an owned value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Received {
    Request(u32, bool),
    Response(u32, u16, bool),
    Data(u32, Vec<u8>, bool),
    Trailers(u32),
    Refused(u32, Refusal),
    Reset(u32, ErrorCode, Origin),
    Pong([u8; 8]),
    Settings,
    GoAway(u32, ErrorCode),
}

/// One sent frame.
#[derive(Clone, PartialEq, Eq)]
struct Sent {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            kind,
            flags,
            stream,
            payload,
        } = self;
        write!(
            f,
            "({kind:#x} {flags:#x} {stream} {})",
            payload.escape_ascii()
        )
    }
}

/// One side of a connection under test, with the frames that its peer sends.
struct End {
    connection: Connection,
    limits: Limits,
    message: Message,
    out: Vec<u8>,
    now_ms: u64,
}

impl End {
    /// Returns a server whose client has sent its preface and acknowledged SETTINGS.
    fn server(limits: Limits) -> Self {
        let mut out = Vec::new();
        let connection = Connection::server(&limits, 0, &mut out);
        let mut end = Self::new(connection, limits, out);
        let mut bytes = PREFACE.to_vec();
        frame::write(&mut bytes, Kind::Settings, 0, 0, &[]);
        frame::write(&mut bytes, Kind::Settings, flag::ACK, 0, &[]);
        assert_eq!(end.feed(&bytes), Ok(vec![Received::Settings]));
        end.sent();
        end
    }

    /// Returns a client whose server has sent and acknowledged SETTINGS.
    fn client(limits: Limits) -> Self {
        let mut out = Vec::new();
        let connection = Connection::client(&limits, 0, &mut out);
        assert!(out.starts_with(PREFACE));
        let mut end = Self::new(connection, limits, Vec::new());
        let mut bytes = Vec::new();
        frame::write(&mut bytes, Kind::Settings, 0, 0, &[]);
        frame::write(&mut bytes, Kind::Settings, flag::ACK, 0, &[]);
        assert_eq!(end.feed(&bytes), Ok(vec![Received::Settings]));
        end.sent();
        end
    }

    fn new(connection: Connection, limits: Limits, out: Vec<u8>) -> Self {
        Self {
            connection,
            limits,
            message: Message::new(),
            out,
            now_ms: 0,
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Received>, Violation> {
        let mut told = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let step = self.connection.handle(
                &bytes[at..],
                self.now_ms,
                &self.limits,
                &mut self.message,
                &mut self.out,
            )?;
            at += step.consumed;
            told.extend(step.event.map(|event| owned(event, &self.message)));
        }
        Ok(told)
    }

    /// Processes one received frame.
    fn frame(
        &mut self,
        kind: Kind,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> Result<Vec<Received>, Violation> {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, kind, flags, stream, payload);
        self.feed(&bytes)
    }

    /// Processes HEADERS with the fields of a usual request and then `fields`.
    fn request(
        &mut self,
        stream: u32,
        end: bool,
        fields: &[(&str, &str)],
    ) -> Result<Vec<Received>, Violation> {
        let mut all = USUAL.to_vec();
        all.extend_from_slice(fields);
        self.head(stream, end, &all)
    }

    fn head(
        &mut self,
        stream: u32,
        end: bool,
        fields: &[(&str, &str)],
    ) -> Result<Vec<Received>, Violation> {
        let flags = flag::END_HEADERS | if end { flag::END_STREAM } else { 0 };
        self.frame(Kind::Headers, flags, stream, &block(fields))
    }

    /// Opens a stream with an accepted request.
    fn open(&mut self, stream: u32, end: bool) -> StreamId {
        assert_eq!(
            self.request(stream, end, &[]),
            Ok(vec![Received::Request(stream, end)])
        );
        StreamId(stream)
    }

    /// Returns the frames sent since the last call.
    fn sent(&mut self) -> Vec<Sent> {
        let bytes = std::mem::take(&mut self.out);
        let mut rest = &bytes[..];
        let mut frames = Vec::new();
        if rest.starts_with(PREFACE) {
            rest = &rest[PREFACE.len()..];
        }
        while let Some((header, after)) = rest.split_first_chunk::<9>() {
            let header = frame::Header::parse(header);
            let (payload, after) = after.split_at(header.len as usize);
            frames.push(Sent {
                kind: header.kind,
                flags: header.flags,
                stream: header.stream,
                payload: payload.to_vec(),
            });
            rest = after;
        }
        assert!(rest.is_empty());
        frames
    }

    fn release(&mut self, stream: StreamId) {
        self.connection.release(stream, &self.limits, &mut self.out);
    }

    fn answer(&mut self, stream: StreamId, body: &[u8], rest: Rest) -> usize {
        let none = std::iter::empty();
        assert!(
            self.connection
                .send_head(stream, 200, none, false, &mut self.out)
        );
        self.connection.send_data(stream, body, rest, &mut self.out)
    }

    fn tick(&mut self) -> Result<Option<Event<'static>>, Violation> {
        self.connection
            .tick(self.now_ms, &self.limits, &mut self.out)
    }
}

fn owned(event: Event<'_>, message: &Message) -> Received {
    match event {
        Event::Request { stream, end } => Received::Request(stream.0, end),
        Event::Response { stream, end } => Received::Response(stream.0, message.status, end),
        Event::Data { stream, data, end } => Received::Data(stream.0, data.to_vec(), end),
        Event::Trailers { stream } => Received::Trailers(stream.0),
        Event::Refused { stream, refusal } => Received::Refused(stream.0, refusal),
        Event::Reset {
            stream,
            code,
            origin,
        } => Received::Reset(stream.0, code, origin),
        Event::Pong(payload) => Received::Pong(payload),
        Event::Settings => Received::Settings,
        Event::GoAway { last, code } => Received::GoAway(last, code),
    }
}

const USUAL: [(&str, &str); 4] = [
    (":method", "POST"),
    (":scheme", "https"),
    (":path", "/"),
    (":authority", "a.example"),
];

/// Encodes a block; names are not changed.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
        let mut len = value.len();
        if len < 127 {
            out.push(len as u8);
        } else {
            out.push(127);
            len -= 127;
            while len >= 128 {
                out.push(len as u8 | 128);
                len >>= 7;
            }
            out.push(len as u8);
        }
        out.extend_from_slice(value.as_bytes());
    }
    out
}

fn reset(stream: u32, code: ErrorCode) -> Sent {
    Sent {
        kind: Kind::RstStream as u8,
        flags: 0,
        stream,
        payload: code.0.to_be_bytes().to_vec(),
    }
}

fn window_update(stream: u32, increment: u32) -> Sent {
    Sent {
        kind: Kind::WindowUpdate as u8,
        flags: 0,
        stream,
        payload: increment.to_be_bytes().to_vec(),
    }
}

fn data(stream: u32, end: bool, payload: &[u8]) -> Sent {
    Sent {
        kind: Kind::Data as u8,
        flags: u8::from(end),
        stream,
        payload: payload.to_vec(),
    }
}

/// Returns the content of the last frame, a GOAWAY.
fn go_away(frames: &[Sent]) -> (u32, ErrorCode) {
    let last = frames.last().expect("a frame was sent");
    assert_eq!(last.kind, Kind::GoAway as u8);
    let word = |at: usize| {
        let bytes = last.payload[at..].first_chunk::<4>().expect("eight bytes");
        u32::from_be_bytes(*bytes)
    };
    (word(0), ErrorCode(word(4)))
}

/// An idle connection and a held stream use no more memory than documented.
#[test]
fn sizes() {
    let mut end = End::server(Limits::default());
    let idle = size_of::<Connection>() + end.connection.kept_bytes();
    assert!(idle <= 512, "{idle}");
    for i in 0..100 {
        end.open(i * 2 + 1, true);
    }
    let held = end.connection.kept_bytes() / 100;
    assert!(held <= 96, "{held}");
    for i in 0..100 {
        end.answer(StreamId(i * 2 + 1), b"", Rest::End);
        end.release(StreamId(i * 2 + 1));
    }
    let idle = size_of::<Connection>() + end.connection.kept_bytes();
    assert!(idle <= 512, "{idle}");
}

/// The peer's header table uses memory only after an insertion, and none if the peer limits it to 0.
#[test]
fn the_table_exists_when_the_peer_inserts() {
    let mut end = End::server(Limits::default());
    end.open(1, true);
    end.release(StreamId(1));
    let before = end.connection.kept_bytes();
    let mut block = vec![0x83, 0x87, 0x84, 0x41, 9];
    block.extend_from_slice(b"a.example");
    let flags = flag::END_HEADERS | flag::END_STREAM;
    assert!(end.frame(Kind::Headers, flags, 3, &block).is_ok());
    end.release(StreamId(3));
    let with_table = end.connection.kept_bytes();
    assert!(
        with_table > before && with_table < before + 300,
        "{with_table}"
    );
    assert!(
        end.frame(
            Kind::Headers,
            flags,
            5,
            &[0x20, 0x83, 0x87, 0x84, 0x01, 1, b'a']
        )
        .is_ok()
    );
    end.release(StreamId(5));
    assert_eq!(end.connection.kept_bytes(), before);
}
