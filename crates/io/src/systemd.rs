//! Socket activation and notifications of a service manager: `sd_listen_fds(3)`, `sd_notify(3)`. Both need only a few
//! variables and a datagram socket, so no library is used.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::FdFlags;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, sockopt,
};

use crate::driver::Fd;
use crate::process;

/// Number of the first descriptor that the service manager passes.
const LISTEN_FDS_START: Fd = 3;

/// Maximum number of passed sockets; a larger number is an error.
const LISTEN_FDS_MAX: Fd = 1024;

/// Returns the listening sockets passed to this process, with their names. A second call, and a call in a child, return no sockets.
///
/// # Errors
/// A variable is not a number, or a descriptor is not a listening stream socket.
pub fn take_sockets() -> io::Result<Vec<(String, OwnedFd)>> {
    static IS_TAKEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let is_ours = number("LISTEN_PID").is_some_and(|pid| pid == i64::from(process::pid()));
    if !is_ours || IS_TAKEN.swap(true, std::sync::atomic::Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").and_then(|count| Fd::try_from(count).ok());
    let count = count.filter(|count| (0..=LISTEN_FDS_MAX).contains(count));
    let count = count.ok_or_else(|| invalid("LISTEN_FDS is not a number of sockets"))?;
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    (LISTEN_FDS_START..LISTEN_FDS_START + count)
        .map(|fd| {
            let name = names.next().unwrap_or_default().to_owned();
            let flags = rustix::io::fcntl_getfd(crate::driver::borrow(fd))?;
            // SAFETY: LISTEN_PID states that these descriptors are for this process, the call above found this one open,
            // and `IS_TAKEN` ensures that each is taken once.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            rustix::io::fcntl_setfd(&socket, flags | FdFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&socket, true)?;
            if !sockopt::socket_acceptconn(&socket)? {
                return Err(invalid(&format!(
                    "the passed socket \"{name}\" does not listen; use ListenStream= and Accept=no"
                )));
            }
            // Not supported by Unix sockets.
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            Ok((name, socket))
        })
        .collect()
}

/// Variables that are only meant for the process that the service manager started.
pub const VARIABLES: [&str; 6] = [
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Removes these variables from the environment of a forked process, so that no executable that it starts uses the
/// sockets or sends notifications.
pub fn forget_in_child() {
    for name in VARIABLES {
        // SAFETY: the process was just forked, so it has one thread, and no other code reads the environment
        // concurrently.
        unsafe { std::env::remove_var(name) };
    }
}

/// Sends the status of the process to the service manager.
#[derive(Debug)]
pub struct Notifier {
    socket: OwnedFd,
    address: SocketAddrUnix,
    /// Interval in which the manager expects a keep-alive; `None` without a watchdog.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Creates the notifier. Returns `None` if there is no manager to notify, or its address is invalid.
    #[must_use]
    pub fn from_environment() -> Option<Self> {
        let path = std::env::var("NOTIFY_SOCKET").ok()?;
        let address = match path.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
            None => SocketAddrUnix::new(path.as_str()),
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let kind = SocketType::DGRAM;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).ok()?;
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == i64::from(process::pid()));
        let watchdog = number("WATCHDOG_USEC").and_then(|us| u64::try_from(us).ok());
        Some(Self {
            socket,
            address: address.ok()?,
            watchdog: watchdog
                .filter(|us| is_ours && *us > 0)
                .map(Duration::from_micros),
        })
    }

    /// Sends lines such as `READY=1`. Does not wait if the manager does not read.
    pub fn notify(&self, lines: &str) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = sendto(self.socket.as_fd(), lines.as_bytes(), flags, &self.address);
    }

    /// Returns the interval for `WATCHDOG=1`: half the time that the manager waits.
    #[must_use]
    pub fn watchdog_ms(&self) -> Option<u64> {
        let ms = self.watchdog?.as_millis() as u64 / 2;
        Some(ms.max(1))
    }
}

fn number(variable: &str) -> Option<i64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
