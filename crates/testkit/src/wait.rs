//! Waiting for conditions instead of sleeping.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Default time in seconds that a test waits before it fails. `FERMATA_TEST_DEADLINE_S` overrides it.
const DEADLINE_S: u64 = 20;

/// Interval between two checks of a condition, short compared with any time a test measures.
const POLL: Duration = Duration::from_millis(4);

/// Returns the maximum time to wait for one condition. Only failing tests reach it.
pub fn deadline() -> Duration {
    static DEADLINE: OnceLock<Duration> = OnceLock::new();
    *DEADLINE.get_or_init(|| {
        let seconds = std::env::var("FERMATA_TEST_DEADLINE_S");
        Duration::from_secs(
            seconds
                .ok()
                .and_then(|s| s.parse().ok())
                .unwrap_or(DEADLINE_S),
        )
    })
}

/// Polls `condition` until it returns a value.
///
/// # Panics
/// Panics with `what` if the [`deadline`] passes first.
#[track_caller]
pub fn wait_until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + deadline();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(
            Instant::now() < end,
            "gave up after {:?}: {what}",
            deadline()
        );
        thread::sleep(POLL);
    }
}

/// Checks that `condition` stays true for `period`.
///
/// Use it for events that must not happen. On a slow machine such a test may miss a fault, but it never fails wrongly.
///
/// # Panics
/// Panics with `what` at the first check that finds the condition false.
#[track_caller]
pub fn holds_until(what: &str, period: Duration, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + period;
    loop {
        assert!(condition(), "{what}");
        if Instant::now() >= end {
            return;
        }
        thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_until_returns_what_the_condition_found() {
        let mut looks = 0;
        let found = wait_until("three looks", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
    }

    #[test]
    #[should_panic(expected = "went away")]
    fn holds_until_reports_a_broken_condition() {
        holds_until("went away", Duration::from_secs(1), || false);
    }
}
