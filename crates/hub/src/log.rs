//! Records of a log that several servers share: their log positions, and the mapping of these to positions in this ring.
//!
//! One process per server reads the log and appends its messages in order ([`Ring::publish_logged`]). The step that
//! publishes a record also stores the log position reached, so after a crash the next reader neither skips nor repeats
//! a record. An event's id is its log position, which is equal on every server. A cursor remains a position in this
//! ring.
//!
//! When a server connects, the messages that the log already holds are its *past*. Clients of the server connected
//! later, or receive a gap. Records of the past are therefore used for replays and history only ([`Ring::is_past`]).
//!
//! Each process finds the ring position of a log position with its own index, which it updates on use. The index has
//! every [`EVERY`]th record that the ring still holds. It has no overhead while it is unused.

use crate::id::{IdRef, Ids};
use crate::layout::{
    HEAD, LOG_BEGUN, LOG_EPOCH, LOG_FLOOR, LOG_LIVE, LOG_PAST, LOG_SEEN, LOG_SEQ, SAFE, TAIL,
};
use crate::lock::{Guard, LockError, Owner};
use crate::log_index::LogIndex;
use crate::record::{
    HEADER_WORDS, Kind, LogPlace, Message, PLACE_WORDS, Record, Seq, Shape, Subscriber,
};
use crate::ring::{PublishError, Ring};

/// Number of records between two entries of the index.
const EVERY: usize = 64;

/// Channel of internal gap records. Applications cannot publish to it, because it starts with a control character.
const GAP_CHANNEL: &[u8] = b"\0gap";

/// Maximum number of attempts to index a ring whose records are overwritten meanwhile.
const INDEX_ATTEMPTS_MAX: usize = 4;

/// Value of `LOG_LIVE` while no record of the log is live.
const NOT_LIVE: Seq = Seq::MAX;

/// Value for the end of the log's past while the end is unknown.
pub const PAST_UNKNOWN: u64 = u64::MAX;

/// How a ring continues with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBegin {
    /// Records start after this log position.
    pub floor: LogPlace,
    /// End of the log's past. There is no past if this position is not after `floor`.
    pub past_until: u64,
    /// Readers and clients receive a gap even if the ring is empty.
    pub is_told: bool,
}

impl From<LogPlace> for LogBegin {
    /// Treats everything after `floor` as live.
    fn from(floor: LogPlace) -> LogBegin {
        LogBegin {
            floor,
            past_until: floor.seq,
            is_told: false,
        }
    }
}

impl Ring {
    /// Starts reading from a log, after `floor`. The ring's records are dropped, because their relation to the log is
    /// unknown: readers and clients receive a gap.
    ///
    /// # Errors
    /// [`LockError`]; try again.
    pub fn begin_log(&mut self, who: &Owner, begin: impl Into<LogBegin>) -> Result<(), LockError> {
        let LogBegin {
            floor,
            past_until,
            is_told,
        } = begin.into();
        let guard = self.lock(who, None)?;
        // If this process is killed from here on, its replacement finds no log and starts again.
        self.words.store_release(LOG_EPOCH, 0);
        if self.newest() != 0 || is_told {
            self.append_gap(&guard, who)?;
        }
        let head = self.words.load(HEAD);
        // Store this before the tail: a reader whose records were dropped reads the cause here.
        self.words.store(LOG_BEGUN, head);
        self.drop_all();
        self.words.store(LOG_FLOOR, floor.seq);
        self.words.store(LOG_SEQ, floor.seq);
        self.words.store(LOG_SEEN, floor.seq);
        self.words.store(LOG_PAST, past_until);
        let has_past = past_until > floor.seq;
        self.words
            .store_release(LOG_LIVE, if has_past { NOT_LIVE } else { head });
        self.words.store_release(LOG_EPOCH, floor.epoch);
        Ok(())
    }

    /// Makes the records up to a log position the log's past, for a server that starts with the history of a previous run. The
    /// position is [`PAST_UNKNOWN`] until the log has reported its end position.
    ///
    /// # Errors
    /// [`LockError`]; try again.
    pub fn begin_past(&mut self, who: &Owner, until: u64) -> Result<(), LockError> {
        let _guard = self.lock(who, None)?;
        let live = match self.words.load(LOG_SEQ) < until {
            true => NOT_LIVE,
            // The past is empty.
            false if self.past_until().is_some() => self.words.load(HEAD),
            false => return Ok(()),
        };
        self.words.store(LOG_PAST, until);
        self.words.store_release(LOG_LIVE, live);
        Ok(())
    }

