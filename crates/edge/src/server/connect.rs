//! Connections to origins: an idle connection, or a new one to an address of the target.

use crate::routes::{Origin, Target};
use crate::server::edge::Edge;
use crate::server::outbound::Outbound;
use crate::upstream::Failure;
use crate::upstream::connections::WireUse;
use crate::upstream::error::UpstreamError;
use crate::upstream::parts::Upstream;
use crate::upstream::place::own_name;
use crate::upstream::resolve::Found;
use crate::upstream::talk::{Talk, Wait};
use fermata_engine::WireId;

impl Edge {
    /// Continues the exchanges that waited for names.
    pub(super) fn on_names(&mut self, wire: WireId) {
        let names = self.upstream.connections.take_names(&mut self.worker, wire);
        let is_answered = |talk: &Talk| match &talk.waits {
            Some(Wait::Name(host)) => names.contains(host),
            _ => false,
        };
        for id in self.talks.find(is_answered) {
            self.with_talk(id, |turn, talk| turn.open(talk, true));
        }
    }

    /// Retries exchanges with Unix sockets that had a full backlog.
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
                    let talk = edge.talks.get_mut(id);
                    talk.is_some_and(|talk| talk.waits_at(&path))
                };
                if waits(self) {
                    self.with_talk(id, |turn, talk| turn.open(talk, true));
                    if waits(self)
                        && self.upstream.connections.socket_queues.first(&path) == Some(id)
                    {
                        break;
                    }
                }
                self.upstream.connections.socket_queues.leave(&path, id);
            }
        }
        self.upstream
            .connections
            .watch_rooms(&mut self.worker, &mut self.timers);
    }
}

impl Outbound<'_> {
    /// Opens or reuses a connection to the target.
    pub(super) fn open_target(
        &mut self,
        talk: &mut Talk,
        target: &Target,
        may_reuse: bool,
    ) -> Result<(), UpstreamError> {
        if let Origin::ZhttpReq(spec) = &target.origin {
            return self.open_zhttp(talk, target, spec);
        }
        if let Origin::Zhttp(spec) = &target.origin {
            return self.open_stream(talk, target, spec);
        }
        if talk.may_speak_http2(target) && may_reuse && self.join_carrier(talk, target)? {
            return Ok(());
        }
        // An exchange that waited retains its encoded request and its deadline.
        let waited = talk.waits.take();
        if matches!(waited, None | Some(Wait::Carrier(_))) {
            self.write_request(talk, target)?;
        }
        talk.is_connected = false;
        talk.can_read = false;
        talk.has_hung_up = false;
        talk.has_response = false;
        if may_reuse && self.take_idle(talk) {
            return Ok(());
        }
        talk.is_reused = false;
        if waited.is_none() {
            talk.due_ms = self.worker.net.now_ms() + self.policy.limits.connect_ms;
        }
        self.connect(talk, target)
    }

    /// Uses an idle connection. Returns false if the target has none.
    fn take_idle(&mut self, talk: &mut Talk) -> bool {
        let connections = &mut self.upstream.connections;
        let Some(wire) = connections.take_idle(self.worker, &talk.place()) else {
            return false;
        };
        self.upstream.end_opening(self.timers, self.worker, talk);
        self.upstream.give(wire, talk);
        talk.is_reused = true;
        self.on_connected(talk);
        true
    }

    /// Handles an established connection: the response time-out starts.
    pub(super) fn on_connected(&mut self, talk: &mut Talk) {
        talk.is_connected = true;
        talk.due_ms = self.worker.net.now_ms() + self.policy.limits.response_ms;
    }

    /// Starts to connect, or lets the exchange wait for a name or for room.
    fn connect(&mut self, talk: &mut Talk, target: &Target) -> Result<(), UpstreamError> {
        let (connections, worker) = (&mut self.upstream.connections, &mut *self.worker);
        let wire = match &target.origin {
            Origin::Host { host, port } | Origin::FastCgiHost { host, port } => {
                if talk.addresses.is_empty() {
                    match connections.find_host(worker, host, *port)? {
                        Found::Addresses(addresses) => talk.addresses = addresses,
                        Found::Later => {
                            talk.waits = Some(Wait::Name(host.clone()));
                            return Ok(());
                        }
                    }
                    talk.addresses.reverse();
                }
                connections.connect_any(worker, talk, target, host)?
            }
            Origin::Unix(path) | Origin::FastCgiUnix(path) => {
                let Some(wire) = connections.connect_unix(worker, self.timers, talk.id(), path)?
                else {
                    talk.waits = Some(Wait::Room);
                    return Ok(());
                };
                // A Unix socket is connected immediately.
                self.on_connected(talk);
                if talk.may_speak_http2(target) {
                    talk.wire = Some(wire);
                    return self.become_carrier(talk, target);
                }
                wire
            }
            Origin::Test | Origin::Files(_) | Origin::Zhttp(_) | Origin::ZhttpReq(_) => {
                let reason = format!("{} speaks no WebSocket", target.name);
                return Err(UpstreamError::Request(502, reason));
            }
        };
        self.upstream.give(wire, talk);
        Ok(())
    }

    /// Returns the reason why a connection failed.
    pub(super) fn why_unconnected(&mut self, talk: &mut Talk) -> (Failure, String) {
        let Some(wire) = talk.wire else {
            return (Failure::Connect, "no connection".to_owned());
        };
        match self.worker.net.recv_wire(wire, &mut [0]) {
            Err(error) => {
                let is_name = fermata_tls::is_about_name(&error) && is_named_by_client(talk);
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
    fn give(&mut self, wire: WireId, talk: &mut Talk) {
        self.connections.give(wire, WireUse::Talk(talk.id()));
        talk.wire = Some(wire);
    }
}

/// Returns true if the certificate is checked for the host that the client sent.
fn is_named_by_client(talk: &Talk) -> bool {
    talk.source.target().is_some_and(|target| {
        !target.trust_connect_host && own_name(&talk.source, target).is_none()
    })
}
