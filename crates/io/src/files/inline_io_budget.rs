//! Budget for file operations that run in the loop.
//!
//! A short write into the page cache takes microseconds, less than passing it to a thread. Only a busy disk makes the kernel block
//! a writer, and then the kernel does so repeatedly. Short operations therefore run in the loop. The time of operations that
//! blocked is subtracted from a credit, which grows by a twentieth of the elapsed time. Without credit, all operations are passed
//! to the kernel's ring or to threads.
//!
//! The loop loses at most a twentieth of its time to slow disks. An occasional wait, for example for the lock of a
//! directory in which another worker creates a file, has no further cost.

use std::time::{Duration, Instant};

/// Duration above which an operation may have blocked.
const SLOW: Duration = Duration::from_millis(1);

/// Milliseconds that must elapse to restore one millisecond of credit.
const PENALTY: u32 = 20;

/// Maximum time without credit, however long an operation blocked.
const PENALTY_MAX: Duration = Duration::from_secs(10);

/// Maximum credit: the time for which one request may block the loop after a quiet period.
const CREDIT_MAX: Duration = Duration::from_millis(5);

/// The credit, stored as the time at which it is zero. Each 20 ms since that time are 1 ms of credit. While that time is in the
/// future, there is no credit.
#[derive(Default)]
pub(super) struct InlineIoBudget {
    nothing_at: Option<Instant>,
}

impl InlineIoBudget {
    /// Returns true if a short operation may run in the loop.
    pub fn is_available(&self, now: Instant) -> bool {
        self.nothing_at.is_none_or(|at| at <= now)
    }

    /// Subtracts the duration of a short operation that blocked.
    pub fn spend(&mut self, took: Duration, now: Instant) {
        let full = now.checked_sub(CREDIT_MAX * PENALTY);
        let at = self.nothing_at.max(full).unwrap_or(now);
        let next = at + took.saturating_mul(PENALTY).min(PENALTY_MAX);
        self.nothing_at = Some(next.min(now + PENALTY_MAX));
    }
}

/// Returns true if a short operation took so long that it may have blocked the thread.
pub(super) fn is_slow(took: Duration) -> bool {
    took > SLOW
}

/// Returns the number of voluntary context switches of this thread.
pub(super) fn sleeps() -> i64 {
    // SAFETY: the structure consists of integers, for which zero is valid, and the call fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nvcsw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_a_thread_that_sleeps() {
        let before = sleeps();
        std::thread::sleep(Duration::from_millis(1));
        assert!(sleeps() > before);
        assert!(is_slow(Duration::from_millis(2)) && !is_slow(SLOW));
    }

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn occasional_waits_are_within_the_credit() {
        // Far enough from the start of the clock.
        let start = Instant::now() + Duration::from_secs(60);
        let mut inline_io_budget = InlineIoBudget::default();
        for round in 0..1_000 {
            let now = after(start, round * 50);
            assert!(inline_io_budget.is_available(now));
            inline_io_budget.spend(Duration::from_millis(2), now);
        }
    }

    #[test]
    fn waits_beyond_the_credit_cost_twenty_times_their_length() {
        let start = Instant::now() + Duration::from_secs(60);
        let mut inline_io_budget = InlineIoBudget::default();
        assert!(inline_io_budget.is_available(start));
        inline_io_budget.spend(Duration::from_millis(8), start);
        assert!(!inline_io_budget.is_available(after(start, 59)));
        assert!(inline_io_budget.is_available(after(start, 60)));
        inline_io_budget.spend(Duration::from_secs(5), after(start, 60));
        assert!(!inline_io_budget.is_available(after(start, 9_000)));
        assert!(inline_io_budget.is_available(after(start, 60) + PENALTY_MAX));
    }

    #[test]
    fn a_disk_that_is_always_slow_takes_a_twentieth_of_the_time() {
        let start = Instant::now() + Duration::from_secs(60);
        let mut inline_io_budget = InlineIoBudget::default();
        let mut waited_ms = 0;
        for ms in (0..100_000).step_by(3) {
            if inline_io_budget.is_available(after(start, ms)) {
                inline_io_budget.spend(Duration::from_millis(3), after(start, ms));
                waited_ms += 3;
            }
        }
        assert!((4_900..=5_110).contains(&waited_ms), "{waited_ms}");
    }
}
