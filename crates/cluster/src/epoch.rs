//! Epochs: numbers that distinguish logs of one name.
//!
//! An epoch is the time at which it began, in units of 1/64 ms. So the later one of two epochs is greater. If a node knows a
//! greater epoch than the log has, the log is an older copy, for example a restored backup. It gets a new epoch, because under
//! its old one it would assign positions a second time that were already assigned before the restoration.

const UNITS_PER_MS: u64 = 64;
const NS_PER_UNIT: u64 = 1_000_000 / UNITS_PER_MS;

/// Returns the epoch of a log that was created at this Unix time. It is never zero.
pub(crate) fn epoch_of(created_ns: u64) -> u64 {
    (created_ns / NS_PER_UNIT).max(1)
}

/// Returns an epoch that begins now and is greater than all of `known`, even if the clock went back. `salt` makes it unlikely that
/// two nodes choose the same epoch in the same millisecond.
pub(crate) fn epoch_after(known: impl IntoIterator<Item = u64>, unix_ms: u64, salt: u64) -> u64 {
    let now = unix_ms * UNITS_PER_MS + salt % UNITS_PER_MS;
    let known = known.into_iter().max().unwrap_or(0);
    now.max(known.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_epoch_is_greater() {
        let (ms, ns) = (1_795_000_000_000, 1_795_000_000_000_000_000);
        let created = epoch_of(ns);
        assert!(created < epoch_of(ns + NS_PER_UNIT) && created < 1 << 48);
        assert!(epoch_after([created], ms, 0) > created);
        assert!(epoch_after([created], ms + 1, 63) > created + 64);
        // The clock went back, or is wrong.
        assert_eq!(epoch_after([created, 7], ms - 1000, 5), created + 1);
        assert_eq!(epoch_after([], 0, 64), 1);
    }
}
