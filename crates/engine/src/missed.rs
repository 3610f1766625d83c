//! Look-ups that cannot miss, as far as we know.
//!
//! Where one does, a test has to fail, and a server in production has to go on and to tell its operator.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often this process has missed something since the figures were copied last.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// What is not there would have to be: asserts in tests and counts otherwise. Goes on with what it is given.
#[cold]
#[track_caller]
pub(crate) fn missed<T>(otherwise: T) -> T {
    debug_assert!(false, "what was looked up would have to be there");
    MISSED.fetch_add(1, Ordering::Relaxed);
    otherwise
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
}
