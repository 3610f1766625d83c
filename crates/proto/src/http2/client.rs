//! Methods that only the client side of a connection uses.

use super::Role;
use super::connection::{Connection, Drain};
use super::frame::STREAM_MAX;
use super::streams::STREAMS_MAX;

impl Connection {
    /// Returns the number of streams that can be opened now: 0 if the peer is going away or its
    /// SETTINGS_MAX_CONCURRENT_STREAMS is reached.
    #[must_use]
    pub fn room(&self) -> usize {
        debug_assert!(self.role == Role::Client);
        if self.is_leaving() {
            return 0;
        }
        let numbers_left = ((STREAM_MAX + 1).saturating_sub(self.own_next) / 2) as usize;
        let max = STREAMS_MAX.min(self.peer.streams_max as usize);
        max.saturating_sub(self.streams.len()).min(numbers_left)
    }

    /// Returns true if no further stream can be opened on this connection.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.has_failed()
            || self.peer_leaves
            || self.drain != Drain::Open
            || self.own_next > STREAM_MAX
    }
}
