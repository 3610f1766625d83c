//! The kernel interfaces behind one type, selected when a process starts.

use std::fmt;
use std::fs::File;
use std::io;
use std::io::IoSlice;

use crate::driver::{Accepted, Driver, Event, Fd};
use crate::sys::epoll::Epoll;
use crate::sys::uring::Uring;

/// A kernel interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// epoll: readiness, and a system call for each read and send.
    Epoll,
    /// io_uring: completions in batches.
    IoUring,
}

impl Backend {
    /// The faster interface for most servers; docs/io.md has measurements.
    pub const AUTO: Backend = Backend::Epoll;
}

/// The value of the setting `io`.
impl fmt::Display for Backend {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Backend::Epoll => "epoll",
            Backend::IoUring => "io_uring",
        })
    }
}

/// A driver over real descriptors. Create one per process, after the fork.
///
/// Selecting the variant costs a comparison per call. With a generic type instead, all code above
/// it would be compiled twice.
pub enum Kernel {
    /// See [`Epoll`].
    Epoll(Epoll),
    /// See [`Uring`].
    IoUring(Box<Uring>),
}

impl Kernel {
    /// Opens `backend`.
    ///
    /// # Errors
    /// Errors of [`Epoll::new`] and [`Uring::new`]: io_uring may be disabled.
    pub fn open(backend: Backend) -> io::Result<Kernel> {
        Ok(match backend {
            Backend::Epoll => Kernel::Epoll(Epoll::new()?),
            Backend::IoUring => Kernel::IoUring(Box::new(Uring::new()?)),
        })
    }

    /// Returns the selected interface.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match self {
            Kernel::Epoll(_) => Backend::Epoll,
            Kernel::IoUring(_) => Backend::IoUring,
        }
    }
}

macro_rules! either {
    ($kernel:expr, $driver:ident => $call:expr) => {
        match $kernel {
            Kernel::Epoll($driver) => $call,
            Kernel::IoUring($driver) => $call,
        }
    };
}

impl Driver for Kernel {
    #[inline]
    fn now_ms(&self) -> u64 {
        either!(self, it => it.now_ms())
    }

    #[inline]
    fn refresh_now(&mut self) -> u64 {
        either!(self, it => it.refresh_now())
    }

    #[inline]
    fn now_us(&self) -> u64 {
        either!(self, it => it.now_us())
    }

    #[inline]
    fn unix_ms(&self) -> u64 {
        either!(self, it => it.unix_ms())
    }

    fn add_listener(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        either!(self, it => it.add_listener(fd, token))
    }

    #[inline]
    fn add_stream(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        either!(self, it => it.add_stream(fd, token))
    }

    fn add_wake(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        either!(self, it => it.add_wake(fd, token))
    }

    fn remove(&mut self, fd: Fd) -> io::Result<()> {
        either!(self, it => it.remove(fd))
    }

    fn release(&mut self, fd: Fd) -> bool {
        either!(self, it => it.release(fd))
    }

    #[inline]
    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: Option<u64>) -> io::Result<()> {
        either!(self, it => it.wait(events, timeout_ms))
    }

    #[inline]
    fn accept(&mut self, listener: Fd) -> io::Result<Option<Accepted>> {
        either!(self, it => it.accept(listener))
    }

    #[inline]
    fn recv(&mut self, fd: Fd, buf: &mut [u8]) -> io::Result<Option<usize>> {
        either!(self, it => it.recv(fd, buf))
    }

    #[inline]
    fn send(&mut self, fd: Fd, bufs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        either!(self, it => it.send(fd, bufs))
    }

    #[inline]
    fn send_one(&mut self, fd: Fd, buf: &[u8]) -> io::Result<Option<usize>> {
        either!(self, it => it.send_one(fd, buf))
    }

    fn can_send_file(&self, fd: Fd) -> bool {
        either!(self, it => it.can_send_file(fd))
    }

    fn send_file(
        &mut self,
        fd: Fd,
        file: &File,
        offset: u64,
        len: usize,
    ) -> io::Result<Option<usize>> {
        either!(self, it => it.send_file(fd, file, offset, len))
    }

    #[inline]
    fn flush(&mut self) {
        either!(self, it => it.flush());
    }

    fn leaving(&self) -> usize {
        either!(self, it => it.leaving())
    }

    fn shutdown_write(&mut self, fd: Fd) {
        either!(self, it => it.shutdown_write(fd));
    }

    fn reset_on_close(&mut self, fd: Fd) {
        either!(self, it => it.reset_on_close(fd));
    }

    fn unacknowledged(&self, fd: Fd) -> Option<usize> {
        either!(self, it => it.unacknowledged(fd))
    }

    #[inline]
    fn close(&mut self, fd: Fd) {
        either!(self, it => it.close(fd));
    }
}
