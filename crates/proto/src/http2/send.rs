//! What this side says: heads, DATA by windows and turns, and the end of streams.
//!
//! Bodies stay with the embedder. It offers bytes of a stream, and as many are taken as the windows let through; a stream
//! that has more waits in a queue until [`Connection::next_ready`] says that it is its turn.

use super::Role;
use super::connection::{Connection, Drain, STALL_BYTES_MIN, StreamId};
use super::error::ErrorCode;
use super::frame::{self, HEADER_BYTES, Header, Kind, STREAM_MAX, flag};
use super::hpack;
use super::limits::Limits;
use super::streams::{Place, Reading, STREAMS_MAX, Standing, Stream, Writing};

/// Bytes that one of several incremental streams sends before it is the next one's turn.
pub const TURN_BYTES: usize = 16_384;

/// Bytes sent that WINDOW_UPDATE may be set against later.
const CREDIT_BYTES_MAX: u32 = 1 << 24;

/// What follows the bytes that are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing: the stream ends with them.
    End,
    /// More, which is there already: the stream waits for its turn.
    Pending,
    /// Perhaps more, later.
    Open,
}

/// A stream whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Which.
    pub stream: StreamId,
    /// Bytes that it may send now; never 0.
    pub bytes_max: usize,
}

/// The header of a DATA frame whose payload the embedder sends behind it, from wherever it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFrame {
    /// What goes first.
    pub header: [u8; HEADER_BYTES],
    /// How many of the offered bytes follow it.
    pub len: usize,
}

/// A request's pseudo-headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening<'a> {
    /// `:method`
    pub method: &'a [u8],
    /// `:scheme`
    pub scheme: &'a [u8],
    /// `:authority`
    pub authority: &'a [u8],
    /// `:path`
    pub path: &'a [u8],
    /// `:protocol` of extended CONNECT.
    pub protocol: Option<&'a [u8]>,
}

/// Why no stream can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The connection has failed or is going away; use another one.
    #[error("the connection is going away")]
    Leaving,
    /// There are as many as the peer takes; wait until one has ended.
    #[error("there are as many streams as the peer takes")]
    StreamsTooMany,
    /// All numbers are used up; use another connection.
    #[error("the connection has no numbers for further streams")]
    Exhausted,
    /// The peer does not take extended CONNECT (RFC 8441, 3).
    #[error("the peer does not take extended CONNECT")]
    ConnectProtocol,
}

