//! SipHash-1-3 with a secret key, so that clients cannot choose channel names that share an index bucket.

/// Hashes channel names with the ring's key. Obtained from [`crate::Ring::hasher`]; equal in all workers of a ring.
#[derive(Clone, Copy)]
pub struct ChannelHasher {
    key: [u64; 2],
}

impl ChannelHasher {
    /// Creates a hasher for `key`; the second half of SipHash's key is derived from it.
    pub fn new(key: u64) -> ChannelHasher {
        ChannelHasher {
            key: [key, spread(key)],
        }
    }

    /// Returns the 64-bit hash of `bytes`.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        sip13(self.key, bytes)
    }

    /// Returns the hash of `bytes` under the additional key `with`, for pairs such as (channel, user).
    pub(crate) fn hash_with(&self, with: u64, bytes: &[u8]) -> u64 {
        sip13([self.key[0] ^ with, self.key[1]], bytes)
    }
}

/// One step of SplitMix64. It is a bijection, so the derived key is not weaker.
fn spread(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn sip13(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        absorb(&mut v, u64::from_le_bytes(*word));
    }
    // The last word holds the remaining bytes and, in its top byte, the length modulo 256.
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    absorb(&mut v, u64::from_le_bytes(last));
    v[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn absorb(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    round(v);
    v[0] ^= word;
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    #![allow(deprecated)]

    use std::hash::{Hasher, SipHasher};

    use super::*;

    /// The standard library has no keyed SipHash-1-3. Its deprecated `SipHasher` is SipHash-2-4 with a key, and its default hasher
    /// is SipHash-1-3 with key zero. Together the two verify rounds and key schedule.
    #[test]
    fn agrees_with_the_standard_librarys_1_3_under_key_zero() {
        for len in 0..70 {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
            let mut theirs = std::hash::DefaultHasher::new();
            theirs.write(&bytes);
            assert_eq!(sip13([0, 0], &bytes), theirs.finish(), "length {len}");
        }
    }

    #[test]
    fn uses_keys_like_the_standard_librarys_2_4() {
        let bytes = b"room.17";
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let mut theirs = SipHasher::new_with_keys(key[0], key[1]);
        theirs.write(bytes);
        assert_eq!(sip24(key, bytes), theirs.finish());
    }

    /// The code of `sip13` with more rounds. It uses the same `round` and key schedule.
    fn sip24(key: [u64; 2], bytes: &[u8]) -> u64 {
        let mut v = [
            key[0] ^ 0x736f_6d65_7073_6575,
            key[1] ^ 0x646f_7261_6e64_6f6d,
            key[0] ^ 0x6c79_6765_6e65_7261,
            key[1] ^ 0x7465_6462_7974_6573,
        ];
        let mut last = [0; 8];
        last[..bytes.len()].copy_from_slice(bytes);
        last[7] = bytes.len() as u8;
        let word = u64::from_le_bytes(last);
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
        v[2] ^= 0xff;
        for _ in 0..4 {
            round(&mut v);
        }
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }

    #[test]
    fn different_keys_give_different_hashes() {
        let names: Vec<u64> = (0..64)
            .map(|key| ChannelHasher::new(key).hash(b"lobby"))
            .collect();
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
    }
}
