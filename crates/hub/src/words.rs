//! Shared words: the only access to memory that other processes modify.
//!
//! All stores pass through this module, so a test can simulate a kill before each store (see [`fermata_shm::crash`]).

#[cfg(test)]
use fermata_shm::crash;
#[cfg(not(test))]
use fermata_shm::crash::off as crash;
use fermata_shm::{AtomicU64, Ordering};

/// Bytes per word.
pub(crate) const WORD_BYTES: usize = 8;

/// The mapped memory. Cheap to copy; the mapping lasts as long as the process.
#[derive(Clone, Copy)]
pub(crate) struct Words(&'static [AtomicU64]);

impl Words {
    pub(crate) fn new(words: &'static [AtomicU64]) -> Words {
        Words(words)
    }

    pub(crate) fn load(self, at: usize) -> u64 {
        crash::look();
        self.0[at].load(Ordering::Relaxed)
    }

    pub(crate) fn load_acquire(self, at: usize) -> u64 {
        crash::look();
        self.0[at].load(Ordering::Acquire)
    }

    pub(crate) fn store(self, at: usize, value: u64) {
        crash::step();
        self.0[at].store(value, Ordering::Relaxed);
    }

    /// Stores a word; other processes see it only after every earlier store of this process.
    pub(crate) fn store_release(self, at: usize, value: u64) {
        crash::step();
        self.0[at].store(value, Ordering::Release);
    }

    /// Returns the word itself, for read-modify-write operations.
    pub(crate) fn atomic(self, at: usize) -> &'static AtomicU64 {
        crash::step();
        &self.0[at]
    }

    pub(crate) fn slice(self, at: usize, len: usize) -> &'static [AtomicU64] {
        &self.0[at..at + len]
    }
}

/// Returns the number of words that `bytes` bytes occupy.
pub(crate) const fn words_for(bytes: usize) -> usize {
    bytes.div_ceil(WORD_BYTES)
}

/// Stores `bytes` at the front of `words`, the last word padded with zeros, and adds every word to `sum`.
///
/// `words` has room for `bytes`; any excess is dropped.
pub(crate) fn store_bytes(words: &[AtomicU64], bytes: &[u8], sum: &mut Sum) {
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    let mut cells = words.iter();
    for (chunk, cell) in whole.iter().zip(&mut cells) {
        let value = u64::from_le_bytes(*chunk);
        sum.add(value);
        crash::step();
        cell.store(value, Ordering::Relaxed);
    }
    if !rest.is_empty()
        && let Some(cell) = cells.next()
    {
        let mut last = [0; WORD_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        let value = u64::from_le_bytes(last);
        sum.add(value);
        crash::step();
        cell.store(value, Ordering::Relaxed);
    }
}

/// Copies `words` to the front of `out`, eight bytes per word. Copies as much as the shorter of the two holds.
pub(crate) fn load_bytes(words: &[AtomicU64], out: &mut [u8]) {
    let (chunks, _) = out.as_chunks_mut::<WORD_BYTES>();
    for (chunk, cell) in chunks.iter_mut().zip(words) {
        crash::look();
        *chunk = cell.load(Ordering::Relaxed).to_le_bytes();
    }
}

/// A running checksum over words: Fletcher's checksum with 64-bit sums. It detects pages that were written partly or not at all,
/// but not forged records.
#[derive(Default)]
pub(crate) struct Sum {
    plain: u64,
    ordered: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, word: u64) {
        self.plain = self.plain.wrapping_add(word);
        self.ordered = self.ordered.wrapping_add(self.plain);
    }

    pub(crate) fn value(&self) -> u64 {
        self.plain.rotate_left(32) ^ self.ordered
    }
}
