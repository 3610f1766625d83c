//! Opens the log, and reads the messages after the last known one.

use super::Redis;
use super::entry::Entry;
use super::pending::Pending;
use super::scripts::{READ_BYTES_MAX, READ_MAX, SCRIPT_OPEN, SCRIPT_READ};
use crate::epoch::epoch_after;
use crate::exchange::{Event, Place};
use crate::resp::{self, Value};

impl Redis {
    /// Requests the state of the log. Sends a candidate epoch, which the log adopts if it has no epoch or lacks the newest
    /// message that this node knows.
    pub(super) fn open(&mut self) {
        let (place, stored_ms) = self.newest_known();
        let known = [self.epoch, place.map_or(0, |place| place.epoch)];
        let unix_ms = self.options.zero_unix_ms + self.now_ms;
        let candidate = epoch_after(known, unix_ms, self.connections);
        let candidate = candidate.to_string();
        let stored = stored(stored_ms);
        let (epoch, seq) = match place {
            Some(place) => (place.epoch.to_string(), place.seq.to_string()),
            None => (String::new(), "0".to_owned()),
        };
        let command: [&[u8]; 9] = [
            b"EVALSHA",
            &self.scripts[SCRIPT_OPEN],
            b"2",
            &self.keys.meta,
            &self.keys.log,
            candidate.as_bytes(),
            epoch.as_bytes(),
            seq.as_bytes(),
            stored.as_bytes(),
        ];
        resp::command(&mut self.output, &command);
        self.pending.push_back((Pending::Open, self.now_ms));
    }

    /// Returns the newest position that was read or acknowledged, and the time when the log stored the message there. The log
    /// may lose an acknowledged record before this node has read it.
    pub(super) fn newest_known(&self) -> (Option<Place>, Option<u64>) {
        let is_newer = |place: Place| self.reached.is_none_or(|it| it < place);
        match self.acknowledged {
            Some((place, stored_ms)) if is_newer(place) => (Some(place), stored_ms),
            _ => (self.reached, self.reached_ms),
        }
    }

    /// Handles the state of the log. Decides where reading starts, and reports a gap if messages may be missing before it.
    ///
    /// | Position that was read | Start |
    /// |---|---|
    /// | same epoch, the next message exists | after the position, without a gap |
    /// | same epoch, the next messages were removed | at the oldest message |
    /// | another epoch, or none | at the newest `past_max` messages |
    pub(super) fn on_open(&mut self, value: &Value<'_>) -> Option<()> {
        let [epoch, last, oldest, lost, stored_ms] = value.as_array()? else {
            return None;
        };
        (self.epoch, self.last) = (epoch.as_number()?, last.as_number()?);
        // Sequence before the oldest message. If the log is empty, all its messages were removed.
        let oldest = match oldest.as_number()? {
            0 => self.last,
            oldest => oldest - 1,
        };
        let place = Place {
            epoch: self.epoch,
            seq: self.last,
        };
        let stored_ms = stored_ms.as_number();
        self.events.push_back(Event::LogEnd { place, stored_ms });
        let newest = self.last.saturating_sub(self.options.past_max);
        match self.reached {
            Some(place) if place.epoch == self.epoch && place.seq >= oldest => {}
            Some(place) if place.epoch == self.epoch => {
                self.notice_removed(oldest - place.seq);
                self.begin(oldest);
            }
            reached => {
                if lost.as_number()? == 1 {
                    self.notice(
                        "the log has lost messages that it had acknowledged: it gets a new epoch",
                    );
                }
                if reached.is_some() {
                    self.notice(
                        "the log was recreated or has lost messages; clients receive a gap event",
                    );
                }
                self.begin(newest.max(oldest));
            }
        }
        self.past_until = self.last;
        self.is_live = true;
        // The log counts as ready only after it has accepted an append, so test it with one without records.
        self.ask_to_write();
        Some(())
    }

    /// Requests the next messages.
    pub(super) fn read(&mut self) {
        let Some(reached) = self.reached else { return };
        let (epoch, from) = (self.epoch.to_string(), (reached.seq + 1).to_string());
        let (before, stored) = (reached.seq.to_string(), stored(self.reached_ms));
        let command: [&[u8]; 11] = [
            b"EVALSHA",
            &self.scripts[SCRIPT_READ],
            b"2",
            &self.keys.meta,
            &self.keys.log,
            epoch.as_bytes(),
            from.as_bytes(),
            READ_MAX,
            READ_BYTES_MAX,
            before.as_bytes(),
            stored.as_bytes(),
        ];
        resp::command(&mut self.output, &command);
        self.pending.push_back((Pending::Read, self.now_ms));
        self.is_reading = true;
        self.read_ms = self.now_ms;
    }

    /// Requests the next messages if the log is known to have any and no read is in progress.
    pub(super) fn read_on(&mut self) {
        let is_behind = self.reached.is_some_and(|it| it.seq < self.last);
        if self.is_live && !self.is_reading && is_behind {
            self.read();
        }
    }

    /// Handles the reply to a read. Returns `None` if the reply is malformed.
    pub(super) fn on_read(&mut self, value: &Value<'_>) -> Option<()> {
        let [last, entries] = value.as_array()? else {
            return None;
        };
        let last = last.as_number()?;
        self.last = self.last.max(last);
        let entries = entries.as_array()?;
        for entry in entries {
            self.on_entry(entry)?;
        }
        let reached = self.reached?;
        // The log has assigned later sequences, but has removed their messages.
        if entries.is_empty() && reached.seq < last {
            self.notice_removed(last - reached.seq);
            self.begin(last);
        }
        self.note_ready();
        Some(())
    }

    /// Passes on one message. Returns `None` if the entry is malformed or its sequence does not ascend.
    pub(super) fn on_entry(&mut self, entry: &Value<'_>) -> Option<()> {
        let entry = Entry::read(entry)?;
        let (seq, stored) = (entry.seq, entry.stored);
        let reached = self.reached?;
        if seq <= reached.seq {
            return None;
        }
        // Sequences have no holes, so the log has removed the messages in between.
        if seq > reached.seq + 1 {
            self.notice_removed(seq - reached.seq - 1);
            self.begin(seq - 1);
        }
        let place = Place {
            epoch: self.epoch,
            seq,
        };
        self.reached = Some(place);
        self.reached_ms = stored;
        if !self.options.is_own(entry.application) {
            self.events
                .push_back(self.options.intruder(entry.application));
            self.events.push_back(Event::Passed(place));
            return Some(());
        }
        match (entry.channel, entry.data, entry.content) {
            (Some(_), Some(_), Some(_)) => {
                self.events.push_back(Event::Record(entry.received(place)));
            }
            _ => {
                self.notice("skipped a log entry: no channel, no data or unknown content");
                self.events.push_back(Event::Passed(place));
            }
        }
        Some(())
    }

    /// Continues after the sequence `seq`, and reports that messages up to there may be missing.
    pub(super) fn begin(&mut self, seq: u64) {
        let place = Place {
            epoch: self.epoch,
            seq,
        };
        self.reached = Some(place);
        self.reached_ms = None;
        self.events.push_back(Event::Begin(place));
    }

    pub(super) fn notice_removed(&mut self, count: u64) {
        self.notice(&format!(
            "the log has removed messages that were not read, {count} of them; clients receive a gap event"
        ));
    }
}

/// Returns the stored time of a record as an argument of a script, which is empty if the time is unknown.
fn stored(ms: Option<u64>) -> String {
    ms.map_or(String::new(), |ms| ms.to_string())
}
