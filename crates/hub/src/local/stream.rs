//! A channel in one wire format with its local subscribers.

use super::encode::Encode;
use super::log::{Frame, Log, LogPool, NONE};
use crate::record::{Record, Seq};

/// A stream. Offsets are absolute: they count all bytes since the stream was created, so dropping frames changes no cursor.
pub(super) struct Stream {
    pub(super) name: Box<[u8]>,
    pub(super) hash: u64,
    /// Ids of the subscriptions, unordered.
    pub(super) subscribers: Vec<u32>,
    /// Frames with unread bytes; `None` while all subscribers have read everything.
    log: Option<Box<Log>>,
    start: u64,
    end: u64,
    /// Offset before which the log caused a cursor's gap.
    log_lost: u64,
    /// Number of subscribers whose cursor is before `end`.
    behind: u32,
    /// Next stream with the same hash.
    pub(super) next: u32,
    pub(super) format: u8,
    /// True while the stream is in the list of dirty streams. Stays true if the stream is removed while listed.
    pub(super) dirty: bool,
}

impl Stream {
    pub(super) fn new(name: &[u8], hash: u64, format: u8, next: u32) -> Stream {
        Stream {
            name: name.into(),
            hash,
            subscribers: Vec::new(),
            log: None,
            start: 0,
            end: 0,
            log_lost: 0,
            behind: 0,
            next,
            format,
            dirty: false,
        }
    }

    /// Turns a removed stream into a new one.
    pub(super) fn reuse(&mut self, name: &[u8], hash: u64, format: u8, next: u32) {
        let dirty = self.dirty;
        *self = Stream {
            dirty,
            ..Stream::new(name, hash, format, next)
        };
    }

    /// Frees the memory of a removed stream.
    pub(super) fn clear(&mut self) {
        self.name = Box::default();
        self.subscribers = Vec::new();
        self.log = None;
        self.next = NONE;
    }

    /// Encodes a record. Returns false if the format skips it.
    pub(super) fn append(
        &mut self,
        record: &Record,
        encode: &mut dyn Encode,
        pool: &mut LogPool,
        log_bytes_max: usize,
        except: u32,
    ) -> bool {
        let log = self.log.get_or_insert_with(|| pool.take());
        let before = log.data.len();
        let payload = encode.encode(self.format, record, &mut log.data);
        let len = log.data.len().saturating_sub(before);
        if len == 0 {
            if log.frames.is_empty() {
                self.drop_log(pool);
            }
            return false;
        }
        let payload_end = payload.end.min(len);
        log.push(Frame {
            seq: record.seq,
            start: self.end,
            payload_start: payload.start.min(payload_end) as u32,
            payload_end: payload_end as u32,
            except,
        });
        self.end += len as u64;
        self.behind = self.subscribers.len() as u32;
        self.start += log.trim(self.end, log_bytes_max);
        true
    }

    /// Notes that a subscriber has read everything, or has left with unread bytes.
    pub(super) fn caught_up(&mut self, pool: &mut LogPool) {
        self.behind = self.behind.saturating_sub(1);
        if self.behind == 0 {
            self.drop_log(pool);
        }
    }

    /// Drops all frames, so that every subscriber receives a gap.
    pub(super) fn lose(&mut self, is_of_log: bool, pool: &mut LogPool) {
        // Add a byte that does not exist. Without it, the cursor of a subscriber that has read everything would still be at the
        // end.
        self.end += 1;
        if is_of_log {
            self.log_lost = self.end;
        }
        self.behind = self.subscribers.len() as u32;
        self.drop_log(pool);
    }

    fn drop_log(&mut self, pool: &mut LogPool) {
        self.start = self.end;
        if let Some(log) = self.log.take() {
            pool.give(log);
        }
    }

    /// Returns the offset of the oldest byte.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Returns true if the log caused the gap of a cursor; false if a slow subscriber did.
    pub(super) fn has_log_lost(&self, cursor: u64) -> bool {
        cursor < self.start && cursor < self.log_lost
    }

    /// Returns the offset after the newest byte.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the bytes `from..to`; empty outside the log.
    pub(super) fn bytes(&self, from: u64, to: u64) -> &[u8] {
        let Some(log) = &self.log else { return &[] };
        let place = |at: u64| log.dropped + (at.clamp(self.start, self.end) - self.start) as usize;
        log.data.get(place(from)..place(to)).unwrap_or_default()
    }

