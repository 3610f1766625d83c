//! Clock of a run: microseconds since the parent started, identical in all its processes.

use std::time::{Duration, Instant};

/// Microseconds since the start of the run. Forked children inherit a copy with the same origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Returns the current time in microseconds, without a system call.
    pub fn now_us(self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Converts a duration to whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
