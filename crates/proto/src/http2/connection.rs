//! One connection: its state, what it tells, and its end.

use super::Role;
use super::error::{ErrorCode, Violation};
use super::flood::{Flood, Meters};
use super::frame::{self, HEADER_BYTES, Header, PREFACE, STREAM_MAX, WINDOW_INITIAL};
use super::hpack::Decoder;
use super::limits::Limits;
use super::priority::Priority;
use super::settings::{self, Settings};
use super::streams::{Stalled, Standing, Streams};
use crate::Refusal;

/// The number of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(super) u32);

impl StreamId {
    /// The number as it is on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Something the peer has sent, or that came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request; its head is in the `Message`. [`Connection::release`] is owed from now on.
    Request {
        /// Its stream.
        stream: StreamId,
        /// Whether there is no body.
        end: bool,
    },
    /// A response, or an informational one; its head is in the `Message`. To a client only.
    Response {
        /// The stream of its request.
        stream: StreamId,
        /// Whether there is no body.
        end: bool,
    },
    /// Part of a body. May be empty at the end.
    Data {
        /// Its stream.
        stream: StreamId,
        /// Lent from the input.
        data: &'a [u8],
        /// Whether it was the last.
        end: bool,
    },
    /// The body has ended with trailers, which are in the `Message`.
    Trailers {
        /// Their stream.
        stream: StreamId,
    },
    /// A request was malformed or too much. It was answered and is over; no stream came of it.
    Refused {
        /// Its stream, which nothing more can be done with.
        stream: StreamId,
        /// Why; its status was the answer.
        refusal: Refusal,
    },
    /// A stream is over before its end. Nothing more comes of it or can be sent; [`Connection::release`] is still owed.
    Reset {
        /// Which.
        stream: StreamId,
        /// The code on the wire.
        code: ErrorCode,
        /// The side that ended it.
        origin: Origin,
    },
    /// The answer to [`Connection::ping`].
    Pong([u8; 8]),
    /// The peer has changed its settings.
    Settings,
    /// The peer opens or takes no further streams. Those of a client above `last` were not looked at.
    GoAway {
        /// The last stream it has looked at.
        last: u32,
        /// Why.
        code: ErrorCode,
    },
}

/// The side that reset a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The peer.
    Peer,
    /// This side, for what the peer did.
    Here(Violation),
}

/// What one call of [`Connection::handle`] came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Bytes of the input that are done with. All of them when there is no event.
    pub consumed: usize,
    /// What they held; call again with the rest.
    pub event: Option<Event<'a>>,
}

/// Where in the input the connection is.
#[derive(Debug)]
pub(super) enum Input {
    /// So many bytes of the preface have come. A server's only.
    Preface(u8),
    /// So many bytes of a frame's header have come.
    Header([u8; HEADER_BYTES], u8),
    /// In the payload of a frame that is needed whole; it comes in `Partial::payload`.
    Payload(Header),
    /// In DATA.
    Data(Data),
    /// In what does not matter: so many bytes.
    Skip(u32),
    /// It has failed; nothing more is read.
    Failed(Violation),
}

/// The rest of a DATA frame whose stream takes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub stream: u32,
    /// Bytes of payload to come, with padding and its length.
    pub missing: u32,
    /// How many of them are padding; `None` until its length has come.
    pub padding: Option<u8>,
    pub end: bool,
}

/// What has come of something that is not whole. Only then it exists.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// The payload of a frame, as far as it has come.
    pub payload: Vec<u8>,
    /// A header block whose end has not come.
    pub block: Option<Block>,
}

/// A header block in several frames.
#[derive(Debug)]
pub(super) struct Block {
    pub stream: u32,
    pub end_stream: bool,
    /// Whether the frame said that the stream depends on itself.
    pub depends_on_itself: bool,
    pub continuations: u8,
    pub bytes: Vec<u8>,
}

/// How far the connection is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// It takes new streams.
    Open,
    /// The first GOAWAY was sent, and a PING behind it.
    Announced {
        /// Low half of the embedder's clock, wrapping.
        at_ms: u32,
    },
    /// The second GOAWAY was sent; streams above `last` are ignored.
    Final { last: u32 },
}

