//! Watched descriptors of the application.
//!
//! They are in a separate set (`fermata_io::watch`), which the driver reports like a waker. An
//! application without watched descriptors has no overhead. Otherwise each batch of events with a
//! ready descriptor needs one more call.

use std::io;

use fermata_io::watch::{Interest, Ready, Watch};
use fermata_io::{Driver, Fd};

use crate::net::token::TOKEN_WATCH;

/// The set, and the collected events.
pub(crate) struct WatchedDescriptors {
    watch: Watch,
    found: Vec<Ready>,
}

impl WatchedDescriptors {
    /// Creates a set that `driver` reports.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn new<D: Driver>(driver: &mut D) -> io::Result<WatchedDescriptors> {
        let watch = Watch::new()?;
        driver.add_wake(watch.fd(), TOKEN_WATCH)?;
        let found = Vec::new();
        Ok(WatchedDescriptors { watch, found })
    }

    /// Returns the number of watched descriptors.
    pub fn armed(&self) -> usize {
        self.watch.armed()
    }

    /// Watches `fd` for `interest` instead of its previous interest; `Interest::NONE` stops.
    ///
    /// # Errors
    /// As for [`Watch::arm`].
    pub fn set(&mut self, fd: Fd, interest: Interest) -> io::Result<()> {
        if interest == Interest::NONE {
            self.watch.disarm(fd);
            Ok(())
        } else {
            self.watch.arm(fd, interest)
        }
    }

    /// Collects ready descriptors. After an error, the descriptors collected before it are still
    /// returned.
    pub fn collect(&mut self) -> (io::Result<()>, impl Iterator<Item = Ready>) {
        let result = self.watch.collect(&mut self.found);
        (result, self.found.drain(..))
    }
}
