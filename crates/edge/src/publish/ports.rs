//! ZeroMQ ports of publishers and their peers.
//!
//! [`Ports::ended`] lists closed connections, for other parts that store their numbers.

use std::collections::{BTreeSet, HashMap};
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::path::Path;

use fermata_config::LogLevel;
use fermata_engine::missed;
use fermata_engine::stats::Counter;
use fermata_engine::{Server, WireId};
use fermata_grip::zmtp;
use fermata_grip::zmtp::{Endpoint, Peer};
use fermata_io::net;

use crate::client::source::Engine;
use crate::error::StartError;
use crate::publish::port::{OUT_BYTES_MAX, Port};
use crate::pushpin::services::Addresses;
use crate::settings::Settings;
use crate::timers::{Timer, Timers};

/// Backlog of a port.
const BACKLOG: i32 = 128;

/// Maximum number of connections of all ports.
const PEERS_MAX: usize = 1_024;

/// Maximum number of bytes of frame headers of one message.
const HEADS_BYTES_MAX: usize = 64;

/// Time-out of a peer's handshake in milliseconds.
const HANDSHAKE_MS: u64 = 10_000;

/// Silence in milliseconds after which the connection of a peer may be closed to make room for another peer.
const SILENT_MS: u64 = 60_000;

/// Pause in milliseconds after accepting a connection has failed.
const ACCEPT_PAUSE_MS: u64 = 100;
/// Interval in milliseconds at which the handshakes of peers are checked for time-outs.
const PEERS_MS: u64 = 1_000;

/// Mode of a port's socket file: owner and group may connect.
const FILE_MODE: u32 = 0o660;

/// Reply of `get-zmq-uris`.
#[derive(Debug, Default)]
pub(crate) struct Uris {
    pub(crate) command: String,
    pub(crate) pull: Option<String>,
    pub(crate) sub: Option<String>,
}

/// Ports and their peers.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    pub(crate) listeners: HashMap<WireId, Port>,
    pub(crate) peers: HashMap<WireId, Connection>,
    /// Connections with more bytes to read.
    pub(crate) waiting: BTreeSet<WireId>,
    /// Closed connections, for the code that opened or used them.
    pub ended: Vec<WireId>,
    pub uris: Uris,
}

/// A connection of a peer.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) port: Port,
    pub(crate) peer: Peer,
    /// Bytes that the kernel has not accepted.
    pub(crate) out: Vec<u8>,
    /// Topics that the peer has subscribed to, as prefixes.
    pub(crate) topics: Vec<Vec<u8>>,
    /// True if the handshake is complete.
    pub(crate) is_ready: bool,
    /// True if the edge opened the connection.
    pub(crate) is_ours: bool,
    /// Time at which the connection was accepted or opened. The handshake has to complete within [`HANDSHAKE_MS`].
    opened_ms: u64,
    /// Time at which the last bytes were received.
    pub(crate) received_ms: u64,
}

impl Ports {
    /// Returns the connections of a port that can be sent to.
    pub fn open(&self, port: Port) -> Vec<WireId> {
        let peers = self.peers.iter();
        let mut open: Vec<WireId> = peers
            .filter(|(_, it)| it.port == port && it.peer.is_open())
            .map(|(&wire, _)| wire)
            .collect();
        open.sort_unstable();
        open
    }

    /// Returns true if a connection can be sent to.
    pub fn is_open(&self, wire: WireId) -> bool {
        self.peers.get(&wire).is_some_and(|it| it.peer.is_open())
    }

    /// Returns true if a connection belongs to this port.
    pub fn is_at(&self, wire: WireId, port: Port) -> bool {
        self.peers.get(&wire).is_some_and(|it| it.port == port)
    }

    /// Returns the connection of a port whose peer has this identity. The identity is unique: see [`Self::is_named_twice`].
    pub fn named(&self, port: Port, name: &[u8]) -> Option<WireId> {
        let mut peers = self.peers.iter();
        peers
            .find(|(_, it)| it.port == port && it.peer.is_open() && it.peer.identity() == name)
            .map(|(&wire, _)| wire)
    }

