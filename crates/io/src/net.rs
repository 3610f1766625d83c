//! Opens listeners and connections.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::driver::{Fd, borrow};

/// Default permissions of a Unix socket: only the owner may connect.
pub const UNIX_MODE: u32 = 0o600;

/// Opens a TCP listener and returns it with its address. If `addr` has port 0, the address contains the chosen port.
///
/// Connections inherit `TCP_NODELAY`: the engine writes once per tick, so waiting for more bytes gains nothing. An IPv6
/// address serves only IPv6, so that `[::]` and `0.0.0.0` can be used together. With `reuse_port` several listeners
/// share the port, and the kernel distributes connections among them. A second server of the same user could then bind
/// too, so call [`check_tcp_free`] first.
///
/// # Errors
/// `AddrInUse`, `AddrNotAvailable`, `PermissionDenied` (a port below 1024), or no descriptor is left.
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

/// Fails with `AddrInUse` if another process listens at `addr`, even with a shared port.
///
/// # Errors
/// As for [`bind_tcp`].
pub fn check_tcp_free(addr: SocketAddr) -> io::Result<()> {
    let socket = tcp_socket(addr)?;
    rustix::net::bind(&socket, &addr)?;
    Ok(())
}

/// Starts connecting to `addr` and returns immediately. The connection is established when the socket becomes writable without a
/// hang-up. Before that, a send would block. The caller closes the descriptor through its driver.
///
/// `source` selects the local address. The kernel then chooses the local port for the pair of addresses, so that every
/// source address can use all ports.
///
/// # Errors
/// `AddrNotAvailable` if the pair has no port left or `source` is not an address of this machine, no descriptor is
/// left, or an immediate refusal.
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

/// Connects to a Unix socket, which succeeds or fails immediately.
///
/// # Errors
/// `NotFound`, `ConnectionRefused`, `WouldBlock` if the server's queue is full, or `InvalidInput` if the path is too
/// long (107 bytes).
pub fn open_unix(path: &Path) -> io::Result<Fd> {
    let socket = unix_socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into_raw_fd())
}

/// Makes a later close abort the connection: the peer receives a reset, unsent bytes are dropped, and neither side
/// keeps the ports in TIME_WAIT.
pub fn abort_on_close(fd: Fd) {
    // Fails only if the connection is already closed.
    let _ = sockopt::set_socket_linger(borrow(fd), Some(Duration::ZERO));
}

/// TCP keep-alive: idle time before the first probe, interval between probes, and unanswered probes before the
/// connection breaks. Together about a minute.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_PROBES: u32 = 3;

/// Makes the kernel detect a peer that disappeared without closing the connection. Without data to send, no error would occur
/// otherwise. Has no effect on sockets other than TCP, because their peer is on this machine.
pub fn keep_alive(fd: Fd) {
    let fd = borrow(fd);
    // Only TCP sockets support this. Others need no keep-alive.
    let _ = sockopt::set_tcp_keepidle(fd, KEEP_ALIVE_IDLE)
        .and_then(|()| sockopt::set_tcp_keepintvl(fd, KEEP_ALIVE_INTERVAL))
        .and_then(|()| sockopt::set_tcp_keepcnt(fd, KEEP_ALIVE_PROBES))
        .and_then(|()| sockopt::set_socket_keepalive(fd, true));
}

/// Makes the kernel break a connection of `listener` if its peer accepts no sent data for `timeout_ms`, because of a closed window
/// or missing acknowledgements. This also applies to connections whose bytes are all in the kernel, and to closed connections.
///
/// Accepted connections inherit the option, so that it costs no system call per connection. Only TCP sockets support it.
pub fn limit_undelivered(listener: impl AsFd, timeout_ms: u64) {
    let timeout_ms = u32::try_from(timeout_ms).unwrap_or(u32::MAX);
    // Only TCP sockets support this. For others, only the owner's own time-outs apply.
    let _ = sockopt::set_tcp_user_timeout(listener, timeout_ms);
}

