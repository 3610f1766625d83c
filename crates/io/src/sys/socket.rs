//! System calls on single sockets, which all drivers use.

use std::fs::File;
use std::io;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::IntoRawFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrAny, SocketFlags,
};

use crate::descriptors::lift;
use crate::driver::{Accepted, Fd, Peer, borrow};

/// Maximum number of buffers of one `sendmsg` (`UIO_MAXIOV`); the next call sends the rest.
const SEND_BUFS_MAX: usize = 1024;

/// Accepts a pending connection, non-blocking and closed on `exec`.
pub(super) fn accept(listener: Fd) -> io::Result<Option<Accepted>> {
    loop {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match rustix::net::acceptfrom_with(borrow(listener), flags) {
            Ok((fd, address)) => {
                return Ok(Some(Accepted {
                    fd: lift(fd).into_raw_fd(),
                    peer: peer(address),
                }));
            }
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Returns the peer's address. Fails with `NotConnected` if the peer already closed the connection.
pub(super) fn peer_of(fd: Fd) -> io::Result<Peer> {
    Ok(peer(rustix::net::getpeername(borrow(fd))?))
}

#[inline]
pub(super) fn recv(fd: Fd, buf: &mut [u8]) -> io::Result<Option<usize>> {
    would_block(|| Ok(rustix::net::recv(borrow(fd), &mut *buf, RecvFlags::empty())?.0))
}

pub(super) fn send(fd: Fd, bufs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    let bufs = &bufs[..bufs.len().min(SEND_BUFS_MAX)];
    would_block(|| {
        let mut control = SendAncillaryBuffer::default();
        rustix::net::sendmsg(borrow(fd), bufs, &mut control, SendFlags::NOSIGNAL)
    })
}

#[inline]
pub(super) fn send_one(fd: Fd, buf: &[u8]) -> io::Result<Option<usize>> {
    would_block(|| rustix::net::send(borrow(fd), buf, SendFlags::NOSIGNAL))
}

pub(super) fn send_file(fd: Fd, file: &File, offset: u64, len: usize) -> io::Result<Option<usize>> {
    // `sendfile` has no MSG_NOSIGNAL, so workers ignore SIGPIPE.
    would_block(|| {
        let mut offset = offset;
        rustix::fs::sendfile(borrow(fd), file, Some(&mut offset), len)
    })
}

pub(super) fn shutdown_write(fd: Fd) {
    // Fails only if the connection is already closed, which the next read reports.
    let _ = rustix::net::shutdown(borrow(fd), Shutdown::Write);
}

/// Bytes that the peer has not acknowledged (`SIOCOUTQ`).
pub(super) fn unacknowledged(fd: Fd) -> Option<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one `int`, which lives on the stack.
    let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    usize::try_from(bytes).ok().filter(|_| result == 0)
}

pub(super) fn reset_on_close(fd: Fd) {
    // Fails only on a closed connection, which needs no reset.
    let _ = rustix::net::sockopt::set_socket_linger(borrow(fd), Some(Duration::ZERO));
}

#[inline]
pub(super) fn close(fd: Fd) {
    // SAFETY: by the contract of `Driver` the caller owns `fd`, which `accept` or `net` returned as a plain number, and
    // does not use it after this call.
    unsafe { rustix::io::close(fd) };
}

#[inline]
fn would_block(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match call() {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn peer(address: Option<SocketAddrAny>) -> Peer {
    match address.map(SocketAddr::try_from) {
        Some(Ok(address)) => Peer::from(address),
        _ => Peer::Unix,
    }
}