    /// Returns true if another peer of the port has the same identity as this connection, which must not be in the map. Packets
    /// routed by identity could reach either of them.
    pub fn is_named_twice(&self, connection: &Connection) -> bool {
        let name = connection.peer.identity();
        let goes_by_names = matches!(connection.port, Port::Sessions(_));
        goes_by_names && !name.is_empty() && self.named(connection.port, name).is_some()
    }

    /// Returns true if a connection's queue is at most half full after adding this number of bytes.
    pub fn has_room(&self, wire: WireId, bytes: usize) -> bool {
        let connection = self.peers.get(&wire);
        connection.is_some_and(|it| it.out.len() + bytes <= it.port.out_bytes_max() / 2)
    }

    /// Returns true if stats have subscribers.
    pub fn has_listeners_to_stats(&self) -> bool {
        self.peers.values().any(|it| !it.topics.is_empty())
    }
}

impl Ports {
    /// Starts to accept connections at a port.
    pub fn listen_at(
        &mut self,
        worker: &mut Engine,
        port: Port,
        listener: OwnedFd,
    ) -> std::io::Result<()> {
        let wire = worker.net.listen_wires(listener)?;
        self.listeners.insert(wire, port);
        Ok(())
    }

    /// Sends a message to a connection. Returns false if the connection was closed or its queue is full.
    pub fn send(&mut self, worker: &mut Engine, wire: WireId, parts: &[&[u8]]) -> bool {
        let Some(mut connection) = self.peers.remove(&wire) else {
            // The connection was closed, or the caller is reading from it.
            return false;
        };
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let has_room = connection.peer.is_open()
            && connection.out.len() + bytes + HEADS_BYTES_MAX <= connection.port.out_bytes_max();
        if has_room {
            zmtp::message(&mut connection.out, parts);
        }
        if Self::flush(worker, wire, &mut connection) {
            self.peers.insert(wire, connection);
        } else {
            self.end_peer(worker, wire);
            return false;
        }
        has_room
    }

    /// Adds an outgoing connection as a peer of a port.
    pub fn greet(&mut self, worker: &mut Engine, timers: &mut Timers, wire: WireId, port: Port) {
        let connection = Self::new_peer(worker, timers, wire, port, true);
        self.peers.insert(wire, connection);
    }

    /// Sends the queued bytes of a connection. Closes the connection on an error.
    pub fn push(&mut self, worker: &mut Engine, wire: WireId) {
        if let Some(mut connection) = self.peers.remove(&wire) {
            if Self::flush(worker, wire, &mut connection) {
                self.peers.insert(wire, connection);
            } else {
                self.end_peer(worker, wire)
            }
        }
    }

    /// Closes connections whose handshake timed out.
    pub fn on_peers_due(&mut self, worker: &mut Engine, timers: &mut Timers) {
        let now_ms = worker.net.now_ms();
        let peers = self.peers.iter();
        let strangers: Vec<(WireId, u64)> = peers
            .filter(|(_, it)| !it.is_ready)
            .map(|(wire, it)| (*wire, it.opened_ms))
            .collect();
        let mut left = 0;
        for (wire, since_ms) in strangers {
            if now_ms < since_ms + HANDSHAKE_MS {
                left += 1;
                continue;
            }
            worker.net.count(Counter::EdgePublisherSilent, 1);
            self.refuse_peer(worker, wire, "its handshake did not complete within 10 s");
        }
        if left > 0 {
            timers.at(now_ms + PEERS_MS, Timer::Peers);
        }
    }

    fn refuse_peer(&mut self, worker: &mut Engine, wire: WireId, reason: &str) {
        if let Some(connection) = self.peers.remove(&wire) {
            let port = connection.port.setting();
            let line = format!("{port}: a publisher's connection is closed: {reason}");
            worker.net.log_for_client(LogLevel::Warning, &line);
        }
        self.end_peer(worker, wire);
    }

