//! One timer that is finer than the millisecond of [`crate::Driver::wait`].
//!
//! A load generator that sends on schedule needs it: a send that is late by half a millisecond is
//! counted as the server's latency.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::{Errno, read};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::driver::Fd;

/// A timerfd of the monotonic clock.
#[derive(Debug)]
pub struct Alarm {
    timerfd: OwnedFd,
}

impl Alarm {
    /// Makes an alarm that is not set.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self {
            timerfd: timerfd_create(TimerfdClockId::Monotonic, flags)?,
        })
    }

    /// Has it become readable once, after `delay`, at least a nanosecond. Replaces what was set.
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

    /// Takes note that it rang, so that it is not reported again.
    pub fn drain(&self) {
        let mut count = [0_u8; 8];
        while let Err(Errno::INTR) = read(self.timerfd.as_fd(), &mut count[..]) {}
    }

    /// What to give to [`crate::Driver::add_wake`].
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.timerfd.as_raw_fd()
    }
}
