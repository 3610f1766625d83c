//! Reproducible random choices: the seed is printed, and cargo shows it when a test fails.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;

/// A small generator (SplitMix64), good enough to split bytes, and easy to replay.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates a generator from `FERMATA_TEST_SEED`, or from a system seed. Prints the seed.
    pub fn from_environment() -> Random {
        Random::new(Random::seed_from_environment())
    }

    /// Returns and prints the seed of [`Random::from_environment`], for a test that records it.
    pub fn seed_from_environment() -> u64 {
        let given = std::env::var("FERMATA_TEST_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        println!("seed {seed}; repeat with FERMATA_TEST_SEED={seed}");
        seed
    }

    /// Creates a generator with a given seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in `range`, which must not be empty. The bias of the modulo does not matter here.
    pub fn within(&mut self, range: Range<usize>) -> usize {
        assert!(!range.is_empty(), "an empty range has no number to choose");
        let width = (range.end - range.start) as u64;
        range.start + (self.bits() % width) as usize
    }

    /// Returns one of `choices`, which must not be empty.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.within(0..choices.len())]
    }

    /// Splits `bytes` into pieces of 1 to `piece_bytes_max` bytes.
    pub fn split<'a>(&mut self, bytes: &'a [u8], piece_bytes_max: usize) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(self.within(1..piece_bytes_max + 1).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        for _ in 0..100 {
            assert_eq!(one.bits(), other.bits());
        }
    }

    #[test]
    fn pieces_make_up_the_whole() {
        let bytes: Vec<u8> = (0..=255).collect();
        let pieces = Random::new(1).split(&bytes, 9);
        assert!(pieces.iter().all(|piece| (1..=9).contains(&piece.len())));
        assert_eq!(pieces.concat(), bytes);
    }
}
