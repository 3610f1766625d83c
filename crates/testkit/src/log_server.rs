//! Server of the cluster log: NATS or Redis.

use crate::{Directory, Nats, Redis, ask_nats};

/// A real log server, killed when dropped.
pub enum LogServer {
    /// NATS with JetStream.
    Nats(Nats),
    /// Redis.
    Redis(Redis),
}

impl LogServer {
    /// Starts NATS; returns `None` if it is not installed.
    pub fn nats() -> Option<LogServer> {
        Nats::start().map(LogServer::Nats)
    }

    /// Starts Redis; returns `None` if it is not installed.
    pub fn redis() -> Option<LogServer> {
        Redis::start().map(LogServer::Redis)
    }

    /// Returns the URL for the setting `cluster`.
    pub fn url(&self) -> String {
        match self {
            LogServer::Nats(it) => format!("nats://127.0.0.1:{}", it.port()),
            LogServer::Redis(it) => format!("redis://127.0.0.1:{}", it.port()),
        }
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        match self {
            LogServer::Nats(it) => it.port(),
            LogServer::Redis(it) => it.port(),
        }
    }

    /// Simulates a crash with SIGKILL.
    pub fn kill(&mut self) {
        match self {
            LogServer::Nats(it) => it.kill(),
            LogServer::Redis(it) => it.kill(),
        }
    }

    /// Restarts the server with its data.
    pub fn restart(&mut self) {
        match self {
            LogServer::Nats(it) => it.restart(),
            LogServer::Redis(it) => it.restart(),
        }
    }

    /// Returns a copy of the server's files.
    pub fn save(&self) -> Directory {
        match self {
            LogServer::Nats(it) => it.save(),
            LogServer::Redis(it) => it.save(),
        }
    }

    /// Kills the server and restarts it with the data of an earlier copy. The server loses everything that it has acknowledged
    /// since the copy.
    pub fn roll_back(&mut self, to: &Directory) {
        match self {
            LogServer::Nats(it) => it.roll_back(to),
            LogServer::Redis(it) => it.roll_back(to),
        }
    }

    /// Deletes the log of a `cluster_prefix`, like an operator, while the server runs.
    pub fn delete_log(&self, prefix: &str) {
        match self {
            LogServer::Nats(it) => {
                ask_nats(
                    it.port(),
                    &format!("$JS.API.STREAM.DELETE.FERMATA_{prefix}"),
                    "",
                );
            }
            LogServer::Redis(it) => {
                it.ask("FLUSHALL");
            }
        }
    }

    /// Restarts the server without data.
    pub fn restart_empty(&mut self) {
        match self {
            LogServer::Nats(it) => it.restart_empty(),
            LogServer::Redis(it) => it.restart_empty(),
        }
    }

    /// Stops the server until [`LogServer::resume`]. Its connections stay open.
    pub fn pause(&self) {
        match self {
            LogServer::Nats(it) => it.pause(),
            LogServer::Redis(it) => it.pause(),
        }
    }

    /// Resumes the server.
    pub fn resume(&self) {
        match self {
            LogServer::Nats(it) => it.resume(),
            LogServer::Redis(it) => it.resume(),
        }
    }
}

/// Generates one test per kind of log server from each function that takes a [`LogServer`].
#[macro_export]
macro_rules! over_each_log {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn nats() {
                if let Some(log) = $crate::LogServer::nats() {
                    super::$name(log);
                }
            }

            #[test]
            fn redis() {
                if let Some(log) = $crate::LogServer::redis() {
                    super::$name(log);
                }
            }
        }
    )+};
}
