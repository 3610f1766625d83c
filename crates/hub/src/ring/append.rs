//! Appends a record, and completes an append whose process was killed. `ring` explains the order of the steps.

use super::{CURSOR_DEAD, PublishError, Ring};
use crate::layout::{HEAD, LOG_SEQ, PENDING, SAFE, TAIL};
use crate::lock::{Guard, LockError, Owner};
use crate::record::{
    CHANNEL_BYTES_MAX, HEADER_WORDS, LogPlace, Message, Seq, Shape, Subscriber, W_SUM,
};
use crate::words::{Sum, store_bytes, words_for};
use fermata_shm::{Ordering, fence};

/// A checked message, ready to append.
pub(crate) struct Draft {
    pub(crate) shape: Shape,
    pub(crate) hash: u64,
    pub(crate) subscriber: Option<Subscriber>,
    pub(crate) place: Option<LogPlace>,
}

impl Ring {
    /// Checks a message, before the lock is acquired.
    pub(crate) fn draft(&self, message: &Message<'_>) -> Result<Draft, PublishError> {
        self.draft_about(message, None, None)
    }

    /// Checks a message that concerns one subscriber, or comes from a log.
    pub(crate) fn draft_about(
        &self,
        message: &Message<'_>,
        subscriber: Option<Subscriber>,
        place: Option<LogPlace>,
    ) -> Result<Draft, PublishError> {
        let bytes = message
            .data
            .len()
            .saturating_add(message.name.map_or(0, <[u8]>::len));
        let max = self.layout.record_bytes_max;
        if bytes > max {
            return Err(PublishError::TooLarge { bytes, max });
        }
        let len = message.channel.len();
        let shape = Shape::of(message, subscriber.is_some(), place.is_some())
            .ok_or(PublishError::ChannelName { bytes: len })?;
        debug_assert!(
            len <= CHANNEL_BYTES_MAX && shape.total_words() <= self.layout.record_words_max
        );
        Ok(Draft {
            shape,
            hash: self.hasher.hash(message.channel),
            subscriber,
            place,
        })
    }

    /// Moves the tail until `need` words fit after the head.
    pub(crate) fn make_room(
        &self,
        _guard: &Guard,
        who: &Owner,
        need: usize,
    ) -> Result<(), PublishError> {
        let (head, tail) = self.bounds().ok_or(LockError::Corrupt)?;
        let least = (head + need as u64).saturating_sub(self.layout.ring_words as u64);
        if least <= tail {
            return Ok(());
        }
        let mut at = tail;
        while at < least {
            match self.shape_at(at) {
                Some(shape) => at += shape.total_words() as u64,
                // The successor of a damaged record cannot be found, so drop all records. Readers detect this and report a gap.
                None => at = head,
            }
        }
        // The length of a damaged record can lead beyond the head.
        let at = at.min(head);
        if at > self.words.load(SAFE) {
            self.refresh_safe(who, head, tail, at)?;
        }
        self.words.store(TAIL, at);
        Ok(())
    }

    /// Sets `SAFE` to the lowest cursor of a live worker. Fails if this cursor is before `wanted`.
    fn refresh_safe(
        &self,
        who: &Owner,
        head: Seq,
        tail: Seq,
        wanted: Seq,
    ) -> Result<(), PublishError> {
        let mut safe = head;
        let mut behind = None;
        for slot in 0..self.layout.workers_max {
            let pid = self.words.load(self.layout.slot_pid(slot));
            // Acquire: the copies that the worker made before it moved its cursor are complete before this process overwrites them.
            let cursor = self.words.load_acquire(self.layout.slot_cursor(slot));
            // A cursor outside the ring belongs to a reader that is already lost.
            if pid == 0 || !(tail..head).contains(&cursor) {
                continue;
            }
            if cursor < wanted && !(who.alive)(pid as u32) {
                // The worker's slot stays occupied until `worker_ended`, which has to clean up after the worker.
                self.words.store(self.layout.slot_cursor(slot), CURSOR_DEAD);
                continue;
            }
            if cursor < safe {
                safe = cursor;
                behind = Some(slot);
            }
        }
        self.words.store(SAFE, safe);
        match behind {
            Some(slot) if safe < wanted => Err(PublishError::Behind { slot }),
            _ => Ok(()),
        }
    }

    /// Appends a record for which there is room.
    pub(crate) fn append(
        &self,
        _guard: &Guard,
        draft: &Draft,
        message: &Message<'_>,
        unix_ms: u64,
    ) -> Seq {
        let at = self.words.load(HEAD);
        let bucket = self.bucket(draft.hash);
        let (shape, lengths) = draft.shape.write();
        let header = [
            at,
            shape,
            self.words.load(bucket),
            unix_ms,
            lengths,
            draft.hash,
        ];
        // A reader that sees one of the words below also sees the tail position that made room for them.
        fence(Ordering::Release);
        let mut sum = Sum::default();
        for (offset, value) in header.into_iter().enumerate() {
            sum.add(value);
            self.words.store(self.place(at + offset as u64), value);
        }
        let mut body = at + HEADER_WORDS as u64;
        let subscriber = draft.subscriber.map(Subscriber::bytes);
        let place = draft.place.map(LogPlace::bytes);
        for part in [
            message.channel,
            message.name.unwrap_or_default(),
            message.data,
            subscriber.as_ref().map_or(&[], |bytes| &bytes[..]),
            place.as_ref().map_or(&[], |bytes| &bytes[..]),
        ] {
            let len = words_for(part.len());
            let (first, second) = self.segments(body, len);
            let split = part.len().min(first.len() * 8);
            store_bytes(first, &part[..split], &mut sum);
            store_bytes(second, &part[split..], &mut sum);
            body += len as u64;
        }
        self.words.store(self.place(at + W_SUM as u64), sum.value());
        self.words.store_release(PENDING, at);
        self.words.store_release(bucket, at);
        if let Some(place) = draft.place {
            self.words.store(LOG_SEQ, place.seq);
        }
        self.words.store_release(HEAD, body);
        at
    }

    /// Completes the append that a killed process left pending, if there is one.
    pub(super) fn finish_append(&self) {
        let Some((head, tail)) = self.bounds() else {
            return;
        };
        if self.words.load(PENDING) != head {
            return;
        }
        let room = self.layout.ring_words as u64 - (head - tail);
        match self.sound_at(head) {
            Some((shape, hash)) if shape.total_words() as u64 <= room => {
                self.words.store_release(self.bucket(hash), head);
                if let Some(place) = self.place_in(head, &shape) {
                    self.words.store(LOG_SEQ, place.seq);
                }
                self.words
                    .store_release(HEAD, head + shape.total_words() as u64);
            }
            // The record is damaged, for example by a power failure: discard it.
            _ => self.words.store(PENDING, 0),
        }
    }
}
