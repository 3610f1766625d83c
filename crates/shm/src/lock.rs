//! The lock: a word that names its owner, or 0.
//!
//! The owner's name in the word is what makes a death survivable: a waiter that finds a dead owner takes the lock over by
//! compare-and-swap, so one waiter wins, and repairs what the dead one has left.

use std::time::Duration;

use crate::crash;
use crate::sync::{AtomicU64, Ordering, thread};

/// Tries while spinning, before the thread gives its core away.
const SPINS_MAX: u32 = if cfg!(loom) { 0 } else { 128 };
/// Tries while yielding the core, before the thread sleeps.
const YIELDS_MAX: u32 = 16;
/// Sleeps before giving up: at least 200 ms in all, far above what a preempted owner needs.
const SLEEPS_MAX: u32 = 2000;
const SLEEP: Duration = Duration::from_micros(100);

/// The lock is held while this lives.
#[derive(Debug)]
pub struct Guard<'a> {
    word: &'a AtomicU64,
    me: u64,
    is_inherited: bool,
}

impl Guard<'_> {
    /// Whether the owner before has died with it.
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }
}

/// Takes the lock for `me`, a name that no other process has and that is not 0.
///
/// Whether another owner is dead costs system calls, so `is_dead` is asked only once the wait has become long. It must not say
/// "yes" of one that may still run. Of the owner `departed` it is known beforehand.
///
/// # Errors
/// A living owner has held it for more than 200 ms; its name.
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
        // A failed exchange means somebody else owns the lock by now; it is not ours to free.
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
    fn it_is_free_again_behind_its_guard() {
        let word = AtomicU64::new(0);
        let guard = acquire(&word, 7, None, NOBODY_IS_DEAD).expect("it is free");
        assert_eq!(word.load(Ordering::Relaxed), 7);
        assert!(!guard.is_inherited());
        drop(guard);
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_living_owner_keeps_it_and_is_named() {
        let word = AtomicU64::new(9);
        assert_eq!(acquire(&word, 7, None, NOBODY_IS_DEAD).err(), Some(9));
        assert_eq!(word.load(Ordering::Relaxed), 9);
    }

    #[test]
    fn it_is_taken_over_from_a_dead_owner_and_one_that_has_departed() {
        for (departed, is_dead) in [(None, true), (Some(9), false)] {
            let word = AtomicU64::new(9);
            let guard = acquire(&word, 7, departed, |owner| is_dead && owner == 9);
            assert!(guard.expect("its owner is dead").is_inherited());
            assert_eq!(word.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn a_guard_does_not_free_what_another_owns_by_now() {
        let word = AtomicU64::new(0);
        let guard = acquire(&word, 7, None, NOBODY_IS_DEAD).expect("it is free");
        word.store(9, Ordering::Relaxed);
        drop(guard);
        assert_eq!(word.load(Ordering::Relaxed), 9);
    }
}
