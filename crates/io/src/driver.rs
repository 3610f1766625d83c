//! Interface between the engine's event loop and the kernel.
//!
//! The interface is readiness-based: `wait` reports the descriptors that can be read or written; `recv` and `send` transfer the
//! bytes. The completion-based driver implements the same interface with its own buffers. Streams are edge-triggered and registered
//! once, so a connection costs two system calls (`accept4`, `epoll_ctl`) in addition to its reads and writes. Consequences for the
//! caller:
//!
//! - A reported `readable` stays true until `recv` returns fewer bytes than requested or would block; the same holds for
//!   `writable` and `send`. The caller must store this, because it is not reported again.
//! - A `hangup` on a stream may be reported with unread bytes: read to the end before closing.
//! - Bytes accepted by `send` may still be in the driver, which delivers them even after `close`. If the connection
//!   breaks, `hangup` and the next call report it.
//! - A token may be reported once more after `close`, because a forked child that has not called `exec` yet keeps the
//!   kernel object alive. Tokens therefore carry a generation.

use std::fmt;
use std::fs::File;
use std::io;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Maximum number of events that one [`Driver::wait`] appends.
pub const EVENTS_MAX: usize = 512;

/// A file descriptor as a plain number; its owner closes it through the driver.
pub type Fd = std::os::fd::RawFd;

/// A descriptor that became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Token that was passed when the descriptor was added.
    pub token: u64,
    /// True if bytes can be read, a connection can be accepted, or the stream has ended.
    pub readable: bool,
    /// True if there is space to send.
    pub writable: bool,
    /// True if the peer closed its sending side, or the connection is broken (`HUP`, `ERR` or `RDHUP`).
    pub hangup: bool,
}

impl Event {
    /// Returns an event that is only readable.
    #[inline]
    #[must_use]
    pub const fn readable(token: u64) -> Event {
        Event {
            token,
            readable: true,
            writable: false,
            hangup: false,
        }
    }
}

/// Peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// TCP over IPv4: address and port.
    V4(Ipv4Addr, u16),
    /// TCP over IPv6: address and port.
    V6(Ipv6Addr, u16),
    /// A process on this machine, through a Unix socket.
    Unix,
}

impl Peer {
    /// Returns the address without the port, for limits per address; `None` for a Unix socket.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match *self {
            Peer::V4(address, _) => Some(IpAddr::V4(address)),
            Peer::V6(address, _) => Some(IpAddr::V6(address)),
            Peer::Unix => None,
        }
    }

    /// Returns the port; 0 for a Unix socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        match *self {
            Peer::V4(_, port) | Peer::V6(_, port) => port,
            Peer::Unix => 0,
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(v4) => Peer::V4(*v4.ip(), v4.port()),
            SocketAddr::V6(v6) => Peer::V6(*v6.ip(), v6.port()),
        }
    }
}

/// `192.0.2.1:8080`, `[2001:db8::1]:8080` or `unix`.
impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::V4(address, port) => write!(out, "{address}:{port}"),
            Peer::V6(address, port) => write!(out, "[{address}]:{port}"),
            Peer::Unix => out.write_str("unix"),
        }
    }
}

/// An accepted connection. The receiver closes `fd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Descriptor of the connection: non-blocking, closed on `exec`.
    pub fd: Fd,
    /// The peer.
    pub peer: Peer,
}

/// Operations that the engine needs from the kernel.
///
/// `None` instead of a count means that the call would block. Interrupted calls are retried, except `wait`, which returns early
/// without events.
pub trait Driver {
    /// Returns monotonic milliseconds, read at the end of the last [`wait`](Self::wait) or
    /// [`refresh_now`](Self::refresh_now). Costs no clock reading.
    fn now_ms(&self) -> u64;

    /// Reads the monotonic clock, for instance after a long handler.
    fn refresh_now(&mut self) -> u64;

    /// Reads the monotonic clock in microseconds.
    fn now_us(&self) -> u64;

    /// Returns milliseconds since 1970, for dates and ages; may be a few milliseconds late.
    fn unix_ms(&self) -> u64;

    /// Watches a listener: every `wait` reports it as readable while a connection is pending.
    ///
    /// # Errors
    /// The kernel's error, for example if the limit of watches is reached.
    fn add_listener(&mut self, fd: Fd, token: u64) -> io::Result<()>;

    /// Watches a stream until it is closed: edge-triggered for reading, writing and hang-up.
    ///
    /// # Errors
    /// The kernel's error, for example if the limit of watches is reached.
    fn add_stream(&mut self, fd: Fd, token: u64) -> io::Result<()>;

    /// Watches the reading end of a waker or pipe: every `wait` reports it as readable until it is drained.
    ///
    /// # Errors
    /// The kernel's error, for example if the limit of watches is reached.
    fn add_wake(&mut self, fd: Fd, token: u64) -> io::Result<()>;

    /// Stops watching without closing, for example a listener while the limit of connections is reached.
    ///
    /// # Errors
    /// `NotFound` if the descriptor is not being watched.
    fn remove(&mut self, fd: Fd) -> io::Result<()>;

