//! Wires: sockets of the embedder in the worker's loop. A wire is a connection that the embedder
//! opens, a listener from which it accepts, or a listener whose HTTP requests the engine parses.
//!
//! The embedder defines the protocol; the engine only reports readiness
//! ([`Event::Wire`](crate::Event::Wire)). Wires are edge-triggered like the driver: readiness lasts
//! until a call would block. Their tokens use an index that no connection has, so request handling
//! is unaffected by wires.

use std::collections::HashMap;
use std::io;

use fermata_io::Fd;

use crate::http::body::BodyLimits;
use crate::id::WireId;
use crate::net::index::ExchangeIndex;
use crate::net::slab::{Key, Slab};

/// Flag of wire indexes in tokens. A worker has fewer connections than this.
const MARK: u32 = 1 << 31;

/// Readiness of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireEvent {
    /// The wire.
    pub wire: WireId,
    /// The wire has bytes to read or a connection to accept, or its stream has ended.
    pub readable: bool,
    /// The wire has room to send; for a new connection: it is open.
    pub writable: bool,
    /// The peer has closed its sending side, or the connection is broken.
    pub hangup: bool,
}

impl WireEvent {
    /// Creates an event without readiness, for checking a wire that may be open already.
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
    /// Body limits of handlers that have limits of their own.
    pub bodies: HashMap<u32, BodyLimits>,
    /// Handler of the listener that is being accepted from.
    pub accepting: u32,
    /// Handler of each connection with `Origin::Own`, by index. An entry stays until the index is
    /// reused.
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
    /// Connections of this listener carry HTTP for this handler.
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

    /// Registers a connection of the listener that is being accepted from.
    pub fn opened(&mut self, index: ExchangeIndex) {
        self.handlers.insert(index, self.accepting);
    }

    /// Returns the body limits of a connection's handler, if the handler has limits of its own.
    pub fn body_limits(&self, index: ExchangeIndex) -> Option<BodyLimits> {
        self.bodies.get(&self.handler_of(index)).copied()
    }

    /// Returns the handler of a connection's requests.
    pub fn handler_of(&self, index: ExchangeIndex) -> u32 {
        self.handlers.get(&index).copied().unwrap_or_default()
    }
}
