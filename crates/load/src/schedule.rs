//! Schedule of an open loop, independent of the server's speed.

/// An even schedule that never slips. A late request is due immediately, and its latency counts from its scheduled
/// time, which avoids coordinated omission.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    start_us: u64,
    /// Interval in microseconds; zero makes everything due immediately.
    step_us: f64,
    taken: u64,
}

impl Schedule {
    /// A `rate_per_s` of zero or less means no limit.
    pub fn new(start_us: u64, rate_per_s: f64) -> Self {
        Self {
            start_us,
            step_us: if rate_per_s > 0.0 {
                1_000_000.0 / rate_per_s
            } else {
                0.0
            },
            taken: 0,
        }
    }

    /// Returns the time of the next entry.
    pub fn next_us(&self) -> u64 {
        self.start_us + (self.taken as f64 * self.step_us) as u64
    }

    /// Takes the next entry if it is due, and returns its scheduled time.
    pub fn take(&mut self, now_us: u64) -> Option<u64> {
        let due_us = self.next_us();
        (due_us <= now_us).then(|| {
            self.taken += 1;
            due_us
        })
    }

    /// Returns the number of entries that are due at `now_us` and not taken.
    pub fn behind(&self, now_us: u64) -> u64 {
        if now_us < self.start_us || self.step_us == 0.0 {
            return 0;
        }
        let due = ((now_us - self.start_us) as f64 / self.step_us) as u64 + 1;
        due.saturating_sub(self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_taker_gets_all_that_was_due_with_its_time() {
        let mut schedule = Schedule::new(1000, 1000.0);
        assert_eq!(schedule.take(999), None);
        assert_eq!(schedule.take(1000), Some(1000));
        assert_eq!(schedule.take(1999), None);
        assert_eq!(schedule.behind(4000), 3);
        assert_eq!(
            [4000; 4].map(|now_us| schedule.take(now_us)),
            [Some(2000), Some(3000), Some(4000), None]
        );
        assert_eq!(schedule.behind(4000), 0);
    }

    #[test]
    fn it_does_not_drift() {
        let mut schedule = Schedule::new(0, 3.0);
        let last = (0..=3_000_000)
            .filter_map(|_| schedule.take(u64::MAX))
            .last();
        assert_eq!(last, Some(1_000_000_000_000));
    }

    #[test]
    fn no_rate_is_no_wait() {
        let mut schedule = Schedule::new(5, 0.0);
        assert_eq!([5; 3].map(|now_us| schedule.take(now_us)), [Some(5); 3]);
    }
}
