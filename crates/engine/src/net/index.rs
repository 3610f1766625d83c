//! Indexes of connections and exchanges. The types are distinct although the numbers are equal,
//! because each HTTP/2 stream has its own connection entry.

use super::slab::Key;

/// Index of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionIndex(pub u32);

/// Index of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ExchangeIndex(pub u32);

impl ConnectionIndex {
    /// Returns the index of the connection's only exchange.
    #[inline]
    pub fn exchange(self) -> ExchangeIndex {
        ExchangeIndex(self.0)
    }
}

impl ExchangeIndex {
    /// Returns the index of the connection that carries the exchange.
    #[inline]
    pub fn connection(self) -> ConnectionIndex {
        ConnectionIndex(self.0)
    }
}

impl Key {
    /// Returns the connection that the key was made for.
    #[inline]
    pub fn connection(self) -> ConnectionIndex {
        ConnectionIndex(self.index)
    }

    /// Returns the exchange that the key was made for.
    #[inline]
    pub fn exchange(self) -> ExchangeIndex {
        ExchangeIndex(self.index)
    }
}
