//! Serializes the chunked transfer coding (RFC 9112, section 7.1).

use std::ops::Range;

use crate::number::{hex_digits, write_hex};

/// Last chunk of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Number of bytes after the payload of a chunk.
pub const TAIL_BYTES: usize = 2;

/// Number of digits reserved for the size before the length is known. Two are correct for chunks of 16 to 255 bytes, the usual size
/// of an event.
const DIGITS_GUESSED: usize = 2;

/// Appends the bytes that `write` appends as one chunk. Returns the position of the payload in `out`.
///
/// If `write` appends nothing, no chunk is written, because an empty chunk would end the body. `write` must only
/// append. A chunk whose size does not have two digits costs one move of its payload.
pub fn wrap_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
    let start = out.len();
    out.extend_from_slice(b"00\r\n");
    let guessed = out.len();
    write(out);
    let payload_len = out.len() - guessed;
    if payload_len == 0 {
        out.truncate(start);
        return start..start;
    }
    let digits = hex_digits(payload_len as u64);
    let payload = start + digits + 2;
    if digits != DIGITS_GUESSED {
        if digits > DIGITS_GUESSED {
            out.resize(payload + payload_len, 0);
        }
        out.copy_within(guessed..guessed + payload_len, payload);
        out.truncate(payload + payload_len);
        out[payload - 2..payload].copy_from_slice(b"\r\n");
    }
    write_hex(&mut out[start..start + digits], payload_len as u64);
    out.extend_from_slice(b"\r\n");
    payload..payload + payload_len
}

/// Appends `data` as one chunk, or nothing if `data` is empty.
pub fn wrap(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let mut head = [0u8; 18];
    let digits = hex_digits(data.len() as u64);
    write_hex(&mut head[..digits], data.len() as u64);
    head[digits..digits + 2].copy_from_slice(b"\r\n");
    out.reserve(data.len() + digits + 4);
    out.extend_from_slice(&head[..digits + 2]);
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree_for_every_size_class() {
        for len in [
            1usize,
            2,
            15,
            16,
            17,
            255,
            256,
            4095,
            4096,
            65535,
            65536,
            1 << 20,
        ] {
            let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut wrapped = b"before".to_vec();
            let payload = wrap_with(&mut wrapped, |out| out.extend_from_slice(&data));
            assert_eq!(&wrapped[payload], &data[..]);
            let mut written = b"before".to_vec();
            wrap(&mut written, &data);
            assert_eq!(wrapped, written);
            assert!(wrapped.starts_with(format!("before{len:x}\r\n").as_bytes()));
        }
    }

    #[test]
    fn an_empty_payload_writes_nothing() {
        let mut out = b"x".to_vec();
        assert_eq!(wrap_with(&mut out, |_| ()), 1..1);
        wrap(&mut out, b"");
        assert_eq!(out, b"x");
    }
}
