//! Detection of blocking handlers: the master samples their position, the worker logs it.
//!
//! Workers store the running handler and its start in shared memory (two stores). While handlers
//! run, the master reads these words four times per `blocking_call_ms`. If a worker has been in one
//! handler for half that time, the master reads the handler's position from the worker's memory.
//! When the handler returns, the worker computes the duration and writes the log line. An idle
//! server is not sampled: the worker that runs the first handler wakes the master.
//!
//! No signal and no thread is used: a signal would interrupt a sleep or poll of the application,
//! and a thread would run concurrently with the application.

use fermata_io::Deadline;
use fermata_io::wake::Waker;

use super::frames::Frames;

/// Sampling of handlers' stacks.
pub(super) struct StackSampler {
    /// Triggered by a worker that runs a handler while sampling is stopped.
    pub waker: Waker,
    /// Layout of frames, if the embedder has set it.
    pub frames: Option<Frames>,
    /// Time of the next sample; never while sampling is stopped.
    pub due: Deadline,
    pub idle_samples: u8,
}

/// The handler in which a worker was last seen.
#[derive(Default)]
pub(super) struct HandlerSample {
    /// Start of the running handler.
    pub since_unix_ms: Option<u64>,
    /// Number of times that the handler's position was read.
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
