//! Log servers of `fermata cluster up`: NATS or Redis.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use super::companion::{Companion, is_installed};
use super::folder::Folder;
use super::leader::leader;
use crate::child::Signals;
use crate::error::{Error, at};

/// Number of NATS servers of a replicated log. The log survives the loss of one server.
const SERVERS: usize = 3;

/// Software that stores the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// nats-server with JetStream
    Nats,
    /// three NATS servers, one of which may fail
    Nats3,
    /// redis-server
    Redis,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Kind::Nats | Kind::Nats3 => "nats-server",
            Kind::Redis => "redis-server",
        }
    }

    fn is_installed(self) -> bool {
        is_installed(self.program(), "--version")
    }
}

/// Log server and its data folder.
struct Server {
    port: u16,
    /// Port for connections from the other NATS servers.
    route_port: u16,
    folder: PathBuf,
    process: Companion,
}

/// All servers of the log.
pub struct Log {
    kind: Kind,
    servers: Vec<Server>,
}

impl Log {
    /// Starts the requested kind of log, or one that is installed.
    ///
    /// # Errors
    /// Fails with a message for the user if the software is not installed or cannot be started.
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
        // Keep all ports bound until each server has one, so that none is assigned twice.
        let mut ports = Vec::new();
        let mut servers = Vec::new();
        for number in 1..=if kind == Kind::Nats3 { SERVERS } else { 1 } {
            let named = port.filter(|_| number == 1);
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, named.unwrap_or(0))).map_err(
                |error| match named {
                    Some(port) => Error::from(format!(
                        "--log-port {port}: {error}; name a port that is free, or the log that runs there by --cluster"
                    )),
                    None => at("a port for the log")(error),
                },
            )?;
            let route =
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(at("a port for the log"))?;
            let (name, inner) = match kind {
                Kind::Nats3 => (format!("log {number}"), format!("log-{number}")),
                Kind::Nats | Kind::Redis => ("log".to_owned(), "log".to_owned()),
            };
            let port_of = |it: &TcpListener| it.local_addr().map_err(at("a port for the log"));
            servers.push(Server {
                port: port_of(&listener)?.port(),
                route_port: port_of(&route)?.port(),
                folder: folder.inner(&inner)?,
                process: Companion::new(name),
            });
            ports.push([listener, route]);
        }
        drop(ports);
        let mut log = Self { kind, servers };
        for at in 0..log.servers.len() {
            log.begin(at)?;
        }
        Ok(log)
    }

    /// Starts a server with its existing data.
    ///
    /// # Errors
    /// Fails with a message for the user if the server cannot be started.
    pub fn begin(&mut self, at: usize) -> Result<(), Error> {
        let mut command = Command::new(self.kind.program());
        let port = self.servers[at].port.to_string();
        match self.kind {
            Kind::Nats | Kind::Nats3 => command.args(["-js", "-a", "127.0.0.1", "-p", &port]),
            Kind::Redis => command.args([
                "--bind",
                "127.0.0.1",
                "--port",
                &port,
                "--appendonly",
                "yes",
                "--save",
                "",
            ]),
        };
        if self.kind == Kind::Nats3 {
            let route = |it: &Server| format!("nats://127.0.0.1:{}", it.route_port);
            let routes: Vec<String> = self.servers.iter().map(route).collect();
            command
                .args(["--name", &name(at), "--cluster_name", "fermata"])
                .args(["--cluster", &routes[at], "--routes", &routes.join(",")]);
        }
        let server = &mut self.servers[at];
        command.arg(match self.kind {
            Kind::Nats | Kind::Nats3 => "-sd",
            Kind::Redis => "--dir",
        });
        command.arg(&server.folder);
        server.process.start(&command)
    }

    /// Returns the index of the server with this number, counted from 1, or all indices without a number.
    ///
    /// # Errors
    /// Fails if no server has this number.
    pub fn numbered(&self, number: Option<&str>) -> Result<Vec<usize>, Error> {
        let Some(number) = number else {
            return Ok((0..self.servers.len()).collect());
        };
        let at = number.parse().ok().and_then(|it: usize| it.checked_sub(1));
        let at = at.filter(|at| *at < self.servers.len());
        let at = at.ok_or_else(|| {
            Error::Misuse(format!(
                "{number} is no number of a server of the log; type status"
            ))
        })?;
        Ok(vec![at])
    }

    pub fn is_running(&self, at: usize) -> bool {
        self.servers[at].process.is_running()
    }

    pub fn kill(&self, at: usize) {
        self.servers[at].process.kill();
    }

    pub fn notice_ends(&mut self) {
        for server in &mut self.servers {
            server.process.notice_end();
        }
    }

    pub fn end(&mut self, signals: &Signals) {
        for server in &mut self.servers {
            server.process.end(signals);
        }
    }

    /// Returns the number of replicas of an event.
    pub fn copies(&self) -> usize {
        self.servers.len()
    }

    /// Returns the addresses in the format of the setting `cluster`, starting with server `first` to distribute connections.
    pub fn url(&self, first: usize) -> String {
        let len = self.servers.len();
        let servers = (0..len).map(|at| self.url_of((first + at) % len));
        servers.collect::<Vec<_>>().join(",")
    }

    fn url_of(&self, at: usize) -> String {
        let port = self.servers[at].port;
        match self.kind {
            Kind::Nats | Kind::Nats3 => format!("nats://127.0.0.1:{port}"),
            Kind::Redis => format!("redis://127.0.0.1:{port}"),
        }
    }

    /// Returns a status line per server; with three servers also the leader of the stream.
    pub fn status(&self, prefix: &str) -> Vec<String> {
        let mut running = self.servers.iter().filter(|it| it.process.is_running());
        let leader = match self.kind {
            Kind::Nats3 => running.next().and_then(|it| leader(it.port, prefix)),
            Kind::Nats | Kind::Redis => None,
        };
        let line = |(at, server): (usize, &Server)| {
            let number = match self.kind {
                Kind::Nats3 => format!("log {}   ", at + 1),
                Kind::Nats | Kind::Redis => "log     ".to_owned(),
            };
            let leads = if leader.as_deref() == Some(&name(at)[..]) {
                ", leads"
            } else {
                ""
            };
            let (url, state) = (self.url_of(at), server.process.state());
            format!("{number}  {url}  {}, {state}{leads}", self.kind.program())
        };
        self.servers.iter().enumerate().map(line).collect()
    }
}

/// Returns the NATS name of a server.
fn name(at: usize) -> String {
    format!("log-{}", at + 1)
}