    /// Ends the past: all following records are live.
    ///
    /// # Errors
    /// [`LockError`]; try again.
    pub fn end_past(&mut self, who: &Owner) -> Result<(), LockError> {
        let _guard = self.lock(who, None)?;
        self.words.store_release(LOG_LIVE, self.words.load(HEAD));
        Ok(())
    }

    /// Records that the log was read up to a position. Only the process that reads the log may call it.
    pub fn note_read(&self, seq: u64) {
        if self.words.load(LOG_SEEN) < seq {
            self.words.store_release(LOG_SEEN, seq);
        }
    }

    /// Returns the end of the log's past while it is being read, otherwise `None`.
    pub fn past_until(&self) -> Option<u64> {
        let is_past = self.words.load_acquire(LOG_LIVE) == NOT_LIVE;
        is_past.then(|| self.words.load(LOG_PAST))
    }

    /// Returns the log position up to which the log was read.
    pub(crate) fn log_read(&self) -> u64 {
        let seen = self.words.load_acquire(LOG_SEEN);
        seen.max(self.words.load(LOG_SEQ))
    }

    /// Returns true if the record after the position `seq` belongs to the log's past.
    #[inline]
    pub fn is_past(&self, seq: Seq) -> bool {
        seq.saturating_add(1) < self.words.load_acquire(LOG_LIVE)
    }

    /// Returns true if no log is known yet.
    pub fn has_no_log(&self) -> bool {
        self.log_epoch().is_none()
    }

    /// Returns a number that changes when a log starts and when its past ends.
    pub fn log_turn(&self) -> u64 {
        let [epoch, begun, live] =
            [LOG_EPOCH, LOG_BEGUN, LOG_LIVE].map(|at| self.words.load_acquire(at));
        epoch ^ begun.rotate_left(24) ^ live.rotate_left(48)
    }

    /// Returns the ring position after the log's past, as far as the past was read. Clients that receive no past records continue
    /// at this position.
    pub(crate) fn behind_past(&self, up_to: Seq) -> Seq {
        match self.words.load_acquire(LOG_LIVE) {
            NOT_LIVE => up_to,
            live => live.saturating_sub(1),
        }
    }

    /// Returns true if the present log started after the position `seq` was read.
    pub(crate) fn has_begun_after(&self, seq: Seq) -> bool {
        seq.saturating_add(1) < self.words.load_acquire(LOG_BEGUN)
    }

    /// Appends a gap record. It notifies readers that have read every record, which would not detect the gap otherwise.
    fn append_gap(&mut self, guard: &Guard, who: &Owner) -> Result<(), LockError> {
        let gap = Message {
            channel: GAP_CHANNEL,
            kind: Kind::Gap,
            name: None,
            data: b"",
        };
        let Ok(draft) = self.draft(&gap) else {
            unreachable!("a short name and no data");
        };
        match self.make_room(guard, who, draft.shape.total_words()) {
            Ok(()) => {}
            Err(PublishError::Lock(error)) => return Err(error),
            // A reader that is so far behind loses its unread records anyway.
            Err(_) => self.drop_all(),
        }
        self.append(guard, &draft, &gap, 0);
        Ok(())
    }

    fn drop_all(&mut self) {
        let head = self.words.load(HEAD);
        self.words.store_release(TAIL, head);
        self.words.store(SAFE, head);
    }

    /// Stops reading from a log. Afterwards, ids of the log are foreign.
    pub fn end_log(&mut self) {
        self.words.store_release(LOG_EPOCH, 0);
        // If the server stopped while it read the log's past, clear the past, so that it does not stay open forever.
        self.words.store_release(LOG_LIVE, 0);
    }

    /// Returns the log position that was read last; `None` if nothing was read.
    pub fn log_reached(&self) -> Option<LogPlace> {
        let epoch = self.log_epoch()?;
        let seq = self.words.load(LOG_SEQ);
        Some(LogPlace { epoch, seq })
    }

