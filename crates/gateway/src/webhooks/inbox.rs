//! What the worker hands to a sender: the newest count of each channel, and misses.
//!
//! Counts are absolute, so a newer one takes the place of one that was not fetched yet.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Misses, and channels whose count is to be told, that wait to be fetched.
const WAITING_MAX: usize = 10_000;

/// Channels of one report, which has to fit into one record.
const REPORT_CHANNELS_MAX: usize = 100;

/// Whether a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// There is no other server.
    Alone,
    /// It does so for all servers of the cluster.
    Sends,
    /// Another server does.
    Waits,
}

/// What a backend has been told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The id of the event up to which it has been told.
    pub told: Option<String>,
    /// Channels that it now believes occupied, or not.
    pub beliefs: Vec<(String, bool)>,
}

pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    /// What this sender has told, for other servers.
    outbound: Mutex<Learned>,
    /// What the sender of another server has told.
    inbound: Mutex<Learned>,
    role: AtomicU8,
    is_asked: AtomicBool,
    is_over: AtomicBool,
}

/// The newest of what was told. Of beliefs as many as there are channels whose subscribers have come or gone.
#[derive(Default)]
pub(super) struct Learned {
    pub told: Option<String>,
    pub beliefs: HashMap<String, bool>,
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

    /// The sender of another server has told this.
    pub fn hear(&self, told: Option<&str>, beliefs: Vec<(String, bool)>) {
        let mut inbound = locked(&self.inbound);
        inbound.beliefs.extend(beliefs);
        if told.is_some() {
            inbound.told = told.map(str::to_owned);
        }
    }

    /// What was heard since the last call.
    pub fn heard(&self) -> Learned {
        std::mem::take(&mut locked(&self.inbound))
    }

    /// Everything is to be reported.
    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::Release);
    }

    pub fn take_asked(&self) -> bool {
        self.is_asked.swap(false, Ordering::AcqRel)
    }

    /// A backend has been told up to an event.
    pub fn report_told(&self, id: String) {
        locked(&self.outbound).told = Some(id);
    }

    /// A backend believes a channel occupied, or not.
    pub fn report_belief(&self, channel: &str, is_occupied: bool) {
        let mut outbound = locked(&self.outbound);
        outbound.beliefs.insert(channel.to_owned(), is_occupied);
    }

    /// A part of what was reported since the last call.
    pub fn take_report(&self) -> Option<Report> {
        let mut outbound = locked(&self.outbound);
        if outbound.told.is_none() && outbound.beliefs.is_empty() {
            return None;
        }
        let channels = outbound.beliefs.keys().take(REPORT_CHANNELS_MAX);
        let channels: Vec<String> = channels.cloned().collect();
        let beliefs = { channels.into_iter() }.filter_map(|it| outbound.beliefs.remove_entry(&it));
        let beliefs = beliefs.collect();
        let told = outbound.told.take();
        Some(Report { told, beliefs })
    }

    /// The other servers could not be told that. What was reported since then is newer.
    pub fn put_back(&self, told: Option<String>, beliefs: Vec<(String, bool)>) {
        let mut outbound = locked(&self.outbound);
        for (channel, is_occupied) in beliefs {
            outbound.beliefs.entry(channel).or_insert(is_occupied);
        }
        outbound.told = outbound.told.take().or(told);
    }

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
    fn what_has_become_empty_is_taken_without_room() {
        let inbox = Inbox::new(Role::Alone);
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
    fn what_is_reported_is_the_newest_in_parts() {
        let inbox = Inbox::new(Role::Sends);
        assert_eq!(inbox.take_report(), None);
        for at in 0..=REPORT_CHANNELS_MAX {
            inbox.report_belief(&at.to_string(), true);
        }
        inbox.report_told("e-1".to_owned());
        let first = inbox.take_report().expect("a part");
        assert_eq!(first.beliefs.len(), REPORT_CHANNELS_MAX);
        let channel = first.beliefs[0].0.clone();
        inbox.report_belief(&channel, false);
        inbox.report_told("e-2".to_owned());
        inbox.put_back(first.told, first.beliefs);
        let mut beliefs = HashMap::new();
        while let Some(report) = inbox.take_report() {
            assert_ne!(report.told.as_deref(), Some("e-1"));
            beliefs.extend(report.beliefs);
        }
        assert_eq!(beliefs.len(), REPORT_CHANNELS_MAX + 1);
        assert!(!beliefs[&channel]);
    }

    #[test]
    fn it_is_bounded_and_counts_what_has_no_room() {
        let inbox = Inbox::new(Role::Alone);
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
