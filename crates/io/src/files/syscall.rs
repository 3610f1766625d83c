//! System calls that are repeated after a signal.

use std::io;

use rustix::io::Errno;

/// Result of a call: a count or descriptor, or an error number.
pub(super) type Answer = Result<u64, i32>;

/// Returns the number of an error.
pub(super) fn number(error: io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Repeats a call that a signal has interrupted. This matters when the loop makes the call, because threads block all signals.
pub(super) fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, i32> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done.map_err(|errno| errno.raw_os_error()),
        }
    }
}

/// Repeats a call of the C library that a signal interrupted.
pub(super) fn again_raw(mut call: impl FnMut() -> i64) -> Answer {
    loop {
        let result = call();
        if result >= 0 {
            return Ok(result as u64);
        }
        let errno = number(io::Error::last_os_error());
        if errno != libc::EINTR {
            return Err(errno);
        }
    }
}
