//! The connections of a worker, each with its exchange: sockets and HTTP/2 streams.

use super::connection::Connection;
use super::index::{ConnectionIndex, ExchangeIndex};
use super::slab::{Key, Slab};
use crate::http::exchange::Exchange;
use crate::id::SocketId;
use crate::websocket::Socket;

/// Maximum size of an entry; a test fails if a new field makes clients more expensive.
#[cfg(test)]
const IDLE_BYTES_MAX: usize = 128;

/// Connections and exchanges by index. A connection has one exchange at a time, with the same
/// index.
pub(crate) struct Connections {
    slab: Slab<Entry>,
}

struct Entry {
    connection: Connection,
    exchange: Exchange,
}

impl Entry {
    #[inline]
    fn pair(&self) -> (&Connection, &Exchange) {
        (&self.connection, &self.exchange)
    }

    #[inline]
    fn pair_mut(&mut self) -> (&mut Connection, &mut Exchange) {
        (&mut self.connection, &mut self.exchange)
    }
}

impl Connections {
    pub fn new() -> Connections {
        Connections { slab: Slab::new() }
    }

    /// Adds a connection that waits for its first request.
    pub fn insert(&mut self, connection: Connection) -> Key {
        self.insert_pair(connection, Exchange::new())
    }

    /// Adds a connection with its exchange.
    pub fn insert_pair(&mut self, connection: Connection, exchange: Exchange) -> Key {
        self.slab.insert(Entry {
            connection,
            exchange,
        })
    }

    pub fn remove(&mut self, index: ConnectionIndex) -> Option<(Connection, Exchange)> {
        let entry = self.slab.remove(index.0)?;
        Some((entry.connection, entry.exchange))
    }

    /// Returns the connection at `index` without checking its generation. Use it only for indexes
    /// from lists that are updated when a connection closes.
    #[inline]
    pub fn at(&self, index: ConnectionIndex) -> Option<&Connection> {
        Some(&self.slab.at(index.0)?.connection)
    }

    #[inline]
    pub fn at_mut(&mut self, index: ConnectionIndex) -> Option<&mut Connection> {
        Some(&mut self.slab.at_mut(index.0)?.connection)
    }

    /// Returns the exchange at `index` without checking its generation.
    #[inline]
    pub fn exchange(&self, index: ExchangeIndex) -> Option<&Exchange> {
        Some(&self.slab.at(index.0)?.exchange)
    }

    #[inline]
    pub fn exchange_mut(&mut self, index: ExchangeIndex) -> Option<&mut Exchange> {
        Some(&mut self.slab.at_mut(index.0)?.exchange)
    }

    /// Returns an exchange and its connection.
    #[inline]
    pub fn pair(&self, index: ExchangeIndex) -> Option<(&Connection, &Exchange)> {
        self.slab.at(index.0).map(Entry::pair)
    }

    #[inline]
    pub fn pair_mut(&mut self, index: ExchangeIndex) -> Option<(&mut Connection, &mut Exchange)> {
        self.slab.at_mut(index.0).map(Entry::pair_mut)
    }

    /// Returns the pair that `key` refers to, unless its connection was closed.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<(&mut Connection, &mut Exchange)> {
        self.slab.get_mut(key).map(Entry::pair_mut)
    }

    /// Returns the exchange of a WebSocket, unless another request has replaced it.
    #[inline]
    pub fn socket(&self, socket: SocketId) -> Option<(&Connection, &Exchange)> {
        let pair = self.pair(socket.exchange())?;
        (pair.1.serial == socket.handshake().serial()).then_some(pair)
    }

    #[inline]
    pub fn socket_mut(&mut self, socket: SocketId) -> Option<(&mut Connection, &mut Exchange)> {
        let pair = self.pair_mut(socket.exchange())?;
        (pair.1.serial == socket.handshake().serial()).then_some(pair)
    }

    /// Returns the WebSocket at `index`, with its id and connection; `None` if the exchange is not
    /// a WebSocket.
    #[inline]
    pub fn socket_at(
        &mut self,
        index: ExchangeIndex,
    ) -> Option<(SocketId, &mut Connection, &mut Socket)> {
        let (connection, exchange) = self.pair_mut(index)?;
        let id = exchange.socket_id(index);
        Some((id, connection, exchange.socket_mut()?))
    }

    #[inline]
    pub fn key(&self, index: ConnectionIndex) -> Option<Key> {
        self.slab.key(index.0)
    }

    pub fn indexes(&self) -> Vec<ConnectionIndex> {
        let indexes = self.slab.indexes().into_iter();
        indexes.map(ConnectionIndex).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Connection, &Exchange)> {
        self.slab.iter().map(Entry::pair)
    }

    pub fn len(&self) -> usize {
        self.slab.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_size_of_an_idle_connection() {
        let bytes = size_of::<Option<Entry>>();
        assert!(bytes <= IDLE_BYTES_MAX, "{bytes}");
    }
}
