//! The one lock of the shared memory: a word that names its owner.
//!
//! The owner's name in the word is what makes a death survivable: a waiter that finds a dead owner takes the lock over
//! by compare-and-swap (one waiter wins) and then repairs what the dead one left, see `Ring::lock`.

use std::time::Duration;

use thiserror::Error;

use crate::layout::LOCK;
use crate::sync::{Ordering, thread};
use crate::words::{Words, crash};

/// Tries while spinning, before the thread gives its core away.
const SPINS_MAX: u32 = if cfg!(loom) { 0 } else { 128 };
/// Tries while yielding the core, before the thread sleeps.
const YIELDS_MAX: u32 = 16;
/// Sleeps before giving up: at least 200 ms in all, far above what a preempted owner needs.
const SLEEPS_MAX: u32 = 2000;
const SLEEP: Duration = Duration::from_micros(100);

/// The process that takes the lock: its identity, and how to ask whether another one lives.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The caller's worker slot, or [`Owner::MASTER_SLOT`].
    pub slot: u32,
    /// The caller's process id; never zero.
    pub pid: u32,
    /// Whether the process `pid` lives. Must not say "dead" of a process that may still run.
    pub alive: fn(pid: u32) -> bool,
}

impl Owner {
    /// The slot of a process that is no worker: it may publish and manage workers, but neither read nor join.
    pub const MASTER_SLOT: u32 = u32::MAX - 1;

    pub(crate) fn word(&self) -> u64 {
        owner_word(self.slot, self.pid)
    }
}

pub(crate) fn owner_word(slot: u32, pid: u32) -> u64 {
    // Slots count from one in the word, so that no owner is zero, which means "free".
    u64::from(slot.wrapping_add(1)) << 32 | u64::from(pid)
}

/// The shared memory could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LockError {
    /// A living process held the lock for longer than 200 ms.
    #[error("the shared ring is locked by process {pid} for too long; is it stopped?")]
    Locked {
        /// The owner's process id.
        pid: u32,
    },
    /// The shared words contradict each other.
    #[error("the shared ring is damaged; restart the server")]
    Corrupt,
}

/// The lock is held while this lives.
pub(crate) struct Guard {
    words: Words,
    me: u64,
}

/// Takes the lock, over the dead owner `departed` without asking, over any other owner once it is dead.
pub(crate) fn acquire(
    words: Words,
    who: &Owner,
    departed: Option<u64>,
) -> Result<Guard, LockError> {
    let me = who.word();
    let lock = words.atomic(LOCK);
    let mut tries = 0;
    loop {
        match lock.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Ok(Guard { words, me }),
            Err(owner) => {
                let pid = owner as u32;
                // Liveness costs a system call, so it is asked only once the wait has become long.
                let dead = departed == Some(owner)
                    || (tries > SPINS_MAX && owner != me && !(who.alive)(pid));
                if dead
                    && lock
                        .compare_exchange(owner, me, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                {
                    return Ok(Guard { words, me });
                }
                tries += 1;
                if tries > SPINS_MAX + YIELDS_MAX + SLEEPS_MAX {
                    return Err(LockError::Locked { pid });
                }
                pause(tries);
            }
        }
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

impl Drop for Guard {
    fn drop(&mut self) {
        if crash::dead() {
            return;
        }
        // A failed exchange means somebody else owns the lock by now; it is not ours to free.
        let _ = self.words.atomic(LOCK).compare_exchange(
            self.me,
            0,
            Ordering::Release,
            Ordering::Relaxed,
        );
    }
}
