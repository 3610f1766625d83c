//! State machines for WebSocket (RFC 6455) and its compression (RFC 7692).
//!
//! [`handshake`] validates a parsed request and writes the response. [`frame`] parses and writes frame headers.
//! [`message`] assembles received bytes into messages, [`deflate`] compresses them, and [`close`] tracks the closing
//! handshake. Both sides of a connection are supported; see [`Role`].

pub mod accept;
pub mod client;
pub mod close;
mod close_code;
pub mod deflate;
mod error;
pub mod extension;
pub mod frame;
pub mod handshake;
pub mod mask;
pub mod message;
pub mod opening;
pub mod utf8;

pub use error::Violation;

/// The role of this side of the connection. A client masks its frames, a server does not (RFC 6455, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that accepted the connection.
    Server,
    /// The side that opened the connection.
    Client,
}
