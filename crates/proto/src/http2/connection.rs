//! State of one connection: events, shutdown and errors.

use super::Role;
use super::error::{ErrorCode, Violation};
use super::flood::{Flood, Meters};
use super::frame::{self, HEADER_BYTES, Header, PREFACE, STREAM_MAX, WINDOW_INITIAL};
use super::hpack::Decoder;
use super::limits::Limits;
use super::priority::Priority;
use super::settings::{self, Settings};
use super::streams::{ResetState, Stalled, Streams};
use crate::Refusal;

/// A stream identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(super) u32);

impl StreamId {
    /// Returns the identifier as a number.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// An event of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request; its head is in the `Message`. The caller must call [`Connection::release`] for the stream later.
    Request {
        /// Stream of the request.
        stream: StreamId,
        /// True if the request has no body.
        end: bool,
    },
    /// A response or an interim response, on a client; its head is in the `Message`.
    Response {
        /// Stream of the request.
        stream: StreamId,
        /// True if the response has no body.
        end: bool,
    },
    /// A piece of a body; may be empty at the end.
    Data {
        /// Stream of the body.
        stream: StreamId,
        /// The bytes, borrowed from the input.
        data: &'a [u8],
        /// True for the last piece.
        end: bool,
    },
    /// Trailers, which end the body; they are in the `Message`.
    Trailers {
        /// Stream of the trailers.
        stream: StreamId,
    },
    /// A request that was malformed or exceeded a limit. The response was already sent, and the stream is closed and has no entry.
    Refused {
        /// Stream of the request; calls do not accept this stream.
        stream: StreamId,
        /// Reason; its status was sent in the response.
        refusal: Refusal,
    },
    /// A stream was reset. Nothing more can be received or sent on it; the caller must still call
    /// [`Connection::release`].
    Reset {
        /// The stream.
        stream: StreamId,
        /// Error code in RST_STREAM.
        code: ErrorCode,
        /// Side that reset the stream.
        origin: Origin,
    },
    /// The acknowledgement of [`Connection::ping`].
    Pong([u8; 8]),
    /// The peer changed its settings.
    Settings,
    /// GOAWAY: the peer opens and accepts no further streams. It did not process this side's streams above `last`.
    GoAway {
        /// Last stream that the peer processed or may still process.
        last: u32,
        /// Error code of the GOAWAY.
        code: ErrorCode,
    },
}

/// Side that reset a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The peer.
    Peer,
    /// This side, because of the peer's violation.
    Here(Violation),
}

/// Result of one call of [`Connection::handle`].
#[derive(Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Bytes of the input that were processed; all of them if there is no event.
    pub consumed: usize,
    /// The event; call again with the rest of the input.
    pub event: Option<Event<'a>>,
}

/// Position of the parser in the input.
#[derive(Debug)]
pub(super) enum Input {
    /// In the preface, of which this many bytes have arrived. Only for servers.
    Preface(u8),
    /// In a frame header, of which this many bytes have arrived.
    Header([u8; HEADER_BYTES], u8),
    /// In the payload of a frame that is parsed as one piece; it is collected in `Partial::payload`.
    Payload(Header),
    /// In the payload of a DATA frame.
    Data(Data),
    /// In a payload that is ignored; this many bytes remain.
    Skip(u32),
    /// The connection failed; no further input is parsed.
    Failed(Violation),
}

/// The rest of a DATA frame whose stream accepts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub stream: u32,
    /// Payload bytes that have not arrived, including the padding and its length field.
    pub missing: u32,
    /// Length of the padding; `None` until the length field arrives.
    pub padding: Option<u8>,
    pub end: bool,
}

/// Parts of a payload or header block that have arrived. Allocated only while there are some.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// Received part of a frame's payload.
    pub payload: Vec<u8>,
    /// A header block whose last frame has not arrived.
    pub block: Option<Block>,
}

/// A header block in several frames.
#[derive(Debug)]
pub(super) struct Block {
    pub stream: u32,
    pub end_stream: bool,
    /// True if the HEADERS frame made the stream depend on itself.
    pub depends_on_itself: bool,
    pub continuations: u8,
    pub bytes: Vec<u8>,
}

/// Progress of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// New streams are accepted.
    Open,
    /// The first GOAWAY and a PING were sent.
    Announced {
        /// Time of the first GOAWAY: low half of the caller's clock, wrapping.
        at_ms: u32,
    },
    /// The second GOAWAY was sent; streams above `last` are ignored.
    Final { last: u32 },
}