    /// Ends a connection that was removed from the map.
    pub(crate) fn end_peer(&mut self, worker: &mut Engine, wire: WireId) {
        self.waiting.remove(&wire);
        worker.net.close_wire(wire);
        self.ended.push(wire);
    }

    /// Creates a peer. Enables TCP keep-alive, because a silent publisher may be idle or its machine may be down.
    fn new_peer(
        worker: &mut Engine,
        timers: &mut Timers,
        wire: WireId,
        port: Port,
        is_ours: bool,
    ) -> Connection {
        worker.net.keep_wire_alive(wire);
        let now_ms = worker.net.now_ms();
        timers.at(now_ms + PEERS_MS, Timer::Peers);
        let mut out = Vec::new();
        let peer = Peer::new(port.socket(), zmtp::Limits::default(), &mut out);
        Connection {
            port,
            peer,
            out,
            topics: Vec::new(),
            is_ready: false,
            is_ours,
            opened_ms: now_ms,
            received_ms: now_ms,
        }
    }

    /// Makes room for one more peer by closing the peer that was silent longest, if it was silent for more than [`SILENT_MS`]. A
    /// publisher reconnects when it has items. Subscribers of stats are never closed.
    fn has_room_for_peer(&mut self, worker: &mut Engine, now_ms: u64) -> bool {
        if self.peers.len() < PEERS_MAX {
            return true;
        }
        let peers = self.peers.iter();
        let publishers = peers
            .filter(|(_, it)| !it.is_ours && matches!(it.port, Port::Pull | Port::Sub | Port::Rep));
        let oldest = publishers.min_by_key(|(_, it)| it.received_ms);
        let Some((&wire, received_ms)) = oldest.map(|(wire, it)| (wire, it.received_ms)) else {
            return false;
        };
        if now_ms < received_ms + SILENT_MS {
            return false;
        }
        worker.net.count(Counter::EdgePublishersMax, 1);
        self.refuse_peer(
            worker,
            wire,
            "others need the place, and it was silent longest",
        );
        true
    }