/// Heads and trailers.
impl Connection {
    /// Sends a response's head. A status below 200 is informational, and another head follows.
    ///
    /// Names become lower-case; headers of a connection are left out. The others must hold only what
    /// [`crate::response::valid_name`] and [`crate::response::valid_value`] accept. Gives whether it was sent: not when the
    /// stream is over.
    pub fn send_head<'f>(
        &mut self,
        stream: StreamId,
        status: u16,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(place) = self.sendable(stream, Writing::Head) else {
            return false;
        };
        let start = self.begin_head(out);
        hpack::encode_status(out, status);
        encode_fields(fields, out);
        self.head_sent(place, status, end, start, out);
        true
    }

    /// The same with a block that [`hpack::encode_status`] and [`hpack::encode`] have made: good for any connection, so it can
    /// be made once for many.
    pub fn send_block(
        &mut self,
        stream: StreamId,
        status: u16,
        block: &[u8],
        end: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(place) = self.sendable(stream, Writing::Head) else {
            return false;
        };
        let start = self.begin_head(out);
        out.extend_from_slice(block);
        self.head_sent(place, status, end, start, out);
        true
    }

    /// Ends a body with trailers. Everything before them must have been sent.
    pub fn send_trailers<'f>(
        &mut self,
        stream: StreamId,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(place) = self.sendable(stream, Writing::Body) else {
            return false;
        };
        let start = self.begin_head(out);
        encode_fields(fields, out);
        self.end_head(out, start, stream.0, true);
        let found = self.streams.get_mut(place);
        debug_assert!(!found.pending, "trailers come behind the body");
        found.writing = Writing::Ended;
        found.pending = false;
        self.streams.requeue(place);
        true
    }

    /// Opens a stream with a request (a client's).
    ///
    /// # Errors
    /// See [`OpenError`]; nothing was sent.
    pub fn open<'f>(
        &mut self,
        opening: &Opening<'_>,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        end: bool,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Result<StreamId, OpenError> {
        debug_assert!(self.role == Role::Client);
        if self.has_failed() || self.peer_leaves || self.drain != Drain::Open {
            return Err(OpenError::Leaving);
        }
        if self.own_next > STREAM_MAX {
            return Err(OpenError::Exhausted);
        }
        if self.streams.len() >= STREAMS_MAX.min(self.peer.streams_max as usize) {
            return Err(OpenError::StreamsTooMany);
        }
        if opening.protocol.is_some() && !self.peer.connect_protocol {
            return Err(OpenError::ConnectProtocol);
        }
        let id = self.own_next;
        self.own_next += 2;
        let start = self.begin_head(out);
        opening.encode(out);
        encode_fields(fields, out);
        self.end_head(out, start, id, end);
        let reading = Reading::Head {
            bodiless: opening.method == b"HEAD",
            interims: 0,
        };
        let mut stream = Stream::new(id, reading, self.peer.window, self.own_window(limits));
        stream.writing = if end { Writing::Ended } else { Writing::Body };
        self.streams.add(stream);
        Ok(StreamId(id))
    }

    /// Room for a frame's header, and what every header block may have to begin with; gives where it starts.
    #[inline]
    pub(super) fn begin_head(&mut self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        if self.size_update_due {
            out.push(hpack::SIZE_UPDATE_TO_ZERO);
            self.size_update_due = false;
            self.size_update_sent = true;
        }
        start
    }

    /// Writes the header of the block that began at `start`; a long one goes on in CONTINUATION (RFC 9113, 4.3).
    #[inline]
    pub(super) fn end_head(&mut self, out: &mut Vec<u8>, start: usize, id: u32, end: bool) {
        let block_start = start + HEADER_BYTES;
        let max = self.peer.frame_bytes_max as usize;
        let len = out.len() - block_start;
        let flags = if end { flag::END_STREAM } else { 0 };
        if len > max {
            return long_head(out, block_start, max, id, flags);
        }
        let header = Header {
            len: len as u32,
            kind: Kind::Headers as u8,
            flags: flags | flag::END_HEADERS,
            stream: id,
        };
        out[start..block_start].copy_from_slice(&header.encode());
    }

    fn head_sent(&mut self, place: Place, status: u16, end: bool, start: usize, out: &mut Vec<u8>) {
        let interim = status < 200;
        debug_assert!(!(interim && end), "an informational head ends nothing");
        let stream = self.streams.get_mut(place);
        if !interim {
            stream.writing = if end { Writing::Ended } else { Writing::Body };
        }
        let id = stream.id;
        self.end_head(out, start, id, end && !interim);
        self.streams.requeue(place);
    }

    /// The stream, if it is where it has to be for what is to be sent.
    #[inline]
    fn sendable(&self, stream: StreamId, writing: Writing) -> Option<Place> {
        let place = self.streams.find(stream.0)?;
        let found = self.streams.get(place);
        if found.standing != Standing::Open || self.has_failed() {
            return None;
        }
        debug_assert!(
            found.writing == writing,
            "a head, its body, its end: in this order"
        );
        (found.writing == writing).then_some(place)
    }
}

impl Opening<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self.method {
            b"GET" => hpack::encode_indexed(out, 2),
            b"POST" => hpack::encode_indexed(out, 3),
            method => hpack::encode(out, b":method", method),
        }
        match self.scheme {
            b"http" => hpack::encode_indexed(out, 6),
            b"https" => hpack::encode_indexed(out, 7),
            scheme => hpack::encode(out, b":scheme", scheme),
        }
        match self.path {
            b"/" => hpack::encode_indexed(out, 4),
            path => hpack::encode(out, b":path", path),
        }
        hpack::encode(out, b":authority", self.authority);
        if let Some(protocol) = self.protocol {
            hpack::encode(out, b":protocol", protocol);
        }
    }
}

