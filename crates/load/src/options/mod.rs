//! The command line of `fermata load`.

pub(crate) mod common;
pub(crate) mod echo;
pub(crate) mod http;
pub(crate) mod subscribe;
mod value;
pub(crate) mod ws;

use clap::{Args, Subcommand};

/// Put a server under load and verify its responses.
///
/// The exit code is 0 if everything was as expected, 1 if verification failed, 2 if an option is
/// unusable.
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
    /// Hold up to millions of clients on event streams, in several processes
    Hold(subscribe::SubscribeArguments),
    /// Open WebSockets
    #[command(subcommand)]
    Ws(WsScenario),
}

#[derive(Debug, Subcommand)]
pub(crate) enum WsScenario {
    /// Send messages to an echo server and verify them
    Echo(echo::EchoArguments),
    /// Open and close WebSockets, with both handshakes
    Upgrade(ws::UpgradeArguments),
    /// Hold clients; one of them sends bursts, which the server sends to all
    Fanout(ws::FanoutArguments),
    /// Hold clients on WebSockets, publish to them and verify every message
    Broadcast(Box<subscribe::SubscribeArguments>),
}
