//! Connections that are gone.

use std::collections::VecDeque;

use fermata_io::Peer;

use crate::http::exchange::Exchange;
use crate::net::slab::Key;

/// A connection that is gone, and what the parts that know of it have still to be told.
pub(crate) struct Ended {
    /// Of the connection; another one may have its place by now.
    pub key: Key,
    pub peer: Peer,
    /// Its request could still be answered.
    pub is_open: bool,
    pub exchange: Exchange,
}

/// Those that the other parts have not been told of, in the order in which they ended: as many as there were connections.
pub(crate) type EndedConnections = VecDeque<Ended>;
