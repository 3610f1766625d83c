//! Parser for the `Range` request header (RFC 9110, section 14).

use std::ops::Range;

use crate::number::decimal;

/// Maximum number of ranges in a request; a request with more gets the complete representation. A range costs the
/// client a dozen bytes and the server a part head and a read.
pub const RANGES_MAX: usize = 32;

/// Result of a `Range` header for a representation of known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// The complete representation: the header is malformed, uses another unit, or its ranges add up to more than the
    /// representation.
    Whole,
    /// The requested parts in request order: at least one, none empty, in total no longer than the representation.
    Parts(Vec<Range<u64>>),
    /// No requested part exists; respond with 416.
    Unsatisfiable,
}

/// Parses the value of `Range` for a representation of `len` bytes.
///
/// A malformed header is ignored (section 14.2). Headers with more than [`RANGES_MAX`] ranges are ignored too, and so
/// are ranges that overlap so much that their sum exceeds `len`.
#[must_use]
pub fn parse(value: &[u8], len: u64) -> Ranges {
    let Some(list) = bytes_unit(value.trim_ascii()) else {
        return Ranges::Whole;
    };
    let mut parts = Vec::new();
    let mut total: u128 = 0;
    let mut count = 0;
    for item in list.split(|&byte| byte == b',').map(trim) {
        if item.is_empty() {
            continue;
        }
        count += 1;
        let (Some(spec), true) = (Spec::parse(item), count <= RANGES_MAX) else {
            return Ranges::Whole;
        };
        // A suffix range of an empty representation is the complete representation, not 416.
        if len == 0 && matches!(spec, Spec::Last(1..)) {
            return Ranges::Whole;
        }
        if let Some(part) = spec.within(len) {
            total += u128::from(part.end - part.start);
            parts.push(part);
        }
    }
    match (count, parts.is_empty()) {
        (0, _) => Ranges::Whole,
        (_, true) => Ranges::Unsatisfiable,
        _ if total > u128::from(len) => Ranges::Whole,
        _ => Ranges::Parts(parts),
    }
}

/// Appends `bytes 0-9/100`, the value of `Content-Range` for a part. `part` must not be empty.
pub fn write_content_range(out: &mut Vec<u8>, part: &Range<u64>, len: u64) {
    out.extend_from_slice(b"bytes ");
    decimal(out, part.start);
    out.push(b'-');
    decimal(out, part.end.saturating_sub(1));
    out.push(b'/');
    decimal(out, len);
}

/// Appends `bytes */100`, the value of `Content-Range` in a 416 response.
pub fn write_unsatisfied(out: &mut Vec<u8>, len: u64) {
    out.extend_from_slice(b"bytes */");
    decimal(out, len);
}

/// One range of the header's list.
#[derive(Clone, Copy)]
enum Spec {
    /// `first-last`, both inclusive.
    Span(u64, u64),
    /// `first-`
    From(u64),
    /// `-count`
    Last(u64),
}

impl Spec {
    fn parse(item: &[u8]) -> Option<Spec> {
        let dash = item.iter().position(|&byte| byte == b'-')?;
        let (first, last) = (&item[..dash], &item[dash + 1..]);
        match (first.is_empty(), last.is_empty()) {
            (true, true) => None,
            (true, false) => Some(Spec::Last(number(last)?)),
            (false, true) => Some(Spec::From(number(first)?)),
            (false, false) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Spec::Span(first, last))
            }
        }
    }

    /// Returns the part of the representation that the range covers, or `None` if that part is empty.
    fn within(self, len: u64) -> Option<Range<u64>> {
        let part = match self {
            Spec::Span(first, last) => first..last.saturating_add(1).min(len),
            Spec::From(first) => first..len,
            Spec::Last(count) => len - count.min(len)..len,
        };
        (part.start < part.end).then_some(part)
    }
}

/// Returns the text after `bytes=`, or `None` for another unit.
fn bytes_unit(value: &[u8]) -> Option<&[u8]> {
    let equals = value.iter().position(|&byte| byte == b'=')?;
    value[..equals]
        .eq_ignore_ascii_case(b"bytes")
        .then_some(&value[equals + 1..])
}

