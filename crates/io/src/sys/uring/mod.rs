//! The io_uring driver: readiness implemented on top of completions.
//!
//! - Listeners have a multishot accept; accepted connections wait to be taken (`listeners`).
//! - Streams have a multishot receive into one pool of buffers; `recv` copies from them (`streams`).
//! - Small sends are collected and submitted together (`output`, `sends`). `send` reports them as accepted. Bytes that
//!   the kernel does not accept are stored, at most one send per connection; until they are sent, the next send would
//!   block.
//! - Wakers have a poll that is repeated in every wait, because they are reported until drained.
//!
//! Descriptors are indexed by number in `slots`. Operations carry number and generation, so a late completion affects
//! no other descriptor. Before a descriptor is closed its operations are cancelled, because they keep the socket alive.
//!
//! Price compared with epoll: an armed receive costs the kernel about 900 bytes per idle connection, and received bytes
//! are copied once more. docs/io.md has measurements.

mod buffers;
mod listeners;
mod output;
mod ring;
mod sends;
mod slot;
mod streams;
mod ticket;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, IoSlice};

use buffers::Buffers;
use ring::{Completion, Ring, Sleep};
use sends::Sends;
use slot::{Aside, Kind, Listener, Receiving, Rest, Slot};
use ticket::{Op, Ticket};

use crate::clock;
use crate::driver::{Accepted, Driver, EVENTS_MAX, Event, Fd};
use crate::sys::socket;
use crate::sys::yield_policy::YieldPolicy;

/// Completions of real descriptors. Create one per process, after the fork, and use it only in the thread that created
/// it; the kernel rejects other threads.
pub struct Uring {
    /// Dropped first: the kernel accesses the memory of the next two fields.
    ring: Ring,
    buffers: Buffers,
    sends: Sends,
    /// Indexed by descriptor.
    slots: Vec<Slot>,
    listeners: Vec<Listener>,
    /// Descriptors with an event to report; an entry may have been closed since.
    ready: VecDeque<Fd>,
    /// Streams that received bytes since the last wait.
    unread: Vec<Fd>,
    /// Descriptors that need a new receive or poll.
    idle: Vec<Fd>,
    aside: HashMap<Fd, Aside>,
    rests: HashMap<Fd, Rest>,
    /// Closed connections with unsent bytes: expiry time, descriptor, generation.
    leaving: VecDeque<(u64, Fd, u32)>,
    /// Number of descriptors of kind `Leaving`.
    leaving_len: usize,
    done: Vec<Completion>,
    now_ms: u64,
    /// True if the last wait reported events, so that the worker has done work since.
    has_worked: bool,
    yield_policy: YieldPolicy,
}

impl Uring {
    /// Opens a ring. Requires Linux 6.1 or later and permission to use io_uring.
    ///
    /// # Errors
    /// `PermissionDenied` if a sysctl or seccomp filter forbids it, `Unsupported` or `InvalidInput` on older kernels, no
    /// descriptor or memory is left.
    pub fn new() -> io::Result<Uring> {
        let mut ring = Ring::new()?;
        // SAFETY: the order of the fields drops the ring first. If this fails, no operation was started.
        let buffers = unsafe { Buffers::new(&mut ring) }?;
        Ok(Uring {
            ring,
            buffers,
            sends: Sends::new(),
            slots: Vec::new(),
            listeners: Vec::new(),
            ready: VecDeque::new(),
            unread: Vec::new(),
            idle: Vec::new(),
            aside: HashMap::new(),
            rests: HashMap::new(),
            leaving: VecDeque::new(),
            leaving_len: 0,
            done: Vec::new(),
            now_ms: clock::monotonic_ms(),
            has_worked: false,
            yield_policy: YieldPolicy::default(),
        })
    }

