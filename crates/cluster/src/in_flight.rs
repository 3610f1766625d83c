//! Records of the outbox that were sent to the log and are not acknowledged.

use std::collections::VecDeque;

struct InFlight {
    outbox: u64,
    sent_ms: u64,
    is_done: bool,
    /// Greatest sequence that this node knew to be assigned when the record was sent.
    floor: u64,
}

/// Records in flight, in the order of the outbox. The caller limits their number to [`IN_FLIGHT_MAX`](crate::IN_FLIGHT_MAX).
#[derive(Default)]
pub(crate) struct InFlightQueue {
    records: VecDeque<InFlight>,
    /// Newest released record that the caller has not fetched.
    released: Option<u64>,
}

impl InFlightQueue {
    pub fn push(&mut self, outbox: u64, sent_ms: u64, is_done: bool, floor: u64) {
        let is_after = self.records.back().is_none_or(|last| last.outbox < outbox);
        debug_assert!(is_after, "records of the outbox come in their order");
        self.records.push_back(InFlight {
            outbox,
            sent_ms,
            is_done,
            floor,
        });
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the time at which the oldest unacknowledged record was sent.
    pub fn oldest_sent_ms(&self) -> Option<u64> {
        self.records.front().map(|it| it.sent_ms)
    }

    /// Returns true if a record was sent and has no result.
    pub fn is_awaited(&self, outbox: u64) -> bool {
        let at = self.records.binary_search_by_key(&outbox, |it| it.outbox);
        at.is_ok_and(|at| !self.records[at].is_done)
    }

    /// Returns the greatest sequence that this node knew to be assigned when a record was sent. The log must store the record
    /// after it.
    pub fn floor_of(&self, outbox: u64) -> u64 {
        let at = self.records.binary_search_by_key(&outbox, |it| it.outbox);
        at.map_or(0, |at| self.records[at].floor)
    }

    /// Marks a record as done and releases the done records at the front.
    pub fn settle(&mut self, outbox: u64) {
        if let Ok(at) = self.records.binary_search_by_key(&outbox, |it| it.outbox) {
            self.records[at].is_done = true;
        }
        // Records are released in order. A record that is done waits for those before it.
        while let Some(first) = self.records.front().filter(|first| first.is_done) {
            self.released = Some(first.outbox);
            self.records.pop_front();
        }
    }

    /// Takes the newest released record.
    pub fn released(&mut self) -> Option<u64> {
        self.released.take()
    }

    /// Drops all records, because the caller sends them again. Returns the newest released record.
    pub fn clear(&mut self) -> Option<u64> {
        self.records.clear();
        self.released.take()
    }
}
