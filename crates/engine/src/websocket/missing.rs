//! What a socket has missed of the channels in which it is not live yet.

use std::collections::VecDeque;

use fermata_hub::Backlog;

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
}
