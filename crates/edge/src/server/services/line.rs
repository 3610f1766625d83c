//! Delivery of questions to services, through the ports of the publishing worker.

use std::path::Path;

use fermata_config::LogLevel;
use fermata_edge_pushpin::line::{NOBODY, TOO_MANY, Waiting, envelope, read_envelope, refusal};

use super::{Answered, Backends};
use crate::publish::port::Port;
use crate::timers::Timer;
use fermata_engine::WireId;

/// Time in milliseconds until an unreachable worker is tried again.
const RETRY_MS: u64 = 500;

/// Error for a worker whose packet was dropped for lack of room.
const LOST: &str = "fermata-packet-lost";

impl Backends<'_> {
    /// Sends queued questions as far as their services are connected.
    pub fn flush(&mut self) {
        if self.services.outbox.is_empty() {
            return;
        }
        let now_ms = self.worker.net.now_ms();
        for (service, mut queue) in std::mem::take(&mut self.services.outbox) {
            while let Some(waiting) = queue.front() {
                // The timer ends questions of this worker.
                let is_late = waiting.id == 0 && waiting.due_ms <= now_ms;
                if !is_late && !self.send_question(service, waiting, now_ms) {
                    // Later questions in the queue are for the same service.
                    break;
                }
                if let Some(waiting) = queue.pop_front()
                    && is_late
                {
                    self.return_question(&waiting);
                }
            }
            // A reply may have caused another question.
            let newer = self.services.outbox.remove(&service);
            queue.extend(newer.into_iter().flatten());
            if !queue.is_empty() {
                self.services.outbox.insert(service, queue);
            }
        }
    }

    fn send_question(&mut self, service: u16, waiting: &Waiting, now_ms: u64) -> bool {
        let wires = self.service_wires(service);
        let left_ms = waiting.due_ms.saturating_sub(now_ms);
        let envelope = envelope(self.services.own_index, service, left_ms);
        let mut parts: Vec<&[u8]> = waiting.parts.iter().map(Vec::as_slice).collect();
        if self.services.line.path.is_some() {
            parts.insert(0, &envelope);
        } else if self.services.addresses.is_stream(service) {
            // A packet that opens a session contains the reply address, so it needs no reply envelope.
            parts.drain(..parts.len() - 1);
        }
        wires
            .into_iter()
            .any(|wire| self.ports.send(self.worker, wire, &parts))
    }

    /// Returns the connections of a service, rotated on each call, or the connection to the worker that has the service's
    /// connections.
    fn service_wires(&mut self, service: u16) -> Vec<WireId> {
        let now_ms = self.worker.net.now_ms();
        let port = if self.services.addresses.is_stream(service) {
            Port::Requests(service)
        } else {
            Port::Service(service)
        };
        let line = &mut self.services.line;
        let Some(path) = &line.path else {
            let mut wires = self.ports.open(port);
            line.turn = line.turn.wrapping_add(1);
            let turn = line.turn % wires.len().max(1);
            wires.rotate_left(turn);
            return wires;
        };
        if let Some(wire) = line.wire {
            return Vec::from_iter(self.ports.is_open(wire).then_some(wire));
        }
        if line.retry_ms > now_ms {
            return Vec::new();
        }
        line.retry_ms = now_ms + RETRY_MS;
        let Ok(wire) = self.worker.net.connect_unix(Path::new(path)) else {
            return Vec::new();
        };
        line.wire = Some(wire);
        self.ports
            .greet(self.worker, self.timers, wire, Port::Service(service));
        self.ports.push(self.worker, wire);
        Vec::new()
    }

    /// Handles a reply of a service or of the worker in between.
    pub fn on_service_message(&mut self, parts: &[Vec<u8>]) -> Option<Answered> {
        match parts {
            [empty, payload] if empty.is_empty() => return self.take_reply(payload),
            // A reply for another worker, which the number of its connection identifies.
            [wire, empty, payload] if empty.is_empty() => {
                // The number comes from the service, so check that it belongs to a worker's connection.
                let wire = wire.first_chunk::<8>().map(|it| u64::from_be_bytes(*it));
                if let Some(wire) = wire.and_then(WireId::from_raw)
                    && self.ports.is_at(wire, Port::Questions)
                {
                    self.ports.send(self.worker, wire, &[b"", payload]);
                }
            }
            _ => self.worker.net.log_for_client(
                LogLevel::Warning,
                "the message of a service is dropped: it is no reply",
            ),
        }
        None
    }

    /// Handles a question of another worker. Returns the reply if the service cannot be reached.
    pub fn on_worker_question(&mut self, wire: WireId, parts: Vec<Vec<u8>>) -> Option<Vec<u8>> {
        let [envelope, empty, payload] = <[Vec<u8>; 3]>::try_from(parts).ok()?;
        let (worker, service, left_ms) = read_envelope(&envelope)?;
        self.services.workers.insert(worker, wire);
        if !empty.is_empty() {
            let peer = empty;
            return match self.ports.named(Port::Sessions(service), &peer) {
                // A backend misses this packet only if it listens solely for session packets.
                None => {
                    let line = format!(
                        "zhttp: a packet for the backend {:?} is dropped: it has no connection for what belongs to sessions",
                        String::from_utf8_lossy(&peer)
                    );
                    self.worker.net.log_for_client(LogLevel::Debug, &line);
                    None
                }
                Some(it) if self.ports.send(self.worker, it, &[b"", &payload]) => None,
                // Without this packet, the sequence numbers of the session's later packets would be wrong.
                Some(_) => refusal(&payload, LOST),
            };
        }
        if self.services.is_blocked(service) {
            return refusal(&payload, TOO_MANY);
        }
        let due_ms = self.worker.net.now_ms().saturating_add(left_ms);
        self.timers.at(due_ms, Timer::Services);
        let queue = self.services.outbox.entry(service).or_default();
        queue.push_back(Waiting {
            id: 0,
            due_ms,
            parts: vec![wire.to_raw().to_be_bytes().to_vec(), empty, payload],
        });
        None
    }

    /// Handles a packet of a backend. The packet's prefix identifies the worker.
    pub fn on_response(&mut self, message: &[u8]) -> Option<Answered> {
        let space = message.iter().position(|&byte| byte == b' ');
        let (name, payload) = message.split_at(space.unwrap_or(0));
        let name = std::str::from_utf8(name).unwrap_or_default();
        let instance = self.services.addresses.instance();
        let worker = name
            .strip_prefix(instance)
            .and_then(|it| it.strip_prefix('.'));
        let worker = worker.and_then(|it| it.parse::<u16>().ok());
        let payload = payload.get(1..).unwrap_or_default();
        match worker {
            Some(worker) if worker == self.services.own_index => return self.take_reply(payload),
            Some(worker) => {
                // A worker that exited has no waiting request.
                if let Some(&wire) = self.services.workers.get(&worker) {
                    self.ports.send(self.worker, wire, &[b"", payload]);
                }
            }
            None => self.worker.net.log_for_client(
                LogLevel::Warning,
                "zhttp: a message is dropped: it does not begin with the name it is for",
            ),
        }
        None
    }

    /// Returns true if packets of a session can be sent to its backend: the backend is connected and its queue has room.
    pub fn has_room_to(&self, service: u16, peer: &[u8], bytes: usize) -> bool {
        let wire = match self.services.line.path {
            Some(_) => self.services.line.wire,
            None => self.ports.named(Port::Sessions(service), peer),
        };
        wire.is_some_and(|wire| self.ports.has_room(wire, bytes))
    }

    /// Sends a packet of a session to its backend. Returns false if the packet could not be queued.
    pub fn send_to_session(&mut self, service: u16, peer: &[u8], payload: &[u8]) -> bool {
        if self.services.line.path.is_none() {
            let wire = self.ports.named(Port::Sessions(service), peer);
            return wire.is_some_and(|wire| self.ports.send(self.worker, wire, &[b"", payload]));
        }
        let envelope = envelope(self.services.own_index, service, 0);
        let wire = self.services.line.wire;
        wire.is_some_and(|wire| {
            self.ports
                .send(self.worker, wire, &[&envelope, peer, payload])
        })
    }

    /// Notifies another worker that its question has timed out.
    fn return_question(&mut self, waiting: &Waiting) {
        if let [wire, _, payload] = &waiting.parts[..]
            && let Some(wire) = wire.first_chunk::<8>()
            && let Some(wire) = WireId::from_raw(u64::from_be_bytes(*wire))
            && let Some(reply) = refusal(payload, NOBODY)
        {
            self.ports.send(self.worker, wire, &[b"", &reply]);
        }
    }
}
