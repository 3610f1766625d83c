//! Incremental UTF-8 validation that fails at the first invalid byte (RFC 6455, section 8.1; RFC 3629).

/// Maximum length of a character in bytes.
const CHARACTER_BYTES_MAX: usize = 4;

/// Error: the text is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUtf8;

/// Returns true if all of `text` is UTF-8.
#[inline]
#[must_use]
pub fn valid(text: &[u8]) -> bool {
    simdutf8::basic::from_utf8(text).is_ok()
}

/// Returns true if `text` is a prefix of a UTF-8 text: valid, or cut within its last character.
#[must_use]
pub fn valid_beginning(text: &[u8]) -> bool {
    Validator::new().feed(text).is_ok()
}

/// Validates a text that arrives in pieces. Every split gives the same result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validator {
    /// First bytes of an incomplete character.
    begun: [u8; CHARACTER_BYTES_MAX],
    /// Number of bytes in `begun`; below four.
    begun_len: u8,
}

impl Validator {
    /// Creates a validator at the start of a text.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Validates the next piece. After an error the validator must not be used again.
    ///
    /// # Errors
    /// No further bytes can make the text valid. Fails at the earliest byte where that is certain.
    pub fn feed(&mut self, mut piece: &[u8]) -> Result<(), NotUtf8> {
        while self.begun_len > 0 {
            let Some((&byte, rest)) = piece.split_first() else {
                return Ok(());
            };
            piece = rest;
            self.begun[usize::from(self.begun_len)] = byte;
            self.begun_len += 1;
            match std::str::from_utf8(&self.begun[..usize::from(self.begun_len)]) {
                Ok(_) => self.begun_len = 0,
                // The character is still incomplete. With its fourth byte it is complete or invalid, so the buffer suffices.
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(NotUtf8),
            }
        }
        let Err(error) = simdutf8::compat::from_utf8(piece) else {
            return Ok(());
        };
        if error.error_len().is_some() {
            return Err(NotUtf8);
        }
        let tail = &piece[error.valid_up_to()..];
        self.begun[..tail.len()].copy_from_slice(tail);
        self.begun_len = tail.len() as u8;
        Ok(())
    }

    /// Returns true if the text may end here, not within a character.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.begun_len == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the number of bytes, fed one at a time, up to and including the invalid byte.
    fn fails_at(text: &[u8]) -> Option<usize> {
        let mut validator = Validator::new();
        text.iter()
            .position(|&byte| validator.feed(&[byte]).is_err())
            .map(|at| at + 1)
    }

    #[test]
    fn fails_at_the_first_impossible_byte() {
        for (text, at) in [
            (&b"a\xc3\xbc\xe2\x82\xac\xf0\x9f\x8e\xb5"[..], None),
            (b"\x80", Some(1)),
            (b"a\xc0\x80", Some(2)),
            (b"\xc3a", Some(2)),
            // Overlong encodings.
            (b"\xe0\x9f\xbf", Some(2)),
            (b"\xf0\x8f\xbf\xbf", Some(2)),
            // A surrogate.
            (b"\xed\xa0\x80", Some(2)),
            // Above U+10FFFF.
            (b"\xf4\x90\x80\x80", Some(2)),
            (b"\xf5", Some(1)),
            (b"\xf4\x8f\xbf\xbf", None),
            (b"\xf0\x9f\x8ea", Some(4)),
            // The text of the Autobahn cases 6.4.
            (
                b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90\x80\x80edited",
                Some(13),
            ),
        ] {
            assert_eq!(fails_at(text), at, "{}", text.escape_ascii());
            assert_eq!(Validator::new().feed(text).is_ok(), at.is_none());
        }
    }

    #[test]
    fn a_text_must_not_end_inside_a_character() {
        for (text, whole) in [(&b"\xf0\x9f\x8e"[..], 0), (b"a\xe2\x82", 1), (b"ab\xc3", 2)] {
            let mut validator = Validator::new();
            assert_eq!(validator.feed(text), Ok(()));
            assert!(!validator.is_complete());
            assert!(!valid(text) && valid(&text[..whole]) && valid_beginning(text));
        }
        assert!(Validator::new().is_complete());
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_result(
            text in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                any::<String>().prop_map(String::into_bytes),
                (any::<String>(), 0usize..200, any::<u8>()).prop_map(|(text, at, byte)| {
                    let mut text = text.into_bytes();
                    if let Some(place) = text.get_mut(at) {
                        *place = byte;
                    }
                    text
                }),
            ],
            cuts in proptest::collection::vec(1usize..9, 1..5),
        ) {
            let mut validator = Validator::new();
            let (mut rest, mut cuts) = (&text[..], cuts.iter().cycle());
            let mut result = Ok(());
            while !rest.is_empty() && result.is_ok() {
                let cut = rest.len().min(*cuts.next().expect("cycle"));
                result = validator.feed(&rest[..cut]);
                rest = &rest[cut..];
            }
            let whole = std::str::from_utf8(&text);
            prop_assert_eq!(valid(&text), whole.is_ok());
            prop_assert_eq!(result.is_ok() && validator.is_complete(), whole.is_ok());
            let beginning = whole.is_ok() || whole.is_err_and(|error| error.error_len().is_none());
            prop_assert_eq!(result.is_ok(), beginning);
            prop_assert_eq!(valid_beginning(&text), beginning);
        }
    }
}
