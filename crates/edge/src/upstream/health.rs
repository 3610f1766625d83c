//! Health of targets in memory that all workers share: the targets that are out after failures, and for how long.
//!
//! A target goes out in two ways. *Passively*, when `failures_max` requests fail within `within_ms`: after `out_ms`, one
//! request is a trial, and its result decides. *Actively*, when health checks fail, until enough of them succeed in a row.
//! Callers see both as one [`State`].
//!
//! A slot of the table is assigned to a target by a hash of the target's name. So a target's state survives a reload of the routes,
//! and a crash of the worker that wrote it. A slot that no worker used for [`KEPT_MS`] may be assigned to another target. A worker
//! that still refers to the slot for its previous target then writes nothing to it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::hash::hash;

/// Maximum number of targets with state; further targets always count as up.
pub const TARGET_SLOTS_MAX: usize = 1_024;

/// Number of words per slot: one cache line.
const WORDS: usize = 8;

/// Time in milliseconds after which the slot of an unused target may be reassigned. Workers refresh their slots much more often.
const KEPT_MS: u64 = 600_000;

// The words of a slot.
/// Hash of the target's name; 0 if the slot is free.
const KEY: usize = 0;
/// Time of the last refresh, and a tag of the slot's target at that time. A worker claims a slot by two writes. The tag prevents
/// another worker from claiming the slot between the two.
const USED: usize = 1;
/// Time until which the target is out after failures. 0 means not out. A time in the past means that a trial is due.
const OUT_UNTIL_MS: usize = 2;
/// Start of the period in which failures are counted, and the number of failures in it.
const FAILURES: usize = 3;
/// Result of the checks (up or down), and the number of consecutive checks with the opposite result.
const CHECKS: usize = 4;
/// Number of requests, for metrics.
const REQUESTS: usize = 5;
/// Number of failed requests, for metrics.
const FAILED: usize = 6;
/// Time until which the result of the checks is valid. It expires, because the worker that runs the checks may have exited.
const CHECKED_UNTIL_MS: usize = 7;

/// Bits of `USED` that hold the tag.
const TAG_BITS: u32 = 16;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

/// Bits of `FAILURES` that hold the number.
const COUNT_BITS: u32 = 16;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// Bit of `CHECKS` that is set while the checks consider the target down.
const IS_DOWN: u64 = 1 << 32;

/// Size of the table in words.
pub const MEMORY_WORDS: usize = TARGET_SLOTS_MAX * WORDS;

/// Limits after which failed requests take a target out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passive {
    /// Number of failures; 0 = never.
    pub failures_max: u64,
    /// Period in milliseconds within which the failures count.
    pub within_ms: u64,
    /// Time in milliseconds for which the target is out.
    pub out_ms: u64,
}

/// Availability of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The target receives requests.
    Up,
    /// The target was out; the next request is a trial.
    Trial,
    /// The target is out: use it only if all other targets are out, too.
    Out,
}

/// Change of a target's state by a request or a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The target no longer receives requests.
    Out,
    /// The target receives requests again.
    Back,
}

/// Counters of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests sent to the target.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
}

/// A target's slot in the table. It is valid while the slot contains the target's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetSlot {
    at: usize,
    key: u64,
}

/// State of a target when a request was sent. While the target is out, only results of requests sent after it went out count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthAtSend {
    /// Time until which the target was out. 0 means not out.
    out_until_ms: u64,
}

/// Thresholds of health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthThresholds {
    /// Number of consecutive successful checks after which a target is used again.
    pub rise: u64,
    /// Number of consecutive failed checks after which a target is taken out.
    pub fall: u64,
    /// Time for which a verdict is valid.
    pub believed_ms: u64,
}

/// The table of all targets.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    words: &'static [AtomicU64],
}

impl Health {
    /// Uses [`MEMORY_WORDS`] words of memory that are zero at first.
    pub fn new(words: &'static [AtomicU64]) -> Self {
        Self { words }
    }

