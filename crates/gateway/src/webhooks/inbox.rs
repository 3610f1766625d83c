//! Data that the worker passes to a sender: the newest count of each channel, and cache misses.
//!
//! Counts are absolute, so a newer count replaces one that was not fetched yet.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of waiting cache misses, and of channels whose count waits to be sent.
const WAITING_MAX: usize = 10_000;

/// Maximum number of channels in one report, which has to fit into one record.
const REPORT_CHANNELS_MAX: usize = 100;

/// Role of a server's senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The server is not part of a cluster.
    Alone,
    /// This server sends for all servers of the cluster.
    Sends,
    /// Another server sends.
    Waits,
}

/// Changes of the state that a backend has received.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Id of the last event that the backend acknowledged.
    pub acknowledged: Option<String>,
    /// Channels whose state the backend has received; true: occupied.
    pub occupancies: Vec<(String, bool)>,
}

pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    /// Deliveries of this sender, for other servers.
    outbound: Mutex<Learned>,
    /// Deliveries reported by the sender of another server.
    inbound: Mutex<Learned>,
    role: AtomicU8,
    is_asked: AtomicBool,
    is_over: AtomicBool,
}

/// The newest deliveries. The number of occupancies is bounded by the channels that were occupied or vacated.
#[derive(Default)]
pub(super) struct Learned {
    pub acknowledged: Option<String>,
    pub occupancies: HashMap<String, bool>,
}

#[derive(Default)]
pub(super) struct Waiting {
    /// Number of subscriptions by channel, for the occupancy events. Counts of zero are fetched even if there is no room for
    /// events, so the size is limited by the number of channels with subscribers.
    pub counts: HashMap<String, u64>,
    /// Subscriptions of channels whose count is sent.
    pub subscription_counts: HashMap<String, u64>,
    /// Cache channels that were found empty.
    pub misses: VecDeque<String>,
    /// Number of entries dropped for lack of room.
    pub dropped: u64,
}

impl Inbox {
    pub fn new(role: Role) -> Inbox {
        Inbox {
            waiting: Mutex::default(),
            outbound: Mutex::default(),
            inbound: Mutex::default(),
            role: AtomicU8::new(role as u8),
            is_asked: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    pub fn set_role(&self, role: Role) {
        self.role.store(role as u8, Ordering::Release);
    }

    pub fn role(&self) -> Role {
        match self.role.load(Ordering::Acquire) {
            it if it == Role::Sends as u8 => Role::Sends,
            it if it == Role::Waits as u8 => Role::Waits,
            _ => Role::Alone,
        }
    }

    /// Stores deliveries that the sender of another server reported.
    pub fn add_deliveries(&self, acknowledged: Option<&str>, occupancies: Vec<(String, bool)>) {
        let mut inbound = locked(&self.inbound);
        inbound.occupancies.extend(occupancies);
        if acknowledged.is_some() {
            inbound.acknowledged = acknowledged.map(str::to_owned);
        }
    }

    /// Returns and clears the stored deliveries of another server.
    pub fn deliveries(&self) -> Learned {
        std::mem::take(&mut locked(&self.inbound))
    }

    /// Requests a full report.
    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::Release);
    }

    pub fn take_asked(&self) -> bool {
        self.is_asked.swap(false, Ordering::AcqRel)
    }

    /// Records the id of the last event that the backend acknowledged.
    pub fn report_acknowledged(&self, id: String) {
        locked(&self.outbound).acknowledged = Some(id);
    }

    /// Records the state of a channel that the backend acknowledged.
    pub fn report_occupancy(&self, channel: &str, is_occupied: bool) {
        let mut outbound = locked(&self.outbound);
        outbound.occupancies.insert(channel.to_owned(), is_occupied);
    }

    /// Returns a part of the deliveries recorded since the last call.
    pub fn take_report(&self) -> Option<Report> {
        let mut outbound = locked(&self.outbound);
        if outbound.acknowledged.is_none() && outbound.occupancies.is_empty() {
            return None;
        }
        let channels = outbound.occupancies.keys().take(REPORT_CHANNELS_MAX);
        let channels: Vec<String> = channels.cloned().collect();
        let occupancies =
            { channels.into_iter() }.filter_map(|it| outbound.occupancies.remove_entry(&it));
        let occupancies = occupancies.collect();
        let acknowledged = outbound.acknowledged.take();
        Some(Report {
            acknowledged,
            occupancies,
        })
    }

