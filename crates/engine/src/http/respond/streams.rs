//! The streams of a worker: those to poll for a piece, and those that have ended.

use std::collections::VecDeque;

use crate::id::RequestId;

use crate::http::respond::Gone;
use crate::misuse::Misuse;

/// Why a stream cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The client has disconnected; this is not an error to report.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The data exceeds the announced length or is invalid.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

/// The parts of a stream that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Its pieces.
    Pieces,
    /// Only the head: a HEAD request, or a status without body.
    Head,
    /// Nothing follows, because the client has disconnected or the request was answered.
    Nothing,
    /// A refusal: `streams_max` streams are open.
    Refusal,
}

/// The streams of a worker.
#[derive(Default)]
pub(crate) struct Streams {
    /// Streams to poll for a piece.
    pub ready: VecDeque<RequestId>,
    /// Streams whose client disconnected before the end of the stream.
    pub ended: VecDeque<RequestId>,
    /// Polled streams for which no handler was free.
    pub held_back: VecDeque<RequestId>,
    /// Number of streams in `ready` to poll in this turn, and the time at which the first was
    /// polled.
    pub budget: usize,
    pub since_unix_ms: u64,
    /// Number of open streams.
    pub open: usize,
    /// Handler of the stream in the last event.
    pub handler: u32,
}

impl Streams {
    /// Returns true if a stream can be served without waiting.
    pub fn is_busy(&self) -> bool {
        !self.ready.is_empty() || !self.ended.is_empty()
    }

    /// Returns true if the application has to be notified of ends.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Removes a stream from the count.
    pub fn let_go(&mut self) {
        self.open -= 1;
    }

    /// Resumes postponed streams when handlers are free.
    pub fn let_on(&mut self) {
        self.ready.append(&mut self.held_back);
    }

    /// Starts a turn: each ready stream gets one piece.
    pub fn begin_turn(&mut self) {
        self.budget = self.ready.len();
        self.since_unix_ms = 0;
    }
}
