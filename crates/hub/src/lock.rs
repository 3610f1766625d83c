//! Whose the one lock of the ring is.

use thiserror::Error;

use crate::layout::LOCK;
use crate::words::Words;

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

/// The lock is held while this lives. `Ring::lock` repairs what a dead owner has left.
pub(crate) type Guard = fermata_shm::Guard<'static>;

/// Takes the lock, over the dead owner `departed` without asking, over any other owner once it is dead.
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
