//! HTTP/2: many exchanges over one socket.
//!
//! To the rest of the engine, each stream is a connection with its own exchange, deadlines, output
//! and input; its [`Line`](super::line::Line) is a stream instead of a socket. The *carrier* does
//! for streams what the kernel does for sockets: it accepts bytes as far as windows and turns
//! permit, signals when it accepts more bytes, and provides bytes to read. So holds, streams,
//! files, bodies and WebSockets use the same code over both. A stream whose window is exhausted is
//! treated like a client that does not read: the policy for slow clients applies, and other clients
//! are not delayed.
//!
//! A carrier is a connection with a socket, in [`Stage::Http2`](crate::http::exchange::Stage).
//! Output of its streams is collected in `Carrier::out` and written to the socket once at the end
//! of the turn.
//!
//! Price: bytes of a stream are copied once more, and a stream is as large as an idle connection.

mod carry;
mod receive;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use fermata_config::Settings;
use fermata_io::{Deadline, Peer};
use fermata_proto::http2::{
    Connection as Machine, ErrorCode, Limits, Message, Rate, Rest, StreamId,
};

use super::index::ConnectionIndex;
use super::slab::Slab;
use crate::admin::stats::Counter;
use crate::missed::{Known, missed};
use crate::net::line::{Line, StreamPlace};

/// Maximum number of DATA bytes queued for the socket before streams wait: more would only use
/// memory and delay urgent data.
const ROOM_BYTES: usize = 64 * 1024;

/// Burst of resets, in seconds of the rate limit: when a user leaves a page, the browser cancels
/// all its requests.
const RESETS_BURST_S: u32 = 30;

/// Burst of other frames, in seconds of the rate limit, for single actions of a client that cause
/// many frames.
const FRAMES_BURST_S: u32 = 2;

/// Divisor of the rate limit for updates of the connection's window: there is one connection
/// window, but one window per stream.
const CONNECTION_WINDOW_UPDATES_PART: usize = 5;

/// Index of a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CarrierPlace(pub u32);

/// The HTTP/2 connections of a worker.
pub(crate) struct Http2 {
    pub is_on: bool,
    pub limits: Limits,
    /// The last parsed head.
    message: Message,
    carriers: Slab<Box<Carrier>>,
    streams: Slab<Stream>,
    /// Number of streams per address, if limited.
    addresses: HashMap<IpAddr, u32>,
    per_address_max: usize,
    /// Maximum number of streams.
    len_max: usize,
    /// Carriers with output for the end of the turn.
    dirty: Vec<ConnectionIndex>,
    /// Reused buffer for a header block.
    block: Vec<u8>,
    /// Trailers of the streams with `has_trailers`, by index.
    trailers: HashMap<u32, Trailers>,
}

/// Names and values of trailer fields.
pub(crate) type Trailers = Vec<(Vec<u8>, Vec<u8>)>;

/// A connection that carries streams.
struct Carrier {
    /// Index of the connection with the socket.
    index: ConnectionIndex,
    machine: Machine,
    /// Frames that were not yet moved to the connection's output.
    out: Vec<u8>,
    /// The stream whose turn it is, and the bytes it may still send.
    turn: Option<(StreamId, usize)>,
    /// Number of streams with `is_blocked`.
    blocked: u32,
    is_dirty: bool,
    /// Time since which the connection has no streams; `None` if it has streams.
    idle_since_ms: Option<u64>,
    /// Time of the state machine's next timeout check; never if nothing waits.
    tick: Deadline,
}

/// A stream, as seen by its carrier.
struct Stream {
    carrier: CarrierPlace,
    id: StreamId,
    /// The response head was sent.
    has_head: bool,
    /// The end of the response was sent.
    has_ended: bool,
    /// The stream was reset by either side.
    is_reset: bool,
    /// The stream has bytes that were not accepted.
    is_blocked: bool,
    /// The response ends with trailers.
    has_trailers: bool,
}

/// The limit that a stream exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    /// `streams_per_address_max`
    Address,
    /// `connections_max`
    Worker,
}

impl Beyond {
    /// Returns the counter, and the status and text of the response.
    fn refusal(self) -> (Counter, u16, &'static str) {
        match self {
            Beyond::Address => (
                Counter::Http2RefusedPerAddress,
                429,
                "The server's limit streams_per_address_max is reached.\n",
            ),
            Beyond::Worker => (
                Counter::Http2RefusedConnections,
                503,
                "The server's limit connections_max is reached.\n",
            ),
        }
    }
}

