//! The one clock of a run: microseconds since the parent started, the same in all its processes.

use std::time::{Duration, Instant};

/// Microseconds since the start of the run. Copied into children, where it goes on counting alike.
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

    /// Now, in microseconds. Costs no system call.
    pub fn now_us(self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// A duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
