//! Number of clients of each channel, over all workers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::stats::mode::Mode;

/// Maximum number of outdated queue entries, in addition to one entry per present channel.
const PAST_DUE_MAX: usize = 1_024;

/// A channel and the transport of its clients.
pub type Key = (Mode, Vec<u8>);

/// The clients of one route in one worker.
pub type Part = (u64, Vec<u8>);

/// A report on a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountChange {
    /// The channel has this number of clients. The number is zero while the channel lingers.
    There(Key, u64),
    /// The channel has no clients left.
    Gone(Key),
}

#[derive(Debug, Default)]
struct Entry {
    parts: HashMap<Part, u64>,
    /// Time of the next report; queue entries with another time are outdated.
    due_ms: u64,
}

impl Entry {
    fn count(&self) -> u64 {
        self.parts.values().sum()
    }
}

/// All channels with clients.
#[derive(Debug)]
pub struct ChannelCounts {
    channels: HashMap<Key, Entry>,
    due: BinaryHeap<Reverse<(u64, Key)>>,
    /// Interval between reports of a channel.
    again_ms: u64,
    /// Time for which a channel of long polls remains between two requests.
    linger_ms: u64,
}

impl ChannelCounts {
    /// Creates a counter without channels. Each channel is reported every `again_ms` and remains for `linger_ms` after its last
    /// long poll.
    pub fn new(again_ms: u64, linger_ms: u64) -> Self {
        Self {
            channels: HashMap::new(),
            due: BinaryHeap::new(),
            again_ms: again_ms.max(1),
            linger_ms,
        }
    }

    /// Returns the clients of a channel.
    pub fn count(&self, mode: Mode, channel: &[u8]) -> u64 {
        let key = (mode, channel.to_vec());
        self.channels.get(&key).map_or(0, Entry::count)
    }

    /// Returns the clients of a channel by route.
    pub fn by_route(&self, mode: Mode, channel: &[u8]) -> Vec<(&[u8], u64)> {
        let key = (mode, channel.to_vec());
        let parts = self.channels.get(&key).map(|it| it.parts.iter());
        let parts = parts.into_iter().flatten();
        parts
            .map(|((_, route), count)| (&route[..], *count))
            .collect()
    }

    /// Records the number of a worker's clients of a route.
    pub fn set(
        &mut self,
        now_ms: u64,
        part: Part,
        key: Key,
        count: u64,
        changes: &mut Vec<CountChange>,
    ) {
        let is_new = !self.channels.contains_key(&key);
        if is_new && count == 0 {
            return;
        }
        let entry = self.channels.entry(key.clone()).or_default();
        let had = entry.count();
        match count {
            0 => entry.parts.remove(&part),
            count => entry.parts.insert(part, count),
        };
        let has = entry.count();
        let linger_ms = match key.0 {
            Mode::Response => self.linger_ms,
            Mode::Stream | Mode::Socket => 0,
        };
        match (had, has) {
            (_, 0) if linger_ms == 0 => {
                self.channels.remove(&key);
                changes.push(CountChange::Gone(key));
            }
            (1.., 0) => {
                entry.due_ms = now_ms + linger_ms;
                self.due.push(Reverse((entry.due_ms, key)));
            }
            (0, 1..) => {
                entry.due_ms = now_ms + self.again_ms;
                self.due.push(Reverse((entry.due_ms, key.clone())));
                if is_new {
                    changes.push(CountChange::There(key, has));
                }
            }
            _ => {}
        }
        self.bound_due();
    }

    /// Removes outdated queue entries when they outnumber the valid ones. Each channel has one valid entry.
    fn bound_due(&mut self) {
        if self.due.len() > PAST_DUE_MAX + 2 * self.channels.len() {
            let channels = self.channels.iter();
            self.due = channels
                .map(|(key, entry)| Reverse((entry.due_ms, key.clone())))
                .collect();
        }
    }

