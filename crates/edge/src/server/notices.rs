//! What happens to clients and channels, for whoever wants to tell others of it.

use fermata_edge_pushpin::stats::mode::Mode;

use crate::client::source::Source;
use crate::server::edge::Edge;

impl Edge {
    /// A client of this worker has been subscribed to a channel.
    pub(super) fn on_subscribed(
        &mut self,
        handle: u64,
        source: &Source,
        channel: &[u8],
        mode: Mode,
    ) {
        self.log_subscription("subscribe", source, mode == Mode::Socket, channel);
        self.stats_subscribe(handle, mode, channel);
    }

    /// A client of this worker is held from now on.
    pub(super) fn on_entered(&mut self, handle: u64, source: &Source, mode: Mode) {
        let id = match mode {
            Mode::Socket => self.name_socket(handle),
            Mode::Response | Mode::Stream => None,
        };
        self.stats_enter(handle, source, mode, id);
    }

    /// It is not any more, or is not there any more.
    pub(super) fn on_no_longer_held(&mut self, handle: u64) {
        self.forget_socket_name(handle);
        self.forget_filtering(handle);
        self.stats_leave(handle);
    }
}
