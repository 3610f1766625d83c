//! Opening handshake of the client (RFC 6455, section 4.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;

use super::accept::{KEY_BYTES, accept_key};
use super::extension::{self, Agreed};
use crate::http1::{is_field_byte, is_token};

/// Maximum bytes of a response head.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Random bytes in a key.
pub const NONCE_BYTES: usize = 16;

/// Parameters of a client's request. All texts must be valid in a request line or header line; see
/// [`crate::response::valid_name`] and [`crate::response::valid_value`].
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Value of `Host`.
    pub host: &'a [u8],
    /// Path and query.
    pub target: &'a [u8],
    /// Value of `Sec-WebSocket-Key`; see [`key`].
    pub key: &'a [u8; KEY_BYTES],
    /// Subprotocols in order of preference; different tokens.
    pub protocols: &'a [&'a [u8]],
    /// Further headers; none may be a [`super::handshake::reserved_name`].
    pub headers: &'a [(&'a [u8], &'a [u8])],
    /// True to offer permessage-deflate.
    pub compression: bool,
}

/// A handshake that the server accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// Bytes of the response head; frames follow.
    pub head_bytes: usize,
    /// The subprotocol that the server chose from the offered subprotocols.
    pub protocol: Option<&'a [u8]>,
    /// Negotiated compression; `None` if messages are not compressed.
    pub compression: Option<Agreed>,
}

/// Reason why the handshake failed.
///
/// `Display` is one sentence with cause and fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotOpened {
    /// The server sent an ordinary response with this status.
    #[error("the server has refused the WebSocket with status {0}")]
    Refused(u16),
    /// The bytes are not an HTTP/1.1 response.
    #[error("the response is not HTTP/1.1; connect to a WebSocket server")]
    Malformed,
    /// The head is longer than [`HEAD_BYTES_MAX`].
    #[error(
        "the response head is longer than {HEAD_BYTES_MAX} bytes; send fewer or shorter headers"
    )]
    TooLong,
    /// The 101 response switches to another protocol.
    #[error(
        "the response does not switch to WebSocket; send `Upgrade: websocket` and `Connection: Upgrade`"
    )]
    Upgrade,
    /// `Sec-WebSocket-Accept` does not match the key.
    #[error("Sec-WebSocket-Accept is missing or does not match the key")]
    Accept,
    /// A subprotocol that was not offered.
    #[error(
        "the server has chosen a subprotocol that was not offered; choose one of those offered or none"
    )]
    Protocol,
    /// An extension that was not offered, or a malformed response to the offer.
    #[error(
        "the server accepted an extension that was not offered; accept only an offered one or none"
    )]
    Extensions,
}

/// Returns the key for these random bytes.
#[must_use]
pub fn key(nonce: [u8; NONCE_BYTES]) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let written = STANDARD.encode_slice(nonce, &mut key);
    debug_assert_eq!(written, Ok(KEY_BYTES));
    key
}

