//! `application/x-www-form-urlencoded`: query strings and request bodies.

/// Maximum number of pairs.
const PAIRS_MAX: usize = 1024;

/// Names and values.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Parses a form. Returns `None` for an invalid escape, invalid UTF-8, or too many pairs.
    pub fn parse(text: &[u8]) -> Option<Form> {
        let mut pairs = Vec::new();
        for pair in text.split(|&byte| byte == b'&') {
            if pair.is_empty() {
                continue;
            }
            if pairs.len() == PAIRS_MAX {
                return None;
            }
            let at = pair.iter().position(|&byte| byte == b'=');
            let (name, value) = match at {
                Some(at) => (&pair[..at], &pair[at + 1..]),
                None => (pair, &b""[..]),
            };
            pairs.push((decode(name, true)?, decode(value, true)?));
        }
        Some(Form(pairs))
    }

    /// Appends the pairs of another form. For a name that both have, the first value stays first.
    pub fn and(mut self, other: Form) -> Form {
        self.0.extend(other.0);
        self
    }

    /// Returns all pairs in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns all values of a name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let pairs = self.0.iter();
        pairs.filter_map(move |(known, value)| (known == name).then_some(value.as_str()))
    }
}

/// Decodes percent escapes. Returns `None` for an invalid escape or invalid UTF-8.
pub(crate) fn decode(text: &[u8], plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'%' => {
                let (&[high, low], after) = rest.split_first_chunk::<2>()?;
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                (digit(high)? * 16 + digit(low)?) as u8
            }
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Appends a path segment, with everything escaped except unreserved characters (RFC 3986, section 2.3).
pub(crate) fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                out.push('%');
                out.push(char::from(DIGITS[usize::from(byte >> 4)]));
                out.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_forms() {
        let form =
            Form::parse(b"topic=a%2Fb&topic=c+d&private&data=%E2%82%AC&&x=1=2").expect("a form");
        assert_eq!(form.all("topic").collect::<Vec<_>>(), ["a/b", "c d"]);
        assert_eq!(form.get("private"), Some(""));
        assert_eq!(form.get("data"), Some("€"));
        assert_eq!(form.get("x"), Some("1=2"));
        for wrong in [&b"a=%"[..], b"a=%2", b"a=%zz", b"a=%ff", b"\xff"] {
            assert_eq!(Form::parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(Form::parse("a&".repeat(PAIRS_MAX + 1).as_bytes()), None);
    }

    proptest! {
        #[test]
        fn escapes_round_trip(text in ".*") {
            let mut out = String::new();
            encode(&text, &mut out);
            prop_assert_eq!(decode(out.as_bytes(), false), Some(text.clone()));
            prop_assert_eq!(decode(out.as_bytes(), true), Some(text));
        }

        #[test]
        fn never_panics_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Form::parse(&bytes);
        }
    }
}
