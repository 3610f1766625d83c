//! Delivers the records that one client has missed, in pieces.
//!
//! A reconnecting client may have missed more bytes than its connection accepts. Its backlog stores channels and a position, not
//! messages. Each piece is copied from the ring when there is room for it, so a slow client costs no more memory than a fast one.
//! The backlog follows the ring until it has reached the worker's reader; from there a subscription takes over.
//!
//! If records come from a log, the log may still have records that the ring has overwritten. The backlog then describes the part of
//! the log that it needs ([`crate::PastRange`]), receives this part in the log's order, and then continues in the ring.

use std::collections::VecDeque;

use crate::id::IdRef;
use crate::log::PAST_UNKNOWN;
use crate::past::{FromLog, PAST_MS_MAX, Past, PastRange};
use crate::record::{LogPlace, Record, Seq};
use crate::ring::Ring;

/// Maximum number of positions stored between two pieces: 8 KiB per client. A larger number saves walks along the
/// channel's links, which start at the newest record.
const FOUND_MAX: usize = 1024;

/// Maximum time in milliseconds that a client waits for this server to reach the log position that the client received from another
/// server. Afterwards the client receives a gap.
pub const AHEAD_MS_MAX: u64 = 2_000;

/// The position before all records of whatever log the ring has. No log has this epoch.
const START_OF_LOG: LogPlace = LogPlace { epoch: 0, seq: 0 };

/// The next item for the client.
#[derive(Debug)]
pub enum Missed<'a> {
    /// A record, in ascending order of sequence numbers.
    Record(&'a Record),
    /// Records before the next record are lost, or exceed the limits on count and age.
    Gap {
        /// The log lost the records after the client connected: it was created again, or has removed records that were not read.
        is_of_log: bool,
    },
}

/// Progress of one client through its missed records.
#[derive(Debug)]
pub struct Backlog {
    channels: Box<[Box<[u8]>]>,
    /// Position up to which every record was delivered, or reported as missing.
    after: Seq,
    /// The next records, newest first.
    found: Vec<Seq>,
    /// Position up to which every record was delivered or is in `found`.
    found_up_to: Seq,
    /// Start of history, set when a client without an id connects, otherwise at the first search. It limits how far back a client may resume, not how slowly it may read.
    bounds: Option<Bounds>,
    /// The last item was a gap, so another gap would be redundant.
    in_gap: bool,
    /// Set while the client is ahead of this server: its log position, and the deadline, which the first call of `next_missed`
    /// sets.
    ahead: Option<(LogPlace, Option<u64>)>,
    /// A log position up to which every record was delivered; `None` = unknown.
    place: Option<LogPlace>,
    /// Records to read from the log before those of the ring; `None` = none.
    past: Option<PastRange>,
    /// Deadline for the log's records.
    past_until_ms: Option<u64>,
    /// A record was delivered.
    has_begun: bool,
    /// The client received a gap that covers the log's past, so it receives no records of the past.
    skips_past: bool,
    /// Position up to which the log was read when the client connected. Set only if the end of the log's past was unknown then.
    early: Option<u64>,
    /// The caller has reported that the log is unavailable; applies to the next call.
    is_doubted: bool,
}

/// Start of history when a client connected. It depends on the ring's newest record, not on the worker's reader.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Position up to which `history_count_max` limits the records of each channel.
    newest: Seq,
    /// Records up to `newest` that are older than this time are not history.
    oldest_ms: u64,
}

impl Backlog {
    /// Creates a backlog of records published to `channels` after `after`, within the ring's limits on count and age.
    pub fn new(channels: &[&[u8]], after: Seq) -> Backlog {
        Backlog {
            channels: channels.iter().map(|&channel| channel.into()).collect(),
            after,
            found: Vec::new(),
            found_up_to: after,
            bounds: None,
            in_gap: false,
            ahead: None,
            place: None,
            past: None,
            past_until_ms: None,
            has_begun: false,
            skips_past: false,
            early: None,
            is_doubted: false,
        }
    }

