//! What passes through a worker's fan-out, counted.

use std::collections::HashMap;

/// Everything since the worker began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Records read from the ring, those of channels without subscribers here included.
    pub records_read: u64,
    /// Records put up for subscribers: each counts once per subscriber.
    pub deliveries: u64,
}

/// Records and deliveries per stream. Holds an entry per stream that has had news, so its owner drains it often.
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

    /// Gives all (stream, records, deliveries) and begins anew.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u32, u64, u64)> {
        let entries = self.0.drain();
        entries.map(|(stream, (records, deliveries))| (stream, records, deliveries))
    }
}
