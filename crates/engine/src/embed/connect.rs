//! Connecting, accepting, reading and writing wires.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use fermata_io::{Driver, Event as IoEvent, Fd, Peer, net};
use fermata_tls::{ServerName, Tls};

use crate::embed::waiting::WaitEvent;
use crate::embed::waiting::Waiting;
use crate::embed::wires::{Kind, Wire, WireEvent};
use crate::http::Http;
use crate::http::body::BodyLimits;
use crate::id::WireId;
use crate::net::Net;
use crate::net::connection::Origin;
use crate::worker::Worker;

impl<D: Driver> Net<D> {
    /// Starts to open a connection. The connection is open when the wire is writable without a
    /// hang-up.
    ///
    /// # Errors
    /// Immediate errors of the kernel.
    pub fn connect(&mut self, address: SocketAddr) -> io::Result<WireId> {
        let fd = net::connect_tcp(address, None)?;
        self.watch_wire(fd)
    }

    /// Starts to open a connection to a Unix socket.
    ///
    /// # Errors
    /// Immediate errors of the kernel; `WouldBlock` if the listener's queue is full.
    pub fn connect_unix(&mut self, path: &Path) -> io::Result<WireId> {
        let fd = net::open_unix(path)?;
        self.watch_wire(fd)
    }

    /// Watches an open connection, such as one end of a socket pair. The descriptor must be
    /// non-blocking.
    ///
    /// # Errors
    /// Errors of the kernel, such as a reached watch limit.
    pub fn adopt_wire(&mut self, stream: OwnedFd) -> io::Result<WireId> {
        // The driver owns the descriptor from here on and closes it.
        self.watch_wire(stream.into_raw_fd())
    }

    /// Watches `listener`, whose connections are accepted with [`Net::accept_wire`].
    ///
    /// # Errors
    /// Errors of the kernel, such as a reached watch limit.
    pub fn listen_wires(&mut self, listener: OwnedFd) -> io::Result<WireId> {
        self.watch_listener(listener, Kind::Listener)
    }

    /// Accepts one waiting connection. `None`: no connection is waiting.
    ///
    /// # Errors
    /// As for the driver's `accept`.
    pub fn accept_wire(&mut self, listener: WireId) -> io::Result<Option<(WireId, Peer)>> {
        let fd = self.wires.get(listener)?.fd;
        match self.driver.accept(fd)? {
            Some(accepted) => Ok(Some((self.watch_wire(accepted.fd)?, accepted.peer))),
            None => Ok(None),
        }
    }

    /// Reads available bytes. `None`: the read would block; `Some(0)`: end of the stream.
    ///
    /// # Errors
    /// The connection is broken, or the wire closed.
    pub fn recv_wire(&mut self, wire: WireId, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let fd = self.wires.get(wire)?.fd;
        self.driver.recv(fd, buf)
    }

    /// Sends bytes and returns the number of bytes sent. `None`: the write would block.
    ///
    /// # Errors
    /// The connection is broken, or the wire closed.
    pub fn send_wire(&mut self, wire: WireId, bytes: &[u8]) -> io::Result<Option<usize>> {
        let fd = self.wires.get(wire)?.fd;
        self.driver.send_one(fd, bytes)
    }

    /// Enables TCP keep-alive, which detects a peer that vanished, even on a silent connection.
    pub fn keep_wire_alive(&self, wire: WireId) {
        if let Ok(wire) = self.wires.get(wire) {
            net::keep_alive(wire.fd);
        }
    }

    /// Closes a wire. Events that were already reported may still arrive.
    pub fn close_wire(&mut self, wire: WireId) {
        if let Some(fd) = self.wires.remove(wire) {
            self.driver.close(fd);
        }
    }

    fn watch_wire(&mut self, fd: Fd) -> io::Result<WireId> {
        let wire = self.wires.insert(fd, Kind::Stream);
        if let Err(error) = self.driver.add_stream(fd, wire.to_raw()) {
            self.close_wire(wire);
            return Err(error);
        }
        Ok(wire)
    }

