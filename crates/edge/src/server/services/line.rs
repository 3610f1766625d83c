//! How questions reach services: through the ports of the worker that publishes.

use std::path::{Path, PathBuf};

use fermata_config::LogLevel;
use fermata_engine::WireEvent;

use super::super::edge::Edge;
use super::super::meeting::Meeting;
use super::super::start::StartError;
use super::super::zmq::Port;
use super::Addresses;
use crate::settings::Settings;

/// Connections that may wait: one for each worker.
const BACKLOG: i32 = 128;
/// Until a worker that cannot be reached is tried again.
const RETRY_MS: u64 = 500;
/// Questions that wait for a line.
const OUTBOX_MAX: usize = 1_000;
/// How long one of another worker may wait here; that one knows better.
const RELAYED_MS: u64 = 60_000;

/// A question on its way.
#[derive(Debug)]
pub(super) struct Waiting {
    pub service: u16,
    pub due_ms: u64,
    pub parts: Vec<Vec<u8>>,
}

/// The way to the services.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The worker with the ports, where this is another; and the wire to it.
    path: Option<PathBuf>,
    wire: Option<u64>,
    retry_ms: u64,
    /// Which of a service's connections is next.
    turn: usize,
}

impl Line {
    pub fn through(path: PathBuf) -> Self {
        Self {
            path: Some(path),
            ..Self::default()
        }
    }
}

/// Opens the socket for workers that have not the ports.
pub(in super::super) fn bind(
    settings: &Settings,
    addresses: &Addresses,
) -> Result<Option<Meeting>, StartError> {
    if addresses.iter().next().is_none() || settings.number("workers") < 2 {
        return Ok(None);
    }
    Meeting::bind("workers", "services", BACKLOG).map(Some)
}

impl Edge {
    /// Sends questions that wait, as far as there is somebody to send them to.
    pub(in super::super) fn flush_services(&mut self) {
        if self.services.outbox.is_empty() {
            return;
        }
        let now_ms = self.worker.now_ms();
        let mut left = Vec::new();
        for waiting in std::mem::take(&mut self.services.outbox) {
            if waiting.due_ms <= now_ms {
                // Nobody waits for it any more.
                continue;
            }
            if !self.send_question(&waiting) {
                left.push(waiting);
            }
        }
        // The oldest would soon be late.
        let surplus = left.len().saturating_sub(OUTBOX_MAX);
        left.drain(..surplus);
        left.append(&mut self.services.outbox);
        self.services.outbox = left;
    }

    fn send_question(&mut self, waiting: &Waiting) -> bool {
        let Some(wire) = self.next_service(waiting.service) else {
            return false;
        };
        let number = waiting.service.to_be_bytes();
        let mut parts: Vec<&[u8]> = waiting.parts.iter().map(Vec::as_slice).collect();
        if self.services.line.path.is_some() {
            parts.insert(0, &number);
        }
        self.send_parts(wire, &parts)
    }

    /// Whom to ask: a connection of the service, each in its turn, or the worker that has them.
    fn next_service(&mut self, service: u16) -> Option<u64> {
        let now_ms = self.worker.now_ms();
        let line = &mut self.services.line;
        let Some(path) = &line.path else {
            let services = self.ports.open(Port::Service(service));
            line.turn = line.turn.wrapping_add(1);
            return services.get(line.turn % services.len().max(1)).copied();
        };
        if let Some(wire) = line.wire {
            return self.ports.is_open(wire).then_some(wire);
        }
        if line.retry_ms > now_ms {
            return None;
        }
        line.retry_ms = now_ms + RETRY_MS;
        let wire = self.worker.connect_unix(Path::new(path)).ok()?;
        line.wire = Some(wire);
        self.greet(wire, Port::Service(service));
        self.on_port(WireEvent {
            wire,
            ..WireEvent::default()
        });
        None
    }

    /// A connection of the ports has ended: it may be the line.
    pub(in super::super) fn on_line_gone(&mut self, wire: u64) {
        if self.services.line.wire == Some(wire) {
            self.services.line.wire = None;
        }
    }

    /// A service, or the worker in between, has answered.
    pub(in super::super) fn on_service_message(&mut self, parts: &[Vec<u8>]) {
        match parts {
            [empty, payload] if empty.is_empty() => self.on_service_reply(payload),
            // Another worker's, by the number of its wire.
            [wire, empty, payload] if empty.is_empty() => {
                if let Some(wire) = wire.first_chunk::<8>() {
                    self.send_parts(u64::from_be_bytes(*wire), &[b"", payload]);
                }
            }
            _ => self.worker.log_for_client(
                LogLevel::Warning,
                "the message of a service is dropped: it is no reply",
            ),
        }
    }

    /// Another worker asks.
    pub(in super::super) fn on_worker_question(&mut self, wire: u64, parts: Vec<Vec<u8>>) {
        let due_ms = self.worker.now_ms() + RELAYED_MS;
        let Ok([number, empty, payload]) = <[Vec<u8>; 3]>::try_from(parts) else {
            return;
        };
        if let Some(number) = number.first_chunk::<2>()
            && empty.is_empty()
        {
            self.services.outbox.push(Waiting {
                service: u16::from_be_bytes(*number),
                due_ms,
                parts: vec![wire.to_be_bytes().to_vec(), empty, payload],
            });
        }
    }
}
