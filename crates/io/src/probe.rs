//! What this kernel offers, for `php --ri fermata` and start-up messages.

use std::fs;
use std::io;

use rustix::fs::MemfdFlags;
use rustix::net::{AddressFamily, SocketType, sockopt};

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
        ("io_uring", io_uring()),
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

/// Sets up the smallest ring and closes it again: seccomp and sysctl show only in the attempt.
fn io_uring() -> String {
    // `struct io_uring_params` is 120 bytes of integers; all zero asks for the defaults.
    let mut params = [0_u64; 15];
    let entries: libc::c_long = 1;
    // SAFETY: the kernel reads and writes exactly the 120 bytes of `params`.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, params.as_mut_ptr()) };
    if ring >= 0 {
        // SAFETY: the descriptor was just opened by us, and nobody else knows it.
        unsafe { libc::close(ring as i32) };
        return "available".to_owned();
    }
    let error = io::Error::last_os_error();
    match (error.raw_os_error(), disabled_by_sysctl()) {
        (Some(libc::ENOSYS), _) => "not available: the kernel was built without it".to_owned(),
        (_, Some(value)) => {
            format!("not available: sysctl kernel.io_uring_disabled is {value}")
        }
        (Some(libc::EPERM), None) => {
            "not available: forbidden, probably by a container's seccomp profile".to_owned()
        }
        _ => format!("not available: {error}"),
    }
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
