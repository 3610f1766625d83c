//! Threads next to the event loop.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread that receives no signals, so that the loop receives them. Its stack has `stack_bytes` bytes.
///
/// # Errors
/// The limit of threads is reached.
pub fn begin(
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let builder = Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    let blocked = BlockedSignals::block_all();
    let begun = builder.spawn(work);
    drop(blocked);
    begun
}

/// Blocks all signals of this thread until it is dropped; pending signals are then delivered. A thread inherits the signal mask of
/// the thread that started it.
#[must_use]
pub struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    /// Blocks all signals.
    pub fn block_all() -> BlockedSignals {
        // SAFETY: both sets are plain memory that the calls fill, and they outlive the calls.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            BlockedSignals(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled when this value was created.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
        }
    }
}
