//! Channel names as NATS subjects. A channel is one token after the application's prefix.

/// Returns true for bytes that need no escape. Dots, stars, `>` and white space have a meaning in NATS, and `%` starts an escape.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_:/=@~+".contains(&byte)
}

/// Appends the token of a channel.
pub(crate) fn escape(channel: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in channel {
        if is_plain(byte) {
            out.push(byte);
        } else {
            out.push(b'%');
            out.push(DIGITS[usize::from(byte >> 4)]);
            out.push(DIGITS[usize::from(byte & 15)]);
        }
    }
}

/// Returns the channel of a token. Returns `None` if a `%` is not followed by two hexadecimal digits. Accepts bytes that `escape`
/// would escape, because other publishers may send them.
pub(crate) fn unescape(token: &[u8]) -> Option<Vec<u8>> {
    let mut channel = Vec::with_capacity(token.len());
    let mut bytes = token.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            channel.push(byte);
            continue;
        }
        let mut digit = || char::from(*bytes.next()?).to_digit(16);
        channel.push((digit()? << 4 | digit()?) as u8);
    }
    Some(channel)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn unescape_undoes_escape(channel in proptest::collection::vec(any::<u8>(), 1..256)) {
            let mut token = Vec::new();
            escape(&channel, &mut token);
            prop_assert!(token.iter().all(|byte| byte.is_ascii_graphic() && !b".*>".contains(byte)));
            prop_assert_eq!(unescape(&token), Some(channel));
        }

        #[test]
        fn any_token_is_handled(token in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = unescape(&token);
        }
    }

    #[test]
    fn rejects_incomplete_escapes() {
        for token in ["%", "a%4", "%zz"] {
            assert_eq!(unescape(token.as_bytes()), None);
        }
    }
}
