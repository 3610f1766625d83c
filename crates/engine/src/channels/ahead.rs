//! Clients and readers whose last event id comes from another machine and has not yet reached this
//! machine.

use fermata_hub::AHEAD_MS_MAX;
use fermata_io::{Deadline, Driver};

use crate::id::ReaderId;
use crate::net::slab::Key;

/// Interval in milliseconds at which they are checked together.
const AHEAD_LOOK_MS: u64 = 250;

/// A client, or a reader, that continues in the next turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resuming {
    /// A held client or WebSocket.
    Client(Key),
    /// A handler that reads a channel.
    Reader(ReaderId),
}

/// Clients and readers whose last event id has not yet reached this machine. They are checked when
/// the ring advances, and when the first has waited long enough. Closed ones are removed at the
/// same time. So the list holds at most the arrivals of [`AHEAD_MS_MAX`] plus one interval.
pub(crate) struct Ahead {
    waiting: Vec<Resuming>,
    /// Time of the next check; never if the list is empty.
    pub due: Deadline,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead {
            waiting: Vec::new(),
            due: Deadline::NEVER,
        }
    }
}

impl Ahead {
    /// Adds a client or reader that waits until a given time, at most [`AHEAD_MS_MAX`]; `None` = it
    /// is checked soon.
    pub fn push<D: Driver>(&mut self, one: Resuming, until_unix_ms: Option<u64>, driver: &D) {
        let wait_ms = until_unix_ms.unwrap_or(0).saturating_sub(driver.unix_ms());
        let due_ms = driver.now_ms() + wait_ms.min(AHEAD_MS_MAX);
        self.due = self
            .due
            .min(Deadline::at(due_ms.next_multiple_of(AHEAD_LOOK_MS)));
        self.waiting.push(one);
    }

    /// Removes and returns all.
    pub fn take(&mut self) -> impl Iterator<Item = Resuming> {
        self.due = Deadline::NEVER;
        self.waiting.drain(..)
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}
