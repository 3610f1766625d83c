//! Handlers that hold their worker's loop: the master samples where they are, the worker logs it.
//!
//! Workers note which handler runs and since when: two stores in shared memory. The master looks at
//! these notes four times per `blocking_call_ms` while handlers run at all, and asks the memory of a
//! worker that has been in one for half of it where it is. When the handler returns, the worker sees
//! how long it took and writes the line. A server with nothing to do is not looked at: the worker that
//! runs the first handler wakes the master.
//!
//! No signal and no thread: either would end a sleep or a poll of the program early, or run beside it.

use fermata_io::Deadline;
use fermata_io::wake::Waker;

use super::frames::Frames;

/// When and how the stacks of handlers are sampled.
pub(super) struct StackSampler {
    /// Rung by a worker that runs a handler while nothing is sampled.
    pub waker: Waker,
    /// How frames are laid out, if the embedder has told.
    pub frames: Option<Frames>,
    /// When the next sample is due, if any is taken.
    pub due: Deadline,
    pub idle_samples: u8,
}

/// The handler that one worker was last seen in.
#[derive(Default)]
pub(super) struct HandlerSample {
    /// When the handler that ran began.
    pub since_unix_ms: Option<u64>,
    /// How often its place was read.
    pub reads: u8,
}

impl StackSampler {
    pub(super) fn new(frames: Option<Frames>) -> std::io::Result<StackSampler> {
        Ok(StackSampler {
            waker: Waker::new()?,
            frames,
            due: Deadline::NEVER,
            idle_samples: 0,
        })
    }
}
