//! Integers with a prefix (RFC 7541, section 5.1).

use super::Error;

/// Maximum octets after the prefix. Five hold 2^31, more than any valid length or index.
const OCTETS_MAX: usize = 5;

/// Decodes the integer whose first octet is `first`, of which the low `prefix` bits count. `at` is the position after
/// `first` and is advanced.
#[inline]
pub(super) fn read(block: &[u8], at: &mut usize, first: u8, prefix: u32) -> Result<usize, Error> {
    let mask = (1u8 << prefix) - 1;
    let low = first & mask;
    if low < mask {
        return Ok(usize::from(low));
    }
    let mut value = u64::from(low);
    for octet in 0..OCTETS_MAX {
        let byte = *block.get(*at).ok_or(Error::Truncated)?;
        *at += 1;
        value += u64::from(byte & 0x7f) << (7 * octet);
        if byte & 0x80 == 0 {
            return if value < 1 << 31 {
                Ok(value as usize)
            } else {
                Err(Error::Integer)
            };
        }
    }
    Err(Error::Integer)
}

/// Appends `value`; the bits of `first` above the prefix are kept.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, first: u8, prefix: u32, value: usize) {
    let mask = (1usize << prefix) - 1;
    if value < mask {
        out.push(first | value as u8);
        return;
    }
    out.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(value: usize, prefix: u32) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, 0, prefix, value);
        let mut at = 1;
        assert_eq!(read(&out, &mut at, out[0], prefix), Ok(value));
        assert_eq!(at, out.len());
        for end in 1..out.len() {
            assert_eq!(
                read(&out[..end], &mut 1, out[0], prefix),
                Err(Error::Truncated)
            );
        }
        out
    }

    /// RFC 7541, appendix C.1.
    #[test]
    fn the_examples_of_the_standard() {
        assert_eq!(round_trip(10, 5), [0b01010]);
        assert_eq!(round_trip(1337, 5), [0b11111, 0b1001_1010, 0b0000_1010]);
        assert_eq!(round_trip(42, 8 - 1), [42]);
    }

    #[test]
    fn every_prefix_reads_back() {
        for prefix in 4..=7 {
            for bit in 0..31 {
                for value in [(1usize << bit) - 1, 1 << bit, (1 << bit) + 1] {
                    round_trip(value.min((1 << 31) - 1), prefix);
                }
            }
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        // 2^31, then an integer that never ends.
        let block = [0x7f, 0x81, 0xff, 0xff, 0xff, 0x07];
        assert_eq!(read(&block, &mut 1, block[0], 7), Err(Error::Integer));
        let block = [0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
        assert_eq!(read(&block, &mut 1, block[0], 7), Err(Error::Integer));
    }
}