/// The PING between the two GOAWAY of [`Connection::drain`].
pub(super) const DRAIN_PING: [u8; 8] = *b"fm-drain";

/// What one PRIORITY_UPDATE said of a stream that was not open yet.
pub(super) type Early = (u32, Priority);

/// Streams whose priority is kept before they are open (RFC 9218, 7.1).
pub(super) const EARLY_PRIORITIES: usize = 4;

/// A stream that waited goes on waiting unless it could send at least this much meanwhile.
pub(super) const STALL_BYTES_MIN: u16 = 4096;

/// One connection. See the module for what its embedder owes.
#[derive(Debug)]
pub struct Connection {
    pub(super) role: Role,
    pub(super) input: Input,
    pub(super) partial: Option<Box<Partial>>,
    pub(super) decoder: Decoder,
    pub(super) streams: Streams,
    pub(super) peer: Settings,
    /// What may be sent of all streams.
    pub(super) send_window: i32,
    /// What the peer may send of all streams.
    pub(super) receive_window: i32,
    /// Bytes consumed that the peer was not told of.
    pub(super) unreported: u32,
    /// The highest stream that the peer has opened.
    pub(super) peer_last: u32,
    /// The next stream that this side opens.
    pub(super) own_next: u32,
    pub(super) meters: Meters,
    pub(super) early: [Early; EARLY_PRIORITIES],
    /// When SETTINGS were sent that were not acknowledged.
    pub(super) settings_sent_ms: Option<u32>,
    pub(super) drain: Drain,
    /// The peer has sent its first SETTINGS.
    pub(super) settings_seen: bool,
    /// The peer has sent GOAWAY.
    pub(super) peer_leaves: bool,
    /// Bytes sent that no WINDOW_UPDATE of the connection was set against yet.
    pub(super) connection_credit: u32,
    /// The same for those of streams.
    pub(super) stream_credit: u32,
    /// The next header block has to begin with the change of the table's size to 0.
    pub(super) size_update_due: bool,
    /// It was said once, so it need not be again.
    pub(super) size_update_sent: bool,
    /// Frames that may still come of streams that were refused before the client knew of the limit: DATA and trailers.
    pub(super) uninformed_frames: u16,
}

impl Connection {
    /// A server's, at the first byte of the preface. Its SETTINGS are appended to `out`.
    #[must_use]
    pub fn server(limits: &Limits, now_ms: u64, out: &mut Vec<u8>) -> Self {
        let mut connection = Self::new(Role::Server, now_ms);
        connection.begin(limits, out);
        connection
    }

