//! Descriptors of the program that its handlers wait for.
//!
//! They are in a set of their own (`fermata_io::watch`), which the driver reports like a waker: a program
//! that waits for none pays nothing, and one that does pays one more call for each batch of events that has
//! some.

use std::io;

use fermata_io::watch::{Interest, Ready, Watch};
use fermata_io::{Driver, Fd};

use crate::net::token::TOKEN_WATCH;

/// The set, and what has just been collected from it.
pub(crate) struct Watching {
    watch: Watch,
    found: Vec<Ready>,
}

impl Watching {
    /// Has `driver` report a new set.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new<D: Driver>(driver: &mut D) -> io::Result<Watching> {
        let watch = Watch::new()?;
        driver.add_wake(watch.fd(), TOKEN_WATCH)?;
        let found = Vec::new();
        Ok(Watching { watch, found })
    }

    /// Descriptors that are waited for.
    pub fn armed(&self) -> usize {
        self.watch.armed()
    }

    /// Waits for `fd` in place of what it was waited for; `Interest::NONE` = not any more.
    ///
    /// # Errors
    /// As of [`Watch::arm`].
    pub fn set(&mut self, fd: Fd, interest: Interest) -> io::Result<()> {
        if interest == Interest::NONE {
            self.watch.disarm(fd);
            Ok(())
        } else {
            self.watch.arm(fd, interest)
        }
    }

    /// What is ready, also when asking for more of it has failed.
    pub fn collect(&mut self) -> (io::Result<()>, impl Iterator<Item = Ready>) {
        let result = self.watch.collect(&mut self.found);
        (result, self.found.drain(..))
    }
}
