//! Closed connections.

use std::collections::VecDeque;

use fermata_io::Peer;

use crate::http::exchange::Exchange;
use crate::net::slab::Key;

/// A closed connection that other parts have to be notified of.
pub(crate) struct Ended {
    /// Key of the connection, whose index may be reused by now.
    pub key: Key,
    pub peer: Peer,
    /// The connection had a request without a response.
    pub is_open: bool,
    pub exchange: Exchange,
}

/// Closed connections of which other parts were not notified yet, in order; at most as many as
/// there were connections.
pub(crate) type EndedConnections = VecDeque<Ended>;
