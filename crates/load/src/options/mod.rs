//! The command line of `fermata load`.

pub(crate) mod common;
pub(crate) mod echo;
pub(crate) mod http;
pub(crate) mod subscribe;
mod value;
pub(crate) mod ws;

use clap::{Args, Subcommand};

/// Put a server under load and verify what it answers.
///
/// The exit code is 0 when everything was as expected, 1 when verification failed, 2 when an option
/// cannot be used.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    pub(crate) scenario: Scenario,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Scenario {
    /// Send HTTP/1.1 requests
    Http(http::HttpArguments),
    /// Hold clients on event streams, publish to them and verify every message
    Sse(subscribe::SubscribeArguments),
    /// The same for up to millions of clients, in as many processes as that takes
    Hold(subscribe::SubscribeArguments),
    /// Open WebSockets
    #[command(subcommand)]
    Ws(WsScenario),
}

#[derive(Debug, Subcommand)]
pub(crate) enum WsScenario {
    /// Send messages to a server that sends each one back, and verify them
    Echo(echo::EchoArguments),
    /// Open WebSockets and close them again, each by its handshake
    Upgrade(ws::UpgradeArguments),
    /// Hold clients, and have one of them send bursts that the server sends to all
    Fanout(ws::FanoutArguments),
    /// Hold clients on WebSockets, publish to them and verify every message
    Broadcast(Box<subscribe::SubscribeArguments>),
}
