//! Reusable byte buffers.
//!
//! A connection owns a buffer only while bytes are in flight. In steady traffic that would be an
//! allocation per request, so a few buffers are kept; both their number and their size are
//! bounded, and a burst's memory goes back to the allocator.

/// Buffers kept by [`Pool::default`].
pub const KEPT_MAX: usize = 64;

/// Capacity of a new buffer of [`Pool::default`], in bytes: a request or response of usual size.
pub const CAPACITY_BYTES: usize = 8 * 1024;

/// A buffer that has grown beyond this is not kept by [`Pool::default`].
pub const CAPACITY_BYTES_MAX: usize = 64 * 1024;

/// A bounded stack of empty buffers.
#[derive(Debug)]
pub struct Pool {
    /// Invariant: at most `kept_max` buffers, each empty and of 1 to `capacity_bytes_max` bytes.
    kept: Vec<Vec<u8>>,
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
    pub fn take(&mut self) -> Vec<u8> {
        match self.kept.pop() {
            Some(buffer) => buffer,
            None => Vec::with_capacity(self.capacity_bytes),
        }
    }

    /// Takes a buffer back, or frees it when a bound says so. Its content is discarded.
    #[inline]
    pub fn give(&mut self, mut buffer: Vec<u8>) {
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
            pool.give(Vec::with_capacity(16));
        }
        assert_eq!(pool.kept(), 2);
        let mut pool = Pool::new(2, 16, 32);
        pool.give(Vec::with_capacity(33));
        pool.give(Vec::new());
        assert_eq!(pool.kept(), 0);
    }
}