    fn watch_listener(&mut self, listener: OwnedFd, kind: Kind) -> io::Result<WireId> {
        let wire = self.wires.insert(listener.as_raw_fd(), kind);
        // The driver owns the descriptor from here on and closes it.
        let fd = listener.into_raw_fd();
        if let Err(error) = self.driver.add_listener(fd, wire.to_raw()) {
            self.close_wire(wire);
            return Err(error);
        }
        Ok(wire)
    }
}

impl<D: Driver> Worker<D> {
    /// Accepts HTTP requests from `listener`. All requests, whatever their path, arrive as
    /// `Event::Request` with this handler's number. `bodies` limits the bodies of all requests of
    /// this handler.
    ///
    /// # Errors
    /// Errors of the kernel, such as a reached watch limit.
    pub fn listen_requests(
        &mut self,
        listener: OwnedFd,
        handler: u32,
        bodies: BodyLimits,
    ) -> io::Result<WireId> {
        self.net.wires.bodies.insert(handler, bodies);
        net::limit_undelivered(&listener, self.net.settings.write_timeout_ms);
        self.net.watch_listener(listener, Kind::Requests(handler))
    }

    /// Opens a connection within this worker: HTTP requests sent on the wire reach this handler, as
    /// with [`Worker::listen_requests`].
    ///
    /// # Errors
    /// Errors of the kernel, such as a limit of descriptors.
    pub fn connect_self(&mut self, handler: u32) -> io::Result<WireId> {
        let (own, other) = UnixStream::pair()?;
        own.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        let wire = self.net.watch_wire(own.into_raw_fd())?;
        self.net.wires.accepting = handler;
        self.net
            .open(&mut self.http, other.into_raw_fd(), Peer::Unix, Origin::Own);
        Ok(wire)
    }
}

impl<D: Driver> Net<D> {
    /// Handles an event whose token is not a connection's.
    #[cold]
    pub(crate) fn on_wire(&mut self, http: &mut Http, waiting: &mut Waiting, event: IoEvent) {
        // The wire was closed within this turn.
        let Some((wire, Ok(&Wire { fd, kind }))) =
            WireId::from_raw(event.token).map(|wire| (wire, self.wires.get(wire)))
        else {
            return;
        };
        if let Kind::Requests(handler) = kind {
            self.accept_requests(http, fd, handler);
            return;
        }
        let event = WireEvent {
            wire,
            readable: event.readable,
            writable: event.writable,
            hangup: event.hangup,
        };
        waiting.events.push_back(WaitEvent::Wire(event));
    }

    /// Accepts again from listeners that were paused. They are edge-triggered, so they do not
    /// report connections that already wait.
    #[cold]
    pub(crate) fn accept_again(&mut self, http: &mut Http) {
        for (fd, handler) in self.wires.listeners_of_requests() {
            self.accept_requests(http, fd, handler);
        }
    }

    /// Accepts all waiting connections: an edge-triggered listener does not report them again.
    fn accept_requests(&mut self, http: &mut Http, fd: Fd, handler: u32) {
        self.wires.accepting = handler;
        while self.accept(http, fd, Origin::Own) {}
    }
}

impl<K: Driver> Net<Tls<K>> {
    /// Starts to open a TLS connection, like [`Net::connect`]; the wire is writable when the
    /// handshake is complete. `name` is checked against the server's certificate.
    ///
    /// # Errors
    /// Immediate errors of the kernel, or a configuration unsuitable for the name.
    pub fn connect_tls(
        &mut self,
        address: SocketAddr,
        config: Arc<fermata_tls::ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<WireId> {
        let fd = net::connect_tcp(address, None)?;
        if let Err(error) = self.driver.connect(fd, config, name) {
            self.driver.close(fd);
            return Err(io::Error::other(error));
        }
        self.watch_wire(fd)
    }

    /// Returns true if the peer of a [`Net::connect_tls`] wire has selected HTTP/2.
    pub fn wire_uses_http2(&self, wire: WireId) -> bool {
        let fd = self.wires.get(wire).map(|wire| wire.fd);
        fd.is_ok_and(|fd| self.driver.protocol(fd) == Some(b"h2"))
    }
}
