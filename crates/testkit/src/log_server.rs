//! The log that servers share, whichever it is.

use crate::{Nats, Redis};

/// A real server that keeps the log, killed when dropped.
pub enum LogServer {
    /// NATS with JetStream.
    Nats(Nats),
    /// Redis.
    Redis(Redis),
}

impl LogServer {
    /// NATS; `None` where it is not installed.
    pub fn nats() -> Option<LogServer> {
        Nats::start().map(LogServer::Nats)
    }

    /// Redis; `None` where it is not installed.
    pub fn redis() -> Option<LogServer> {
        Redis::start().map(LogServer::Redis)
    }

    /// Where it is, as the setting `cluster` has it.
    pub fn url(&self) -> String {
        match self {
            LogServer::Nats(it) => format!("nats://127.0.0.1:{}", it.port()),
            LogServer::Redis(it) => format!("redis://127.0.0.1:{}", it.port()),
        }
    }

    /// The port of 127.0.0.1 at which it listens.
    pub fn port(&self) -> u16 {
        match self {
            LogServer::Nats(it) => it.port(),
            LogServer::Redis(it) => it.port(),
        }
    }

    /// As if it had failed: with SIGKILL.
    pub fn kill(&mut self) {
        match self {
            LogServer::Nats(it) => it.kill(),
            LogServer::Redis(it) => it.kill(),
        }
    }

    /// What it had stays.
    pub fn restart(&mut self) {
        match self {
            LogServer::Nats(it) => it.restart(),
            LogServer::Redis(it) => it.restart(),
        }
    }

    /// What it had is gone.
    pub fn restart_empty(&mut self) {
        match self {
            LogServer::Nats(it) => it.restart_empty(),
            LogServer::Redis(it) => it.restart_empty(),
        }
    }

    /// It answers nobody until [`LogServer::resume`], and its connections stay.
    pub fn pause(&self) {
        match self {
            LogServer::Nats(it) => it.pause(),
            LogServer::Redis(it) => it.pause(),
        }
    }

    /// It goes on.
    pub fn resume(&self) {
        match self {
            LogServer::Nats(it) => it.resume(),
            LogServer::Redis(it) => it.resume(),
        }
    }
}

/// A test for each kind of log, of functions that take a [`LogServer`].
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
