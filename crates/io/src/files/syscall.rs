//! System calls that are made again when a signal has come in between.

use std::io;

use rustix::io::Errno;

/// What a call has returned: a count or descriptor, or an error number.
pub(super) type Answer = Result<u64, i32>;

/// The number of an error.
pub(super) fn number(error: io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Signals are the loop's business: a thread takes none, so this is for the case that the loop itself does it.
pub(super) fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, i32> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done.map_err(|errno| errno.raw_os_error()),
        }
    }
}

/// The same of a call of the C library.
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
