//! The Huffman code (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: within one length, codes ascend with the symbols. The lengths alone therefore define it, and
//! the compiler computes both tables below from them. Codes of up to [`SHORT_BITS`] bits take one table look-up. Longer
//! codes belong to symbols that are rare in headers; they are searched by length.

use super::Error;

/// Code length of each symbol in bits; EOS is last.
#[rustfmt::skip]
const BITS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Maximum code length for the direct table. All letters, digits and most marks have at most eight bits.
const SHORT_BITS: u32 = 9;

/// Maximum code length.
const BITS_MAX: usize = 30;

/// The end-of-string symbol, which must not occur in a string.
const EOS: usize = 256;

/// Indexed by the next [`SHORT_BITS`] bits: the symbol in the low byte, its code length above. 0 if the code is longer.
static SHORT: [u16; 1 << SHORT_BITS] = {
    let mut table = [0u16; 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < EOS {
        let bits = BITS[symbol] as u32;
        if bits <= SHORT_BITS {
            let spare = SHORT_BITS - bits;
            let first = (CODES[symbol] as usize) << spare;
            let mut at = 0;
            while at < 1 << spare {
                table[first + at] = (bits as u16) << 8 | symbol as u16;
                at += 1;
            }
        }
        symbol += 1;
    }
    table
};

/// The symbols, shortest code first.
const SORTED: [u16; 257] = {
    let mut sorted = [0u16; 257];
    let mut count = 0;
    let mut bits = 1;
    while bits <= BITS_MAX {
        let mut symbol = 0;
        while symbol < 257 {
            if BITS[symbol] as usize == bits {
                sorted[count] = symbol as u16;
                count += 1;
            }
            symbol += 1;
        }
        bits += 1;
    }
    sorted
};

/// Code of each symbol, in its low bits.
const CODES: [u32; 257] = {
    let mut codes = [0u32; 257];
    let mut code = 0u32;
    let mut i = 0;
    while i < 257 {
        let symbol = SORTED[i] as usize;
        if i > 0 {
            let before = BITS[SORTED[i - 1] as usize];
            code = (code + 1) << (BITS[symbol] - before);
        }
        codes[symbol] = code;
        i += 1;
    }
    codes
};

/// The codes of one length.
#[derive(Clone, Copy)]
struct Length {
    /// End of the codes (exclusive), left-aligned in 32 bits. 0 if no code has this length.
    end: u32,
    /// First code, in the low bits.
    first: u32,
    /// Index of the first symbol of this length in [`SORTED`].
    index: u16,
}

static LENGTHS: [Length; BITS_MAX + 1] = {
    let mut lengths = [Length {
        end: 0,
        first: 0,
        index: 0,
    }; BITS_MAX + 1];
    let mut i = 257;
    while i > 0 {
        i -= 1;
        let symbol = SORTED[i] as usize;
        let bits = BITS[symbol] as usize;
        let last = lengths[bits].end == 0;
        if last && symbol != EOS {
            lengths[bits].end = (CODES[symbol] + 1) << (32 - bits);
        } else if last {
            // EOS is the last code: its exclusive end does not fit into 32 bits.
            lengths[bits].end = u32::MAX;
        }
        lengths[bits].first = CODES[symbol];
        lengths[bits].index = i as u16;
    }
    lengths
};

/// Decodes `input` and appends the result to `out`.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    // No code is shorter than five bits. The loop writes up to eight bytes per round without a bounds check.
    out.resize(start + input.len() * 8 / 5 + 8, 0);
    let mut end = start;
    // The next bits, left-aligned, and the number of valid bits.
    let mut bits = 0u64;
    let mut have = 0u32;
    let mut at = 0;
    loop {
        if let Some(eight) = input.get(at..).and_then(<[u8]>::first_chunk::<8>) {
            bits |= u64::from_be_bytes(*eight) >> have;
            let octets = (63 - have) / 8;
            at += octets as usize;
            have += octets * 8;
        } else {
            while have <= 56 && at < input.len() {
                bits |= u64::from(input[at]) << (56 - have);
                have += 8;
                at += 1;
            }
        }
        // Only the first `have` bits are valid, so a code must fit into them. The bits after them belong to octets that are
        // read again.
        while have >= BITS_MAX as u32 || at == input.len() {
            let entry = SHORT[(bits >> (64 - SHORT_BITS)) as usize];
            let (symbol, len) = match u32::from(entry >> 8) {
                0 => long(bits),
                len => (entry as u8, len),
            };
            if len > have {
                if at < input.len() {
                    return Err(Error::Huffman);
                }
                break;
            }
            out[end] = symbol;
            end += 1;
            bits <<= len;
            have -= len;
        }
        if at == input.len() {
            break;
        }
    }
    out.truncate(end);
    // The remaining bits are padding: a prefix of EOS, shorter than an octet.
    if have < 8 && (have == 0 || bits >> (64 - have) == (1 << have) - 1) {
        Ok(())
    } else {
        Err(Error::Huffman)
    }
}

