//! Small sends, collected so that one call submits many of them.
//!
//! Their bytes are copied into an arena and stay there until all collected sends have completed. Each send completes
//! inside the call that submits it, because none waits for space.

use std::io::IoSlice;

use super::ring::Ring;
use super::ticket::{Op, Ticket};
use crate::driver::Fd;

/// Maximum number of collected sends. With this number, one system call adds almost no cost per send. The owner, which measures the
/// time for sending, does not wait long.
const SENDS_MAX: usize = 64;

/// Maximum size in bytes of a collected send. Larger sends are separate calls, because copying them would cost more.
pub(super) const SEND_BYTES_MAX: usize = 4096;

const ARENA_BYTES: usize = SENDS_MAX * SEND_BYTES_MAX;

/// A collected send.
#[derive(Clone, Copy)]
pub(super) struct Collected {
    pub fd: Fd,
    start: u32,
    pub len: u32,
}

pub(super) struct Sends {
    /// Memory for stored bytes. It is never reallocated, because the kernel has addresses within it.
    arena: Box<[u8]>,
    used: usize,
    collected: Vec<Collected>,
    /// Number of sends that have not completed.
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

    /// Returns true if sends wait to be submitted or to complete.
    pub fn has_open(&self) -> bool {
        self.open > 0
    }

    pub fn has_room(&self) -> bool {
        self.collected.len() < SENDS_MAX
    }

    /// Collects a send of at most `SEND_BYTES_MAX` bytes; there must be room.
    pub fn add(&mut self, ring: &mut Ring, fd: Fd, bytes: &[u8]) {
        let start = match self.collected.last() {
            // A broadcast sends the same bytes repeatedly, so the arena may already contain them.
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

    /// Collects a send of bytes in several pieces; see [`Sends::add`].
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
        // SAFETY: the arena is neither moved nor freed while the ring lives, and its bytes are only overwritten after
        // `complete` has seen every collected send.
        unsafe { ring.send(fd, address, len as u32, ticket) };
    }

    /// Records the completion of a send. Its bytes stay valid until all sends have completed.
    pub fn complete(&mut self, ticket: Ticket) -> Option<Collected> {
        let collected = self.collected.get(ticket.fd as usize).copied();
        debug_assert!(collected.is_some() && self.open > 0);
        self.open = self.open.saturating_sub(1);
        collected
    }

    /// Reuses the arena if all sends have completed.
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
