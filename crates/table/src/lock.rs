//! Owners of locks.

use fermata_shm::{AtomicU64, Guard};

use crate::TableError;

/// The process that uses a handle, and a test whether another process may be running.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Name of the process in a lock. The low half is the process ID. A name is never 0 and is never reused.
    pub identity: u64,
    /// Returns true if the process with this name may be running. This function must never return false for a running process.
    pub is_running: fn(identity: u64) -> bool,
}

/// Acquires a lock, if necessary from a dead owner.
pub(crate) fn acquire<'a>(word: &'a AtomicU64, process: &Process) -> Result<Guard<'a>, TableError> {
    let is_dead = |owner| !(process.is_running)(owner);
    fermata_shm::acquire(word, process.identity, None, is_dead)
        .map_err(|owner| TableError::Locked { pid: owner as u32 })
}
