//! Hash function for the table of paths without parameters.

use std::hash::Hasher;

/// A fast hash for short paths.
///
/// The keys are the application's patterns, so a client cannot fill a bucket, and no secret key is
/// needed.
#[derive(Default)]
pub(super) struct PathHasher(u64);

impl PathHasher {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for PathHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.add(
                word.iter()
                    .rev()
                    .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
            );
        }
        self.add(
            words
                .remainder()
                .iter()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        );
    }

    #[inline]
    fn write_usize(&mut self, len: usize) {
        self.add(len as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The map uses the low bits, which are the weakest of a product.
        self.0 ^ (self.0 >> 29)
    }
}
