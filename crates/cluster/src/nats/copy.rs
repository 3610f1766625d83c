//! Compares the copy that a consumer reads with the messages of the stream's leader.
//!
//! With NATS 2.9, servers that were cut off had copies that lack acknowledged messages and renumber the later ones. The
//! consumer's deliveries do not show this, because their sequences have no hole. But the leader reports when it stored its last
//! message, to the nanosecond, and every complete copy has the same time at that position.

use std::collections::VecDeque;

/// Maximum number of recent deliveries that are retained for comparison.
const RECENT_MAX: usize = 1024;

/// Identity of a message: its sequence, and the time when the leader stored it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub seq: u64,
    pub unix_ns: u64,
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The leader has the same message at this position.
    Same,
    /// The leader has another message at this position.
    Different,
}

/// The copy that a consumer reads.
#[derive(Default)]
pub(super) struct Copy {
    /// Recent deliveries, ascending; at most [`RECENT_MAX`].
    recent: VecDeque<Mark>,
    /// A message of the leader that was not delivered yet, and the time since which the node waits for it.
    awaited: Option<(Mark, u64)>,
}

impl Copy {
    /// Receives the leader's last message, and compares it with the delivery at its position. Returns `None` if the message was
    /// not delivered yet, because `give` compares it on delivery. Also returns `None` if the delivery is no longer retained.
    pub fn expect(&mut self, mark: Mark, now_ms: u64) -> Option<Verdict> {
        if self.recent.back().is_none_or(|last| last.seq < mark.seq) {
            // Keep an older awaited message and its time. If each poll restarted the time, a copy that has stopped would never
            // be late.
            self.awaited.get_or_insert((mark, now_ms));
            return None;
        }
        let at = self.recent.binary_search_by_key(&mark.seq, |it| it.seq);
        at.ok().map(|at| compare(self.recent[at], mark))
    }

    /// Records a delivered message, and compares it with the awaited message.
    pub fn give(&mut self, given: Mark) -> Option<Verdict> {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(given);
        let (awaited, _) = self.awaited.filter(|(it, _)| it.seq <= given.seq)?;
        self.awaited = None;
        // If a later message was delivered first, the log has removed the awaited message. There is nothing to compare then.
        (awaited.seq == given.seq).then(|| compare(given, awaited))
    }

    /// Returns the time since which a message of the leader is awaited, if any.
    pub fn awaited_ms(&self) -> Option<u64> {
        self.awaited.map(|(_, since_ms)| since_ms)
    }
}

fn compare(given: Mark, leader: Mark) -> Verdict {
    if given == leader {
        Verdict::Same
    } else {
        Verdict::Different
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(seq: u64) -> Mark {
        Mark {
            seq,
            unix_ns: 1000 + seq,
        }
    }

    #[test]
    fn compares_messages_in_either_order() {
        let other = Mark {
            seq: 5,
            unix_ns: 99,
        };
        let mut copy = Copy::default();
        assert_eq!(copy.expect(mark(5), 10), None);
        assert_eq!((copy.give(mark(4)), copy.awaited_ms()), (None, Some(10)));
        assert_eq!(copy.give(mark(5)), Some(Verdict::Same));
        assert_eq!(copy.awaited_ms(), None);
        assert_eq!(copy.expect(mark(4), 20), Some(Verdict::Same));
        assert_eq!(copy.expect(other, 20), Some(Verdict::Different));
        let mut copy = Copy::default();
        assert_eq!(copy.expect(other, 30), None);
        assert_eq!(copy.give(mark(5)), Some(Verdict::Different));
    }

    #[test]
    fn stopped_copy_is_late_since_the_first_expectation() {
        let mut copy = Copy::default();
        copy.give(mark(1));
        assert_eq!(copy.expect(mark(2), 10), None);
        assert_eq!(copy.expect(mark(9), 20), None);
        assert_eq!(copy.awaited_ms(), Some(10));
        // The awaited message was removed.
        assert_eq!((copy.give(mark(3)), copy.awaited_ms()), (None, None));
    }

    #[test]
    fn recent_deliveries_are_bounded() {
        let mut copy = Copy::default();
        for seq in 1..=3 * RECENT_MAX as u64 {
            copy.give(mark(seq));
        }
        assert_eq!(copy.recent.len(), RECENT_MAX);
        assert_eq!(copy.expect(mark(1), 0), None);
        assert_eq!(copy.awaited_ms(), None);
    }
}
