//! Set of sleeping workers that a publish has to wake. Each worker slot has one bit.

use fermata_shm::Ordering;

use crate::layout::{SLEEPING, WORKERS_MAX};
use crate::words::Words;

const WORD_BITS: u32 = u64::BITS;
pub(crate) const WORDS: usize = (WORKERS_MAX / WORD_BITS) as usize;

/// A set of worker slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots([u64; WORDS]);

impl Slots {
    /// Adds a slot.
    pub fn insert(&mut self, slot: u32) {
        self.0[word_of(slot)] |= bit_of(slot);
    }

    /// Adds the slots of another set.
    pub fn extend(&mut self, other: Slots) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }

    /// Returns true if a slot is in the set.
    pub fn contains(&self, slot: u32) -> bool {
        self.0[word_of(slot)] & bit_of(slot) != 0
    }

    /// Removes and returns the lowest slot.
    pub fn take(&mut self) -> Option<u32> {
        let at = self.0.iter().position(|word| *word != 0)?;
        let bit = self.0[at].trailing_zeros();
        self.0[at] &= self.0[at] - 1;
        Some(at as u32 * WORD_BITS + bit)
    }
}

/// Returns the sleeping workers of a ring with `workers_max` slots, and clears their bits.
pub(crate) fn take(words: &Words, workers_max: u32) -> Slots {
    let mut slots = Slots::default();
    let used = workers_max.div_ceil(WORD_BITS) as usize;
    for (at, taken) in slots.0.iter_mut().enumerate().take(used) {
        // Load first: if all workers are awake, the cache line of the bits stays shared between the processes.
        if words.load(SLEEPING + at) != 0 {
            *taken = words.atomic(SLEEPING + at).swap(0, Ordering::AcqRel);
        }
    }
    slots
}

/// Marks all workers as awake.
pub(crate) fn clear(words: &Words) {
    for at in 0..WORDS {
        words.store(SLEEPING + at, 0);
    }
}

/// Marks a worker as sleeping. The caller issues a fence afterwards, and then checks for records before it sleeps.
pub(crate) fn add(words: &Words, slot: u32) {
    words
        .atomic(SLEEPING + word_of(slot))
        .fetch_or(bit_of(slot), Ordering::SeqCst);
}

/// Marks a worker as awake.
pub(crate) fn remove(words: &Words, slot: u32) {
    // Relaxed: a publisher that still reads the bit as set wakes the worker once too often, which is harmless.
    words
        .atomic(SLEEPING + word_of(slot))
        .fetch_and(!bit_of(slot), Ordering::Relaxed);
}

/// Returns true if a worker is marked as sleeping.
pub(crate) fn has(words: &Words, slot: u32) -> bool {
    words.load(SLEEPING + word_of(slot)) & bit_of(slot) != 0
}

fn word_of(slot: u32) -> usize {
    (slot / WORD_BITS) as usize
}

fn bit_of(slot: u32) -> u64 {
    1 << (slot % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_slots_of_all_words_in_order() {
        let mut slots = Slots::default();
        let given = [255, 0, 63, 64, 130];
        given.iter().for_each(|slot| slots.insert(*slot));
        assert!(given.iter().all(|slot| slots.contains(*slot)) && !slots.contains(65));
        let taken: Vec<u32> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken, [0, 63, 64, 130, 255]);
    }
}