    pub(crate) fn accept_peers(
        &mut self,
        worker: &mut Engine,
        timers: &mut Timers,
        listener: WireId,
        port: Port,
    ) {
        loop {
            let now_ms = worker.net.now_ms();
            match worker.net.accept_wire(listener) {
                Ok(Some((wire, _))) if !self.has_room_for_peer(worker, now_ms) => {
                    worker.net.close_wire(wire);
                    worker.net.count(Counter::EdgePublishersMax, 1);
                    let line = format!(
                        "{} has {PEERS_MAX} publishers; one more is refused",
                        port.setting()
                    );
                    worker.net.log_for_client(LogLevel::Warning, &line);
                }
                Ok(Some((wire, _))) => {
                    let mut connection = Self::new_peer(worker, timers, wire, port, false);
                    if Self::flush(worker, wire, &mut connection) {
                        self.peers.insert(wire, connection);
                    } else {
                        worker.net.close_wire(wire)
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    let line = format!("{}: cannot accept: {error}", port.setting());
                    worker.net.log_for_client(LogLevel::Warning, &line);
                    worker.net.count(Counter::RefusedAccept, 1);
                    // The kernel does not report the waiting connection again (edge-triggered).
                    self.waiting.insert(listener);
                    timers.at(now_ms + ACCEPT_PAUSE_MS, Timer::Ports);
                    return;
                }
            }
        }
    }

    /// Sends queued bytes. Returns false if the connection ended.
    pub(crate) fn flush(worker: &mut Engine, wire: WireId, connection: &mut Connection) -> bool {
        while !connection.out.is_empty() {
            match worker.net.send_wire(wire, &connection.out) {
                Ok(Some(len)) => {
                    connection.out.drain(..len);
                }
                Ok(None) if connection.out.len() <= connection.port.out_bytes_max() => return true,
                Ok(None) => {
                    Self::on_slow_peer(worker, connection.port);
                    return false;
                }
                Err(_) => return false,
            }
        }
        true
    }

    pub(crate) fn on_slow_peer(worker: &mut Engine, port: Port) {
        worker.net.count(Counter::EdgePublisherSlow, 1);
        let line = format!(
            "{}: a connection is closed that does not take what it asked for",
            port.setting()
        );
        worker.net.log_for_client(LogLevel::Warning, &line);
    }

    /// Sends a stats packet to its subscribers without waiting. Returns the number of subscribers whose queues were full.
    pub fn send_to_subscribers(&mut self, worker: &mut Engine, payload: &[u8]) -> usize {
        let wants = |it: &Connection| it.topics.iter().any(|topic| payload.starts_with(topic));
        let peers = self.peers.iter();
        let wires: Vec<WireId> = peers
            .filter(|(_, it)| wants(it))
            .map(|(wire, _)| *wire)
            .collect();
        let mut left_out = 0;
        for wire in wires {
            let Some(mut connection) = self.peers.remove(&wire) else {
                missed(());
                continue;
            };
            if connection.out.len() + payload.len() > OUT_BYTES_MAX / 2 {
                left_out += 1;
            } else {
                zmtp::message(&mut connection.out, &[payload]);
            }
            if Self::flush(worker, wire, &mut connection) {
                self.peers.insert(wire, connection);
            } else {
                self.end_peer(worker, wire)
            }
        }
        left_out
    }
}

/// Opens the ports before workers are forked, so that the ports stay open when a worker exits.
pub(crate) fn bind(
    server: &mut Server,
    settings: &Settings,
    services: &Addresses,
) -> Result<Vec<(Port, OwnedFd)>, StartError> {
    let mut bound = Vec::new();
    let own = endpoints(settings).into_iter();
    let own = own.map(|(port, text)| (port, text, None));
    let services = services.ports();
    let services = services.iter();
    let services = services.map(|(port, text, mode)| (*port, &text[..], *mode));
    for (port, text, mode) in own.chain(services) {
        let failed = |error: &dyn std::fmt::Display| {
            StartError::Setting(format!(
                "{}: cannot listen on {text}: {error}; is another edge or Pushpin running? Give another address, or an empty one for none",
                port.setting()
            ))
        };
        let listener = match Endpoint::parse(text).map_err(|error| failed(&error))? {
            Endpoint::Ipc(path) => {
                net::bind_unix(Path::new(&path), BACKLOG, mode.unwrap_or(FILE_MODE))
            }
            Endpoint::Tcp { host, port } => {
                let host = if host == "*" {
                    "0.0.0.0".to_owned()
                } else {
                    host
                };
                let mut addresses = (host, port)
                    .to_socket_addrs()
                    .map_err(|error| failed(&error))?;
                let address = addresses
                    .next()
                    .ok_or_else(|| failed(&"it is no address"))?;
                net::bind_tcp(address, BACKLOG, false).map(|(listener, _)| listener)
            }
        };
        bound.push((port, listener.map_err(|error| failed(&error))?));
        server.note(&format!("{}: {text}", port.setting()));
    }
    Ok(bound)
}

/// Returns the addresses for applications that query where to publish.
pub(crate) fn uris(settings: &Settings) -> Uris {
    let first = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Uris {
        command: settings.zmq_rep.clone(),
        pull: first(&settings.zmq_pull),
        // The edge itself connects to these publishers.
        sub: settings
            .zmq_sub
            .first()
            .filter(|_| !settings.zmq_sub_connect)
            .and_then(|text| first(text)),
    }
}

fn endpoints(settings: &Settings) -> Vec<(Port, &str)> {
    let mut endpoints = vec![
        (Port::Pull, settings.zmq_pull.as_str()),
        (Port::Rep, &settings.zmq_rep),
        (Port::Stats, &settings.zmq_stats),
    ];
    if !settings.zmq_sub_connect {
        let publishers = settings.zmq_sub.iter();
        endpoints.extend(publishers.map(|it| (Port::Sub, it.as_str())));
    }
    endpoints.retain(|(_, text)| !text.is_empty());
    endpoints
}
