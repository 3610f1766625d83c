//! State of the log that outlives a connection: its epoch, the position up to which it was read, and the suspicion that it has
//! lost messages.

use crate::exchange::{Event, Place};

/// The log, as far as this node knows it.
pub(super) struct Log {
    /// Epoch of the stream that was described last. 0 before the first description.
    pub epoch: u64,
    /// True if several servers have the stream.
    pub is_replicated: bool,
    /// True if the server refuses to update the stream, so that the stream cannot get a new epoch.
    pub is_epoch_fixed: bool,
    /// Number of new epochs that were requested since a description last included every message that this node knows.
    pub epochs_requested: u32,
    /// Position up to which messages were read. They were passed on, or a consumer that is not proven yet holds them. `None` if
    /// nothing was read.
    pub reached: Option<Reached>,
    /// True if the log has other messages than this node has read up to `reached`.
    pub is_replaced: bool,
    pub loss: Loss,
    /// Newest position that the log has acknowledged for a record of this node. Its sequence is 0 if there is none.
    pub given_out: Place,
}

/// A position that was read.
#[derive(Clone, Copy)]
pub(super) struct Reached {
    pub place: Place,
    /// Time when the log stored the message at this position, in Unix milliseconds, or `None` if unknown. It identifies the
    /// message: no other message of the log has the same position and time.
    pub stored_ms: Option<u64>,
}

/// Whether a replicated log has lost its newest messages. A description that ends too early is only a suspicion, because a
/// leader that was just elected may describe fewer messages than it has. The bridge then publishes a probe, whose position
/// shows the log's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// No message is missing.
    Unsuspected,
    /// Descriptions since `since_ms` end before a message that this node has read or published.
    Suspected { since_ms: u64 },
    /// A probe on this connection has confirmed that messages are lost. `since_ms` is the start of the suspicion, or `None` if
    /// a description was complete again.
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

    /// Records the result of a probe: true if messages that this node knows are lost. False also withdraws an earlier
    /// confirmation, but not the suspicion.
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

    /// Returns the greatest sequence of the present epoch that this node has read or that the log has acknowledged to it, or 0.
    pub fn floor(&self) -> u64 {
        let of_epoch = |place: Place| (place.epoch == self.epoch).then_some(place.seq);
        let read = self.reached.and_then(|it| of_epoch(it.place));
        let given = of_epoch(self.given_out);
        read.max(given).unwrap_or(0)
    }

    /// Returns a position of a later epoch than the log's that this node knows. If there is one, the log is an older copy of
    /// the log that was read, for example a restored backup.
    pub fn later(&self) -> Option<Place> {
        let read = self.reached.map(|it| it.place);
        let known = read.into_iter().chain([self.given_out]);
        known.filter(|place| place.epoch > self.epoch).max()
    }

    /// Returns a position of the present epoch that this node has read or published, and that is missing in a log which ends at
    /// `last`.
    pub fn lost(&self, last: u64) -> Option<Place> {
        // The log may lose an acknowledged record before this node has read it, so compare acknowledged positions, too.
        let given = Some(self.given_out).filter(|place| place.seq > last);
        let read = self.reached.map(|it| it.place);
        let read = read.filter(|it| it.seq > last || self.is_replaced);
        let is_of_epoch = |place: &Place| place.epoch == self.epoch;
        read.filter(is_of_epoch).or(given.filter(is_of_epoch))
    }

    /// Decides where a consumer of a log with messages `first..=last` starts, and updates `reached`. Returns the consumer's
    /// first sequence. If messages may be missing before it, appends a notice and [`Event::Begin`] to `events`.
    pub fn start(&mut self, first: u64, last: u64, past_max: u64, events: &mut Vec<Event>) -> u64 {
        // Sequences up to `oldest` have no message any more.
        let oldest = first - 1;
        let (floor, notice) = match self.reached.map(|it| it.place) {
            // A node that has read nothing starts with the newest `past_max` messages.
            None => (last.saturating_sub(past_max).max(oldest), None),
            // Positions of another epoch belong to other messages. Start like a node that has read nothing.
            Some(place) if place.epoch != self.epoch => {
                let notice =
                    "the log was recreated or has lost messages; clients receive a gap event";
                let floor = last.saturating_sub(past_max).max(oldest);
                (floor, Some(notice.to_owned()))
            }
            // The log was shortened or replaced, and has not got a new epoch.
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

    /// Continues after the position `floor`, whose message was not read. Returns the event that reports the gap up to there.
    pub fn restart(&mut self, floor: u64) -> Event {
        let place = self.place(floor);
        // Otherwise `later` would report the acknowledged position of the former epoch again.
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
