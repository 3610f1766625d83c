//! Events that the log has twice, of embedders whose events have names of their own: what is published to several servers, or
//! was tried again at another one.
//!
//! All servers read the log in one order and by its clock, so all leave out the same.

use std::collections::hash_map::RandomState;
use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher;

use fermata_hub::{Kind, Read, Record, Ring};

/// Names that are remembered; with more the oldest are forgotten.
const NAMES_MAX: usize = 1_000_000;

/// The names that channels have had not long ago.
pub(super) struct Once {
    window_ms: u64,
    /// Of a channel and a name: that two of them are the same by chance is not to be expected in the life of a server.
    keys: HashSet<u128>,
    order: VecDeque<(u64, u128)>,
    hashers: [RandomState; 2],
}

impl Once {
    /// Knows what a ring has: the process before has read it.
    pub fn new(window_ms: u64, ring: &Ring) -> Once {
        let mut once = Once {
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

    /// Whether a channel has not had an event with this name not long ago. `unix_ms` is when the log has stored it.
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
    fn a_name_is_known_for_its_time_in_its_channel() {
        let mut once = Once::new(1_000, &ring(&CONFIG));
        assert!(once.is_first(b"a", b"bc", 5_000));
        assert!(once.is_first(b"ab", b"c", 5_000));
        assert!(!once.is_first(b"a", b"bc", 5_999));
        // The first one counts, not the one that was left out.
        assert!(once.is_first(b"a", b"bc", 6_000));
        // The log's clock may go back.
        assert!(!once.is_first(b"a", b"bc", 4_000));
    }

    #[test]
    fn the_next_process_knows_what_the_ring_has() {
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
        let mut once = Once::new(1_000, &ring);
        assert!(!once.is_first(b"a", b"1", 5_500));
        assert!(once.is_first(b"a", b"2", 5_500));
    }
}
