//! The ZeroMQ ports of publishers, and who is connected there.

use std::collections::{BTreeSet, HashMap};
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::path::Path;

use fermata_engine::Server;
use fermata_grip::zmtp::{Endpoint, Peer};
use fermata_io::net;

use crate::error::StartError;
use crate::publish::port::Port;
use crate::pushpin::services::Addresses;
use crate::settings::Settings;

/// Connections that may wait at a port.
const BACKLOG: i32 = 128;

/// Who may connect to a port that is a file: its owner and group.
const FILE_MODE: u32 = 0o660;

/// What `get-zmq-uris` answers.
#[derive(Debug, Default)]
pub(crate) struct Uris {
    pub(crate) command: String,
    pub(crate) pull: Option<String>,
    pub(crate) sub: Option<String>,
}

/// All ports and their peers.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    pub(crate) listeners: HashMap<u64, Port>,
    pub(crate) peers: HashMap<u64, Connection>,
    /// Those of which there is more to read.
    pub(crate) waiting: BTreeSet<u64>,
    pub uris: Uris,
}

/// A publisher.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) port: Port,
    pub(crate) peer: Peer,
    /// What the kernel has not taken yet.
    pub(crate) out: Vec<u8>,
    /// What the packets begin with that it wants.
    pub(crate) topics: Vec<Vec<u8>>,
    /// It has said what it is.
    pub(crate) is_ready: bool,
    /// It was opened from here.
    pub(crate) is_ours: bool,
    /// When it was last heard.
    pub(crate) heard_ms: u64,
}

impl Ports {
    /// The connections of a port that may be sent to.
    pub fn open(&self, port: Port) -> Vec<u64> {
        let peers = self.peers.iter();
        let mut open: Vec<u64> = peers
            .filter(|(_, it)| it.port == port && it.peer.is_open())
            .map(|(&wire, _)| wire)
            .collect();
        open.sort_unstable();
        open
    }

    /// Whether a connection may be sent to.
    pub fn is_open(&self, wire: u64) -> bool {
        self.peers.get(&wire).is_some_and(|it| it.peer.is_open())
    }

    /// Whether a connection is one of this port.
    pub fn is_at(&self, wire: u64, port: Port) -> bool {
        self.peers.get(&wire).is_some_and(|it| it.port == port)
    }

    /// The connection of a port whose other end has this name. No two have the same: [`Self::is_named_twice`].
    pub fn named(&self, port: Port, name: &[u8]) -> Option<u64> {
        let mut peers = self.peers.iter();
        peers
            .find(|(_, it)| it.port == port && it.peer.is_open() && it.peer.identity() == name)
            .map(|(&wire, _)| wire)
    }

    /// Whether this one, which is not among the peers now, has a name that another of its port has already. Where packets
    /// go by names it would take those of the other, or not, as chance has it.
    pub fn is_named_twice(&self, connection: &Connection) -> bool {
        let name = connection.peer.identity();
        let goes_by_names = matches!(connection.port, Port::Sessions(_));
        goes_by_names && !name.is_empty() && self.named(connection.port, name).is_some()
    }

    /// Whether a connection takes what it gets: less than half of what may wait for it does.
    pub fn has_room(&self, wire: u64, bytes: usize) -> bool {
        let connection = self.peers.get(&wire);
        connection.is_some_and(|it| it.out.len() + bytes <= it.port.out_bytes_max() / 2)
    }

    /// Whether anybody wants figures.
    pub fn has_listeners_to_stats(&self) -> bool {
        self.peers.values().any(|it| !it.topics.is_empty())
    }
}

/// Opens the ports before workers are forked, so that a worker's end does not close them.
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

/// What programs are told that ask where to publish.
pub(crate) fn uris(settings: &Settings) -> Uris {
    let first = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Uris {
        command: settings.zmq_rep.clone(),
        pull: first(&settings.zmq_pull),
        // Publishers that are connected to need not be told where.
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
