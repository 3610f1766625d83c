//! Replay of the records that a client missed, or of a channel's history.
//!
//! The records of an index bucket are linked backwards, so the cost depends on the result, not on the ring's size. No
//! lock is acquired: each record is copied and then checked against the tail.

use crate::record::{HEADER_WORDS, Record, Seq, W_HASH, W_STAMP, W_TIME};
use crate::ring::Ring;
use crate::words::WORD_BYTES;

/// Maximum number of records visited in one bucket. If the bucket contains too many records of other channels, the client receives
/// a gap, because visiting all of them would block the worker.
const WALK_RECORDS_MAX: usize = 1 << 18;

/// Completeness of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// All records of the range were returned.
    Complete,
    /// Older records of the range are overwritten, or exceed a limit. The newest records were returned.
    Gap,
}

/// The range of a replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRange {
    /// Position after which records are included. 0 means from the oldest record on.
    pub after: Seq,
    /// Only records up to and including this position are included: [`crate::Reader::read_up_to`] if live records follow.
    pub up_to: Seq,
    /// Maximum number of records per channel. The newest records are included. The ring's `history_count_max` also applies.
    pub count_max: usize,
    /// Maximum number of bytes over all channels, as stored in the ring; the newest records are selected.
    pub bytes_max: usize,
    /// Current time, for the limit on age.
    pub unix_ms: u64,
}

impl Ring {
    /// Passes the records of all `channels` in the range to `each`, oldest first and each once.
    ///
    /// A gap is known only at the end, because a record may be overwritten while earlier ones are passed.
    pub fn replay(
        &mut self,
        channels: &[&[u8]],
        range: &ReplayRange,
        each: &mut dyn FnMut(&Record),
    ) -> Replay {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let mut complete = true;
        for channel in channels {
            complete &= self.find(channel, range, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        let mut bytes = 0usize;
        let fitting = found.iter().rev().take_while(|(_, size)| {
            bytes = bytes.saturating_add(*size);
            bytes <= range.bytes_max
        });
        let first = found.len() - fitting.count();
        complete &= first == 0;
        let mut record = std::mem::replace(&mut self.record, Record::empty());
        for &(at, _) in &found[first..] {
            if self.copy_at(at, &mut record) {
                each(&record);
            } else {
                complete = false;
            }
        }
        self.record = record;
        self.found = found;
        if complete {
            Replay::Complete
        } else {
            Replay::Gap
        }
    }

    /// Collects the records of one channel. Returns false if some records of the range cannot be read, or exceed a limit.
    fn find(&self, channel: &[u8], range: &ReplayRange, found: &mut Vec<(Seq, usize)>) -> bool {
        let count_max = range.count_max.min(self.history_count_max);
        let (mut count, mut bytes) = (0, 0usize);
        self.walk(channel, range.after, range.up_to, |at, size, time| {
            bytes = bytes.saturating_add(size);
            let too_old = range.unix_ms.saturating_sub(time) > self.history_age_ms_max;
            if too_old || count == count_max || bytes > range.bytes_max {
                return false;
            }
            count += 1;
            found.push((at, size));
            true
        })
    }

    /// Passes position, size and time of the records of one channel to `each`, newest first, until `each` returns false. Returns
    /// true if the walk reached the start of the range. Returns false if `each` has stopped it, if records were overwritten, or
    /// after `WALK_RECORDS_MAX` records of the channel's bucket.
    pub(crate) fn walk(
        &self,
        channel: &[u8],
        after: Seq,
        up_to: Seq,
        mut each: impl FnMut(Seq, usize, u64) -> bool,
    ) -> bool {
        let hash = self.hasher.hash(channel);
        // Acquire: the words of the newest record were written before the bucket.
        let mut at = self.words.load_acquire(self.bucket(hash));
        for _ in 0..WALK_RECORDS_MAX {
            if at <= after {
                return true;
            }
            let stamp = self.word_at(at, W_STAMP);
            let (shape, prev) = (self.shape_at(at), self.prev_at(at));
            let time = self.word_at(at, W_TIME);
            let ours =
                at <= up_to && self.word_at(at, W_HASH) == hash && self.is_channel(at, channel);
            let Some(shape) = shape else { return false };
            if !self.still_there(at) || stamp != at || prev >= at {
                return false;
            }
            if ours && !each(at, shape.total_words() * WORD_BYTES, time) {
                return false;
            }
            at = prev;
        }
        false
    }

    /// Returns true if the record at `at` has this channel name. The caller has to check afterwards that the record was not
    /// overwritten.
    fn is_channel(&self, at: Seq, channel: &[u8]) -> bool {
        let Some(shape) = self.shape_at(at) else {
            return false;
        };
        usize::from(shape.channel_len) == channel.len()
            && channel
                .chunks(WORD_BYTES)
                .enumerate()
                .all(|(index, chunk)| {
                    self.word_at(at, HEADER_WORDS + index).to_le_bytes()[..chunk.len()] == *chunk
                })
    }
}
