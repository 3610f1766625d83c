//! Layout of the shared memory, in words.

use crate::schema::{Schema, WORD_BYTES};

/// Owner of the lock for chains and unused slots.
pub(crate) const LOCK: usize = 0;
/// A value other than 0 from the time when an owner of the lock crashed until the table is repaired.
pub(crate) const REPAIR: usize = 1;
/// Number of the first slot in the list of unused slots, plus one. 0: the list is empty. All slots in the list were used before.
pub(crate) const FREE: usize = 2;
/// Number of the first slot that was never used.
pub(crate) const FRESH: usize = 3;
/// Number of rows.
pub(crate) const COUNT: usize = 4;
/// Start of the buckets, on a separate cache line.
const BUCKETS_AT: usize = 8;

// Words of a slot.
/// Owner of the lock for the row's content.
pub(crate) const ROW_LOCK: usize = 0;
/// State of the row; see [`Meta`].
pub(crate) const META: usize = 1;
/// Number of the next slot in the chain or in the list of unused slots, plus one. 0: this is the last slot.
pub(crate) const NEXT: usize = 2;
/// Hash of the key.
pub(crate) const HASH: usize = 3;
/// Length of the key in bytes; the key follows.
pub(crate) const KEY: usize = 4;

/// Sizes derived from a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Number of buckets, a power of two.
    pub(crate) buckets: usize,
    pub(crate) key_words: usize,
    pub(crate) row_words: usize,
    slot_words: usize,
}

impl Layout {
    pub(crate) fn new(schema: &Schema) -> Layout {
        let key_words = (schema.key_bytes_max as usize).div_ceil(WORD_BYTES);
        let row_words = schema.bytes / WORD_BYTES;
        Layout {
            // In a model, all rows are in one chain.
            buckets: if cfg!(loom) {
                1
            } else {
                (schema.rows as usize).next_power_of_two()
            },
            key_words,
            row_words,
            slot_words: KEY + 1 + key_words + 2 * row_words,
        }
    }

    /// Returns the total number of words. The result cannot overflow, because there are at most 2^24 rows of twice 2^23 words.
    pub(crate) fn words(&self, rows: u32) -> usize {
        BUCKETS_AT + self.buckets + rows as usize * self.slot_words
    }

    pub(crate) fn bucket_of(&self, hash: u64) -> usize {
        BUCKETS_AT + (hash as usize & (self.buckets - 1))
    }

    pub(crate) fn all_buckets(&self) -> std::ops::Range<usize> {
        BUCKETS_AT..BUCKETS_AT + self.buckets
    }

    pub(crate) fn slot(&self, number: u32) -> usize {
        BUCKETS_AT + self.buckets + number as usize * self.slot_words
    }

    /// Returns the start of copy `number` (0 or 1) in a slot.
    pub(crate) fn copy(&self, number: usize) -> usize {
        KEY + 1 + self.key_words + number * self.row_words
    }
}

/// Complete state of a slot's row in one word, so that one store changes it. It contains the number of uses of the
/// slot, the number of changes of the row, the index of the current copy, and a flag that the row exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta(pub(crate) u64);

impl Meta {
    const LIVE: u64 = 1;
    const COPY: u64 = 2;
    const VERSION_ONE: u64 = 4;
    const LIFE_ONE: u64 = 1 << 32;
    const LIFE: u64 = !(Self::LIFE_ONE - 1);

    pub(crate) fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }

    pub(crate) fn copy(self) -> usize {
        usize::from(self.0 & Self::COPY != 0)
    }

    /// Returns true if both states belong to the same insertion of a row.
    pub(crate) fn is_same_row(self, other: Meta) -> bool {
        self.is_live() && other.is_live() && (self.0 ^ other.0) & Self::LIFE == 0
    }

    fn next_version(self) -> u64 {
        let version = self.0.wrapping_add(Self::VERSION_ONE) & !Self::LIFE;
        self.0 & Self::LIFE | version
    }

    /// Returns the state after a change, in which the other copy is the current one.
    pub(crate) fn changed(self) -> Meta {
        Meta(self.next_version() ^ Self::COPY)
    }

    pub(crate) fn deleted(self) -> Meta {
        Meta(self.next_version() & !Self::LIVE)
    }

    /// Returns the state of a new row in the same copy.
    pub(crate) fn inserted(self) -> Meta {
        Meta((self.next_version() | Self::LIVE).wrapping_add(Self::LIFE_ONE))
    }
}