/// Parses digits. Saturates at `u64::MAX`, which is beyond the end of any file.
fn number(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    })
}

/// Removes the white space that a list allows around its items.
fn trim(item: &[u8]) -> &[u8] {
    item.trim_ascii()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn single_ranges() {
        for (value, len, expected) in [
            ("bytes=0-4", 10, 0..5),
            ("bytes=5-", 10, 5..10),
            ("bytes=-3", 10, 7..10),
            ("bytes=-30", 10, 0..10),
            ("bytes=0-99", 10, 0..10),
            ("BYTES=9-9", 10, 9..10),
            ("bytes= 2-3 ", 10, 2..4),
            ("bytes=0-18446744073709551615", 10, 0..10),
            ("bytes=0-99999999999999999999999", 10, 0..10),
            ("bytes=,1-2,,", 10, 1..3),
            ("bytes=1-2, 50-60", 10, 1..3),
        ] {
            let expected = Ranges::Parts(Vec::from([expected]));
            assert_eq!(parse(value.as_bytes(), len), expected, "{value}");
        }
    }

    #[test]
    fn several_ranges_keep_their_order() {
        let parts = Ranges::Parts(Vec::from([5..7, 0..2, 9..10]));
        assert_eq!(parse(b"bytes=5-6,0-1,-1", 10), parts);
    }

    #[test]
    fn ignores_malformed_ranges() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=4-2",
            "bytes=0-1;2-3",
            "bytes=0 - 1",
            "bytes=--1",
            "bytes=1--2",
            "bytes=+1-2",
            "bytes=0x0-1",
            "bytes=0-1,x",
            "items=0-1",
            "bytes =0-1",
        ] {
            assert_eq!(parse(value.as_bytes(), 10), Ranges::Whole, "{value}");
        }
    }

    #[test]
    fn ranges_beyond_the_end_are_unsatisfiable() {
        for (value, len) in [
            ("bytes=10-", 10),
            ("bytes=10-20", 10),
            ("bytes=-0", 10),
            ("bytes=99999999999999999999999-", 10),
            ("bytes=0-0", 0),
            ("bytes=20-,30-40", 10),
        ] {
            let found = parse(value.as_bytes(), len);
            assert_eq!(found, Ranges::Unsatisfiable, "{value}");
        }
        assert_eq!(parse(b"bytes=-5", 0), Ranges::Whole);
    }

    #[test]
    fn overlapping_ranges_give_the_complete_representation() {
        assert_eq!(parse(b"bytes=0-9,0-0", 10), Ranges::Whole);
        let many = format!("bytes={}", vec!["0-0"; RANGES_MAX + 1].join(","));
        assert_eq!(parse(many.as_bytes(), 10_000), Ranges::Whole);
    }

    #[test]
    fn content_ranges() {
        let mut out = Vec::new();
        write_content_range(&mut out, &(0..10), 100);
        out.push(b' ');
        write_unsatisfied(&mut out, 7);
        assert_eq!(out, b"bytes 0-9/100 bytes */7");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(len in 1u64..u64::MAX, ends in prop::collection::vec((any::<u64>(), any::<u64>()), 1..4)) {
            let parts: Vec<Range<u64>> = ends
                .iter()
                .map(|(one, other)| (one % len, other % len))
                .map(|(one, other)| one.min(other)..one.max(other) + 1)
                .collect();
            let list: Vec<String> = parts
                .iter()
                .map(|part| format!("{}-{}", part.start, part.end - 1))
                .collect();
            let total = parts.iter().map(|part| u128::from(part.end - part.start)).sum::<u128>();
            let found = parse(format!("bytes={}", list.join(", ")).as_bytes(), len);
            let expected = if total > u128::from(len) { Ranges::Whole } else { Ranges::Parts(parts) };
            prop_assert_eq!(found, expected);
        }
    }
}
