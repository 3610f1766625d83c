//! The streams of a worker: which have room for a piece, and which have ended.

use std::collections::VecDeque;

use crate::id::RequestId;

use crate::http::respond::Gone;
use crate::misuse::Misuse;

/// Why a stream cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// Its client has left; nothing to report.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The program has promised another length, or what it sends is not acceptable.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

/// What a request wants of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Its pieces.
    Pieces,
    /// The head alone: it was a HEAD, or the status has no body.
    Head,
    /// Nothing: its client has left, or it was answered.
    Nothing,
    /// It is to be refused: there are `streams_max` already.
    Refusal,
}

/// The streams of a worker.
#[derive(Default)]
pub(crate) struct Streams {
    /// Those that have room for a piece, by the request they answer.
    pub ready: VecDeque<RequestId>,
    /// Those whose client has left before their end.
    pub ended: VecDeque<RequestId>,
    /// Those that were asked, and the program has no room for another handler that waits.
    pub held_back: VecDeque<RequestId>,
    /// How many of `ready` are asked in this turn, and when the first was.
    pub budget: usize,
    pub since_unix_ms: u64,
    /// How many there are.
    pub open: usize,
    /// Whose the stream of the last event is.
    pub handler: u32,
}

impl Streams {
    /// Whether there is something to do without waiting.
    pub fn is_busy(&self) -> bool {
        !self.ready.is_empty() || !self.ended.is_empty()
    }

    /// Whether the program has still to be told of ends.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// One has become something else.
    pub fn let_go(&mut self) {
        self.open -= 1;
    }

    /// There is room again for those that were held back.
    pub fn let_on(&mut self) {
        self.ready.append(&mut self.held_back);
    }

    /// Each that is ready now gets one piece in the turn that begins.
    pub fn begin_turn(&mut self) {
        self.budget = self.ready.len();
        self.since_unix_ms = 0;
    }
}
