//! What is remembered of a descriptor, by its number.

use std::collections::VecDeque;

use super::buffers::Chain;
use super::ticket::{GENERATION_MASK, Op, Ticket};
use crate::Deadline;
use crate::driver::Fd;

/// What a descriptor is to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Not watched; it may have been sent to.
    Unwatched,
    Stream,
    Wake,
    /// Closed by its owner; what it has sent before is still on its way.
    Leaving,
}

/// Whether the kernel is asked for a stream's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// It is not, and will be when it pays.
    Off,
    On,
    /// It was, and is told to stop.
    Stopping,
    /// It is not, until the owner has read what it has.
    Stopped,
}

/// What polls and receives have told of the other end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Remote {
    Open,
    /// It sends nothing more, and may still be sent to.
    Ended,
    Broken,
}

#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub token: u64,
    pub generation: u32,
    pub kind: Kind,
    pub receiving: Receiving,
    pub remote: Remote,
    /// What has arrived.
    pub chain: Chain,
    /// Bytes that arrived before those in `chain` were set aside.
    pub has_aside: bool,
    /// The socket may hold more behind what has arrived: it is asked directly.
    pub may_hold_more: bool,
    /// The peer's end of stream comes behind what has arrived.
    pub has_ended: bool,
    /// The connection is broken; zero = it is not.
    pub errno: u16,
    /// An operation that reports room is on its way.
    pub awaits_room: bool,
    /// One that reports the peer's end, or that the connection is broken.
    pub awaits_hangup: bool,
    /// A send is among the collected ones.
    pub is_sending: bool,
    /// The rest of a send waits for room.
    pub has_rest: bool,
    /// The owner was told that a send would block.
    pub wants_room: bool,
    /// Listed in `Uring::ready`, with what is to be reported.
    pub is_ready: bool,
    pub readable: bool,
    pub writable: bool,
    pub hangup: bool,
    /// Listed in `Uring::unread`.
    pub is_unread: bool,
    /// Listed in `Uring::idle`.
    pub is_idle: bool,
}

impl Slot {
    pub const fn new(generation: u32) -> Slot {
        Slot {
            token: 0,
            generation,
            kind: Kind::Unwatched,
            receiving: Receiving::Off,
            remote: Remote::Open,
            chain: Chain::EMPTY,
            has_aside: false,
            may_hold_more: false,
            has_ended: false,
            errno: 0,
            awaits_room: false,
            awaits_hangup: false,
            is_sending: false,
            has_rest: false,
            wants_room: false,
            is_ready: false,
            readable: false,
            writable: false,
            hangup: false,
            is_unread: false,
            is_idle: false,
        }
    }

    /// The slot for the descriptor that gets this number next.
    pub fn successor(&self) -> Slot {
        Slot::new(self.generation.wrapping_add(1) & GENERATION_MASK)
    }

    pub fn ticket(&self, op: Op, fd: Fd) -> Ticket {
        Ticket {
            op,
            generation: self.generation,
            fd,
        }
    }

    /// The operations that a descriptor may have, and whether this one has them.
    pub fn operations(&self) -> [(bool, Op); 4] {
        let receives = matches!(self.receiving, Receiving::On | Receiving::Stopping);
        [
            (receives, Op::Recv),
            (self.awaits_room, Op::Room),
            (self.awaits_hangup, Op::Hangup),
            (self.kind == Kind::Wake, Op::Wake),
        ]
    }

    /// Bytes that its owner has not read.
    pub fn has_unread(&self) -> bool {
        self.has_aside || !self.chain.is_empty()
    }

    /// Nothing more will arrive.
    pub fn is_over(&self) -> bool {
        self.has_ended || self.errno != 0
    }

    pub fn is_watched_stream(&self) -> bool {
        self.kind == Kind::Stream
    }
}

pub(super) struct Listener {
    pub fd: Fd,
    pub token: u64,
    pub generation: u32,
    /// Its owner wants to hear of it.
    pub is_watched: bool,
    /// The kernel accepts for it.
    pub is_accepting: bool,
    /// It is told to stop.
    pub is_stopping: bool,
    /// Why it has stopped by itself; zero = it has not.
    pub errno: i32,
    pub accepted: VecDeque<Fd>,
    /// When its queue is looked at ourselves, and how often that was done.
    pub look: Deadline,
    pub looks: usize,
}

impl Listener {
    pub fn has_news(&self) -> bool {
        self.is_watched && (!self.accepted.is_empty() || self.errno != 0)
    }

    pub fn ticket(&self) -> Ticket {
        Ticket {
            op: Op::Accept,
            generation: self.generation,
            fd: self.fd,
        }
    }
}

/// What a send had left: at most `SEND_BYTES_MAX`.
pub(super) struct Rest {
    pub bytes: Vec<u8>,
    pub sent: usize,
    /// End our side behind it.
    pub shuts_down: bool,
}

/// Bytes that arrived in an earlier turn.
#[derive(Default)]
pub(super) struct Aside {
    pub bytes: Vec<u8>,
    pub at: usize,
}

impl Aside {
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let left = &self.bytes[self.at..];
        let taken = left.len().min(out.len());
        out[..taken].copy_from_slice(&left[..taken]);
        self.at += taken;
        taken
    }

    pub fn is_read(&self) -> bool {
        self.at == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A held client costs this much beside the engine's connection.
    const SLOT_BYTES_MAX: usize = 48;

    #[test]
    fn a_slot_is_small() {
        assert!(size_of::<Slot>() <= SLOT_BYTES_MAX, "{}", size_of::<Slot>());
    }
}
