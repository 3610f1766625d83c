//! What one client has missed, given in pieces as it takes them.
//!
//! A client that comes back may have missed more than it can take at once. Its backlog remembers channels and a place, not
//! messages: each piece is copied from the ring when there is room for it, so a slow client costs no more memory than a
//! quick one. It follows the ring until it has reached what the worker has read; from there on a subscription goes on.
//!
//! What the ring has no more the log may have, if records come from one: the backlog names the part that it needs
//! ([`crate::PastRange`]), is given it in the log's order, and goes on in the ring behind it.

use std::collections::VecDeque;

use crate::id::IdRef;
use crate::past::{FromLog, PAST_MS_MAX, Past, PastRange};
use crate::record::{LogPlace, Record, Seq};
use crate::ring::Ring;

/// Positions remembered between two pieces: 8 KiB per client at most. More of them save walks along the channel's
/// links, which begin at the newest record.
const FOUND_MAX: usize = 1024;

/// How many milliseconds a client waits for this machine to reach the place in the log that it has seen on another one, before it is told
/// that something may be missing.
pub const AHEAD_MS_MAX: u64 = 2_000;

/// What comes next for the client.
#[derive(Debug)]
pub enum Missed<'a> {
    /// A record, in ascending order of sequence numbers.
    Record(&'a Record),
    /// Records before the next one are gone for ever, or beyond the bounds on count and age.
    Gap,
}

/// The way of one client through what it has missed.
#[derive(Debug)]
pub struct Backlog {
    channels: Box<[Box<[u8]>]>,
    /// Everything up to here was given, or told to be missing.
    after: Seq,
    /// The next records, newest first.
    found: Vec<Seq>,
    /// Records up to here were given or are in `found`.
    found_up_to: Seq,
    /// Set by the first look: they bound how far back a client may come, not how slowly it may read.
    bounds: Option<Bounds>,
    /// The last thing given was a gap: another one would tell nothing new.
    in_gap: bool,
    /// The client is ahead of this machine: the place that it has seen, and until when that is waited for, set by the first look.
    ahead: Option<(LogPlace, Option<u64>)>,
    /// A place in the log up to which everything was given, as far as one is known.
    place: Option<LogPlace>,
    /// What comes from the log next, before the ring goes on.
    past: Option<PastRange>,
    /// Until when that is waited for.
    past_until_ms: Option<u64>,
    /// A record was given.
    has_begun: bool,
}

/// Where history began when a client came. The newest record of the ring counts, not how far this worker had read.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Of what is up to here, only so many records of each channel are history.
    newest: Seq,
    /// Of what is up to there, records before this moment are none.
    oldest_ms: u64,
}

impl Backlog {
    /// What was published to `channels` after `after`, within the ring's bounds on count and age.
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
        }
    }

    /// What a client has missed that gives an id: what [`Ring::parse_id`] and [`Ring::place_of_id`] say of it. `None` for one that
    /// says nothing of where it is: everything that it missed is a gap.
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

    /// What is published to `channels` after a place in the log that the ring has not reached ([`IdRef::Ahead`]).
    pub fn ahead(channels: &[&[u8]], place: LogPlace) -> Backlog {
        Backlog {
            ahead: Some((place, None)),
            ..Backlog::new(channels, 0)
        }
    }

    /// Whether it waits for the ring to come where the client is, or for what the log has; there is nothing to give before.
    pub fn is_waiting(&self) -> bool {
        self.ahead.is_some() || self.past_until_ms.is_some()
    }

    /// Whether a record was given: what is lost after that, the client has lost by reading too slowly.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Until when it waits for that; `None` when it does not, or has not been looked at.
    pub fn waits_until(&self) -> Option<u64> {
        self.ahead
            .and_then(|(_, until_ms)| until_ms)
            .or(self.past_until_ms)
    }

    /// Lets the wait begin anew: this machine is known to be behind, so nothing is known to be missing.
    pub fn wait_anew(&mut self) {
        if let Some((_, until_ms)) = &mut self.ahead {
            *until_ms = None;
        }
        if let Some(until_ms) = &mut self.past_until_ms {
            *until_ms = u64::MAX;
        }
    }

    /// Its channels.
    pub fn channels(&self) -> impl Iterator<Item = &[u8]> {
        self.channels.iter().map(|channel| &**channel)
    }

    fn go_on_after(&mut self, after: Seq) {
        self.ahead = None;
        self.after = after;
        self.found_up_to = after;
    }

    /// Whether everything up to `seq` has been given, and nothing after it. A worker whose reader stands there may go on
    /// with a subscription; one that stands before it has to read on first.
    pub fn is_at(&self, seq: Seq) -> bool {
        self.found.is_empty() && self.after == seq && self.ahead.is_none() && self.past.is_none()
    }
}

