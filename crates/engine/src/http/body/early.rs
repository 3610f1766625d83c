//! Bodies that their handlers read while they arrive.
//!
//! A route may want its requests as soon as their heads are complete (`Router::begin_early`). From then on nothing is
//! read from the connection but what the handler asks for, at most `body_piece_bytes_max` at a time: what a client may
//! send ahead is bounded by the kernel's buffers. The time-out of a body runs only while its handler waits for it.
//!
//! On a fast line there is always more to read. A handler gets [`TURN_BYTES_MAX`] of its client in a turn of the loop; then
//! it waits as if nothing had come, and goes on in the next turn, after the others.
//!
//! A body that has come whole with its head, as small ones do, is handed out like any other.

use crate::http::respond::Gone;

/// The number in place of an upload's, of a request whose body is to be read by [`Worker::read_body`].
pub const ARRIVING: u32 = u32::MAX;

/// Bytes of one body that are read in a row before other clients get their turn.
pub(crate) const TURN_BYTES_MAX: usize = 256 * 1024;

/// What `Partial` knows besides of a body that is read while it arrives.
pub(crate) struct Early {
    /// Whether the connection may go on when all of the body was read.
    pub keeps_alive: bool,
    /// The client waits for `100 Continue`.
    pub is_expected: bool,
    /// The socket was read empty, and has not told of more since.
    pub is_drained: bool,
    /// The handler waits for more, since then.
    pub waits_since_ms: Option<u64>,
    /// How long it has waited before.
    pub waited_ms: u64,
    /// The turn of the loop in which it was read from last, and how many bytes were.
    pub turn: u64,
    pub turn_bytes: usize,
    /// The handler waits for the next turn, and not for its client.
    pub awaits_turn: bool,
    /// Why the rest cannot be had.
    pub failure: Option<ReadError>,
}

/// What there is of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// [`Http::body_piece`] holds the next bytes, one at least.
    Piece,
    /// The same, and nothing follows.
    Last,
    /// Nothing is left.
    End,
    /// Nothing yet: `Event::Body` tells when to ask again.
    Pending,
}

/// Why the rest of a body cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The client has left before it had sent everything, or the request was answered.
    #[error("the client has left before its body had arrived")]
    Gone,
    /// It is malformed, too large or too slow; with the status that says so.
    #[error("{1}")]
    Refused(u16, String),
}

impl From<Gone> for ReadError {
    fn from(_: Gone) -> ReadError {
        ReadError::Gone
    }
}

impl Early {
    /// Whether a handler has to be told when its connection ends.
    pub fn is_waited_for(&self) -> bool {
        self.waits_since_ms.is_some() || self.awaits_turn
    }

    /// Whether so much was read in this turn that it is for others to go on.
    pub fn has_had_its_turn(&mut self, turn: u64) -> bool {
        if self.turn != turn {
            self.turn = turn;
            self.turn_bytes = 0;
        }
        self.turn_bytes >= TURN_BYTES_MAX
    }
}
