//! The state of one client's socket or of an HTTP/2 stream (`http2`). Its requests and responses
//! are in its `Exchange`.
//!
//! An idle connection consists of these two structures, without buffers or heap blocks. `inbox` and
//! `out` use memory only while bytes are in flight.

use fermata_io::buffer::{Buffer, Pool};
use fermata_io::{Deadline, Peer};

use crate::net::buffered::LARGE_BYTES;
use crate::net::deadline::Armed;
use crate::net::line::Line;
use crate::net::own_addresses::OwnAddress;

/// Number of sent bytes at the front of `out` below which they are not removed.
const COMPACT_BYTES_MIN: usize = 16 * 1024;

/// The listener of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A public listener: requests go to routes.
    Public,
    /// The control socket: `control` handles requests.
    Control,
    /// The listener for metrics and health: `metrics` handles requests.
    Metrics,
    /// A listener of the embedder: see `wires`.
    Own,
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waiting for the PROXY protocol header, with the client's address.
    Preface,
    /// Serving exchanges.
    Open,
    /// The server's sending side is shut down, and input is discarded until the peer closes.
    /// Otherwise the kernel would answer unread bytes with a reset that destroys the last response.
    Lingering,
}

/// Progress of the next request's head, and of its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// First request: the deadline was set when the connection was opened.
    First,
    /// No byte has arrived.
    Next,
    /// The head has started to arrive, and its deadline is set.
    Begun,
}

/// Action after `out` has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Keep the connection open: more responses may follow.
    Open,
    /// Close immediately: the request was read completely.
    Close,
    /// Close after lingering: the peer may still be sending.
    Linger,
}

/// The bytes and deadline of one client.
pub(crate) struct Connection {
    pub line: Line,
    pub peer: Peer,
    pub own: OwnAddress,
    pub origin: Origin,
    pub phase: Phase,
    pub writing: Writing,
    pub awaited: Awaited,
    /// Another request may follow the current one.
    pub keeps_alive: bool,
    /// The driver reports events of this connection; set at the end of the connection's first turn.
    pub is_watched: bool,
    /// The connection is counted as long; see `balance`.
    pub is_settled: bool,
    /// True while the connection is in `Net::dirty`.
    pub is_dirty: bool,
    /// True while the connection is in `Net::again`.
    pub is_again: bool,
    /// The kernel did not accept all bytes; a writable event will follow.
    pub is_blocked: bool,
    /// A request or response takes longer than one turn; counted in `Gauges::active`.
    pub is_active: bool,
    /// The socket may hold unread bytes: the last read filled the buffer, or an event was skipped.
    pub has_unread: bool,
    /// The peer has sent end-of-stream, possibly after unread bytes.
    pub has_hung_up: bool,
    /// The peer's end-of-stream was read.
    pub has_ended: bool,
    /// Parsing waits because responses exceed `queue_bytes_max`, or a file is being sent.
    pub is_paused: bool,
    /// Number of sent bytes at the front of `out`. Invariant: `out_sent <= out.len()`.
    pub out_sent: u32,
    /// Bytes that the kernel has not accepted yet.
    pub out: Buffer,
    /// Received bytes that are not parsed yet.
    pub inbox: Buffer,
    /// Time at which something is due for this connection.
    pub deadline: Deadline,
    /// Due time of the live timer entry. Invariant: not after `deadline`, unless that is never.
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

    /// Notes that a request's head was parsed; `keeps_alive` allows another request.
    #[inline]
    pub fn note_head(&mut self, keeps_alive: bool) {
        self.awaited = Awaited::Next;
        self.keeps_alive = keeps_alive;
    }

    /// Returns true if only output remains to be sent.
    #[inline]
    pub fn rests_when_sent(&self) -> bool {
        self.writing == Writing::Open
            && self.is_settled
            && !(self.is_blocked | self.is_active | self.is_paused)
    }

    /// Returns the output buffer. Allocates one if necessary.
    #[inline]
    pub fn take_buffer(&mut self, pool: &mut Pool) -> &mut Buffer {
        if self.out.capacity() == 0 {
            self.out = pool.take();
        }
        &mut self.out
    }

    /// Returns the number of bytes that the kernel has not accepted.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.out.len() - self.out_sent as usize
    }

    /// Notes that the kernel has accepted the first `sent` bytes of `out`. Returns true if they
    /// were removed.
    ///
    /// Sent bytes are removed when they outnumber the rest, so each byte moves at most once.
    /// Without the removal, `out` would grow without limit for a client that is always slightly
    /// behind.
    pub fn drop_sent(&mut self, sent: usize) -> bool {
        let removes = sent > COMPACT_BYTES_MIN && sent > self.out.len() - sent
            || u32::try_from(sent).is_err();
        if removes {
            self.out.drain(..sent);
            if self.out.capacity() > LARGE_BYTES {
                // Shrink the buffer each time that the rest has halved.
                self.out.shrink_to_fit();
            }
            self.out_sent = 0;
        } else {
            self.out_sent = sent as u32;
        }
        removes
    }
}
