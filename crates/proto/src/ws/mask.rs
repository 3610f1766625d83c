//! Masking (RFC 6455, section 5.3): the payload XOR a repeated four-byte key. Masking twice restores the payload.
//!
//! The loops work on blocks of a fixed size, which the compiler turns into 16-byte vector instructions on every 64-bit
//! target. Wider instructions would need run-time detection and gain little: system calls already dominate the cost of
//! a message.

use std::mem::MaybeUninit;

/// Bytes per block: two vectors, so that the loads of one overlap the stores of the other.
const BLOCK: usize = 32;

/// Masks `bytes` in place. `before` is the number of bytes of the same payload that precede `bytes`.
#[inline]
pub fn apply(bytes: &mut [u8], key: [u8; 4], before: u64) {
    let key = turned(key, before);
    let wide = widened(key);
    let (blocks, rest) = bytes.as_chunks_mut::<BLOCK>();
    for block in blocks {
        for (byte, mask) in block.iter_mut().zip(&wide) {
            *byte ^= mask;
        }
    }
    let (words, rest) = rest.as_chunks_mut::<4>();
    for word in words {
        *word = xor(*word, key);
    }
    for (byte, mask) in rest.iter_mut().zip(key) {
        *byte ^= mask;
    }
}

/// Masks a complete payload while copying it, so that each byte is touched once.
///
/// # Panics
/// Panics if the lengths differ.
#[inline]
pub fn copy(from: &[u8], to: &mut [MaybeUninit<u8>], key: [u8; 4]) {
    assert_eq!(from.len(), to.len());
    let wide = widened(key);
    let (from_blocks, from) = from.as_chunks::<BLOCK>();
    let (to_blocks, to) = to.as_chunks_mut::<BLOCK>();
    for (from, to) in from_blocks.iter().zip(to_blocks) {
        for ((to, from), mask) in to.iter_mut().zip(from).zip(&wide) {
            to.write(from ^ mask);
        }
    }
    let (from_words, from) = from.as_chunks::<4>();
    let (to_words, to) = to.as_chunks_mut::<4>();
    for (from, to) in from_words.iter().zip(to_words) {
        *to = xor(*from, key).map(MaybeUninit::new);
    }
    for ((to, from), mask) in to.iter_mut().zip(from).zip(key) {
        to.write(from ^ mask);
    }
}

/// Returns the key rotated for a slice that starts `before` bytes into the payload.
#[inline]
fn turned(mut key: [u8; 4], before: u64) -> [u8; 4] {
    key.rotate_left((before % 4) as usize);
    key
}

#[inline]
fn widened(key: [u8; 4]) -> [u8; BLOCK] {
    let mut wide = [0; BLOCK];
    for place in wide.as_chunks_mut::<4>().0 {
        *place = key;
    }
    wide
}

#[inline]
fn xor(word: [u8; 4], key: [u8; 4]) -> [u8; 4] {
    (u32::from_ne_bytes(word) ^ u32::from_ne_bytes(key)).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

    fn naive(bytes: &[u8], key: [u8; 4], before: usize) -> Vec<u8> {
        let masked = bytes.iter().enumerate();
        masked
            .map(|(i, byte)| byte ^ key[(i + before) % 4])
            .collect()
    }

    #[test]
    fn the_example_of_the_standard() {
        let mut hello = *b"Hello";
        apply(&mut hello, KEY, 0);
        assert_eq!(hello, [0x7f, 0x9f, 0x4d, 0x51, 0x58]);
    }

    #[test]
    fn every_length_and_every_turn_agree_with_the_definition() {
        let bytes: Vec<u8> = (0..200u8).collect();
        for len in 0..bytes.len() {
            for before in 0..6 {
                let mut masked = bytes[..len].to_vec();
                apply(&mut masked, KEY, before as u64);
                assert_eq!(masked, naive(&bytes[..len], KEY, before));
            }
            let mut to = vec![MaybeUninit::new(0u8); len];
            copy(&bytes[..len], &mut to, KEY);
            let expected = naive(&bytes[..len], KEY, 0);
            let same = expected.iter().zip(&mut to);
            assert!({ same }.all(|(expected, to)| to.write(*expected) == expected));
        }
    }

    #[test]
    fn a_payload_longer_than_32_bits_keeps_its_turn() {
        let mut bytes = *b"abc";
        apply(&mut bytes, KEY, (1 << 40) + 3);
        assert_eq!(bytes[..], naive(b"abc", KEY, 3));
    }
}
