//! Connections of a worker to origins: their owners, the idle pool, and the opening of connections.

use std::path::Path;
use std::sync::Arc;

use fermata_engine::WireId;
use fermata_tls::{LoadError, ServerName};

use crate::client::source::{Engine, Source};
use crate::numbered::Numbered;
use crate::routes::Target;
use crate::timers::{Timer, Timers};
use crate::upstream::authority::Authority;
use crate::upstream::error::UpstreamError;
use crate::upstream::exchange::UpstreamExchange;
use crate::upstream::id::UpstreamExchangeId;
use crate::upstream::internal::is_internal;
use crate::upstream::place::{Place, certified_name, own_name};
use crate::upstream::resolve::{Found, Resolver};
use crate::upstream::socket_queues::{SocketQueues, WAITING_MAX};
use crate::upstream::{Limits, Pool};

/// Interval in milliseconds at which expired idle connections are closed.
const POOL_MS: u64 = 5_000;

/// Time in milliseconds after which a Unix socket with a full backlog is tried again.
const ROOM_MS: u64 = 10;

/// The owner of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WireUse {
    UpstreamExchange(UpstreamExchangeId),
    Idle(Place),
    /// An HTTP/2 connection that carries many requests.
    Carrier,
    /// The WebSocket of a SockJS session.
    Session(u64),
    /// Becomes readable when name lookups finish.
    Names,
}

/// Connections of a worker.
pub(crate) struct Connections {
    uses: Numbered<WireId, WireUse>,
    pool: Pool<Place, WireId>,
    resolver: Resolver,
    /// Number of connections with [`WireUse::Names`].
    bells: usize,
    /// Exchanges that wait for room in the backlog of Unix sockets.
    pub socket_queues: SocketQueues,
    /// TLS configurations for origins.
    pub authority: Authority,
}

impl Connections {
    pub fn new(authority: Authority) -> Self {
        Self {
            uses: Default::default(),
            pool: Pool::new(Limits::default()),
            resolver: Resolver::default(),
            bells: 0,
            socket_queues: SocketQueues::default(),
            authority,
        }
    }

    /// Returns the owner of a connection; `None` if the connection does not lead to an origin.
    pub fn user(&self, wire: WireId) -> Option<&WireUse> {
        self.uses.get(&wire)
    }

    /// Returns the number of connections in use.
    pub fn busy(&self) -> usize {
        self.uses.len() - self.pool.len() - self.bells
    }

    /// Returns the number of idle connections.
    pub fn idle(&self) -> usize {
        self.pool.len()
    }

    pub fn give(&mut self, wire: WireId, user: WireUse) {
        self.uses.insert(wire, user);
    }

    pub fn close(&mut self, worker: &mut Engine, wire: WireId) {
        self.uses.remove(&wire);
        worker.net.close_wire(wire);
    }

    /// Puts a connection into the pool for another request. Closes it if the pool is full.
    pub fn release(
        &mut self,
        worker: &mut Engine,
        timers: &mut Timers,
        place: Place,
        wire: WireId,
    ) {
        let now_ms = worker.net.now_ms();
        if self.pool.is_empty() {
            timers.at(now_ms + POOL_MS, Timer::Pool);
        }
        match self.pool.put(now_ms, &place, wire) {
            None => self.give(wire, WireUse::Idle(place)),
            Some(surplus) => self.close(worker, surplus),
        }
    }

    /// Removes and returns an idle connection on which nothing was received since its last response. Otherwise such bytes, or the
    /// end of the connection, would be read as the next response. A connection that was returned within the same millisecond is not
    /// checked, which saves a system call on busy targets.
    pub fn take_idle(&mut self, worker: &mut Engine, place: &Place) -> Option<WireId> {
        let now_ms = worker.net.now_ms();
        while let Some((since_ms, wire)) = self.pool.take(now_ms, place) {
            if since_ms == now_ms || matches!(worker.net.recv_wire(wire, &mut [0]), Ok(None)) {
                return Some(wire);
            }
            self.close(worker, wire);
        }
        None
    }

    /// Closes an idle connection that ended, or on which the origin sent bytes without a request.
    pub fn end_idle(&mut self, worker: &mut Engine, wire: WireId) {
        if let Some(WireUse::Idle(place)) = self.uses.get(&wire) {
            self.pool.remove(place, &wire);
            self.close(worker, wire);
        }
    }

    /// Closes connections that were idle too long.
    pub fn expire(&mut self, worker: &mut Engine, timers: &mut Timers) {
        let now_ms = worker.net.now_ms();
        let mut expired = Vec::new();
        self.pool.expire(now_ms, &mut expired);
        for wire in expired {
            self.close(worker, wire);
        }
        if !self.pool.is_empty() {
            timers.at(now_ms + POOL_MS, Timer::Pool);
        }
    }

