//! A timer with a finer resolution than the millisecond of [`crate::Driver::wait`].
//!
//! A load generator that sends on schedule needs this resolution: if it sends half a millisecond late, the delay counts as latency
//! of the server.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::{Errno, read};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::driver::Fd;

/// A timerfd on the monotonic clock.
#[derive(Debug)]
pub struct Alarm {
    timerfd: OwnedFd,
}

impl Alarm {
    /// Creates an alarm that is not set.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self {
            timerfd: timerfd_create(TimerfdClockId::Monotonic, flags)?,
        })
    }

    /// Makes the descriptor readable once after `delay`, but not before one nanosecond. Replaces an earlier time.
    ///
    /// # Errors
    /// None is expected.
    pub fn set(&self, delay: Duration) -> io::Result<()> {
        let delay = delay.max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: i64::try_from(delay.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(delay.subsec_nanos()),
        };
        let once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let timer = Itimerspec {
            it_interval: once,
            it_value: value,
        };
        timerfd_settime(&self.timerfd, TimerfdTimerFlags::empty(), &timer)?;
        Ok(())
    }

    /// Reads the expirations, so that the descriptor is no longer readable.
    pub fn drain(&self) {
        let mut count = [0_u8; 8];
        while let Err(Errno::INTR) = read(self.timerfd.as_fd(), &mut count[..]) {}
    }

    /// Returns the descriptor for [`crate::Driver::add_wake`].
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.timerfd.as_raw_fd()
    }
}
