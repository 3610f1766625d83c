//! Which numbers descriptors have.
//!
//! `select()` knows none from 1,024 on, and a program that runs beside a thousand clients calls it: PHP's
//! `stream_select()` refuses such streams. The kernel gives the lowest number that is free, so clients would have all
//! low ones. Those that come when few low numbers are left are moved up instead: two short system calls more for
//! each client above [`LOW_FOR_CLIENTS`], none below.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::fcntl_dupfd_cloexec;

use crate::driver::{Fd, borrow};

/// The first number that `select()` does not know (`FD_SETSIZE`).
const SELECTABLE: Fd = 1024;

/// Numbers from here to [`SELECTABLE`] are left to the program.
pub const LOW_FOR_CLIENTS: Fd = 512;

/// Whether a program runs in this process, and may call `select()`.
static HAS_PROGRAM: AtomicBool = AtomicBool::new(true);

/// Leaves no numbers to a program, for servers that run none: clients keep those that the kernel gives them.
pub fn leave_none() {
    HAS_PROGRAM.store(false, Ordering::Relaxed);
}

/// The same open file under a number that the program has no use for. As it was where the limit of descriptors
/// (`ulimit -n`) allows no other.
#[inline]
#[must_use]
pub fn lift(fd: OwnedFd) -> OwnedFd {
    if (LOW_FOR_CLIENTS..SELECTABLE).contains(&fd.as_raw_fd()) {
        move_up(fd)
    } else {
        fd
    }
}

/// The same for a descriptor that is handed around as a number and that the caller owns.
#[inline]
pub(crate) fn lift_raw(fd: Fd) -> Fd {
    if (LOW_FOR_CLIENTS..SELECTABLE).contains(&fd) {
        // SAFETY: by the contract of `Driver` the caller owns `fd` and uses the number that is returned from here on.
        move_up(unsafe { OwnedFd::from_raw_fd(fd) }).into_raw_fd()
    } else {
        fd
    }
}

#[cold]
fn move_up(fd: OwnedFd) -> OwnedFd {
    if !HAS_PROGRAM.load(Ordering::Relaxed) {
        return fd;
    }
    fcntl_dupfd_cloexec(borrow(fd.as_raw_fd()), SELECTABLE).unwrap_or(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_numbers_that_the_program_may_need_are_given_up() {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
        // Tests beside this one may give low numbers back at any time.
        let mut taken: Vec<OwnedFd> = Vec::new();
        let low = loop {
            let fd = file();
            if (LOW_FOR_CLIENTS..SELECTABLE).contains(&fd.as_raw_fd()) {
                break fd;
            }
            taken.push(fd);
        };
        if crate::process::descriptor_limit() > 2 * SELECTABLE as u64 {
            let high = lift(low);
            assert!(high.as_raw_fd() >= SELECTABLE);
            let flags = rustix::io::fcntl_getfd(&high).expect("it is open");
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        drop(taken);
        let lowest = lift(file());
        assert!(
            lowest.as_raw_fd() < LOW_FOR_CLIENTS,
            "where it need not be moved it stays"
        );
    }
}
