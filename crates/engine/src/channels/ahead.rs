//! Clients that have seen on another machine what has not come to this one yet.

use fermata_hub::AHEAD_MS_MAX;
use fermata_io::Deadline;

use crate::net::slab::Key;

/// Clients that wait for their time are looked at together, so often.
const AHEAD_LOOK_MS: u64 = 250;

/// Clients that have seen on another machine what has not come here yet. They are looked at when the ring moves on and when
/// the first of them has waited long enough; those that have gone leave the list then, so it holds no more than came within
/// [`AHEAD_MS_MAX`] and a look.
pub(crate) struct Ahead {
    keys: Vec<Key>,
    /// When they are looked at at the latest, if there are any.
    pub due: Deadline,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead {
            keys: Vec::new(),
            due: Deadline::NEVER,
        }
    }
}

impl Ahead {
    /// Lists a client that waits for so long at most.
    pub fn push(&mut self, key: Key, wait_ms: u64, now_ms: u64) {
        let due_ms = now_ms + wait_ms.min(AHEAD_MS_MAX);
        self.due = self
            .due
            .min(Deadline::at(due_ms.next_multiple_of(AHEAD_LOOK_MS)));
        self.keys.push(key);
    }

    /// All of them.
    pub fn take(&mut self) -> impl Iterator<Item = Key> {
        self.due = Deadline::NEVER;
        self.keys.drain(..)
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.keys.len()
    }
}
