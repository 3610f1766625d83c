//! What only a client asks of its connection.

use super::Role;
use super::connection::{Connection, Drain};
use super::frame::STREAM_MAX;
use super::streams::STREAMS_MAX;

impl Connection {
    /// How many more streams may be opened now: 0 when the peer goes away, or has as many as it takes.
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

    /// Whether no stream can be opened on it any more.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.has_failed()
            || self.peer_leaves
            || self.drain != Drain::Open
            || self.own_next > STREAM_MAX
    }
}
