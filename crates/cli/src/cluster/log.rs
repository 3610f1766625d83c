//! The log that `fermata cluster up` starts.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use super::companion::{Companion, is_installed};
use super::folder::Folder;
use crate::error::{Error, at};

/// What keeps the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// nats-server with JetStream
    Nats,
    /// redis-server
    Redis,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Kind::Nats => "nats-server",
            Kind::Redis => "redis-server",
        }
    }

    fn is_installed(self) -> bool {
        is_installed(self.program(), "--version")
    }
}

/// A server of the log, and the folder where it keeps what it has.
pub struct Log {
    kind: Kind,
    port: u16,
    folder: PathBuf,
    pub process: Companion,
}

impl Log {
    /// Starts what was asked for, or what is installed.
    ///
    /// # Errors
    /// One sentence for the user.
    pub fn start(kind: Option<Kind>, port: Option<u16>, folder: &Folder) -> Result<Self, Error> {
        let kind = match kind {
            Some(kind) if !kind.is_installed() => {
                return Err(Error::Misuse(format!("{} is not installed", kind.program())));
            }
            Some(kind) => kind,
            None => [Kind::Nats, Kind::Redis]
                .into_iter()
                .find(|kind| kind.is_installed())
                .ok_or(
                    "neither nats-server nor redis-server is installed; install one, or name a log that runs by --cluster",
                )?,
        };
        let port = match port {
            Some(port) => {
                TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
                    format!(
                        "--log-port {port}: {error}; name a port that is free, or the log that runs there by --cluster"
                    )
                })?;
                port
            }
            None => free_port()?,
        };
        let mut log = Self {
            kind,
            port,
            folder: folder.inner("log")?,
            process: Companion::new("log"),
        };
        log.begin()?;
        Ok(log)
    }

    /// Starts it, with what it had.
    ///
    /// # Errors
    /// One sentence for the user.
    pub fn begin(&mut self) -> Result<(), Error> {
        let port = self.port.to_string();
        let mut command = Command::new(self.kind.program());
        match self.kind {
            Kind::Nats => command.args(["-js", "-a", "127.0.0.1", "-p", &port, "-sd"]),
            Kind::Redis => command.args([
                "--bind",
                "127.0.0.1",
                "--port",
                &port,
                "--appendonly",
                "yes",
                "--save",
                "",
                "--dir",
            ]),
        };
        command.arg(&self.folder);
        self.process.start(&command)
    }

    /// Where it is, as the setting `cluster` has it.
    pub fn url(&self) -> String {
        match self.kind {
            Kind::Nats => format!("nats://127.0.0.1:{}", self.port),
            Kind::Redis => format!("redis://127.0.0.1:{}", self.port),
        }
    }
}

impl std::fmt::Display for Log {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.process.state();
        write!(out, "{}  {}, {state}", self.url(), self.kind.program())
    }
}

fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address
        .map(|address| address.port())
        .map_err(at("a port for the log"))
}
