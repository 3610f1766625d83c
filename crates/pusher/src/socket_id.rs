//! Ids of connections: two decimal integers separated by a dot.

use std::fmt;

/// The id of a connection: its worker, the worker's process, and the socket in it.
///
/// Signatures of subscriptions cover the id, so no two connections may have the same id. A worker chooses `life` at random when it
/// starts, and never reuses a `socket`. The id must also be unpredictable, otherwise a signature could be made before the
/// connection exists: `secret` is chosen at random per connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId {
    /// Random number of the worker's process.
    pub life: u64,
    /// Number of the socket in the worker's process.
    pub socket: u64,
    /// Index of the worker.
    pub worker: u16,
    /// Random bits of the connection. There are [`SECRET_BITS`] of them.
    pub secret: u64,
}

/// Number of random bits in an id. The second integer of the id has 128 bits, which include these bits, the socket and the worker.
pub const SECRET_BITS: u32 = 48;

impl SocketId {
    /// Parses an id in the format of [`SocketId`]. `None`: this server has not assigned the id.
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
        let socket = (rest >> 16) as u64;
        let secret = (rest >> 80) as u64;
        Some(SocketId {
            life,
            socket,
            worker,
            secret,
        })
    }
}

impl fmt::Display for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.secret & ((1 << SECRET_BITS) - 1);
        let rest =
            u128::from(secret) << 80 | u128::from(self.socket) << 16 | u128::from(self.worker);
        write!(f, "{}.{rest}", self.life)
    }
}

/// Returns true if a text has the form of an id, of any server.
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
        fn ids_round_trip(life: u64, socket: u64, worker: u16, secret in 0..1_u64 << SECRET_BITS) {
            let id = SocketId { life, socket, worker, secret };
            let text = id.to_string();
            prop_assert!(is_socket_id(&text));
            prop_assert_eq!(SocketId::parse(&text), Some(id));
        }

        #[test]
        fn never_panics_on_any_text(text in ".*") {
            let _ = SocketId::parse(&text);
            if SocketId::parse(&text).is_some() {
                prop_assert!(is_socket_id(&text));
            }
        }
    }

    #[test]
    fn recognizes_ids_of_other_servers() {
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
