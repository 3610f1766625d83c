//! Yields the core to other processes before a worker sleeps.
//!
//! The first byte of a client on the same core wakes a sleeping worker, which preempts the client. The next request wakes the
//! worker again. This causes two context switches per request, although two per batch suffice. Measured with ab, a connection per
//! request: 25 to 16 µs of server CPU.
//!
//! If no process waits for the core, a yield is one short call. A busy process that waits for the core would run for a complete
//! time slice after each yield. After a long yield the worker therefore does not yield for a while.

/// A yield longer than this is more than a client needs to send its next requests.
const YIELD_MS_MAX: u64 = 2;
/// Pause after a long yield, as a multiple of its duration, so that yields take at most a twentieth of the time.
const PAUSE_TIMES: u64 = 20;

/// Policy that suspends yielding after a long yield.
#[derive(Default)]
pub(crate) struct YieldPolicy {
    not_before_ms: u64,
}

impl YieldPolicy {
    /// Calls `give_way`, unless a recent call took too long. `clock` returns milliseconds.
    #[inline]
    pub(crate) fn run(&mut self, clock: impl Fn() -> u64, give_way: impl FnOnce()) {
        let before_ms = clock();
        if before_ms < self.not_before_ms {
            return;
        }
        give_way();
        let after_ms = clock();
        let gone_ms = after_ms.saturating_sub(before_ms);
        if gone_ms > YIELD_MS_MAX {
            self.not_before_ms = after_ms.saturating_add(gone_ms.saturating_mul(PAUSE_TIMES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Yields at `at_ms` to a process that runs for `needs_ms`; returns true if it yielded.
    fn gives_way(yield_policy: &mut YieldPolicy, at_ms: u64, needs_ms: u64) -> bool {
        let now = Cell::new(at_ms);
        let has_given_way = Cell::new(false);
        yield_policy.run(
            || now.get(),
            || {
                has_given_way.set(true);
                now.set(at_ms + needs_ms);
            },
        );
        has_given_way.get()
    }

    #[test]
    fn yields_every_time_to_a_quick_client() {
        let mut yield_policy = YieldPolicy::default();
        for at_ms in [0, 1, 5, 6] {
            assert!(gives_way(&mut yield_policy, at_ms, YIELD_MS_MAX));
        }
    }

    #[test]
    fn yields_rarely_to_a_busy_thread() {
        let mut yield_policy = YieldPolicy::default();
        assert!(gives_way(&mut yield_policy, 100, 4));
        let again_ms = 104 + 4 * PAUSE_TIMES;
        assert!(!gives_way(&mut yield_policy, 104, 4));
        assert!(!gives_way(&mut yield_policy, again_ms - 1, 4));
        assert!(gives_way(&mut yield_policy, again_ms, 0));
        assert!(gives_way(&mut yield_policy, again_ms + 1, 0));
    }
}
