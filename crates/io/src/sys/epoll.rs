//! The epoll driver.
//!
//! One `epoll_wait` per tick into a buffer that is allocated once, followed by one clock reading. Streams are added
//! edge-triggered for all events and never modified, so a connection needs only the `epoll_ctl` that adds it.

use std::fs::File;
use std::io;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::yield_policy::YieldPolicy;
use crate::clock;
use crate::driver::{Accepted, Driver, EVENTS_MAX, Event, Fd, borrow};
use crate::sys::socket;

/// Readiness of real descriptors. Create one per process, after the fork. Otherwise two processes would share the kernel object,
/// and a child's events would be reported to its parent.
pub struct Epoll {
    epoll: OwnedFd,
    /// Buffer for the kernel's events: capacity [`EVENTS_MAX`], empty between waits.
    ready: Vec<epoll::Event>,
    now_ms: u64,
    /// True if the last wait reported events, so that the worker has done work since.
    has_worked: bool,
    yield_policy: YieldPolicy,
}

impl Epoll {
    /// Opens an epoll instance.
    ///
    /// # Errors
    /// No descriptor or memory is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            ready: Vec::with_capacity(EVENTS_MAX),
            now_ms: clock::monotonic_ms(),
            has_worked: false,
            yield_policy: YieldPolicy::default(),
        })
    }

    fn add(&mut self, fd: Fd, token: u64, flags: EventFlags) -> io::Result<()> {
        epoll::add(&self.epoll, borrow(fd), EventData::new_u64(token), flags)?;
        Ok(())
    }
}

impl Driver for Epoll {
    #[inline]
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    #[inline]
    fn refresh_now(&mut self) -> u64 {
        self.now_ms = clock::monotonic_ms();
        self.now_ms
    }

    #[inline]
    fn now_us(&self) -> u64 {
        clock::monotonic_us()
    }

    #[inline]
    fn unix_ms(&self) -> u64 {
        clock::unix_ms()
    }

    fn add_listener(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        // Exclusive: if workers share a listener (such as the control socket), a connection wakes only one of them. The flag costs
        // nothing if each worker has its own listener.
        self.add(fd, token, EventFlags::IN | EventFlags::EXCLUSIVE)
    }

    #[inline]
    fn add_stream(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        self.add(fd, token, flags)
    }

    fn add_wake(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        self.add(fd, token, EventFlags::IN)
    }

    fn remove(&mut self, fd: Fd) -> io::Result<()> {
        epoll::delete(&self.epoll, borrow(fd))?;
        Ok(())
    }

    fn release(&mut self, fd: Fd) -> bool {
        // ENOENT: the descriptor was not watched. Closing it would not suffice, because the watch belongs to the open file
        // description, which the other process still has open.
        matches!(
            epoll::delete(&self.epoll, borrow(fd)),
            Ok(()) | Err(Errno::NOENT)
        )
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: Option<u64>) -> io::Result<()> {
        // Before this worker sleeps, yield to a process on the same core, which may send more.
        if timeout_ms != Some(0) && self.has_worked {
            self.yield_policy
                .run(clock::monotonic_ms, rustix::thread::sched_yield);
        }
        let timeout = timeout_ms.map(timespec);
        let waited = epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.ready),
            timeout.as_ref(),
        );
        self.now_ms = clock::monotonic_ms();
        match waited {
            // EINTR: the signal handler wrote to the signal pipe, which the next wait reports.
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.has_worked = !self.ready.is_empty();
        events.extend(self.ready.drain(..).map(event));
        Ok(())
    }

    fn accept(&mut self, listener: Fd) -> io::Result<Option<Accepted>> {
        socket::accept(listener)
    }

    #[inline]
    fn recv(&mut self, fd: Fd, buf: &mut [u8]) -> io::Result<Option<usize>> {
        socket::recv(fd, buf)
    }

    fn send(&mut self, fd: Fd, bufs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        socket::send(fd, bufs)
    }

    #[inline]
    fn send_one(&mut self, fd: Fd, buf: &[u8]) -> io::Result<Option<usize>> {
        socket::send_one(fd, buf)
    }

    fn can_send_file(&self, _fd: Fd) -> bool {
        true
    }

    fn send_file(
        &mut self,
        fd: Fd,
        file: &File,
        offset: u64,
        len: usize,
    ) -> io::Result<Option<usize>> {
        socket::send_file(fd, file, offset, len)
    }

    fn shutdown_write(&mut self, fd: Fd) {
        socket::shutdown_write(fd);
    }

    fn reset_on_close(&mut self, fd: Fd) {
        socket::reset_on_close(fd);
    }

    fn unacknowledged(&self, fd: Fd) -> Option<usize> {
        socket::unacknowledged(fd)
    }

    #[inline]
    fn close(&mut self, fd: Fd) {
        socket::close(fd);
    }
}

#[inline]
fn event(ready: epoll::Event) -> Event {
    let flags = ready.flags;
    let hangup = flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP);
    Event {
        token: ready.data.u64(),
        readable: flags.contains(EventFlags::IN),
        writable: flags.contains(EventFlags::OUT),
        hangup,
    }
}

/// Converts to whole milliseconds within the kernel's 32-bit range; a longer sleep returns early and is repeated.
#[inline]
fn timespec(timeout_ms: u64) -> Timespec {
    let timeout_ms = timeout_ms.min(i32::MAX as u64) as i64;
    Timespec {
        tv_sec: timeout_ms / 1000,
        tv_nsec: (timeout_ms % 1000) * 1_000_000,
    }
}