/// Payload of the PING between the two GOAWAY frames of [`Connection::drain`].
pub(super) const DRAIN_PING: [u8; 8] = *b"fm-drain";

/// Stream identifier and priority of a PRIORITY_UPDATE that arrived before the stream was opened.
pub(super) type EarlyPriority = (u32, Priority);

/// Number of streams whose priority is stored before they are opened (RFC 9218, section 7.1).
pub(super) const EARLY_PRIORITIES: usize = 4;

/// Number of bytes that a stalled stream must send to restart its write time-out. Without this minimum, a peer could hold a
/// response for ever by opening the window for one byte at a time.
pub(super) const STALL_BYTES_MIN: u16 = 4096;

/// One connection. The module documentation lists the caller's duties.
#[derive(Debug)]
pub struct Connection {
    pub(super) role: Role,
    pub(super) input: Input,
    pub(super) partial: Option<Box<Partial>>,
    pub(super) decoder: Decoder,
    pub(super) streams: Streams,
    pub(super) peer: Settings,
    /// Send window of the connection.
    pub(super) send_window: i32,
    /// Receive window of the connection.
    pub(super) receive_window: i32,
    /// Number of consumed bytes that no WINDOW_UPDATE has reported yet.
    pub(super) unreported: u32,
    /// Highest stream that the peer opened.
    pub(super) peer_last: u32,
    /// Next stream that this side opens.
    pub(super) own_next: u32,
    pub(super) meters: Meters,
    pub(super) early: [EarlyPriority; EARLY_PRIORITIES],
    /// Time when SETTINGS were sent that the peer has not acknowledged.
    pub(super) settings_sent_ms: Option<u32>,
    pub(super) drain: Drain,
    /// True after the peer's first SETTINGS arrived.
    pub(super) settings_seen: bool,
    /// True after the peer sent GOAWAY.
    pub(super) peer_leaves: bool,
    /// True if the next header block must start with a dynamic table size update to 0.
    pub(super) size_update_due: bool,
    /// True after the table size update was sent. It is needed only once.
    pub(super) size_update_sent: bool,
    /// Number of DATA and HEADERS frames that may still arrive without counting as a flood: on streams that were refused before
    /// the client knew the limit of streams.
    pub(super) uninformed_frames: u16,
}

impl Connection {
    /// Creates the server side of a connection, at the first byte of the preface. Appends its SETTINGS to `out`.
    #[must_use]
    pub fn server(limits: &Limits, now_ms: u64, out: &mut Vec<u8>) -> Self {
        let mut connection = Self::new(Role::Server, now_ms);
        connection.begin(limits, out);
        connection
    }

    /// Creates the client side of a connection. Appends preface and SETTINGS to `out`; streams can be opened immediately.
    #[must_use]
    pub fn client(limits: &Limits, now_ms: u64, out: &mut Vec<u8>) -> Self {
        let mut connection = Self::new(Role::Client, now_ms);
        out.extend_from_slice(PREFACE);
        connection.begin(limits, out);
        connection
    }

    fn new(role: Role, now_ms: u64) -> Self {
        Self {
            role,
            input: match role {
                Role::Server => Input::Preface(0),
                Role::Client => Input::Header([0; HEADER_BYTES], 0),
            },
            partial: None,
            decoder: Decoder::new(),
            streams: Streams::new(),
            peer: Settings::initial(),
            send_window: WINDOW_INITIAL,
            receive_window: WINDOW_INITIAL,
            unreported: 0,
            peer_last: 0,
            own_next: 1,
            meters: Meters::default(),
            early: [(0, Priority::USUAL); EARLY_PRIORITIES],
            settings_sent_ms: Some(now_ms as u32),
            drain: Drain::Open,
            settings_seen: false,
            peer_leaves: false,
            size_update_due: false,
            size_update_sent: false,
            uninformed_frames: 0,
        }
    }

    fn begin(&mut self, limits: &Limits, out: &mut Vec<u8>) {
        settings::write_own(out, self.role, limits);
        // SETTINGS do not change the connection's window. Only WINDOW_UPDATE does (RFC 9113, section 6.9.2).
        let more = connection_window(limits) - self.receive_window;
        if more > 0 {
            frame::write_window_update(out, 0, more as u32);
            self.receive_window += more;
        }
    }

