//! How questions reach services: through the ports of the worker that publishes.

use std::path::Path;

use fermata_config::LogLevel;
use fermata_edge_pushpin::line::{NOBODY, TOO_MANY, Waiting, envelope, read_envelope, refusal};
use fermata_engine::WireEvent;

use crate::client::source::Engine;
use crate::publish::parts::Publishing;
use crate::publish::port::Port;
use crate::server::edge::Edge;
use crate::timers::Timer;

/// Until a worker that cannot be reached is tried again.
const RETRY_MS: u64 = 500;

/// What it is told of a packet for which there was no room.
const LOST: &str = "fermata-packet-lost";

impl Edge {
    /// Sends questions that wait, as far as there is somebody to send them to.
    pub(in crate::server) fn flush_services(&mut self) {
        if self.pushpin.services.outbox.is_empty() {
            return;
        }
        let now_ms = self.worker.net.now_ms();
        for (service, mut queue) in std::mem::take(&mut self.pushpin.services.outbox) {
            while let Some(waiting) = queue.front() {
                // The timer ends the wait for one of this worker's.
                let is_late = waiting.id == 0 && waiting.due_ms <= now_ms;
                if !is_late && !self.send_question(service, waiting, now_ms) {
                    // Those behind it go the same way.
                    break;
                }
                if let Some(waiting) = queue.pop_front()
                    && is_late
                {
                    self.publishing.return_question(&mut self.worker, &waiting);
                }
            }
            // An answer may have been a reason to ask once more.
            let newer = self.pushpin.services.outbox.remove(&service);
            queue.extend(newer.into_iter().flatten());
            if !queue.is_empty() {
                self.pushpin.services.outbox.insert(service, queue);
            }
        }
    }

    fn send_question(&mut self, service: u16, waiting: &Waiting, now_ms: u64) -> bool {
        let wires = self.service_wires(service);
        let left_ms = waiting.due_ms.saturating_sub(now_ms);
        let envelope = envelope(self.pushpin.services.own_index, service, left_ms);
        let mut parts: Vec<&[u8]> = waiting.parts.iter().map(Vec::as_slice).collect();
        if self.pushpin.services.line.path.is_some() {
            parts.insert(0, &envelope);
        } else if self.pushpin.services.addresses.is_stream(service) {
            // What opens a session says itself who is to be answered.
            parts.drain(..parts.len() - 1);
        }
        wires
            .into_iter()
            .any(|wire| self.publishing.send_parts(&mut self.worker, wire, &parts))
    }

    /// Where to send: the connections of the service, another one first each time, or the worker that has them.
    fn service_wires(&mut self, service: u16) -> Vec<u64> {
        let now_ms = self.worker.net.now_ms();
        let port = match self.pushpin.services.addresses.is_stream(service) {
            true => Port::Requests(service),
            false => Port::Service(service),
        };
        let line = &mut self.pushpin.services.line;
        let Some(path) = &line.path else {
            let mut wires = self.publishing.ports.open(port);
            line.turn = line.turn.wrapping_add(1);
            let turn = line.turn % wires.len().max(1);
            wires.rotate_left(turn);
            return wires;
        };
        if let Some(wire) = line.wire {
            return Vec::from_iter(self.publishing.ports.is_open(wire).then_some(wire));
        }
        if line.retry_ms > now_ms {
            return Vec::new();
        }
        line.retry_ms = now_ms + RETRY_MS;
        let Ok(wire) = self.worker.net.connect_unix(Path::new(path)) else {
            return Vec::new();
        };
        line.wire = Some(wire);
        let (ports, worker) = (&mut self.publishing.ports, &mut self.worker);
        ports.greet(worker, &mut self.timers, wire, Port::Service(service));
        self.on_port(WireEvent {
            wire,
            ..WireEvent::default()
        });
        Vec::new()
    }

    /// A connection of the ports has ended: it may be the line.
    pub(in crate::server) fn on_line_gone(&mut self, wire: u64) {
        if self.pushpin.services.line.wire == Some(wire) {
            self.pushpin.services.line.wire = None;
            self.on_sessions_lost();
        }
    }

    /// A service, or the worker in between, has answered.
    pub(in crate::server) fn on_service_message(&mut self, parts: &[Vec<u8>]) {
        match parts {
            [empty, payload] if empty.is_empty() => self.on_service_reply(payload),
            // Another worker's, by the number of its wire.
            [wire, empty, payload] if empty.is_empty() => {
                // A service may say any number, so it is looked whether that is a worker's.
                if let Some(wire) = wire.first_chunk::<8>().map(|it| u64::from_be_bytes(*it))
                    && self.publishing.ports.is_at(wire, Port::Questions)
                {
                    self.publishing
                        .send_parts(&mut self.worker, wire, &[b"", payload]);
                }
            }
            _ => self.worker.net.log_for_client(
                LogLevel::Warning,
                "the message of a service is dropped: it is no reply",
            ),
        }
    }

