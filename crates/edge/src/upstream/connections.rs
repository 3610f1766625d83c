//! The connections of a worker to origins: whose each is, those that wait for another request, and how new ones are opened.

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
use crate::upstream::id::TalkId;
use crate::upstream::internal::is_internal;
use crate::upstream::place::{Place, certified_name, own_name};
use crate::upstream::resolve::{Found, Resolver};
use crate::upstream::socket_queues::{SocketQueues, WAITING_MAX};
use crate::upstream::talk::Talk;
use crate::upstream::{Limits, Pool};

/// How often idle connections are looked through.
const POOL_MS: u64 = 5_000;

/// How soon a Unix socket that was full is tried again.
const ROOM_MS: u64 = 10;

/// The owner of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WireUse {
    Talk(TalkId),
    Idle(Place),
    /// It carries the requests of many.
    Carrier,
    /// The WebSocket of a SockJS session.
    Session(u64),
    /// It tells that names have been looked up.
    Names,
}

/// All connections.
pub(crate) struct Connections {
    uses: Numbered<WireId, WireUse>,
    pool: Pool<Place, WireId>,
    resolver: Resolver,
    /// Connections of [`WireUse::Names`].
    bells: usize,
    /// Conversations that wait for room at Unix sockets.
    pub socket_queues: SocketQueues,
    /// How origins are spoken to in TLS.
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

    /// The owner of a connection; `None`: it is none of these.
    pub fn user(&self, wire: WireId) -> Option<&WireUse> {
        self.uses.get(&wire)
    }

    /// Connections that are in use.
    pub fn busy(&self) -> usize {
        self.uses.len() - self.pool.len() - self.bells
    }

    /// Connections that wait for another request.
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

    /// A connection may serve another request.
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

    /// A connection that waits for another request, and on which the origin has said nothing since: what it may have said,
    /// or that it has closed, would be taken for the answer. One that was read empty in this millisecond is not looked at
    /// again: a busy target has no other ones.
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

    /// An idle connection has ended, or its origin has said something unasked.
    pub fn end_idle(&mut self, worker: &mut Engine, wire: WireId) {
        if let Some(WireUse::Idle(place)) = self.uses.get(&wire) {
            self.pool.remove(place, &wire);
            self.close(worker, wire);
        }
    }

    /// Closes the connections that have waited too long.
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

    /// The addresses of a host, if they are known.
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
                    // Nothing would wake the loop for names: the next request tries again.
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

    /// The names that have been looked up, of which `wire` tells.
    pub fn take_names(&mut self, worker: &mut Engine, wire: WireId) -> Vec<String> {
        let mut buffer = [0; 64];
        while let Ok(Some(1..)) = worker.net.recv_wire(wire, &mut buffer) {}
        self.resolver.answers(worker.net.now_ms())
    }

    /// None of a host's addresses is of use.
    pub fn note_failed_host(&mut self, host: &str) {
        self.resolver.failed(host);
    }

    /// Begins to connect to the first address of a conversation's target that does not refuse at once.
    pub fn connect_any(
        &mut self,
        worker: &mut Engine,
        talk: &mut Talk,
        target: &Target,
        host: &str,
    ) -> Result<WireId, UpstreamError> {
        let tls = match target.is_tls {
            true => {
                let name = server_name(&talk.source, target, host)?;
                let offers_http2 = talk.may_speak_http2(target);
                let config = self.authority.config(target, offers_http2);
                let unusable = |error: LoadError| UpstreamError::Target(error.to_string());
                Some((name, config.map_err(unusable)?))
            }
            false => None,
        };
        let mut failure = UpstreamError::Target(String::new());
        while let Some(address) = talk.addresses.pop() {
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

    /// A connection to a Unix socket; `None`: it has to wait for room.
    pub fn connect_unix(
        &mut self,
        worker: &mut Engine,
        timers: &mut Timers,
        id: TalkId,
        path: &str,
    ) -> Result<Option<WireId>, UpstreamError> {
        if self.socket_queues.may_try(path, id) {
            match worker.net.connect_unix(Path::new(path)) {
                // Its program has enough to do for now.
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

    /// Unix sockets that are full are tried again soon.
    pub fn watch_rooms(&self, worker: &mut Engine, timers: &mut Timers) {
        if !self.socket_queues.0.is_empty() {
            timers.at(worker.net.now_ms() + ROOM_MS, Timer::Room);
        }
    }
}

/// What a target's certificate is checked against.
fn server_name(
    source: &Source,
    target: &Target,
    host: &str,
) -> Result<ServerName<'static>, UpstreamError> {
    let name = match target.trust_connect_host {
        true => host.to_owned(),
        false => certified_name(source, target),
    };
    ServerName::try_from(name).map_err(|error| {
        let reason = format!("the host cannot be checked: {error}");
        let is_ours = target.trust_connect_host || own_name(source, target).is_some();
        match is_ours {
            true => UpstreamError::Target(reason),
            false => UpstreamError::Request(502, reason),
        }
    })
}