    /// Starts a graceful shutdown that does not refuse requests already sent (RFC 9113, section 6.8).
    ///
    /// Sends GOAWAY with the highest stream identifier, and a PING. When the PING is acknowledged or the time-out passes,
    /// sends GOAWAY with the last stream.
    pub fn drain(&mut self, now_ms: u64, out: &mut Vec<u8>) {
        if self.drain == Drain::Open && !self.has_failed() {
            frame::write_go_away(out, STREAM_MAX, ErrorCode::NO_ERROR, b"");
            frame::write_ping(out, 0, DRAIN_PING);
            self.drain = Drain::Announced {
                at_ms: now_ms as u32,
            };
        }
    }

    /// Sends GOAWAY with the last stream immediately; streams above it are ignored.
    pub fn drain_now(&mut self, out: &mut Vec<u8>) {
        if matches!(self.drain, Drain::Final { .. }) || self.has_failed() {
            return;
        }
        frame::write_go_away(out, self.peer_last, ErrorCode::NO_ERROR, b"");
        self.drain = Drain::Final {
            last: self.peer_last,
        };
    }

    /// Checks time-outs: unacknowledged SETTINGS, output without a window, and a shutdown without acknowledgement.
    ///
    /// Call it about once a second, and repeat the call while it returns an event.
    ///
    /// # Errors
    /// The peer did not acknowledge SETTINGS in time. `out` contains GOAWAY; send it and close.
    pub fn tick(
        &mut self,
        now_ms: u64,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static>>, Violation> {
        let now = now_ms as u32;
        if let Input::Failed(violation) = self.input {
            return Err(violation);
        }
        if let Some(sent) = self.settings_sent_ms
            && now.wrapping_sub(sent) >= limits.settings_timeout_ms
        {
            return Err(self.fail(Violation::SettingsTimeout, out));
        }
        if let Drain::Announced { at_ms } = self.drain
            && now.wrapping_sub(at_ms) >= limits.drain_timeout_ms
        {
            self.drain_now(out);
        }
        for nth in 0..self.streams.len() {
            let Some(place) = self.streams.nth(nth) else {
                break;
            };
            let blocked = self.send_window <= 0;
            let stream = self.streams.get_mut(place);
            if !stream.pending || !stream.can_send() || !(blocked || stream.send_window <= 0) {
                stream.stalled = None;
                continue;
            }
            let stalled = *stream.stalled.get_or_insert(Stalled {
                at_ms: now,
                bytes: 0,
            });
            if now.wrapping_sub(stalled.at_ms) >= limits.write_timeout_ms {
                let id = StreamId(stream.id);
                let event = self.reset_here(place, Violation::Stalled, out);
                debug_assert!(matches!(event, Event::Reset { stream, .. } if stream == id));
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Sends a PING; its acknowledgement is an [`Event::Pong`] with the same payload.
    pub fn ping(&self, payload: [u8; 8], out: &mut Vec<u8>) {
        if !self.has_failed() {
            frame::write_ping(out, 0, payload);
        }
    }

    /// Closes the connection for a local reason with GOAWAY and `code`. The caller must send the output and close.
    pub fn abort(&mut self, code: ErrorCode, out: &mut Vec<u8>) {
        if !self.has_failed() {
            frame::write_go_away(out, self.peer_last, code, b"");
            self.input = Input::Failed(Violation::Aborted);
            self.partial = None;
        }
    }

    /// Returns the number of streams, including closed streams that were not released.
    #[must_use]
    pub fn streams_count(&self) -> usize {
        self.streams.len()
    }

    /// Returns the streams in ascending order, including closed streams that were not released.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        let places = self.streams.places();
        places.map(|place| StreamId(self.streams.get(place).id))
    }

    /// Returns true if the shutdown is complete, which means that no streams remain and no new streams are accepted.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let leaves = matches!(self.drain, Drain::Final { .. }) || self.peer_leaves;
        leaves && self.streams.len() == 0
    }

    /// Returns true if a time-out of [`Connection::tick`] is running: for the acknowledgement of SETTINGS, or for that of a
    /// shutdown. Does not include the time-out of blocked output.
    #[must_use]
    pub fn awaits_answer(&self) -> bool {
        self.settings_sent_ms.is_some() || matches!(self.drain, Drain::Announced { .. })
    }

    /// Returns true if the parser is between frames and outside of a header block.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        matches!(self.input, Input::Header(_, 0)) && self.partial.is_none()
    }

    /// Returns true if the peer accepts extended CONNECT (RFC 8441, section 3).
    #[must_use]
    pub fn peer_takes_connect_protocol(&self) -> bool {
        self.peer.connect_protocol
    }

    /// Returns the number that the caller assigned to a stream: 0 until it is assigned, `None` after the stream was released.
    #[inline]
    #[must_use]
    pub fn context(&self, stream: StreamId) -> Option<u32> {
        let place = self.streams.find(stream.0)?;
        Some(self.streams.get(place).context)
    }

    /// Attaches a number of the caller's choice to a stream.
    #[inline]
    pub fn set_context(&mut self, stream: StreamId, context: u32) {
        if let Some(place) = self.streams.find(stream.0) {
            self.streams.get_mut(place).context = context;
        }
    }

    /// Returns the priority of a stream's response.
    #[must_use]
    pub fn priority(&self, stream: StreamId) -> Option<Priority> {
        let place = self.streams.find(stream.0)?;
        Some(self.streams.get(place).priority)
    }

    /// Changes the priority; a server may override the client's (RFC 9218, section 8).
    pub fn set_priority(&mut self, stream: StreamId, priority: Priority) {
        if let Some(place) = self.streams.find(stream.0) {
            self.streams.set_priority(place, priority);
        }
    }

    /// Returns the number of heap bytes: streams, the decoder's table, and incomplete data.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let partial = self.partial.as_ref().map_or(0, |partial| {
            let block = partial.block.as_ref();
            size_of::<Partial>()
                + partial.payload.capacity()
                + block.map_or(0, |block| block.bytes.capacity())
        });
        self.streams.kept_bytes() + self.decoder.kept_bytes() + partial
    }

    /// Returns the role of this side.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the connection's send and receive windows.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn windows(&self) -> (i64, i64) {
        (i64::from(self.send_window), i64::from(self.receive_window))
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.input, Input::Failed(_))
    }

    /// Fails the connection because of the peer's violation.
    #[cold]
    pub(super) fn fail(&mut self, violation: Violation, out: &mut Vec<u8>) -> Violation {
        let debug = violation.to_string();
        frame::write_go_away(out, self.peer_last, violation.code(), debug.as_bytes());
        self.input = Input::Failed(violation);
        self.partial = None;
        violation
    }

    /// Records that all output was passed to the kernel. From now on the peer may have received it.
    #[inline]
    pub fn note_flushed(&mut self) {
        self.meters.flushed(self.peer_last);
    }

    /// Counts a frame of a kind that accompanies HEADERS and DATA, unless their credit covers it.
    #[inline]
    pub(super) fn charge(
        &mut self,
        flood: Flood,
        now_ms: u64,
        limits: &Limits,
    ) -> Result<(), Violation> {
        let charged = self.meters.charge(flood, limits.rate(flood), now_ms);
        charged.map_err(Violation::Flood)
    }

    /// Counts a frame of a rate-limited kind.
    #[inline]
    pub(super) fn count(
        &mut self,
        flood: Flood,
        now_ms: u64,
        limits: &Limits,
    ) -> Result<(), Violation> {
        let counted = self.meters.count(flood, limits.rate(flood), now_ms);
        counted.map_err(Violation::Flood)
    }

    /// Resets a stream known to the caller because of the peer's violation.
    pub(super) fn reset_here(
        &mut self,
        place: super::streams::Place,
        violation: Violation,
        out: &mut Vec<u8>,
    ) -> Event<'static> {
        let code = violation.code();
        let stream = self.streams.get_mut(place);
        let id = stream.id;
        frame::write_reset(out, id, code);
        stream.reset_state = ResetState::ResetHere;
        self.streams.requeue(place);
        Event::Reset {
            stream: StreamId(id),
            code,
            origin: Origin::Here(violation),
        }
    }
}

/// Returns the connection's receive window, which cannot be smaller than its initial value (RFC 9113, section 6.9.2).
pub(super) fn connection_window(limits: &Limits) -> i32 {
    i32::try_from(limits.connection_window_bytes)
        .unwrap_or(i32::MAX)
        .max(WINDOW_INITIAL)
}
