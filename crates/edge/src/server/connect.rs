//! Connections to origins: one that waits for another request, or a new one to an address of the target.

use std::sync::Arc;

use fermata_tls::ServerName;

use crate::client::source::Source;
use crate::routes::{Origin, Target};
use crate::server::edge::Edge;
use crate::upstream::Failure;
use crate::upstream::internal::is_internal;
use crate::upstream::place::{certified_name, own_name};
use crate::upstream::resolve::Found;
use crate::upstream::talk::{Talk, Wait, WireUse};
use crate::upstream::unopened::Unopened;

impl Edge {
    /// Gives the conversation a connection to its target.
    pub(super) fn open_target(
        &mut self,
        talk: &mut Talk,
        target: &Target,
        may_reuse: bool,
    ) -> Result<(), Unopened> {
        if let Origin::ZhttpReq(spec) = &target.origin {
            return self.open_zhttp(talk, target, spec);
        }
        if let Origin::Zhttp(spec) = &target.origin {
            return self.open_stream(talk, target, spec);
        }
        let may_speak_http2 = self.may_speak_http2(talk, target);
        if may_speak_http2 && may_reuse && self.join_carrier(talk, target)? {
            return Ok(());
        }
        // Who has waited goes on with the request as it is written, and with what is left of its time.
        let waited = talk.waits.take();
        if matches!(waited, None | Some(Wait::Carrier(_))) {
            self.write_request(talk, target)?;
        }
        talk.is_connected = false;
        talk.can_read = false;
        talk.has_hung_up = false;
        talk.has_response = false;
        let now_ms = self.worker.now_ms();
        let due_ms = match waited {
            Some(_) => talk.due_ms,
            None => now_ms + self.limits.connect_ms,
        };
        if may_reuse && let Some(wire) = self.take_idle(talk) {
            self.end_opening(talk);
            talk.wire = wire;
            talk.is_reused = true;
            talk.is_connected = true;
            talk.due_ms = now_ms + self.limits.response_ms;
            return Ok(());
        }
        talk.is_reused = false;
        talk.due_ms = due_ms;
        talk.wire = match &target.origin {
            Origin::Host { host, port } | Origin::FastCgiHost { host, port } => {
                if talk.addresses.is_empty() {
                    match self.find_host(host, *port)? {
                        Found::Addresses(addresses) => talk.addresses = addresses,
                        Found::Later => {
                            talk.waits = Some(Wait::Name(host.clone()));
                            return Ok(());
                        }
                    }
                    talk.addresses.reverse();
                }
                self.connect_any(talk, target, host)?
            }
            Origin::Unix(path) | Origin::FastCgiUnix(path) => {
                let Some(wire) = self.connect_unix(talk, path)? else {
                    talk.waits = Some(Wait::Room);
                    return Ok(());
                };
                // A connection over a Unix socket stands at once.
                talk.is_connected = true;
                talk.due_ms = now_ms + self.limits.response_ms;
                if may_speak_http2 {
                    talk.wire = wire;
                    return self.become_carrier(talk, target);
                }
                wire
            }
            Origin::Test | Origin::Files(_) | Origin::Zhttp(_) | Origin::ZhttpReq(_) => {
                let reason = format!("{} speaks no WebSocket", target.name);
                return Err(Unopened::Request(502, reason));
            }
        };
        Ok(())
    }

    /// The addresses of a host, if they are known.
    fn find_host(&mut self, host: &str, port: u16) -> Result<Found, Unopened> {
        let now_ms = self.worker.now_ms();
        let found = self.resolver.find(host, port, now_ms);
        if let Some(bell) = self.resolver.take_bell() {
            let copy = bell.try_clone();
            match copy.and_then(|copy| self.worker.adopt_wire(copy)) {
                Ok(wire) => {
                    self.wires.insert(wire, WireUse::Names);
                    self.bells += 1;
                }
                Err(error) => {
                    // Nobody would be told of names: who asks next tries again.
                    self.resolver.return_bell(bell);
                    if let Ok(Found::Later) = found {
                        let reason = format!("{host} cannot be looked up: {error}");
                        return Err(Unopened::Own(reason));
                    }
                }
            }
        }
        found
    }

