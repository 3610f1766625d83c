//! What is due when. Nothing is cancelled: whoever a timer was for is asked whether it still matters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Conversations with origins are looked through for those that take too long.
    Talks,
    /// A long poll has waited long enough, by its request.
    Poll(u64),
    /// A stream without news asks its next link, by the request it was held with.
    Link(u64),
    /// A WebSocket's keep-alive, delayed message or request without news.
    Socket(u64),
    /// A WebSocket whose client takes less than its origin sends.
    Paused(u64),
    /// A request of a WebSocket over HTTP is made once more.
    Events(u64),
    /// Idle connections to origins are looked through.
    Pool,
    /// The routes file is looked at.
    Routes,
    /// Items have waited long enough for their predecessors.
    Items,
}

/// All that is due.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(u64, Timer)>>);

impl Timers {
    /// Adds one.
    pub fn at(&mut self, due_ms: u64, timer: Timer) {
        self.0.push(Reverse((due_ms, timer)));
    }

    /// The next that is due by `now_ms`.
    pub fn take(&mut self, now_ms: u64) -> Option<Timer> {
        match self.0.peek() {
            Some(Reverse((due_ms, _))) if *due_ms <= now_ms => {
                self.0.pop().map(|Reverse((_, timer))| timer)
            }
            _ => None,
        }
    }

    /// When something is due; `u64::MAX`: nothing.
    pub fn next_ms(&self) -> u64 {
        self.0
            .peek()
            .map_or(u64::MAX, |Reverse((due_ms, _))| *due_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_their_order() {
        let mut timers = Timers::default();
        timers.at(20, Timer::Pool);
        timers.at(10, Timer::Poll(1));
        assert_eq!((timers.next_ms(), timers.take(9)), (10, None));
        assert_eq!(timers.take(20), Some(Timer::Poll(1)));
        assert_eq!(timers.take(20), Some(Timer::Pool));
        assert_eq!((timers.next_ms(), timers.take(99)), (u64::MAX, None));
    }
}
