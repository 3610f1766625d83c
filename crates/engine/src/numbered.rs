//! Tables indexed by numbers that the engine or its embedder assigns: connections, requests,
//! WebSockets, exchanges with origins.
//!
//! This process chooses the numbers, so an attacker cannot provoke collisions. A request makes a
//! dozen look-ups; the standard library's hash would take a tenth of the request's time. Keys
//! chosen by clients keep the standard hash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table indexed by a number of this process.
pub type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// 2^64 divided by the golden ratio: odd, with half of its bits set.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hasher of these tables. Multiplies and folds, so that every input bit affects high and low bits
/// of the hash.
#[derive(Clone, Copy, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0.rotate_left(5) ^ number ^ FACTOR) * u128::from(FACTOR);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::Hash;

    use super::*;

    fn hash(value: impl Hash) -> u64 {
        let mut hasher = NumberHasher::default();
        value.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn hashes_indexes_and_generations_evenly() {
        // A token has a generation above its index. Tables use the lowest bits and the highest
        // seven bits of the hash.
        for shift in [0, 31, 32] {
            let low: HashSet<u64> = (0..1_024_u64).map(|it| hash(it << shift) & 0x3ff).collect();
            let high: HashSet<u64> = (0..1_024_u64).map(|it| hash(it << shift) >> 57).collect();
            assert!(low.len() > 550, "{shift}: {}", low.len());
            assert!(high.len() > 120, "{shift}: {}", high.len());
        }
        assert_ne!(hash((1_u64, 2_u64)), hash((2_u64, 1_u64)));
        assert_ne!(hash(&b"some name"[..]), hash(&b"some mane"[..]));
    }
}
