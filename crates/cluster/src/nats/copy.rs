//! Whether the server that a consumer lives on has the same messages as the one that leads the stream.
//!
//! NATS 2.9 was seen to leave a server that had been cut off with a copy that lacks acknowledged messages and numbers those
//! behind them anew, for ever. Nothing in what such a consumer gives says so: its sequences are without a hole. But the leader
//! says when it has stored its last message, to the nanosecond, and all whole copies have the same time at that place.

use std::collections::VecDeque;

/// How many messages are remembered that came before the leader has said what its last one is.
const RECENT_MAX: usize = 1024;

/// A message: its place in the stream, and when the leader has stored it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub seq: u64,
    pub unix_ns: u64,
}

/// What a comparison has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The message of the place is the leader's.
    Same,
    /// It is another one.
    Different,
}

/// The copy that a consumer gives.
#[derive(Default)]
pub(super) struct Copy {
    /// The last ones that were given, ascending.
    recent: VecDeque<Mark>,
    /// What the leader has and the copy has not given yet, and since when it is awaited.
    awaited: Option<(Mark, u64)>,
}

impl Copy {
    /// Another consumer begins, perhaps on another server.
    pub fn clear(&mut self) {
        self.recent.clear();
        self.awaited = None;
    }

    /// What the leader says its last message is. What was not given yet is compared when it is; a place that is remembered no
    /// more shows nothing.
    pub fn expect(&mut self, mark: Mark, now_ms: u64) -> Option<Verdict> {
        if self.recent.back().is_none_or(|last| last.seq < mark.seq) {
            // The older one stays, or a copy that has stopped would never be late.
            self.awaited.get_or_insert((mark, now_ms));
            return None;
        }
        let at = self.recent.binary_search_by_key(&mark.seq, |it| it.seq);
        at.ok().map(|at| compare(self.recent[at], mark))
    }

    /// The copy gives a message.
    pub fn give(&mut self, given: Mark) -> Option<Verdict> {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(given);
        let (awaited, _) = self.awaited.filter(|(it, _)| it.seq <= given.seq)?;
        self.awaited = None;
        // Behind it: that one is gone by now.
        (awaited.seq == given.seq).then(|| compare(given, awaited))
    }

    /// Since when a message of the leader is awaited.
    pub fn awaited_ms(&self) -> Option<u64> {
        self.awaited.map(|(_, since_ms)| since_ms)
    }
}

fn compare(given: Mark, leader: Mark) -> Verdict {
    match given == leader {
        true => Verdict::Same,
        false => Verdict::Different,
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
    fn messages_are_compared_whichever_comes_first() {
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
        copy.clear();
        assert_eq!(copy.expect(other, 30), None);
        assert_eq!(copy.give(mark(5)), Some(Verdict::Different));
    }

    #[test]
    fn a_copy_that_gives_nothing_is_late_since_the_first_time() {
        let mut copy = Copy::default();
        copy.give(mark(1));
        assert_eq!(copy.expect(mark(2), 10), None);
        assert_eq!(copy.expect(mark(9), 20), None);
        assert_eq!(copy.awaited_ms(), Some(10));
        // It was removed meanwhile.
        assert_eq!((copy.give(mark(3)), copy.awaited_ms()), (None, None));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut copy = Copy::default();
        for seq in 1..=3 * RECENT_MAX as u64 {
            copy.give(mark(seq));
        }
        assert_eq!(copy.recent.len(), RECENT_MAX);
        assert_eq!(copy.expect(mark(1), 0), None);
        assert_eq!(copy.awaited_ms(), None);
    }
}
