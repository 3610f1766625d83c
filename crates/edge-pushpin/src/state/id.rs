//! The id of a session. It gets into the heads of requests, so there is one only where it can stand there.

use std::rc::Rc;

use fermata_proto::response::valid_value;

/// The longest that is taken.
const BYTES_MAX: usize = 1_000;

/// What an outside service knows a session by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(Rc<str>);

impl SessionId {
    /// `None`: it is empty or too long, or cannot stand in a header, or is no UTF-8: the service would hear of one id and the
    /// origin of another.
    pub fn new(id: &[u8]) -> Option<Self> {
        let is_right = (1..=BYTES_MAX).contains(&id.len()) && valid_value(id);
        let text = std::str::from_utf8(id).ok().filter(|_| is_right)?;
        Some(Self(text.into()))
    }

    /// The id itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_stand_in_a_header() {
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
