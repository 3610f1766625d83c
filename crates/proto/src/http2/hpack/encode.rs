//! Fields to header blocks (RFC 7541, 6), with the static table and strings as they are.

use super::fixed::{ENTRIES, static_name_index};
use super::integer;

/// Names up to this length are in lower case before they are looked up; the longest of the static table has 27.
const NAME_BYTES_USUAL: usize = 32;

/// A literal without indexing, its name's index in four bits (RFC 7541, 6.2.2).
const LITERAL: u8 = 0x00;

/// A literal that nobody on the way may index either (RFC 7541, 6.2.3).
const NEVER_INDEXED: u8 = 0x10;

/// The change of the table's size to 0 (RFC 7541, 6.3): what a block begins with after the peer has lowered its limit.
pub const SIZE_UPDATE_TO_ZERO: u8 = 0x20;

/// Appends `:status`, whose first bytes are an index for the usual ones.
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

/// Appends the field that stands whole at `index` of the static table.
pub fn encode_indexed(out: &mut Vec<u8>, index: u8) {
    debug_assert!(index > 0 && usize::from(index) <= ENTRIES.len());
    out.push(0x80 | index);
}

/// Appends a field; its name becomes lower-case. What holds secrets by its name is never indexed.
#[inline]
pub fn encode(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    write(out, name, value, LITERAL);
}

/// Appends a field whose value is a secret.
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

/// `authorization`, `cookie`, `proxy-authorization` and `set-cookie`.
fn is_secret(index: u8) -> bool {
    matches!(index, 23 | 32 | 49 | 55)
}
