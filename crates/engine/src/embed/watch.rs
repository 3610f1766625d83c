//! Descriptors of the program that its handlers wait for.
//!
//! They are in a set of their own (`fermata_io::watch`), which the driver reports like a waker: a program
//! that waits for none pays nothing, and one that does pays one more call for each batch of events that has
//! some.

use std::io;

use fermata_io::watch::{Interest, Ready, Watch};
use fermata_io::{Driver, Fd};

use crate::embed::defer::News;
use crate::worker::{TOKEN_WATCH, Worker};

/// The set, and what has just been collected from it.
pub(crate) struct Watching {
    watch: Watch,
    found: Vec<Ready>,
}

impl Watching {
    /// Descriptors that are waited for.
    pub fn armed(&self) -> usize {
        self.watch.armed()
    }
}

impl<D: Driver> Worker<D> {
    /// Asks for one `Event::Ready` when `fd` is ready for any of `interest` or has hung up; this replaces
    /// what was asked for before, and `Interest::NONE` takes it back. The descriptor may be closed at any
    /// time; nothing is told of it then.
    ///
    /// # Errors
    /// `PermissionDenied` for a file that is always ready, such as a regular one; what else the kernel says.
    pub fn watch_descriptor(&mut self, fd: Fd, interest: Interest) -> io::Result<()> {
        let watching = match &mut self.waiting.watching {
            Some(watching) => watching,
            None if interest == Interest::NONE => return Ok(()),
            empty => {
                let watch = Watch::new()?;
                self.net.driver.add_wake(watch.fd(), TOKEN_WATCH)?;
                let found = Vec::new();
                empty.insert(Box::new(Watching { watch, found }))
            }
        };
        if interest == Interest::NONE {
            watching.watch.disarm(fd);
            Ok(())
        } else {
            watching.watch.arm(fd, interest)
        }
    }

    /// Lists what is ready for `next_wait_event`.
    #[cold]
    pub(crate) fn collect_watched(&mut self) {
        let Some(watching) = &mut self.waiting.watching else {
            return;
        };
        let result = watching.watch.collect(&mut watching.found);
        let news = watching.found.drain(..).map(News::Ready);
        self.waiting.news.extend(news);
        if let Err(error) = result {
            let message = format!("asking for descriptors that are ready failed: {error}");
            self.log_for_client(fermata_config::LogLevel::Error, &message);
        }
    }
}