impl Http2 {
    pub fn new() -> Http2 {
        Http2 {
            is_on: false,
            limits: Limits::default(),
            message: Message::new(),
            carriers: Slab::new(),
            streams: Slab::new(),
            addresses: HashMap::new(),
            per_address_max: 0,
            len_max: usize::MAX,
            dirty: Vec::new(),
            block: Vec::new(),
            trailers: HashMap::new(),
        }
    }

    /// Applies the settings.
    pub fn configure(&mut self, settings: &Settings) {
        let ms = |ms: u64| u32::try_from(ms).unwrap_or(u32::MAX);
        let count = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let rate = |per_second: usize, burst_seconds: u32| {
            let per_second = u32::try_from(per_second).unwrap_or(u32::MAX);
            Rate::new(per_second, per_second.saturating_mul(burst_seconds))
        };
        let resets = rate(settings.http2_resets_per_second_max, RESETS_BURST_S);
        let window_updates = settings.http2_window_updates_per_second_max;
        self.is_on = settings.http2 == "on";
        self.len_max = settings.connections_max;
        // A hundred streams cost as much as a hundred connections.
        self.per_address_max = match settings.streams_per_address_max {
            0 => settings.connections_per_address_max,
            max => max,
        };
        // Clients receive this limit in SETTINGS and queue further requests.
        let streams_max = match self.per_address_max {
            0 => self.len_max,
            max => max.min(self.len_max),
        };
        self.limits = Limits {
            streams_max: settings.streams_per_connection_max.min(count(streams_max)),
            header_list_bytes_max: settings.header_bytes_max as u32,
            headers_count_max: count(settings.headers_count_max),
            target_bytes_max: settings.target_bytes_max as u32,
            stream_window_bytes: settings.stream_window_bytes as u32,
            connection_window_bytes: settings.connection_window_bytes as u32,
            write_timeout_ms: ms(settings.write_timeout_ms),
            resets,
            resets_caused: resets,
            pings: rate(settings.http2_pings_per_second_max, 1),
            settings: rate(settings.http2_settings_per_second_max, 1),
            empty_data: rate(settings.http2_empty_data_per_second_max, 1),
            connection_window_updates: rate(window_updates / CONNECTION_WINDOW_UPDATES_PART, 1),
            stream_window_updates: rate(window_updates, FRAMES_BURST_S),
            priorities: rate(settings.http2_priorities_per_second_max, FRAMES_BURST_S),
            unknown_frames: rate(settings.http2_unknown_frames_per_second_max, FRAMES_BURST_S),
            continuations_max: u8::try_from(settings.http2_continuations_max).unwrap_or(u8::MAX),
            ..Limits::default()
        };
    }

    /// Returns the number of streams.
    pub fn streams_len(&self) -> usize {
        self.streams.len()
    }

    /// Returns the number of connections that carry streams.
    pub fn carriers_len(&self) -> usize {
        self.carriers.len()
    }

    /// Returns the number of addresses with counted streams.
    #[cfg(test)]
    pub fn addresses_len(&self) -> usize {
        self.addresses.len()
    }

    /// Returns true if carriers have output for the end of the turn.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Returns the connection with the socket that carries a stream.
    pub fn carrier_of(&self, place: StreamPlace) -> Option<ConnectionIndex> {
        let stream = self.streams.at(place.0)?;
        Some(self.carriers.at(stream.carrier.0)?.index)
    }

    /// Returns the bytes of a stream's connection that the kernel has not accepted.
    pub fn unsent_bytes(&self, place: StreamPlace) -> usize {
        let stream = self.streams.at(place.0);
        let carrier = stream.and_then(|it| self.carriers.at(it.carrier.0));
        carrier.map_or(0, |it| it.out.len())
    }

    /// Sends a head. `write` appends its fields as a header block. Returns false if the stream
    /// accepts no head.
    pub fn send_head(
        &mut self,
        place: StreamPlace,
        status: u16,
        ends: bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        write(&mut block);
        let has_sent = self.send_block(place, status, &block, ends);
        self.block = block;
        has_sent
    }

    fn send_block(&mut self, place: StreamPlace, status: u16, block: &[u8], ends: bool) -> bool {
        let Some(stream) = self.streams.at_mut(place.0) else {
            return missed(false);
        };
        if stream.is_reset || stream.has_head {
            return false;
        }
        // The stream's connection may have closed earlier.
        let Some(carrier) = self.carriers.at_mut(stream.carrier.0) else {
            return false;
        };
        let (machine, out) = (&mut carrier.machine, &mut carrier.out);
        let has_sent = machine.send_block(stream.id, status, block, ends, out);
        stream.has_head = status >= 200;
        stream.has_ended = has_sent && ends;
        carrier.mark(&mut self.dirty);
        has_sent
    }

