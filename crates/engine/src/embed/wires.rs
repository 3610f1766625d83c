//! Sockets of the embedder in the worker's loop: connections that it opens, listeners that it accepts from itself, and
//! listeners whose HTTP requests the engine parses for it.
//!
//! Wires speak whatever the embedder makes of them; the engine only says when there is something to do
//! ([`Event::Wire`](crate::Event::Wire)). They are edge triggered as the driver is: a reported readiness is to be
//! remembered until a call would block. Their tokens have an index that no connection has, so the path of a request is
//! the same whether there are wires or not.

use std::collections::HashMap;
use std::io;

use fermata_io::Fd;

use crate::http::body::BodyLimits;
use crate::id::WireId;
use crate::net::index::ExchangeIndex;
use crate::net::slab::{Key, Slab};

/// Marks indexes of wires in tokens. A worker has fewer connections than this.
const MARK: u32 = 1 << 31;

/// What became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireEvent {
    /// Which wire.
    pub wire: WireId,
    /// There are bytes, a connection to accept, or the end of the stream.
    pub readable: bool,
    /// There is room to send; of a connection that was being opened, that it stands.
    pub writable: bool,
    /// The peer has closed its sending side, or the connection is broken.
    pub hangup: bool,
}

impl WireEvent {
    /// Nothing is known: to look at a wire that may stand already.
    pub fn of(wire: WireId) -> WireEvent {
        WireEvent {
            wire,
            readable: false,
            writable: false,
            hangup: false,
        }
    }
}

/// All wires of a worker.
pub(crate) struct Wires {
    pub slab: Slab<Wire>,
    /// What bodies of requests may have, for handlers with bounds of their own.
    pub bodies: HashMap<u32, BodyLimits>,
    /// The handler of the listener that is being accepted from.
    pub accepting: u32,
    /// Handlers of connections of `Origin::Own`, by index; an entry stays until the index is used again.
    pub handlers: HashMap<ExchangeIndex, u32>,
}

pub(crate) struct Wire {
    pub fd: Fd,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Stream,
    Listener,
    /// Connections to it carry HTTP for this handler.
    Requests(u32),
}

impl Wires {
    pub fn new() -> Wires {
        Wires {
            slab: Slab::new(),
            bodies: HashMap::new(),
            accepting: 0,
            handlers: HashMap::new(),
        }
    }

    pub fn key(wire: WireId) -> Option<Key> {
        let Key { index, generation } = wire.key();
        let index = index.checked_sub(MARK)?;
        Some(Key { index, generation })
    }

    pub fn get(&self, wire: WireId) -> io::Result<&Wire> {
        let found = Self::key(wire).and_then(|key| self.slab.get(key));
        found.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub fn insert(&mut self, fd: Fd, kind: Kind) -> WireId {
        let Key { index, generation } = self.slab.insert(Wire { fd, kind });
        let index = index | MARK;
        WireId::new(Key { index, generation })
    }

    pub fn remove(&mut self, wire: WireId) -> Option<Fd> {
        let key = Self::key(wire)?;
        self.slab.get(key)?;
        self.slab.remove(key.index).map(|wire| wire.fd)
    }

    pub fn listeners_of_requests(&self) -> Vec<(Fd, u32)> {
        let listeners = self.slab.iter().filter_map(|wire| match wire.kind {
            Kind::Requests(handler) => Some((wire.fd, handler)),
            Kind::Stream | Kind::Listener => None,
        });
        listeners.collect()
    }

    /// A connection of the listener that is being accepted from.
    pub fn opened(&mut self, index: ExchangeIndex) {
        self.handlers.insert(index, self.accepting);
    }

    /// What the bodies of a connection's requests may have, where its handler has bounds of its own.
    pub fn body_limits(&self, index: ExchangeIndex) -> Option<BodyLimits> {
        self.bodies.get(&self.handler_of(index)).copied()
    }

    /// The handler of a connection's requests.
    pub fn handler_of(&self, index: ExchangeIndex) -> u32 {
        self.handlers.get(&index).copied().unwrap_or_default()
    }
}
