//! A range of a buffer, stored as positions, so that a parsed head needs neither a lifetime nor a copy.

use std::ops::Range;

/// `len` bytes at position `start` of the parsed buffer.
///
/// Positions have 32 bits: a head is far smaller than 4 GiB, and the smaller type needs fewer cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Position of the first byte.
    pub start: u32,
    /// Number of bytes; may be zero.
    pub len: u32,
}

impl Span {
    /// Returns the span from `start` up to but excluding `end`.
    ///
    /// Requires `start <= end`; both must fit into 32 bits. Parsers read at most `u32::MAX` bytes.
    #[inline]
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= u32::MAX as usize);
        Self {
            start: start as u32,
            len: (end - start) as u32,
        }
    }

    /// Returns the bytes of this span in `buf`, the buffer that it was created from.
    ///
    /// # Panics
    /// Panics if the span extends beyond the end of `buf`.
    #[inline]
    #[must_use]
    pub fn of<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        &buf[self.range()]
    }

    /// Returns the span as an index range.
    #[inline]
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }

    /// Returns true if the span is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
