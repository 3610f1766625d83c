//! Places of connections and of exchanges, which are two things although they are equal: a stream of HTTP/2 has a
//! connection of its own.

use super::slab::Key;

/// The place of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionIndex(pub u32);

/// The place of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ExchangeIndex(pub u32);

impl ConnectionIndex {
    /// Its exchange: it has one at a time.
    #[inline]
    pub fn exchange(self) -> ExchangeIndex {
        ExchangeIndex(self.0)
    }
}

impl ExchangeIndex {
    /// The connection that carries it.
    #[inline]
    pub fn connection(self) -> ConnectionIndex {
        ConnectionIndex(self.0)
    }
}

impl Key {
    /// The connection that it was made for.
    #[inline]
    pub fn connection(self) -> ConnectionIndex {
        ConnectionIndex(self.index)
    }

    /// The exchange that it was made for.
    #[inline]
    pub fn exchange(self) -> ExchangeIndex {
        ExchangeIndex(self.index)
    }
}
