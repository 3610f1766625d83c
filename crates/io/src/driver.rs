//! The contract between the engine's loop and a kernel interface.
//!
//! It speaks readiness: `wait` tells what may be read or written, `recv` and `send` do it. The
//! completion driver serves the same contract from buffers of its own. Streams are edge
//! triggered and registered once, so a connection costs two system calls in its whole life
//! (`accept4`, `epoll_ctl`) besides its reads and writes. What follows for the caller:
//!
//! - A reported `readable` stays true until `recv` returned fewer bytes than were asked for, or
//!   would block; likewise `writable` and `send`. Remember it, it is not reported twice.
//! - `hangup` on a stream may stand beside unread bytes: read to the end before closing.
//! - What `send` has taken may still be with the driver, which delivers it also behind a `close`. A
//!   connection that breaks then is reported by `hangup` and by the next call.
//! - A token may arrive once more after `close` (a forked child that has not yet called `exec`
//!   keeps the kernel object alive), so tokens carry a generation.

use std::fmt;
use std::fs::File;
use std::io;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Events that one [`Driver::wait`] appends at most.
pub const EVENTS_MAX: usize = 512;

/// A file descriptor as a plain number; whoever received it closes it through the driver.
pub type Fd = std::os::fd::RawFd;

/// One thing that became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The token given when the descriptor was added.
    pub token: u64,
    /// There are bytes, a connection to accept, or the end of the stream.
    pub readable: bool,
    /// There is room to send.
    pub writable: bool,
    /// The peer closed its sending side, or the connection is broken (`HUP`, `ERR` or `RDHUP`).
    pub hangup: bool,
}

impl Event {
    /// That there is something to read, and nothing else.
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

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A TCP peer over IPv4 with its port.
    V4(Ipv4Addr, u16),
    /// A TCP peer over IPv6 with its port.
    V6(Ipv6Addr, u16),
    /// A process on this machine, through a Unix socket.
    Unix,
}

impl Peer {
    /// The address without the port, for limits per address; `None` on a Unix socket.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match *self {
            Peer::V4(address, _) => Some(IpAddr::V4(address)),
            Peer::V6(address, _) => Some(IpAddr::V6(address)),
            Peer::Unix => None,
        }
    }

    /// The port, zero on a Unix socket.
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

/// A connection taken from a listener. The receiver closes `fd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The connection: non-blocking, closed on `exec`.
    pub fd: Fd,
    /// The peer.
    pub peer: Peer,
}

/// What the engine needs from a kernel.
///
/// `None` in place of a count always means "would block". Interrupted calls are retried inside,
/// except `wait`, which returns early and empty.
pub trait Driver {
    /// Monotonic milliseconds, as of the end of the last [`wait`](Self::wait) or
    /// [`refresh_now`](Self::refresh_now). Cheap enough to be asked anywhere.
    fn now_ms(&self) -> u64;

    /// Reads the monotonic clock anew, for instance after a long handler.
    fn refresh_now(&mut self) -> u64;

    /// The same clock in microseconds, read now.
    fn now_us(&self) -> u64;

    /// Milliseconds since 1970, for dates and ages; may be a few milliseconds behind.
    fn unix_ms(&self) -> u64;

    /// Watches a listener: reported as readable by every `wait` while a connection is pending.
    ///
    /// # Errors
    /// What the kernel says, such as a watch limit that is reached.
    fn add_listener(&mut self, fd: Fd, token: u64) -> io::Result<()>;

    /// Watches a stream for its whole life: edge triggered for reading, writing and hang-up.
    ///
    /// # Errors
    /// What the kernel says, such as a watch limit that is reached.
    fn add_stream(&mut self, fd: Fd, token: u64) -> io::Result<()>;

    /// Watches the reading end of a waker or pipe: readable in every `wait` until drained.
    ///
    /// # Errors
    /// What the kernel says, such as a watch limit that is reached.
    fn add_wake(&mut self, fd: Fd, token: u64) -> io::Result<()>;

    /// Stops watching without closing, such as a listener while connections are at their limit.
    ///
    /// # Errors
    /// `NotFound` when it is not being watched.
    fn remove(&mut self, fd: Fd) -> io::Result<()>;

