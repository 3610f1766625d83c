//! Reusable byte buffers.
//!
//! A connection owns a buffer only while bytes are in flight. Allocating a buffer for each request would be slow, so a pool stores
//! a few. Their number and size are limited, and the memory of a burst is returned to the allocator.
//!
//! A [`Buffer`] is one pointer: it takes 8 bytes of an idle connection instead of the 24 of a vector.

use std::ops::{Deref, DerefMut};

/// Maximum number of buffers that [`Pool::default`] keeps.
pub const KEPT_MAX: usize = 64;

/// Capacity in bytes of a new buffer of [`Pool::default`]: the usual size of a request or response.
pub const CAPACITY_BYTES: usize = 8 * 1024;

/// Maximum capacity in bytes of a buffer that [`Pool::default`] keeps.
pub const CAPACITY_BYTES_MAX: usize = 64 * 1024;

/// A vector of bytes that needs 8 bytes while it is not allocated.
///
/// Dereferences to a vector. Reading an unallocated buffer returns no bytes; writing to it allocates the vector.
#[derive(Debug, Default)]
// The box keeps the vector's 24 bytes out of the connection.
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
    /// Invariant: at most `kept_max` buffers, each empty and with a capacity of 1 to `capacity_bytes_max` bytes.
    kept: Vec<Buffer>,
    kept_max: usize,
    capacity_bytes: usize,
    capacity_bytes_max: usize,
}

impl Pool {
    /// Creates a pool that keeps up to `kept_max` buffers. New buffers have `capacity_bytes`; buffers larger than
    /// `capacity_bytes_max` are dropped. The pool's memory is at most the product of the two limits.
    #[must_use]
    pub fn new(kept_max: usize, capacity_bytes: usize, capacity_bytes_max: usize) -> Self {
        Self {
            kept: Vec::new(),
            kept_max,
            capacity_bytes,
            capacity_bytes_max,
        }
    }

    /// Returns an empty buffer. This is the buffer that was returned last, because it is still in the processor's cache, or else a
    /// new buffer.
    #[inline]
    pub fn take(&mut self) -> Buffer {
        match self.kept.pop() {
            Some(buffer) => buffer,
            None => Vec::with_capacity(self.capacity_bytes).into(),
        }
    }

    /// Returns a buffer to the pool, or frees it if a limit requires that. Discards its content.
    #[inline]
    pub fn give(&mut self, mut buffer: Buffer) {
        let capacity = buffer.capacity();
        if capacity != 0 && capacity <= self.capacity_bytes_max && self.kept.len() < self.kept_max {
            buffer.clear();
            self.kept.push(buffer);
        }
    }

    /// Returns the number of buffers in the pool.
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
