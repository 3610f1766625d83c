//! A piece of a buffer by position, so that a parsed head needs no lifetime and no copy.

use std::ops::Range;

/// `len` bytes from `start` of the buffer that was parsed.
///
/// Positions are 32-bit: a head is bounded far below 4 GiB, and half the size keeps it in fewer cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Position of the first byte.
    pub start: u32,
    /// Number of bytes; may be zero.
    pub len: u32,
}

impl Span {
    /// The span from `start` up to, not including, `end`.
    ///
    /// Both must fit 32 bits and `start <= end`; parsers look at no more than `u32::MAX` bytes.
    #[inline]
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= u32::MAX as usize);
        Self {
            start: start as u32,
            len: (end - start) as u32,
        }
    }

    /// The bytes of this span in `buf`, which must be the buffer it was made from.
    ///
    /// # Panics
    /// When the span reaches past the end of `buf`.
    #[inline]
    #[must_use]
    pub fn of<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        &buf[self.range()]
    }

    /// The span as an index range.
    #[inline]
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }

    /// Whether the span holds no byte.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
