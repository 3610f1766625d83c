//! What this kernel offers, for `php --ri fermata` and start-up messages.

use std::fs;
use std::io;

use rustix::fs::MemfdFlags;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::kernel::Backend;
use crate::sys::uring::Uring;

/// The features that Fermata uses or could use, each with `available` or why not.
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

/// Whether the io_uring driver works here; else why not, and what to do.
///
/// Opens a ring as the driver does and closes it again: what a sysctl, a seccomp filter or an old
/// kernel refuse shows only in the attempt.
///
/// # Errors
/// The reason, in words for a log line.
pub fn io_uring() -> Result<(), String> {
    let Err(error) = Uring::new() else {
        return Ok(());
    };
    Err(match (error.raw_os_error(), disabled_by_sysctl()) {
        (Some(libc::ENOSYS), _) => {
            "the kernel was built without it, or a seccomp filter hides it".to_owned()
        }
        (Some(libc::EPERM), Some(value)) => {
            format!("sysctl kernel.io_uring_disabled is {value}; 0 allows it")
        }
        (Some(libc::EPERM | libc::EACCES), None) => {
            "forbidden, probably by a container's seccomp profile".to_owned()
        }
        (Some(libc::EINVAL), _) => "the kernel is older than Linux 6.1".to_owned(),
        _ if error.kind() == io::ErrorKind::Unsupported => {
            "the kernel is older than Linux 6.1".to_owned()
        }
        _ => error.to_string(),
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