    /// Returns the time at which the log stored the record at that position; `None` if the ring does not have the record.
    pub fn log_reached_unix_ms(&mut self) -> Option<u64> {
        let reached = self.log_reached()?;
        self.bring_up_to_date()?;
        let &(from, _) = self.log_index.marks.back()?;
        let mut newest = None;
        self.for_each_place(from, self.log_index.at, |at, _| {
            newest = Some(at);
            true
        });
        let mut record = Record::empty();
        let is_there = self.copy_at(newest?, &mut record);
        let place = record.log_place().filter(|_| is_there)?;
        (place == reached).then_some(record.unix_ms)
    }

    /// Appends a record of the log. Returns `None` if the ring already has it.
    ///
    /// # Errors
    /// As [`Ring::publish`].
    pub fn publish_logged(
        &mut self,
        who: &Owner,
        message: &Message<'_>,
        except: Option<Subscriber>,
        place: LogPlace,
        unix_ms: u64,
    ) -> Result<Option<Seq>, PublishError> {
        let draft = self.draft_about(message, except, Some(place))?;
        let guard = self.lock(who, None)?;
        let is_next = self
            .log_reached()
            .is_some_and(|reached| reached.epoch == place.epoch && reached.seq < place.seq);
        if !is_next {
            return Ok(None);
        }
        self.make_room(&guard, who, draft.shape.total_words())?;
        Ok(Some(self.append(&guard, &draft, message, unix_ms)))
    }

    pub(crate) fn log_epoch(&self) -> Option<u64> {
        match self.words.load_acquire(LOG_EPOCH) {
            0 => None,
            epoch => Some(epoch),
        }
    }

    /// Returns the id of the record at a position, like [`Ids::of`]; `None` if the record was overwritten.
    pub fn id_at(&self, at: Seq) -> Option<(Ids, Seq)> {
        let shape = self.shape_at(at)?;
        let place = self.place_in(at, &shape);
        let id = place.map_or((self.ids(), at), |place| (Ids::new(place.epoch), place.seq));
        self.still_there(at).then_some(id)
    }

    /// Returns the id that precedes all records. With a log, this is the log position at which this server started.
    pub fn id_of_beginning(&self) -> (Ids, Seq) {
        match self.log_epoch() {
            Some(epoch) => (Ids::new(epoch), self.words.load(LOG_FLOOR)),
            None => (self.ids(), 0),
        }
    }

    /// Returns the log position of the record at `at`, whose shape is `shape`.
    pub(crate) fn place_in(&self, at: Seq, shape: &Shape) -> Option<LogPlace> {
        let offset = HEADER_WORDS + shape.body_words() - PLACE_WORDS;
        shape.has_place.then(|| LogPlace {
            epoch: self.word_at(at, offset),
            seq: self.word_at(at, offset + 1),
        })
    }

    /// Returns the log position of a client that has every record up to the ring position `seq`: the position before the next
    /// record. It may be newer than the client's last record, because the ring does not have each message of the log. `None`
    /// without a log.
    pub(crate) fn place_at(&mut self, seq: Seq) -> Option<LogPlace> {
        let was_past = self.past_until().is_some();
        // Load this before the past is checked again: if the past still lasts then, this position includes no live record.
        let read = self.log_read();
        let (epoch, seen) = self.bring_up_to_date()?;
        // A client that connects while the past is read does not receive it.
        if let Some(until) = self.past_until() {
            let seq = match until {
                PAST_UNKNOWN => read,
                until => until.max(read),
            };
            return Some(LogPlace { epoch, seq });
        }
        if was_past {
            // The past has ended meanwhile, perhaps after `seen` was loaded.
            return self.place_at(seq);
        }
        let index = &self.log_index;
        let mark = index.marks.partition_point(|&(at, _)| at <= seq);
        let next = match mark.checked_sub(1).and_then(|at| index.marks.get(at)) {
            // `seq` is before the oldest record, which is therefore the next one.
            None => index.marks.front().map(|&(_, before)| before + 1),
            Some(&(from, _)) => {
                let mut next = None;
                self.for_each_place(from, index.at, |at, place| {
                    next = (at > seq).then_some(place);
                    next.is_none()
                });
                next
            }
        };
        let seq = next.map_or(index.reached.max(seen), |next| next - 1);
        Some(LogPlace { epoch, seq })
    }