#[inline]
fn encode_fields<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, out: &mut Vec<u8>) {
    for (name, value) in fields {
        if !is_of_connection(name) {
            hpack::encode(out, name, value);
        }
    }
}

/// Whether `name`, in any case, means the connection and must not be sent (RFC 9113, 8.2.2).
#[inline]
#[must_use]
pub fn is_of_connection(name: &[u8]) -> bool {
    match name.len() {
        7 => name.eq_ignore_ascii_case(b"upgrade"),
        10 => name.eq_ignore_ascii_case(b"connection") || name.eq_ignore_ascii_case(b"keep-alive"),
        16 => name.eq_ignore_ascii_case(b"proxy-connection"),
        17 => name.eq_ignore_ascii_case(b"transfer-encoding"),
        _ => false,
    }
}

/// A block longer than a frame may be.
#[cold]
fn long_head(out: &mut Vec<u8>, block_start: usize, max: usize, id: u32, flags: u8) {
    let block = out.split_off(block_start);
    out.truncate(block_start - HEADER_BYTES);
    let frames = block.len().div_ceil(max);
    for (nth, fragment) in block.chunks(max).enumerate() {
        let last = if nth + 1 == frames {
            flag::END_HEADERS
        } else {
            0
        };
        if nth == 0 {
            frame::write(out, Kind::Headers, flags | last, id, fragment);
        } else {
            frame::write(out, Kind::Continuation, last, id, fragment);
        }
    }
}

/// Bodies.
impl Connection {
    /// Sends as much of `data` as the windows let through, and gives how much that was; nothing when the stream is over.
    ///
    /// When that is not all, offer the rest again once it is the stream's turn. Streams that have waited longer may be before
    /// it: ask [`Connection::has_ready`] first, and then rather [`Connection::set_pending`].
    pub fn send_data(
        &mut self,
        stream: StreamId,
        data: &[u8],
        rest: Rest,
        out: &mut Vec<u8>,
    ) -> usize {
        let Some(place) = self.sendable(stream, Writing::Body) else {
            return 0;
        };
        let mut sent = 0;
        while let Some(frame) = self.take_frame(place, data.len() - sent, rest) {
            out.reserve(HEADER_BYTES + frame.len);
            out.extend_from_slice(&frame.header);
            out.extend_from_slice(&data[sent..sent + frame.len]);
            sent += frame.len;
            if sent == data.len() {
                break;
            }
        }
        if sent > 0 {
            self.streams.turn_over(place);
        }
        sent
    }

    /// The header of one frame for as much of `len` bytes as the windows and the size of frames let through. The embedder
    /// sends them behind it: an event that goes to many streams is copied to none. `None` when nothing can be sent.
    pub fn data_frame(&mut self, stream: StreamId, len: usize, rest: Rest) -> Option<DataFrame> {
        let place = self.sendable(stream, Writing::Body)?;
        let frame = self.take_frame(place, len, rest)?;
        self.streams.turn_over(place);
        Some(frame)
    }

    /// The stream whose turn it is to send: of those that wait and have a window, by RFC 9218, 10. `None` when there is none.
    #[inline]
    #[must_use]
    pub fn next_ready(&self) -> Option<Ready> {
        if self.send_window <= 0 || self.has_failed() {
            return None;
        }
        let place = self.streams.first_queued()?;
        let stream = self.streams.get(place);
        let window = stream.send_window.min(self.send_window) as usize;
        let shares = stream.priority.is_incremental() && self.streams.shares_turns(place);
        Some(Ready {
            stream: StreamId(stream.id),
            bytes_max: if shares {
                window.min(TURN_BYTES)
            } else {
                window
            },
        })
    }

    /// Whether any stream waits that could send.
    #[inline]
    #[must_use]
    pub fn has_ready(&self) -> bool {
        self.send_window > 0 && self.streams.first_queued().is_some()
    }

