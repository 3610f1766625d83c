//! Byte classes and the loops that scan for them, where the parser spends most of its time.

/// `tchar` (RFC 9110, section 5.6.2).
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        table[i] = byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            );
        i += 1;
    }
    table
};

/// Bytes allowed in a request target: printable ASCII except `#`.
///
/// RFC 3986 allows fewer, but clients send `|` and `"`, and none of these can end the line. Bytes above 0x7F are excluded: they are
/// not valid in a URL, and programs that decode them disagree about their meaning.
const TARGET: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0x21;
    while i < 0x7f {
        table[i] = i != b'#' as usize;
        i += 1;
    }
    table
};

/// Returns true if `byte` is allowed in a token.
#[inline]
pub(crate) fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Returns true if `text` is a token: letters, digits and a few marks, not empty (RFC 9110, section 5.6.2).
#[must_use]
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_token_byte(byte))
}

/// Returns true if `byte` is allowed in a header value (RFC 9110, section 5.5).
#[inline]
pub(crate) fn is_field_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Returns the position of the first byte from `at` that is not allowed in a token, or the length.
#[inline]
pub(crate) fn token_end(buf: &[u8], mut at: usize) -> usize {
    while at < buf.len() && TOKEN[buf[at] as usize] {
        at += 1;
    }
    at
}

/// Returns the position of the first byte from `at` that ends a target, or the length, and the position of the first
/// `?` before it.
#[inline]
pub(crate) fn target_end(buf: &[u8], mut at: usize) -> (usize, Option<usize>) {
    while at < buf.len() && TARGET[buf[at] as usize] {
        if buf[at] == b'?' {
            let question = at;
            while at < buf.len() && TARGET[buf[at] as usize] {
                at += 1;
            }
            return (at, Some(question));
        }
        at += 1;
    }
    (at, None)
}

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Returns the position of the first byte from `at` that is not allowed in a header value, or the length.
///
/// Tests eight bytes at a time, because values are the longest part of a head.
#[inline]
pub(crate) fn value_end(buf: &[u8], mut at: usize) -> usize {
    while let Some(eight) = buf.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*eight);
        // Set the high bit of each byte that is below 0x20 or DEL. A borrow can set wrong bits, but only above a correct one.
        // Only the lowest set bit is used.
        let below_space = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let flipped = word ^ (ONES * 0x7f);
        let delete = flipped.wrapping_sub(ONES) & !flipped & HIGHS;
        let hits = below_space | delete;
        if hits == 0 {
            at += 8;
            continue;
        }
        at += hits.trailing_zeros() as usize / 8;
        if buf[at] != b'\t' {
            return at;
        }
        at += 1;
    }
    while at < buf.len() && is_field_byte(buf[at]) {
        at += 1;
    }
    at
}

/// Returns the range `start..end` without surrounding spaces and tabs.
#[inline]
pub(crate) fn trim(buf: &[u8], mut start: usize, mut end: usize) -> (usize, usize) {
    while start < end && matches!(buf[start], b' ' | b'\t') {
        start += 1;
    }
    while start < end && matches!(buf[end - 1], b' ' | b'\t') {
        end -= 1;
    }
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_end_stops_at_every_control_byte_in_every_lane() {
        for byte in 0..=255u8 {
            for lane in 0..20 {
                for fill in [b'a', 0xff, b'\t', b' ', 0x80, b'~'] {
                    let mut text = vec![fill; 20];
                    text[lane] = byte;
                    let expected = if is_field_byte(byte) { 20 } else { lane };
                    assert_eq!(
                        value_end(&text, 0),
                        expected,
                        "{byte:#x} at {lane} in {fill:#x}"
                    );
                }
            }
        }
    }

    #[test]
    fn target_end_finds_the_first_question_mark() {
        assert_eq!(target_end(b"/a?b?c d", 0), (6, Some(2)));
        assert_eq!(target_end(b"/a", 0), (2, None));
        assert_eq!(target_end(b"/a b?c", 0), (2, None));
        assert_eq!(target_end(b"/a#b", 0), (2, None));
    }
}
