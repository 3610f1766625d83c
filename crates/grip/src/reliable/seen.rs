//! Ids of recent items.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

/// A set whose entries expire. If the set is full, its oldest entry is dropped.
#[derive(Debug)]
pub(super) struct Seen {
    keys: HashSet<Rc<[u8]>>,
    order: VecDeque<(u64, Rc<[u8]>)>,
    ttl_ms: u64,
    count_max: usize,
}

impl Seen {
    pub fn new(ttl_ms: u64, count_max: usize) -> Self {
        Self {
            keys: HashSet::new(),
            order: VecDeque::new(),
            ttl_ms,
            count_max,
        }
    }

    /// Adds an item. Returns false if the item is already present.
    pub fn insert(&mut self, now_ms: u64, channel: &[u8], id: &[u8]) -> bool {
        self.expire(now_ms);
        let key = key(channel, id);
        if !self.keys.insert(key.clone()) {
            return false;
        }
        if self.order.len() >= self.count_max
            && let Some((_, oldest)) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
        self.order.push_back((now_ms, key));
        true
    }

    /// Removes the item that was added last, because it was not accepted.
    pub fn remove(&mut self, channel: &[u8], id: &[u8]) {
        let key = key(channel, id);
        if self.order.back().is_some_and(|(_, last)| *last == key) {
            self.order.pop_back();
            self.keys.remove(&key);
        }
    }

    /// Removes any item, because it was accepted but not delivered.
    pub fn forget(&mut self, channel: &[u8], id: &[u8]) {
        let key = key(channel, id);
        if self.keys.remove(&key)
            && let Some(at) = self.order.iter().rposition(|(_, it)| *it == key)
        {
            self.order.remove(at);
        }
    }

    fn expire(&mut self, now_ms: u64) {
        while let Some((since_ms, _)) = self.order.front()
            && now_ms.saturating_sub(*since_ms) >= self.ttl_ms
            && let Some((_, key)) = self.order.pop_front()
        {
            self.keys.remove(&key);
        }
    }
}

/// The length distinguishes ("a", "bc") from ("ab", "c").
fn key(channel: &[u8], id: &[u8]) -> Rc<[u8]> {
    [&(channel.len() as u64).to_le_bytes()[..], channel, id]
        .concat()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_expires_after_its_time() {
        let mut seen = Seen::new(1000, 10);
        assert!(seen.insert(0, b"a", b"bc"));
        assert!(seen.insert(0, b"ab", b"c"));
        assert!(!seen.insert(999, b"a", b"bc"));
        assert!(seen.insert(1000, b"a", b"bc"));
    }

    #[test]
    fn removed_id_is_unknown() {
        let mut seen = Seen::new(1000, 10);
        assert!(seen.insert(0, b"a", b"1") && seen.insert(0, b"a", b"2"));
        seen.remove(b"a", b"1");
        seen.remove(b"a", b"2");
        assert!(!seen.insert(0, b"a", b"1") && seen.insert(0, b"a", b"2"));
    }

    #[test]
    fn forgotten_id_is_unknown_despite_later_ids() {
        let mut seen = Seen::new(1000, 10);
        assert!(seen.insert(0, b"a", b"1") && seen.insert(500, b"a", b"2"));
        seen.forget(b"a", b"1");
        seen.forget(b"a", b"3");
        assert!(seen.insert(600, b"a", b"1") && !seen.insert(600, b"a", b"2"));
        // The entry expires relative to the second insertion.
        assert!(!seen.insert(1_599, b"a", b"1") && seen.insert(1_600, b"a", b"1"));
    }

    #[test]
    fn drops_the_oldest_id_when_full() {
        let mut seen = Seen::new(1000, 2);
        for id in [b"1", b"2", b"3"] {
            assert!(seen.insert(0, b"a", id));
        }
        assert!(seen.insert(0, b"a", b"1") && !seen.insert(0, b"a", b"3"));
        assert_eq!((seen.keys.len(), seen.order.len()), (2, 2));
    }
}