impl Opening<'_> {
    /// Appends the request.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut line = |parts: &[&[u8]]| {
            parts.iter().for_each(|part| out.extend_from_slice(part));
            out.extend_from_slice(b"\r\n");
        };
        line(&[b"GET ", self.target, b" HTTP/1.1"]);
        line(&[b"Host: ", self.host]);
        line(&[b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13"]);
        line(&[b"Sec-WebSocket-Key: ", self.key]);
        if !self.protocols.is_empty() {
            line(&[
                b"Sec-WebSocket-Protocol: ",
                &self.protocols.join(&b", "[..]),
            ]);
        }
        if self.compression {
            let mut offer = Vec::new();
            extension::write_offer(&mut offer);
            line(&[b"Sec-WebSocket-Extensions: ", &offer]);
        }
        for (name, value) in self.headers {
            line(&[name, b": ", value]);
        }
        line(&[]);
    }

    /// Parses the response at the start of `buf`. Returns `None` if it is incomplete.
    ///
    /// # Errors
    /// The server rejected the handshake, or accepted something that was not requested.
    pub fn read<'b>(&self, buf: &'b [u8]) -> Result<Option<Opened<'b>>, NotOpened> {
        let Some(end) = memmem::find(&buf[..buf.len().min(HEAD_BYTES_MAX)], b"\r\n\r\n") else {
            let started = buf.len().min(START.len());
            return if buf[..started] != START[..started] {
                Err(NotOpened::Malformed)
            } else if buf.len() >= HEAD_BYTES_MAX {
                Err(NotOpened::TooLong)
            } else {
                Ok(None)
            };
        };
        let head = Head::parse(&buf[..end + 2]).ok_or(NotOpened::Malformed)?;
        if head.status != 101 {
            return Err(NotOpened::Refused(head.status));
        }
        let websocket = |value: &[u8]| value.eq_ignore_ascii_case(b"websocket");
        let upgrade = |value: &[u8]| value.eq_ignore_ascii_case(b"upgrade");
        if !head.list(b"upgrade").any(websocket) || !head.list(b"connection").any(upgrade) {
            return Err(NotOpened::Upgrade);
        }
        if head.only(b"sec-websocket-accept")? != Some(&accept_key(self.key)[..]) {
            return Err(NotOpened::Accept);
        }
        let protocol = head.only(b"sec-websocket-protocol")?;
        if protocol.is_some_and(|protocol| !self.protocols.contains(&protocol)) {
            return Err(NotOpened::Protocol);
        }
        let compression = extension::accepted(head.lines(b"sec-websocket-extensions"));
        let compression = compression.map_err(|_| NotOpened::Extensions)?;
        if compression.is_some() && !self.compression {
            return Err(NotOpened::Extensions);
        }
        Ok(Some(Opened {
            head_bytes: end + 4,
            protocol,
            compression,
        }))
    }
}

const START: &[u8] = b"HTTP/1.1 ";

