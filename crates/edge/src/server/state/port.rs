//! How questions reach the service: through the port of the worker that publishes.

use std::path::{Path, PathBuf};

use fermata_config::LogLevel;
use fermata_engine::WireEvent;
use fermata_io::net;

use super::super::edge::Edge;
use super::super::start::StartError;
use super::super::stats::Meeting;
use super::super::zmq::Port;
use crate::settings::Settings;

/// Connections that may wait: one for each worker.
const BACKLOG: i32 = 128;
/// Nobody but this user may ask.
const FILE_MODE: u32 = 0o600;
/// Until a worker that cannot be reached is tried again.
const RETRY_MS: u64 = 500;
/// Questions that wait for a line.
const OUTBOX_MAX: usize = 1_000;

/// The way to the service.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The worker with the port, where this is another; and the wire to it.
    path: Option<PathBuf>,
    wire: Option<u64>,
    retry_ms: u64,
    /// Which service is next.
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

/// Opens the socket for workers that have not the port.
pub(in super::super) fn bind(settings: &Settings) -> Result<Option<Meeting>, StartError> {
    if settings.text("zmq_state").is_empty() || settings.number("workers") < 2 {
        return Ok(None);
    }
    let name = format!(
        "fermata-edge-{}-{:x}.state",
        std::process::id(),
        fermata_io::random::u64()
    );
    let path = std::env::temp_dir().join(name);
    match net::bind_unix(&path, BACKLOG, FILE_MODE) {
        Ok(listener) => Ok(Some(Meeting { path, listener })),
        Err(error) => Err(StartError::Setting(format!(
            "zmq_state: cannot make {} for the workers: {error}; set TMPDIR to a folder that can be written",
            path.display()
        ))),
    }
}

impl Edge {
    /// Sends questions that wait, as far as there is somebody to send them to.
    pub(in super::super) fn flush_state(&mut self) {
        let Some(state) = &mut self.state else {
            return;
        };
        let outbox = std::mem::take(&mut state.outbox);
        if outbox.is_empty() {
            return;
        }
        let now_ms = self.worker.now_ms();
        let mut left = Vec::new();
        for (due_ms, parts) in outbox {
            if due_ms <= now_ms {
                // Nobody waits for it any more.
                continue;
            }
            let is_sent = match self.next_service() {
                Some(wire) => {
                    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                    self.send_parts(wire, &parts)
                }
                None => false,
            };
            if !is_sent {
                left.push((due_ms, parts));
            }
        }
        if let Some(state) = &mut self.state {
            // The oldest would soon be late.
            let surplus = left.len().saturating_sub(OUTBOX_MAX);
            left.drain(..surplus);
            left.append(&mut state.outbox);
            state.outbox = left;
        }
    }

    /// Whom to ask: a service, each in its turn, or the worker that has them.
    fn next_service(&mut self) -> Option<u64> {
        let now_ms = self.worker.now_ms();
        let line = &mut self.state.as_mut()?.line;
        let Some(path) = &line.path else {
            let services = self.ports.open(Port::State);
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
        self.greet(wire, Port::State);
        self.on_port(WireEvent {
            wire,
            ..WireEvent::default()
        });
        None
    }

    /// A connection of the ports has ended: it may be the line.
    pub(in super::super) fn on_line_gone(&mut self, wire: u64) {
        if let Some(state) = &mut self.state
            && state.line.wire == Some(wire)
        {
            state.line.wire = None;
        }
    }

    /// A service, or the worker in between, has answered.
    pub(in super::super) fn on_state_message(&mut self, parts: &[Vec<u8>]) {
        match parts {
            [empty, payload] if empty.is_empty() => self.on_state_reply(&payload.clone()),
            // Another worker's, by the number of its wire.
            [wire, empty, payload] if empty.is_empty() => {
                if let Some(wire) = wire.first_chunk::<8>() {
                    self.send_parts(u64::from_be_bytes(*wire), &[b"", payload]);
                }
            }
            _ => self.worker.log_for_client(
                LogLevel::Warning,
                "zmq_state: a message is dropped: it is no reply",
            ),
        }
    }

    /// Another worker asks.
    pub(in super::super) fn on_worker_question(&mut self, wire: u64, parts: &[Vec<u8>]) {
        let now_ms = self.worker.now_ms();
        if let [empty, payload] = parts
            && empty.is_empty()
            && let Some(state) = &mut self.state
        {
            let envelope = wire.to_be_bytes().to_vec();
            let parts = vec![envelope, Vec::new(), payload.clone()];
            state.outbox.push((now_ms + state.timeout_ms, parts));
        }
    }
}