    /// Sends bytes, like `Driver::send` for a socket: accepts what windows, turns and room permit.
    /// If some bytes are not accepted, the carrier signals when the stream may continue. `rest`
    /// specifies what follows.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn send(
        &mut self,
        place: StreamPlace,
        slices: &[&[u8]],
        rest: Rest,
    ) -> io::Result<Option<usize>> {
        let stream = self.streams.at_mut(place.0);
        let stream = stream.ok_or(io::ErrorKind::NotConnected)?;
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        if stream.has_ended || total == 0 && rest != Rest::End {
            return Ok(Some(total));
        }
        let carrier = self.carriers.at_mut(stream.carrier.0);
        let carrier = carrier.ok_or(io::ErrorKind::NotConnected)?;
        if stream.is_reset || !stream.has_head {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let allowed = match carrier.turn {
            Some((id, left)) if id == stream.id => left,
            // Streams that have waited longer go first.
            _ if carrier.machine.has_ready() => 0,
            _ => usize::MAX,
        };
        let room = ROOM_BYTES.saturating_sub(carrier.out.len());
        let offered = total.min(allowed).min(room);
        if offered == 0 && total > 0 {
            carrier.machine.set_pending(stream.id, true);
            carrier.note_blocked(stream, true);
            carrier.mark(&mut self.dirty);
            return Ok(None);
        }
        // With trailers, the HEADERS frame of the trailers ends the stream, not the last DATA
        // frame.
        let ends_by_trailers = stream.has_trailers && rest == Rest::End;
        let rest = match rest {
            _ if offered < total => Rest::Pending,
            _ if ends_by_trailers => Rest::Open,
            rest => rest,
        };
        let (mut sent, mut source) = (0, Source::new(slices));
        while let Some(frame) = carrier.machine.data_frame(stream.id, offered - sent, rest) {
            carrier.out.reserve(frame.header.len() + frame.len);
            carrier.out.extend_from_slice(&frame.header);
            source.take(frame.len, &mut carrier.out);
            sent += frame.len;
            if sent == offered {
                break;
            }
        }
        if let Some((id, left)) = &mut carrier.turn
            && *id == stream.id
        {
            *left -= sent.min(*left);
        }
        stream.has_ended = sent == total && rest == Rest::End;
        if ends_by_trailers && sent == total {
            carrier.machine.set_pending(stream.id, false);
            let trailers = self.trailers.remove(&place.0).unwrap_or_default();
            let fields = trailers.iter().map(|(name, value)| (&name[..], &value[..]));
            carrier
                .machine
                .send_trailers(stream.id, fields, &mut carrier.out);
            stream.has_ended = true;
        }
        carrier.note_blocked(stream, sent < total);
        carrier.mark(&mut self.dirty);
        Ok((sent > 0 || total == 0).then_some(sent))
    }

    /// Sets the trailers of a stream; their names and values must be valid in a head.
    pub fn set_trailers(&mut self, place: StreamPlace, trailers: Trailers) {
        if let Some(stream) = self.streams.at_mut(place.0).known() {
            stream.has_trailers = true;
            self.trailers.insert(place.0, trailers);
        }
    }

    /// Notes that bytes of a line were consumed: on a stream, the client may send as many more.
    #[inline]
    pub fn consumed(&mut self, line: Line, bytes: usize) {
        if let Some(place) = line.stream() {
            self.open_window(place, bytes);
        }
    }

    fn open_window(&mut self, place: StreamPlace, bytes: usize) {
        if let Some(stream) = self.streams.at(place.0).known()
            && let Some(carrier) = self.carriers.at_mut(stream.carrier.0).known()
        {
            let (machine, out) = (&mut carrier.machine, &mut carrier.out);
            machine.consumed(stream.id, bytes, &self.limits, out);
            if !out.is_empty() {
                carrier.mark(&mut self.dirty);
            }
        }
    }

    /// Resets a stream.
    pub fn reset(&mut self, place: StreamPlace, code: ErrorCode) {
        if let Some(stream) = self.streams.at_mut(place.0).known()
            && !std::mem::replace(&mut stream.is_reset, true)
            && let Some(carrier) = self.carriers.at_mut(stream.carrier.0).known()
        {
            carrier.machine.reset(stream.id, code, &mut carrier.out);
            carrier.mark(&mut self.dirty);
        }
    }

    /// Returns true if a stream was reset.
    pub fn is_reset(&self, place: StreamPlace) -> bool {
        self.streams.at(place.0).is_none_or(|it| it.is_reset)
    }

    /// Counts a stream for the limit of its client's address. Returns the limit that the stream
    /// exceeds, if any.
    fn count(&mut self, peer: Peer) -> Option<Beyond> {
        let mut is_crowded = false;
        if self.per_address_max > 0
            && let Some(address) = peer.ip()
        {
            let count = self.addresses.entry(address).or_insert(0);
            *count += 1;
            is_crowded = *count as usize > self.per_address_max;
        }
        if self.streams.len() >= self.len_max {
            Some(Beyond::Worker)
        } else {
            is_crowded.then_some(Beyond::Address)
        }
    }

    /// Removes a stream from the counts after its connection entry was closed.
    pub fn release(&mut self, place: StreamPlace, peer: Peer) {
        if self.per_address_max > 0
            && let Some(address) = peer.ip()
            && let Some(count) = self.addresses.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
        let Some(mut stream) = self.streams.remove(place.0) else {
            return missed(());
        };
        if stream.has_trailers {
            self.trailers.remove(&place.0);
        }
        if let Some(carrier) = self.carriers.at_mut(stream.carrier.0).known() {
            carrier.note_blocked(&mut stream, false);
            let (machine, out) = (&mut carrier.machine, &mut carrier.out);
            machine.release(stream.id, &self.limits, out);
            carrier.mark(&mut self.dirty);
        }
    }
}

