//! `Sec-WebSocket-Extensions` and the negotiation of permessage-deflate (RFC 6455, section 9.1; RFC 7692, sections 5 to
//! 7).

use std::borrow::Cow;

use crate::http1::{is_token, is_token_byte};
use crate::number::{decimal, parse_decimal};

/// Name of the only supported extension.
const NAME: &[u8] = b"permessage-deflate";

/// Largest window, 32 KiB, and the default.
pub const WINDOW_BITS_MAX: u8 = 15;

/// Smallest window that a parameter may name (RFC 7692, section 7.1.2.1).
const WINDOW_BITS_NAMED_MIN: u8 = 8;

/// Smallest window for compression: zlib has no raw deflate with 256 bytes.
pub const WINDOW_BITS_MIN: u8 = 9;

/// Server's preferences for compression: less memory, or better compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// True to drop the window after each sent message; a message can then be compressed once for many clients.
    pub server_no_context_takeover: bool,
    /// True to ask the client to drop its window after each message, so that the server stores no history for it.
    pub client_no_context_takeover: bool,
    /// Window for sent messages: [`WINDOW_BITS_MIN`] to [`WINDOW_BITS_MAX`].
    pub server_max_window_bits: u8,
    /// Window for received messages: [`WINDOW_BITS_MIN`] to [`WINDOW_BITS_MAX`]. Some clients do not let the server
    /// reduce it.
    pub client_max_window_bits: u8,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            server_no_context_takeover: false,
            client_no_context_takeover: false,
            server_max_window_bits: WINDOW_BITS_MAX,
            client_max_window_bits: WINDOW_BITS_MAX,
        }
    }
}

/// Negotiated parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// True if the server drops its window after each message.
    pub server_no_context_takeover: bool,
    /// True if the client drops its window after each message.
    pub client_no_context_takeover: bool,
    /// Server's window, if the response contains it. The response must contain it if the client's offer did (RFC 7692, section
    /// 7.1.2.1).
    pub server_max_window_bits: Option<u8>,
    /// Client's window, if the response contains it.
    pub client_max_window_bits: Option<u8>,
}

/// Error: the header violates its grammar (RFC 6455, section 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// An offer of permessage-deflate, or the response to one (RFC 7692, section 7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Offer {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    server_max_window_bits: Option<u8>,
    /// Present if the server may limit the client's window; the largest window if the client names no size.
    client_max_window_bits: Option<u8>,
}

/// Returns the parameters of the first acceptable offer over all header lines, in order.
///
/// Skips unknown extensions and unacceptable offers. Without a policy no offer is acceptable, but the grammar is still
/// checked.
///
/// # Errors
/// A line is malformed; the handshake must fail with 400.
pub fn negotiate<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    policy: Option<&Policy>,
) -> Result<Option<Agreed>, Malformed> {
    let mut agreed = None;
    for line in lines {
        let mut rest = Scanner(line);
        loop {
            // A list may have empty elements (RFC 9110, section 5.6.1.2).
            if !rest.at_end_of_element() {
                let offer = extension(&mut rest, Direction::Offer)?;
                agreed = agreed.or_else(|| offer?.accept(policy?));
            }
            if !rest.skip(b',') {
                break;
            }
        }
        if !rest.0.is_empty() {
            return Err(Malformed);
        }
    }
    Ok(agreed)
}

/// Appends a client's offer: any server window is accepted, and the server may limit the client's window.
pub fn write_offer(out: &mut Vec<u8>) {
    out.extend_from_slice(NAME);
    out.extend_from_slice(b"; client_max_window_bits");
}