    /// Creates a backlog of records published to `channels` from now on. `newest` is the ring's newest record. Records
    /// of a log's past are not delivered.
    pub fn from_now(channels: &[&[u8]], newest: Seq) -> Backlog {
        Backlog {
            skips_past: true,
            // The limits of history do not apply: the client connected before every record that it receives.
            bounds: Some(Bounds {
                newest,
                oldest_ms: 0,
            }),
            ..Backlog::new(channels, newest)
        }
    }

    /// Creates a backlog for a client that sent an id, from the results of [`Ring::parse_id`] and [`Ring::place_of_id`]. Returns
    /// `None` if the id does not determine a position. The client then receives a gap instead of the missed records.
    pub fn since(channels: &[&[u8]], id: IdRef, place: Option<LogPlace>) -> Option<Backlog> {
        let after = match (id, place) {
            (IdRef::Ahead(_), Some(place)) => return Some(Backlog::ahead(channels, place)),
            (IdRef::Seq(after), _) => after,
            (IdRef::Past(_), Some(_)) => 0,
            _ => return None,
        };
        Some(Backlog {
            place,
            ..Backlog::new(channels, after)
        })
    }

    /// Creates a backlog of records published to `channels` after a log position that the ring has not reached
    /// ([`IdRef::Ahead`]).
    pub fn ahead(channels: &[&[u8]], place: LogPlace) -> Backlog {
        Backlog {
            ahead: Some((place, None)),
            ..Backlog::new(channels, 0)
        }
    }

    /// Creates a backlog of all records published to `channels` that the ring or its log has. It waits while no log is
    /// known.
    pub fn from_start_of_log(channels: &[&[u8]]) -> Backlog {
        Backlog::ahead(channels, START_OF_LOG)
    }

    /// Returns true if the backlog waits for the ring to reach the client's position, or for the log. No record can be delivered
    /// before.
    pub fn is_waiting(&self) -> bool {
        self.ahead.is_some() || self.past_until_ms.is_some()
    }

    /// Returns true if a record was delivered. A later loss is then caused by the client's slow reading.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Returns the deadline of that wait; `None` if the backlog does not wait, or was never read.
    pub fn waits_until(&self) -> Option<u64> {
        self.ahead
            .and_then(|(_, until_ms)| until_ms)
            .or(self.past_until_ms)
    }

    /// Restarts the wait: this server is still reading the log, so no record is known to be missing.
    pub fn wait_anew(&mut self) {
        self.is_doubted = true;
        if let Some((_, until_ms)) = &mut self.ahead {
            *until_ms = None;
        }
        if let Some(until_ms) = &mut self.past_until_ms {
            *until_ms = u64::MAX;
        }
    }

    /// Returns the channels of the backlog.
    pub fn channels(&self) -> impl Iterator<Item = &[u8]> {
        self.channels.iter().map(|channel| &**channel)
    }

    /// Returns true if a different log began after the client connected. If the same log began again, the client continues at its
    /// position in that log.
    fn has_lost_log(&self, ring: &Ring) -> bool {
        let connected = self.bounds.map(|bounds| bounds.newest);
        let is_other = |place: LogPlace| ring.log_epoch() != Some(place.epoch);
        connected.is_some_and(|newest| ring.has_begun_after(newest))
            && self.place.is_none_or(is_other)
    }

    /// Skips the log's past as far as it was read. Returns true if the past has ended and contains messages that were published
    /// after the client connected.
    fn skip_past(&mut self, ring: &Ring, up_to: Seq) -> bool {
        // Read the two values in this order: if the past ends in between, the next call skips it.
        let until = ring.past_until();
        let behind = ring.behind_past(up_to);
        if until == Some(PAST_UNKNOWN) {
            self.early.get_or_insert(ring.log_read());
        }
        self.skips_past = until.is_some();
        if self.after < behind {
            self.found.clear();
            (self.after, self.found_up_to) = (behind, behind);
        }
        (self.past, self.past_until_ms) = (None, None);
        let early = self.early.take_if(|_| !self.skips_past);
        early.is_some_and(|read| read < ring.log_read())
    }

