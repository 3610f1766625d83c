//! ZMTP 3, the wire protocol of ZeroMQ, with the NULL mechanism: as much as Pushpin's ports need.
//!
//! A [`Peer`] is one connection, of either end. It takes bytes in and gives messages, subscriptions and bytes to
//! send out. Reconnecting, queues and fan-out are its owner's.

mod endpoint;
mod frame;
mod peer;

pub use endpoint::{Endpoint, EndpointError};
pub use frame::{message, subscription};
pub use peer::{Event, GREETING_BYTES, Limits, Peer, Socket, ZmtpError};

/// How many parts of a message of a REQ, DEALER or ROUTER socket its reply must begin with: up to the empty one.
pub fn envelope_len(parts: &[Vec<u8>]) -> Option<usize> {
    parts.iter().position(Vec::is_empty).map(|at| at + 1)
}