    /// Returns the addresses of a host, or starts a lookup.
    pub fn find_host(
        &mut self,
        worker: &mut Engine,
        host: &str,
        port: u16,
    ) -> Result<Found, UpstreamError> {
        let found = self.resolver.find(host, port, worker.net.now_ms());
        if let Some(bell) = self.resolver.take_bell() {
            match bell
                .try_clone()
                .and_then(|copy| worker.net.adopt_wire(copy))
            {
                Ok(wire) => {
                    self.give(wire, WireUse::Names);
                    self.bells += 1;
                }
                Err(error) => {
                    // Without the socket, no lookup could wake the loop. The next request tries again.
                    self.resolver.return_bell(bell);
                    if let Ok(Found::Later) = found {
                        let reason = format!("{host} cannot be looked up: {error}");
                        return Err(UpstreamError::Local(reason));
                    }
                }
            }
        }
        found
    }

    /// Returns the names whose lookups finished, after `wire` became readable.
    pub fn take_names(&mut self, worker: &mut Engine, wire: WireId) -> Vec<String> {
        let mut buffer = [0; 64];
        while let Ok(Some(1..)) = worker.net.recv_wire(wire, &mut buffer) {}
        self.resolver.answers(worker.net.now_ms())
    }

    /// Notes that no address of a host responds.
    pub fn note_failed_host(&mut self, host: &str) {
        self.resolver.failed(host);
    }

    /// Starts to connect to the first address of the target that does not refuse immediately.
    pub fn connect_any(
        &mut self,
        worker: &mut Engine,
        exchange: &mut UpstreamExchange,
        target: &Target,
        host: &str,
    ) -> Result<WireId, UpstreamError> {
        let tls = if target.is_tls {
            let name = server_name(&exchange.source, target, host)?;
            let offers_http2 = exchange.may_use_http2(target);
            let config = self.authority.config(target, offers_http2);
            let unusable = |error: LoadError| UpstreamError::Target(error.to_string());
            Some((name, config.map_err(unusable)?))
        } else {
            None
        };
        let mut failure = UpstreamError::Target(String::new());
        while let Some(address) = exchange.addresses.pop() {
            if !target.is_trusted && is_internal(address.ip()) {
                failure = UpstreamError::Target("Origin host/IP blocked".to_owned());
                continue;
            }
            let wire = match &tls {
                Some((name, config)) => {
                    worker
                        .net
                        .connect_tls(address, Arc::clone(config), name.clone())
                }
                None => worker.net.connect(address),
            };
            match wire {
                Ok(wire) => return Ok(wire),
                Err(error) => failure = UpstreamError::of_connect(&address.to_string(), &error),
            }
        }
        if let UpstreamError::Target(_) = failure {
            self.resolver.failed(host);
        }
        Err(failure)
    }

    /// Connects to a Unix socket. Returns `None` if the socket's backlog is full; the exchange then waits.
    pub fn connect_unix(
        &mut self,
        worker: &mut Engine,
        timers: &mut Timers,
        id: UpstreamExchangeId,
        path: &str,
    ) -> Result<Option<WireId>, UpstreamError> {
        if self.socket_queues.may_try(path, id) {
            match worker.net.connect_unix(Path::new(path)) {
                // The socket's backlog is full.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                connected => {
                    self.socket_queues.leave(path, id);
                    return connected
                        .map(Some)
                        .map_err(|error| UpstreamError::of_connect(path, &error));
                }
            }
        }
        if !self.socket_queues.wait(path, id) {
            let reason = format!("{path}: it is full, and {WAITING_MAX} requests wait for room");
            return Err(UpstreamError::Target(reason));
        }
        self.watch_rooms(worker, timers);
        Ok(None)
    }

    /// Starts the timer that retries Unix sockets with a full backlog.
    pub fn watch_rooms(&self, worker: &mut Engine, timers: &mut Timers) {
        if !self.socket_queues.0.is_empty() {
            timers.at(worker.net.now_ms() + ROOM_MS, Timer::Room);
        }
    }
}

/// Returns the name for which a target's certificate is checked.
fn server_name(
    source: &Source,
    target: &Target,
    host: &str,
) -> Result<ServerName<'static>, UpstreamError> {
    let name = if target.trust_connect_host {
        host.to_owned()
    } else {
        certified_name(source, target)
    };
    ServerName::try_from(name).map_err(|error| {
        let reason = format!("the host cannot be checked: {error}");
        let is_ours = target.trust_connect_host || own_name(source, target).is_some();
        if is_ours {
            UpstreamError::Target(reason)
        } else {
            UpstreamError::Request(502, reason)
        }
    })
}
