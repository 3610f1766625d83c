//! Detects kernel features, for `php --ri fermata` and start-up messages.

use std::fs;
use std::io;

use rustix::fs::MemfdFlags;
use rustix::net::{AddressFamily, SocketType, sockopt};
use thiserror::Error;

use crate::kernel::Backend;
use crate::sys::uring::Uring;

/// Reason why io_uring is not available on this machine, worded for a log line.
#[derive(Debug, Error)]
pub enum NoUring {
    /// The system call does not exist.
    #[error("the kernel was built without it, or a seccomp filter hides it")]
    Absent,
    /// The sysctl disables it; contains the sysctl's value.
    #[error("sysctl kernel.io_uring_disabled is {0}; 0 allows it")]
    Disabled(String),
    /// A security policy forbids it.
    #[error("forbidden, probably by a container's seccomp profile")]
    Forbidden,
    /// The kernel lacks features that the driver needs.
    #[error("the kernel is older than Linux 6.1")]
    Old,
    /// Another error.
    #[error(transparent)]
    Io(io::Error),
}

/// Returns the features that Fermata uses or could use, each with `available` or the reason why not.
#[must_use]
pub fn features() -> Vec<(&'static str, String)> {
    vec![
        (
            "kernel",
            rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
        ),
        ("epoll", state(crate::sys::epoll::Epoll::new().map(drop))),
        ("io_uring", state(io_uring())),
        ("io=auto", Backend::AUTO.to_string()),
        (
            "memfd",
            state(rustix::fs::memfd_create("probe", MemfdFlags::CLOEXEC).map(drop)),
        ),
        ("SO_REUSEPORT", state(reuse_port())),
    ]
}

fn reuse_port() -> rustix::io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseport(&socket, true)
}

/// Returns the reason why the io_uring driver does not work here, if it does not.
///
/// Opens a ring as the driver does, and closes it: only an attempt shows restrictions by a sysctl, a seccomp filter or an old
/// kernel.
///
/// # Errors
/// The reason.
pub fn io_uring() -> Result<(), NoUring> {
    let Err(error) = Uring::new() else {
        return Ok(());
    };
    Err(match (error.raw_os_error(), disabled_by_sysctl()) {
        (Some(libc::ENOSYS), _) => NoUring::Absent,
        (Some(libc::EPERM), Some(value)) => NoUring::Disabled(value),
        (Some(libc::EPERM | libc::EACCES), None) => NoUring::Forbidden,
        (Some(libc::EINVAL), _) => NoUring::Old,
        _ if error.kind() == io::ErrorKind::Unsupported => NoUring::Old,
        _ => NoUring::Io(error),
    })
}

fn disabled_by_sysctl() -> Option<String> {
    let value = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?;
    let value = value.trim();
    (value != "0").then(|| value.to_owned())
}

fn state<E: std::fmt::Display>(result: Result<(), E>) -> String {
    match result {
        Ok(()) => "available".to_owned(),
        Err(error) => format!("not available: {error}"),
    }
}
