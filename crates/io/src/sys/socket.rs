//! The system calls on single sockets, which every kernel interface falls back on.

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

/// Buffers that one `sendmsg` takes (`UIO_MAXIOV`); more are left for the next call.
const SEND_BUFS_MAX: usize = 1024;

/// Takes a pending connection, non-blocking and closed on `exec`.
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

/// The peer's address. `NotConnected` when it has closed the connection already.
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
    // There is no MSG_NOSIGNAL here; workers ignore SIGPIPE for it.
    would_block(|| {
        let mut offset = offset;
        rustix::fs::sendfile(borrow(fd), file, Some(&mut offset), len)
    })
}

pub(super) fn shutdown_write(fd: Fd) {
    // It fails only where the connection is already gone, which the next read reports.
    let _ = rustix::net::shutdown(borrow(fd), Shutdown::Write);
}

pub(super) fn reset_on_close(fd: Fd) {
    // Where it fails, on a connection that is gone, there is nothing to reset.
    let _ = rustix::net::sockopt::set_socket_linger(borrow(fd), Some(Duration::ZERO));
}

#[inline]
pub(super) fn close(fd: Fd) {
    // SAFETY: by the contract of `Driver` the caller owns `fd`, which `accept` or `net` gave
    // away as a plain number, and uses it no more after this call.
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
