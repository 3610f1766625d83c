//! `Sec-WebSocket-Extensions`, and what becomes of an offer of permessage-deflate (RFC 6455, 9.1; RFC 7692, 5 to 7).

use std::borrow::Cow;

use crate::http1::{is_token, is_token_byte};
use crate::number::{decimal, parse_decimal};

/// The name of the only extension that is known.
const NAME: &[u8] = b"permessage-deflate";

/// Largest window, and what is used when nothing is said: 32 KiB.
pub const WINDOW_BITS_MAX: u8 = 15;

/// Smallest window that can be named (RFC 7692, 7.1.2.1).
const WINDOW_BITS_NAMED_MIN: u8 = 8;

/// Smallest window we compress with: zlib has no raw deflate with 256 bytes.
pub const WINDOW_BITS_MIN: u8 = 9;

/// What the server wants of compression. Less memory, or better compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Forget the window after each message sent; then a message can be compressed once for many clients.
    pub server_no_context_takeover: bool,
    /// Ask the client to forget its window after each message, so that none is kept for it here.
    pub client_no_context_takeover: bool,
    /// The window for what is sent: [`WINDOW_BITS_MIN`] to [`WINDOW_BITS_MAX`].
    pub server_max_window_bits: u8,
    /// The window for what is received: [`WINDOW_BITS_MIN`] to [`WINDOW_BITS_MAX`]. Not every client can be asked for less than the most.
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

/// What both sides do from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The server forgets its window after each message.
    pub server_no_context_takeover: bool,
    /// The client does.
    pub client_no_context_takeover: bool,
    /// The server's window, when the answer names it. It has to when the client did (RFC 7692, 7.1.2.1).
    pub server_max_window_bits: Option<u8>,
    /// The client's window, when the answer names it.
    pub client_max_window_bits: Option<u8>,
}

/// The header breaks its grammar (RFC 6455, 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// An offer of permessage-deflate, or the answer to one (RFC 7692, 7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Offer {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    server_max_window_bits: Option<u8>,
    /// Present when the client may be asked for a window; without a wish it is the largest.
    client_max_window_bits: Option<u8>,
}

/// Goes through the offers of all header lines in order and takes the first that can be accepted.
///
/// Unknown extensions and offers that cannot be accepted are passed over. Without a policy everything is, but
/// the grammar is still checked.
///
/// # Errors
/// When a line is malformed: the handshake then fails with 400.
pub fn negotiate<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    policy: Option<&Policy>,
) -> Result<Option<Agreed>, Malformed> {
    let mut agreed = None;
    for line in lines {
        let mut rest = Scanner(line);
        loop {
            // A list may have empty elements (RFC 9110, 5.6.1.2).
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

/// Appends the offer of a client: any window will do, and it may be asked to forget its own.
pub fn write_offer(out: &mut Vec<u8>) {
    out.extend_from_slice(NAME);
    out.extend_from_slice(b"; client_max_window_bits");
}

/// Reads the answer to [`write_offer`]; `None` when the server does not compress.
///
/// # Errors
/// When it is malformed or agrees to something else: the client must then not go on (RFC 7692, 5.1).
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

/// A client may name its window without a size, a server's answer has one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Offer,
    Answer,
}

/// One extension with its parameters; `None` when it is another one, or cannot be agreed to.
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
    /// Takes one more parameter. `None` when it is unknown, repeated or has no such value (RFC 7692, 7.1).
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

    /// What an answer says.
    fn agreed(self) -> Agreed {
        Agreed {
            server_no_context_takeover: self.server_no_context_takeover,
            client_no_context_takeover: self.client_no_context_takeover,
            server_max_window_bits: self.server_max_window_bits,
            client_max_window_bits: self.client_max_window_bits,
        }
    }

    /// What the server answers; `None` declines.
    fn accept(&self, policy: &Policy) -> Option<Agreed> {
        let server_wish = self.server_max_window_bits.unwrap_or(WINDOW_BITS_MAX);
        let server_bits = server_wish.min(policy.server_max_window_bits);
        if server_bits < WINDOW_BITS_MIN {
            return None;
        }
        let server_named = self.server_max_window_bits.is_some() || server_bits < WINDOW_BITS_MAX;
        // Only a client that names its window understands a limit to it (RFC 7692, 7.1.2.2). The others are not
        // declined for that: their window is as large as they like, and forgetting it can still be asked for.
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
    /// The window for what the server sends.
    #[must_use]
    pub fn server_window_bits(&self) -> u8 {
        self.server_max_window_bits.unwrap_or(WINDOW_BITS_MAX)
    }

    /// The window for what the client sends.
    #[must_use]
    pub fn client_window_bits(&self) -> u8 {
        self.client_max_window_bits.unwrap_or(WINDOW_BITS_MAX)
    }

    /// Whether this end has to remember earlier messages, in either direction.
    #[must_use]
    pub fn keeps_context(&self) -> bool {
        !(self.server_no_context_takeover && self.client_no_context_takeover)
    }

    /// Appends the value of the answer's `Sec-WebSocket-Extensions`.
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

/// 8 to 15 without a leading zero.
fn window_bits(text: &[u8]) -> Option<u8> {
    if text.first() == Some(&b'0') {
        return None;
    }
    let bits = u8::try_from(parse_decimal(text)?).ok()?;
    let named = WINDOW_BITS_NAMED_MIN..=WINDOW_BITS_MAX;
    named.contains(&bits).then_some(bits)
}

/// The rest of a header line. Space may stand between any two parts of it.
struct Scanner<'a>(&'a [u8]);

impl<'a> Scanner<'a> {
    /// Whether nothing is left of this element of the list.
    fn at_end_of_element(&mut self) -> bool {
        self.skip_space();
        matches!(self.0.first(), None | Some(b','))
    }

    /// Skips `byte` and the space before it, if it comes next.
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

    /// A token, plain or quoted: both mean the same (RFC 6455, 9.1).
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
            // What cannot be accepted is declined, and the next offer counts.
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
