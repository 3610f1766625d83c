//! When subscribers and the application are told how many subscriptions a channel has.
//!
//! At once while they are few; of a channel with many only every few seconds, because each change is sent to all of them.

use std::collections::HashMap;

/// A channel with more subscriptions is announced at intervals.
const FEW: u64 = 100;
/// That interval.
const INTERVAL_MS: u64 = 5_000;

/// Counts of channels that are to be announced, by their names on the ring.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    /// The last count announced of channels that have subscriptions.
    announced: HashMap<String, Announced>,
    /// When the count of a channel with many is announced, of those that changed since the last time.
    late: HashMap<String, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Announced {
    count: u64,
    at_ms: u64,
}

impl Counting {
    /// A channel has so many subscriptions now. True: announce it at once.
    pub fn change(&mut self, ring_name: &str, count: u64, now_ms: u64) -> bool {
        let announced = self.announced.get(ring_name).copied();
        let is_known = announced.map_or(0, |it| it.count) == count;
        let due_ms = announced.map_or(0, |it| it.at_ms + INTERVAL_MS);
        if !is_known && count > FEW && now_ms < due_ms {
            self.late.insert(ring_name.to_owned(), due_ms);
            return false;
        }
        self.late.remove(ring_name);
        if !is_known {
            self.note(ring_name, count, now_ms);
        }
        !is_known
    }

    /// Forgets what was announced.
    pub fn clear(&mut self) {
        self.announced.clear();
        self.late.clear();
    }

    /// Channels whose interval is over, to be announced now. `count` knows how many subscriptions each has.
    pub fn take_due(&mut self, now_ms: u64, count: impl Fn(&str) -> u64) -> Vec<String> {
        let due = self.late.extract_if(|_, due_ms| *due_ms <= now_ms);
        let due: Vec<String> = due.map(|(ring_name, _)| ring_name).collect();
        for ring_name in &due {
            self.note(ring_name, count(ring_name), now_ms);
        }
        due
    }

    /// When there is something to tell if nothing changes; there are few such channels.
    pub fn due_ms(&self) -> Option<u64> {
        self.late.values().min().copied()
    }

    fn note(&mut self, ring_name: &str, count: u64, at_ms: u64) {
        match (self.announced.get_mut(ring_name), count) {
            (_, 0) => {
                self.announced.remove(ring_name);
            }
            (Some(last), _) => *last = Announced { count, at_ms },
            (None, _) => {
                let announced = Announced { count, at_ms };
                self.announced.insert(ring_name.to_owned(), announced);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_announced_at_once_and_once() {
        let mut counting = Counting::default();
        assert!(!counting.change("a", 0, 0));
        for count in [1, 2, 1, 0] {
            assert!(counting.change("a", count, 0));
            assert!(!counting.change("a", count, 0));
        }
        assert!(counting.announced.is_empty());
    }

    #[test]
    fn many_are_announced_in_intervals() {
        let mut counting = Counting::default();
        assert!(counting.change("a", FEW + 1, 10));
        assert!(!counting.change("a", FEW + 2, 20));
        assert!(!counting.change("a", FEW + 3, 30));
        assert_eq!(counting.due_ms(), Some(10 + INTERVAL_MS));
        assert!(counting.take_due(9 + INTERVAL_MS, |_| 0).is_empty());
        assert_eq!(counting.take_due(10 + INTERVAL_MS, |_| FEW + 3), ["a"]);
        assert_eq!(counting.due_ms(), None);
        assert!(!counting.change("a", FEW + 4, 11 + INTERVAL_MS));
        // The count has returned to the one announced last.
        assert!(!counting.change("a", FEW + 3, 12 + INTERVAL_MS));
        assert_eq!(counting.due_ms(), None);
        assert!(!counting.change("a", FEW + 4, 13 + INTERVAL_MS));
        assert!(counting.change("a", FEW, 14 + INTERVAL_MS));
        assert_eq!(counting.due_ms(), None);
    }
}
