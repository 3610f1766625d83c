//! Records of the outbox that are on their way to the log.

use std::collections::VecDeque;

struct InFlight {
    outbox: u64,
    sent_ms: u64,
    is_done: bool,
}

/// In the order of the outbox.
#[derive(Default)]
pub(crate) struct Flight {
    records: VecDeque<InFlight>,
    /// The newest record that is not needed any more, as long as the caller has not been told.
    released: Option<u64>,
}

impl Flight {
    pub fn push(&mut self, outbox: u64, sent_ms: u64, is_done: bool) {
        let is_after = self.records.back().is_none_or(|last| last.outbox < outbox);
        debug_assert!(is_after, "records of the outbox come in their order");
        self.records.push_back(InFlight {
            outbox,
            sent_ms,
            is_done,
        });
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// When the oldest record was sent that the log has not acknowledged.
    pub fn oldest_sent_ms(&self) -> Option<u64> {
        self.records.front().map(|it| it.sent_ms)
    }

    /// Whether the log has not said what became of a record.
    pub fn is_awaited(&self, outbox: u64) -> bool {
        let at = self.records.binary_search_by_key(&outbox, |it| it.outbox);
        at.is_ok_and(|at| !self.records[at].is_done)
    }

    /// A record is not needed any more.
    pub fn settle(&mut self, outbox: u64) {
        if let Ok(at) = self.records.binary_search_by_key(&outbox, |it| it.outbox) {
            self.records[at].is_done = true;
        }
        while let Some(first) = self.records.front().filter(|first| first.is_done) {
            self.released = Some(first.outbox);
            self.records.pop_front();
        }
    }

    /// Up to which record nothing is needed any more, once.
    pub fn released(&mut self) -> Option<u64> {
        self.released.take()
    }

    /// The connection has ended: what is on its way is sent again, but for what this gives.
    pub fn clear(&mut self) -> Option<u64> {
        self.records.clear();
        self.released.take()
    }
}
