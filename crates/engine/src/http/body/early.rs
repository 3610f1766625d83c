//! Request bodies that handlers read while they arrive.
//!
//! A route can receive requests as soon as their heads are complete (`Router::begin_early`). After
//! the head, the worker reads the connection only when the handler reads, at most
//! `body_piece_bytes_max` at a time. So the kernel's buffers limit the bytes a client can send
//! ahead. The body time limit runs only while the handler waits for bytes.
//!
//! On a fast connection more bytes are always available. A handler may read [`TURN_BYTES_MAX`] in a
//! turn of the loop. Then the handler waits as if no bytes had arrived, and continues in the next
//! turn, after other clients.
//!
//! A small body that arrived together with its head is delivered like any other.

use crate::http::respond::Gone;

/// Upload number of a request whose body is read with [`Worker::read_body`].
pub const ARRIVING: u32 = u32::MAX;

/// Maximum number of bytes of one body that a handler reads before other clients are served.
pub(crate) const TURN_BYTES_MAX: usize = 256 * 1024;

/// Additional state in `Partial` of a body that is read while it arrives.
pub(crate) struct StreamedBody {
    /// The connection may be reused when the body was read completely.
    pub keeps_alive: bool,
    /// The client waits for `100 Continue`.
    pub is_expected: bool,
    /// The socket was read until it was empty, and has not become readable since.
    pub is_drained: bool,
    /// Time since which the handler waits for bytes; `None` if it does not wait.
    pub waits_since_ms: Option<u64>,
    /// Total time of earlier waits in milliseconds.
    pub waited_ms: u64,
    /// Turn of the loop in which the body was last read, and the number of bytes read in that turn.
    pub turn: u64,
    pub turn_bytes: usize,
    /// The handler waits for the next turn, not for its client.
    pub awaits_turn: bool,
    /// Reason why the rest of the body cannot be read.
    pub failure: Option<ReadError>,
}

/// Result of reading a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// [`Http::body_piece`] holds the next bytes. There is at least one byte.
    Piece,
    /// [`Http::body_piece`] holds the last bytes.
    Last,
    /// No bytes are left.
    End,
    /// No bytes yet; `Event::Body` announces more.
    Pending,
}

/// Why the rest of a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The client disconnected before it sent everything, or the request was answered.
    #[error("the client has left before its body had arrived")]
    Gone,
    /// Malformed, too large or too slow: the response status and the reason.
    #[error("{1}")]
    Refused(u16, String),
}

impl From<Gone> for ReadError {
    fn from(_: Gone) -> ReadError {
        ReadError::Gone
    }
}

impl StreamedBody {
    /// Returns true if the handler has to be notified when its connection closes.
    pub fn is_waited_for(&self) -> bool {
        self.waits_since_ms.is_some() || self.awaits_turn
    }

    /// Returns true if the limit of this turn is reached.
    pub fn has_had_its_turn(&mut self, turn: u64) -> bool {
        if self.turn != turn {
            self.turn = turn;
            self.turn_bytes = 0;
        }
        self.turn_bytes >= TURN_BYTES_MAX
    }
}
