//! Whose the locks are.

use fermata_shm::{AtomicU64, Guard};

use crate::TableError;

/// The process that uses a handle, and how to ask whether another one can still run.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Its name in a lock, whose low half is its id; never zero, and never that of another process.
    pub identity: u64,
    /// Whether the process of this name can still run. Must not say "no" of one that can.
    pub is_running: fn(identity: u64) -> bool,
}

/// Takes a lock, also over an owner that is dead.
pub(crate) fn acquire<'a>(word: &'a AtomicU64, process: &Process) -> Result<Guard<'a>, TableError> {
    let is_dead = |owner| !(process.is_running)(owner);
    fermata_shm::acquire(word, process.identity, None, is_dead)
        .map_err(|owner| TableError::Locked { pid: owner as u32 })
}
