//! Delivery state of a webhook that outlives the worker that sends it.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use super::journal::Journal;

/// Words of a webhook: the acknowledged position on the ring, the number of threads started, and the journal's word.
pub(super) const WORDS: usize = 3;

/// Memory of one webhook that outlives the worker.
pub(super) struct Kept {
    place: &'static AtomicU64,
    turns: &'static AtomicU64,
    turn: u64,
    pub journal: Journal,
}

impl Kept {
    pub fn begin(words: &'static [AtomicU64], file: File) -> Kept {
        let [place, turns, journal] = words else {
            unreachable!("chunks of three");
        };
        Kept {
            place,
            turns,
            turn: turns.fetch_add(1, Ordering::AcqRel) + 1,
            journal: Journal::open(file, journal),
        }
    }

    /// Returns the acknowledged position on the ring. 0 means none.
    pub fn place(&self) -> u64 {
        self.place.load(Ordering::Acquire)
    }

    /// Returns true if another worker has taken over.
    pub fn is_replaced(&self) -> bool {
        self.turns.load(Ordering::Acquire) != self.turn
    }

    /// Records that the backend acknowledged the ring up to a position.
    pub fn settle(&self, place: u64) {
        self.place.fetch_max(place, Ordering::AcqRel);
    }
}