    /// Stores a report again that could not be sent. Newer records take precedence.
    pub fn put_back(&self, acknowledged: Option<String>, occupancies: Vec<(String, bool)>) {
        let mut outbound = locked(&self.outbound);
        for (channel, is_occupied) in occupancies {
            outbound.occupancies.entry(channel).or_insert(is_occupied);
        }
        outbound.acknowledged = outbound.acknowledged.take().or(acknowledged);
    }

    pub fn set_count(&self, channel: &str, count: u64) {
        set(&mut self.lock().counts, channel, count);
    }

    pub fn send_count(&self, channel: &str, count: u64) {
        let mut waiting = self.lock();
        if waiting.subscription_counts.len() < WAITING_MAX
            || waiting.subscription_counts.contains_key(channel)
        {
            set(&mut waiting.subscription_counts, channel, count);
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

    /// Marks the inbox as closed: no more data follows.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Removes and returns at most `count_max` of each kind. Channels without subscribers do not count towards the limit.
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
        let mut subscription_counts = HashMap::new();
        waiting.subscription_counts.retain(|channel, count| {
            let is_taken = subscription_counts.len() < count_max;
            if is_taken {
                subscription_counts.insert(channel.clone(), *count);
            }
            !is_taken
        });
        let misses = waiting.misses.len().min(count_max);
        Waiting {
            counts,
            subscription_counts,
            misses: waiting.misses.drain(..misses).collect(),
            dropped: std::mem::take(&mut waiting.dropped),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        locked(&self.waiting)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn takes_vacated_channels_without_room() {
        let inbox = Inbox::new(Role::Alone);
        inbox.set_count("a", 1);
        inbox.set_count("b", 2);
        inbox.set_count("b", 0);
        inbox.send_count("a", 1);
        inbox.miss("c");
        let waiting = inbox.take(0);
        assert_eq!(waiting.counts, HashMap::from([("b".to_owned(), 0)]));
        assert!(waiting.subscription_counts.is_empty() && waiting.misses.is_empty());
        let waiting = inbox.take(9);
        assert_eq!(waiting.counts, HashMap::from([("a".to_owned(), 1)]));
        assert_eq!(
            (waiting.subscription_counts.len(), waiting.misses.len()),
            (1, 1)
        );
    }

    #[test]
    fn reports_newest_deliveries_in_parts() {
        let inbox = Inbox::new(Role::Sends);
        assert_eq!(inbox.take_report(), None);
        for at in 0..=REPORT_CHANNELS_MAX {
            inbox.report_occupancy(&at.to_string(), true);
        }
        inbox.report_acknowledged("e-1".to_owned());
        let first = inbox.take_report().expect("a part");
        assert_eq!(first.occupancies.len(), REPORT_CHANNELS_MAX);
        let channel = first.occupancies[0].0.clone();
        inbox.report_occupancy(&channel, false);
        inbox.report_acknowledged("e-2".to_owned());
        inbox.put_back(first.acknowledged, first.occupancies);
        let mut occupancies = HashMap::new();
        while let Some(report) = inbox.take_report() {
            assert_ne!(report.acknowledged.as_deref(), Some("e-1"));
            occupancies.extend(report.occupancies);
        }
        assert_eq!(occupancies.len(), REPORT_CHANNELS_MAX + 1);
        assert!(!occupancies[&channel]);
    }

    #[test]
    fn bounds_waiting_entries_and_counts_dropped_ones() {
        let inbox = Inbox::new(Role::Alone);
        for at in 0..WAITING_MAX + 3 {
            inbox.miss("c");
            inbox.send_count(&at.to_string(), 1);
        }
        inbox.send_count("0", 2);
        let waiting = inbox.take(usize::MAX);
        assert_eq!(waiting.misses.len(), WAITING_MAX);
        assert_eq!(
            (
                waiting.subscription_counts.len(),
                waiting.subscription_counts["0"]
            ),
            (WAITING_MAX, 2)
        );
        assert_eq!(waiting.dropped, 6);
    }
}
