//! Headers that select the content of a response: ranges, conditions, codings.

use crate::conditions::{Conditions, Validators};
use crate::negotiate::{Coding, Codings, ErrorFormat};
use crate::range::{RANGES_MAX, Ranges, parse, write_content_range};

/// Checks a `Range`, a condition and an `Accept-Encoding` header. The first two bytes select the length of the
/// representation.
pub fn content(data: &[u8]) {
    let Some((length, value)) = data.split_first_chunk::<2>() else {
        return;
    };
    // Small lengths cover the edge cases; the largest cover overflows.
    let len = match length {
        [255, shift] => u64::MAX >> (shift % 64),
        _ => u64::from(u16::from_le_bytes(*length)),
    };
    check_ranges(value, len);
    check_conditions(value);
    let codings = Codings::parse(value);
    if codings.is_empty() {
        assert_eq!(codings.best(Coding::ALL), None);
    }
    let _ = ErrorFormat::for_client(Some(value));
}

fn check_ranges(value: &[u8], len: u64) {
    let Ranges::Parts(parts) = parse(value, len) else {
        return;
    };
    assert!((1..=RANGES_MAX).contains(&parts.len()));
    let mut total: u128 = 0;
    for part in &parts {
        assert!(part.start < part.end && part.end <= len);
        total += u128::from(part.end - part.start);
        let mut text = Vec::new();
        write_content_range(&mut text, part, len);
        assert!(crate::response::valid_value(&text));
    }
    assert!(total <= u128::from(len));
}

fn check_conditions(value: &[u8]) {
    // A tag that can only match if the list contains it with its quotes.
    let validators = Validators {
        etag: Some(b"\"fermata\""),
        modified_s: Some(1_000_000_000),
    };
    let conditions = Conditions {
        if_none_match: Some(value),
        if_range: Some(value),
        ..Conditions::default()
    };
    let now_s = 2_000_000_000;
    if conditions.outcome(&validators, now_s) != crate::conditions::Outcome::Send {
        let needle = b"\"fermata\"";
        assert!(value.trim_ascii() == b"*" || value.windows(needle.len()).any(|at| at == needle));
    }
    let _ = conditions.range_counts(&validators, now_s);
}
