//! Formats and parses numbers and addresses for heads, chunk sizes and logs, without `core::fmt`.

use std::io::Write as _;
use std::net::IpAddr;

/// "00" to "99", so that one division yields two digits.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0u8; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// Appends `n` in decimal.
#[inline]
pub fn decimal(out: &mut Vec<u8>, n: u64) {
    match n {
        0..10 => out.push(b'0' + n as u8),
        10..100 => out.extend_from_slice(&PAIRS[n as usize]),
        _ => long_decimal(out, n),
    }
}

fn long_decimal(out: &mut Vec<u8>, mut n: u64) {
    let mut text = [0u8; 20];
    let mut at = text.len();
    while n >= 100 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[(n % 100) as usize]);
        n /= 100;
    }
    if n >= 10 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[n as usize]);
    } else {
        at -= 1;
        text[at] = b'0' + n as u8;
    }
    out.extend_from_slice(&text[at..]);
}

/// Appends an address in the format of its `Display`. Formats IPv4 addresses without `Display`, which costs about a thousand
/// instructions.
pub fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            for (at, octet) in address.octets().into_iter().enumerate() {
                if at > 0 {
                    out.push(b'.');
                }
                decimal(out, u64::from(octet));
            }
        }
        IpAddr::V6(address) => {
            // Writing into a vector cannot fail.
            let _ = write!(out, "{address}");
        }
    }
}

/// The two decimal digits of `n`, which must be below 100.
#[inline]
#[must_use]
pub(crate) fn pair(n: u32) -> [u8; 2] {
    PAIRS[n as usize]
}

/// Number of hexadecimal digits of `n`: 1 to 16.
#[inline]
#[must_use]
pub(crate) fn hex_digits(n: u64) -> usize {
    (67 - (n | 1).leading_zeros() as usize) / 4
}

/// Fills `out` with `n` in lower-case hexadecimal, with leading zeros.
#[inline]
pub(crate) fn write_hex(out: &mut [u8], mut n: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(n & 15) as usize];
        n >>= 4;
    }
}

/// Returns the value of a hexadecimal digit, or `None` for any other byte.
#[inline]
#[must_use]
pub(crate) fn hex_value(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Parses a decimal number that consists only of digits. Returns `None` if it is empty, has a sign or a space, or is
/// 2^64 or more.
#[must_use]
pub fn parse_decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |n, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_equal_the_standard_formatting() {
        let written = |ip: IpAddr| {
            let mut text = Vec::new();
            address(&mut text, ip);
            text
        };
        for octet in 0..=255 {
            let ip = IpAddr::from([octet, 255 - octet, 7, octet]);
            assert_eq!(written(ip), ip.to_string().into_bytes());
        }
        for text in [
            "0.0.0.0",
            "1.10.99.100",
            "127.0.0.1",
            "255.209.200.9",
            "::1",
            "2001:db8::ff",
            "0:1:2:3:4:5:6:7",
        ] {
            let ip: IpAddr = text.parse().expect(text);
            assert_eq!(written(ip), ip.to_string().into_bytes());
        }
    }

    #[test]
    fn decimal_equals_the_standard_formatting() {
        let mut cases: Vec<u64> = (0..1100).collect();
        cases.extend((0..64).flat_map(|i| [1u64 << i, (1u64 << i) - 1]));
        cases.extend((0..20).map(|i| 10u64.pow(i)));
        cases.push(u64::MAX);
        for n in cases {
            let mut out = Vec::new();
            decimal(&mut out, n);
            assert_eq!(out, n.to_string().as_bytes());
            assert_eq!(parse_decimal(&out), Some(n));
            let mut hex = vec![0; hex_digits(n)];
            write_hex(&mut hex, n);
            assert_eq!(hex, format!("{n:x}").as_bytes());
        }
    }

    #[test]
    fn parse_decimal_takes_digits_only() {
        for bad in [
            "",
            "+1",
            "-1",
            " 1",
            "1 ",
            "1,1",
            "0x1",
            "18446744073709551616",
            "1_0",
            "\u{663}",
        ] {
            assert_eq!(parse_decimal(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse_decimal(b"00012"), Some(12));
    }
}
