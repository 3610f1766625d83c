//! The connections of a worker, each with the exchange that it has: those with sockets, and streams of HTTP/2.

use super::connection::Connection;
use super::index::{ConnectionIndex, ExchangeIndex};
use super::slab::{Key, Slab};
use crate::http::exchange::Exchange;
use crate::id::SocketId;
use crate::websocket::Socket;

/// The size an entry may have; a test fails when a new field makes clients dearer.
#[cfg(test)]
const IDLE_BYTES_MAX: usize = 128;

/// Connections and exchanges by number. A connection has one exchange at a time, which has its number.
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

    /// A connection that waits for its first request.
    pub fn insert(&mut self, connection: Connection) -> Key {
        self.insert_pair(connection, Exchange::new())
    }

    /// A connection with what it is there for.
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

    /// The connection at `index`, whatever its generation: for callers that just got the index from a list that is kept
    /// in step.
    #[inline]
    pub fn at(&self, index: ConnectionIndex) -> Option<&Connection> {
        Some(&self.slab.at(index.0)?.connection)
    }

    #[inline]
    pub fn at_mut(&mut self, index: ConnectionIndex) -> Option<&mut Connection> {
        Some(&mut self.slab.at_mut(index.0)?.connection)
    }

    /// The exchange at `index`, likewise.
    #[inline]
    pub fn exchange(&self, index: ExchangeIndex) -> Option<&Exchange> {
        Some(&self.slab.at(index.0)?.exchange)
    }

    #[inline]
    pub fn exchange_mut(&mut self, index: ExchangeIndex) -> Option<&mut Exchange> {
        Some(&mut self.slab.at_mut(index.0)?.exchange)
    }

    /// An exchange and the connection that carries it.
    #[inline]
    pub fn pair(&self, index: ExchangeIndex) -> Option<(&Connection, &Exchange)> {
        self.slab.at(index.0).map(Entry::pair)
    }

    #[inline]
    pub fn pair_mut(&mut self, index: ExchangeIndex) -> Option<(&mut Connection, &mut Exchange)> {
        self.slab.at_mut(index.0).map(Entry::pair_mut)
    }

    /// The pair `key` was made for, unless its connection has ended since.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<(&mut Connection, &mut Exchange)> {
        self.slab.get_mut(key).map(Entry::pair_mut)
    }

    /// The exchange of a WebSocket, unless another request has come there since.
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

    /// The WebSocket at `index`, with its name and the connection that carries it, if what is there is one.
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
    fn an_idle_connection_is_small() {
        let bytes = size_of::<Option<Entry>>();
        assert!(bytes <= IDLE_BYTES_MAX, "{bytes}");
    }
}