    /// Says whether a stream has output that was not offered.
    pub fn set_pending(&mut self, stream: StreamId, pending: bool) {
        if let Some(place) = self.streams.find(stream.0) {
            self.streams.get_mut(place).pending = pending;
            self.streams.requeue(place);
        }
    }

    /// Bytes that a stream may send now, whoever waits; 0 when it is over.
    #[must_use]
    pub fn window(&self, stream: StreamId) -> usize {
        let Some(place) = self.streams.find(stream.0) else {
            return 0;
        };
        let found = self.streams.get(place);
        if !found.can_send() {
            return 0;
        }
        found.send_window.min(self.send_window).max(0) as usize
    }

    /// One frame of at most `len` bytes, taken from the windows.
    #[inline]
    fn take_frame(&mut self, place: Place, len: usize, rest: Rest) -> Option<DataFrame> {
        let connection_window = self.send_window;
        let stream = self.streams.get_mut(place);
        let window = stream.send_window.min(connection_window).max(0) as usize;
        let taken = len.min(window).min(self.peer.frame_bytes_max as usize);
        let all = taken == len;
        stream.pending = !all || rest == Rest::Pending;
        if taken == 0 && !(all && rest == Rest::End) {
            self.streams.requeue(place);
            return None;
        }
        let end = all && rest == Rest::End;
        if end {
            stream.writing = Writing::Ended;
        }
        stream.send_window -= taken as i32;
        if let Some(stalled) = &mut stream.stalled {
            stalled.bytes = stalled.bytes.saturating_add(taken.min(0xffff) as u16);
            if stalled.bytes >= STALL_BYTES_MIN || !stream.pending {
                stream.stalled = None;
            }
        }
        let header = Header {
            len: taken as u32,
            kind: Kind::Data as u8,
            flags: if end { flag::END_STREAM } else { 0 },
            stream: stream.id,
        };
        self.send_window -= taken as i32;
        self.connection_credit = (self.connection_credit + taken as u32).min(CREDIT_BYTES_MAX);
        self.stream_credit = (self.stream_credit + taken as u32).min(CREDIT_BYTES_MAX);
        self.streams.requeue(place);
        Some(DataFrame {
            header: header.encode(),
            len: taken,
        })
    }
}

/// The embedder's end of received bodies, and of streams.
impl Connection {
    /// The embedder has room for as many bytes of DATA as it was given: the peer may send them again.
    pub fn consumed(&mut self, stream: StreamId, len: usize, limits: &Limits, out: &mut Vec<u8>) {
        let Some(place) = self.streams.find(stream.0) else {
            return;
        };
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let len = self.streams.get_mut(place).consume(len);
        self.credit_connection(len, limits, out);
        self.credit_stream(place, len, limits, out);
    }

    /// Ends a stream at once. It still counts until it is released.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode, out: &mut Vec<u8>) {
        let Some(place) = self.streams.find(stream.0) else {
            return;
        };
        let failed = self.has_failed();
        let found = self.streams.get_mut(place);
        if found.standing == Standing::Open && !failed {
            frame::write_reset(out, stream.0, code);
            found.standing = Standing::ResetHere;
            self.streams.requeue(place);
        }
    }

    /// The embedder is done with a stream: its handler has returned, and no output is left. From now on it does not count.
    ///
    /// One that has not ended is reset: with CANCEL when its output is not whole; with NO_ERROR when only its input is
    /// not (RFC 9113, 8.1).
    pub fn release(&mut self, stream: StreamId, limits: &Limits, out: &mut Vec<u8>) {
        let Some(place) = self.streams.find(stream.0) else {
            return;
        };
        let found = self.streams.get(place);
        let unconsumed = found.unconsumed();
        let code = match (found.writing, found.reading, self.role) {
            (Writing::Ended, Reading::Ended, _) => None,
            (Writing::Ended, _, Role::Server) => Some(ErrorCode::NO_ERROR),
            _ => Some(ErrorCode::CANCEL),
        };
        if let Some(code) = code {
            self.reset(stream, code, out);
        }
        self.credit_connection(unconsumed, limits, out);
        self.streams.remove(place);
    }
}