    /// Names have been looked up: who waits for them goes on.
    pub(super) fn on_names(&mut self, wire: u64) {
        let mut buffer = [0; 64];
        while let Ok(Some(1..)) = self.worker.recv_wire(wire, &mut buffer) {}
        let now_ms = self.worker.now_ms();
        let names = self.resolver.answers(now_ms);
        let is_answered = |talk: &Talk| match &talk.waits {
            Some(Wait::Name(host)) => names.contains(host),
            _ => false,
        };
        let waiting: Vec<u64> = self
            .talks
            .iter()
            .filter(|(_, talk)| is_answered(talk))
            .map(|(&id, _)| id)
            .collect();
        for id in waiting {
            self.with_talk(id, |edge, talk| edge.open(talk, true));
        }
    }

    /// A connection that waits for another request, and on which the origin has said nothing since: what it may have said,
    /// or that it has closed, would be taken for the answer.
    fn take_idle(&mut self, talk: &Talk) -> Option<u64> {
        let (now_ms, place) = (self.worker.now_ms(), talk.place());
        while let Some(wire) = self.pool.take(now_ms, &place) {
            if let Ok(None) = self.worker.recv_wire(wire, &mut [0]) {
                return Some(wire);
            }
            self.wires.remove(&wire);
            self.worker.close_wire(wire);
        }
        None
    }

    /// Begins to connect to the first address that does not refuse at once.
    fn connect_any(
        &mut self,
        talk: &mut Talk,
        target: &Target,
        host: &str,
    ) -> Result<u64, Unopened> {
        let name = match target.is_tls {
            true => Some(server_name(&talk.source, target, host)?),
            false => None,
        };
        let offers_http2 = self.may_speak_http2(talk, target);
        let config = match target.is_tls {
            true => {
                let config = self.authority.config(target, offers_http2);
                Some(config.map_err(Unopened::Target)?)
            }
            false => None,
        };
        let mut failure = Unopened::Target(String::new());
        while let Some(address) = talk.addresses.pop() {
            if !target.is_trusted && is_internal(address.ip()) {
                failure = Unopened::Target("Origin host/IP blocked".to_owned());
                continue;
            }
            let wire = match (&name, &config) {
                (Some(name), Some(config)) => {
                    let config = Arc::clone(config);
                    self.worker.connect_tls(address, config, name.clone())
                }
                _ => self.worker.connect(address),
            };
            match wire {
                Ok(wire) => return Ok(wire),
                Err(error) => failure = Unopened::of_connect(&address.to_string(), &error),
            }
        }
        if let Unopened::Target(_) = failure {
            self.resolver.failed(host);
        }
        Err(failure)
    }

    /// Why a connection does not stand.
    pub(super) fn why_unconnected(&mut self, talk: &mut Talk) -> (Failure, String) {
        let mut byte = [0];
        match self.worker.recv_wire(talk.wire, &mut byte) {
            Err(error) => {
                let is_name = fermata_tls::is_about_name(&error) && is_named_by_client(talk);
                let failure = match is_name {
                    true => Failure::Name,
                    false => Failure::Connect,
                };
                (failure, format!("no connection: {error}"))
            }
            Ok(_) => (Failure::Connect, "no connection".to_owned()),
        }
    }
}

/// Whether a target's certificate has to be for whatever the client asks for.
fn is_named_by_client(talk: &Talk) -> bool {
    talk.source.target().is_some_and(|target| {
        !target.trust_connect_host && own_name(&talk.source, target).is_none()
    })
}

/// What a target's certificate is checked against.
fn server_name(
    source: &Source,
    target: &Target,
    host: &str,
) -> Result<ServerName<'static>, Unopened> {
    let name = match target.trust_connect_host {
        true => host.to_owned(),
        false => certified_name(source, target),
    };
    ServerName::try_from(name).map_err(|error| {
        let reason = format!("the host cannot be checked: {error}");
        let is_ours = target.trust_connect_host || own_name(source, target).is_some();
        match is_ours {
            true => Unopened::Target(reason),
            false => Unopened::Request(502, reason),
        }
    })
}
