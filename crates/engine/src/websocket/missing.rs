//! Missed messages of a socket in channels where it is not live yet.

use std::collections::VecDeque;

use fermata_hub::{Backlog, Kind, Record, Seq, Subscriber};

/// Joined channels in which a socket is not live yet; not empty.
pub(crate) struct Resume {
    pub waiting: VecDeque<Missing>,
    /// True while the socket is in `Channels::resuming`.
    pub is_queued: bool,
}

/// Missed messages of one channel.
pub(crate) struct Missing {
    pub channel: Box<[u8]>,
    pub backlog: Backlog,
    /// Message format.
    pub format: u8,
    pub left_out: LeftOut,
}

/// Past records of a channel that the client must not receive.
#[derive(Clone, Copy, Default)]
pub(crate) struct LeftOut {
    /// The client's previous socket.
    pub formerly: Option<Subscriber>,
    /// Position up to which the member list that the client receives includes joins and leaves.
    pub members_known_up_to: Seq,
}

impl LeftOut {
    /// Returns true if a record is skipped; `own` is the client's socket.
    pub fn has(&self, record: &Record, own: Option<Subscriber>) -> bool {
        let except = record.subscriber();
        // Skip the client's own messages: those sent since it joined, and those sent from its
        // previous socket.
        let is_own = except.is_some() && (except == own || except == self.formerly);
        let is_announcement = matches!(record.kind, Kind::Join | Kind::Leave);
        is_own || is_announcement && record.seq <= self.members_known_up_to
    }
}
