//! Counters of single routes in memory that all workers share: requests, failures and bytes, by the route's `id`.
//!
//! Each worker has its own words per route, so counting needs no synchronization. Readers add the words up. Routes without an id
//! share one entry, as do routes beyond the limit.

use std::sync::atomic::{AtomicU64, Ordering};

use fermata_io::shm::Shared;

use crate::hash::hash;
use crate::routes::Routes;

/// Maximum number of routes with separate counters; an entry is never freed.
const ROUTES_MAX: usize = 256;
/// Words per route: two cache lines.
const WORDS: usize = 16;

/// Counters, except the counters of published items. Sizes of heads exclude separators. Messages are WebSocket messages; their
/// bytes count as body bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Requests,
    Failed,
    ClientReceived,
    ClientSent,
    ServerReceived,
    ServerSent,
    ClientHeadReceived,
    ClientHeadSent,
    ServerHeadReceived,
    ServerHeadSent,
    ClientMessagesReceived,
    ClientMessagesSent,
    ServerMessagesReceived,
    ServerMessagesSent,
}

/// Counters of one route, by [`Count`].
pub(crate) type Counts = [u64; Count::ServerMessagesSent as usize + 1];

/// The table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteFigures {
    words: &'static [AtomicU64],
}

impl RouteFigures {
    /// Allocates the table. Called before workers are forked.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn new(workers: u64) -> std::io::Result<Self> {
        let workers = usize::try_from(workers).unwrap_or(1).max(1);
        let memory = Shared::anonymous(ROUTES_MAX + workers * (ROUTES_MAX + 1) * WORDS)?;
        Ok(Self {
            words: memory.words(),
        })
    }

    /// Returns the entry of a route; entry 0 is the shared one.
    fn place(&self, id: Option<&str>) -> usize {
        let Some(id) = id else {
            return 0;
        };
        let key = hash(id.as_bytes()).max(1);
        let start = (key % ROUTES_MAX as u64) as usize;
        for step in 0..ROUTES_MAX {
            let at = (start + step) % ROUTES_MAX;
            let word = &self.words[at];
            let owner = match word.load(Ordering::Acquire) {
                0 => match word.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => key,
                    Err(taken) => taken,
                },
                owner => owner,
            };
            if owner == key {
                return at + 1;
            }
        }
        0
    }

    fn counts_of(&self, worker: usize, place: usize) -> &[AtomicU64] {
        let at = ROUTES_MAX + (worker * (ROUTES_MAX + 1) + place) * WORDS;
        self.words.get(at..at + WORDS).unwrap_or_default()
    }

    pub(crate) fn add(&self, worker: u16, id: Option<&str>, counted: &[(Count, u64)]) {
        let counts = self.counts_of(usize::from(worker), self.place(id));
        for &(count, by) in counted.iter().filter(|(_, by)| *by > 0) {
            if let Some(word) = counts.get(count as usize) {
                word.fetch_add(by, Ordering::Relaxed);
            }
        }
    }

    fn at(&self, place: usize) -> Counts {
        let workers = (self.words.len() - ROUTES_MAX) / ((ROUTES_MAX + 1) * WORDS);
        let mut sums = Counts::default();
        for worker in 0..workers {
            for (sum, word) in sums.iter_mut().zip(self.counts_of(worker, place)) {
                *sum += word.load(Ordering::Relaxed);
            }
        }
        sums
    }

    /// Returns the sums of all routes.
    pub fn total(&self) -> Counts {
        let mut sums = Counts::default();
        for place in 0..=ROUTES_MAX {
            for (sum, count) in sums.iter_mut().zip(self.at(place)) {
                *sum += count;
            }
        }
        sums
    }

    /// Returns the counters of each route with an id, in the order of the file.
    pub fn by_route<'a>(&self, routes: &'a Routes) -> Vec<(&'a str, Counts)> {
        let mut found: Vec<(&str, Counts)> = Vec::new();
        for id in routes.rules().iter().filter_map(|rule| rule.id.as_deref()) {
            let place = self.place(Some(id));
            if place > 0 && !found.iter().any(|(known, _)| *known == id) {
                found.push((id, self.at(place)));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_with_an_id_are_counted_by_themselves_as_far_as_there_are_places() {
        let figures = RouteFigures::new(2).expect("memory");
        figures.add(0, Some("a"), &[(Count::Requests, 1)]);
        figures.add(1, Some("a"), &[(Count::Requests, 2), (Count::Failed, 0)]);
        figures.add(1, Some("b"), &[(Count::ServerMessagesSent, 5)]);
        figures.add(0, None, &[(Count::Failed, 7)]);
        let (routes, _) = Routes::read("h,id=a o:1\ni o:1\nj,id=b o:1\nk,id=c o:1", |_| Ok(()));
        let found = figures.by_route(&routes);
        let counts = |requests, failed, last| {
            let mut counts = Counts::default();
            (
                counts[0],
                counts[1],
                counts[Count::ServerMessagesSent as usize],
            ) = (requests, failed, last);
            counts
        };
        let expected = [
            ("a", counts(3, 0, 0)),
            ("b", counts(0, 0, 5)),
            ("c", counts(0, 0, 0)),
        ];
        assert_eq!(found, expected);
        assert_eq!(figures.total(), counts(3, 7, 5));
        for number in 0..2 * ROUTES_MAX {
            figures.add(0, Some(&number.to_string()), &[(Count::Requests, 1)]);
        }
        // Routes beyond the limit share one entry, and no count moves to another route.
        assert_eq!(figures.total()[0], 3 + 2 * ROUTES_MAX as u64);
        assert_eq!(figures.by_route(&routes), expected);
        // A worker with a number beyond the table counts nothing.
        figures.add(9, Some("a"), &[(Count::Requests, 1)]);
        assert_eq!(figures.by_route(&routes), expected);
    }
}
