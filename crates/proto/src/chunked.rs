//! Decodes the chunked transfer coding (RFC 9112, section 7.1). Decoding can stop and resume at any byte.
//!
//! Extensions and trailers are validated, bounded and dropped; they cannot change the framing.

use crate::Refusal;
use crate::http1::{is_field_byte, is_token_byte};
use crate::number::hex_value;

/// Maximum number of bytes of chunk extensions in one body, counted over all chunks, so that many tiny chunks cannot carry
/// unlimited extensions.
pub const EXTENSION_BYTES_MAX: u32 = 4096;
/// Maximum number of bytes of trailer lines in one body.
pub const TRAILER_BYTES_MAX: u32 = 8192;
/// Maximum digits of a chunk size, including leading zeros.
const SIZE_DIGITS_MAX: u8 = 16;

/// Result of one call of [`Decoder::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that belong to this body; the complete input unless `done`.
    pub consumed: usize,
    /// True if the body is complete; the rest of the input is the next request.
    pub done: bool,
}

/// Decoder state between two pieces of one body.
#[derive(Clone, Debug)]
pub struct Decoder {
    state: State,
    /// Size of the chunk while its size line is read, then the number of remaining data bytes.
    left: u64,
    /// Number of data bytes of all chunks announced so far, including the current chunk.
    body_bytes: u64,
    digits: u8,
    extension_bytes: u32,
    trailer_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    /// White space after the size, allowed only before an extension.
    SizeSpace,
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    EndLineFeed,
    Done,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Creates a decoder at the first byte of a body.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Size,
            left: 0,
            body_bytes: 0,
            digits: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
        }
    }

    /// Decodes `input`, which continues the previous call's input, and appends the data to `out`.
    ///
    /// Rejects a chunk that would make the body longer than `body_bytes_max` at its size line, before its data arrives.
    /// Consumes nothing after `done`.
    ///
    /// # Errors
    /// [`Refusal::BodyTooLarge`], or the framing error. The decoder must not be used again.
    pub fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        body_bytes_max: u64,
    ) -> Result<Decoded, Refusal> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if self.state == State::Data {
                // The value is at most the input's length, so it fits into `usize`.
                let take = self.left.min((input.len() - at) as u64) as usize;
                out.extend_from_slice(&input[at..at + take]);
                at += take;
                self.left -= take as u64;
                if self.left == 0 {
                    self.state = State::DataReturn;
                }
            } else {
                self.state = self.step(input[at], body_bytes_max)?;
                at += 1;
            }
        }
        Ok(Decoded {
            consumed: at,
            done: self.state == State::Done,
        })
    }

    /// Returns the number of data bytes decoded so far.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
            - if self.state == State::Data {
                self.left
            } else {
                0
            }
    }

    /// Processes one byte outside of chunk data.
    fn step(&mut self, byte: u8, body_bytes_max: u64) -> Result<State, Refusal> {
        match self.state {
            State::Size => match (hex_value(byte), byte) {
                (Some(digit), _) => {
                    if self.digits == SIZE_DIGITS_MAX {
                        return Err(Refusal::ChunkSize);
                    }
                    self.digits += 1;
                    self.left = self.left << 4 | u64::from(digit);
                    Ok(State::Size)
                }
                _ if self.digits == 0 => Err(Refusal::ChunkSize),
                (_, b'\r') => Ok(State::SizeLineFeed),
                (_, b';') => self.extension(State::Extension),
                (_, b' ' | b'\t') => self.extension(State::SizeSpace),
                (_, b'\n') => Err(Refusal::BareLineFeed),
                _ => Err(Refusal::ChunkSize),
            },
            State::SizeSpace => match byte {
                b' ' | b'\t' => self.extension(State::SizeSpace),
                b';' => self.extension(State::Extension),
                _ => Err(Refusal::ChunkSize),
            },
            State::Extension => match byte {
                b'\r' => Ok(State::SizeLineFeed),
                b'\n' => Err(Refusal::BareLineFeed),
                _ if is_field_byte(byte) => self.extension(State::Extension),
                _ => Err(Refusal::ChunkFraming),
            },
            State::SizeLineFeed if byte == b'\n' => self.data_starts(body_bytes_max),
            State::DataReturn => match byte {
                b'\r' => Ok(State::DataLineFeed),
                b'\n' => Err(Refusal::BareLineFeed),
                _ => Err(Refusal::ChunkFraming),
            },
            State::DataLineFeed if byte == b'\n' => Ok(State::Size),
            State::TrailerStart => match byte {
                b'\r' => Ok(State::EndLineFeed),
                b'\n' => Err(Refusal::BareLineFeed),
                b' ' | b'\t' => Err(Refusal::LineFolding),
                _ if is_token_byte(byte) => self.trailer(State::TrailerName),
                _ => Err(Refusal::HeaderName),
            },
            State::TrailerName => match byte {
                b':' => self.trailer(State::TrailerValue),
                b' ' | b'\t' => Err(Refusal::SpaceBeforeColon),
                _ if is_token_byte(byte) => self.trailer(State::TrailerName),
                _ => Err(Refusal::HeaderName),
            },
            State::TrailerValue => match byte {
                b'\r' => Ok(State::TrailerLineFeed),
                b'\n' => Err(Refusal::BareLineFeed),
                _ if is_field_byte(byte) => self.trailer(State::TrailerValue),
                _ => Err(Refusal::HeaderValue),
            },
            State::TrailerLineFeed if byte == b'\n' => Ok(State::TrailerStart),
            State::EndLineFeed if byte == b'\n' => Ok(State::Done),
            State::SizeLineFeed
            | State::DataLineFeed
            | State::TrailerLineFeed
            | State::EndLineFeed => Err(Refusal::BareCarriageReturn),
            State::Data | State::Done => {
                debug_assert!(false, "decode handles these two states itself");
                Err(Refusal::ChunkFraming)
            }
        }
    }

    /// Handles the end of a size line.
    fn data_starts(&mut self, body_bytes_max: u64) -> Result<State, Refusal> {
        self.digits = 0;
        if self.left == 0 {
            return Ok(State::TrailerStart);
        }
        match self.body_bytes.checked_add(self.left) {
            Some(total) if total <= body_bytes_max => {
                self.body_bytes = total;
                Ok(State::Data)
            }
            _ => Err(Refusal::BodyTooLarge),
        }
    }

    fn extension(&mut self, next: State) -> Result<State, Refusal> {
        self.extension_bytes += 1;
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            return Err(Refusal::ChunkExtensions);
        }
        Ok(next)
    }

    fn trailer(&mut self, next: State) -> Result<State, Refusal> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(Refusal::TrailersTooLarge);
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `input` in pieces of `step` bytes; returns the data, the bytes consumed and whether the body ended.
    fn decode(input: &[u8], step: usize, max: u64) -> Result<(Vec<u8>, usize, bool), Refusal> {
        let (mut decoder, mut out, mut consumed, mut done) = (Decoder::new(), Vec::new(), 0, false);
        for piece in input.chunks(step) {
            let decoded = decoder.decode(piece, &mut out, max)?;
            consumed += decoded.consumed;
            done = decoded.done;
        }
        assert_eq!(decoder.body_bytes(), out.len() as u64);
        Ok((out, consumed, done))
    }

    #[test]
    fn bodies() {
        let cases: &[(&str, &str, &str)] = &[
            ("0\r\n\r\n", "", ""),
            ("5\r\nhello\r\n0\r\n\r\n", "hello", ""),
            (
                "5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
                "hello",
                "GET / HTTP/1.1\r\n",
            ),
            (
                "1\r\na\r\n00A\r\n0123456789\r\n000\r\n\r\n",
                "a0123456789",
                "",
            ),
            ("a\r\n0123\r\n6789\r\n0\r\n\r\n", "0123\r\n6789", ""),
            ("1;a=b;c=\"d e\"\r\nx\r\n0;last\r\n\r\n", "x", ""),
            ("1 \t;a\r\nx\r\n0\r\n\r\n", "x", ""),
            ("1\r\nx\r\n0\r\nA: b\r\nC:\r\n\r\nrest", "x", "rest"),
        ];
        for (input, body, rest) in cases {
            for step in [1, 2, 3, 7, 1000] {
                let (out, consumed, done) = decode(input.as_bytes(), step, 100).expect(input);
                assert!(done, "{input:?}");
                assert_eq!(out, body.as_bytes(), "{input:?}");
                assert_eq!(&input[consumed..], *rest, "{input:?}");
            }
        }
    }

    #[test]
    fn refusals() {
        use Refusal::*;
        let cases: &[(&str, Refusal)] = &[
            ("\r\n", ChunkSize),
            ("g\r\n", ChunkSize),
            ("-1\r\n", ChunkSize),
            ("+1\r\n", ChunkSize),
            ("0x1\r\n", ChunkSize),
            (" 1\r\n", ChunkSize),
            ("1 \r\nx", ChunkSize),
            ("1_\r\nx", ChunkSize),
            ("00000000000000001\r\nx\r\n", ChunkSize),
            ("ffffffffffffffff\r\nx\r\n", BodyTooLarge),
            ("65\r\n", BodyTooLarge),
            ("64\n", BareLineFeed),
            ("1\rx", BareCarriageReturn),
            ("1\r\nx\n", BareLineFeed),
            ("1\r\nx\rx", BareCarriageReturn),
            ("1\r\nxy", ChunkFraming),
            ("1\r\nx0\r\n", ChunkFraming),
            (";\r\n", ChunkSize),
            ("1;a\n", BareLineFeed),
            ("1;a\0\r\n", ChunkFraming),
            ("1;a\rb", BareCarriageReturn),
            ("0\r\n\n", BareLineFeed),
            ("0\r\n\r\r", BareCarriageReturn),
            ("0\r\nA : b\r\n\r\n", SpaceBeforeColon),
            ("0\r\nA\r\n\r\n", HeaderName),
            ("0\r\n: b\r\n\r\n", HeaderName),
            ("0\r\nA: b\r\n c\r\n\r\n", LineFolding),
            ("0\r\nA: b\n\r\n", BareLineFeed),
            ("0\r\nA: b\rC: d", BareCarriageReturn),
            ("0\r\nA: \0\r\n", HeaderValue),
        ];
        for (input, refusal) in cases {
            for step in [1, 2, 1000] {
                assert_eq!(
                    decode(input.as_bytes(), step, 100),
                    Err(*refusal),
                    "{input:?}"
                );
            }
        }
    }

    #[test]
    fn limits_the_body_instead_of_each_chunk() {
        let body = "4\r\naaaa\r\n".repeat(25) + "0\r\n\r\n";
        assert_eq!(
            decode(body.as_bytes(), 3, 100).map(|(out, ..)| out.len()),
            Ok(100)
        );
        assert_eq!(decode(body.as_bytes(), 3, 99), Err(Refusal::BodyTooLarge));
    }

    #[test]
    fn limits_extensions_and_trailers_per_body() {
        let extended = "1;abcdefg\r\nx\r\n";
        let fits = extended.repeat(512) + "0\r\n\r\n";
        assert!(decode(fits.as_bytes(), 1000, 10_000).is_ok());
        let over = extended.repeat(512) + "0;\r\n\r\n";
        assert_eq!(
            decode(over.as_bytes(), 1000, 10_000),
            Err(Refusal::ChunkExtensions)
        );
        let trailers = "0\r\n".to_owned() + &"a: b\r\n".repeat(3000);
        assert_eq!(
            decode(trailers.as_bytes(), 1000, 10),
            Err(Refusal::TrailersTooLarge)
        );
    }

    #[test]
    fn reports_an_incomplete_body_as_not_done() {
        let whole = b"5;x\r\nhello\r\n0\r\nA: b\r\n\r\n";
        for end in 0..whole.len() {
            let (_, consumed, done) = decode(&whole[..end], 1000, 10).expect("a prefix is fine");
            assert!(!done && consumed == end);
        }
    }
}