    /// Returns the end of the frames that start at the boundary `from`, fit in `bytes_max` bytes and precede the
    /// sequence number `before`. If the first frame does not fit, returns its end.
    pub(super) fn cut(&self, from: u64, bytes_max: usize, before: Seq) -> u64 {
        if before == Seq::MAX && self.end - from <= bytes_max as u64 {
            return self.end;
        }
        let Some(log) = &self.log else {
            return self.end;
        };
        let first = self.frame_at(log, from);
        let limit = from.saturating_add(bytes_max as u64);
        let mut low = first + 1;
        let mut high = log.frames.len();
        // Invariant: frames before `low` are included, frames from `high` on are not.
        while low < high {
            let middle = usize::midpoint(low, high);
            if log.frames[middle].seq < before && self.end_of(log, middle) <= limit {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        log.frames.get(low).map_or(self.end, |frame| frame.start)
    }

    /// Returns sequence number and start of the first frame for `owner` from the boundary `cursor` that is newer than
    /// `last`.
    pub(super) fn first_after(&self, cursor: u64, last: Seq, owner: u32) -> Option<(Seq, u64)> {
        let log = self.log.as_ref().filter(|_| cursor < self.end)?;
        let first = self.frame_at(log, cursor);
        let by_seq = log.frames.partition_point(|frame| frame.seq <= last);
        let mut frames = log.frames.range(first.max(by_seq).min(log.frames.len())..);
        let frame = if log.excepts == 0 {
            frames.next()
        } else {
            frames.find(|frame| frame.except != owner)
        };
        frame.map(|frame| (frame.seq, frame.start))
    }

    /// Returns true if a frame excludes an owner.
    #[inline]
    pub(super) fn has_excepts(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.excepts > 0)
    }

    /// Returns the sequence number of the first frame from the boundary `from` that excludes `owner`.
    pub(super) fn next_except(&self, from: u64, owner: u32) -> Option<Seq> {
        let log = self.log.as_ref().filter(|log| log.excepts > 0)?;
        let first = self.frame_at(log, from);
        let mut frames = log.frames.range(first..);
        let frame = frames.find(|frame| frame.except == owner)?;
        Some(frame.seq)
    }

    /// Returns `cursor`, moved over the frames that exclude `owner`.
    pub(super) fn skip_excepts(&self, cursor: u64, owner: u32) -> u64 {
        let Some(log) = self.log.as_ref().filter(|log| log.excepts > 0) else {
            return cursor;
        };
        if cursor < self.start || cursor >= self.end {
            return cursor;
        }
        let first = self.frame_at(log, cursor);
        let mut frames = log.frames.range(first..);
        let frame = frames.find(|frame| frame.except != owner);
        frame.map_or(self.end, |frame| frame.start)
    }

    /// Returns the length of the frame that starts at `start`, or of its payload.
    pub(super) fn first_len(&self, start: u64, raw: bool) -> usize {
        if raw {
            self.payload(start).len()
        } else {
            (self.frame_end(start + 1) - start) as usize
        }
    }

    /// Returns the payload of the frame that starts at `start`.
    pub(super) fn payload(&self, start: u64) -> &[u8] {
        let Some(log) = &self.log else { return &[] };
        match log.frames.get(self.frame_at(log, start)) {
            Some(frame) => self.bytes(
                frame.start + u64::from(frame.payload_start),
                frame.start + u64::from(frame.payload_end),
            ),
            None => &[],
        }
    }

    /// Returns the first frame boundary at or after `at`.
    pub(super) fn frame_end(&self, at: u64) -> u64 {
        if at >= self.end {
            return self.end;
        }
        let Some(log) = &self.log else {
            return self.end;
        };
        let index = log.frames.partition_point(|frame| frame.start < at);
        log.frames.get(index).map_or(self.end, |frame| frame.start)
    }

    /// Returns the number of frames from a boundary on.
    pub(super) fn frames_from(&self, at: u64) -> u64 {
        let log = self.log.as_ref();
        log.map_or(0, |log| (log.frames.len() - self.frame_at(log, at)) as u64)
    }

    /// Returns the sequence number of the last frame in the `len` bytes from the boundary `start`.
    pub(super) fn last_seq(&self, start: u64, len: usize) -> Seq {
        let Some(log) = &self.log else {
            return Seq::MAX;
        };
        let behind = log
            .frames
            .partition_point(|frame| frame.start < start + len as u64);
        behind
            .checked_sub(1)
            .and_then(|index| log.frames.get(index))
            .map_or(Seq::MAX, |frame| frame.seq)
    }

    #[cfg(test)]
    pub(super) fn log_bytes(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.data.len())
    }

    fn frame_at(&self, log: &Log, at: u64) -> usize {
        log.frames.partition_point(|frame| frame.start < at)
    }

    fn end_of(&self, log: &Log, index: usize) -> u64 {
        log.frames
            .get(index + 1)
            .map_or(self.end, |frame| frame.start)
    }
}
