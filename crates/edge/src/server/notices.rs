//! Events of clients and channels, for the parts that report them.

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
        self.journal.log_subscription(
            &mut self.timers,
            &mut self.worker,
            "subscribe",
            source,
            mode == Mode::Socket,
            channel,
        );
        self.pushpin.stats_subscribe(
            &mut self.publishing,
            &mut self.worker,
            handle,
            mode,
            channel,
        );
    }

    /// A client of this worker is held from now on.
    pub(super) fn on_entered(&mut self, handle: u64, source: &Source, mode: Mode) {
        let id = match mode {
            Mode::Socket => self.publishing.name_socket(&mut self.clients, handle),
            Mode::Response | Mode::Stream => None,
        };
        self.pushpin.stats_enter(
            &mut self.publishing,
            &mut self.worker,
            handle,
            source,
            mode,
            id,
        );
    }

    /// It is not any more, or is not there any more.
    pub(super) fn on_no_longer_held(&mut self, handle: u64) {
        self.publishing.forget_socket_name(handle);
        self.forget_filtering(handle);
        self.pushpin
            .stats_leave(&mut self.publishing, &mut self.worker, handle);
    }
}
