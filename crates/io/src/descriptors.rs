//! Keeps low descriptor numbers free for the application.
//!
//! `select()` supports only numbers below 1,024, and applications next to a thousand clients call it: PHP's
//! `stream_select()` rejects higher ones. The kernel assigns the lowest free number, so clients would use up all low
//! ones.
//!
//! Therefore clients that arrive when few low numbers are left are moved to high numbers. This costs two short system calls for
//! each client above [`LOW_FOR_CLIENTS`], and nothing below.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::fcntl_dupfd_cloexec;

use crate::driver::{Fd, borrow};

/// First number that `select()` does not support (`FD_SETSIZE`).
const SELECTABLE: Fd = 1024;

/// Numbers from this one to [`SELECTABLE`] are reserved for the application.
pub const LOW_FOR_CLIENTS: Fd = 512;

/// True if an application runs in this process and may call `select()`.
static HAS_PROGRAM: AtomicBool = AtomicBool::new(true);

/// Stops reserving numbers, for servers without an application: clients keep the numbers that the kernel assigned.
pub fn leave_none() {
    HAS_PROGRAM.store(false, Ordering::Relaxed);
}

/// Moves the open file to a number that is not reserved. Returns it unchanged if the limit of descriptors (`ulimit -n`) permits no
/// higher number.
#[inline]
#[must_use]
pub fn lift(fd: OwnedFd) -> OwnedFd {
    if (LOW_FOR_CLIENTS..SELECTABLE).contains(&fd.as_raw_fd()) {
        move_up(fd)
    } else {
        fd
    }
}

/// Moves a descriptor that the caller owns as a plain number; see [`lift`].
#[inline]
pub(crate) fn lift_raw(fd: Fd) -> Fd {
    if (LOW_FOR_CLIENTS..SELECTABLE).contains(&fd) {
        // SAFETY: by the contract of `Driver` the caller owns `fd` and uses only the returned number from now on.
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
    fn moves_clients_from_reserved_numbers() {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
        // Concurrent tests may close low numbers at any time.
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