impl Carrier {
    fn mark(&mut self, dirty: &mut Vec<ConnectionIndex>) {
        if !std::mem::replace(&mut self.is_dirty, true) {
            dirty.push(self.index);
        }
    }

    fn note_blocked(&mut self, stream: &mut Stream, is_blocked: bool) {
        if stream.is_blocked != is_blocked {
            stream.is_blocked = is_blocked;
            if is_blocked {
                self.blocked += 1;
            } else {
                self.blocked -= 1;
            }
        }
    }
}

/// Bytes in several slices.
struct Source<'a> {
    slices: &'a [&'a [u8]],
    /// Bytes of the first slice that were consumed.
    taken: usize,
}

impl<'a> Source<'a> {
    fn new(slices: &'a [&'a [u8]]) -> Source<'a> {
        Source { slices, taken: 0 }
    }

    fn take(&mut self, mut len: usize, out: &mut Vec<u8>) {
        while len > 0
            && let Some(first) = self.slices.first()
        {
            let rest = &first[self.taken..];
            if len < rest.len() {
                out.extend_from_slice(&rest[..len]);
                self.taken += len;
                return;
            }
            out.extend_from_slice(rest);
            len -= rest.len();
            self.slices = &self.slices[1..];
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum memory in bytes of an HTTP/2 connection in addition to an HTTP/1 connection, and of
    /// a stream in addition to its connection entry.
    const CARRIER_BYTES_MAX: usize = 512;
    const STREAM_BYTES_MAX: usize = 96;

    const STREAMS: u32 = 100;

    fn feed(machine: &mut Machine, bytes: &[u8]) {
        let (mut message, mut out, mut at) = (Message::new(), Vec::new(), 0);
        let limits = Limits::default();
        while at < bytes.len() {
            let step = machine.handle(&bytes[at..], 0, &limits, &mut message, &mut out);
            at += step.expect("a client as any other").consumed;
        }
    }

    #[test]
    fn limits_the_memory_of_a_connection_and_its_streams() {
        let mut machine = Machine::server(&Limits::default(), 0, &mut Vec::new());
        let preface = fermata_proto::http2::frame::PREFACE;
        let settings = [[0, 0, 0, 4, 0, 0, 0, 0, 0], [0, 0, 0, 4, 1, 0, 0, 0, 0]].concat();
        feed(&mut machine, &[&preface[..], &settings].concat());
        let idle = machine.kept_bytes();
        let carrier = size_of::<Carrier>() + Slab::<Box<Carrier>>::ENTRY_BYTES + idle;
        assert!(carrier <= CARRIER_BYTES_MAX, "{carrier}");
        // The first request puts `:authority` into the dynamic table, as browsers do; the others
        // refer to it.
        let first: &[u8] = &[0x82, 0x87, 0x84, 0x41, 1, b'a'];
        let others: &[u8] = &[0x82, 0x87, 0x84, 0xbe];
        for nth in 0..STREAMS {
            let get = if nth == 0 { first } else { others };
            let id = (nth * 2 + 1).to_be_bytes();
            let head = [0, 0, get.len() as u8, 1, 5, id[0], id[1], id[2], id[3]];
            feed(&mut machine, &[&head[..], get].concat());
        }
        assert_eq!(machine.streams_count(), STREAMS as usize);
        let held = (machine.kept_bytes() - idle) / STREAMS as usize;
        let stream = held + Slab::<Stream>::ENTRY_BYTES;
        assert!(stream <= STREAM_BYTES_MAX, "{held} and {}", stream - held);
    }
}
