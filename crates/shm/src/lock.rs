//! The lock: a word that contains the name of its owner, or 0.
//!
//! Because of the name, the lock survives a crash. Waiters that find a dead owner take the lock over by
//! compare-and-swap: exactly one succeeds and repairs the structure.

use std::time::Duration;

use crate::crash;
use crate::sync::{AtomicU64, Ordering, thread};

/// Attempts while spinning, before the thread yields its core.
const SPINS_MAX: u32 = if cfg!(loom) { 0 } else { 128 };
/// Attempts while yielding the core, before the thread sleeps.
const YIELDS_MAX: u32 = 16;
/// Sleeps before giving up: at least 200 ms in total, far more than a preempted owner needs.
const SLEEPS_MAX: u32 = 2000;
const SLEEP: Duration = Duration::from_micros(100);

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub struct Guard<'a> {
    word: &'a AtomicU64,
    me: u64,
    is_inherited: bool,
}

impl Guard<'_> {
    /// Returns true if the previous owner crashed while it held the lock.
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }
}

/// Acquires the lock for `me`, a name that no other process has and that is not 0.
///
/// `is_dead` needs system calls, so it is only called after a long wait. It must never return true for a process that may still
/// run. `departed` is the name of an owner that is known to be dead.
///
/// # Errors
/// The name of a living owner that has held the lock for more than 200 ms.
pub fn acquire(
    word: &AtomicU64,
    me: u64,
    departed: Option<u64>,
    is_dead: impl Fn(u64) -> bool,
) -> Result<Guard<'_>, u64> {
    let guard = |is_inherited| Guard {
        word,
        me,
        is_inherited,
    };
    let mut tries = 0;
    loop {
        crash::step();
        let Err(owner) = word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) else {
            return Ok(guard(false));
        };
        let may_take_over = departed == Some(owner) || (tries > SPINS_MAX && is_dead(owner));
        if may_take_over
            && word
                .compare_exchange(owner, me, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            return Ok(guard(true));
        }
        tries += 1;
        if tries > SPINS_MAX + YIELDS_MAX + SLEEPS_MAX {
            return Err(owner);
        }
        pause(tries);
    }
}

fn pause(tries: u32) {
    if crash::pause() {
        return;
    }
    if tries <= SPINS_MAX {
        std::hint::spin_loop();
    } else if tries <= SPINS_MAX + YIELDS_MAX {
        thread::yield_now();
    } else {
        thread::sleep(SLEEP);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if crash::is_dead() {
            return;
        }
        crash::step();
        // If the exchange fails, another process owns the lock now, and this guard must not release it.
        let _ = self
            .word
            .compare_exchange(self.me, 0, Ordering::Release, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NOBODY_IS_DEAD: fn(u64) -> bool = |_| false;

    #[test]
    fn dropping_the_guard_releases_the_lock() {
        let word = AtomicU64::new(0);
        let guard = acquire(&word, 7, None, NOBODY_IS_DEAD).expect("it is free");
        assert_eq!(word.load(Ordering::Relaxed), 7);
        assert!(!guard.is_inherited());
        drop(guard);
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn reports_a_living_owner() {
        let word = AtomicU64::new(9);
        assert_eq!(acquire(&word, 7, None, NOBODY_IS_DEAD).err(), Some(9));
        assert_eq!(word.load(Ordering::Relaxed), 9);
    }

    #[test]
    fn takes_over_from_dead_and_departed_owners() {
        for (departed, is_dead) in [(None, true), (Some(9), false)] {
            let word = AtomicU64::new(9);
            let guard = acquire(&word, 7, departed, |owner| is_dead && owner == 9);
            assert!(guard.expect("its owner is dead").is_inherited());
            assert_eq!(word.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn a_guard_never_releases_the_lock_of_another_owner() {
        let word = AtomicU64::new(0);
        let guard = acquire(&word, 7, None, NOBODY_IS_DEAD).expect("it is free");
        word.store(9, Ordering::Relaxed);
        drop(guard);
        assert_eq!(word.load(Ordering::Relaxed), 9);
    }
}
