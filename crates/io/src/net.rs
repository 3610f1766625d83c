//! Opening listeners and connections.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::driver::{Fd, borrow};

/// Permissions of a Unix socket: the owner alone.
pub const UNIX_MODE: u32 = 0o600;

/// Opens a TCP listener and tells its address (the port that was chosen when `addr` has port 0).
///
/// Connections inherit `TCP_NODELAY`: the engine writes once per tick, so nothing is gained by
/// waiting for more. An IPv6 address serves IPv6 only, so that `[::]` and `0.0.0.0` can both be
/// listened on. `reuse_port` lets several listeners share the port, among which the kernel spreads
/// connections; it also lets a second server of the same user in, so call [`check_tcp_free`] first.
///
/// # Errors
/// `AddrInUse`, `AddrNotAvailable`, `PermissionDenied` (a port below 1024), or no descriptor left.
pub fn bind_tcp(
    addr: SocketAddr,
    backlog: i32,
    reuse_port: bool,
) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = tcp_socket(addr)?;
    sockopt::set_socket_reuseport(&socket, reuse_port)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, &addr)?;
    rustix::net::listen(&socket, backlog)?;
    let bound = local_addr(&socket)?;
    Ok((socket, bound))
}

/// Fails with `AddrInUse` when somebody listens at `addr`, even when they share their port.
///
/// # Errors
/// Those of [`bind_tcp`].
pub fn check_tcp_free(addr: SocketAddr) -> io::Result<()> {
    let socket = tcp_socket(addr)?;
    rustix::net::bind(&socket, &addr)?;
    Ok(())
}

/// Begins to connect to `addr` and returns before the connection stands: it does when the socket
/// becomes writable without a hang-up. A send may be tried at once; it would block until then. The
/// caller closes the descriptor through its driver.
///
/// `source` chooses the local address. Its port is then chosen by the kernel for the pair of
/// addresses and not for the local one alone, so that every source address has all ports.
///
/// # Errors
/// `AddrNotAvailable` when the pair has no port left or `source` is not an address of this machine,
/// no descriptor left, or a refusal that is known at once.
pub fn connect_tcp(addr: SocketAddr, source: Option<IpAddr>) -> io::Result<Fd> {
    let socket = new_tcp_socket(addr)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(source) = source {
        bind_address_no_port(&socket)?;
        rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    match rustix::net::connect(&socket, &addr) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into_raw_fd()),
        Err(errno) => Err(errno.into()),
    }
}

/// The same over a Unix socket, where a connection stands at once or not at all.
///
/// # Errors
/// `NotFound`, `ConnectionRefused`, `WouldBlock` when the server's queue is full, or `InvalidInput` when the path is too
/// long (107 bytes).
pub fn open_unix(path: &Path) -> io::Result<Fd> {
    let socket = unix_socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into_raw_fd())
}

/// Makes a later close abort the connection: the peer gets a reset, unsent bytes are dropped, and
/// neither side keeps the pair of ports busy afterwards.
pub fn abort_on_close(fd: Fd) {
    // It fails only where the connection is gone already.
    let _ = sockopt::set_socket_linger(borrow(fd), Some(Duration::ZERO));
}

/// How long a connection may be silent before the kernel asks whether the other machine is there, how often it asks again,
/// and how many times without an answer end the connection: about a minute in all.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_PROBES: u32 = 3;

/// Has the kernel notice when the machine at the other end is gone without having said so: nobody else does while there is
/// nothing to send. A socket that is not TCP is left as it is, since its other end is here.
pub fn keep_alive(fd: Fd) {
    let fd = borrow(fd);
    // Refused where it means nothing; the connection works without.
    let _ = sockopt::set_tcp_keepidle(fd, KEEP_ALIVE_IDLE)
        .and_then(|()| sockopt::set_tcp_keepintvl(fd, KEEP_ALIVE_INTERVAL))
        .and_then(|()| sockopt::set_tcp_keepcnt(fd, KEEP_ALIVE_PROBES))
        .and_then(|()| sockopt::set_socket_keepalive(fd, true));
}

/// Has the kernel break a connection of `listener` when its peer has taken nothing for so long of what was sent, whether its
/// window is closed or it does not answer: also one whose bytes are all with the kernel, and one that is closed already.
///
/// Accepted connections inherit it, so none of them pays a call. A socket that is not TCP is left as it is.
pub fn limit_undelivered(listener: impl AsFd, timeout_ms: u64) {
    let timeout_ms = u32::try_from(timeout_ms).unwrap_or(u32::MAX);
    // Refused where it means nothing; what the owner counts itself is left then.
    let _ = sockopt::set_tcp_user_timeout(listener, timeout_ms);
}

/// The address a TCP socket is bound to.
///
/// # Errors
/// `fd` is no TCP socket.
pub fn local_addr(fd: impl AsFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(rustix::net::getsockname(fd)?)?)
}

/// The address of this machine that a connection's other end has connected to; `None` when it is no TCP connection.
pub fn own_addr(fd: Fd) -> Option<SocketAddr> {
    local_addr(borrow(fd)).ok()
}

/// Opens a Unix listener at `path` with the permissions `mode`, such as [`UNIX_MODE`].
///
/// A socket file that a killed server left behind is replaced, but only after a connect to it was
/// refused; a file that is no socket is never touched.
///
/// # Errors
/// `AddrInUse` when a server listens there or the path is another kind of file, `InvalidInput`
/// when the path is too long (107 bytes), or what the file system says.
pub fn bind_unix(path: &Path, backlog: i32, mode: u32) -> io::Result<OwnedFd> {
    bind_unix_with(path, backlog, mode, |_| Ok(()))
}

/// The same, where something is to be done about the file before anybody can connect; when that fails there is none.
///
/// # Errors
/// Those of [`bind_unix`], and of `prepare`.
pub fn bind_unix_with(
    path: &Path,
    backlog: i32,
    mode: u32,
    prepare: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = unix_socket()?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) if is_stale_socket(path) => {
            std::fs::remove_file(path)?;
            rustix::net::bind(&socket, &address)?;
        }
        bound => bound?,
    }
    // Before `listen`: until then nobody can connect, so the wider mode of `bind` is never usable.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    prepare(path).inspect_err(|_| {
        // The descriptor is known here alone.
        let _ = std::fs::remove_file(path);
    })?;
    rustix::net::listen(&socket, backlog)?;
    Ok(socket)
}

fn tcp_socket(addr: SocketAddr) -> io::Result<OwnedFd> {
    let socket = new_tcp_socket(addr)?;
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // A restart must not wait for connections of the previous server in TIME_WAIT.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}

fn new_tcp_socket(addr: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if addr.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// Sets `IP_BIND_ADDRESS_NO_PORT`, which rustix does not know. It serves both families.
fn bind_address_no_port(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the socket is open, and the option reads one integer, whose place and size are given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether `path` is a socket that nobody listens on.
fn is_stale_socket(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    is_socket && connect_unix(path) == Err(Errno::CONNREFUSED)
}

/// Non-blocking: a living server whose queue is full must not hold up our start.
fn connect_unix(path: &Path) -> rustix::io::Result<()> {
    let socket = unix_socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

fn unix_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}
