//! Timers of a worker. Each timer exists at most once, with the earliest requested time. When a timer fires, its owner checks if
//! the action is still needed, and sets the next time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fermata_io::Deadline;

use crate::numbered::Numbered;
use fermata_engine::RequestId;

/// Kind and owner of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    /// Check exchanges with origins for time-outs.
    UpstreamExchanges,
    /// Time out a long poll, by its request.
    Poll(RequestId),
    /// Send the heartbeat of a SockJS session, or end it.
    Session(u64),
    /// Request the `next` link of a stream without items, by its request.
    Link(RequestId),
    /// Send a WebSocket's keep-alive, delayed message or request without events.
    Socket(RequestId),
    /// Check a WebSocket whose client is slower than its origin.
    Paused(RequestId),
    /// Repeat a request of WebSocket-over-HTTP.
    Events(RequestId),
    /// Check a target, by indices of route and target.
    Check(usize, usize),
    /// Refresh the slots of this worker's targets.
    TargetSlots,
    /// Continue to read the body of this request after a turn.
    Body(RequestId),
    /// Continue to read the response to this request ahead of its client, after a turn.
    Ahead(RequestId),
    /// Check again if the response to this request occupies a PHP-FPM process for too long.
    Holding(RequestId),
    /// Retry Unix sockets with a full backlog.
    Room,
    /// Handle broken or newly usable HTTP/2 connections to origins.
    Carriers,
    /// Close expired idle connections to origins.
    Pool,
    /// Check the routes file.
    Routes,
    /// Send updates to the session service.
    State,
    /// Retry sending to ZHTTP backends.
    Streams,
    /// Time out questions to services.
    Services,
    /// Send stats packets.
    Stats,
    /// Publish items that waited as long as permitted for their predecessors or for room in the ring.
    Items,
    /// Retry connections to publishers.
    Publishers,
    /// Continue to read from publishers that sent more bytes than one turn reads.
    Ports,
    /// Close publishers' connections without a handshake.
    Peers,
    /// Time out commands that wait for other workers.
    Commands,
    /// Write buffered log lines.
    Journal,
    /// Continue rate-limited deliveries.
    Rate,
    /// Check a stream whose client is slower than its link's response.
    LinkBody(RequestId),
    /// Send requests to the origins of clients that missed items.
    Updates,
    /// Let first subscribers catch up.
    FirstSubscriptions,
}

/// Number of outdated entries at which the queue is cleaned.
const STALE_MAX: usize = 1_024;

/// All timers of a worker.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BinaryHeap<Reverse<(u64, Timer)>>,
    /// Due time of each timer. Queue entries with another time are outdated.
    armed: Numbered<Timer, u64>,
}

impl Timers {
    /// Sets a timer. If the timer is already set, the earlier time applies.
    pub fn at(&mut self, due_ms: u64, timer: Timer) {
        if self.armed.get(&timer).is_some_and(|&armed| armed <= due_ms) {
            return;
        }
        self.armed.insert(timer, due_ms);
        self.queue.push(Reverse((due_ms, timer)));
        self.tidy();
    }

    /// Removes a timer.
    pub fn forget(&mut self, timer: Timer) {
        if self.armed.remove(&timer).is_some() {
            self.tidy();
        }
    }

    /// Returns the next timer that is due by `now_ms`.
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

    /// Removes outdated entries when more than half of the entries are outdated.
    fn tidy(&mut self) {
        if self.queue.len() > 2 * self.armed.len() + STALE_MAX {
            let armed = &self.armed;
            self.queue
                .retain(|Reverse((due_ms, timer))| armed.get(timer) == Some(due_ms));
        }
    }

    /// Returns the earliest due time.
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
