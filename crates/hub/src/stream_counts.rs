//! Traffic counters of a worker's fan-out.

use std::collections::HashMap;

/// Totals since the worker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Records read from the ring, including channels without local subscribers.
    pub records_read: u64,
    /// Number of records queued for subscribers; each record counts once per subscriber.
    pub deliveries: u64,
}

/// Records and deliveries per stream. It contains an entry per stream with records since the last drain, so it has to be drained
/// often.
#[derive(Default)]
pub(crate) struct StreamCounts(HashMap<u32, (u64, u64)>);

impl StreamCounts {
    pub(crate) fn add(&mut self, stream: u32, subscribers: u64) {
        let (records, deliveries) = self.0.entry(stream).or_default();
        *records += 1;
        *deliveries += subscribers;
    }

    pub(crate) fn forget(&mut self, stream: u32) {
        self.0.remove(&stream);
    }

    /// Returns every (stream, records, deliveries) and resets the counts.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u32, u64, u64)> {
        let entries = self.0.drain();
        entries.map(|(stream, (records, deliveries))| (stream, records, deliveries))
    }
}