/// Result for EOS and invalid codes: longer than the available bits can ever be.
const NO_SYMBOL: (u8, u32) = (0, u32::MAX);

/// Returns the symbol and length of a code longer than [`SHORT_BITS`].
#[cold]
fn long(bits: u64) -> (u8, u32) {
    let top = (bits >> 32) as u32;
    for (len, codes) in LENGTHS.iter().enumerate().skip(SHORT_BITS as usize + 1) {
        if top < codes.end {
            let nth = (top >> (32 - len)) - codes.first;
            let symbol = SORTED[usize::from(codes.index) + nth as usize];
            return u8::try_from(symbol).map_or(NO_SYMBOL, |symbol| (symbol, len as u32));
        }
    }
    NO_SYMBOL
}

/// Encodes `text` and appends the result. Only for tests; the server sends plain strings.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut have) = (0u64, 0u32);
    for &byte in text {
        let len = u32::from(BITS[usize::from(byte)]);
        bits = bits << len | u64::from(CODES[usize::from(byte)]);
        have += len;
        while have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    if have > 0 {
        out.push((bits << (8 - have)) as u8 | (0xff >> have));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = b"before".to_vec();
        decode(input, &mut out)?;
        assert!(out.starts_with(b"before"));
        Ok(out.split_off(6))
    }

    /// RFC 7541, appendices C.4 and C.6.
    #[test]
    fn the_examples_of_the_standard() {
        for (text, code) in [
            (
                &b"www.example.com"[..],
                &b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..],
            ),
            (b"no-cache", b"\xa8\xeb\x10\x64\x9c\xbf"),
            (b"custom-key", b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f"),
            (b"custom-value", b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf"),
            (b"302", b"\x64\x02"),
            (b"private", b"\xae\xc3\x77\x1a\x4b"),
        ] {
            assert_eq!(decoded(code).expect("valid"), text);
            let mut out = Vec::new();
            encode(text, &mut out);
            assert_eq!(out, code);
        }
    }

    #[test]
    fn every_pair_of_bytes_reads_back() {
        for first in 0..=255 {
            for second in 0..=255 {
                let text = [first, second, b'a', first];
                for len in 0..=text.len() {
                    let mut out = Vec::new();
                    encode(&text[..len], &mut out);
                    assert_eq!(decoded(&out).expect("valid"), text[..len]);
                }
            }
        }
    }

    #[test]
    fn long_strings_read_back() {
        let text: Vec<u8> = (0..5000u32).map(|i| (i * 7 % 251) as u8).collect();
        let mut out = Vec::new();
        encode(&text, &mut out);
        assert_eq!(decoded(&out).expect("valid"), text);
    }

    #[test]
    fn padding_is_checked() {
        // The code of `a` is 00011.
        assert_eq!(decoded(&[0b0001_1111]).expect("valid"), b"a");
        assert_eq!(decoded(&[0b0001_1000]), Err(Error::Huffman));
        assert_eq!(decoded(&[0b0001_1110]), Err(Error::Huffman));
        // A complete octet of padding, and only padding.
        assert_eq!(decoded(&[0b0001_1111, 0xff]), Err(Error::Huffman));
        assert_eq!(decoded(&[0xff]), Err(Error::Huffman));
        // EOS is invalid, also between other symbols.
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(Error::Huffman));
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc]), Err(Error::Huffman));
        assert_eq!(
            decoded(&[0x1f, 0xff, 0xff, 0xff, 0xe3, 0x1f]),
            Err(Error::Huffman)
        );
    }
}