    /// A client's. Preface and SETTINGS are appended to `out`; streams may be opened at once.
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
            connection_credit: 0,
            stream_credit: 0,
            size_update_due: false,
            size_update_sent: false,
            uninformed_frames: 0,
        }
    }

    fn begin(&mut self, limits: &Limits, out: &mut Vec<u8>) {
        settings::write_own(out, self.role, limits);
        let more = connection_window(limits) - self.receive_window;
        if more > 0 {
            frame::write_window_update(out, 0, more as u32);
            self.receive_window += more;
        }
    }

    /// Asks the client to open no further streams, without refusing those on their way (RFC 9113, 6.8): GOAWAY with the
    /// highest number and a PING; when its answer has come, or time is over, GOAWAY with the last stream.
    pub fn drain(&mut self, now_ms: u64, out: &mut Vec<u8>) {
        if self.drain == Drain::Open && !self.has_failed() {
            frame::write_go_away(out, STREAM_MAX, ErrorCode::NO_ERROR, b"");
            frame::write_ping(out, 0, DRAIN_PING);
            self.drain = Drain::Announced {
                at_ms: now_ms as u32,
            };
        }
    }

    /// Names the last stream at once: what comes above it is ignored.
    pub fn drain_now(&mut self, out: &mut Vec<u8>) {
        if matches!(self.drain, Drain::Final { .. }) || self.has_failed() {
            return;
        }
        frame::write_go_away(out, self.peer_last, ErrorCode::NO_ERROR, b"");
        self.drain = Drain::Final {
            last: self.peer_last,
        };
    }

    /// Looks at what has waited for too long: SETTINGS without acknowledgement, output without a window, a drain without
    /// an answer. Call it about once a second, and again while it gives an event.
    ///
    /// # Errors
    /// SETTINGS were not acknowledged in time. GOAWAY is in `out`; send it and close.
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

    /// Asks for a sign of life: [`Event::Pong`] with the same payload.
    pub fn ping(&self, payload: [u8; 8], out: &mut Vec<u8>) {
        if !self.has_failed() {
            frame::write_ping(out, 0, payload);
        }
    }

    /// Ends the connection for a reason of this side's: GOAWAY with `code`. Send it and close.
    pub fn abort(&mut self, code: ErrorCode, out: &mut Vec<u8>) {
        if !self.has_failed() {
            frame::write_go_away(out, self.peer_last, code, b"");
            self.input = Input::Failed(Violation::Aborted);
            self.partial = None;
        }
    }

    /// Streams that count, among them those that are over and not released.
    #[must_use]
    pub fn streams_count(&self) -> usize {
        self.streams.len()
    }

    /// The streams that count, ascending.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        let places = self.streams.places();
        places.map(|place| StreamId(self.streams.get(place).id))
    }

    /// Whether [`Connection::drain`] has come to its end: there are no streams, and none will come.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let leaves = matches!(self.drain, Drain::Final { .. }) || self.peer_leaves;
        leaves && self.streams.len() == 0
    }

    /// Whether [`Connection::tick`] has something to wait for beside output without a window.
    #[must_use]
    pub fn awaits_answer(&self) -> bool {
        self.settings_sent_ms.is_some() || matches!(self.drain, Drain::Announced { .. })
    }

    /// Whether the input has ended between frames and outside of a header block.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        matches!(self.input, Input::Header(_, 0)) && self.partial.is_none()
    }

    /// Whether the peer takes extended CONNECT (RFC 8441, 3).
    #[must_use]
    pub fn peer_takes_connect_protocol(&self) -> bool {
        self.peer.connect_protocol
    }

    /// The embedder's own number of a stream; 0 until it was set, `None` when the stream was released.
    #[inline]
    #[must_use]
    pub fn context(&self, stream: StreamId) -> Option<u32> {
        let place = self.streams.find(stream.0)?;
        Some(self.streams.get(place).context)
    }

    /// Gives a stream a number of the embedder's own.
    #[inline]
    pub fn set_context(&mut self, stream: StreamId, context: u32) {
        if let Some(place) = self.streams.find(stream.0) {
            self.streams.get_mut(place).context = context;
        }
    }

    /// The priority of a stream's response.
    #[must_use]
    pub fn priority(&self, stream: StreamId) -> Option<Priority> {
        let place = self.streams.find(stream.0)?;
        Some(self.streams.get(place).priority)
    }

    /// Changes it: the server may know better (RFC 9218, 8).
    pub fn set_priority(&mut self, stream: StreamId, priority: Priority) {
        if let Some(place) = self.streams.find(stream.0) {
            self.streams.set_priority(place, priority);
        }
    }

    /// Bytes on the heap: streams, the decoder's table, and what is not whole.
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

    /// Which end this is.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The connection's windows: what may be sent, and what may come.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn windows(&self) -> (i64, i64) {
        (i64::from(self.send_window), i64::from(self.receive_window))
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.input, Input::Failed(_))
    }

    /// Ends the connection for what the peer did.
    #[cold]
    pub(super) fn fail(&mut self, violation: Violation, out: &mut Vec<u8>) -> Violation {
        let debug = violation.to_string();
        frame::write_go_away(out, self.peer_last, violation.code(), debug.as_bytes());
        self.input = Input::Failed(violation);
        self.partial = None;
        violation
    }

    /// Counts one frame of a kind that can be too many.
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

    /// Resets a stream that the embedder knows of, for what the peer did.
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
        stream.standing = Standing::ResetHere;
        self.streams.requeue(place);
        Event::Reset {
            stream: StreamId(id),
            code,
            origin: Origin::Here(violation),
        }
    }
}

/// The connection's window, which SETTINGS cannot make smaller than it begins with (RFC 9113, 6.9.2).
pub(super) fn connection_window(limits: &Limits) -> i32 {
    i32::try_from(limits.connection_window_bytes)
        .unwrap_or(i32::MAX)
        .max(WINDOW_INITIAL)
}
