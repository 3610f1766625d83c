//! Encodings of bytes as text: base64, hexadecimal, and the C strings of keep-alive data.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Base64 that writes padding. The decoder accepts input with or without padding.
const STANDARD: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes base64. `None`: the text is invalid.
pub fn base64(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Encodes base64.
pub fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Appends bytes in lower-case hexadecimal.
pub fn to_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.push(b"0123456789abcdef"[usize::from(digit)]);
        }
    }
}

/// Decodes pairs of hexadecimal digits. `None`: the text is invalid.
pub fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_chunks::<2>() else {
        return None;
    };
    pairs
        .iter()
        .map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?))
        .collect()
}

/// Decodes the escapes `\\`, `\r`, `\n` and `\xHH`. `None`: the text has another escape.
pub fn c_string(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&escape, after) = rest.split_first()?;
        rest = after;
        match escape {
            b'\\' => out.push(b'\\'),
            b'r' => out.push(b'\r'),
            b'n' => out.push(b'\n'),
            b'x' => {
                let (pair, after) = rest.split_at_checked(2)?;
                out.push(digit(pair[0])? << 4 | digit(pair[1])?);
                rest = after;
            }
            _ => return None,
        }
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn c_strings_have_four_escapes() {
        for (text, bytes) in [
            (&br":\n\n"[..], &b":\n\n"[..]),
            (br"a\\b\r\x00\xFF", b"a\\b\r\0\xff"),
            (b"", b""),
        ] {
            assert_eq!(c_string(text).as_deref(), Some(bytes));
        }
        for bad in [&br"\"[..], br"\t", br"\x", br"\x1", br"\xg0"] {
            assert_eq!(c_string(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn accepts_base64_without_padding() {
        assert_eq!(base64(b"YQ=="), Some(b"a".to_vec()));
        assert_eq!(base64(b"YQ"), Some(b"a".to_vec()));
        assert_eq!(base64(b"Y"), None);
        assert_eq!(base64(b"Y_-="), None);
    }

    proptest! {
        #[test]
        fn encodings_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(base64(to_base64(&bytes).as_bytes()), Some(bytes.clone()));
            let mut text = Vec::new();
            to_hex(&mut text, &bytes);
            prop_assert_eq!(hex(&text), Some(bytes.clone()));
            let escaped: Vec<u8> = bytes.iter().flat_map(|byte| format!("\\x{byte:02x}").into_bytes()).collect();
            prop_assert_eq!(c_string(&escaped), Some(bytes));
        }
    }
}