/// Parses the response to [`write_offer`]. Returns `None` if the server does not compress.
///
/// # Errors
/// The response is malformed or contains something that was not offered; the client must fail the connection (RFC 7692,
/// section 5.1).
pub fn accepted<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Result<Option<Agreed>, Malformed> {
    let mut agreed = None;
    for line in lines {
        let mut rest = Scanner(line);
        loop {
            if !rest.at_end_of_element() {
                let answer = extension(&mut rest, Direction::Answer)?.ok_or(Malformed)?;
                if agreed.replace(answer.agreed()).is_some() {
                    return Err(Malformed);
                }
            }
            if !rest.skip(b',') {
                break;
            }
        }
        if !rest.0.is_empty() {
            return Err(Malformed);
        }
    }
    Ok(agreed)
}

/// An offer may name the client's window without a size; a response has a size.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Offer,
    Answer,
}

/// Parses one extension with its parameters. Returns `None` for another extension or unacceptable parameters.
fn extension(rest: &mut Scanner<'_>, direction: Direction) -> Result<Option<Offer>, Malformed> {
    let mut offer = (rest.token()? == NAME).then(Offer::default);
    while rest.skip(b';') {
        let name = rest.token()?;
        let value = if rest.skip(b'=') {
            Some(rest.value()?)
        } else {
            None
        };
        offer = offer.and_then(|offer| offer.with(name, value.as_deref(), direction));
    }
    Ok(offer)
}

impl Offer {
    /// Adds a parameter. Returns `None` if it is unknown, repeated or has an invalid value (RFC 7692, section 7.1).
    fn with(mut self, name: &[u8], value: Option<&[u8]>, direction: Direction) -> Option<Self> {
        let repeated = match (name, value) {
            (b"server_no_context_takeover", None) => {
                std::mem::replace(&mut self.server_no_context_takeover, true)
            }
            (b"client_no_context_takeover", None) => {
                std::mem::replace(&mut self.client_no_context_takeover, true)
            }
            (b"server_max_window_bits", Some(value)) => {
                let bits = window_bits(value)?;
                self.server_max_window_bits.replace(bits).is_some()
            }
            (b"client_max_window_bits", value) => {
                let bits = match value {
                    Some(value) => window_bits(value)?,
                    None if direction == Direction::Offer => WINDOW_BITS_MAX,
                    None => return None,
                };
                self.client_max_window_bits.replace(bits).is_some()
            }
            _ => return None,
        };
        (!repeated).then_some(self)
    }

    /// Returns the parameters of a response.
    fn agreed(self) -> Agreed {
        Agreed {
            server_no_context_takeover: self.server_no_context_takeover,
            client_no_context_takeover: self.client_no_context_takeover,
            server_max_window_bits: self.server_max_window_bits,
            client_max_window_bits: self.client_max_window_bits,
        }
    }

    /// Returns the server's response to the offer, or `None` to decline it.
    fn accept(&self, policy: &Policy) -> Option<Agreed> {
        let server_wish = self.server_max_window_bits.unwrap_or(WINDOW_BITS_MAX);
        let server_bits = server_wish.min(policy.server_max_window_bits);
        if server_bits < WINDOW_BITS_MIN {
            return None;
        }
        let server_named = self.server_max_window_bits.is_some() || server_bits < WINDOW_BITS_MAX;
        // The server may limit the client's window only if the client has named `client_max_window_bits` (RFC 7692, section
        // 7.1.2.2). Any other client is accepted with the largest window. The server can still request that it drops the window
        // after each message.
        let client_bits = self.client_max_window_bits;
        let client_bits = client_bits.map(|wish| wish.min(policy.client_max_window_bits));
        Some(Agreed {
            server_no_context_takeover: self.server_no_context_takeover
                || policy.server_no_context_takeover,
            client_no_context_takeover: self.client_no_context_takeover
                || policy.client_no_context_takeover,
            server_max_window_bits: server_named.then_some(server_bits),
            client_max_window_bits: client_bits.filter(|&bits| bits < WINDOW_BITS_MAX),
        })
    }
}

impl Agreed {
    /// Returns the window for messages that the server sends.
    #[must_use]
    pub fn server_window_bits(&self) -> u8 {
        self.server_max_window_bits.unwrap_or(WINDOW_BITS_MAX)
    }

