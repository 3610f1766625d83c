//! State of a descriptor, indexed by its number.

use std::collections::VecDeque;

use super::buffers::Chain;
use super::ticket::{GENERATION_MASK, Op, Ticket};
use crate::Deadline;
use crate::driver::Fd;

/// Role of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Not watched; the driver may still have to send bytes on the descriptor.
    Unwatched,
    Stream,
    Wake,
    /// Closed by its owner; bytes that were sent before are still in the driver.
    Leaving,
}

/// State of the receive operation of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// The operation is not running. The next wait may start it.
    Off,
    On,
    /// Started, and being cancelled.
    Stopping,
    /// Stopped until the owner has read the received bytes.
    Stopped,
}

/// State of the peer, as reported by polls and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Remote {
    Open,
    /// The peer sends no more bytes, but still receives.
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
    /// Received bytes.
    pub chain: Chain,
    /// True if bytes older than those in `chain` were set aside.
    pub has_aside: bool,
    /// True if the socket may contain more bytes, so that the socket must be read directly.
    pub may_hold_more: bool,
    /// True if the peer's end of stream follows the received bytes.
    pub has_ended: bool,
    /// Error of a broken connection; 0 = not broken.
    pub errno: u16,
    /// True while an operation waits for free space.
    pub awaits_room: bool,
    /// True while an operation waits for the peer's end or a broken connection.
    pub awaits_hangup: bool,
    /// True if one of the collected sends is for this descriptor.
    pub is_sending: bool,
    /// True if unsent bytes of a send are stored.
    pub has_rest: bool,
    /// True if a send of the owner would have blocked.
    pub wants_room: bool,
    /// True if listed in `Uring::ready`; the next fields are the events to report.
    pub is_ready: bool,
    pub readable: bool,
    pub writable: bool,
    pub hangup: bool,
    /// True if listed in `Uring::unread`.
    pub is_unread: bool,
    /// True if listed in `Uring::idle`.
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

    /// Returns the slot for the next descriptor with this number.
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

    /// Returns the possible operations of a descriptor, each with true if it is running.
    pub fn operations(&self) -> [(bool, Op); 4] {
        let receives = matches!(self.receiving, Receiving::On | Receiving::Stopping);
        [
            (receives, Op::Recv),
            (self.awaits_room, Op::Room),
            (self.awaits_hangup, Op::Hangup),
            (self.kind == Kind::Wake, Op::Wake),
        ]
    }

    /// Returns true if there are bytes that the owner has not read.
    pub fn has_unread(&self) -> bool {
        self.has_aside || !self.chain.is_empty()
    }

    /// Returns true if no more bytes will arrive.
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
    /// True while the listener's owner watches it.
    pub is_watched: bool,
    /// True while the kernel accepts connections of the listener.
    pub is_accepting: bool,
    /// True while the listener's accept operation is being cancelled.
    pub is_stopping: bool,
    /// Error that stopped accepting. 0 means none.
    pub errno: i32,
    pub accepted: VecDeque<Fd>,
    /// Time of the next check of the listener's queue, and the number of checks so far.
    pub look: Deadline,
    pub looks: usize,
}

impl Listener {
    pub fn has_events(&self) -> bool {
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

/// Unsent bytes of a send: at most `SEND_BYTES_MAX`.
pub(super) struct Rest {
    pub bytes: Vec<u8>,
    pub sent: usize,
    /// True if the sending side is to be closed after these bytes.
    pub shuts_down: bool,
}

/// Bytes that arrived before the last wait, and that the connection's owner has not read yet.
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

    /// Maximum memory in bytes of a held client in the driver, in addition to the engine's
    /// connection.
    const SLOT_BYTES_MAX: usize = 48;

    #[test]
    fn a_slot_is_small() {
        assert!(size_of::<Slot>() <= SLOT_BYTES_MAX, "{}", size_of::<Slot>());
    }
}
