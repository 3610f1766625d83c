//! Threads beside the loop.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Begins a thread that takes no signal, so that those reach the loop. Its stack has so many bytes.
///
/// # Errors
/// The process may not have another thread.
pub fn begin(
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let builder = Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    let aside = PutAside::signals();
    let begun = builder.spawn(work);
    drop(aside);
    begun
}

/// The signals that this thread takes, put aside until this is dropped: those that come meanwhile are delivered then. A
/// thread begins with those of the one that began it.
#[must_use]
pub struct PutAside(libc::sigset_t);

impl PutAside {
    /// Puts all signals aside.
    pub fn signals() -> PutAside {
        // SAFETY: both sets are plain memory that the calls fill, and they outlive the calls.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            PutAside(before)
        }
    }
}

impl Drop for PutAside {
    fn drop(&mut self) {
        // SAFETY: the set was filled when this was made.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
        }
    }
}