    /// Lets go of a stream between two requests, so that another process can go on with it: its
    /// events are not reported any more, and every byte that `recv` has not returned is still in the
    /// kernel. False when that cannot be; nothing has changed then. The caller still closes `fd`,
    /// which ends this process's copy alone.
    fn release(&mut self, fd: Fd) -> bool {
        let _ = fd;
        false
    }

    /// Waits until something is ready or `timeout_ms` passed (`None`: for ever), appends at most
    /// [`EVENTS_MAX`] events and refreshes the clock. May return early without events.
    ///
    /// # Errors
    /// What the kernel says; none is expected in operation.
    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: Option<u64>) -> io::Result<()>;

    /// Takes one pending connection.
    ///
    /// # Errors
    /// As reported: among them `ConnectionAborted` (go on), `EMFILE` and `ENFILE` (the listener
    /// stays readable; pause it).
    fn accept(&mut self, listener: Fd) -> io::Result<Option<Accepted>>;

    /// The owner has read all that came before the protocol of a connection from a listener whose connections begin
    /// in the clear; what follows is what the listener speaks.
    ///
    /// # Errors
    /// It cannot be spoken; close the connection.
    fn begin(&mut self, _fd: Fd) -> io::Result<()> {
        Ok(())
    }

    /// Reads what is there, at most `buf.len()` bytes. `Some(0)` is the end of the stream.
    ///
    /// # Errors
    /// The connection is broken, usually `ConnectionReset`.
    fn recv(&mut self, fd: Fd, buf: &mut [u8]) -> io::Result<Option<usize>>;

    /// Sends from several buffers in one call and returns how many bytes went, which may be fewer.
    ///
    /// # Errors
    /// The connection is broken: `BrokenPipe` (never a signal) or `ConnectionReset`.
    fn send(&mut self, fd: Fd, bufs: &[IoSlice<'_>]) -> io::Result<Option<usize>>;

    /// Sends from one buffer: the fast path of [`send`](Self::send).
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    fn send_one(&mut self, fd: Fd, buf: &[u8]) -> io::Result<Option<usize>>;

    /// Whether [`send_file`](Self::send_file) works on this connection. Where it does not (encryption,
    /// the fake network), the caller reads the file and sends what it has read.
    fn can_send_file(&self, _fd: Fd) -> bool {
        false
    }

    /// Sends up to `len` bytes of `file` from `offset` on without copying them through our memory.
    /// Returns how many went; `Some(0)` is the end of the file.
    ///
    /// # Errors
    /// As for [`send`](Self::send); `Unsupported` where `can_send_file` says so, or from the kernel
    /// about the file.
    fn send_file(
        &mut self,
        _fd: Fd,
        _file: &File,
        _offset: u64,
        _len: usize,
    ) -> io::Result<Option<usize>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives the kernel what sends have left with the driver. `wait` does so too: it is for an owner
    /// that will be busy for long before it waits.
    fn flush(&mut self) {}

    /// Connections that are closed and whose last bytes are still with the driver: an owner that ends
    /// first cuts them off.
    fn leaving(&self) -> usize {
        0
    }

    /// Ends our sending side after what was sent; the peer reads an end of stream.
    fn shutdown_write(&mut self, fd: Fd);

    /// Has [`Driver::close`], which is to be called next, be a reset: what was sent and has not arrived is dropped. It
    /// would otherwise be kept for as long as the peer pretends that it will take it.
    fn reset_on_close(&mut self, fd: Fd);

    /// Closes a descriptor and thereby stops watching it.
    fn close(&mut self, fd: Fd);
}

/// Lends a plain number to a system call.
#[inline]
pub(crate) fn borrow(fd: Fd) -> BorrowedFd<'static> {
    assert!(
        fd >= 0,
        "a descriptor that was never opened reached the driver"
    );
    // SAFETY: not -1, the only value the type forbids. The descriptor is open by the contract of
    // `Driver`; were it not, the kernel would answer EBADF to the one call the borrow is used for.
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
