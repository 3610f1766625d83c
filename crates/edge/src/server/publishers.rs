//! Publishers to which the edge connects: `zmq_sub` with `zmq_sub_connect`.
//!
//! The worker with the ports opens the connections. Open connections are handled like accepted ones. A failed or closed connection
//! is retried without limit.

use std::path::Path;

use fermata_config::LogLevel;
use fermata_engine::WireId;

use crate::client::source::Engine;
use crate::publish::parts::Publishing;
use crate::publish::port::Port;
use crate::publish::publishers::{Address, RETRY_MIN_MS};
use crate::timers::{Timer, Timers};

/// Maximum pause in milliseconds between two attempts to connect.
const RETRY_MAX_MS: u64 = 10_000;

impl Publishing {
    /// Connects to publishers whose retry is due.
    pub(super) fn connect_publishers(&mut self, timers: &mut Timers, worker: &mut Engine) {
        let now_ms = worker.net.now_ms();
        for at in 0..self.publishers.len() {
            let publisher = &self.publishers[at];
            if publisher.wire.is_some() || publisher.due_ms > now_ms {
                continue;
            }
            let outcome = match &publisher.address {
                Address::Tcp(address) => worker.net.connect(*address),
                Address::Unix(path) => worker.net.connect_unix(Path::new(path)),
            };
            match outcome {
                Ok(wire) => {
                    self.publishers[at].wire = Some(wire);
                    self.ports.greet(worker, timers, wire, Port::Sub);
                    // TCP connects asynchronously; a Unix socket is connected immediately.
                    if let Address::Unix(_) = self.publishers[at].address {
                        self.ports.push(worker, wire);
                    }
                }
                Err(error) => self.leave_alone(timers, worker, at, &error.to_string()),
            }
        }
    }

    /// Notes that a connection became ready, if it leads to one of these publishers.
    pub(super) fn on_publisher_ready(&mut self, worker: &Engine, wire: WireId) {
        let found = self.publishers.iter_mut().find(|it| it.wire == Some(wire));
        if let Some(publisher) = found {
            publisher.retry_ms = RETRY_MIN_MS;
            let line = format!("zmq_sub: connected to {}", publisher.text);
            worker.net.log(LogLevel::Info, &line);
        }
    }

    /// Schedules a retry after a connection was closed, if it led to one of these publishers.
    pub(super) fn on_publisher_gone(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        wire: WireId,
    ) {
        let found = self.publishers.iter().position(|it| it.wire == Some(wire));
        if let Some(at) = found {
            self.leave_alone(timers, worker, at, "the connection has ended");
        }
    }

    /// Schedules the next attempt to connect. The pause doubles with each failure.
    fn leave_alone(&mut self, timers: &mut Timers, worker: &mut Engine, at: usize, reason: &str) {
        let now_ms = worker.net.now_ms();
        let publisher = &mut self.publishers[at];
        publisher.wire = None;
        publisher.due_ms = now_ms + publisher.retry_ms;
        let line = format!(
            "zmq_sub: {} is tried again in {} ms: {reason}",
            publisher.text, publisher.retry_ms
        );
        publisher.retry_ms = (publisher.retry_ms * 2).min(RETRY_MAX_MS);
        let due_ms = publisher.due_ms;
        worker.net.log_for_client(LogLevel::Warning, &line);
        timers.at(due_ms, Timer::Publishers);
    }
}