    /// Finds or claims the slot of the target with this name. Returns `None` if all slots are in use.
    pub fn slot(&self, name: &str, now_ms: u64) -> Option<TargetSlot> {
        // 0 marks a free slot.
        let key = hash(name.as_bytes()).max(1);
        let count = self.words.len() / WORDS;
        let start = (key % count.max(1) as u64) as usize;
        let at = |step| (start + step) % count;
        let slots = (0..count).map(|step| TargetSlot { at: at(step), key });
        // Search all slots: a free slot may precede the target's own slot.
        if let Some(slot) = slots.clone().find(|&slot| self.is_its(slot)) {
            self.set(slot, USED, used(now_ms, key));
            return Some(slot);
        }
        for slot in slots {
            let owner = self.get(slot, KEY);
            if owner == key {
                // Another worker claimed the slot for this target after the search. Workers start together, and a target must have
                // only one slot.
                self.set(slot, USED, used(now_ms, key));
                return Some(slot);
            }
            let last = self.get(slot, USED);
            let is_old = last & TAG_MASK == tag(owner) && now_ms > (last >> TAG_BITS) + KEPT_MS;
            let take = || {
                let word = &self.words[slot.at * WORDS + KEY];
                word.compare_exchange(owner, key, Ordering::AcqRel, Ordering::Acquire)
            };
            if owner != 0 && !is_old {
                continue;
            }
            match take() {
                // A free slot already contains zeros, and another worker may have written to it since.
                Ok(0) => {}
                Ok(_) => {
                    let words = [OUT_UNTIL_MS, FAILURES, CHECKS, REQUESTS, FAILED];
                    for at in words.into_iter().chain([CHECKED_UNTIL_MS]) {
                        self.set(slot, at, 0);
                    }
                }
                // Another worker claimed the slot for the same target.
                Err(taken) if taken == key => {}
                Err(_) => continue,
            }
            self.set(slot, USED, used(now_ms, key));
            return Some(slot);
        }
        None
    }

    /// Marks the slot as in use.
    pub fn keep(&self, slot: TargetSlot, now_ms: u64) {
        if self.is_its(slot) {
            self.set(slot, USED, used(now_ms, slot.key));
        }
    }

    /// Returns the target's state.
    pub fn state(&self, slot: TargetSlot, now_ms: u64) -> State {
        if !self.is_its(slot) {
            return State::Up;
        }
        let until_ms = self.get(slot, OUT_UNTIL_MS);
        let is_down = || {
            let is_believed = now_ms <= self.get(slot, CHECKED_UNTIL_MS);
            self.get(slot, CHECKS) & IS_DOWN != 0 && is_believed
        };
        match until_ms {
            _ if is_down() => State::Out,
            0 => State::Up,
            until_ms if until_ms > now_ms => State::Out,
            _ => State::Trial,
        }
    }

    /// Counts a request to the target. If the request is a trial, the target stays out for all other requests until the trial ends.
    pub fn on_request(&self, slot: TargetSlot, now_ms: u64, passive: Passive) -> HealthAtSend {
        if !self.is_its(slot) {
            return HealthAtSend::default();
        }
        self.add(slot, REQUESTS);
        let until_ms = self.get(slot, OUT_UNTIL_MS);
        if until_ms != 0 && until_ms <= now_ms {
            self.swap(slot, OUT_UNTIL_MS, until_ms, now_ms + passive.out_ms);
        }
        HealthAtSend {
            out_until_ms: self.get(slot, OUT_UNTIL_MS),
        }
    }

    /// Counts a response of the target.
    pub fn on_success(&self, slot: TargetSlot, at_send: HealthAtSend) -> Option<Change> {
        let until_ms = self.get(slot, OUT_UNTIL_MS);
        // A trial may last longer than `out_ms`. Another trial has then started, and the result of either counts.
        let is_trial = at_send.out_until_ms != 0 && self.is_its(slot);
        if until_ms == 0 || !is_trial || !self.swap(slot, OUT_UNTIL_MS, until_ms, 0) {
            return None;
        }
        self.set(slot, FAILURES, 0);
        Some(Change::Back)
    }

