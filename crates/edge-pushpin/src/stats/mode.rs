//! Transport of a subscriber.

/// Transport of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// A long poll.
    Response,
    /// A stream.
    Stream,
    /// A WebSocket.
    Socket,
}
