//! When something is due for a connection, and its entry in the wheel.

/// The farthest that an entry of the wheel lies ahead, below the wheel's own bound; what is due later
/// is put in again then.
pub(super) const ARMED_AHEAD_MS_MAX: u64 = 24 * 3_600 * 1_000;

/// The due time of a connection's entry in the wheel, or that it has none: the low half of a time,
/// which tells it from every other within `ARMED_AHEAD_MS_MAX`. A million clients pay 4 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Armed(u32);

impl Armed {
    /// No entry.
    pub const NONE: Armed = Armed(u32::MAX);

    /// An entry due at `due_ms`. The one millisecond in 49 days that would read as none counts as the
    /// one before, for both sides of every comparison.
    #[inline]
    pub fn at(due_ms: u64) -> Armed {
        Armed((due_ms as u32).min(u32::MAX - 1))
    }

    /// Whether nothing fires by `due_ms`.
    #[inline]
    pub fn is_after(self, due_ms: u64) -> bool {
        self == Armed::NONE || self.0.wrapping_sub(Armed::at(due_ms).0) as i32 > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_time_compares_as_a_whole_one() {
        for base_ms in [0, 1_000_000, u64::from(u32::MAX), (1 << 40) - 1] {
            for ahead_ms in [1, 2, 1000, ARMED_AHEAD_MS_MAX] {
                let (due_ms, later_ms) = (base_ms + 7, base_ms + 8 + ahead_ms);
                assert!(Armed::at(later_ms).is_after(due_ms), "{base_ms} {ahead_ms}");
                assert!(
                    !Armed::at(due_ms).is_after(later_ms),
                    "{base_ms} {ahead_ms}"
                );
                assert_ne!(Armed::at(due_ms), Armed::at(later_ms));
            }
            assert!(!Armed::at(base_ms).is_after(base_ms));
            assert!(Armed::NONE.is_after(base_ms));
            assert_ne!(Armed::at(base_ms), Armed::NONE);
        }
    }
}
