//! What the engine remembers of the socket of one client, or of a stream in its place (`http2`); what is asked and answered
//! over it is its `Exchange`.
//!
//! An idle connection is these two and nothing else: no buffer, no heap block. `inbox` and `out` hold memory only while
//! bytes are in flight.

use fermata_io::buffer::{Buffer, Pool};
use fermata_io::{Deadline, Peer};

use crate::net::deadline::Armed;
use crate::net::line::Line;
use crate::net::own_addresses::OwnAddress;

/// Sent bytes at the front of `out` that are not worth removing.
const COMPACT_BYTES_MIN: usize = 16 * 1024;

/// Where a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The public listener: requests go to routes.
    Public,
    /// The control socket: requests are answered by `control`.
    Control,
    /// The listener for metrics and health: requests are answered by `metrics`.
    Metrics,
    /// A listener of the embedder: see `wires`.
    Own,
}

/// What a connection is there for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A proxy says of its client who that is, by the PROXY protocol, before anything else.
    Preface,
    /// Exchanges.
    Open,
    /// Our side is finished; what arrives is dropped until the peer closes, so that the kernel
    /// does not answer unread bytes with a reset that would destroy our last response.
    Lingering,
}

/// How far the head of the next request is, and whether its deadline is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The first one: its deadline has been set when the connection was opened.
    First,
    /// Nothing of it has come.
    Next,
    /// It has begun, and its deadline is set.
    Begun,
}

/// What happens when `out` has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// More responses may follow.
    Open,
    /// Close at once: the request was read to its end.
    Close,
    /// Close after lingering: the peer may still be sending.
    Linger,
}

/// The bytes of one client, and what is due for it.
pub(crate) struct Connection {
    pub line: Line,
    pub peer: Peer,
    pub own: OwnAddress,
    pub origin: Origin,
    pub phase: Phase,
    pub writing: Writing,
    pub awaited: Awaited,
    /// The request in progress allows another one after it.
    pub keeps_alive: bool,
    /// The driver reports its events; set at the end of its first turn.
    pub is_watched: bool,
    /// It has proved to stay, and is counted as such: see `balance`.
    pub is_settled: bool,
    /// Listed in `Net::dirty`.
    pub is_dirty: bool,
    /// Listed in `Net::again`.
    pub is_again: bool,
    /// The kernel took less than we had; a writable event will come.
    pub is_blocked: bool,
    /// A request or an answer is on its way longer than one turn; counted in `Gauges::active`.
    pub is_active: bool,
    /// The last read filled the buffer or an event was passed over: the socket may hold more.
    pub has_unread: bool,
    /// The peer has sent its end of stream, which may still be behind unread bytes.
    pub has_hung_up: bool,
    /// The peer's end of stream has been read.
    pub has_ended: bool,
    /// Responses piled up over `queue_bytes_max`, or a file is on its way; parsing goes on when
    /// they are sent.
    pub is_paused: bool,
    /// Sent bytes at the front of `out`. Invariant: `out_sent <= out.len()`.
    pub out_sent: u32,
    /// Bytes for the client that the kernel has not taken yet.
    pub out: Buffer,
    /// Bytes from the client that are not parsed yet.
    pub inbox: Buffer,
    /// When something is due for this connection.
    pub deadline: Deadline,
    /// Due time of its live entry in the wheel.
    /// Invariant: it is not after `deadline`, unless that is never.
    pub armed: Armed,
}

impl Connection {
    pub fn new(line: Line, peer: Peer, origin: Origin) -> Connection {
        Connection {
            line,
            peer,
            own: OwnAddress::UNKNOWN,
            origin,
            phase: Phase::Open,
            writing: Writing::Open,
            awaited: Awaited::First,
            keeps_alive: true,
            is_watched: false,
            is_settled: false,
            is_dirty: false,
            is_again: false,
            is_blocked: false,
            is_active: false,
            has_unread: false,
            has_hung_up: false,
            has_ended: false,
            is_paused: false,
            out_sent: 0,
            out: Buffer::default(),
            inbox: Buffer::default(),
            deadline: Deadline::NEVER,
            armed: Armed::NONE,
        }
    }

    /// A request's head has been read; whether its client may send another one.
    #[inline]
    pub fn note_head(&mut self, keeps_alive: bool) {
        self.awaited = Awaited::Next;
        self.keeps_alive = keeps_alive;
    }

    /// Whether its output has only to be sent, as far as it is concerned.
    #[inline]
    pub fn rests_when_sent(&self) -> bool {
        self.writing == Writing::Open
            && self.is_settled
            && !(self.is_blocked | self.is_active | self.is_paused)
    }

    /// Takes a buffer for its output, if it has none.
    #[inline]
    pub fn take_buffer(&mut self, pool: &mut Pool) -> &mut Buffer {
        if self.out.capacity() == 0 {
            self.out = pool.take();
        }
        &mut self.out
    }

    /// Bytes that wait for the kernel.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.out.len() - self.out_sent as usize
    }

    /// Notes that the kernel has taken bytes up to `sent` of `out`. True when they have been removed.
    ///
    /// A client that is never quite up to date would otherwise make `out` grow for ever. What has been
    /// sent is removed when it is more than what has not, so each byte is moved once at most.
    pub fn drop_sent(&mut self, sent: usize) -> bool {
        let removes = sent > COMPACT_BYTES_MIN && sent > self.out.len() - sent
            || u32::try_from(sent).is_err();
        if removes {
            self.out.drain(..sent);
            self.out_sent = 0;
        } else {
            self.out_sent = sent as u32;
        }
        removes
    }
}