/// Returns the local address of a TCP socket.
///
/// # Errors
/// `fd` is not a TCP socket.
pub fn local_addr(fd: impl AsFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(rustix::net::getsockname(fd)?)?)
}

/// Returns the local address to which the peer connected; `None` if the connection is not TCP.
pub fn own_addr(fd: Fd) -> Option<SocketAddr> {
    local_addr(borrow(fd)).ok()
}

/// Opens a Unix listener at `path` with the permissions `mode`, such as [`UNIX_MODE`].
///
/// Replaces the socket file of a crashed server, but only after a connect to it was refused. Never replaces a file that
/// is not a socket.
///
/// # Errors
/// `AddrInUse` if a server listens there or the path is another kind of file, `InvalidInput` if the path is too long
/// (107 bytes), or the file system's error.
pub fn bind_unix(path: &Path, backlog: i32, mode: u32) -> io::Result<OwnedFd> {
    bind_unix_with(path, backlog, mode, |_| Ok(()))
}

/// Opens a Unix listener like [`bind_unix`], and calls `prepare` before any client can connect. Fails if `prepare`
/// fails.
///
/// # Errors
/// Errors of [`bind_unix`] and of `prepare`.
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
    // Set the mode before `listen`: no client can connect yet, so the wider mode from `bind` is never usable.
    set_mode(path, mode)?;
    prepare(path).inspect_err(|_| {
        // No other process has the descriptor, so nothing can listen at this path.
        let _ = std::fs::remove_file(path);
    })?;
    rustix::net::listen(&socket, backlog)?;
    Ok(socket)
}

/// Sets the permissions of a socket's file. Does not follow a link with which another user may have replaced the file.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if kind != FileType::Socket {
        return Err(io::Error::other("another process replaced the new socket"));
    }
    // `fchmod` refuses descriptors of `O_PATH`. The kernel finds the same file by this path.
    let place = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mode = std::fs::Permissions::from_mode(mode);
    match std::fs::set_permissions(place, mode.clone()) {
        // Without /proc, as in a chroot, only the path can be used.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::set_permissions(path, mode)
        }
        set => set,
    }
}

fn tcp_socket(addr: SocketAddr) -> io::Result<OwnedFd> {
    let socket = new_tcp_socket(addr)?;
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // A restart must not fail because connections of the previous server are in TIME_WAIT.
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

/// Sets `IP_BIND_ADDRESS_NO_PORT`, which rustix does not support. The option applies to IPv4 and IPv6.
fn bind_address_no_port(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the socket is open, and the option reads one integer; address and size of this integer are passed.
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

/// Returns true if `path` is a socket that no process listens on.
fn is_stale_socket(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    is_socket && connect_unix(path) == Err(Errno::CONNREFUSED)
}

/// Connects without blocking: a running server with a full queue must not delay the start.
fn connect_unix(path: &Path) -> rustix::io::Result<()> {
    let socket = unix_socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

fn unix_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_mode_of_a_socket_is_not_set_through_a_link() {
        let folder = std::env::temp_dir().join(format!("fermata-net-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (secret, path) = (folder.join("secret"), folder.join("socket"));
        let mode = |path: &Path| {
            let metadata = std::fs::metadata(path).expect("it is there");
            metadata.permissions().mode() & 0o777
        };
        std::fs::write(&secret, "").expect("a file");
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).expect("it is ours");
        symlink(&secret, &path).expect("a link");
        set_mode(&path, 0o666).expect_err("it is a link");
        set_mode(&secret, 0o666).expect_err("it is no socket");
        assert_eq!(mode(&secret), 0o600);
        std::fs::remove_file(&path).expect("it is ours");
        let _listener = bind_unix(&path, 1, 0o640).expect("bind");
        assert_eq!(mode(&path), 0o640);
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