    #[inline]
    fn slot(&mut self, fd: Fd) -> &mut Slot {
        assert!(
            fd >= 0,
            "a descriptor that was never opened reached the driver"
        );
        let at = fd as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, Slot::new(0));
        }
        &mut self.slots[at]
    }

    /// Returns true if an event can be reported without entering the kernel.
    fn has_events(&self) -> bool {
        !self.ready.is_empty() || self.listeners.iter().any(Listener::has_events)
    }

    /// Records an event of a descriptor for the next report.
    fn record(&mut self, fd: Fd, note: impl FnOnce(&mut Slot)) {
        let slot = &mut self.slots[fd as usize];
        if !matches!(slot.kind, Kind::Stream | Kind::Wake) {
            return;
        }
        note(slot);
        if !std::mem::replace(&mut slot.is_ready, true) {
            self.ready.push_back(fd);
        }
    }

    fn record_end(&mut self, fd: Fd) {
        self.record(fd, |slot| {
            slot.readable = true;
            slot.hangup = true;
        });
    }

    /// Records that a connection is broken. Its owner detects this by reading. Bytes that were sent will not arrive.
    fn tell_broken(&mut self, fd: Fd) {
        let slot = &self.slots[fd as usize];
        match slot.kind {
            // A collected send still refers to the descriptor, so do not close it yet. That send also fails, and its completion
            // closes the descriptor.
            Kind::Leaving if slot.is_sending => {}
            Kind::Leaving => self.finish_close(fd),
            _ => self.record_end(fd),
        }
    }

    /// Handles completions.
    fn reap(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        self.ring.drain(&mut done);
        for completion in done.drain(..) {
            match completion.ticket.op {
                Op::Accept => self.on_accept(completion),
                Op::Recv => self.on_recv(completion),
                Op::Send => self.on_send(completion),
                Op::Room | Op::Hangup | Op::Wake => self.on_poll(completion),
                Op::Cancel => {}
            }
        }
        self.sends.recycle();
        self.done = done;
    }

    fn on_poll(&mut self, done: Completion) {
        let Ticket { op, generation, fd } = done.ticket;
        let slot = &mut self.slots[fd as usize];
        if slot.generation != generation || done.result == -libc::ECANCELED {
            return;
        }
        let broken = i32::from(libc::POLLERR | libc::POLLHUP);
        let is_broken = done.result < 0 || done.result & broken != 0;
        match op {
            Op::Room => self.on_room(fd, is_broken),
            Op::Hangup => self.on_hangup(fd, is_broken, done.has_more),
            _ => {
                self.record(fd, |slot| {
                    slot.readable = true;
                    slot.hangup |= is_broken;
                });
                self.list_idle(fd);
            }
        }
    }

    /// Reports at most [`EVENTS_MAX`] descriptors.
    fn report(&mut self, events: &mut Vec<Event>) {
        let before = events.len();
        for listener in self.listeners.iter().filter(|it| it.has_events()) {
            events.push(Event {
                token: listener.token,
                readable: true,
                writable: false,
                hangup: false,
            });
        }
        while events.len() - before < EVENTS_MAX
            && let Some(fd) = self.ready.pop_front()
        {
            let slot = &mut self.slots[fd as usize];
            // The descriptor may have been closed since, and its number reused.
            if std::mem::take(&mut slot.is_ready) {
                events.push(Event {
                    token: slot.token,
                    readable: std::mem::take(&mut slot.readable),
                    writable: std::mem::take(&mut slot.writable),
                    hangup: std::mem::take(&mut slot.hangup),
                });
            }
        }
        self.has_worked = events.len() > before;
    }

    /// Cancels all operations of a stream or waker. Bytes received until then can still be read.
    fn unwatch(&mut self, fd: Fd) -> io::Result<()> {
        let slot = *self.slot(fd);
        for (is_running, op) in slot.operations() {
            if is_running {
                self.ring.cancel_now(slot.ticket(op, fd))?;
            }
        }
        self.reap();
        let slot = self.slot(fd);
        slot.kind = Kind::Unwatched;
        slot.receiving = Receiving::Off;
        slot.awaits_room = false;
        slot.awaits_hangup = false;
        slot.is_ready = false;
        slot.is_idle = false;
        Ok(())
    }

    /// Returns how long the kernel may let this thread sleep.
    fn sleep(&self, timeout_ms: Option<u64>) -> Sleep {
        if timeout_ms == Some(0) || self.has_events() {
            return Sleep::Never;
        }
        let due_ms = self.leaving.front().map(|&(due_ms, _, _)| due_ms);
        let rest_ms = due_ms.map(|due_ms| due_ms.saturating_sub(self.now_ms));
        match (timeout_ms, rest_ms) {
            (None, None) => Sleep::Forever,
            (Some(ms), None) | (None, Some(ms)) => Sleep::ForMs(ms),
            (Some(one), Some(other)) => Sleep::ForMs(one.min(other)),
        }
    }
}

