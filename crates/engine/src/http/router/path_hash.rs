//! The hash of paths in the table of those without parameters.

use std::hash::Hasher;

/// A fast hash for short paths.
///
/// Its keys are the program's own patterns, so a client cannot fill a bucket; a secret key would buy nothing.
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
        // The map takes its bucket from the low bits, where a product is weakest.
        self.0 ^ (self.0 >> 29)
    }
}
