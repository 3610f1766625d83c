//! What a socket has missed of the channels in which it is not live yet.

use std::collections::VecDeque;

use fermata_hub::{Backlog, Kind, Record, Seq, Subscriber};

/// Channels that a socket has joined and is not live in yet; not empty.
pub(crate) struct Resume {
    pub waiting: VecDeque<Missing>,
    /// Listed in `Channels::resuming`.
    pub is_queued: bool,
}

/// What a socket has missed of one channel.
pub(crate) struct Missing {
    pub channel: Box<[u8]>,
    pub backlog: Backlog,
    /// How its messages are encoded.
    pub format: u8,
    pub left_out: LeftOut,
}

/// What is not for the client in a channel's past.
#[derive(Clone, Copy, Default)]
pub(crate) struct LeftOut {
    /// The socket that it had before.
    pub formerly: Option<Subscriber>,
    /// Joins and leaves up to here are in the list of members that it is given.
    pub members_known_up_to: Seq,
}

impl LeftOut {
    /// Whether a record is left out, `own` being the client's socket.
    pub fn has(&self, record: &Record, own: Option<Subscriber>) -> bool {
        let except = record.subscriber();
        // What it has published itself since it joined is left out, as in live ones, and so is what it has published before.
        let is_own = except.is_some() && (except == own || except == self.formerly);
        let is_announcement = matches!(record.kind, Kind::Join | Kind::Leave);
        is_own || is_announcement && record.seq <= self.members_known_up_to
    }
}
