//! Header values with parameters: `first; name=value; …, second; …`.
//!
//! Invalid elements are skipped, as in every GRIP implementation, so that a backend's typing error in one channel does not affect
//! other channels.

/// One element of a list: its literal text and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The text before the first `;`, trimmed.
    pub first: Vec<u8>,
    /// Name and value, without quotes; a parameter without `=` has an empty value.
    pub params: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Element {
    /// Returns the value of the first parameter with this name. Names are compared case-insensitively.
    pub fn param(&self, name: &str) -> Option<&[u8]> {
        self.params
            .iter()
            .find(|(param, _)| param.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value.as_slice())
    }

    /// Returns the values of all parameters with this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.params
            .iter()
            .filter(move |(param, _)| param.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value.as_slice())
    }
}

/// Returns the elements of all headers with this name, in order. An element is the text between commas.
pub fn list<'a>(
    headers: &'a [(&'a [u8], &'a [u8])],
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    values(headers, name).flat_map(|value| {
        let trimmed = value.trim_ascii();
        let elements = (!trimmed.is_empty()).then(|| split(trimmed, b','));
        elements.into_iter().flatten()
    })
}

/// Returns the values of all headers with this name.
pub fn values<'a>(
    headers: &'a [(&'a [u8], &'a [u8])],
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    headers
        .iter()
        .filter(move |(header, _)| header.eq_ignore_ascii_case(name.as_bytes()))
        .map(|&(_, value)| value)
}

/// Parses `first; name=value; …`. `None`: a parameter is malformed.
pub fn element(text: &[u8]) -> Option<Element> {
    let (first, rest) = match text.iter().position(|&byte| byte == b';') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    Some(Element {
        first: first.trim_ascii().to_vec(),
        params: rest.map_or(Some(Vec::new()), params)?,
    })
}

/// Parses `name=value; name=value; …`. `None`: a parameter is malformed.
pub fn params(text: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    split(text, b';')
        .map(|part| part.trim_ascii())
        .filter(|part| !part.is_empty())
        .map(|part| match part.iter().position(|&byte| byte == b'=') {
            Some(0) => None,
            Some(at) => Some((
                part[..at].trim_ascii().to_vec(),
                unquote(part[at + 1..].trim_ascii())?,
            )),
            None => Some((part.to_vec(), Vec::new())),
        })
        .collect()
}

/// Appends a parameter's value in a form that [`params`] can read, quoted if needed. `None`: the value has a control byte.
pub fn quote(out: &mut Vec<u8>, value: &[u8]) -> Option<()> {
    if value.iter().any(|&byte| byte < b' ' || byte == 0x7f) {
        return None;
    }
    let is_plain = |byte: &u8| !b" \",;=\\".contains(byte);
    if !value.is_empty() && value.iter().all(is_plain) {
        out.extend_from_slice(value);
        return Some(());
    }
    out.push(b'"');
    for &byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    Some(())
}

/// Splits at separators outside quotes.
fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut at_end) = (text, false);
    std::iter::from_fn(move || {
        if at_end {
            return None;
        }
        let (mut is_quoted, mut is_escaped) = (false, false);
        let end = rest.iter().position(|&byte| {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_quoted => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                _ => return byte == separator && !is_quoted,
            }
            false
        });
        let piece = &rest[..end.unwrap_or(rest.len())];
        match end {
            Some(end) => rest = &rest[end + 1..],
            None => at_end = true,
        }
        Some(piece)
    })
}

fn unquote(value: &[u8]) -> Option<Vec<u8>> {
    let Some(quoted) = value.strip_prefix(b"\"") else {
        return Some(value.to_vec());
    };
    let mut out = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter().copied();
    loop {
        match bytes.next()? {
            b'"' => break,
            b'\\' => out.push(bytes.next()?),
            byte => out.push(byte),
        }
    }
    // Refuse text after the closing quote, because it would otherwise be lost silently.
    bytes.next().is_none().then_some(out)
}

/// Parses a whole number of seconds that fits in 31 bits, as other implementations do.
pub fn seconds(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let seconds = text.parse::<u32>().ok()?;
    (seconds <= i32::MAX as u32).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<(String, Vec<(String, String)>)> {
        let element = element(text.as_bytes())?;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the input was text");
        let params = element.params.into_iter();
        Some((
            text(element.first),
            params
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
        ))
    }

    #[test]
    fn parses_text_and_parameters_of_an_element() {
        for (text, first, params) in [
            ("", "", &[][..]),
            ("a", "a", &[]),
            (" a ; b=c ;d = e", "a", &[("b", "c"), ("d", "e")]),
            ("a;b", "a", &[("b", "")]),
            ("a;b=\"c;d,\\\"e\\\\\"", "a", &[("b", "c;d,\"e\\")]),
            ("a;;b=;", "a", &[("b", "")]),
            ("a=b; c=d=e", "a=b", &[("c", "d=e")]),
        ] {
            let params = params
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(
                read(text),
                Some((first.to_owned(), params.collect())),
                "{text}"
            );
        }
        for bad in ["a; =b", "a; b=\"c", "a; b=\"c\\", "a; b=\"c\"d"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn joins_repeated_headers() {
        let headers = [
            (&b"X-List"[..], &b"a; b=\"1,2\", c"[..]),
            (b"Other", b"z"),
            (b"x-list", b"d,,e"),
            (b"X-LIST", b" "),
        ];
        let elements: Vec<_> = list(&headers, "X-List")
            .map(|element| element.trim_ascii())
            .collect();
        assert_eq!(elements, [&b"a; b=\"1,2\""[..], b"c", b"d", b"", b"e"]);
    }

    proptest! {
        #[test]
        fn quoted_values_round_trip(value in prop::collection::vec(0x20u8..0x7f, 0..20), other in "[a-z]{1,5}") {
            let mut text = b"first; name=".to_vec();
            prop_assert!(quote(&mut text, &value).is_some());
            text.extend_from_slice(format!("; other={other}").as_bytes());
            let element = element(&text).expect("own text");
            prop_assert_eq!(element.param("NAME"), Some(&value[..]));
            prop_assert_eq!(element.param("other"), Some(other.as_bytes()));
            let headers = [(&b"h"[..], &text[..])];
            prop_assert_eq!(list(&headers, "h").count(), 1);
        }
    }

    #[test]
    fn never_writes_a_control_byte() {
        for value in [&b"a\r\nb"[..], b"\0", b"\x7f"] {
            assert_eq!(quote(&mut Vec::new(), value), None);
        }
    }
}
