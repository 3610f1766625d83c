//! What happens to clients and channels, for whoever wants to tell others of it.

use super::edge::Edge;

/// How a subscriber takes items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A long poll.
    Response,
    /// A stream.
    Stream,
    /// A WebSocket.
    Socket,
}

impl Edge {
    /// A client of this worker has been subscribed to a channel.
    pub(super) fn on_subscribed(&mut self, _channel: &[u8], _mode: Mode) {}
}
