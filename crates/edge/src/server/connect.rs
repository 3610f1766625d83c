//! Connections to origins: an idle connection, or a new one to an address of the target.

use crate::routes::{Origin, Target};
use crate::server::edge::Edge;
use crate::server::outbound::Outbound;
use crate::upstream::Failure;
use crate::upstream::connections::WireUse;
use crate::upstream::error::UpstreamError;
use crate::upstream::exchange::{UpstreamExchange, Wait};
use crate::upstream::parts::Upstream;
use crate::upstream::place::own_name;
use crate::upstream::resolve::Found;
use fermata_engine::WireId;

impl Edge {
    /// Continues the exchanges whose host names were resolved.
    pub(super) fn on_names(&mut self, wire: WireId) {
        let names = self.upstream.connections.take_names(&mut self.worker, wire);
        let is_answered = |exchange: &UpstreamExchange| match &exchange.waits {
            Some(Wait::Name(host)) => names.contains(host),
            _ => false,
        };
        for id in self.exchanges.find(is_answered) {
            self.with_exchange(id, |turn, exchange| turn.open(exchange, true));
        }
    }

    /// Connects the exchanges that wait for Unix sockets with a full backlog, in the order of their arrival. Stops at the first
    /// exchange for which a socket's backlog is still full.
    pub(super) fn on_room(&mut self) {
        let paths: Vec<String> = self
            .upstream
            .connections
            .socket_queues
            .0
            .keys()
            .cloned()
            .collect();
        for path in paths {
            while let Some(id) = self.upstream.connections.socket_queues.first(&path) {
                let waits = |edge: &mut Self| {
                    let exchange = edge.exchanges.get_mut(id);
                    exchange.is_some_and(|exchange| exchange.waits_at(&path))
                };
                if waits(self) {
                    self.with_exchange(id, |turn, exchange| turn.open(exchange, true));
                    // The exchange waits again at the front of the queue: the backlog is still full.
                    if waits(self)
                        && self.upstream.connections.socket_queues.first(&path) == Some(id)
                    {
                        break;
                    }
                }
                // The exchange has connected or failed.
                self.upstream.connections.socket_queues.leave(&path, id);
            }
        }
        self.upstream
            .connections
            .watch_rooms(&mut self.worker, &mut self.timers);
    }
}

impl Outbound<'_> {
    /// Uses a shared or idle connection to the target, or opens a new one.
    pub(super) fn open_target(
        &mut self,
        exchange: &mut UpstreamExchange,
        target: &Target,
        may_reuse: bool,
    ) -> Result<(), UpstreamError> {
        if let Origin::ZhttpReq(spec) = &target.origin {
            return self.open_zhttp(exchange, target, spec);
        }
        if let Origin::Zhttp(spec) = &target.origin {
            return self.open_stream(exchange, target, spec);
        }
        if exchange.may_use_http2(target) && may_reuse && self.join_carrier(exchange, target)? {
            return Ok(());
        }
        // An exchange that waited for a name or for room has encoded its request. After a wait for an HTTP/2 connection, the
        // request is encoded here. The deadline continues in all three cases.
        let waited = exchange.waits.take();
        if matches!(waited, None | Some(Wait::Carrier(_))) {
            self.write_request(exchange, target)?;
        }
        exchange.is_connected = false;
        exchange.can_read = false;
        exchange.has_hung_up = false;
        exchange.has_response = false;
        if may_reuse && self.take_idle(exchange) {
            return Ok(());
        }
        exchange.is_reused = false;
        if waited.is_none() {
            exchange.due_ms = self.worker.net.now_ms() + self.policy.limits.connect_ms;
        }
        self.connect(exchange, target)
    }

    /// Uses an idle connection. Returns false if the target has none.
    fn take_idle(&mut self, exchange: &mut UpstreamExchange) -> bool {
        let connections = &mut self.upstream.connections;
        let Some(wire) = connections.take_idle(self.worker, &exchange.place()) else {
            return false;
        };
        self.upstream
            .end_opening(self.timers, self.worker, exchange);
        self.upstream.give(wire, exchange);
        exchange.is_reused = true;
        self.on_connected(exchange);
        true
    }

    /// Handles an established connection: the response time-out starts.
    pub(super) fn on_connected(&mut self, exchange: &mut UpstreamExchange) {
        exchange.is_connected = true;
        exchange.due_ms = self.worker.net.now_ms() + self.policy.limits.response_ms;
    }

    /// Starts to connect. The exchange waits if the host name is not resolved, or the backlog of the Unix socket is full.
    fn connect(
        &mut self,
        exchange: &mut UpstreamExchange,
        target: &Target,
    ) -> Result<(), UpstreamError> {
        let (connections, worker) = (&mut self.upstream.connections, &mut *self.worker);
        let wire = match &target.origin {
            Origin::Host { host, port } | Origin::FastCgiHost { host, port } => {
                if exchange.addresses.is_empty() {
                    match connections.find_host(worker, host, *port)? {
                        Found::Addresses(addresses) => exchange.addresses = addresses,
                        Found::Later => {
                            exchange.waits = Some(Wait::Name(host.clone()));
                            return Ok(());
                        }
                    }
                    // `connect_any` removes addresses from the end.
                    exchange.addresses.reverse();
                }
                connections.connect_any(worker, exchange, target, host)?
            }
            Origin::Unix(path) | Origin::FastCgiUnix(path) => {
                let Some(wire) =
                    connections.connect_unix(worker, self.timers, exchange.id(), path)?
                else {
                    exchange.waits = Some(Wait::Room);
                    return Ok(());
                };
                // A Unix socket is connected immediately.
                self.on_connected(exchange);
                if exchange.may_use_http2(target) {
                    exchange.wire = Some(wire);
                    return self.become_carrier(exchange, target);
                }
                wire
            }
            Origin::Test | Origin::Files(_) | Origin::Zhttp(_) | Origin::ZhttpReq(_) => {
                let reason = format!("{} does not support WebSocket", target.name);
                return Err(UpstreamError::Request(502, reason));
            }
        };
        self.upstream.give(wire, exchange);
        Ok(())
    }

    /// Returns the reason why a connection failed.
    pub(super) fn why_unconnected(&mut self, exchange: &mut UpstreamExchange) -> (Failure, String) {
        let Some(wire) = exchange.wire else {
            return (Failure::Connect, "no connection".to_owned());
        };
        // A read returns the error of a failed connect or TLS handshake.
        match self.worker.net.recv_wire(wire, &mut [0]) {
            Err(error) => {
                let is_name = fermata_tls::is_about_name(&error) && is_named_by_client(exchange);
                let failure = if is_name {
                    Failure::Name
                } else {
                    Failure::Connect
                };
                (failure, format!("no connection: {error}"))
            }
            Ok(_) => (Failure::Connect, "no connection".to_owned()),
        }
    }
}

impl Upstream {
    fn give(&mut self, wire: WireId, exchange: &mut UpstreamExchange) {
        self.connections
            .give(wire, WireUse::UpstreamExchange(exchange.id()));
        exchange.wire = Some(wire);
    }
}

/// Returns true if the certificate is checked for the host that the client sent.
fn is_named_by_client(exchange: &UpstreamExchange) -> bool {
    exchange.source.target().is_some_and(|target| {
        !target.trust_connect_host && own_name(&exchange.source, target).is_none()
    })
}
