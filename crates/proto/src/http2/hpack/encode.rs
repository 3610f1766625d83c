//! Encodes fields into header blocks (RFC 7541, section 6) with the static table and plain strings.

use super::fixed::{ENTRIES, static_name_index};
use super::integer;

/// Maximum length of a name to look up in the static table, whose longest name has 27 bytes.
const NAME_BYTES_USUAL: usize = 32;

/// Literal without indexing: four bits of name index (RFC 7541, section 6.2.2).
const LITERAL: u8 = 0x00;

/// Prefix of a literal that intermediaries must not index either (RFC 7541, section 6.2.3).
const NEVER_INDEXED: u8 = 0x10;

/// Dynamic table size update to 0 (RFC 7541, section 6.3), the start of the first block after the peer reduced its
/// limit.
pub const SIZE_UPDATE_TO_ZERO: u8 = 0x20;

/// Appends `:status`; common values are one static index.
#[inline]
pub fn encode_status(out: &mut Vec<u8>, status: u16) {
    let index = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            debug_assert!((100..1000).contains(&status));
            let digit = |place: u16| b'0' + (status / place % 10) as u8;
            out.extend_from_slice(&[LITERAL | 8, 3, digit(100), digit(10), digit(1)]);
            return;
        }
    };
    out.push(0x80 | index);
}

/// Appends the field of the complete static entry at `index`.
pub fn encode_indexed(out: &mut Vec<u8>, index: u8) {
    debug_assert!(index > 0 && usize::from(index) <= ENTRIES.len());
    out.push(0x80 | index);
}

/// Appends a field; the name is converted to lower case. Fields with secrets, recognized by name, are marked
/// never-indexed.
#[inline]
pub fn encode(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    write(out, name, value, LITERAL);
}

/// Appends a field with a secret value.
pub fn encode_secret(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    write(out, name, value, NEVER_INDEXED);
}

#[inline]
fn write(out: &mut Vec<u8>, name: &[u8], value: &[u8], kind: u8) {
    out.reserve(name.len() + value.len() + 12);
    let mut lower = [0; NAME_BYTES_USUAL];
    let index = match lower.get_mut(..name.len()) {
        Some(lower) => {
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            static_name_index(lower)
        }
        None => None,
    };
    match index {
        Some(index) => {
            let kind = if is_secret(index) {
                NEVER_INDEXED
            } else {
                kind
            };
            integer::write(out, kind, 4, usize::from(index));
        }
        None => {
            out.push(kind);
            integer::write(out, 0, 7, name.len());
            let start = out.len();
            out.extend_from_slice(name);
            out[start..].make_ascii_lowercase();
        }
    }
    integer::write(out, 0, 7, value.len());
    out.extend_from_slice(value);
}

/// Returns true for `authorization`, `cookie`, `proxy-authorization` and `set-cookie`.
fn is_secret(index: u8) -> bool {
    matches!(index, 23 | 32 | 49 | 55)
}
