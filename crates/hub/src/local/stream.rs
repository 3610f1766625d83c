//! A channel in one wire format with its local subscribers.

use super::encode::Encode;
use super::log::{Frame, Log, LogPool, NONE};
use crate::record::{Record, Seq};

/// Offsets are absolute: they count all bytes since the stream was made, so a cursor never needs an update.
pub(super) struct Stream {
    pub(super) name: Box<[u8]>,
    pub(super) hash: u64,
    /// Ids of the subscriptions, in no order.
    pub(super) subscribers: Vec<u32>,
    /// `None` while everybody has read everything.
    log: Option<Box<Log>>,
    start: u64,
    end: u64,
    /// Subscribers whose cursor is before `end`.
    behind: u32,
    /// Next stream with the same hash.
    pub(super) next: u32,
    pub(super) format: u8,
    /// Whether it is in the list of dirty streams; stays true there even if the stream was removed.
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
            behind: 0,
            next,
            format,
            dirty: false,
        }
    }

    /// Makes a removed stream a new one.
    pub(super) fn reuse(&mut self, name: &[u8], hash: u64, format: u8, next: u32) {
        let dirty = self.dirty;
        *self = Stream {
            dirty,
            ..Stream::new(name, hash, format, next)
        };
    }

    /// Frees what a removed stream holds.
    pub(super) fn clear(&mut self) {
        self.name = Box::default();
        self.subscribers = Vec::new();
        self.log = None;
        self.next = NONE;
    }

    /// Encodes a record. `false` when the format has nothing to say about it.
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

    /// One subscriber has read everything, or one that had not is gone.
    pub(super) fn caught_up(&mut self, pool: &mut LogPool) {
        self.behind = self.behind.saturating_sub(1);
        if self.behind == 0 {
            self.drop_log(pool);
        }
    }

    /// Makes every cursor a gap.
    pub(super) fn lose(&mut self, pool: &mut LogPool) {
        // One byte that nobody can read puts even those who had read everything behind.
        self.end += 1;
        self.behind = self.subscribers.len() as u32;
        self.drop_log(pool);
    }

    fn drop_log(&mut self, pool: &mut LogPool) {
        self.start = self.end;
        if let Some(log) = self.log.take() {
            pool.give(log);
        }
    }

    /// Offset of the oldest byte there is.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Offset behind the newest byte.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The bytes `from..to`; empty outside the log.
    pub(super) fn bytes(&self, from: u64, to: u64) -> &[u8] {
        let Some(log) = &self.log else { return &[] };
        let place = |at: u64| log.dropped + (at.clamp(self.start, self.end) - self.start) as usize;
        log.data.get(place(from)..place(to)).unwrap_or_default()
    }

    /// The end of the frames from the boundary `from` that fit in `bytes_max` bytes and come before the sequence number
    /// `before`; of the first frame if it does not fit.
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
        // Invariant: frames before `low` are taken, frames from `high` on are not.
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

    /// The first frame for `owner` from the boundary `cursor` on that is newer than `last`: its number and start.
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

    /// Whether there are frames that some owner does not get.
    #[inline]
    pub(super) fn has_excepts(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.excepts > 0)
    }

    /// The number of the first frame from the boundary `from` on that `owner` does not get.
    pub(super) fn next_except(&self, from: u64, owner: u32) -> Option<Seq> {
        let log = self.log.as_ref().filter(|log| log.excepts > 0)?;
        let first = self.frame_at(log, from);
        let mut frames = log.frames.range(first..);
        let frame = frames.find(|frame| frame.except == owner)?;
        Some(frame.seq)
    }

    /// `cursor`, moved over the frames there that `owner` does not get.
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

    /// Bytes of the frame that starts at `start`, or of its payload.
    pub(super) fn first_len(&self, start: u64, raw: bool) -> usize {
        if raw {
            self.payload(start).len()
        } else {
            (self.frame_end(start + 1) - start) as usize
        }
    }

    /// The payload of the frame that starts at `start`.
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

    /// The first frame boundary at or behind `at`.
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

    /// Frames that begin at a boundary or behind it.
    pub(super) fn frames_from(&self, at: u64) -> u64 {
        let log = self.log.as_ref();
        log.map_or(0, |log| (log.frames.len() - self.frame_at(log, at)) as u64)
    }

    /// The sequence number of the last frame in the `len` bytes from the boundary `start`.
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