    /// Detaches a stream between two requests, so that another process can take it over. Its events are no longer
    /// reported, and every byte that `recv` has not returned is still in the kernel.
    ///
    /// Returns false, and changes nothing, if that is not possible. The caller has to close `fd`, which closes only this process's
    /// copy.
    fn release(&mut self, fd: Fd) -> bool {
        let _ = fd;
        false
    }

    /// Waits until a descriptor is ready or `timeout_ms` has passed (`None` = no time-out). Appends at most [`EVENTS_MAX`] events
    /// and updates the clock. May return early without events.
    ///
    /// # Errors
    /// The kernel's error; none is expected in operation.
    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: Option<u64>) -> io::Result<()>;

    /// Accepts one pending connection.
    ///
    /// # Errors
    /// The kernel's error: for example `ConnectionAborted` (accept the next one), or `EMFILE` and `ENFILE` (stop watching
    /// the listener, which stays readable).
    fn accept(&mut self, listener: Fd) -> io::Result<Option<Accepted>>;

    /// Starts the protocol of the listener, for listeners whose connections begin with a plain-text header (the PROXY
    /// protocol). The caller has read exactly that header.
    ///
    /// # Errors
    /// The protocol cannot be started; close the connection.
    fn begin(&mut self, _fd: Fd) -> io::Result<()> {
        Ok(())
    }

    /// Reads available bytes, at most `buf.len()`. `Some(0)` is the end of the stream.
    ///
    /// # Errors
    /// The connection is broken, usually `ConnectionReset`.
    fn recv(&mut self, fd: Fd, buf: &mut [u8]) -> io::Result<Option<usize>>;

    /// Sends from several buffers in one call and returns the number of bytes accepted, which may be smaller.
    ///
    /// # Errors
    /// The connection is broken: `BrokenPipe` (never a signal) or `ConnectionReset`.
    fn send(&mut self, fd: Fd, bufs: &[IoSlice<'_>]) -> io::Result<Option<usize>>;

    /// Sends from one buffer: the fast path of [`send`](Self::send).
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    fn send_one(&mut self, fd: Fd, buf: &[u8]) -> io::Result<Option<usize>>;

    /// Returns true if [`send_file`](Self::send_file) works on this connection. If false (encryption, the fake network), the caller
    /// must read the file and send the bytes.
    fn can_send_file(&self, _fd: Fd) -> bool {
        false
    }

    /// Sends up to `len` bytes of `file` from `offset` without copying them through this process. Returns the number of
    /// bytes sent; `Some(0)` is the end of the file.
    ///
    /// # Errors
    /// As for [`send`](Self::send); `Unsupported` if `can_send_file` is false or the kernel does not support the file.
    fn send_file(
        &mut self,
        _fd: Fd,
        _file: &File,
        _offset: u64,
        _len: usize,
    ) -> io::Result<Option<usize>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Passes bytes that are still in the driver to the kernel. `wait` does this too. Call this before long work.
    fn flush(&mut self) {}

    /// Returns the number of closed connections whose last bytes are still in the driver. If the process exits first,
    /// these bytes are lost.
    fn leaving(&self) -> usize {
        0
    }

    /// Closes the sending side after the bytes sent so far; the peer reads the end of the stream.
    fn shutdown_write(&mut self, fd: Fd);

    /// Makes the next [`Driver::close`] of `fd` a reset that drops undelivered bytes. Otherwise the kernel would store
    /// them while the peer keeps the connection alive without reading.
    fn reset_on_close(&mut self, fd: Fd);

    /// Returns the number of bytes that were sent on a connection and that its peer has not acknowledged; `None` if the kernel does
    /// not report it. The number decreases only while the peer reads.
    fn unacknowledged(&self, _fd: Fd) -> Option<usize> {
        None
    }

    /// Closes a descriptor, which also stops watching it.
    fn close(&mut self, fd: Fd);
}

/// Borrows a plain number for a system call.
#[inline]
pub(crate) fn borrow(fd: Fd) -> BorrowedFd<'static> {
    assert!(
        fd >= 0,
        "a descriptor that was never opened reached the driver"
    );
    // SAFETY: not -1, the only value that the type forbids. By the contract of `Driver` the descriptor is open. If it is not, the
    // system call that uses the borrow returns EBADF.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_display_as_addresses() {
        let v4: SocketAddr = "192.0.2.1:8080".parse().expect("an address");
        let v6: SocketAddr = "[2001:db8::1]:81".parse().expect("an address");
        assert_eq!(Peer::from(v4).to_string(), v4.to_string());
        assert_eq!(Peer::from(v6).to_string(), v6.to_string());
        assert_eq!(Peer::Unix.to_string(), "unix");
        assert_eq!(
            (Peer::from(v6).ip(), Peer::from(v6).port()),
            (Some(v6.ip()), 81)
        );
        assert_eq!((Peer::Unix.ip(), Peer::Unix.port()), (None, 0));
    }

    #[test]
    fn an_event_stays_two_words() {
        assert_eq!(size_of::<Event>(), 16);
    }
}