impl Driver for Uring {
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
        self.watch_listener(fd, token)
    }

    fn add_stream(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        let slot = self.slot(fd);
        if slot.kind != Kind::Unwatched {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        slot.kind = Kind::Stream;
        slot.token = token;
        // As with epoll, a new stream is reported as writable.
        slot.wants_room = true;
        if slot.errno == 0 {
            slot.receiving = Receiving::On;
            let ticket = slot.ticket(Op::Recv, fd);
            self.ring.recv(ticket);
            self.await_room(fd);
        } else {
            // The connection broke before it was watched.
            self.record_end(fd);
        }
        Ok(())
    }

    fn add_wake(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        let slot = self.slot(fd);
        if slot.kind != Kind::Unwatched {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        slot.kind = Kind::Wake;
        slot.token = token;
        self.list_idle(fd);
        Ok(())
    }

    fn remove(&mut self, fd: Fd) -> io::Result<()> {
        if let Some(removed) = self.unwatch_listener(fd) {
            return removed;
        }
        match self.slot(fd).kind {
            Kind::Stream | Kind::Wake => self.unwatch(fd),
            Kind::Unwatched | Kind::Leaving => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn release(&mut self, fd: Fd) -> bool {
        // Submit earlier sends first. Their bytes must precede those that the next process sends.
        self.submit_sends();
        let slot = self.slot(fd);
        if slot.is_sending || slot.has_rest || slot.has_unread() || slot.is_over() {
            return false;
        }
        if slot.kind == Kind::Unwatched {
            return true;
        }
        let token = slot.token;
        if self.unwatch(fd).is_ok() {
            let slot = self.slot(fd);
            if !slot.has_unread() && !slot.is_over() {
                return true;
            }
        }
        // Bytes arrived before the receive was cancelled. They are in this process, so it must keep the connection: watch it
        // again.
        let slot = self.slot(fd);
        slot.kind = Kind::Stream;
        slot.token = token;
        if slot.has_unread() {
            slot.receiving = Receiving::Stopped;
        }
        self.record(fd, |slot| slot.readable = true);
        self.list_idle(fd);
        false
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: Option<u64>) -> io::Result<()> {
        self.set_unread_aside();
        self.ask_idle();
        self.accept_on();
        let look = self.look();
        let look_in_ms = look.left_ms(clock::monotonic_ms());
        let timeout_ms = match (timeout_ms, look_in_ms) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let mut sleep = self.sleep(timeout_ms);
        if sleep != Sleep::Never {
            self.submit_sends();
            if self.has_worked && !self.has_events() {
                // As in `Epoll::wait`: before this worker sleeps, yield to a process on the same core, which may send more.
                self.yield_policy
                    .run(clock::monotonic_ms, rustix::thread::sched_yield);
            }
            sleep = self.sleep(timeout_ms);
        }
        let waited = self.ring.wait(sleep);
        self.now_ms = clock::monotonic_ms();
        waited?;
        self.reap();
        if look.is_due(self.now_ms) {
            self.look_at_listeners();
        }
        self.expire_leaving();
        self.report(events);
        Ok(())
    }

    fn accept(&mut self, listener: Fd) -> io::Result<Option<Accepted>> {
        self.take_accepted(listener)
    }

    #[inline]
    fn recv(&mut self, fd: Fd, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.read(fd, buf)
    }

    fn send(&mut self, fd: Fd, bufs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        self.write(fd, bufs)
    }

    #[inline]
    fn send_one(&mut self, fd: Fd, buf: &[u8]) -> io::Result<Option<usize>> {
        self.write_one(fd, buf)
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
        self.write_file(fd, file, offset, len)
    }

    fn flush(&mut self) {
        self.submit_sends();
    }

    fn leaving(&self) -> usize {
        self.leaving_len
    }

    fn shutdown_write(&mut self, fd: Fd) {
        self.shut_down(fd);
    }

    fn reset_on_close(&mut self, fd: Fd) {
        // Drop the stored bytes. Otherwise `close` would first wait until the kernel has accepted them.
        self.drop_rest(fd);
        socket::reset_on_close(fd);
    }

    fn unacknowledged(&self, fd: Fd) -> Option<usize> {
        socket::unacknowledged(fd)
    }

    fn close(&mut self, fd: Fd) {
        if !self.listeners.is_empty() && self.close_listener(fd) {
            let successor = self.slot(fd).successor();
            *self.slot(fd) = successor;
            socket::close(fd);
            return;
        }
        self.close_stream(fd);
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Submit responses that were already accepted.
        self.submit_sends();
    }
}
