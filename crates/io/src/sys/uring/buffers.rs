//! Buffers that the kernel fills: one pool for all connections.
//!
//! Buffers with unread bytes form one chain per connection. All others belong to the kernel.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::ring::Ring;

/// Size of a buffer in bytes. Requests use a page of it; pipelined messages arrive in few pieces.
pub(super) const BUFFER_BYTES: usize = 16 * 1024;

/// Number of buffers of a worker. The kernel fills them one after the other. They use half a megabyte of memory with small
/// requests, two megabytes with bulk data. They also limit the bytes that arrive between two waits: a connection without a free
/// buffer receives only after the next wait.
pub(super) const BUFFERS: u16 = 128;

/// Number that means no buffer.
const NONE: u16 = u16::MAX;

const RING_BYTES: usize = (BUFFERS as usize * size_of::<BufRingEntry>()).next_multiple_of(4096);
const MAP_BYTES: usize = RING_BYTES + BUFFERS as usize * BUFFER_BYTES;
const _: () = assert!(BUFFERS.is_power_of_two() && BUFFER_BYTES <= u16::MAX as usize);

/// Received bytes of a connection, in order.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    first: u16,
    last: u16,
    /// Bytes of the first buffer that were read.
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
    /// The kernel's ring of free buffers, followed by the buffers.
    map: *mut u8,
    /// Next index in the ring.
    tail: u16,
    /// Length of the data in each chained buffer.
    lengths: Box<[u16]>,
    /// Next buffer in the chain of each buffer.
    next: Box<[u16]>,
}

impl Buffers {
    /// Maps the memory and provides all buffers to the kernel.
    ///
    /// # Safety
    /// The result must outlive `ring`.
    pub unsafe fn new(ring: &mut Ring) -> io::Result<Buffers> {
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
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
        // A child forked by PHP must not cause copies of memory that the kernel has pinned. SAFETY: the range is the
        // mapping from above, which no child uses.
        unsafe { rustix::mm::madvise(map, MAP_BYTES, Advice::LinuxDontFork) }?;
        // SAFETY: the mapping is page-aligned with space for these entries, and by the contract of this function it
        // outlives the ring.
        unsafe { ring.provide(buffers.map, BUFFERS) }?;
        for number in 0..BUFFERS {
            buffers.give_back(number);
        }
        Ok(buffers)
    }

    /// Appends a buffer that the kernel filled to a chain.
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

    /// Moves as many bytes as possible from the front of a chain to `out`.
    pub fn read(&mut self, chain: &mut Chain, out: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < out.len() && !chain.is_empty() {
            let number = chain.first;
            let length = usize::from(self.lengths[usize::from(number)]);
            let at = usize::from(chain.at);
            let taken = (length - at).min(out.len() - filled);
            // SAFETY: `at + taken` is at most `length`, which is at most a buffer, and the kernel does not write to
            // chained buffers. `out` is exclusively borrowed.
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

    /// Returns the number of bytes in a chain.
    pub fn len(&self, chain: &Chain) -> usize {
        let mut number = chain.first;
        let mut length = 0;
        while number != NONE {
            length += usize::from(self.lengths[usize::from(number)]);
            number = self.next[usize::from(number)];
        }
        length - usize::from(chain.at)
    }

    /// Drops the bytes of a chain that will not be read.
    pub fn drop_chain(&mut self, chain: &mut Chain) {
        while !chain.is_empty() {
            let number = chain.first;
            chain.first = self.next[usize::from(number)];
            self.give_back(number);
        }
        *chain = Chain::EMPTY;
    }

    /// Returns a buffer to the kernel.
    pub fn give_back(&mut self, number: u16) {
        assert!(number < BUFFERS);
        let place = usize::from(self.tail & (BUFFERS - 1));
        let entries = self.map.cast::<BufRingEntry>();
        // SAFETY: `place` is within the ring. The kernel reads entries between its head and the tail, and this one is
        // beyond the tail until the store below: at most `BUFFERS` entries are in use. The setters do not touch the field
        // that is the tail.
        let entry = unsafe { &mut *entries.add(place) };
        entry.set_addr(self.address(number) as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is in the first entry of the ring, aligned and mapped, and is shared with the kernel as an
        // atomic of this size.
        let tail = unsafe { &*BufRingEntry::tail(entries).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }

    fn address(&self, number: u16) -> *mut u8 {
        // SAFETY: numbers are below `BUFFERS`, so the address is within the mapping.
        unsafe {
            self.map
                .add(RING_BYTES + usize::from(number) * BUFFER_BYTES)
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this length; by its contract the ring that used the memory was dropped.
        let _ = unsafe { rustix::mm::munmap(self.map.cast(), MAP_BYTES) };
    }
}
