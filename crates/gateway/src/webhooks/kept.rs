//! What a backend has been told, for whichever worker sends a webhook.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use super::journal::Journal;

/// Words of a webhook: how far the ring is told, how many threads have begun to send it, and where its journal is.
pub(super) const WORDS: usize = 3;

/// The memory of one webhook that outlives the worker.
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

    /// Up to where the ring is told; 0: nothing is.
    pub fn place(&self) -> u64 {
        self.place.load(Ordering::Acquire)
    }

    /// Whether another worker sends in the place of this one.
    pub fn is_replaced(&self) -> bool {
        self.turns.load(Ordering::Acquire) != self.turn
    }

    /// The ring is told up to there.
    pub fn settle(&self, place: u64) {
        self.place.fetch_max(place, Ordering::AcqRel);
    }
}