    /// Removes a worker and its clients.
    pub fn forget(&mut self, now_ms: u64, worker: u64, changes: &mut Vec<CountChange>) {
        let mut gone = Vec::new();
        for (key, entry) in &self.channels {
            let parts = entry.parts.keys().filter(|(of, _)| *of == worker);
            gone.extend(parts.map(|part| (part.clone(), key.clone())));
        }
        for (part, key) in gone {
            self.set(now_ms, part, key, 0, changes);
        }
    }

    /// Appends the reports that are due.
    pub fn expire(&mut self, now_ms: u64, changes: &mut Vec<CountChange>) {
        while let Some(Reverse((due_ms, _))) = self.due.peek()
            && *due_ms <= now_ms
        {
            let Some(Reverse((due_ms, key))) = self.due.pop() else {
                return;
            };
            let Some(entry) = self.channels.get_mut(&key) else {
                // The channel was removed since this entry was queued.
                continue;
            };
            if entry.due_ms != due_ms {
                continue;
            }
            match entry.count() {
                0 => {
                    self.channels.remove(&key);
                    changes.push(CountChange::Gone(key));
                }
                count => {
                    entry.due_ms = now_ms + self.again_ms;
                    self.due.push(Reverse((entry.due_ms, key.clone())));
                    changes.push(CountChange::There(key, count));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(worker: u64) -> Part {
        (worker, b"r".to_vec())
    }

    fn key(mode: Mode) -> Key {
        (mode, b"c".to_vec())
    }

    #[test]
    fn channel_exists_while_any_worker_has_clients() {
        let (mut counts, mut changes) = (ChannelCounts::new(30, 60), Vec::new());
        counts.set(0, part(1), key(Mode::Stream), 2, &mut changes);
        counts.set(0, part(2), key(Mode::Stream), 3, &mut changes);
        assert_eq!(changes, [CountChange::There(key(Mode::Stream), 2)]);
        assert_eq!(counts.count(Mode::Stream, b"c"), 5);
        let by_route = counts.by_route(Mode::Stream, b"c");
        assert_eq!(by_route.iter().map(|it| it.1).sum::<u64>(), 5);
        changes.clear();
        counts.set(0, part(1), key(Mode::Stream), 0, &mut changes);
        counts.expire(29, &mut changes);
        assert_eq!(changes, []);
        counts.expire(30, &mut changes);
        assert_eq!(changes, [CountChange::There(key(Mode::Stream), 3)]);
        changes.clear();
        counts.forget(31, 2, &mut changes);
        counts.expire(1_000, &mut changes);
        assert_eq!(changes, [CountChange::Gone(key(Mode::Stream))]);
    }

    /// Queue entries of clients that have left are removed before they are due.
    #[test]
    fn queue_is_bounded_by_present_channels() {
        for mode in [Mode::Response, Mode::Stream] {
            let (mut counts, mut changes) = (ChannelCounts::new(60_000, 60_000), Vec::new());
            for now_ms in 0..20_000 {
                counts.set(now_ms, part(1), key(mode), 1, &mut changes);
                counts.set(now_ms, part(1), key(mode), 0, &mut changes);
            }
            assert!(counts.due.len() <= 2 * 1_024, "{}", counts.due.len());
            counts.set(20_000, part(1), key(mode), 1, &mut changes);
            changes.clear();
            counts.expire(80_000, &mut changes);
            assert_eq!(changes, [CountChange::There(key(mode), 1)]);
        }
    }

    #[test]
    fn channel_lingers_between_two_long_polls() {
        let (mut counts, mut changes) = (ChannelCounts::new(1_000, 60), Vec::new());
        counts.set(0, part(1), key(Mode::Response), 1, &mut changes);
        counts.set(1, part(1), key(Mode::Response), 0, &mut changes);
        counts.set(50, part(1), key(Mode::Response), 1, &mut changes);
        counts.expire(100, &mut changes);
        assert_eq!(changes, [CountChange::There(key(Mode::Response), 1)]);
        counts.set(200, part(1), key(Mode::Response), 0, &mut changes);
        counts.expire(259, &mut changes);
        assert_eq!(changes.len(), 1);
        counts.expire(260, &mut changes);
        assert_eq!(
            changes.last(),
            Some(&CountChange::Gone(key(Mode::Response)))
        );
        assert!(counts.channels.is_empty());
    }
}
