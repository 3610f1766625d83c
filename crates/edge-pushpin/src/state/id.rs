//! Session ids. The edge writes them into request heads, so this type accepts only ids that are valid in a header.

use std::rc::Rc;

use fermata_proto::response::valid_value;

/// Maximum length in bytes.
const BYTES_MAX: usize = 1_000;

/// Id of a session at an external service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(Rc<str>);

impl SessionId {
    /// Creates an id. `None`: the id is empty, too long, invalid in a header, or not UTF-8. If the id were not UTF-8, the service
    /// and the origin would see different ids.
    pub fn new(id: &[u8]) -> Option<Self> {
        let is_right = (1..=BYTES_MAX).contains(&id.len()) && valid_value(id);
        let text = std::str::from_utf8(id).ok().filter(|_| is_right)?;
        Some(Self(text.into()))
    }

    /// Returns the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_ids_that_are_invalid_in_a_header() {
        let longest = "x".repeat(BYTES_MAX);
        for id in ["s", "a b", "\u{fc}\t", &longest] {
            assert_eq!(
                SessionId::new(id.as_bytes())
                    .as_ref()
                    .map(SessionId::as_str),
                Some(id)
            );
        }
        let too_long = "x".repeat(BYTES_MAX + 1);
        for id in [&b""[..], b"a\r\nB: c", b"a\0", b"\xff", too_long.as_bytes()] {
            assert_eq!(SessionId::new(id), None);
        }
    }
}
