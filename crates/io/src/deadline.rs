//! A point in time at which something is due, or never.

/// A deadline on the clock of [`Driver::now_ms`](crate::Driver::now_ms), or never. Never compares greater than all times, so a loop
/// wakes at the minimum of its deadlines. A deadline needs 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub struct Deadline(u64);

impl Deadline {
    /// Due at any time.
    pub const NOW: Deadline = Deadline(0);

    /// Never due.
    pub const NEVER: Deadline = Deadline(u64::MAX);

    /// Returns a deadline at `at_ms`. The last millisecond of the clock, in 585 million years, means never.
    #[inline]
    pub const fn at(at_ms: u64) -> Deadline {
        Deadline(at_ms)
    }

    /// Returns a deadline `timeout_ms` after `now_ms`; never if that is beyond the clock's range.
    #[inline]
    pub const fn after(now_ms: u64, timeout_ms: u64) -> Deadline {
        Deadline(now_ms.saturating_add(timeout_ms))
    }

    /// Returns true if the deadline has passed.
    #[inline]
    #[must_use]
    pub const fn is_due(self, now_ms: u64) -> bool {
        self.0 <= now_ms
    }

    /// Returns true if the deadline is never.
    #[inline]
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }

    /// Returns the deadline's time, or `latest_ms` if the deadline is later or never.
    #[inline]
    #[must_use]
    pub const fn ms_until(self, latest_ms: u64) -> u64 {
        if self.0 < latest_ms {
            self.0
        } else {
            latest_ms
        }
    }

    /// Returns the deadline's time; `None` for never.
    #[inline]
    #[must_use]
    pub fn ms(self) -> Option<u64> {
        (!self.is_never()).then_some(self.0)
    }

    /// Returns the remaining time; `None` for never.
    #[inline]
    #[must_use]
    pub fn left_ms(self, now_ms: u64) -> Option<u64> {
        self.ms().map(|at_ms| at_ms.saturating_sub(now_ms))
    }

    /// Returns a deadline `by_ms` later; never stays never.
    #[inline]
    pub const fn delayed(self, by_ms: u64) -> Deadline {
        Deadline(self.0.saturating_add(by_ms))
    }
}

/// `None` means never.
impl From<Option<u64>> for Deadline {
    #[inline]
    fn from(at_ms: Option<u64>) -> Deadline {
        at_ms.map_or(Deadline::NEVER, Deadline::at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_compares_greater_than_all_times() {
        let mut all = [
            Deadline::NEVER,
            Deadline::at(u64::MAX - 1),
            Deadline::NOW,
            Deadline::at(7),
        ];
        all.sort_unstable();
        assert_eq!(all.map(|it| it.is_due(7)), [true, true, false, false]);
        assert_eq!(all.map(Deadline::is_never), [false, false, false, true]);
        assert_eq!(
            all.map(|it| it.left_ms(5)),
            [Some(0), Some(2), Some(u64::MAX - 6), None]
        );
        assert_eq!(all.map(|it| it.ms_until(6)), [0, 6, 6, 6]);
        assert_eq!(
            all.map(|it| it.delayed(5).ms()),
            [Some(5), Some(12), None, None]
        );
        assert_eq!(size_of::<Deadline>(), 8);
    }

    #[test]
    fn a_timeout_beyond_the_clock_is_never_over() {
        assert_eq!(Deadline::after(5, 2), Deadline::at(7));
        assert_eq!(Deadline::after(5, u64::MAX), Deadline::NEVER);
        assert_eq!(Deadline::from(Some(7)), Deadline::at(7));
        assert_eq!(Deadline::from(None), Deadline::NEVER);
    }
}
