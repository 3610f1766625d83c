//! What a connection is named by: two decimal integers with a dot between them.

use std::fmt;

/// The id of a connection: which worker has it, in which of its lives, and which of that worker's sockets it is.
///
/// Signatures of subscriptions are made over the id, so no two connections may ever have the same: `life` is drawn anew
/// whenever a worker starts, and `socket` is not used twice in a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId {
    /// The worker's life.
    pub life: u64,
    /// The socket in it.
    pub socket: u64,
    /// The worker's number.
    pub worker: u16,
}

impl SocketId {
    /// Reads an id as [`SocketId`] writes it. `None`: it is none of this server's.
    pub fn parse(text: &str) -> Option<SocketId> {
        let (life, rest) = text.split_once('.')?;
        let is_number = |text: &str| {
            !text.is_empty() && text.len() <= 39 && text.bytes().all(|it| it.is_ascii_digit())
        };
        if !is_number(life) || !is_number(rest) {
            return None;
        }
        let life = life.parse().ok()?;
        let rest: u128 = rest.parse().ok()?;
        let worker = (rest & 0xffff) as u16;
        let socket = u64::try_from(rest >> 16).ok()?;
        Some(SocketId {
            life,
            socket,
            worker,
        })
    }
}

impl fmt::Display for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = (u128::from(self.socket) << 16) | u128::from(self.worker);
        write!(f, "{}.{rest}", self.life)
    }
}

/// Whether a text has the form of an id, of whatever server.
pub fn is_socket_id(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    text.len() <= 100
        && text
            .split_once('.')
            .is_some_and(|(left, right)| is_number(left) && is_number(right))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_read_back(life: u64, socket: u64, worker: u16) {
            let id = SocketId { life, socket, worker };
            let text = id.to_string();
            prop_assert!(is_socket_id(&text));
            prop_assert_eq!(SocketId::parse(&text), Some(id));
        }

        #[test]
        fn anything_may_be_read(text in ".*") {
            let _ = SocketId::parse(&text);
            if SocketId::parse(&text).is_some() {
                prop_assert!(is_socket_id(&text));
            }
        }
    }

    #[test]
    fn ids_of_others_are_known_by_their_form() {
        for (text, is_one) in [
            ("1234.5678", true),
            ("1234", false),
            (".1", false),
            ("1.", false),
            ("1.2.3", false),
            ("1.2\n", false),
            ("", false),
        ] {
            assert_eq!(is_socket_id(text), is_one, "{text:?}");
        }
    }
}
