//! How long work on files may be done in the loop itself.
//!
//! A short write into the page cache costs microseconds, and giving it away costs more than doing it. Only when the disk
//! is busy the kernel makes a writer wait, and then it does so again and again. So what is short is done at once, and
//! whoever has waited for it once pays twentyfold: for that long everything is given away. At most a twentieth of the
//! loop's time is lost to slow disks.

use std::time::{Duration, Instant};

/// Longer than this is slow.
const SLOW: Duration = Duration::from_millis(1);

/// How many times as long nothing is done at once after it.
const PENALTY: u32 = 20;

/// The longest of these times.
const PENALTY_MAX: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Patience {
    lost_until: Option<Instant>,
}

impl Patience {
    /// Whether something short may be done at once.
    pub fn is_there(&mut self, now: Instant) -> bool {
        match self.lost_until {
            Some(until) if now < until => false,
            _ => {
                self.lost_until = None;
                true
            }
        }
    }

    /// Something short has waited for the disk, and has taken so long.
    pub fn lose(&mut self, took: Duration, now: Instant) {
        self.lost_until = Some(now + took.saturating_mul(PENALTY).min(PENALTY_MAX));
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
    fn who_sleeps_is_found_out() {
        let before = sleeps();
        std::thread::sleep(Duration::from_millis(1));
        assert!(sleeps() > before);
        assert!(is_slow(Duration::from_millis(2)) && !is_slow(SLOW));
    }

    #[test]
    fn a_slow_call_costs_twenty_times_its_length() {
        let start = Instant::now();
        let mut patience = Patience::default();
        assert!(patience.is_there(start));
        patience.lose(Duration::from_millis(3), start);
        assert!(!patience.is_there(start + Duration::from_millis(59)));
        assert!(patience.is_there(start + Duration::from_millis(60)));
        patience.lose(Duration::from_secs(5), start);
        assert!(!patience.is_there(start + Duration::from_secs(9)));
        assert!(patience.is_there(start + PENALTY_MAX));
    }
}