    /// Continues after the ring position `seq`: a subscription has shown that no record up to there was published to the channels
    /// since the last one that was delivered.
    pub fn skip_to(&mut self, ring: &mut Ring, seq: Seq) {
        if self.after >= seq || !self.found.is_empty() || self.is_waiting() {
            return;
        }
        (self.after, self.found_up_to) = (seq, seq);
        if self.place.is_some() {
            self.place = ring.place_at(seq);
        }
    }

    fn go_on_after(&mut self, after: Seq) {
        self.ahead = None;
        self.after = after;
        self.found_up_to = after;
    }

    /// Returns true if every record up to `seq`, and no later one, was delivered. If the worker's reader is at `seq`, a
    /// subscription may take over. Otherwise the worker has to read the ring up to `seq` first.
    pub fn is_at(&self, seq: Seq) -> bool {
        self.found.is_empty() && self.after == seq && self.ahead.is_none() && self.past.is_none()
    }
}

/// Result of a search in the ring.
enum Found {
    /// All missed records are in the ring.
    All,
    /// Older records exist, but exceed the limits of history.
    Bounded,
    /// Older records may exist outside of the ring; up to `count_max` of them are history.
    OutOfReach { count_max: usize },
}

impl Backlog {
    /// Delivers the next records from the log. Returns false if the caller has to wait for them, or if `each` returned false.
    fn give_past(
        &mut self,
        log: &mut dyn FromLog,
        unix_ms: u64,
        record: &mut Record,
        each: &mut dyn FnMut(Missed<'_>) -> bool,
    ) -> bool {
        while let Some(range) = &mut self.past {
            let is_late = self
                .past_until_ms
                .is_some_and(|until_ms| until_ms <= unix_ms);
            let missed = match log.next(&self.channels, range, record) {
                Past::Record => {
                    range.after = record.log_place().unwrap_or(range.after);
                    (self.in_gap, self.has_begun) = (false, true);
                    Some(Missed::Record(record))
                }
                Past::Gap { up_to } => {
                    range.after.seq = up_to;
                    (!std::mem::replace(&mut self.in_gap, true))
                        .then_some(Missed::Gap { is_of_log: false })
                }
                Past::End { up_to } => {
                    range.after.seq = up_to;
                    None
                }
                Past::Waiting if !is_late => {
                    let until_ms = self.past_until_ms.filter(|until_ms| *until_ms != u64::MAX);
                    self.past_until_ms = Some(until_ms.unwrap_or(unix_ms + PAST_MS_MAX));
                    return false;
                }
                Past::Waiting => {
                    range.after.seq = range.up_to;
                    (!std::mem::replace(&mut self.in_gap, true))
                        .then_some(Missed::Gap { is_of_log: false })
                }
            };
            self.place = Some(range.after);
            self.past_until_ms = None;
            if range.after.seq >= range.up_to {
                self.past = None;
            }
            if missed.is_some_and(|missed| !each(missed)) {
                return false;
            }
        }
        true
    }
}

impl Ring {
    /// Delivers the next records of the backlog up to and including `up_to` ([`crate::Reader::read_up_to`]), until
    /// `each` returns false. If [`Backlog::is_at`]`(up_to)` holds afterwards, a subscription can take over without loss
    /// or repetition.
    pub fn next_missed(
        &mut self,
        backlog: &mut Backlog,
        up_to: Seq,
        unix_ms: u64,
        each: &mut dyn FnMut(Missed<'_>) -> bool,
    ) {
        self.next_missed_of_log(backlog, None, (up_to, unix_ms), each);
    }

    /// Like [`Ring::next_missed`], but reads records that the ring has overwritten from `log`.
    pub fn next_missed_of_log(
        &mut self,
        backlog: &mut Backlog,
        log: Option<&mut dyn FromLog>,
        (up_to, unix_ms): (Seq, u64),
        each: &mut dyn FnMut(Missed<'_>) -> bool,
    ) {
        if let Some((place, until_ms)) = backlog.ahead {
            let is_doubted = std::mem::take(&mut backlog.is_doubted);
            let until_ms = until_ms.unwrap_or(unix_ms + AHEAD_MS_MAX);
            let found = match (place, self.log_epoch()) {
                (START_OF_LOG, Some(epoch)) => LogPlace { epoch, seq: 0 },
                _ => place,
            };
            let has_no_log = place == START_OF_LOG || self.has_no_log();
            match self.find_place(found) {
                IdRef::Seq(after) if after <= up_to => {
                    backlog.go_on_after(after);
                    backlog.place = Some(found);
                }
                // No log is known yet, or the caller knows that the log is unavailable. The id may belong to the next log.
                IdRef::Foreign if is_doubted || has_no_log && unix_ms < until_ms => {
                    backlog.ahead = Some((place, Some(until_ms)));
                    return;
                }
                // The ring overwrote the position during the wait.
                IdRef::Past(_) => {
                    backlog.go_on_after(0);
                    backlog.place = Some(found);
                }
                IdRef::Seq(_) | IdRef::Ahead(_) if unix_ms < until_ms => {
                    backlog.ahead = Some((place, Some(until_ms)));
                    return;
                }
                _ => {
                    backlog.go_on_after(up_to);
                    backlog.skip_past(self, up_to);
                    each(Missed::Gap { is_of_log: false });
                    return;
                }
            }
        }
        if backlog.has_lost_log(self) {
            // The worker's reader has to reach the new log first, so that its subscribers receive the same gap.
            if self.has_begun_after(up_to) {
                return;
            }
            let newest = self.newest();
            if let Some(bounds) = &mut backlog.bounds {
                bounds.newest = newest;
            }
            backlog.place = None;
            backlog.found.clear();
            backlog.skip_past(self, up_to);
            if !std::mem::replace(&mut backlog.in_gap, true)
                && !each(Missed::Gap { is_of_log: true })
            {
                return;
            }
        }
        if backlog.skips_past
            && backlog.skip_past(self, up_to)
            && !std::mem::replace(&mut backlog.in_gap, true)
            && !each(Missed::Gap { is_of_log: true })
        {
            return;
        }
        let mut record = std::mem::replace(&mut self.record, Record::empty());
        self.give_missed(backlog, log, (up_to, unix_ms), &mut record, each);
        self.record = record;
    }

    fn give_missed(
        &mut self,
        backlog: &mut Backlog,
        mut log: Option<&mut dyn FromLog>,
        (up_to, unix_ms): (Seq, u64),
        record: &mut Record,
        each: &mut dyn FnMut(Missed<'_>) -> bool,
    ) {
        loop {
            // A range exists only if there is a log, so there is a log in this branch.
            if let Some(log) = &mut log
                && !backlog.give_past(&mut **log, unix_ms, record, each)
            {
                return;
            }
            while let Some(&at) = backlog.found.last() {
                let is_there = self.copy_at(at, record);
                let wants_more = if is_there {
                    backlog.found.pop();
                    (backlog.in_gap, backlog.has_begun) = (false, true);
                    backlog.place = record.log_place().or(backlog.place);
                    each(Missed::Record(record))
                } else if log.is_some() && backlog.place.is_some() {
                    // The record was overwritten after it was found, and others may be overwritten too. Read them from the log.
                    backlog.found.clear();
                    backlog.found_up_to = backlog.after;
                    true
                } else {
                    // The record was overwritten, and there is no log. Report a gap and search again after it.
                    backlog.found.clear();
                    backlog.found_up_to = at;
                    let gap = Missed::Gap { is_of_log: false };
                    std::mem::replace(&mut backlog.in_gap, true) || each(gap)
                };
                backlog.after = if backlog.found.is_empty() {
                    backlog.found_up_to
                } else {
                    at
                };
                if !wants_more {
                    return;
                }
            }
            if backlog.after >= up_to {
                return;
            }
            let after = backlog.after;
            let found = self.find_missed(backlog, up_to, unix_ms);
            let is_whole = match found {
                Found::All => true,
                Found::Bounded => false,
                Found::OutOfReach { count_max } => {
                    log.is_some() && self.find_past(backlog, after, count_max)
                }
            };
            let gap = Missed::Gap { is_of_log: false };
            if !is_whole && !std::mem::replace(&mut backlog.in_gap, true) && !each(gap) {
                return;
            }
        }
    }

    /// Sets the range to read from the log: from the client's position to the start of the ring. `after` is the client's position
    /// in the ring. Returns false if the client's position in this log is unknown, or history does not reach back before the ring's
    /// start.
    fn find_past(&mut self, backlog: &mut Backlog, after: Seq, count_max: usize) -> bool {
        let (Some(place), Some((at, begin))) = (backlog.place, self.oldest_of_log()) else {
            return false;
        };
        // A channel may also be out of reach because its bucket contains too many records of other channels.
        let is_stuck = at - 1 < after || at - 1 == after && place.seq >= begin.seq;
        if place.epoch != begin.epoch || count_max == 0 || is_stuck {
            return false;
        }
        // Search the ring again from its start after the log's part.
        backlog.found.clear();
        backlog.after = at - 1;
        backlog.found_up_to = at - 1;
        backlog.past = (place.seq < begin.seq).then(|| PastRange {
            after: place,
            up_to: begin.seq,
            count_max,
            oldest_ms: backlog.bounds.map_or(0, |bounds| bounds.oldest_ms),
        });
        true
    }

    /// Finds the next records in the ring.
    fn find_missed(&self, backlog: &mut Backlog, up_to: Seq, unix_ms: u64) -> Found {
        let is_first = backlog.bounds.is_none();
        let bounds = *backlog.bounds.get_or_insert_with(|| Bounds {
            newest: self.newest(),
            oldest_ms: unix_ms.saturating_sub(self.history_age_ms_max),
        });
        let (mut is_whole, mut is_all, mut is_cut) = (true, true, false);
        let mut count_min = usize::MAX;
        // The server never had records before the floor of its log.
        let is_before_floor = (backlog.after == 0 || self.has_begun_after(backlog.after))
            && backlog
                .place
                .is_some_and(|place| place.seq < self.log_floor());
        let mut oldest = VecDeque::new();
        for channel in &backlog.channels {
            let (mut count, mut is_bounded) = (0, false);
            oldest.clear();
            let newest = bounds.newest.max(up_to);
            let is_found = self.walk(channel, backlog.after, newest, |at, _, time| {
                if at <= bounds.newest {
                    is_bounded = time < bounds.oldest_ms || count == self.history_count_max;
                    if is_bounded {
                        return false;
                    }
                    count += 1;
                }
                if at > up_to {
                    return true;
                }
                if oldest.len() == FOUND_MAX {
                    oldest.pop_front();
                    is_all = false;
                }
                oldest.push_back(at);
                true
            });
            // Records beyond the limits were reported at the first search.
            is_whole &= is_found || is_bounded && !is_first;
            is_cut |= is_bounded && is_first;
            count_min = count_min.min(count);
            backlog.found.extend(&oldest);
        }
        backlog.found.sort_unstable_by(|a, b| b.cmp(a));
        // Keep the oldest records over all channels. A dropped record of one channel is then newer than every kept record.
        let surplus = backlog.found.len().saturating_sub(FOUND_MAX);
        backlog.found.drain(..surplus);
        backlog.found.shrink_to_fit();
        backlog.found_up_to = match backlog.found.first() {
            Some(&newest) if !is_all || surplus > 0 => newest,
            _ => up_to,
        };
        if backlog.found.is_empty() {
            backlog.after = up_to;
        }
        match is_whole && !is_before_floor {
            true => Found::All,
            false if is_cut => Found::Bounded,
            // After the first search, the limits no longer apply: the client only reads slowly.
            false if !is_first => Found::OutOfReach {
                count_max: self.history_count_max,
            },
            false => Found::OutOfReach {
                count_max: self.history_count_max - count_min.min(self.history_count_max),
            },
        }
    }
}
