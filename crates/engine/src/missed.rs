//! Look-ups that cannot miss, as far as we know.
//!
//! Where one does, a test has to fail, and a server in production has to go on and to tell its operator.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often this process has missed something since the figures were copied last.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// What is not there would have to be: asserts in tests and counts otherwise. Goes on with what it is given.
#[inline]
#[track_caller]
pub fn missed<T>(otherwise: T) -> T {
    note();
    otherwise
}

/// The same of a look-up whose caller does without what is not there: `if let Some(…) = ….known()`.
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

/// Apart, and never a part of its callers: those that run for each request have nothing of it but a call.
#[cold]
#[inline(never)]
#[track_caller]
fn note() {
    debug_assert!(false, "what was looked up would have to be there");
    MISSED.fetch_add(1, Ordering::Relaxed);
}

/// How often it was since the last time.
pub(crate) fn take() -> u64 {
    MISSED.swap(0, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "would have to be there")]
    fn a_miss_fails_tests() {
        missed(());
    }

    #[test]
    #[should_panic(expected = "would have to be there")]
    fn so_does_what_is_not_known() {
        assert_eq!(Some(1).known(), Some(1));
        None::<()>.known();
    }
}
