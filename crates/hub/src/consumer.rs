//! Uses a ring as a queue with one reader. A record stays in the ring until the reader releases it.
//!
//! Publishers wait for the reader, as they wait for a worker. The reader's position is in shared memory and survives the process.
//! The next process continues with the oldest record that was not released.

use crate::layout::HEAD;
use crate::reader::{Read, Reader};
use crate::record::{Record, Seq};
use crate::ring::Ring;
use crate::sleepers;
use fermata_shm::{Ordering, fence};

/// The reader of a queue.
pub struct Consumer {
    ring: Ring,
    reader: Reader<false>,
    slot: u32,
}

impl Ring {
    /// Reads the ring as a queue in `slot`. [`Ring::worker_started`] has to have claimed the slot for a process that
    /// outlives the readers.
    pub fn consume(&self, slot: u32) -> Consumer {
        let mut consumer = Consumer {
            ring: self.twin(),
            reader: Reader::apart(self.words, &self.layout),
            slot,
        };
        consumer.rewind();
        consumer
    }
}

impl Consumer {
    /// Reads the next record.
    pub fn read_next(&mut self, record: &mut Record) -> Read {
        self.reader.read_next(record)
    }

    /// Goes back to the oldest record that is not released.
    pub fn rewind(&mut self) {
        let cursor = self
            .ring
            .words
            .load(self.ring.layout.slot_cursor(self.slot));
        self.reader.go_to(cursor);
    }

    /// Releases the records up to and including `seq`, which was read.
    pub fn release(&mut self, seq: Seq) {
        let cursor = self.ring.layout.slot_cursor(self.slot);
        if seq < self.ring.words.load(cursor) {
            return;
        }
        if let Some(shape) = self.ring.shape_at(seq) {
            let next = seq + shape.total_words() as u64;
            self.ring.words.store_release(cursor, next);
        }
    }

    /// Announces that the reader is about to sleep. Returns false if there is a record to read: do not sleep.
    pub fn set_sleeping(&self) -> bool {
        let words = self.ring.words;
        sleepers::add(&words, self.slot);
        // Pairs with the fence in `Ring::wake_list`.
        fence(Ordering::SeqCst);
        !self.reader.has_more()
    }

    /// Returns true if all records are released.
    pub fn is_empty(&self) -> bool {
        let words = self.ring.words;
        words.load(self.ring.layout.slot_cursor(self.slot)) == words.load_acquire(HEAD)
    }
}
