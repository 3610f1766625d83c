//! Small sends, collected so that one call gives many of them to the kernel.
//!
//! Their bytes are copied here and stay until all that were collected have completed. Each completes
//! inside the call that submits it, because none waits for room.

use std::io::IoSlice;

use super::ring::Ring;
use super::ticket::{Op, Ticket};
use crate::driver::Fd;

/// Sends that are collected at most. One call then costs each next to nothing, and its owner, who
/// counts the time that sending takes, is not away for long.
const SENDS_MAX: usize = 64;

/// Longest send that is copied; longer ones are calls of their own, in which the copy would show.
pub(super) const SEND_BYTES_MAX: usize = 4096;

const ARENA_BYTES: usize = SENDS_MAX * SEND_BYTES_MAX;

/// A send that was collected.
#[derive(Clone, Copy)]
pub(super) struct Collected {
    pub fd: Fd,
    start: u32,
    pub len: u32,
}

pub(super) struct Sends {
    /// Never moved: the kernel knows addresses within it.
    arena: Box<[u8]>,
    used: usize,
    collected: Vec<Collected>,
    /// How many of them have not completed.
    open: usize,
}

impl Sends {
    pub fn new() -> Sends {
        Sends {
            arena: vec![0; ARENA_BYTES].into(),
            used: 0,
            collected: Vec::with_capacity(SENDS_MAX),
            open: 0,
        }
    }

    /// Whether some wait to be submitted, or to complete.
    pub fn has_open(&self) -> bool {
        self.open > 0
    }

    pub fn has_room(&self) -> bool {
        self.collected.len() < SENDS_MAX
    }

    /// Collects a send of at most `SEND_BYTES_MAX` bytes while there is room.
    pub fn add(&mut self, ring: &mut Ring, fd: Fd, bytes: &[u8]) {
        let start = match self.collected.last() {
            // One message to many: it is here already.
            Some(last) if self.bytes(last) == bytes => last.start as usize,
            _ => {
                let start = self.used;
                self.arena[start..start + bytes.len()].copy_from_slice(bytes);
                self.used += bytes.len();
                start
            }
        };
        self.start(ring, fd, start, bytes.len());
    }

    /// The same for bytes in several pieces.
    pub fn add_pieces(&mut self, ring: &mut Ring, fd: Fd, pieces: &[IoSlice<'_>]) {
        let start = self.used;
        for piece in pieces {
            self.arena[self.used..self.used + piece.len()].copy_from_slice(piece);
            self.used += piece.len();
        }
        self.start(ring, fd, start, self.used - start);
    }

    fn start(&mut self, ring: &mut Ring, fd: Fd, start: usize, len: usize) {
        let ticket = Ticket {
            op: Op::Send,
            generation: 0,
            fd: self.collected.len() as Fd,
        };
        let address = self.arena[start..start + len].as_ptr();
        self.collected.push(Collected {
            fd,
            start: start as u32,
            len: len as u32,
        });
        self.open += 1;
        // SAFETY: the arena is neither moved nor freed while the ring lives, and bytes in it are
        // written again only after `complete` has seen every send that was collected.
        unsafe { ring.send(fd, address, len as u32, ticket) };
    }

    /// A send has completed. The place is used again when all have: look at the bytes before.
    pub fn complete(&mut self, ticket: Ticket) -> Option<Collected> {
        let collected = self.collected.get(ticket.fd as usize).copied();
        debug_assert!(collected.is_some() && self.open > 0);
        self.open = self.open.saturating_sub(1);
        collected
    }

    /// Begins anew when all have completed.
    pub fn recycle(&mut self) {
        if self.open == 0 {
            self.collected.clear();
            self.used = 0;
        }
    }

    pub fn bytes(&self, send: &Collected) -> &[u8] {
        let start = send.start as usize;
        &self.arena[start..start + send.len as usize]
    }
}
