//! Tables by numbers that the engine or its embedder has given out: wires, requests, sockets, conversations.
//!
//! This process chooses these numbers, so their hash need not withstand an attacker; a request looks a dozen of
//! them up, and the hash of the standard library would be a tenth of its cost. Names of others stay with that one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by a number of our own.
pub type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Odd, and with as many bits set as not: the fraction of the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What hashes them. Multiplies and folds, so that every bit of a number changes high and low bits of its hash.
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
    fn numbers_of_one_place_or_one_generation_differ_where_tables_look() {
        // A token has a generation above its index; tables use the lowest bits and the highest seven.
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
