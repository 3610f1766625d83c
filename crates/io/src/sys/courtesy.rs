//! When a worker gives way to others on its core before it sleeps.
//!
//! Asleep, it would be woken by the first byte of a client that shares its core, interrupt it, and do the same for
//! the next one: two switches per request where one per batch is enough (measured by ab, a connection per request:
//! 25 to 16 us of server CPU). Where nobody waits for the core, giving way is one short call. The price is paid where
//! a program that never sleeps waits for it: it would get a whole slice each time, so then nobody is given way to for
//! a while.

/// Giving way for this long is more than a client needs to send its next requests.
const YIELD_MS_MAX: u64 = 2;
/// How many times as long nobody is given way to after that: a twentieth of the time is given away at most.
const PAUSE_TIMES: u64 = 20;

/// Remembers whether giving way has been too expensive lately.
#[derive(Default)]
pub(crate) struct Courtesy {
    not_before_ms: u64,
}

impl Courtesy {
    /// Calls `give_way`, unless that took too long a short while ago. `clock` reads milliseconds.
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

    /// Gives way at `at_ms` to somebody who needs `needs_ms`; whether it did.
    fn gives_way(courtesy: &mut Courtesy, at_ms: u64, needs_ms: u64) -> bool {
        let now = Cell::new(at_ms);
        let has_given_way = Cell::new(false);
        courtesy.run(
            || now.get(),
            || {
                has_given_way.set(true);
                now.set(at_ms + needs_ms);
            },
        );
        has_given_way.get()
    }

    #[test]
    fn a_client_that_is_quick_is_given_way_to_every_time() {
        let mut courtesy = Courtesy::default();
        for at_ms in [0, 1, 5, 6] {
            assert!(gives_way(&mut courtesy, at_ms, YIELD_MS_MAX));
        }
    }

    #[test]
    fn a_thread_that_takes_the_whole_core_gets_a_small_part_of_the_time() {
        let mut courtesy = Courtesy::default();
        assert!(gives_way(&mut courtesy, 100, 4));
        let again_ms = 104 + 4 * PAUSE_TIMES;
        assert!(!gives_way(&mut courtesy, 104, 4));
        assert!(!gives_way(&mut courtesy, again_ms - 1, 4));
        assert!(gives_way(&mut courtesy, again_ms, 0));
        assert!(gives_way(&mut courtesy, again_ms + 1, 0));
    }
}