    /// Counts a failed request.
    pub fn on_failure(
        &self,
        slot: TargetSlot,
        at_send: HealthAtSend,
        now_ms: u64,
        passive: Passive,
    ) -> Option<Change> {
        if !self.is_its(slot) {
            return None;
        }
        self.add(slot, FAILED);
        if passive.failures_max == 0 {
            return None;
        }
        let until_ms = self.get(slot, OUT_UNTIL_MS);
        if until_ms != 0 {
            // A failed trial, or a request for which no other target was up: the target stays out.
            if at_send.out_until_ms == until_ms {
                self.swap(slot, OUT_UNTIL_MS, until_ms, now_ms + passive.out_ms);
            }
            return None;
        }
        let word = &self.words[slot.at * WORDS + FAILURES];
        let count_up = |word: u64| {
            let (since_ms, count) = (word >> COUNT_BITS, word & COUNT_MASK);
            let is_new = count == 0 || now_ms.saturating_sub(since_ms) >= passive.within_ms;
            Some(if is_new {
                now_ms << COUNT_BITS | 1
            } else {
                since_ms << COUNT_BITS | (count + 1).min(COUNT_MASK)
            })
        };
        let before = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, count_up);
        let count = before.ok().and_then(count_up).unwrap_or(0) & COUNT_MASK;
        let goes_out = count >= passive.failures_max.min(COUNT_MASK);
        (goes_out && self.swap(slot, OUT_UNTIL_MS, 0, now_ms + passive.out_ms))
            .then_some(Change::Out)
    }

    /// Counts a health check. `thresholds` contains the numbers of consecutive results that change the verdict. A target's first
    /// check decides immediately. Only one process runs checks.
    pub fn on_check(
        &self,
        slot: TargetSlot,
        is_good: bool,
        thresholds: HealthThresholds,
        now_ms: u64,
    ) -> Option<Change> {
        if !self.is_its(slot) {
            return None;
        }
        self.set(slot, CHECKED_UNTIL_MS, now_ms + thresholds.believed_ms);
        let word = self.get(slot, CHECKS);
        // The count starts at one: zero means that the target was never checked.
        let (is_down, streak) = (word & IS_DOWN != 0, word & !IS_DOWN);
        let is_first = word == 0;
        if is_good != is_down {
            // The result confirms the verdict.
            self.set(slot, CHECKS, 1 | if is_down { IS_DOWN } else { 0 });
            return None;
        }
        let count = streak.max(1);
        let needed = if is_good {
            thresholds.rise
        } else {
            thresholds.fall
        };
        if count < needed && !is_first {
            let down = if is_down { IS_DOWN } else { 0 };
            self.set(slot, CHECKS, (count + 1) | down);
            return None;
        }
        self.set(slot, CHECKS, 1 | if is_good { 0 } else { IS_DOWN });
        if is_good {
            self.set(slot, OUT_UNTIL_MS, 0);
            self.set(slot, FAILURES, 0);
        }
        Some(if is_good { Change::Back } else { Change::Out })
    }

    /// Removes the verdict when checks of a target stop.
    pub fn end_checks(&self, slot: TargetSlot) {
        if self.is_its(slot) {
            self.set(slot, CHECKS, 0);
        }
    }

    /// Returns the counters.
    pub fn figures(&self, slot: TargetSlot) -> Figures {
        if !self.is_its(slot) {
            return Figures::default();
        }
        Figures {
            requests: self.get(slot, REQUESTS),
            failed: self.get(slot, FAILED),
        }
    }

    /// Returns true if the slot still belongs to the target.
    fn is_its(&self, slot: TargetSlot) -> bool {
        self.get(slot, KEY) == slot.key
    }

    fn get(&self, slot: TargetSlot, word: usize) -> u64 {
        self.words[slot.at * WORDS + word].load(Ordering::Acquire)
    }

    fn set(&self, slot: TargetSlot, word: usize, value: u64) {
        self.words[slot.at * WORDS + word].store(value, Ordering::Release);
    }

    fn add(&self, slot: TargetSlot, word: usize) {
        self.words[slot.at * WORDS + word].fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces `from` by `to`. Returns false if another process changed the word first.
    fn swap(&self, slot: TargetSlot, word: usize, from: u64, to: u64) -> bool {
        let word = &self.words[slot.at * WORDS + word];
        word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// Short hash of a slot's owner; never 0, the value of unwritten memory.
fn tag(key: u64) -> u64 {
    key & TAG_MASK | 1
}

fn used(now_ms: u64, key: u64) -> u64 {
    now_ms << TAG_BITS | tag(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSIVE: Passive = Passive {
        failures_max: 3,
        within_ms: 1_000,
        out_ms: 500,
    };

    const THRESHOLDS: HealthThresholds = HealthThresholds {
        rise: 2,
        fall: 3,
        believed_ms: 1_000,
    };

    fn health(slots: usize) -> Health {
        let words: Vec<AtomicU64> = (0..slots * WORDS).map(|_| AtomicU64::new(0)).collect();
        Health::new(Vec::leak(words))
    }

    #[test]
    fn failures_within_a_time_put_a_target_out_and_one_request_tries_it() {
        let health = health(4);
        let slot = health.slot("a", 0).expect("a slot");
        assert_eq!(health.state(slot, 0), State::Up);
        // The failures are too far apart.
        let up = HealthAtSend::default();
        for now_ms in [0, 600, 1_200, 1_800] {
            let change = health.on_failure(slot, up, now_ms, PASSIVE);
            assert_eq!(change, None, "{now_ms}");
        }
        let change = health.on_failure(slot, up, 1_900, PASSIVE);
        assert_eq!(change, Some(Change::Out));
        assert_eq!(health.state(slot, 2_399), State::Out);
        assert_eq!(health.state(slot, 2_400), State::Trial);
        let trial = health.on_request(slot, 2_400, PASSIVE);
        assert_eq!(health.state(slot, 2_400), State::Out);
        assert_eq!(health.on_failure(slot, trial, 2_450, PASSIVE), None);
        assert_eq!(health.state(slot, 2_949), State::Out);
        let trial = health.on_request(slot, 2_950, PASSIVE);
        assert_eq!(health.on_success(slot, trial), Some(Change::Back));
        assert_eq!(health.state(slot, 2_951), State::Up);
        // The target must fail as often as before.
        assert_eq!(health.on_failure(slot, up, 2_952, PASSIVE), None);
        assert_eq!(health.on_success(slot, up), None);
        let figures = Figures {
            requests: 2,
            failed: 7,
        };
        assert_eq!(health.figures(slot), figures);
    }

    /// Workers start concurrently. If a target had two slots, the failures that one worker detects would not count for another.
    #[test]
    fn concurrent_workers_claim_one_slot_per_target() {
        const WORKERS: u64 = 2;
        for round in 0..2_000 {
            let health = health(TARGET_SLOTS_MAX);
            let start = AtomicU64::new(0);
            let take = || {
                start.fetch_add(1, Ordering::AcqRel);
                while start.load(Ordering::Acquire) < WORKERS {
                    std::hint::spin_loop();
                }
                let slot = health.slot("a", 1).expect("a slot");
                health.on_check(slot, false, THRESHOLDS, 1);
                (slot.at, health.state(slot, 1))
            };
            let taken: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..WORKERS).map(|_| scope.spawn(take)).collect();
                threads
                    .into_iter()
                    .map(|it| it.join().expect("taken"))
                    .collect()
            });
            assert_eq!(taken[0], taken[1], "{round}");
            assert_eq!(taken[0].1, State::Out, "{round}");
        }
    }

    #[test]
    fn nothing_goes_out_where_that_is_off() {
        let health = health(1);
        let slot = health.slot("a", 0).expect("a slot");
        let off = Passive {
            failures_max: 0,
            ..PASSIVE
        };
        for _ in 0..100 {
            assert_eq!(
                health.on_failure(slot, HealthAtSend::default(), 0, off),
                None
            );
        }
        assert_eq!(health.state(slot, 0), State::Up);
    }

    #[test]
    fn checks_in_a_row_change_what_counts() {
        let health = health(1);
        let slot = health.slot("a", 0).expect("a slot");
        let check = |is_good| {
            let change = health.on_check(slot, is_good, THRESHOLDS, 0);
            (change, health.state(slot, 0))
        };
        assert_eq!(check(false), (Some(Change::Out), State::Out), "the first");
        for (is_good, expected) in [
            (true, (None, State::Out)),
            (false, (None, State::Out)),
            (true, (None, State::Out)),
            (true, (Some(Change::Back), State::Up)),
            (false, (None, State::Up)),
            (false, (None, State::Up)),
            (true, (None, State::Up)),
            (false, (None, State::Up)),
            (false, (None, State::Up)),
            (false, (Some(Change::Out), State::Out)),
        ] {
            assert_eq!(check(is_good), expected);
        }
    }

    #[test]
    fn a_slot_is_found_again_and_reassigned_when_unused() {
        let health = health(2);
        let first = health.slot("a", 0).expect("a slot");
        let second = health.slot("b", 0).expect("another");
        assert_ne!(first, second);
        assert_eq!(health.slot("a", 5), Some(first));
        assert_eq!(health.slot("c", 5), None);
        health.on_request(second, 5, PASSIVE);
        health.keep(first, KEPT_MS);
        let third = health.slot("c", KEPT_MS + 1).expect("the other's");
        assert_eq!(third.at, second.at);
        assert_eq!(health.figures(third), Figures::default());
        assert_eq!(health.slot("a", KEPT_MS + 1), Some(first));
    }

    #[test]
    fn requests_sent_before_a_target_went_out_decide_nothing() {
        let health = health(1);
        let slot = health.slot("a", 0).expect("a slot");
        let before = health.on_request(slot, 0, PASSIVE);
        for now_ms in 0..3 {
            health.on_failure(slot, before, now_ms, PASSIVE);
        }
        // The target is out until 502.
        assert_eq!(health.on_success(slot, before), None);
        assert_eq!(health.on_failure(slot, before, 400, PASSIVE), None);
        assert_eq!(health.state(slot, 501), State::Out);
        assert_eq!(health.state(slot, 502), State::Trial);
        // A request without another target also counts as a trial, and the next request does not
        // invalidate a slow trial.
        let since = health.on_request(slot, 501, PASSIVE);
        health.on_request(slot, 600, PASSIVE);
        assert_eq!(health.state(slot, 1_099), State::Out);
        assert_eq!(health.on_success(slot, since), Some(Change::Back));
    }

    #[test]
    fn verdicts_of_stopped_checks_expire() {
        let health = health(1);
        let slot = health.slot("a", 0).expect("a slot");
        assert_eq!(
            health.on_check(slot, false, THRESHOLDS, 0),
            Some(Change::Out)
        );
        assert_eq!(health.on_check(slot, false, THRESHOLDS, 500), None);
        assert_eq!(health.state(slot, 1_500), State::Out);
        assert_eq!(health.state(slot, 1_501), State::Up);
    }

    #[test]
    fn a_slot_that_is_being_claimed_cannot_be_claimed_again() {
        let health = health(1);
        let key = hash(b"a").max(1);
        // The crash happened long after the machine's boot and between the two writes, once for a new slot and once for a reused
        // one.
        for before in [0, used(1, hash(b"before"))] {
            let slot = TargetSlot { at: 0, key };
            health.set(slot, KEY, key);
            health.set(slot, USED, before);
            assert_eq!(health.slot("b", 10 * KEPT_MS), None);
            assert_eq!(health.slot("a", 10 * KEPT_MS), Some(slot));
        }
    }

    #[test]
    fn a_worker_with_a_reassigned_slot_writes_nothing() {
        let health = health(1);
        let old = health.slot("a", 0).expect("a slot");
        let now_ms = KEPT_MS + 1;
        let new = health.slot("b", now_ms).expect("it is old");
        health.keep(old, 2 * now_ms);
        let at_send = health.on_request(old, now_ms, PASSIVE);
        for _ in 0..3 {
            assert_eq!(health.on_failure(old, at_send, now_ms, PASSIVE), None);
        }
        assert_eq!(health.on_check(old, false, THRESHOLDS, now_ms), None);
        assert_eq!(health.state(new, now_ms), State::Up);
        assert_eq!(health.figures(new), Figures::default());
        assert!(
            health.slot("c", 2 * now_ms + 1).is_some(),
            "nobody keeps it"
        );
    }
}
