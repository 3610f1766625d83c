//! Publishers that the edge connects to: `zmq_sub` with `zmq_sub_connect`.
//!
//! Each is a wire of the worker that has the ports, and from the first byte on like one that has connected itself. One
//! that is not there, or goes, is tried again for ever.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use fermata_config::LogLevel;
use fermata_engine::WireEvent;
use fermata_grip::zmtp::Endpoint;

use super::edge::Edge;
use super::start::StartError;
use super::timers::Timer;
use super::zmq::Port;
use crate::settings::Settings;

/// Until a publisher is tried again, the first time; it doubles up to the other.
const RETRY_MIN_MS: u64 = 100;
const RETRY_MAX_MS: u64 = 10_000;

/// A publisher.
#[derive(Clone, Debug)]
pub(super) struct Publisher {
    address: Address,
    /// As the setting has it.
    text: String,
    /// The connection to it.
    wire: Option<u64>,
    /// When it is tried again, and how long it is left alone next time.
    due_ms: u64,
    retry_ms: u64,
}

#[derive(Clone, Debug)]
enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Those that the settings name. Names of hosts are looked up now, and not again.
pub(super) fn read(settings: &Settings) -> Result<Vec<Publisher>, StartError> {
    if !settings.is_on("zmq_sub_connect") {
        return Ok(Vec::new());
    }
    let publishers = settings.list("zmq_sub").into_iter();
    publishers.filter(|it| !it.is_empty()).map(one).collect()
}

fn one(text: &str) -> Result<Publisher, StartError> {
    let failed = |error: &dyn std::fmt::Display| {
        StartError::Setting(format!("zmq_sub: cannot connect to {text}: {error}"))
    };
    let address = match Endpoint::parse(text).map_err(|error| failed(&error))? {
        Endpoint::Ipc(path) => Address::Unix(path.into()),
        Endpoint::Tcp { host, port } => {
            let mut found = (host, port)
                .to_socket_addrs()
                .map_err(|error| failed(&error))?;
            let first = found.next();
            Address::Tcp(first.ok_or_else(|| failed(&"it is no address"))?)
        }
    };
    Ok(Publisher {
        address,
        text: text.to_owned(),
        wire: None,
        due_ms: 0,
        retry_ms: RETRY_MIN_MS,
    })
}

impl Edge {
    /// Connects to those that are not connected and whose time has come.
    pub(super) fn connect_publishers(&mut self) {
        let now_ms = self.worker.now_ms();
        for at in 0..self.publishers.len() {
            let Some(publisher) = self.publishers.get(at) else {
                return;
            };
            if publisher.wire.is_some() || publisher.due_ms > now_ms {
                continue;
            }
            let outcome = match &publisher.address {
                Address::Tcp(address) => self.worker.connect(*address),
                Address::Unix(path) => self.worker.connect_unix(Path::new(path)),
            };
            match outcome {
                Ok(wire) => {
                    self.publishers[at].wire = Some(wire);
                    self.greet(wire, Port::Sub);
                    // By TCP it stands when the kernel says so.
                    if let Address::Unix(_) = self.publishers[at].address {
                        self.on_port(WireEvent {
                            wire,
                            ..WireEvent::default()
                        });
                    }
                }
                Err(error) => self.leave_alone(at, &error.to_string()),
            }
        }
    }

    /// A connection of the ports has begun to speak: one of these may be it.
    pub(super) fn on_publisher_ready(&mut self, wire: u64) {
        let found = self.publishers.iter_mut().find(|it| it.wire == Some(wire));
        if let Some(publisher) = found {
            publisher.retry_ms = RETRY_MIN_MS;
            let line = format!("zmq_sub: connected to {}", publisher.text);
            self.worker.log(LogLevel::Info, &line);
        }
    }

    /// A connection of the ports has ended: one of these may be it.
    pub(super) fn on_publisher_gone(&mut self, wire: u64) {
        let found = self.publishers.iter().position(|it| it.wire == Some(wire));
        if let Some(at) = found {
            self.leave_alone(at, "the connection has ended");
        }
    }

    fn leave_alone(&mut self, at: usize, reason: &str) {
        let now_ms = self.worker.now_ms();
        let Some(publisher) = self.publishers.get_mut(at) else {
            return;
        };
        publisher.wire = None;
        publisher.due_ms = now_ms + publisher.retry_ms;
        let line = format!(
            "zmq_sub: {} is tried again in {} ms: {reason}",
            publisher.text, publisher.retry_ms
        );
        publisher.retry_ms = (publisher.retry_ms * 2).min(RETRY_MAX_MS);
        let due_ms = publisher.due_ms;
        self.worker.log_for_client(LogLevel::Warning, &line);
        self.timers.at(due_ms, Timer::Publishers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in pairs {
            let outcome = settings.set("test", name, &[(*value).to_owned()]);
            outcome.expect("a setting");
        }
        settings
    }

    #[test]
    fn only_with_the_switch_it_is_connected() {
        let uri = ("zmq_sub", "tcp://127.0.0.1:1");
        assert_eq!(read(&settings(&[uri])).map(|it| it.len()).ok(), Some(0));
        let on = ("zmq_sub_connect", "true");
        assert_eq!(read(&settings(&[uri, on])).map(|it| it.len()).ok(), Some(1));
        let wrong = read(&settings(&[("zmq_sub", "http://x"), on])).expect_err("no endpoint");
        assert!(wrong.to_string().starts_with("zmq_sub: "), "{wrong}");
    }
}
