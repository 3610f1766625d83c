//! ZMTP 3, the wire protocol of ZeroMQ, with the NULL mechanism, as far as Pushpin's ports need it.
//!
//! A [`Peer`] is one connection, at either end. It reads bytes, and returns messages, subscriptions and bytes to send. The owner of
//! the peer handles reconnecting, queues and fan-out.

mod endpoint;
mod frame;
mod peer;

pub use endpoint::{Endpoint, EndpointError};
pub use frame::{message, subscription};
pub use peer::{Event, GREETING_BYTES, Limits, Peer, Socket, ZmtpError};

/// Returns the number of leading parts that a reply to a REQ, DEALER or ROUTER socket has to repeat: up to and
/// including the empty part.
pub fn envelope_len(parts: &[Vec<u8>]) -> Option<usize> {
    parts.iter().position(Vec::is_empty).map(|at| at + 1)
}
