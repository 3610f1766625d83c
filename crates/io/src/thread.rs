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
    let blocked = Signals::block();
    let begun = builder.spawn(work);
    blocked.restore();
    begun
}

/// The signals that this thread takes, put aside: a thread begins with those of the one that began it.
struct Signals(libc::sigset_t);

impl Signals {
    fn block() -> Signals {
        // SAFETY: both sets are plain memory that the calls fill, and they outlive the calls.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Signals(before)
        }
    }

    fn restore(self) {
        // SAFETY: the set was filled by `block`.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
        }
    }
}
