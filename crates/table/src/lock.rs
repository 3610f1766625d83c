//! The locks: words that name their owner.
//!
//! The owner's name in the word is what makes a death survivable: a waiter that finds a dead owner takes the lock over by
//! compare-and-swap, so one waiter wins.

use std::time::Duration;

use crate::TableError;
use crate::sync::{AtomicU64, Ordering, crash, thread};

/// Tries while spinning, before the thread gives its core away.
const SPINS_MAX: u32 = if cfg!(loom) { 0 } else { 128 };
/// Tries while yielding the core, before the thread sleeps.
const YIELDS_MAX: u32 = 16;
/// Sleeps before giving up: at least 200 ms in all, far above what a preempted owner needs.
const SLEEPS_MAX: u32 = 2000;
const SLEEP: Duration = Duration::from_micros(100);

/// The process that uses a handle, and how to ask whether another one can still run.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Its name in a lock, whose low half is its id; never zero, and never that of another process.
    pub identity: u64,
    /// Whether the process of this name can still run. Must not say "no" of one that can.
    pub is_running: fn(identity: u64) -> bool,
}

/// The lock is held while this lives.
pub(crate) struct Guard<'a> {
    word: &'a AtomicU64,
    /// Its owner before has died with it.
    pub(crate) is_inherited: bool,
}

/// Takes the lock, also over an owner that is dead.
pub(crate) fn acquire<'a>(word: &'a AtomicU64, process: &Process) -> Result<Guard<'a>, TableError> {
    let me = process.identity;
    let guard = |is_inherited| Guard { word, is_inherited };
    let mut tries = 0;
    loop {
        crash::step();
        let Err(owner) = word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) else {
            return Ok(guard(false));
        };
        // Whether it lives costs system calls, so it is asked only once the wait has become long.
        if tries > SPINS_MAX
            && owner != 0
            && !(process.is_running)(owner)
            && word
                .compare_exchange(owner, me, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            return Ok(guard(true));
        }
        tries += 1;
        if tries > SPINS_MAX + YIELDS_MAX + SLEEPS_MAX {
            return Err(TableError::Locked { pid: owner as u32 });
        }
        pause(tries);
    }
}

fn pause(tries: u32) {
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
        if !crash::dead() {
            self.word.store(0, Ordering::Release);
        }
    }
}
