//! Buffers that the kernel fills: one pool for all connections.
//!
//! Those that hold bytes nobody has read are chained, one chain per connection, by number. All others
//! are the kernel's.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::ring::Ring;

/// Bytes of a buffer. Requests need a page of it; pipelined messages come in few pieces.
pub(super) const BUFFER_BYTES: usize = 16 * 1024;

/// Buffers of a worker, which are touched in turn: half a megabyte of memory under small requests, two
/// under bulk. It is also how much arrives at most between two waits; whoever finds none left is
/// received from in the next turn.
pub(super) const BUFFERS: u16 = 128;

/// No buffer.
const NONE: u16 = u16::MAX;

const RING_BYTES: usize = (BUFFERS as usize * size_of::<BufRingEntry>()).next_multiple_of(4096);
const MAP_BYTES: usize = RING_BYTES + BUFFERS as usize * BUFFER_BYTES;
const _: () = assert!(BUFFERS.is_power_of_two() && BUFFER_BYTES <= u16::MAX as usize);

/// Bytes that have arrived for a connection, in order.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    first: u16,
    last: u16,
    /// Bytes of the first that have been read.
    at: u16,
}

impl Chain {
    pub const EMPTY: Chain = Chain {
        first: NONE,
        last: NONE,
        at: 0,
    };

    pub fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

pub(super) struct Buffers {
    /// The kernel's ring of free buffers, then the buffers.
    map: *mut u8,
    /// The next place in that ring.
    tail: u16,
    /// Bytes in each buffer that is in a chain.
    lengths: Box<[u16]>,
    /// What follows it there.
    next: Box<[u16]>,
}

impl Buffers {
    /// Maps the memory and gives all of it to the kernel.
    ///
    /// # Safety
    /// The result outlives `ring`.
    pub unsafe fn new(ring: &mut Ring) -> io::Result<Buffers> {
        // SAFETY: a new mapping at a place of the kernel's choice touches nobody's memory.
        let map = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                MAP_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let mut buffers = Buffers {
            map: map.cast(),
            tail: 0,
            lengths: vec![0; usize::from(BUFFERS)].into(),
            next: vec![NONE; usize::from(BUFFERS)].into(),
        };
        // A child that PHP forks shall not make us copy what the kernel has pinned.
        // SAFETY: the range is the mapping of above; nobody looks for it in a child.
        unsafe { rustix::mm::madvise(map, MAP_BYTES, Advice::LinuxDontFork) }?;
        // SAFETY: the mapping begins at a page with room for so many entries, and by our caller's
        // promise it outlives the ring.
        unsafe { ring.provide(buffers.map, BUFFERS) }?;
        for number in 0..BUFFERS {
            buffers.give_back(number);
        }
        Ok(buffers)
    }

    /// Puts a buffer that the kernel has filled at the end of a chain.
    pub fn append(&mut self, chain: &mut Chain, number: u16, length: usize) {
        let at = usize::from(number);
        assert!(at < self.next.len() && length <= BUFFER_BYTES);
        self.lengths[at] = length as u16;
        self.next[at] = NONE;
        if chain.is_empty() {
            chain.first = number;
            chain.at = 0;
        } else {
            self.next[usize::from(chain.last)] = number;
        }
        chain.last = number;
    }

    /// Moves bytes from the front of a chain into `out`, as many as there are and fit.
    pub fn read(&mut self, chain: &mut Chain, out: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < out.len() && !chain.is_empty() {
            let number = chain.first;
            let length = usize::from(self.lengths[usize::from(number)]);
            let at = usize::from(chain.at);
            let taken = (length - at).min(out.len() - filled);
            // SAFETY: `at + taken` is at most `length`, which is at most a buffer, and the kernel does
            // not write to a buffer that is in a chain. `out` is memory of our caller.
            unsafe {
                ptr::copy_nonoverlapping(
                    self.address(number).add(at),
                    out[filled..].as_mut_ptr(),
                    taken,
                );
            }
            filled += taken;
            chain.at += taken as u16;
            if at + taken == length {
                chain.first = self.next[usize::from(number)];
                chain.at = 0;
                self.give_back(number);
            }
        }
        filled
    }

    /// Bytes in a chain.
    pub fn len(&self, chain: &Chain) -> usize {
        let mut number = chain.first;
        let mut length = 0;
        while number != NONE {
            length += usize::from(self.lengths[usize::from(number)]);
            number = self.next[usize::from(number)];
        }
        length - usize::from(chain.at)
    }

    /// Lets go of what nobody will read.
    pub fn drop_chain(&mut self, chain: &mut Chain) {
        while !chain.is_empty() {
            let number = chain.first;
            chain.first = self.next[usize::from(number)];
            self.give_back(number);
        }
        *chain = Chain::EMPTY;
    }

    /// Makes a buffer the kernel's again.
    pub fn give_back(&mut self, number: u16) {
        assert!(number < BUFFERS);
        let place = usize::from(self.tail & (BUFFERS - 1));
        let entries = self.map.cast::<BufRingEntry>();
        // SAFETY: `place` is within the ring. The kernel reads entries between its head and the tail,
        // and this one is beyond the tail until the store below: of `BUFFERS` entries at most as many
        // are ever in use as there are buffers. The setters leave the field alone that is the tail.
        let entry = unsafe { &mut *entries.add(place) };
        entry.set_addr(self.address(number) as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry of the ring, aligned and mapped, and is shared with
        // the kernel as an atomic of this size.
        let tail = unsafe { &*BufRingEntry::tail(entries).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }

    fn address(&self, number: u16) -> *mut u8 {
        // SAFETY: numbers are below `BUFFERS`, so the place is within the mapping.
        unsafe {
            self.map
                .add(RING_BYTES + usize::from(number) * BUFFER_BYTES)
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; the ring that knew it is gone by its promise.
        let _ = unsafe { rustix::mm::munmap(self.map.cast(), MAP_BYTES) };
    }
}
