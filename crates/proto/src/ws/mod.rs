//! WebSocket (RFC 6455) and its compression (RFC 7692) as state machines.
//!
//! [`handshake`] looks at a parsed request and says what to answer; [`frame`] reads and writes frame headers;
//! [`message`] turns received bytes into whole messages; [`deflate`] compresses them; [`close`] keeps track of how
//! the connection ends.
//! Both ends are spoken: [`Role`] says which one is ours.

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

/// Which end of the connection we are. A client masks what it sends, a server does not (RFC 6455, 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We have accepted the connection.
    Server,
    /// We have opened the connection.
    Client,
}
