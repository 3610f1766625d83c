//! Writing client-supplied text in JSON strings.

use std::io::Write as _;

/// Maximum length in bytes; a longer text is cut.
pub(crate) const FIELD_BYTES_MAX: usize = 2048;

/// Appends text without the quotes of a JSON string: escapes control characters, and replaces bytes
/// that are not UTF-8.
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

/// Returns true if no byte needs escaping. The loop has no early exit, so the compiler can
/// vectorize it.
pub(crate) fn is_all_plain(text: &[u8]) -> bool {
    text.iter()
        .fold(true, |plain, byte| plain & is_plain(*byte))
}

/// Returns true for an ASCII character that needs no escaping.
pub(crate) fn is_plain(byte: u8) -> bool {
    (byte.wrapping_sub(b' ') <= b'~' - b' ') & (byte != b'"') & (byte != b'\\')
}
