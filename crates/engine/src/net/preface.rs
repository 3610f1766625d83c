//! Connections that start with a PROXY protocol header, which has the client's address.
//!
//! After the header, the client counts as the connection's peer, for limits, logs and applications;
//! TLS follows. The server reads no byte beyond the header, so no bytes have to be put back. Cost:
//! a version 1 line has no length prefix, so it is read two bytes at a time.

use std::net::Ipv4Addr;

use fermata_config::LogLevel;
use fermata_io::{Deadline, Driver, Fd, Peer};
use fermata_proto::proxy::{self, Source, Step};

use crate::admin::stats::Counter;
use crate::http::Http;
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::connection::{Connection, Origin, Phase};
use crate::net::index::ConnectionIndex;
use crate::net::line::Line;
use crate::net::running::Running;

/// Returns the peer of a forwarded connection without a client address: port 0, which no client
/// has. Forwarding headers in its requests are not from the proxy.
fn unnamed(proxy: Peer) -> Peer {
    match proxy {
        Peer::V4(address, _) => Peer::V4(address, 0),
        Peer::V6(address, _) => Peer::V6(address, 0),
        Peer::Unix => Peer::V4(Ipv4Addr::UNSPECIFIED, 0),
    }
}

/// Returns true if `unnamed` returned this peer.
pub(crate) fn is_unnamed(peer: Peer) -> bool {
    peer != Peer::Unix && peer.port() == 0
}

impl<D: Driver> Net<D> {
    /// Reads the header. Returns true if the header is complete; the connection then continues as
    /// the client's.
    pub(crate) fn read_preface(&mut self, http: &mut Http, index: ConnectionIndex) -> bool {
        loop {
            let Some(connection) = self.connections.at_mut(index) else {
                return missed(false);
            };
            let more = match proxy::read(&connection.inbox) {
                Ok(Step::Complete(source)) => return self.end_preface(http, index, source),
                Ok(Step::More(more)) => more,
                Err(malformed) => {
                    self.refuse_preface(http, index, &malformed.to_string());
                    return false;
                }
            };
            let Some(fd) = connection.line.socket() else {
                return false;
            };
            match self.driver.recv(fd, &mut self.input.bytes[..more]) {
                Ok(Some(0)) | Err(_) => {
                    self.close(http, index);
                    return false;
                }
                Ok(Some(read)) => {
                    if connection.inbox.capacity() == 0 {
                        connection.inbox = self.pool.take();
                    }
                    connection
                        .inbox
                        .extend_from_slice(&self.input.bytes[..read]);
                }
                Ok(None) => {
                    connection.has_unread = false;
                    if self.running != Running::Serving {
                        self.close(http, index);
                    }
                    return false;
                }
            }
        }
    }

    fn end_preface(&mut self, http: &mut Http, index: ConnectionIndex, source: Source) -> bool {
        let Some(connection) = self.connections.at_mut(index) else {
            return missed(false);
        };
        self.pool.give(std::mem::take(&mut connection.inbox));
        match source {
            Source::Client(address, port) => {
                connection.peer = std::net::SocketAddr::new(address, port).into();
            }
            Source::Proxy => connection.peer = unnamed(connection.peer),
        }
        let (line, peer) = (connection.line, connection.peer);
        if self.is_crowded(peer) {
            self.counts.add(Counter::RefusedPerAddress, 1);
            self.close(http, index);
            let message =
                format!("connection from {peer} closed: limit connections_per_address_max reached");
            self.log_for_client(LogLevel::Warning, &message);
            return false;
        }
        if let Some(fd) = line.socket()
            && let Err(error) = self.driver.begin(fd)
        {
            self.close(http, index);
            let message = format!("connection from {peer} closed: {error}");
            self.log_for_client(LogLevel::Error, &message);
            return false;
        }
        self.count_address(peer);
        if let Some(connection) = self.connections.at_mut(index).known() {
            connection.phase = Phase::Open;
        }
        true
    }

    /// Closes a connection with a bad header, without a response, since its protocol is unknown.
    pub(crate) fn refuse_preface(&mut self, http: &mut Http, index: ConnectionIndex, cause: &str) {
        let Some(connection) = self.connections.at(index) else {
            return missed(());
        };
        let message = format!("connection from {} closed: {cause}", connection.peer);
        self.counts.add(Counter::RefusedProxy, 1);
        self.close(http, index);
        self.log_for_client(LogLevel::Warning, &message);
    }
}

impl<D: Driver> Net<D> {
    /// Opens a connection from a proxy. Only a trusted proxy may name clients.
    pub(crate) fn open_prefaced(&mut self, fd: Fd, peer: Peer) {
        if !self.settings.trusted_proxies.contains(peer.ip()) {
            self.counts.add(Counter::RefusedProxy, 1);
            self.driver.close(fd);
            let message = format!(
                "connection from {peer} closed: it is not in trusted_proxies, and this address is for proxies"
            );
            self.log_for_client(LogLevel::Warning, &message);
            return;
        }
        if self.sockets_len() >= self.settings.connections_max {
            // A response is impossible without knowing the protocol after the header.
            self.counts.add(Counter::RefusedConnections, 1);
            self.driver.close(fd);
            return;
        }
        self.counts.add(Counter::Accepted, 1);
        let deadline = Deadline::after(self.driver.now_ms(), self.settings.header_timeout_ms);
        let mut connection = Connection::new(Line::of_socket(fd), peer, Origin::Public);
        connection.phase = Phase::Preface;
        self.insert(connection, deadline);
    }
}
