//! What a service manager hands to a process and wants to hear from it: `sd_listen_fds(3)`,
//! `sd_notify(3)`. Both are a few variables and one datagram socket, so no library is needed.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::FdFlags;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, sockopt,
};

use crate::driver::Fd;
use crate::process;

/// The first descriptor that is passed.
const LISTEN_FDS_START: Fd = 3;

/// More sockets than anybody passes; a larger number is a mistake.
const LISTEN_FDS_MAX: Fd = 1024;

/// The listening sockets that were passed to this process, with their names. The second call, and the
/// first one in a child, finds none.
///
/// # Errors
/// A variable that is no number, or a descriptor that is no listening stream socket.
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
            // SAFETY: the service manager says by LISTEN_PID that these descriptors are for this
            // process; the call above found this one open, and it is taken once.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            rustix::io::fcntl_setfd(&socket, flags | FdFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&socket, true)?;
            if !sockopt::socket_acceptconn(&socket)? {
                return Err(invalid(&format!(
                    "the passed socket \"{name}\" does not listen; use ListenStream= and Accept=no"
                )));
            }
            // A Unix socket has no such option.
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            Ok((name, socket))
        })
        .collect()
}

/// Tells the service manager how the process is doing.
#[derive(Debug)]
pub struct Notifier {
    socket: OwnedFd,
    address: SocketAddrUnix,
    /// How often a sign of life is wanted.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// `None` when nobody wants to know, or what is said of it is not usable.
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

    /// Sends lines such as `READY=1`. A manager that does not listen is not waited for.
    pub fn tell(&self, lines: &str) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = sendto(self.socket.as_fd(), lines.as_bytes(), flags, &self.address);
    }

    /// How often `WATCHDOG=1` has to be told: twice within the time that the manager waits.
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
