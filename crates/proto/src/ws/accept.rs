//! `Sec-WebSocket-Key` and `Sec-WebSocket-Accept` (RFC 6455, section 4.2.2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

/// Length of a key: 16 bytes in base64.
pub const KEY_BYTES: usize = 24;

/// Length of an accept value: 20 bytes in base64.
pub const ACCEPT_BYTES: usize = 28;

/// Suffix that RFC 6455 appends to every key before hashing.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Length of a decoded key in bytes.
const NONCE_BYTES: usize = 16;

/// Returns the value of `Sec-WebSocket-Accept` for a key. Does not check the key; see [`valid_key`].
#[must_use]
pub fn accept_key(key: &[u8]) -> [u8; ACCEPT_BYTES] {
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    let mut accept = [0; ACCEPT_BYTES];
    let written = STANDARD.encode_slice(digest, &mut accept);
    debug_assert_eq!(written, Ok(ACCEPT_BYTES));
    accept
}

/// Returns true if `key` is the base64 encoding of 16 bytes, as RFC 6455 requires.
#[must_use]
pub fn valid_key(key: &[u8]) -> bool {
    let mut nonce = [0; KEY_BYTES];
    key.len() == KEY_BYTES && STANDARD.decode_slice(key, &mut nonce) == Ok(NONCE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard() {
        assert_eq!(
            &accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="),
            b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn keys_are_base64_of_16_bytes() {
        assert!(valid_key(b"dGhlIHNhbXBsZSBub25jZQ=="));
        assert!(valid_key(b"AAAAAAAAAAAAAAAAAAAAAA=="));
        for key in [
            &b""[..],
            b"dGhlIHNhbXBsZSBub25jZQ",
            b"dGhlIHNhbXBsZSBub25jZQ= ",
            b"dGhlIHNhbXBsZSBub25jZQ=a",
            b"dGhlIHNhbXBsZSBub25jZWFh",
            b"dGhlIHNhbXBsZSBub25j\xc3\xbc==",
            // Unused bits must be zero.
            b"dGhlIHNhbXBsZSBub25jZR==",
            b"dGhlIHNhbXBsZSBub25jZQ==AAAA",
            b"dGhlIHNhbXBsZSBub25jZQ--",
        ] {
            assert!(!valid_key(key), "{}", key.escape_ascii());
        }
    }
}