/// What the ring has for a backlog.
enum Found {
    /// Everything.
    All,
    /// There is more, which is not history any more.
    Bounded,
    /// There may be more, and so many records of it are history.
    OutOfReach { count_max: usize },
}

impl Backlog {
    /// Gives what the log has of what comes next. `false` when it is waited for, or `each` has enough.
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
                    (!std::mem::replace(&mut self.in_gap, true)).then_some(Missed::Gap)
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
                    (!std::mem::replace(&mut self.in_gap, true)).then_some(Missed::Gap)
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
    /// Gives the next records of the backlog up to and including `up_to` ([`crate::Reader::read_up_to`]), until `each` returns
    /// false because it has enough. When [`Backlog::is_at`]`(up_to)` then, a subscription goes on without loss or repetition.
    pub fn next_missed(
        &mut self,
        backlog: &mut Backlog,
        up_to: Seq,
        unix_ms: u64,
        each: &mut dyn FnMut(Missed<'_>) -> bool,
    ) {
        self.next_missed_of_log(backlog, None, (up_to, unix_ms), each);
    }

    /// The same with what `log` has of what the ring does not have.
    pub fn next_missed_of_log(
        &mut self,
        backlog: &mut Backlog,
        log: Option<&mut dyn FromLog>,
        (up_to, unix_ms): (Seq, u64),
        each: &mut dyn FnMut(Missed<'_>) -> bool,
    ) {
        if let Some((place, until_ms)) = backlog.ahead {
            let until_ms = until_ms.unwrap_or(unix_ms + AHEAD_MS_MAX);
            match self.find_place(place) {
                IdRef::Seq(after) if after <= up_to => backlog.go_on_after(after),
                // The ring has lost it while it was waited for.
                IdRef::Past(_) => {
                    backlog.go_on_after(0);
                    backlog.place = Some(place);
                }
                IdRef::Seq(_) | IdRef::Ahead(_) if unix_ms < until_ms => {
                    backlog.ahead = Some((place, Some(until_ms)));
                    return;
                }
                _ => {
                    backlog.go_on_after(up_to);
                    each(Missed::Gap);
                    return;
                }
            }
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
            // A range is only made where there is a log.
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
                    // Overwritten since it was found, and so may be others: the log may have them.
                    backlog.found.clear();
                    backlog.found_up_to = backlog.after;
                    true
                } else {
                    // The same; look again behind it.
                    backlog.found.clear();
                    backlog.found_up_to = at;
                    std::mem::replace(&mut backlog.in_gap, true) || each(Missed::Gap)
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
            if !is_whole && !std::mem::replace(&mut backlog.in_gap, true) && !each(Missed::Gap) {
                return;
            }
        }
    }

    /// What lies before the ring is to come from the log, from where the client is up to where the ring begins. `false` when the
    /// client's place in this log is not known, or history ends before. `after` is where it was in the ring.
    fn find_past(&mut self, backlog: &mut Backlog, after: Seq, count_max: usize) -> bool {
        let (Some(place), Some((at, begin))) = (backlog.place, self.oldest_of_log()) else {
            return false;
        };
        // A channel may also be out of reach because there are too many records of others in its bucket.
        let is_stuck = at - 1 < after || at - 1 == after && place.seq >= begin.seq;
        if place.epoch != begin.epoch || count_max == 0 || is_stuck {
            return false;
        }
        // The ring is gone through from there again, when the log has given its part.
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

    /// Finds the next records.
    fn find_missed(&self, backlog: &mut Backlog, up_to: Seq, unix_ms: u64) -> Found {
        let is_first = backlog.bounds.is_none();
        let bounds = *backlog.bounds.get_or_insert_with(|| Bounds {
            newest: self.newest(),
            oldest_ms: unix_ms.saturating_sub(self.history_age_ms_max),
        });
        let (mut is_whole, mut is_all, mut is_cut) = (true, true, false);
        let mut count_min = usize::MAX;
        // What this machine began behind it has never had.
        let is_before_floor = backlog.after == 0
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
            // What lies beyond the bounds was told by the first look.
            is_whole &= is_found || is_bounded && !is_first;
            is_cut |= is_bounded && is_first;
            count_min = count_min.min(count);
            backlog.found.extend(&oldest);
        }
        backlog.found.sort_unstable_by(|a, b| b.cmp(a));
        // The oldest of all channels come first, so what was left out of one lies behind what is kept of all.
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
            // Once what the client has missed is bounded, it is only read on slowly.
            false if !is_first => Found::OutOfReach {
                count_max: self.history_count_max,
            },
            false => Found::OutOfReach {
                count_max: self.history_count_max - count_min.min(self.history_count_max),
            },
        }
    }
}
