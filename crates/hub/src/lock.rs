//! Ownership of the ring's lock.

use thiserror::Error;

use crate::layout::LOCK;
use crate::words::Words;

/// The process that acquires the lock: its identity, and a test whether another process is alive.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The caller's worker slot, or [`Owner::MASTER_SLOT`].
    pub slot: u32,
    /// The caller's process id; never zero.
    pub pid: u32,
    /// Returns true if the process `pid` is alive. Must not return false for a process that may still run.
    pub alive: fn(pid: u32) -> bool,
}

impl Owner {
    /// Slot of a process that is not a worker. It may publish and manage workers, but neither read nor join.
    pub const MASTER_SLOT: u32 = u32::MAX - 1;

    pub(crate) fn word(&self) -> u64 {
        owner_word(self.slot, self.pid)
    }
}

pub(crate) fn owner_word(slot: u32, pid: u32) -> u64 {
    // Slots count from one in the word, because zero means "free".
    u64::from(slot.wrapping_add(1)) << 32 | u64::from(pid)
}

/// The shared memory cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LockError {
    /// Another running process has held the lock for more than 200 ms.
    #[error("the shared ring is locked by process {pid} for too long; is it stopped?")]
    Locked {
        /// The owner's process id.
        pid: u32,
    },
    /// The shared words contradict each other.
    #[error("the shared ring is damaged; restart the server")]
    Corrupt,
}

/// Holds the lock until it is dropped. `Ring::lock` repairs the state that an owner left that was killed.
pub(crate) type Guard = fermata_shm::Guard<'static>;

/// Acquires the lock. Releases it from the exited owner `departed` without a check, and from any other owner after it has exited.
pub(crate) fn acquire(
    words: Words,
    who: &Owner,
    departed: Option<u64>,
) -> Result<Guard, LockError> {
    let me = who.word();
    let is_dead = |owner| owner != me && !(who.alive)(owner as u32);
    fermata_shm::acquire(&words.slice(LOCK, 1)[0], me, departed, is_dead)
        .map_err(|owner| LockError::Locked { pid: owner as u32 })
}
