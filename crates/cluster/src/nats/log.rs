//! The log as this node knows it, across connections: its epoch, the position up to which it was read, and signs of lost messages.

use crate::exchange::{Event, Place};

/// State that outlives a connection.
pub(super) struct Log {
    /// Epoch of the stream that was described last. 0 before the first description.
    pub epoch: u64,
    /// Several servers have the stream.
    pub is_replicated: bool,
    /// True if the stream cannot be updated, so that it gets no new epoch.
    pub is_epoch_fixed: bool,
    /// Number of new epochs that were requested since the log last had every message that this node knows.
    pub epochs_requested: u32,
    /// Position up to which everything was passed on.
    pub reached: Option<Reached>,
    /// True if the log has other messages than those that were read up to `reached`.
    pub is_replaced: bool,
    pub loss: Loss,
    /// Newest position that was assigned to a record of the outbox.
    pub given_out: Place,
}

/// A position that was read.
#[derive(Clone, Copy)]
pub(super) struct Reached {
    pub place: Place,
    /// Time when the log stored the message at this position. `None`: unknown. No other message has both the same position and the
    /// same time.
    pub stored_ms: Option<u64>,
}

/// States whether a replicated log has lost its newest messages. A leader that was just elected may describe fewer messages than it
/// has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// No message is missing.
    Unsuspected,
    /// The log ends before what was read, according to descriptions since `since_ms`.
    Suspected { since_ms: u64 },
    /// A probe has confirmed the log's end on this connection. `since_ms` is the start of the suspicion, if there still is one.
    Confirmed { since_ms: Option<u64> },
}

impl Loss {
    pub fn since_ms(self) -> Option<u64> {
        match self {
            Loss::Unsuspected => None,
            Loss::Suspected { since_ms } => Some(since_ms),
            Loss::Confirmed { since_ms } => since_ms,
        }
    }

    pub fn is_confirmed(self) -> bool {
        matches!(self, Loss::Confirmed { .. })
    }

    /// Records that a description contains everything that was read.
    pub fn clear(&mut self) {
        *self = match self {
            Loss::Confirmed { .. } => Loss::Confirmed { since_ms: None },
            _ => Loss::Unsuspected,
        };
    }

    /// Records that a description lacks messages that were read.
    pub fn suspect(&mut self, now_ms: u64) {
        let since_ms = self.since_ms().unwrap_or(now_ms);
        *self = Loss::Suspected { since_ms };
    }

    /// Records the result of a probe, which is true if the log ends where its description says.
    pub fn set_confirmed(&mut self, is_confirmed: bool) {
        let since_ms = self.since_ms();
        *self = match since_ms {
            _ if is_confirmed => Loss::Confirmed { since_ms },
            Some(since_ms) => Loss::Suspected { since_ms },
            None => Loss::Unsuspected,
        };
    }
}

impl Log {
    pub fn new(reached: Option<Place>, stored_ms: Option<u64>) -> Log {
        Log {
            epoch: 0,
            is_replicated: false,
            is_epoch_fixed: false,
            epochs_requested: 0,
            reached: reached.map(|place| Reached { place, stored_ms }),
            is_replaced: false,
            loss: Loss::Unsuspected,
            given_out: Place { epoch: 0, seq: 0 },
        }
    }

    /// Returns a position of the present epoch.
    pub fn place(&self, seq: u64) -> Place {
        Place {
            epoch: self.epoch,
            seq,
        }
    }

    /// Returns the newest assigned sequence that this node knows.
    pub fn floor(&self) -> u64 {
        let of_epoch = |place: Place| (place.epoch == self.epoch).then_some(place.seq);
        let read = self.reached.and_then(|it| of_epoch(it.place));
        let given = of_epoch(self.given_out);
        read.max(given).unwrap_or(0)
    }

    /// Returns a known position of a later epoch than the log's. If there is such a position, the log is an older copy of the log
    /// that was read.
    pub fn later(&self) -> Option<Place> {
        let read = self.reached.map(|it| it.place);
        let known = read.into_iter().chain([self.given_out]);
        known.filter(|place| place.epoch > self.epoch).max()
    }

    /// Returns the newest known position of the current epoch that is missing in a log which ends at `last`.
    pub fn lost(&self, last: u64) -> Option<Place> {
        // A record may be acknowledged, and then lost before it was read.
        let given = Some(self.given_out).filter(|place| place.seq > last);
        let read = self.reached.map(|it| it.place);
        let read = read.filter(|it| it.seq > last || self.is_replaced);
        let is_of_epoch = |place: &Place| place.epoch == self.epoch;
        read.filter(is_of_epoch).or(given.filter(is_of_epoch))
    }

    /// Decides where a consumer of a log with messages `first..=last` starts. Returns the consumer's first sequence, and appends
    /// the gap, if there is one, to `events`.
    pub fn start(&mut self, first: u64, last: u64, past_max: u64, events: &mut Vec<Event>) -> u64 {
        let oldest = first - 1;
        let (floor, notice) = match self.reached.map(|it| it.place) {
            None => (last.saturating_sub(past_max).max(oldest), None),
            Some(place) if place.epoch != self.epoch => {
                let notice =
                    "the log was recreated or has lost messages; clients receive a gap event";
                let floor = last.saturating_sub(past_max).max(oldest);
                (floor, Some(notice.to_owned()))
            }
            Some(place) if place.seq > last || self.is_replaced => {
                let notice = format!(
                    "the log has lost messages that it had acknowledged ({last} is its last one, {} was read) and takes no new \
                     epoch: connected clients are told that messages may be missing; clients that are away may not be",
                    place.seq
                );
                (last.min(place.seq), Some(notice))
            }
            Some(place) if place.seq < oldest => {
                let notice = format!(
                    "the log has removed messages that were not read, {} of them: clients are told that messages may be \
                     missing",
                    oldest - place.seq
                );
                (oldest, Some(notice))
            }
            Some(place) => return place.seq + 1,
        };
        events.extend(notice.map(Event::Notice));
        events.push(self.restart(floor));
        floor + 1
    }

    /// Continues after the position `floor`, whose message is unknown.
    pub fn restart(&mut self, floor: u64) -> Event {
        let place = self.place(floor);
        if self.given_out.epoch != self.epoch {
            self.given_out = Place { epoch: 0, seq: 0 };
        }
        self.reached = Some(Reached {
            place,
            stored_ms: None,
        });
        Event::Begin(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspicion_keeps_its_start_until_a_description_is_complete() {
        let mut loss = Loss::Unsuspected;
        loss.suspect(10);
        loss.set_confirmed(false);
        loss.suspect(20);
        assert_eq!(loss, Loss::Suspected { since_ms: 10 });
        loss.set_confirmed(true);
        assert_eq!(loss, Loss::Confirmed { since_ms: Some(10) });
        // The connection ends.
        loss.set_confirmed(false);
        assert_eq!(loss, Loss::Suspected { since_ms: 10 });
        loss.clear();
        assert_eq!(loss, Loss::Unsuspected);
    }
}
