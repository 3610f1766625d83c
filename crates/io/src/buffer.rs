//! Reusable byte buffers.
//!
//! A connection owns a buffer only while bytes are in flight. In steady traffic that would be an
//! allocation per request, so a few buffers are kept; both their number and their size are
//! bounded, and a burst's memory goes back to the allocator.
//!
//! A [`Buffer`] is a pointer: an idle connection pays 8 bytes for it and not the 24 of a vector.

use std::ops::{Deref, DerefMut};

/// Buffers kept by [`Pool::default`].
pub const KEPT_MAX: usize = 64;

/// Capacity of a new buffer of [`Pool::default`], in bytes: a request or response of usual size.
pub const CAPACITY_BYTES: usize = 8 * 1024;

/// A buffer that has grown beyond this is not kept by [`Pool::default`].
pub const CAPACITY_BYTES_MAX: usize = 64 * 1024;

/// A vector of bytes that takes 8 bytes while it is not there.
///
/// It is used as the vector it stands for. Reading one that is not there finds it empty; writing to it
/// brings it into being.
#[derive(Debug, Default)]
// A vector outside its box is what this saves.
#[allow(clippy::box_collection)]
pub struct Buffer(Option<Box<Vec<u8>>>);

impl Deref for Buffer {
    type Target = Vec<u8>;

    #[inline]
    fn deref(&self) -> &Vec<u8> {
        static ABSENT: Vec<u8> = Vec::new();
        self.0.as_deref().unwrap_or(&ABSENT)
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        self.0.get_or_insert_default()
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Some(Box::new(bytes)))
    }
}

/// A bounded stack of empty buffers.
#[derive(Debug)]
pub struct Pool {
    /// Invariant: at most `kept_max` buffers, each empty and of 1 to `capacity_bytes_max` bytes.
    kept: Vec<Buffer>,
    kept_max: usize,
    capacity_bytes: usize,
    capacity_bytes_max: usize,
}

impl Pool {
    /// A pool that keeps up to `kept_max` buffers, makes them with `capacity_bytes` and drops those
    /// that have grown beyond `capacity_bytes_max`: it holds at most the product of the two bounds.
    #[must_use]
    pub fn new(kept_max: usize, capacity_bytes: usize, capacity_bytes_max: usize) -> Self {
        Self {
            kept: Vec::new(),
            kept_max,
            capacity_bytes,
            capacity_bytes_max,
        }
    }

    /// An empty buffer: the one given back last, as it is still in the cache, or a new one.
    #[inline]
    pub fn take(&mut self) -> Buffer {
        match self.kept.pop() {
            Some(buffer) => buffer,
            None => Vec::with_capacity(self.capacity_bytes).into(),
        }
    }

    /// Takes a buffer back, or frees it when a bound says so. Its content is discarded.
    #[inline]
    pub fn give(&mut self, mut buffer: Buffer) {
        let capacity = buffer.capacity();
        if capacity != 0 && capacity <= self.capacity_bytes_max && self.kept.len() < self.kept_max {
            buffer.clear();
            self.kept.push(buffer);
        }
    }

    /// How many buffers are waiting to be taken.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept.len()
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new(KEPT_MAX, CAPACITY_BYTES, CAPACITY_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_is_the_same() {
        let mut pool = Pool::default();
        let mut buffer = pool.take();
        buffer.extend_from_slice(b"secret");
        let address = buffer.as_ptr();
        pool.give(buffer);
        let again = pool.take();
        assert!(again.is_empty());
        assert_eq!(again.as_ptr(), address);
    }

    #[test]
    fn number_and_size_are_bounded() {
        let mut pool = Pool::new(2, 16, 32);
        for _ in 0..5 {
            pool.give(Vec::with_capacity(16).into());
        }
        assert_eq!(pool.kept(), 2);
        let mut pool = Pool::new(2, 16, 32);
        pool.give(Vec::with_capacity(33).into());
        pool.give(Vec::new().into());
        pool.give(Buffer::default());
        assert_eq!(pool.kept(), 0);
    }

    #[test]
    fn a_buffer_that_is_not_there_is_empty_and_small() {
        assert_eq!(size_of::<Buffer>(), 8);
        let mut buffer = Buffer::default();
        assert!(buffer.is_empty() && buffer.capacity() == 0);
        buffer.push(1);
        assert_eq!(*std::mem::take(&mut buffer), [1]);
        assert!(buffer.is_empty());
    }
}
