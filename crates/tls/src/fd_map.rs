//! Maps keyed by descriptors and tokens.
//!
//! The kernel and this process choose the keys, never a peer, so one multiplication is a sufficient hash.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use fermata_io::Fd;

pub(crate) type FdSet = HashSet<Fd, BuildHasherDefault<Multiply>>;
pub(crate) type FdMap<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

#[derive(Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u64(u64::from(number.cast_unsigned()));
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio, which spreads consecutive numbers.
        self.0 = (self.0 ^ number)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32);
    }
}
