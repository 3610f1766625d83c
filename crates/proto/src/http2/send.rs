//! Sends heads, DATA and stream errors, within the windows and in the order of priorities.
//!
//! The caller stores the bodies. It offers bytes of a stream, and the connection accepts as many as the windows allow. A stream
//! with more output waits in a queue until [`Connection::next_ready`] returns it.

use super::Role;
use super::connection::{Connection, Drain, STALL_BYTES_MIN, StreamId};
use super::error::ErrorCode;
use super::frame::{self, HEADER_BYTES, Header, Kind, STREAM_MAX, flag};
use super::hpack;
use super::limits::Limits;
use super::streams::{Place, Reading, ResetState, STREAMS_MAX, Stream, Writing};

/// Maximum bytes that one of several incremental streams sends per turn.
pub const TURN_BYTES: usize = 16_384;

/// State of the body after the offered bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The offered bytes end the stream.
    End,
    /// More bytes are available now: the stream waits for its turn.
    Pending,
    /// More bytes may follow later.
    Open,
}

/// The stream whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The stream.
    pub stream: StreamId,
    /// Maximum number of bytes that the stream may send now; never 0.
    pub bytes_max: usize,
}

/// Header of a DATA frame. The caller sends the payload after the header, from its own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFrame {
    /// Header bytes to send first.
    pub header: [u8; HEADER_BYTES],
    /// Number of offered bytes that follow the header.
    pub len: usize,
}

/// Pseudo-headers of a request.
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
    /// `:protocol` of an extended CONNECT.
    pub protocol: Option<&'a [u8]>,
}

/// Reason why no stream can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The connection failed or is going away. Use another connection.
    #[error("the connection is going away")]
    Leaving,
    /// The peer's limit of concurrent streams is reached; wait until one closes.
    #[error("there are as many streams as the peer takes")]
    StreamsTooMany,
    /// All stream identifiers are used; use another connection.
    #[error("the connection has no numbers for further streams")]
    Exhausted,
    /// The peer does not accept extended CONNECT (RFC 8441, section 3).
    #[error("the peer does not take extended CONNECT")]
    ConnectProtocol,
}

/// Heads and trailers.
impl Connection {
    /// Sends the head of a response. A status below 200 is an interim response, after which another head follows.
    ///
    /// Names are converted to lower case; connection-specific headers are skipped. All others must satisfy
    /// [`crate::response::valid_name`] and [`crate::response::valid_value`]. Returns false if the stream is closed and
    /// nothing was sent.
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

    /// Sends a head from a block made by [`hpack::encode_status`] and [`hpack::encode`]. A block is valid on every
    /// connection, so it can be encoded once for many.
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

    /// Ends a body with trailers. All data must have been sent before.
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

    /// Opens a stream with a request, on a client.
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

    /// Reserves space for a frame header and writes a pending table size update; returns the position of the header.
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

