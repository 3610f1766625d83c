//! Look-ups that fail only because of a bug.
//!
//! On a failure a test panics; a production server continues and counts the failure for the
//! operator.

use std::sync::atomic::{AtomicU64, Ordering};

/// Failed look-ups of this process since the last copy of the counters.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// Reports a failed look-up that should be impossible: panics in debug builds, counts otherwise.
/// Returns `otherwise`.
#[inline]
#[track_caller]
pub fn missed<T>(otherwise: T) -> T {
    note();
    otherwise
}

/// Reports a failed look-up if the caller can skip it: `if let Some(…) = ….known()`.
pub(crate) trait Known {
    fn known(self) -> Self;
}

impl<T> Known for Option<T> {
    #[inline]
    #[track_caller]
    fn known(self) -> Option<T> {
        if self.is_none() {
            note();
        }
        self
    }
}

/// A separate function that is never inlined, so that hot callers contain only a call.
#[cold]
#[inline(never)]
#[track_caller]
fn note() {
    debug_assert!(false, "what was looked up would have to be there");
    MISSED.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of failed look-ups since the last call.
pub(crate) fn take() -> u64 {
    MISSED.swap(0, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "would have to be there")]
    fn panics_on_a_miss_in_debug_builds() {
        missed(());
    }

    #[test]
    #[should_panic(expected = "would have to be there")]
    fn panics_on_an_unknown_lookup_in_debug_builds() {
        assert_eq!(Some(1).known(), Some(1));
        None::<()>.known();
    }
}
