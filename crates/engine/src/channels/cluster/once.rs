//! Removes duplicates of named events, which were published to several servers or retried at
//! another server.
//!
//! All servers read the log in the same order and use its timestamps, so they drop the same events.

use std::collections::hash_map::RandomState;
use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher;

use fermata_hub::{Kind, Read, Record, Ring};

/// Maximum number of remembered names; the oldest are removed first.
const NAMES_MAX: usize = 1_000_000;

/// Recent event names of all channels.
pub(super) struct EventDeduplicator {
    window_ms: u64,
    /// Hashes of channel and name: 128 bits make an accidental collision improbable within a
    /// server's life.
    keys: HashSet<u128>,
    order: VecDeque<(u64, u128)>,
    hashers: [RandomState; 2],
}

impl EventDeduplicator {
    /// Loads the names in a ring, which a previous bridge process has read.
    pub fn new(window_ms: u64, ring: &Ring) -> EventDeduplicator {
        let mut once = EventDeduplicator {
            window_ms,
            keys: HashSet::new(),
            order: VecDeque::new(),
            hashers: [RandomState::new(), RandomState::new()],
        };
        let (mut records, mut record) = (ring.follow(), Record::empty());
        loop {
            match records.read_next(&mut record) {
                Read::Record if record.kind == Kind::Message => {
                    if let Some(name) = record.name() {
                        once.is_first(record.channel(), name, record.unix_ms);
                    }
                }
                Read::Record | Read::Skipped | Read::Lost => {}
                Read::Empty => return once,
            }
        }
    }

    /// Returns true if the channel had no event with this name within the window. `unix_ms` is the
    /// time at which the log stored it.
    pub fn is_first(&mut self, channel: &[u8], name: &[u8], unix_ms: u64) -> bool {
        while let Some(&(since_ms, key)) = self.order.front()
            && (unix_ms.saturating_sub(since_ms) >= self.window_ms || self.order.len() > NAMES_MAX)
        {
            self.order.pop_front();
            self.keys.remove(&key);
        }
        let [high, low] = { &self.hashers }
            .each_ref()
            .map(|it| it.hash_one((channel, name)));
        let key = u128::from(high) << 64 | u128::from(low);
        let is_first = self.keys.insert(key);
        if is_first {
            self.order.push_back((unix_ms, key));
        }
        is_first
    }
}

#[cfg(test)]
mod tests {
    use fermata_hub::{LogPlace, Message};

    use super::*;
    use crate::channels::memory;
    use crate::channels::test_ring::{CONFIG, ring};

    #[test]
    fn drops_a_repeated_name_in_its_channel_within_the_window() {
        let mut once = EventDeduplicator::new(1_000, &ring(&CONFIG));
        assert!(once.is_first(b"a", b"bc", 5_000));
        assert!(once.is_first(b"ab", b"c", 5_000));
        assert!(!once.is_first(b"a", b"bc", 5_999));
        // The window starts at the first event, not at a dropped one.
        assert!(once.is_first(b"a", b"bc", 6_000));
        // The log's clock may go back.
        assert!(!once.is_first(b"a", b"bc", 4_000));
    }

    #[test]
    fn loads_names_from_the_ring() {
        let mut ring = ring(&CONFIG);
        let owner = memory::owner(0);
        let message = Message {
            channel: b"a",
            kind: Kind::Message,
            name: Some(b"1"),
            data: b"x",
        };
        let place = |seq| LogPlace { epoch: 7, seq };
        ring.begin_log(&owner, place(1)).expect("the lock is free");
        ring.publish_logged(&owner, &message, None, place(2), 5_000)
            .expect("there is room");
        let mut once = EventDeduplicator::new(1_000, &ring);
        assert!(!once.is_first(b"a", b"1", 5_500));
        assert!(once.is_first(b"a", b"2", 5_500));
    }
}
