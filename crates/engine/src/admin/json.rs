//! Text of clients in strings of JSON.

use std::io::Write as _;

/// Bytes of a text that are written; what is longer is cut.
pub(crate) const FIELD_BYTES_MAX: usize = 2048;

/// Appends text such that it cannot end the string: control characters are escaped, and bytes that are not UTF-8 replaced.
pub(crate) fn escape_json(out: &mut Vec<u8>, text: &[u8]) {
    let text = &text[..text.len().min(FIELD_BYTES_MAX)];
    if is_all_plain(text) {
        out.extend_from_slice(text);
        return;
    }
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '"' | '\\' => out.extend_from_slice(&[b'\\', character as u8]),
            _ if character.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Looks at every byte, whatever it finds: that is what the compiler can do for many at a time.
pub(crate) fn is_all_plain(text: &[u8]) -> bool {
    text.iter()
        .fold(true, |plain, byte| plain & is_plain(*byte))
}

/// Whether it is a character of ASCII that needs no escaping in a string.
pub(crate) fn is_plain(byte: u8) -> bool {
    (byte.wrapping_sub(b' ') <= b'~' - b' ') & (byte != b'"') & (byte != b'\\')
}
