//! Waiting for a condition instead of for time to pass.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Seconds a test waits for anything before it fails, unless `FERMATA_TEST_DEADLINE_S` says otherwise.
const DEADLINE_S: u64 = 20;

/// Pause between two looks at a condition. Small beside any time a test could notice.
const POLL: Duration = Duration::from_millis(4);

/// The longest a test waits for one thing. It only ends runs that have already failed.
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

/// Polls `condition` until it yields a value.
///
/// # Panics
/// Panics with `what` when the [`deadline`] passes first.
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
/// For "this must not happen": a slow machine can only make such a test miss a fault, never fail wrongly.
///
/// # Panics
/// Panics with `what` at the first look that finds the condition false.
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
