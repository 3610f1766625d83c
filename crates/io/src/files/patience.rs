//! How long work on files may be done in the loop itself.
//!
//! A short write into the page cache costs microseconds, and giving it away costs more than doing it. Only when the disk
//! is busy the kernel makes a writer wait, and then it does so again and again. So what is short is done at once, and what
//! was waited for is taken from a credit that grows by a twentieth of the time; without credit everything is given away.
//! At most a twentieth of the loop's time is lost to slow disks, and a wait now and then, such as for the lock of a
//! directory that another worker makes a file in, costs nothing more.

use std::time::{Duration, Instant};

/// Longer than this is slow.
const SLOW: Duration = Duration::from_millis(1);

/// How many times as long as it was waited nothing is done at once, when the credit is used up.
const PENALTY: u32 = 20;

/// The longest of these times.
const PENALTY_MAX: Duration = Duration::from_secs(10);

/// What may be waited for in a row after a long time without a wait: as much as one request may be delayed by others.
const CREDIT_MAX: Duration = Duration::from_millis(5);

/// The credit, as the moment at which it is nothing: each twenty milliseconds that have passed since are one of credit.
#[derive(Default)]
pub(super) struct Patience {
    nothing_at: Option<Instant>,
}

impl Patience {
    /// Whether something short may be done at once.
    pub fn is_there(&self, now: Instant) -> bool {
        self.nothing_at.is_none_or(|at| at <= now)
    }

    /// Something short has waited for the disk, and has taken so long.
    pub fn lose(&mut self, took: Duration, now: Instant) {
        let full = now.checked_sub(CREDIT_MAX * PENALTY);
        let at = self.nothing_at.max(full).unwrap_or(now);
        let next = at + took.saturating_mul(PENALTY).min(PENALTY_MAX);
        self.nothing_at = Some(next.min(now + PENALTY_MAX));
    }
}

/// Whether something short has taken so long that it may have waited.
pub(super) fn is_slow(took: Duration) -> bool {
    took > SLOW
}

/// How often this thread has given the processor away in order to wait for something.
pub(super) fn sleeps() -> i64 {
    // SAFETY: the struct is made of numbers, for which all bits zero is a value, and the call fills it.
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
    fn a_thread_that_sleeps_is_found_out() {
        let before = sleeps();
        std::thread::sleep(Duration::from_millis(1));
        assert!(sleeps() > before);
        assert!(is_slow(Duration::from_millis(2)) && !is_slow(SLOW));
    }

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn a_wait_now_and_then_costs_nothing_more() {
        // Far enough from the clock's beginning.
        let start = Instant::now() + Duration::from_secs(60);
        let mut patience = Patience::default();
        for round in 0..1_000 {
            let now = after(start, round * 50);
            assert!(patience.is_there(now));
            patience.lose(Duration::from_millis(2), now);
        }
    }

    #[test]
    fn what_is_over_the_credit_costs_twenty_times_its_length() {
        let start = Instant::now() + Duration::from_secs(60);
        let mut patience = Patience::default();
        assert!(patience.is_there(start));
        patience.lose(Duration::from_millis(8), start);
        assert!(!patience.is_there(after(start, 59)));
        assert!(patience.is_there(after(start, 60)));
        patience.lose(Duration::from_secs(5), after(start, 60));
        assert!(!patience.is_there(after(start, 9_000)));
        assert!(patience.is_there(after(start, 60) + PENALTY_MAX));
    }

    #[test]
    fn a_disk_that_is_always_slow_takes_a_twentieth_of_the_time() {
        let start = Instant::now() + Duration::from_secs(60);
        let mut patience = Patience::default();
        let mut waited_ms = 0;
        for ms in (0..100_000).step_by(3) {
            if patience.is_there(after(start, ms)) {
                patience.lose(Duration::from_millis(3), after(start, ms));
                waited_ms += 3;
            }
        }
        assert!((4_900..=5_110).contains(&waited_ms), "{waited_ms}");
    }
}
