//! Exchanges that wait for room in the backlog of a Unix socket.

use std::collections::{HashMap, VecDeque};

use crate::routes::Origin;
use crate::upstream::exchange::{UpstreamExchange, Wait};
use crate::upstream::id::UpstreamExchangeId;

/// Maximum number of exchanges that wait for one socket.
pub(crate) const WAITING_MAX: usize = 4_096;

/// Queues by path of the socket. Exchanges that ended while waiting are skipped.
#[derive(Debug, Default)]
pub(crate) struct SocketQueues(pub(crate) HashMap<String, VecDeque<UpstreamExchangeId>>);

impl SocketQueues {
    /// Returns true if no exchange waits, or this exchange is the first one.
    pub(crate) fn may_try(&self, path: &str, id: UpstreamExchangeId) -> bool {
        self.first(path).is_none_or(|first| first == id)
    }

    /// Adds an exchange at the end of the queue, unless it is the first one. Returns false if the
    /// queue is full.
    pub(crate) fn wait(&mut self, path: &str, id: UpstreamExchangeId) -> bool {
        let queue = self.0.entry(path.to_owned()).or_default();
        if queue.front() == Some(&id) {
            return true;
        }
        let has_room = queue.len() < WAITING_MAX;
        if has_room {
            queue.push_back(id);
        }
        has_room
    }

    /// Removes the exchange if it is the first one.
    pub(crate) fn leave(&mut self, path: &str, id: UpstreamExchangeId) {
        let Some(queue) = self.0.get_mut(path) else {
            // No exchange waits for this socket.
            return;
        };
        if queue.front() == Some(&id) {
            queue.pop_front();
        }
        if queue.is_empty() {
            self.0.remove(path);
        }
    }

    pub(crate) fn first(&self, path: &str) -> Option<UpstreamExchangeId> {
        self.0.get(path)?.front().copied()
    }
}

impl UpstreamExchange {
    /// Returns true if the exchange waits for room at this socket.
    pub(crate) fn waits_at(&self, path: &str) -> bool {
        let target = self.source.target().map(|it| &it.origin);
        let is_there = match target {
            Some(Origin::Unix(own) | Origin::FastCgiUnix(own)) => own == path,
            _ => false,
        };
        is_there && self.waits == Some(Wait::Room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> UpstreamExchangeId {
        UpstreamExchangeId::of(number)
    }

    #[test]
    fn the_first_that_came_is_the_first_that_tries() {
        let mut queues = SocketQueues::default();
        assert!(queues.may_try("a", id(1)) && queues.wait("a", id(1)));
        assert!(!queues.may_try("a", id(2)) && queues.wait("a", id(2)));
        assert!(queues.may_try("b", id(2)));
        // The attempt failed.
        assert!(queues.may_try("a", id(1)) && queues.wait("a", id(1)));
        assert_eq!(queues.first("a"), Some(id(1)));
        queues.leave("a", id(2));
        queues.leave("a", id(1));
        assert!(queues.may_try("a", id(2)) && !queues.may_try("a", id(3)));
        queues.leave("a", id(2));
        assert!(queues.0.is_empty());
    }

    #[test]
    fn waiting_sockets_are_bounded() {
        let mut queues = SocketQueues::default();
        assert!((0..WAITING_MAX as u64).all(|it| queues.wait("a", id(it))));
        assert!(!queues.wait("a", id(u64::MAX)) && queues.wait("a", id(0)));
    }
}