/// Head of a response.
struct Head<'a> {
    status: u16,
    lines: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Head<'a> {
    /// Parses `head`, which ends with a line end.
    fn parse(head: &'a [u8]) -> Option<Self> {
        let mut rest = head.strip_prefix(START)?;
        let mut line = || {
            let end = memmem::find(rest, b"\r\n")?;
            let line = &rest[..end];
            rest = &rest[end + 2..];
            Some(line)
        };
        let first = line()?;
        let (digits, reason) = first.split_first_chunk::<3>()?;
        let digit = |byte: &u8| byte.is_ascii_digit();
        if !digits.iter().all(digit) || !matches!(reason, [] | [b' ', ..]) {
            return None;
        }
        let status = digits
            .iter()
            .fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
        let mut lines = Vec::new();
        while let Some(line) = line() {
            let colon = memchr::memchr(b':', line)?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if !is_token(name) || !value.iter().all(|&byte| is_field_byte(byte)) {
                return None;
            }
            lines.push((name, value));
        }
        Some(Self { status, lines })
    }

    /// Returns the values of all lines with this name, which must be in lower case.
    fn lines(&self, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
        let named = move |line: &&(&[u8], &[u8])| line.0.eq_ignore_ascii_case(name);
        self.lines.iter().filter(named).map(|line| line.1)
    }

    fn list(&self, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
        let elements = self
            .lines(name)
            .flat_map(|line| line.split(|&byte| byte == b','));
        elements.map(<[u8]>::trim_ascii)
    }

    /// Returns the value of the only line with this name, or `None` if there is no line. Several lines are an error.
    fn only(&self, name: &'static [u8]) -> Result<Option<&'a [u8]>, NotOpened> {
        let mut lines = self.lines(name);
        let first = lines.next();
        match lines.next() {
            None => Ok(first),
            Some(_) => Err(NotOpened::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8; KEY_BYTES] = b"dGhlIHNhbXBsZSBub25jZQ==";
    const ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

    fn opening<'a>() -> Opening<'a> {
        Opening {
            host: b"example.org:8080",
            target: b"/chat?room=7",
            key: KEY,
            protocols: &[b"v2.chat", b"v1.chat"],
            headers: &[(b"Cookie", b"a=b")],
            compression: true,
        }
    }

    #[test]
    fn the_request_is_one_our_server_accepts() {
        use crate::http1::{Limits, Parse, parse};
        use crate::ws::extension::Policy;
        use crate::ws::handshake::{self, Origins};
        let mut request = Vec::new();
        opening().write(&mut request);
        let mut head = crate::http1::Head::new();
        let parsed = parse(&request, &Limits::default(), &mut head);
        assert_eq!(
            parsed,
            Parse::Complete {
                head_bytes: request.len()
            }
        );
        assert_eq!(head.header(&request, b"cookie", 0), Some(&b"a=b"[..]));
        let policy = Policy {
            client_max_window_bits: 10,
            ..Policy::default()
        };
        let accepted = handshake::check(&head, &request, Origins::SameHost, Some(&policy));
        let accepted = accepted.expect("accepted");
        let protocol = handshake::choose_protocol(&head, &request, [&b"v1.chat"[..]]);
        let mut answer = Vec::new();
        handshake::write_accepted(&mut answer, &accepted, protocol, std::iter::empty());
        let head_bytes = answer.len();
        answer.extend_from_slice(b"\x81\x01a");
        let opened = opening().read(&answer).expect("valid").expect("whole");
        assert_eq!(
            (opened.head_bytes, opened.protocol),
            (head_bytes, Some(&b"v1.chat"[..]))
        );
        assert_eq!(opened.compression, accepted.compression);
        assert_eq!(
            opened.compression.map(|agreed| agreed.client_window_bits()),
            Some(10)
        );
        for end in 0..head_bytes {
            assert_eq!(opening().read(&answer[..end]), Ok(None));
        }
    }

    #[test]
    fn keys_are_valid() {
        assert_eq!(&key(*b"the sample nonce"), KEY);
    }

    #[test]
    fn rejects_invalid_responses() {
        use NotOpened as N;
        let read = |answer: &str| {
            let opened = opening().read(answer.as_bytes());
            opened.map(|opened| opened.map(|opened| opened.head_bytes))
        };
        let with = |lines: &str| read(&format!("{ANSWER}{lines}\r\n"));
        assert_eq!(with(""), Ok(Some(ANSWER.len() + 2)));
        assert_eq!(
            with("Sec-WebSocket-Protocol: v2.chat\r\n"),
            Ok(Some(ANSWER.len() + 35))
        );
        for (lines, error) in [
            ("Sec-WebSocket-Protocol: v3.chat\r\n", N::Protocol),
            (
                "Sec-WebSocket-Protocol: v2.chat\r\nSec-WebSocket-Protocol: v2.chat\r\n",
                N::Malformed,
            ),
            ("Sec-WebSocket-Extensions: foo\r\n", N::Extensions),
            (
                "Sec-WebSocket-Extensions: permessage-deflate, permessage-deflate\r\n",
                N::Extensions,
            ),
            (
                "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n",
                N::Extensions,
            ),
            (
                "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=16\r\n",
                N::Extensions,
            ),
            ("no colon\r\n", N::Malformed),
            ("a b: c\r\n", N::Malformed),
            ("a: \x01\r\n", N::Malformed),
        ] {
            assert_eq!(with(lines), Err(error), "{lines}");
        }
        let replaced = |from, to| read(&format!("{}\r\n", ANSWER.replace(from, to)));
        assert_eq!(
            replaced("101 Switching Protocols", "403"),
            Err(N::Refused(403))
        );
        assert_eq!(replaced("101", "10"), Err(N::Malformed));
        assert_eq!(replaced("101", "1010"), Err(N::Malformed));
        assert_eq!(replaced("HTTP/1.1", "HTTP/1.0"), Err(N::Malformed));
        assert_eq!(replaced(": WebSocket", ": h2c"), Err(N::Upgrade));
        assert_eq!(
            replaced("Connection: keep-alive, Upgrade", "a: b"),
            Err(N::Upgrade)
        );
        assert_eq!(replaced("xOo=", "xOo"), Err(N::Accept));
        assert_eq!(read("SSH-2.0-OpenSSH"), Err(N::Malformed));
        assert_eq!(
            with(&format!("a: {}\r\n", "b".repeat(HEAD_BYTES_MAX))),
            Err(N::TooLong)
        );
        let opening = Opening {
            compression: false,
            ..opening()
        };
        let agreed = format!("{ANSWER}Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n");
        assert_eq!(opening.read(agreed.as_bytes()), Err(N::Extensions));
    }
}