    /// Another worker asks. Returns what it is told where the service cannot be asked.
    pub(in crate::server) fn on_worker_question(
        &mut self,
        wire: u64,
        parts: Vec<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let [envelope, empty, payload] = <[Vec<u8>; 3]>::try_from(parts).ok()?;
        let (worker, service, left_ms) = read_envelope(&envelope)?;
        self.pushpin.services.workers.insert(worker, wire);
        if !empty.is_empty() {
            let peer = empty;
            return match self.publishing.ports.named(Port::Sessions(service), &peer) {
                // A backend that never listens does not mind; another one waits for it.
                None => {
                    let line = format!(
                        "zhttp: a packet for the backend {:?} is dropped: it has no connection for what belongs to sessions",
                        String::from_utf8_lossy(&peer)
                    );
                    self.worker.net.log_for_client(LogLevel::Debug, &line);
                    None
                }
                Some(it)
                    if self
                        .publishing
                        .send_parts(&mut self.worker, it, &[b"", &payload]) =>
                {
                    None
                }
                // Those behind it would have wrong numbers.
                Some(_) => refusal(&payload, LOST),
            };
        }
        if self.pushpin.services.is_blocked(service) {
            return refusal(&payload, TOO_MANY);
        }
        let due_ms = self.worker.net.now_ms().saturating_add(left_ms);
        self.timers.at(due_ms, Timer::Services);
        let queue = self.pushpin.services.outbox.entry(service).or_default();
        queue.push_back(Waiting {
            id: 0,
            due_ms,
            parts: vec![wire.to_be_bytes().to_vec(), empty, payload],
        });
        None
    }

    /// What a backend says to one of the workers, whose name is in front.
    pub(in crate::server) fn on_response(&mut self, message: &[u8]) {
        let space = message.iter().position(|&byte| byte == b' ');
        let (name, payload) = message.split_at(space.unwrap_or(0));
        let name = std::str::from_utf8(name).unwrap_or_default();
        let instance = self.pushpin.services.addresses.instance();
        let worker = name
            .strip_prefix(instance)
            .and_then(|it| it.strip_prefix('.'));
        let worker = worker.and_then(|it| it.parse::<u16>().ok());
        let payload = payload.get(1..).unwrap_or_default();
        match worker {
            Some(worker) if worker == self.pushpin.services.own_index => {
                self.on_service_reply(payload)
            }
            Some(worker) => {
                // One that has ended has nobody who waits.
                if let Some(&wire) = self.pushpin.services.workers.get(&worker) {
                    self.publishing
                        .send_parts(&mut self.worker, wire, &[b"", payload]);
                }
            }
            None => self.worker.net.log_for_client(
                LogLevel::Warning,
                "zhttp: a message is dropped: it does not begin with the name it is for",
            ),
        }
    }

    /// Whether what belongs to a session may be sent to the backend that has it: it is there, and takes what it gets.
    pub(in crate::server) fn has_room_to(&self, service: u16, peer: &[u8], bytes: usize) -> bool {
        let wire = match self.pushpin.services.line.path {
            Some(_) => self.pushpin.services.line.wire,
            None => self.publishing.ports.named(Port::Sessions(service), peer),
        };
        wire.is_some_and(|wire| self.publishing.ports.has_room(wire, bytes))
    }

    /// Sends what belongs to a session to the backend that has it. False: it did not go.
    pub(in crate::server) fn send_to_session(
        &mut self,
        service: u16,
        peer: &[u8],
        payload: &[u8],
    ) -> bool {
        if self.pushpin.services.line.path.is_none() {
            let wire = self.publishing.ports.named(Port::Sessions(service), peer);
            return wire.is_some_and(|wire| {
                self.publishing
                    .send_parts(&mut self.worker, wire, &[b"", payload])
            });
        }
        let envelope = envelope(self.pushpin.services.own_index, service, 0);
        let wire = self.pushpin.services.line.wire;
        wire.is_some_and(|wire| {
            self.publishing
                .send_parts(&mut self.worker, wire, &[&envelope, peer, payload])
        })
    }
}

impl Publishing {
    /// No service took another worker's question in time.
    fn return_question(&mut self, worker: &mut Engine, waiting: &Waiting) {
        if let [wire, _, payload] = &waiting.parts[..]
            && let Some(wire) = wire.first_chunk::<8>()
            && let Some(reply) = refusal(payload, NOBODY)
        {
            self.send_parts(worker, u64::from_be_bytes(*wire), &[b"", &reply]);
        }
    }
}
