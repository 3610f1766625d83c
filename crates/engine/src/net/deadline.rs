//! Deadlines of connections, and their timer entries.

/// Maximum time in milliseconds from now to a timer entry, below the wheel's limit. For a later
/// deadline, the entry is armed again when it fires.
pub(super) const ARMED_AHEAD_MS_MAX: u64 = 24 * 3_600 * 1_000;

/// Due time of a connection's timer entry, if any. Stores the low half of the time, which is
/// unambiguous within `ARMED_AHEAD_MS_MAX`. Takes 4 bytes per client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Armed(u32);

impl Armed {
    /// No entry.
    pub const NONE: Armed = Armed(u32::MAX);

    /// Creates the value for an entry due at `due_ms`. The one millisecond in 49 days that equals
    /// `NONE` counts as the preceding one, on both sides of comparisons.
    #[inline]
    pub fn at(due_ms: u64) -> Armed {
        Armed((due_ms as u32).min(u32::MAX - 1))
    }

    /// Returns true if no entry fires by `due_ms`.
    #[inline]
    pub fn is_after(self, due_ms: u64) -> bool {
        self == Armed::NONE || self.0.wrapping_sub(Armed::at(due_ms).0) as i32 > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_truncated_times_correctly() {
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
