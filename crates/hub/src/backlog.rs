//! What one client has missed, given in pieces as it takes them.
//!
//! A client that comes back may have missed more than it can take at once. Its backlog remembers channels and a place, not
//! messages: each piece is copied from the ring when there is room for it, so a slow client costs no more memory than a
//! quick one. It follows the ring until it has reached what the worker has read; from there on a subscription goes on.

use std::collections::VecDeque;

use crate::id::IdRef;
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
        }
    }

    /// What is published to `channels` after a place in the log that the ring has not reached ([`IdRef::Ahead`]).
    pub fn ahead(channels: &[&[u8]], place: LogPlace) -> Backlog {
        Backlog {
            ahead: Some((place, None)),
            ..Backlog::new(channels, 0)
        }
    }

    /// Whether it waits for the ring to come where the client is; there is nothing to give before.
    pub fn is_waiting(&self) -> bool {
        self.ahead.is_some()
    }

    /// Until when it waits for that; `None` when it does not, or has not been looked at.
    pub fn waits_until(&self) -> Option<u64> {
        self.ahead.and_then(|(_, until_ms)| until_ms)
    }

    /// Lets the wait begin anew: this machine is known to be behind, so nothing is known to be missing.
    pub fn wait_anew(&mut self) {
        if let Some((_, until_ms)) = &mut self.ahead {
            *until_ms = None;
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
        self.found.is_empty() && self.after == seq && self.ahead.is_none()
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
        if let Some((place, until_ms)) = backlog.ahead {
            let until_ms = until_ms.unwrap_or(unix_ms + AHEAD_MS_MAX);
            match self.find_place(place) {
                IdRef::Seq(after) if after <= up_to => backlog.go_on_after(after),
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
        self.give_missed(backlog, up_to, unix_ms, &mut record, each);
        self.record = record;
    }

    fn give_missed(
        &self,
        backlog: &mut Backlog,
        up_to: Seq,
        unix_ms: u64,
        record: &mut Record,
        each: &mut dyn FnMut(Missed<'_>) -> bool,
    ) {
        loop {
            while let Some(&at) = backlog.found.last() {
                let is_there = self.copy_at(at, record);
                let wants_more = if is_there {
                    backlog.found.pop();
                    backlog.in_gap = false;
                    each(Missed::Record(record))
                } else {
                    // Overwritten since it was found, and so may be others: look again behind it.
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
            let is_whole = self.find_missed(backlog, up_to, unix_ms);
            if !is_whole && !std::mem::replace(&mut backlog.in_gap, true) && !each(Missed::Gap) {
                return;
            }
        }
    }

    /// Finds the next records. `false` when some before them are out of reach.
    fn find_missed(&self, backlog: &mut Backlog, up_to: Seq, unix_ms: u64) -> bool {
        let is_first = backlog.bounds.is_none();
        let bounds = *backlog.bounds.get_or_insert_with(|| Bounds {
            newest: self.newest(),
            oldest_ms: unix_ms.saturating_sub(self.history_age_ms_max),
        });
        let (mut is_whole, mut is_all) = (true, true);
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
        is_whole
    }
}