    /// Returns the window for messages that the client sends.
    #[must_use]
    pub fn client_window_bits(&self) -> u8 {
        self.client_max_window_bits.unwrap_or(WINDOW_BITS_MAX)
    }

    /// Returns true if this side has to store history, in either direction.
    #[must_use]
    pub fn keeps_context(&self) -> bool {
        !(self.server_no_context_takeover && self.client_no_context_takeover)
    }

    /// Appends the value of the response's `Sec-WebSocket-Extensions`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(NAME);
        if self.server_no_context_takeover {
            out.extend_from_slice(b"; server_no_context_takeover");
        }
        if self.client_no_context_takeover {
            out.extend_from_slice(b"; client_no_context_takeover");
        }
        if let Some(bits) = self.server_max_window_bits {
            out.extend_from_slice(b"; server_max_window_bits=");
            decimal(out, u64::from(bits));
        }
        if let Some(bits) = self.client_max_window_bits {
            out.extend_from_slice(b"; client_max_window_bits=");
            decimal(out, u64::from(bits));
        }
    }
}

/// Parses 8 to 15 without a leading zero.
fn window_bits(text: &[u8]) -> Option<u8> {
    if text.first() == Some(&b'0') {
        return None;
    }
    let bits = u8::try_from(parse_decimal(text)?).ok()?;
    let named = WINDOW_BITS_NAMED_MIN..=WINDOW_BITS_MAX;
    named.contains(&bits).then_some(bits)
}

/// The rest of a header line. White space is allowed between any two parts.
struct Scanner<'a>(&'a [u8]);

impl<'a> Scanner<'a> {
    /// Returns true if this list element has no further parts.
    fn at_end_of_element(&mut self) -> bool {
        self.skip_space();
        matches!(self.0.first(), None | Some(b','))
    }

    /// Skips `byte` and the white space before it, if it is next; returns true if it was.
    fn skip(&mut self, byte: u8) -> bool {
        self.skip_space();
        match self.0.split_first() {
            Some((&first, rest)) if first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn token(&mut self) -> Result<&'a [u8], Malformed> {
        self.skip_space();
        let is_end = |&byte: &u8| !is_token_byte(byte);
        let end = self.0.iter().position(is_end).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        if token.is_empty() {
            Err(Malformed)
        } else {
            Ok(token)
        }
    }

    /// Parses a token, plain or quoted; both mean the same (RFC 6455, section 9.1).
    fn value(&mut self) -> Result<Cow<'a, [u8]>, Malformed> {
        if !self.skip(b'"') {
            return self.token().map(Cow::Borrowed);
        }
        let mut value = Vec::new();
        loop {
            let (&byte, rest) = self.0.split_first().ok_or(Malformed)?;
            self.0 = rest;
            match byte {
                b'"' => break,
                b'\\' => {
                    let (&escaped, rest) = self.0.split_first().ok_or(Malformed)?;
                    self.0 = rest;
                    value.push(escaped);
                }
                _ => value.push(byte),
            }
        }
        if is_token(&value) {
            Ok(Cow::Owned(value))
        } else {
            Err(Malformed)
        }
    }