    /// Writes the header of the block that started at `start`; a block longer than a frame continues in CONTINUATION
    /// frames (RFC 9113, section 4.3).
    #[inline]
    pub(super) fn end_head(&mut self, out: &mut Vec<u8>, start: usize, id: u32, end: bool) {
        self.meters.earn(0);
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
            self.meters.answer();
        }
        let id = stream.id;
        self.end_head(out, start, id, end && !interim);
        self.streams.requeue(place);
    }

    /// Returns the stream's entry if the stream is open and `writing` is its state.
    #[inline]
    fn sendable(&self, stream: StreamId, writing: Writing) -> Option<Place> {
        let place = self.streams.find(stream.0)?;
        let found = self.streams.get(place);
        if found.reset_state != ResetState::Open || self.has_failed() {
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

/// Returns true if `name`, in any case, is a connection-specific header that must not be sent (RFC 9113, section
/// 8.2.2).
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

/// Splits a block that is longer than a frame may be.
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
    /// Sends as much of `data` as the windows allow and returns that number of bytes. 0 if the stream is closed.
    ///
    /// If bytes are left over, offer them again when the stream has its turn. Other streams may have waited longer: check
    /// [`Connection::has_ready`] first, and if it is true, call [`Connection::set_pending`] instead.
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

    /// Returns the header of a DATA frame for as many of `len` bytes as the windows and the frame size allow. The caller
    /// sends the bytes after it, so an event for many streams is never copied. Returns `None` if nothing can be sent.
    pub fn data_frame(&mut self, stream: StreamId, len: usize, rest: Rest) -> Option<DataFrame> {
        let place = self.sendable(stream, Writing::Body)?;
        let frame = self.take_frame(place, len, rest)?;
        self.streams.turn_over(place);
        Some(frame)
    }

    /// Returns the stream that has its turn and a window (RFC 9218, section 10), or `None` if no stream can send.
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

    /// Returns true if a stream waits that could send.
    #[inline]
    #[must_use]
    pub fn has_ready(&self) -> bool {
        self.send_window > 0 && self.streams.first_queued().is_some()
    }

    /// Sets whether a stream has output that was not offered.
    pub fn set_pending(&mut self, stream: StreamId, pending: bool) {
        if let Some(place) = self.streams.find(stream.0) {
            self.streams.get_mut(place).pending = pending;
            self.streams.requeue(place);
        }
    }

    /// Returns the number of bytes that a stream may send now, regardless of other streams. 0 if it is closed.
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

    /// Returns the header of one frame of at most `len` bytes and subtracts it from the windows.
    #[inline]
    fn take_frame(&mut self, place: Place, len: usize, rest: Rest) -> Option<DataFrame> {
        let connection_window = self.send_window;
        let stream = self.streams.get_mut(place);
        let window = stream.send_window.min(connection_window).max(0) as usize;
        let taken = len.min(window).min(self.peer.frame_bytes_max as usize);
        let all = taken == len;
        stream.pending = !all || rest == Rest::Pending;
        // An empty frame is sent only to end the stream.
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
        self.meters.earn(taken as u32);
        self.streams.requeue(place);
        Some(DataFrame {
            header: header.encode(),
            len: taken,
        })
    }
}

/// Flow control of received bodies, and the end of streams.
impl Connection {
    /// Reports that the caller consumed `len` bytes of DATA, so that the peer may send as many again.
    pub fn consumed(&mut self, stream: StreamId, len: usize, limits: &Limits, out: &mut Vec<u8>) {
        let Some(place) = self.streams.find(stream.0) else {
            return;
        };
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let len = self.streams.get_mut(place).consume(len);
        self.credit_connection(len, limits, out);
        self.credit_stream(place, len, limits, out);
    }

    /// Resets a stream. It still counts until it is released.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode, out: &mut Vec<u8>) {
        let Some(place) = self.streams.find(stream.0) else {
            return;
        };
        let failed = self.has_failed();
        let found = self.streams.get_mut(place);
        if found.reset_state == ResetState::Open && !failed {
            frame::write_reset(out, stream.0, code);
            found.reset_state = ResetState::ResetHere;
            self.streams.requeue(place);
        }
    }

    /// Removes a stream whose handler has returned and that has no output left. It no longer counts.
    ///
    /// A stream that is not complete is reset: with CANCEL if its output is incomplete, with NO_ERROR if only its input
    /// is (RFC 9113, section 8.1).
    pub fn release(&mut self, stream: StreamId, limits: &Limits, out: &mut Vec<u8>) {
        let Some(place) = self.streams.find(stream.0) else {
            return;
        };
        let found = self.streams.get(place);
        let unconsumed = found.unconsumed();
        let code = match (found.writing, found.reading, self.role) {
            (Writing::Ended, Reading::Ended, _) => None,
            // The response is complete, so the rest of the request is not needed. The client must not discard the response.
            (Writing::Ended, _, Role::Server) => Some(ErrorCode::NO_ERROR),
            _ => Some(ErrorCode::CANCEL),
        };
        if let Some(code) = code {
            self.reset(stream, code, out);
        }
        // The caller will not consume these bytes, but they still use the connection's window.
        self.credit_connection(unconsumed, limits, out);
        self.streams.remove(place);
    }
}
