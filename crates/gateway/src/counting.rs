//! Schedules the announcements of a channel's subscription count to subscribers and the application.
//!
//! Small counts are announced immediately. Channels with many subscriptions are announced only every few seconds,
//! because each announcement goes to all subscribers.

use std::collections::HashMap;

/// Maximum number of subscriptions of a channel that is announced immediately.
const FEW: u64 = 100;
/// Minimum interval in milliseconds between two announcements of a channel with more than [`FEW`] subscriptions.
const INTERVAL_MS: u64 = 5_000;

/// Announced counts and pending announcements, by ring name.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    /// The last announced count of each channel that has subscriptions.
    announced: HashMap<String, Announced>,
    /// Time of the next announcement of each large channel that changed since its last announcement.
    late: HashMap<String, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Announced {
    count: u64,
    at_ms: u64,
}

impl Counting {
    /// Records a channel's new count; returns true if it has to be announced now.
    pub fn change(&mut self, ring_name: &str, count: u64, now_ms: u64) -> bool {
        let announced = self.announced.get(ring_name).copied();
        // A channel without an announced count has 0 subscriptions for the receivers.
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

    /// Drops all announced counts.
    pub fn clear(&mut self) {
        self.announced.clear();
        self.late.clear();
    }

    /// Returns the channels whose interval is over, to announce them now. `count` returns the number of subscriptions of a channel.
    pub fn take_due(&mut self, now_ms: u64, count: impl Fn(&str) -> u64) -> Vec<String> {
        let due = self.late.extract_if(|_, due_ms| *due_ms <= now_ms);
        let due: Vec<String> = due.map(|(ring_name, _)| ring_name).collect();
        for ring_name in &due {
            self.note(ring_name, count(ring_name), now_ms);
        }
        due
    }

    /// Returns the time of the next announcement if no count changes until then. The search is linear, because few channels have
    /// more than [`FEW`] subscriptions.
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
    fn announces_small_counts_immediately_and_once() {
        let mut counting = Counting::default();
        assert!(!counting.change("a", 0, 0));
        for count in [1, 2, 1, 0] {
            assert!(counting.change("a", count, 0));
            assert!(!counting.change("a", count, 0));
        }
        assert!(counting.announced.is_empty());
    }

    #[test]
    fn announces_large_counts_at_intervals() {
        let mut counting = Counting::default();
        assert!(counting.change("a", FEW + 1, 10));
        assert!(!counting.change("a", FEW + 2, 20));
        assert!(!counting.change("a", FEW + 3, 30));
        assert_eq!(counting.due_ms(), Some(10 + INTERVAL_MS));
        assert!(counting.take_due(9 + INTERVAL_MS, |_| 0).is_empty());
        assert_eq!(counting.take_due(10 + INTERVAL_MS, |_| FEW + 3), ["a"]);
        assert_eq!(counting.due_ms(), None);
        assert!(!counting.change("a", FEW + 4, 11 + INTERVAL_MS));
        // The count equals the last announced one again.
        assert!(!counting.change("a", FEW + 3, 12 + INTERVAL_MS));
        assert_eq!(counting.due_ms(), None);
        assert!(!counting.change("a", FEW + 4, 13 + INTERVAL_MS));
        assert!(counting.change("a", FEW, 14 + INTERVAL_MS));
        assert_eq!(counting.due_ms(), None);
    }
}
