//! Reads the ring in one worker.

use crate::layout::{HEAD, LOG_BEGUN, LOG_LIVE, Layout, TAIL};
use crate::record::{
    HEADER_WORDS, Kind, Record, Seq, Shape, W_HASH, W_LENGTHS, W_SHAPE, W_STAMP, W_TIME,
};
use crate::sleepers;
use crate::words::{Words, load_bytes};
use fermata_shm::{Ordering, fence};

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The record was filled in.
    Record,
    /// The next record was not wanted and is skipped.
    Skipped,
    /// All records published so far have been read.
    Empty,
    /// Records were lost: they were overwritten because the slot had been declared dead or the memory is damaged, or the log has a
    /// gap here. The reader continues with the oldest available record.
    Lost,
}

/// Reads every record once, in order. The cursor is in shared memory, and publishers wait for it. If `IS_AWAITED` is false, there
/// is no cursor, and publishers overwrite unread records.
pub struct Reader<const IS_AWAITED: bool = true> {
    words: Words,
    slot: u32,
    cursor: usize,
    ring: usize,
    ring_words: usize,
    record_words_max: usize,
    /// Position of the next record. The copy in shared memory is never read back.
    at: Seq,
    /// The head at the last check. Reading it again only at this position avoids a load of the publishers' cache line per record.
    head: Seq,
    /// The log caused the last loss: it was created again, lost records, or removed unread records.
    is_log_lost: bool,
}

impl Reader {
    pub(crate) fn new(words: Words, layout: &Layout, slot: u32, at: Seq) -> Reader {
        Reader::of(words, layout, slot, layout.slot_cursor(slot), at)
    }

    /// Announces that this worker is about to sleep. Returns false if there is a record to read: do not sleep.
    pub fn set_sleeping(&self) -> bool {
        sleepers::add(&self.words, self.slot);
        // Pairs with the fence in `Ring::wake_list`: either the publisher sees this worker's bit, or this worker sees the
        // publisher's record.
        fence(Ordering::SeqCst);
        if self.has_more() {
            self.set_awake();
            return false;
        }
        true
    }

    /// Marks this worker as awake, so that publishers do not wake it needlessly.
    pub fn set_awake(&self) {
        if sleepers::has(&self.words, self.slot) {
            sleepers::remove(&self.words, self.slot);
        }
    }
}

impl Reader<false> {
    /// Creates a reader without a slot, starting with the oldest record.
    pub(crate) fn apart(words: Words, layout: &Layout) -> Reader<false> {
        Reader::of(words, layout, u32::MAX, usize::MAX, words.load(TAIL))
    }

    /// Continues with the record at `at`. If it was overwritten, the next read returns [`Read::Lost`].
    pub(crate) fn go_to(&mut self, at: Seq) {
        self.at = at;
        self.head = at;
    }
}

impl<const IS_AWAITED: bool> Reader<IS_AWAITED> {
    fn of(words: Words, layout: &Layout, slot: u32, cursor: usize, at: Seq) -> Self {
        Reader {
            words,
            slot,
            cursor,
            ring: layout.ring,
            ring_words: layout.ring_words,
            record_words_max: layout.record_words_max,
            at,
            head: at,
            is_log_lost: false,
        }
    }

    /// Returns true if the log caused the last [`Read::Lost`]; false if the reader was too slow.
    pub fn is_log_lost(&self) -> bool {
        self.is_log_lost
    }

    /// Returns the position from which records of the log are live.
    #[inline]
    pub fn live_from(&self) -> Seq {
        self.words.load_acquire(LOG_LIVE)
    }

    /// Reads the next record into `record`, whose buffer is reused.
    pub fn read_next(&mut self, record: &mut Record) -> Read {
        self.read_next_if(record, |_| true)
    }

    /// Reads the next record if its channel's hash is `wanted`; otherwise skips it.
    pub fn read_next_if(&mut self, record: &mut Record, wanted: impl FnOnce(u64) -> bool) -> Read {
        if self.at >= self.head {
            // Acquire: the words of every record before the head were written before the head.
            self.head = self.words.load_acquire(HEAD);
            if self.at == self.head {
                return Read::Empty;
            }
        }
        let word = |offset: usize| {
            self.words
                .load(self.place(self.at.wrapping_add(offset as u64)))
        };
        let (stamp, hash) = (word(W_STAMP), word(W_HASH));
        let Some(shape) = Shape::read(word(W_SHAPE), word(W_LENGTHS), self.record_words_max) else {
            return self.lost();
        };
        let next = self.at.wrapping_add(shape.total_words() as u64);
        if stamp != self.at || next > self.head {
            return self.lost();
        }
        let taken = wanted(hash);
        if taken {
            let bytes = record.fill(self.at, word(W_TIME), hash, &shape);
            let ring = self.words.slice(self.ring, self.ring_words);
            let start = self.at.wrapping_add(HEADER_WORDS as u64) as usize & (self.ring_words - 1);
            let len = shape.body_words();
            let first = len.min(self.ring_words - start);
            let (front, back) = bytes.split_at_mut(first * 8);
            load_bytes(&ring[start..start + first], front);
            load_bytes(&ring[..len - first], back);
        }
        // See the seqlock in `ring`: the words are copied first, then the tail is read.
        fence(Ordering::Acquire);
        if self.words.load(TAIL) > self.at {
            return self.lost();
        }
        self.move_to(next);
        match shape.kind {
            Kind::Gap => {
                self.is_log_lost = true;
                Read::Lost
            }
            _ if taken => Read::Record,
            _ => Read::Skipped,
        }
    }

    /// Returns the sequence number up to which every record was read. It is the `up_to` of a replay for a new subscriber.
    pub fn read_up_to(&self) -> Seq {
        self.at.saturating_sub(1)
    }

    /// Returns true if there is a record to read.
    pub fn has_more(&self) -> bool {
        self.at != self.words.load_acquire(HEAD)
    }

    /// Continues with the oldest record after a loss, or after the newest one if the memory is damaged.
    fn lost(&mut self) -> Read {
        let head = self.words.load_acquire(HEAD);
        let tail = self.words.load(TAIL);
        self.head = head;
        // If the cursor is already at the tail, the record there is damaged: skip all records, to guarantee progress.
        let next = if tail > self.at && tail <= head {
            tail
        } else {
            head
        };
        self.is_log_lost = self.at < self.words.load(LOG_BEGUN);
        self.move_to(next);
        Read::Lost
    }

    fn move_to(&mut self, next: Seq) {
        self.at = next;
        if IS_AWAITED {
            // Release: publishers overwrite the words before the cursor, so the copies of this process have to be complete.
            self.words.store_release(self.cursor, next);
        }
    }

    fn place(&self, at: Seq) -> usize {
        self.ring + (at as usize & (self.ring_words - 1))
    }
}