    /// Returns the position at which a client continues that has everything up to a log position.
    pub(crate) fn find_place(&mut self, place: LogPlace) -> IdRef {
        let seen = match self.bring_up_to_date() {
            Some((epoch, seen)) if epoch == place.epoch => seen,
            _ => return IdRef::Foreign,
        };
        if place.seq < self.words.load(LOG_FLOOR) {
            return IdRef::Past(place.seq);
        }
        let index = &self.log_index;
        if place.seq > index.reached.max(seen) {
            return IdRef::Ahead(place.seq);
        }
        // The last mark whose log position is not after the requested one.
        let mark = index
            .marks
            .partition_point(|&(_, before)| before <= place.seq);
        let Some(&(from, _)) = mark.checked_sub(1).and_then(|at| index.marks.get(at)) else {
            // Older than every record in the ring: records of the channel may be missing.
            return IdRef::Past(place.seq);
        };
        let mut found = from - 1;
        self.for_each_place(from, index.at, |at, seq| {
            if seq <= place.seq {
                found = at;
            }
            seq <= place.seq
        });
        IdRef::Seq(found)
    }

    /// Returns the ring position from which the ring has every record of the log, with the log position before it.
    pub fn oldest_of_log(&mut self) -> Option<(Seq, LogPlace)> {
        let (epoch, _) = self.bring_up_to_date()?;
        let index = &self.log_index;
        let (at, seq) = match index.marks.front() {
            Some(&(at, before)) => (at, before),
            None => (index.at, index.reached),
        };
        Some((at, LogPlace { epoch, seq }))
    }

    /// Returns the log position after which the ring's records start.
    pub(crate) fn log_floor(&self) -> Seq {
        self.words.load(LOG_FLOOR)
    }

    /// Updates the index to cover all records in the ring. Returns the log's epoch, and a log position up to which the index
    /// has all records. `None` without a log.
    fn bring_up_to_date(&mut self) -> Option<(u64, u64)> {
        let mut epoch = self.log_epoch()?;
        for _ in 0..INDEX_ATTEMPTS_MAX {
            // Load this position after the epoch, because it belongs to that epoch, and before the head: the index then has
            // every record up to it.
            let seen = self.words.load_acquire(LOG_SEEN);
            if self.update_index((epoch, seen)) {
                return Some((epoch, seen));
            }
            epoch = self.log_epoch()?;
        }
        // Publishers overwrite records faster than they are indexed.
        Some((epoch, self.log_index.reached))
    }

    /// Indexes the records of the log with this epoch. `seen`: position up to which the log was read. Returns false if a record
    /// was overwritten meanwhile.
    fn update_index(&mut self, (epoch, seen): (u64, u64)) -> bool {
        let mut index = std::mem::take(&mut self.log_index);
        let (head, tail) = (self.words.load_acquire(HEAD), self.words.load(TAIL));
        while index.marks.front().is_some_and(|&(at, _)| at < tail) {
            index.marks.pop_front();
        }
        if index.epoch != epoch || index.marks.is_empty() {
            // Derive the log position before the oldest record. If no record comes from the log, use the position that was read
            // last.
            let mut oldest = None;
            self.for_each_place(tail, head, |_, seq| {
                oldest = Some(seq);
                false
            });
            index = LogIndex {
                epoch,
                at: tail,
                reached: oldest.map_or(seen, |seq| seq - 1),
                since: EVERY,
                ..LogIndex::default()
            };
        }
        while index.at < head {
            let at = index.at;
            let Some(shape) = self.shape_at(at) else {
                break;
            };
            let place = self.place_in(at, &shape);
            if !self.still_there(at) {
                break;
            }
            if index.since == EVERY {
                index.marks.push_back((at, index.reached));
                index.since = 0;
            }
            index.since += 1;
            index.at += shape.total_words() as u64;
            if let Some(place) = place {
                index.reached = place.seq;
            }
        }
        let is_whole = index.at >= head;
        self.log_index = index;
        is_whole
    }

    /// Passes position and log position of the log's records in a range to `each`, until it returns false.
    fn for_each_place(&self, from: Seq, to: Seq, mut each: impl FnMut(Seq, u64) -> bool) {
        let mut at = from;
        while at < to {
            let Some(shape) = self.shape_at(at) else {
                return;
            };
            let place = self.place_in(at, &shape);
            if !self.still_there(at) || place.is_some_and(|place| !each(at, place.seq)) {
                return;
            }
            at += shape.total_words() as u64;
        }
    }
}
