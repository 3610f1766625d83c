//! Where everything lies in the shared memory, in words.

use crate::schema::{Schema, WORD_BYTES};

/// Owner of the lock for chains and free slots.
pub(crate) const LOCK: usize = 0;
/// Not zero: an owner of the lock has died, and what it has left is not repaired yet.
pub(crate) const REPAIR: usize = 1;
/// The first free slot of those that were used before, plus one; 0 = none.
pub(crate) const FREE: usize = 2;
/// Slots from this one on were never used.
pub(crate) const FRESH: usize = 3;
/// Rows.
pub(crate) const COUNT: usize = 4;
/// Has a cache line of its own.
const BUCKETS_AT: usize = 8;

// A slot.
/// Owner of the lock for what the row holds.
pub(crate) const ROW_LOCK: usize = 0;
/// See [`Meta`].
pub(crate) const META: usize = 1;
/// The next slot of the chain, or of the free ones, plus one; 0 = none.
pub(crate) const NEXT: usize = 2;
/// The key's hash.
pub(crate) const HASH: usize = 3;
/// Bytes of the key, which is behind this word.
pub(crate) const KEY: usize = 4;

/// Sizes that follow from a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// A power of two.
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
            // A model has all rows in one chain.
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

    /// Words in all. At most 2^24 rows of 2^23 words twice: no overflow.
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

    /// Where one of the two copies begins, in a slot.
    pub(crate) fn copy(&self, number: usize) -> usize {
        KEY + 1 + self.key_words + number * self.row_words
    }
}

/// A word that says everything about a slot's row, so that one store changes it: how often the slot was used, how often its
/// row has changed, which copy is the row, and whether there is one.
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

    /// Both are of the row that one insertion has made.
    pub(crate) fn is_same_row(self, other: Meta) -> bool {
        self.is_live() && other.is_live() && (self.0 ^ other.0) & Self::LIFE == 0
    }

    fn next_version(self) -> u64 {
        let version = self.0.wrapping_add(Self::VERSION_ONE) & !Self::LIFE;
        self.0 & Self::LIFE | version
    }

    /// The other copy is the row.
    pub(crate) fn changed(self) -> Meta {
        Meta(self.next_version() ^ Self::COPY)
    }

    pub(crate) fn deleted(self) -> Meta {
        Meta(self.next_version() & !Self::LIVE)
    }

    /// A new row, in the same copy.
    pub(crate) fn inserted(self) -> Meta {
        Meta((self.next_version() | Self::LIVE).wrapping_add(Self::LIFE_ONE))
    }
}
