//! What the worker hands to a sender: the newest count of each channel, and misses.
//!
//! Counts are absolute, so a newer one takes the place of one that was not fetched yet.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Misses, and channels whose count is to be told, that wait to be fetched.
const WAITING_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    is_over: AtomicBool,
}

#[derive(Default)]
pub(super) struct Waiting {
    /// Subscriptions of channels, for whether they are occupied. As many as there are channels with subscribers; those
    /// without are fetched whether there is room for events or not.
    pub counts: HashMap<String, u64>,
    /// Subscriptions of channels that are to be told.
    pub told: HashMap<String, u64>,
    /// Cache channels that were found empty.
    pub misses: VecDeque<String>,
    /// What there was no room for.
    pub dropped: u64,
}

impl Inbox {
    pub fn set_count(&self, channel: &str, count: u64) {
        set(&mut self.lock().counts, channel, count);
    }

    pub fn tell_count(&self, channel: &str, count: u64) {
        let mut waiting = self.lock();
        if waiting.told.len() < WAITING_MAX || waiting.told.contains_key(channel) {
            set(&mut waiting.told, channel, count);
        } else {
            waiting.dropped += 1;
        }
    }

    pub fn miss(&self, channel: &str) {
        let mut waiting = self.lock();
        if waiting.misses.len() < WAITING_MAX {
            waiting.misses.push_back(channel.to_owned());
        } else {
            waiting.dropped += 1;
        }
    }

    /// No more is handed over.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Takes what there is, at most so many of each; channels without subscribers are not counted.
    pub fn take(&self, count_max: usize) -> Waiting {
        let mut waiting = self.lock();
        let mut counts = HashMap::new();
        waiting.counts.retain(|channel, count| {
            let is_taken = *count == 0 || counts.len() < count_max;
            if is_taken {
                counts.insert(channel.clone(), *count);
            }
            !is_taken
        });
        let mut told = HashMap::new();
        waiting.told.retain(|channel, count| {
            let is_taken = told.len() < count_max;
            if is_taken {
                told.insert(channel.clone(), *count);
            }
            !is_taken
        });
        let misses = waiting.misses.len().min(count_max);
        Waiting {
            counts,
            told,
            misses: waiting.misses.drain(..misses).collect(),
            dropped: std::mem::take(&mut waiting.dropped),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set(counts: &mut HashMap<String, u64>, channel: &str, count: u64) {
    match counts.get_mut(channel) {
        Some(place) => *place = count,
        None => {
            counts.insert(channel.to_owned(), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_become_empty_is_taken_without_room() {
        let inbox = Inbox::default();
        inbox.set_count("a", 1);
        inbox.set_count("b", 2);
        inbox.set_count("b", 0);
        inbox.tell_count("a", 1);
        inbox.miss("c");
        let waiting = inbox.take(0);
        assert_eq!(waiting.counts, HashMap::from([("b".to_owned(), 0)]));
        assert!(waiting.told.is_empty() && waiting.misses.is_empty());
        let waiting = inbox.take(9);
        assert_eq!(waiting.counts, HashMap::from([("a".to_owned(), 1)]));
        assert_eq!((waiting.told.len(), waiting.misses.len()), (1, 1));
    }

    #[test]
    fn it_is_bounded_and_counts_what_has_no_room() {
        let inbox = Inbox::default();
        for at in 0..WAITING_MAX + 3 {
            inbox.miss("c");
            inbox.tell_count(&at.to_string(), 1);
        }
        inbox.tell_count("0", 2);
        let waiting = inbox.take(usize::MAX);
        assert_eq!(waiting.misses.len(), WAITING_MAX);
        assert_eq!((waiting.told.len(), waiting.told["0"]), (WAITING_MAX, 2));
        assert_eq!(waiting.dropped, 6);
    }
}
