//! Wakes a worker that sleeps in `wait`, from another process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

use crate::driver::Fd;

/// An eventfd created before the fork, so that every process can wake every other process.
#[derive(Debug)]
pub struct Waker {
    eventfd: OwnedFd,
}

impl Waker {
    /// Creates a waker without pending wake-ups.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            eventfd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Returns a second handle of the same waker.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn share(&self) -> io::Result<Self> {
        Ok(Self {
            eventfd: self.eventfd.try_clone()?,
        })
    }

    /// Wakes the owner. Several calls before the owner drains the waker cause one wake-up.
    #[inline]
    pub fn wake(&self) {
        // The only error is a full counter, and the owner is then already being woken.
        while let Err(Errno::INTR) = write(self.eventfd.as_fd(), &1_u64.to_ne_bytes()) {}
    }

    /// Clears pending wake-ups. Call this before searching for work; otherwise a wake-up in between is lost.
    #[inline]
    pub fn drain(&self) {
        let mut count = [0_u8; 8];
        while let Err(Errno::INTR) = read(self.eventfd.as_fd(), &mut count[..]) {}
    }

    /// Returns the descriptor for [`crate::Driver::add_wake`].
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.eventfd.as_raw_fd()
    }
}