    fn skip_space(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(lines: &[&str], policy: &Policy) -> Result<Option<String>, Malformed> {
        let lines = lines.iter().map(|line| line.as_bytes());
        let agreed = negotiate(lines, Some(policy))?;
        Ok(agreed.map(|agreed| {
            let mut out = Vec::new();
            agreed.write(&mut out);
            String::from_utf8(out).expect("ASCII")
        }))
    }

    #[test]
    fn offers_and_answers() {
        for (offer, expected) in [
            ("permessage-deflate", Some("permessage-deflate")),
            (
                "permessage-deflate; client_max_window_bits",
                Some("permessage-deflate"),
            ),
            (
                "permessage-deflate; client_max_window_bits=10",
                Some("permessage-deflate; client_max_window_bits=10"),
            ),
            (
                "permessage-deflate;server_max_window_bits=15",
                Some("permessage-deflate; server_max_window_bits=15"),
            ),
            (
                "permessage-deflate; server_max_window_bits = \"1\\0\" ;server_no_context_takeover",
                Some("permessage-deflate; server_no_context_takeover; server_max_window_bits=10"),
            ),
            (
                "permessage-deflate; client_no_context_takeover",
                Some("permessage-deflate; client_no_context_takeover"),
            ),
            ("", None),
            (" , ,", None),
            ("x-webkit-deflate-frame", None),
            (
                "foo; bar=\"baz\", permessage-deflate,",
                Some("permessage-deflate"),
            ),
            // An unacceptable offer is declined, and the next offer is considered.
            ("permessage-deflate; server_max_window_bits=8", None),
            (
                "permessage-deflate; server_max_window_bits=8, permessage-deflate; client_max_window_bits",
                Some("permessage-deflate"),
            ),
            ("permessage-deflate; server_max_window_bits", None),
            ("permessage-deflate; server_max_window_bits=7", None),
            ("permessage-deflate; server_max_window_bits=16", None),
            ("permessage-deflate; server_max_window_bits=010", None),
            ("permessage-deflate; server_max_window_bits=+9", None),
            ("permessage-deflate; client_max_window_bits=0", None),
            ("permessage-deflate; client_no_context_takeover=1", None),
            ("permessage-deflate; unknown", None),
            (
                "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
                None,
            ),
            (
                "permessage-deflate; client_max_window_bits; client_max_window_bits=9",
                None,
            ),
        ] {
            let expected = Ok(expected.map(str::to_owned));
            assert_eq!(answer(&[offer], &Policy::default()), expected, "{offer}");
        }
    }

    #[test]
    fn the_first_offer_over_all_lines_counts() {
        let lines = [
            "foo",
            "permessage-deflate; server_no_context_takeover",
            "permessage-deflate",
        ];
        let expected = "permessage-deflate; server_no_context_takeover";
        assert_eq!(
            answer(&lines, &Policy::default()),
            Ok(Some(expected.into()))
        );
        let lines = lines.map(str::as_bytes);
        assert_eq!(negotiate(lines.into_iter(), None), Ok(None));
    }

    #[test]
    fn the_server_may_ask_for_less() {
        let policy = Policy {
            server_no_context_takeover: true,
            client_no_context_takeover: true,
            server_max_window_bits: 12,
            client_max_window_bits: 11,
        };
        let both = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        for (offer, bits) in [
            ("permessage-deflate", "; server_max_window_bits=12"),
            (
                "permessage-deflate; client_max_window_bits",
                "; server_max_window_bits=12; client_max_window_bits=11",
            ),
            (
                "permessage-deflate; client_max_window_bits=8; server_max_window_bits=9",
                "; server_max_window_bits=9; client_max_window_bits=8",
            ),
        ] {
            let expected = Ok(Some(format!("{both}{bits}")));
            assert_eq!(answer(&[offer], &policy), expected);
        }
        let agreed = negotiate([&b"permessage-deflate"[..]].into_iter(), Some(&policy));
        let agreed = agreed.expect("valid").expect("accepted");
        assert_eq!(
            (agreed.server_window_bits(), agreed.client_window_bits()),
            (12, 15)
        );
    }

    #[test]
    fn malformed_lines() {
        for line in [
            ";",
            "=",
            "a b",
            "a;",
            "a; =1",
            "a; b=",
            "a; b=\"",
            "a; b=\"\"",
            "a; b=\"x y\"",
            "a; b=\"x\\",
            "a; b=\"x\"y",
            "a/b",
            "permessage-deflate; server_max_window_bits=8, \"",
        ] {
            for policy in [None, Some(&Policy::default())] {
                let lines = [line.as_bytes()].into_iter();
                assert_eq!(negotiate(lines, policy), Err(Malformed), "{line}");
            }
        }
    }
}
