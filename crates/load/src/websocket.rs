//! Client side of the WebSocket handshake (RFC 6455, 4.1), and masking keys.

use fermata_proto::response_reader::RequestKind;
use fermata_proto::ws::accept::{ACCEPT_BYTES, KEY_BYTES, accept_key};
use fermata_proto::ws::frame::{self, Opcode, Reserved};
use memchr::memmem;

use crate::error::Fault;
use crate::response::Head;
use crate::target::{Template, Values};

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Handshake of all connections of one process.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub host: String,
    pub path: Template,
    /// Additional headers, each with its line end.
    pub headers: Vec<u8>,
    /// Random key per process; servers accept a repeated key.
    key: [u8; KEY_BYTES],
    accept: [u8; ACCEPT_BYTES],
}

impl Opening {
    pub fn new(host: &str, path: &Template, headers: Vec<u8>) -> Self {
        let key = key([fermata_io::random::u64(), fermata_io::random::u64()]);
        Self {
            host: host.to_string(),
            path: path.clone(),
            headers,
            accept: accept_key(&key),
            key,
        }
    }

    /// Appends the request.
    pub fn write(&self, values: Values<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"GET ");
        self.path.render(values, out);
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(self.host.as_bytes());
        out.extend_from_slice(
            b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n",
        );
        out.extend_from_slice(&self.headers);
        out.extend_from_slice(b"Sec-WebSocket-Key: ");
        out.extend_from_slice(&self.key);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Checks the response at the start of `bytes` and returns its length. Returns `None` if the response is incomplete.
    pub fn check(&self, bytes: &[u8]) -> Result<Option<usize>, Fault> {
        let request = RequestKind {
            wants_upgrade: true,
            ..RequestKind::default()
        };
        let Some(head) = Head::parse(bytes, request)? else {
            return Ok(None);
        };
        if head.status != 101 {
            return Err(Fault::NotUpgraded(head.status));
        }
        if memmem::find(&bytes[..head.bytes], &self.accept).is_none() {
            return Err(Fault::Accept);
        }
        Ok(Some(head.bytes))
    }
}

/// Encodes 16 bytes in base64. The last of 22 digits holds two bits.
fn key(random: [u64; 2]) -> [u8; KEY_BYTES] {
    let bits = u128::from(random[0]) << 64 | u128::from(random[1]);
    std::array::from_fn(|at| match at {
        0..21 => BASE64[(bits >> (6 * at)) as usize & 63],
        21 => BASE64[((bits >> 126) as usize & 3) << 4],
        _ => b'=',
    })
}

/// Masking keys. They protect proxies from scripts in browsers (RFC 6455, 10.3). No script runs here, so predictable
/// keys are sufficient.
#[derive(Debug)]
pub(crate) struct Masks(u64);

impl Masks {
    pub fn new() -> Self {
        Self(fermata_io::random::u64() | 1)
    }

    /// Returns the next key of an xorshift generator.
    pub fn draw(&mut self) -> [u8; 4] {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as u32).to_ne_bytes()
    }

    /// Appends a complete masked frame.
    pub fn write(&mut self, opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
        let mask = self.draw();
        frame::write(out, opcode, true, Reserved::NONE, Some(mask), payload);
    }
}

#[cfg(test)]
mod tests {
    use fermata_proto::ws::accept::valid_key;

    use super::*;

    #[test]
    fn every_key_is_valid() {
        for random in [[0, 0], [u64::MAX, u64::MAX], [1 << 62, 77]] {
            assert!(valid_key(&key(random)));
        }
        let opening = Opening::new("h", &Template::parse(b"/ws"), Vec::new());
        assert!(valid_key(&opening.key));
    }

    #[test]
    fn only_the_right_answer_opens() {
        let opening = Opening::new("h", &Template::parse(b"/ws"), Vec::new());
        let accept = String::from_utf8(opening.accept.to_vec()).expect("text");
        let answer = format!("HTTP/1.1 101 S\r\nSec-WebSocket-Accept: {accept}\r\n\r\n");
        let checked = |bytes| opening.check(bytes).expect("it is right");
        assert_eq!(checked(answer.as_bytes()), Some(answer.len()));
        assert_eq!(checked(&answer.as_bytes()[..20]), None);
        assert!(opening.check(b"HTTP/1.1 101 S\r\nA: b\r\n\r\n").is_err());
        assert!(opening.check(b"HTTP/1.1 400 B\r\n\r\n").is_err());
    }
}
