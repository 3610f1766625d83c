//! Normalisation of paths, so that all spellings of a path match the same route.

use std::borrow::Cow;

/// Returns the canonical form of a path. It is equal for all spellings that servers treat as the same path (RFC 3986, sections
/// 6.2.2.2 and 6.2.2.3).
///
/// Unreserved characters are decoded, other percent-encodings have upper-case digits, empty and dot segments are removed.
/// The result is still a URI path. A path that is already canonical is scanned, but not copied.
#[must_use]
pub fn normalised(path: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = path.first() != Some(&b'/') || {
        let has_encoding = path.contains(&b'%');
        let has_segment = path.windows(2).any(|two| matches!(two, b"//" | b"/."));
        !has_encoding && !has_segment
    };
    if is_plain {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(without_segments(&decoded(path)))
    }
}

/// Returns true if a segment is `.` or `..`, in whichever spelling.
pub(super) fn has_dot_segment(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|segment| {
        let is_candidate = matches!(segment, [b'.' | b'%', ..]) && segment.len() <= b"%2e%2e".len();
        is_candidate && matches!(&decoded(segment)[..], b"." | b"..")
    })
}

fn decoded(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        let byte = match tail {
            [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        let Some((high, low)) = byte else {
            out.push(*first);
            rest = tail;
            continue;
        };
        match high << 4 | low {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => out.push(byte),
            _ => {
                out.extend_from_slice(&[b'%', DIGITS[usize::from(high)], DIGITS[usize::from(low)]])
            }
        }
        rest = &tail[2..];
    }
    out
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|it| it as u8)
}

/// Removes empty and dot segments of a path that begins with a slash.
fn without_segments(path: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut ends_with_slash = false;
    for segment in path.split(|&byte| byte == b'/').skip(1) {
        ends_with_slash = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    let mut out = Vec::with_capacity(path.len());
    for segment in &kept {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if ends_with_slash || kept.is_empty() {
        out.push(b'/');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_of_a_path_are_that_path() {
        for path in [
            "/ws/a",
            "/%77s/a",
            "//ws/a",
            "/./ws/a",
            "/x/../ws//a",
            "/%2e%2E/ws/%61",
            "/ws/%2e/a",
        ] {
            assert_eq!(normalised(path.as_bytes()), &b"/ws/a"[..], "{path}");
        }
        for (path, normal) in [
            ("/a%2fb%20", "/a%2Fb%20"),
            ("/a/..", "/"),
            ("/a/./", "/a/"),
            ("/..", "/"),
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%zz/..b", "/%zz/..b"),
            ("*", "*"),
            ("/%00%0d", "/%00%0D"),
        ] {
            assert_eq!(normalised(path.as_bytes()), normal.as_bytes(), "{path}");
            assert_eq!(normalised(normal.as_bytes()), normal.as_bytes(), "{path}");
        }
    }
}
