//! Reads records in place, for replays and repairs.

use super::{OpenError, Ring, START};
use crate::layout::TAIL;
use crate::record::{
    HEADER_WORDS, Record, Seq, Shape, W_HASH, W_LENGTHS, W_PREV, W_SHAPE, W_STAMP, W_SUM, W_TIME,
};
use crate::words::{Sum, load_bytes};
use fermata_shm::{AtomicU64, Ordering, fence};

impl Ring {
    /// Walks all records and sets every bucket to its newest record.
    pub(super) fn rebuild_index(&self, head: Seq, tail: Seq) -> Result<(), OpenError> {
        for bucket in self.layout.buckets..self.layout.buckets + self.layout.buckets_len {
            if self.words.load(bucket) >= tail {
                // The bucket refers to a record at or after the tail. The walk below sets it again if it finds a record for the
                // bucket. Otherwise the bucket keeps this value: a position before the tail means that older records were
                // overwritten, and 0 means that the ring has not overwritten any.
                self.words.store(bucket, tail - START);
            }
        }
        let mut at = tail;
        while at < head {
            let (shape, hash) = self.sound_at(at).ok_or(OpenError::Damaged)?;
            self.words.store(self.bucket(hash), at);
            at += shape.total_words() as u64;
        }
        if at == head {
            Ok(())
        } else {
            Err(OpenError::Damaged)
        }
    }

    /// Returns shape and hash of the record at `at`, if the record's words match its checksum.
    pub(super) fn sound_at(&self, at: Seq) -> Option<(Shape, u64)> {
        let shape = self.shape_at(at)?;
        let mut sum = Sum::default();
        for offset in (0..shape.total_words()).filter(|&offset| offset != W_SUM) {
            sum.add(self.word_at(at, offset));
        }
        (sum.value() == self.word_at(at, W_SUM)).then(|| (shape, self.word_at(at, W_HASH)))
    }

    /// Returns the lengths of the record at `at`, if they are consistent.
    pub(crate) fn shape_at(&self, at: Seq) -> Option<Shape> {
        if self.word_at(at, W_STAMP) != at {
            return None;
        }
        Shape::read(
            self.word_at(at, W_SHAPE),
            self.word_at(at, W_LENGTHS),
            self.layout.record_words_max,
        )
    }

    /// Copies the record at `at`. Returns false if it was overwritten, before or during the copy.
    pub(crate) fn copy_at(&self, at: Seq, record: &mut Record) -> bool {
        let Some(shape) = self.shape_at(at) else {
            return false;
        };
        let (time, hash) = (self.word_at(at, W_TIME), self.word_at(at, W_HASH));
        let (first, second) = self.segments(at + HEADER_WORDS as u64, shape.body_words());
        let bytes = record.fill(at, time, hash, &shape);
        let (front, back) = bytes.split_at_mut(first.len() * 8);
        load_bytes(first, front);
        load_bytes(second, back);
        self.still_there(at)
    }

    /// Returns true if all words read from position `at` before this call belong to that record, not to its successor.
    pub(crate) fn still_there(&self, at: Seq) -> bool {
        fence(Ordering::Acquire);
        self.words.load(TAIL) <= at
    }

    pub(crate) fn word_at(&self, at: Seq, offset: usize) -> u64 {
        self.words.load(self.place(at.wrapping_add(offset as u64)))
    }

    pub(crate) fn prev_at(&self, at: Seq) -> Seq {
        self.word_at(at, W_PREV)
    }

    pub(crate) fn bucket(&self, hash: u64) -> usize {
        self.layout.buckets + (hash as usize & (self.layout.buckets_len - 1))
    }

    /// Returns the word index of position `at`.
    pub(super) fn place(&self, at: Seq) -> usize {
        self.layout.ring + (at as usize & (self.layout.ring_words - 1))
    }

    /// Returns the words `at..at + len`, in two pieces if they wrap. `len` is at most the ring's size.
    pub(crate) fn segments(
        &self,
        at: Seq,
        len: usize,
    ) -> (&'static [AtomicU64], &'static [AtomicU64]) {
        let ring = self.words.slice(self.layout.ring, self.layout.ring_words);
        let start = at as usize & (self.layout.ring_words - 1);
        let first = len.min(self.layout.ring_words - start);
        (&ring[start..start + first], &ring[..len - first])
    }
}
