//! How long work on files may be done in the loop itself.
//!
//! A short write into the page cache costs microseconds, and giving it away costs more than doing it. Only when the disk
//! is busy the kernel makes a writer wait, and then it does so again and again. So what is short is done at once, and
//! whoever has waited for it once pays a hundredfold: for that long everything is given away. At most a hundredth of the
//! loop's time is lost to slow disks.

use std::time::{Duration, Instant};

/// Longer than this is slow.
const SLOW: Duration = Duration::from_micros(500);

/// How many times as long nothing is done at once after it.
const PENALTY: u32 = 100;

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

    /// Something short has taken so long.
    pub fn note(&mut self, took: Duration, now: Instant) {
        if took > SLOW {
            self.lost_until = Some(now + took.saturating_mul(PENALTY).min(PENALTY_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_call_costs_a_hundred_times_its_length() {
        let start = Instant::now();
        let mut patience = Patience::default();
        assert!(patience.is_there(start));
        patience.note(SLOW, start);
        assert!(patience.is_there(start));
        patience.note(Duration::from_millis(3), start);
        assert!(!patience.is_there(start + Duration::from_millis(299)));
        assert!(patience.is_there(start + Duration::from_millis(300)));
        patience.note(Duration::from_secs(5), start);
        assert!(!patience.is_there(start + Duration::from_secs(9)));
        assert!(patience.is_there(start + PENALTY_MAX));
    }
}
