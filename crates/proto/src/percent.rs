//! Percent decoding of paths (RFC 3986, 2.1).

use crate::Refusal;
use crate::number::hex_value;

/// Decodes `path` into `out`, which is cleared first; returns whether anything changed.
///
/// When nothing changed `out` stays empty and the caller goes on with `path`: the usual path is not copied.
/// `%2F` becomes an ordinary slash and dot segments stay as they are; who opens files must refuse them.
/// Bytes are not checked to be UTF-8.
///
/// # Errors
/// [`Refusal::PercentEncoding`] for an escape without two hexadecimal digits and for `%00` or a NUL byte.
pub fn decode_path(path: &[u8], out: &mut Vec<u8>) -> Result<bool, Refusal> {
    out.clear();
    // Heads never hold a NUL, but other callers may pass one.
    let Some(first) = memchr::memchr2(b'%', 0, path) else {
        return Ok(false);
    };
    out.reserve(path.len());
    let mut rest = path;
    let mut next = Some(first);
    while let Some(at) = next {
        out.extend_from_slice(&rest[..at]);
        let byte = match rest[at..] {
            [b'%', high, low, ..] => match (hex_value(high), hex_value(low)) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => return Err(Refusal::PercentEncoding),
            },
            _ => return Err(Refusal::PercentEncoding),
        };
        if byte == 0 {
            return Err(Refusal::PercentEncoding);
        }
        out.push(byte);
        rest = &rest[at + 3..];
        next = memchr::memchr2(b'%', 0, rest);
    }
    out.extend_from_slice(rest);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes() {
        let cases: &[(&str, &[u8])] = &[
            ("/%41", b"/A"),
            ("/a%2fb", b"/a/b"),
            ("/%25", b"/%"),
            ("/%2525", b"/%25"),
            ("/%C3%BC", "/ü".as_bytes()),
            ("/%ff", b"/\xff"),
            ("/a%20b%20", b"/a b "),
            ("/a+b%2B", b"/a+b+"),
        ];
        for (path, decoded) in cases {
            let mut out = b"old".to_vec();
            assert_eq!(decode_path(path.as_bytes(), &mut out), Ok(true), "{path}");
            assert_eq!(&out, decoded, "{path}");
        }
    }

    #[test]
    fn a_plain_path_is_not_copied() {
        let mut out = b"old".to_vec();
        assert_eq!(decode_path(b"/plain/path", &mut out), Ok(false));
        assert!(out.is_empty());
    }

    #[test]
    fn refuses_bad_escapes_and_nul() {
        for bad in [
            "/%", "/%1", "/%g0", "/%0g", "/%%41", "/%00", "/a%2", "/\0", "/%41\0", "/%+1",
        ] {
            let mut out = Vec::new();
            let result = decode_path(bad.as_bytes(), &mut out);
            assert_eq!(result, Err(Refusal::PercentEncoding), "{bad}");
        }
    }
}
