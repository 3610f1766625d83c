//! What is due when. Of each timer there is one at a time, the earliest that was asked for: whoever it was for is asked
//! whether it still matters, and when next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fermata_io::Deadline;

use crate::numbered::Numbered;
use fermata_engine::RequestId;

/// What happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    /// Conversations with origins are looked through for those that take too long.
    Talks,
    /// A long poll has waited long enough, by its request.
    Poll(RequestId),
    /// A SockJS session tells its client that it is there, or is over.
    Session(u64),
    /// A stream without news asks its next link, by the request it was held with.
    Link(RequestId),
    /// A WebSocket's keep-alive, delayed message or request without news.
    Socket(RequestId),
    /// A WebSocket whose client takes less than its origin sends.
    Paused(RequestId),
    /// A request of a WebSocket over HTTP is made once more.
    Events(RequestId),
    /// A target is to be checked: its route's place and its own.
    Check(usize, usize),
    /// Targets of our routes are said to be in use.
    Seats,
    /// A body is read on, by its request: others had their turn.
    Body(RequestId),
    /// Unix sockets may have room for connections.
    Room,
    /// Connections of HTTP/2 to origins are broken, or stand for those that wait.
    Carriers,
    /// Idle connections to origins are looked through.
    Pool,
    /// The routes file is looked at.
    Routes,
    /// The service of sessions is to be told something.
    State,
    /// Backends of sessions may take what they took not.
    Streams,
    /// Services have not answered.
    Services,
    /// What dashboards are to be told again.
    Stats,
    /// Items have waited long enough for their predecessors, or for room.
    Items,
    /// Publishers that are not there are connected to once more.
    Publishers,
    /// Publishers that had more to say than their turn allows are read on.
    Ports,
    /// Publishers' connections are looked through for those that never said what they are.
    Peers,
    /// Other workers have not answered what a program asks.
    Commands,
    /// Lines about requests are written.
    Journal,
    /// Deliveries at a rate go on.
    Rate,
    /// A stream whose client takes less than its next link answers.
    LinkBody(RequestId),
    /// Clients that have missed something ask their origins.
    Updates,
    /// Clients of channels that nobody knew catch up.
    FirstSubscriptions,
}

/// Entries that count no longer before all of them are thrown out.
const STALE_MAX: usize = 1_024;

/// All that is due.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BinaryHeap<Reverse<(u64, Timer)>>,
    /// When each is due; entries of the queue with another time count no longer.
    armed: Numbered<Timer, u64>,
}

impl Timers {
    /// Adds one, unless it is due before anyway.
    pub fn at(&mut self, due_ms: u64, timer: Timer) {
        if self.armed.get(&timer).is_some_and(|&armed| armed <= due_ms) {
            return;
        }
        self.armed.insert(timer, due_ms);
        self.queue.push(Reverse((due_ms, timer)));
        self.tidy();
    }

    /// It is no longer awaited.
    pub fn forget(&mut self, timer: Timer) {
        if self.armed.remove(&timer).is_some() {
            self.tidy();
        }
    }

    /// The next that is due by `now_ms`.
    pub fn take(&mut self, now_ms: u64) -> Option<Timer> {
        while let Some(&Reverse((due_ms, timer))) = self.queue.peek()
            && due_ms <= now_ms
        {
            self.queue.pop();
            if self.armed.get(&timer) == Some(&due_ms) {
                self.armed.remove(&timer);
                return Some(timer);
            }
        }
        None
    }

    /// Keeps the queue no longer than twice what counts.
    fn tidy(&mut self) {
        if self.queue.len() > 2 * self.armed.len() + STALE_MAX {
            let armed = &self.armed;
            self.queue
                .retain(|Reverse((due_ms, timer))| armed.get(timer) == Some(due_ms));
        }
    }

    /// When something is due.
    pub fn next(&self) -> Deadline {
        let first = self.queue.peek();
        first.map_or(Deadline::NEVER, |Reverse((due_ms, _))| {
            Deadline::at(*due_ms)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::request;

    #[test]
    fn each_timer_is_there_once_and_at_its_earliest() {
        let mut timers = Timers::default();
        for due_ms in [30, 40, 20, 50] {
            timers.at(due_ms, Timer::Socket(request(1)));
        }
        assert_eq!(timers.take(100), Some(Timer::Socket(request(1))));
        assert_eq!(timers.take(100), None);
        timers.at(60, Timer::Socket(request(1)));
        timers.forget(Timer::Socket(request(1)));
        assert_eq!(timers.take(100), None);
        for due_ms in (0..10_000).rev() {
            timers.at(due_ms, Timer::Link(request(2)));
        }
        assert!(timers.queue.len() <= STALE_MAX + 2);
        assert_eq!(
            (timers.take(0), timers.take(9_999)),
            (Some(Timer::Link(request(2))), None)
        );
    }

    #[test]
    fn timers_come_in_their_order() {
        let mut timers = Timers::default();
        timers.at(20, Timer::Pool);
        timers.at(10, Timer::Poll(request(1)));
        assert_eq!((timers.next(), timers.take(9)), (Deadline::at(10), None));
        assert_eq!(timers.take(20), Some(Timer::Poll(request(1))));
        assert_eq!(timers.take(20), Some(Timer::Pool));
        assert_eq!((timers.next(), timers.take(99)), (Deadline::NEVER, None));
    }
}
