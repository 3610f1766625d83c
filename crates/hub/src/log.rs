//! Records that come from a log which several machines share: their places there, and where those lie in this ring.
//!
//! One process per machine reads the log and appends what it says in its order ([`Ring::publish_logged`]). The ring remembers
//! how far it has come, in the same step that publishes a record, so whoever reads on after a death misses and repeats nothing.
//! An event's id is its place in the log, which is the same on every machine; a cursor is a position in this ring as ever.
//!
//! Positions of places are found by an index that each process keeps for itself and brings up to date when it is asked: it
//! has every [`EVERY`]th record that the ring still holds, and costs nothing where nobody asks.

use crate::id::{IdRef, Ids};
use crate::layout::{HEAD, LOG_EPOCH, LOG_FLOOR, LOG_SEQ, SAFE, TAIL};
use crate::lock::{Guard, LockError, Owner};
use crate::log_index::LogIndex;
use crate::record::{
    HEADER_WORDS, Kind, LogPlace, Message, PLACE_WORDS, Record, Seq, Shape, Subscriber,
};
use crate::ring::{PublishError, Ring};

/// Records between two that the index has.
const EVERY: usize = 64;

/// Programs cannot name it: it begins with a control character.
const GAP_CHANNEL: &[u8] = b"\0gap";

impl Ring {
    /// Says that what follows comes from a log, from behind `floor` on. What the ring holds is dropped, since nobody knows how
    /// it stands to the log: readers and clients get a gap.
    ///
    /// # Errors
    /// [`LockError`]; try again.
    pub fn begin_log(&mut self, who: &Owner, floor: LogPlace) -> Result<(), LockError> {
        let guard = self.lock(who, None)?;
        // The process that takes over from here on finds no log, and begins it anew.
        self.words.store_release(LOG_EPOCH, 0);
        if self.newest() != 0 {
            self.append_gap(&guard, who)?;
        }
        self.drop_all();
        self.words.store(LOG_FLOOR, floor.seq);
        self.words.store(LOG_SEQ, floor.seq);
        self.words.store_release(LOG_EPOCH, floor.epoch);
        Ok(())
    }

    /// By this record a reader that has read everything, and so loses nothing, learns of the gap as well.
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
            // A reader that far behind loses what it has not read in any case.
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

    /// Says that what follows does not come from a log. Ids of the log are foreign from now on.
    pub fn end_log(&mut self) {
        self.words.store_release(LOG_EPOCH, 0);
    }

    /// How far the log was read; `None` when nothing of it was.
    pub fn log_reached(&self) -> Option<LogPlace> {
        let epoch = self.log_epoch()?;
        let seq = self.words.load(LOG_SEQ);
        Some(LogPlace { epoch, seq })
    }

    /// When the log has stored the record of that place; `None` when the ring does not have it.
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

    /// Appends a record that comes from the log. `None`: the ring has it.
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

    /// The id of the record at a position, as [`Ids::of`] makes it; `None`: it is not kept any more.
    pub fn id_at(&self, at: Seq) -> Option<(Ids, Seq)> {
        let shape = self.shape_at(at)?;
        let place = self.place_in(at, &shape);
        let id = place.map_or((self.ids(), at), |place| (Ids::new(place.epoch), place.seq));
        self.still_there(at).then_some(id)
    }

    /// The id of what was before everything: of the log's part that this machine began with, if there is a log.
    pub fn id_of_beginning(&self) -> (Ids, Seq) {
        match self.log_epoch() {
            Some(epoch) => (Ids::new(epoch), self.words.load(LOG_FLOOR)),
            None => (self.ids(), 0),
        }
    }

    /// The place in the log of the record at `at`, whose shape this is.
    pub(crate) fn place_in(&self, at: Seq, shape: &Shape) -> Option<LogPlace> {
        let offset = HEADER_WORDS + shape.body_words() - PLACE_WORDS;
        shape.has_place.then(|| LogPlace {
            epoch: self.word_at(at, offset),
            seq: self.word_at(at, offset + 1),
        })
    }

    /// The newest place in the log of what lies up to position `seq`. `None` without a log.
    pub(crate) fn place_at(&mut self, seq: Seq) -> Option<LogPlace> {
        let epoch = self.bring_up_to_date()?;
        let index = &self.log_index;
        let mark = index.marks.partition_point(|&(at, _)| at <= seq);
        let Some(&(from, before)) = mark.checked_sub(1).and_then(|at| index.marks.get(at)) else {
            // Before everything that is kept.
            let oldest = index.marks.front();
            let before = oldest.map_or(index.reached, |&(_, before)| before);
            return Some(LogPlace { epoch, seq: before });
        };
        let mut reached = before;
        self.for_each_place(from, index.at, |at, place| {
            if at <= seq {
                reached = place;
            }
            at <= seq
        });
        let seq = reached;
        Some(LogPlace { epoch, seq })
    }

    /// Where a client goes on that has everything up to a place of this log.
    pub(crate) fn find_place(&mut self, place: LogPlace) -> IdRef {
        if self.bring_up_to_date() != Some(place.epoch) {
            return IdRef::Foreign;
        }
        if place.seq < self.words.load(LOG_FLOOR) {
            return IdRef::Past(place.seq);
        }
        let index = &self.log_index;
        if place.seq > index.reached {
            return IdRef::Ahead(place.seq);
        }
        // The last mark before which everything was up to the place.
        let mark = index
            .marks
            .partition_point(|&(_, before)| before <= place.seq);
        let Some(&(from, _)) = mark.checked_sub(1).and_then(|at| index.marks.get(at)) else {
            // Older than everything that is kept: what lies between is missing here if the channel has something there.
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

    /// From where on the ring surely has everything of the log: a position, and the place before it.
    pub fn oldest_of_log(&mut self) -> Option<(Seq, LogPlace)> {
        let epoch = self.bring_up_to_date()?;
        let index = &self.log_index;
        let (at, seq) = match index.marks.front() {
            Some(&(at, before)) => (at, before),
            None => (index.at, index.reached),
        };
        Some((at, LogPlace { epoch, seq }))
    }

    /// The place behind which the ring's records of the log begin.
    pub(crate) fn log_floor(&self) -> Seq {
        self.words.load(LOG_FLOOR)
    }

    /// Has the index cover everything that the ring holds. The log's epoch; `None` without a log.
    fn bring_up_to_date(&mut self) -> Option<u64> {
        let epoch = self.log_epoch()?;
        let mut index = std::mem::take(&mut self.log_index);
        let (head, tail) = (self.words.load_acquire(HEAD), self.words.load(TAIL));
        while index.marks.front().is_some_and(|&(at, _)| at < tail) {
            index.marks.pop_front();
        }
        if index.epoch != epoch || index.marks.is_empty() {
            // What was reached before the oldest record. When none of them comes from the log, all of the log was reached.
            let mut oldest = None;
            self.for_each_place(tail, head, |_, seq| {
                oldest = Some(seq);
                false
            });
            index = LogIndex {
                epoch,
                at: tail,
                reached: oldest.map_or_else(|| self.words.load(LOG_SEQ), |seq| seq - 1),
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
        self.log_index = index;
        Some(epoch)
    }

    /// Gives position and place of the records that come from the log, from a position up to another, while `each` wants more.
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
