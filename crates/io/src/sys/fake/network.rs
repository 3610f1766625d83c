//! State of a [`super::Fake`]: streams, listeners, clock and schedule.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::driver::{Accepted, EVENTS_MAX, Event, Fd, Peer};

use super::faults::{Calls, Faults};
use super::random::Random;
use super::stream::{Action, Stream};

/// First descriptor number: higher than any real descriptor, so that tests detect a confusion of the two.
const FD_START: Fd = 1_000_000_000;

/// Start of the virtual monotonic clock; not 0, as for a real clock.
pub const MONOTONIC_START_MS: u64 = 1_000_000;

#[derive(Debug, Default)]
struct Listener {
    token: Option<u64>,
    pending: VecDeque<Fd>,
}

#[derive(Debug)]
pub(super) struct Network {
    pub(super) faults: Faults,
    pub(super) auto_advance: bool,
    /// Number of sends that take a millisecond. 0 means sends take no time.
    pub(super) sends_per_ms: u64,
    pub(super) streams_max: usize,
    pub(super) calls: Calls,
    /// The virtual clock.
    pub(super) clock_ms: u64,
    /// The driver's cached reading of the clock.
    pub(super) now_ms: u64,
    random: Random,
    next_fd: Fd,
    /// Streams in an ordered map, so that a seed always gives the same run.
    streams: BTreeMap<Fd, Stream>,
    listeners: BTreeMap<Fd, Listener>,
    /// Real descriptors (wakers, pipes) and their tokens.
    wakes: BTreeMap<Fd, u64>,
    /// Scheduled actions, ordered by time, then by number.
    schedule: BTreeMap<(u64, u64), (Fd, Action)>,
    scheduled: u64,
}

impl Network {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            faults: Faults::NONE,
            auto_advance: false,
            sends_per_ms: 0,
            streams_max: usize::MAX,
            calls: Calls::default(),
            clock_ms: MONOTONIC_START_MS,
            now_ms: MONOTONIC_START_MS,
            random: Random::new(seed),
            next_fd: FD_START,
            streams: BTreeMap::new(),
            listeners: BTreeMap::new(),
            wakes: BTreeMap::new(),
            schedule: BTreeMap::new(),
            scheduled: 0,
        }
    }

    // Methods of the test.

    pub(super) fn listen(&mut self) -> Fd {
        let fd = self.take_fd();
        self.listeners.insert(fd, Listener::default());
        fd
    }

    pub(super) fn connect(&mut self, listener: Fd, address: Option<Peer>) -> Fd {
        let fd = self.take_fd();
        let port = 1024 + ((fd - FD_START) % 60_000) as u16;
        let address = address.unwrap_or(Peer::V4(Ipv4Addr::new(192, 0, 2, 1), port));
        let listener = self
            .listeners
            .get_mut(&listener)
            .expect("nobody listens there");
        listener.pending.push_back(fd);
        self.streams.insert(fd, Stream::new(address));
        fd
    }

    pub(super) fn schedule(&mut self, delay_ms: u64, fd: Fd, action: Action) {
        self.scheduled += 1;
        self.schedule
            .insert((self.clock_ms + delay_ms, self.scheduled), (fd, action));
    }

    pub(super) fn act(&mut self, fd: Fd, action: Action) {
        let stream = self.stream_mut(fd);
        match action {
            Action::Write(bytes) => stream.write(&bytes),
            Action::ShutdownWrite => stream.end_inbound(),
            Action::Close => stream.close_peer(),
            Action::Reset => stream.break_off(),
            Action::SetWindow(bytes) => stream.set_window(bytes),
        }
    }

    /// Advances the clock to `until_ms`, executing scheduled actions at their times.
    pub(super) fn run_until(&mut self, until_ms: u64) {
        while let Some(entry) = self.schedule.first_entry() {
            let due_ms = entry.key().0;
            if due_ms > until_ms {
                break;
            }
            let (fd, action) = entry.remove();
            self.clock_ms = self.clock_ms.max(due_ms);
            self.act(fd, action);
        }
        self.clock_ms = self.clock_ms.max(until_ms);
    }

    pub(super) fn open_streams(&self) -> usize {
        self.streams
            .values()
            .filter(|stream| stream.accepted && !stream.closed)
            .count()
    }

    pub(super) fn stream(&self, fd: Fd) -> &Stream {
        self.streams
            .get(&fd)
            .expect("no stream has this descriptor")
    }

    pub(super) fn stream_mut(&mut self, fd: Fd) -> &mut Stream {
        self.streams
            .get_mut(&fd)
            .expect("no stream has this descriptor")
    }

    // Methods of the driver.

    pub(super) fn refresh_now(&mut self) -> u64 {
        self.now_ms = self.clock_ms;
        self.now_ms
    }

    pub(super) fn watch_listener(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        self.calls.watches += 1;
        let listener = self.listeners.get_mut(&fd).ok_or(ErrorKind::InvalidInput)?;
        watch(&mut listener.token, token)
    }

    pub(super) fn watch_stream(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        self.calls.watches += 1;
        let stream = self.open_stream(fd);
        stream.edge = true;
        watch(&mut stream.token, token)
    }

    pub(super) fn watch_wake(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        self.calls.watches += 1;
        match self.wakes.insert(fd, token) {
            None => Ok(()),
            Some(_) => Err(ErrorKind::AlreadyExists.into()),
        }
    }

    pub(super) fn unwatch(&mut self, fd: Fd) -> io::Result<()> {
        self.calls.watches += 1;
        let token = if let Some(listener) = self.listeners.get_mut(&fd) {
            listener.token.take()
        } else if let Some(stream) = self.streams.get_mut(&fd) {
            stream.token.take()
        } else {
            self.wakes.remove(&fd)
        };
        token.map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn wait(
        &mut self,
        events: &mut Vec<Event>,
        timeout_ms: Option<u64>,
    ) -> io::Result<()> {
        self.calls.waits += 1;
        let before = events.len();
        self.run_until(self.clock_ms);
        self.collect(events)?;
        if events.len() == before && self.auto_advance {
            let timeout_at_ms = timeout_ms.map(|ms| self.clock_ms.saturating_add(ms));
            let action_at_ms = self
                .schedule
                .first_key_value()
                .map(|(&(due_ms, _), _)| due_ms);
            if let Some(until_ms) = timeout_at_ms.into_iter().chain(action_at_ms).min() {
                self.run_until(until_ms);
                self.collect(events)?;
            }
        }
        self.calls.idle_waits += u64::from(events.len() == before);
        self.now_ms = self.clock_ms;
        Ok(())
    }

    pub(super) fn accept(&mut self, listener: Fd) -> io::Result<Option<Accepted>> {
        self.calls.accepts += 1;
        let open_streams = self.open_streams();
        let queue = self
            .listeners
            .get_mut(&listener)
            .expect("accept on what does not listen");
        if queue.pending.is_empty() || self.random.chance(self.faults.would_block) {
            return Ok(None);
        }
        if open_streams >= self.streams_max {
            return Err(Errno::MFILE.into());
        }
        let fd = queue.pending.pop_front().expect("checked above");
        let aborted = self.random.chance(self.faults.abort);
        let stream = self.stream_mut(fd);
        if aborted {
            stream.break_off();
            return Err(ErrorKind::ConnectionAborted.into());
        }
        stream.accepted = true;
        Ok(Some(Accepted {
            fd,
            peer: stream.address,
        }))
    }

    pub(super) fn recv(&mut self, fd: Fd, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.calls.recvs += 1;
        let faults = self.faults;
        let would_block = self.random.chance(faults.would_block);
        let reset = self.random.chance(faults.reset);
        let short = self.random.chance(faults.short_read);
        let there = buf.len().min(self.open_stream(fd).inbound.len());
        let bytes_max = if short && there > 1 {
            1 + self.random.below(there - 1)
        } else {
            buf.len()
        };
        let stream = self.open_stream(fd);
        if reset {
            stream.break_off();
        }
        // A fault has withheld these bytes, so report them again. Otherwise a correct engine would wait for them forever.
        stream.edge |= would_block || bytes_max < there;
        if would_block {
            return Ok(None);
        }
        stream.recv(&mut buf[..bytes_max])
    }

    pub(super) fn send(&mut self, fd: Fd, bufs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        self.calls.sends += 1;
        if self.sends_per_ms > 0 && self.calls.sends.is_multiple_of(self.sends_per_ms) {
            self.clock_ms += 1;
        }
        let faults = self.faults;
        let would_block = self.random.chance(faults.would_block);
        let reset = self.random.chance(faults.reset);
        let short = self.random.chance(faults.short_write);
        let wanted: usize = bufs.iter().map(|buf| buf.len()).sum();
        let bytes_max = if short && wanted > 1 {
            1 + self.random.below(wanted - 1)
        } else {
            wanted
        };
        let stream = self.open_stream(fd);
        if reset {
            stream.break_off();
        }
        stream.edge |= would_block || bytes_max < wanted;
        if would_block {
            return Ok(None);
        }
        stream.send(bufs, bytes_max)
    }

    pub(super) fn shutdown_write(&mut self, fd: Fd) {
        self.open_stream(fd).write_ended = true;
    }

    pub(super) fn reset_on_close(&mut self, fd: Fd) {
        self.open_stream(fd).resets_on_close = true;
    }

    pub(super) fn close(&mut self, fd: Fd) {
        if let Some(listener) = self.listeners.remove(&fd) {
            for fd in listener.pending {
                self.stream_mut(fd).break_off();
            }
        } else if self.wakes.remove(&fd).is_none() {
            self.open_stream(fd).close();
        }
    }

    fn open_stream(&mut self, fd: Fd) -> &mut Stream {
        let stream = self
            .streams
            .get_mut(&fd)
            .expect("no stream has this descriptor");
        assert!(stream.accepted, "descriptor {fd} was not accepted");
        assert!(
            !stream.closed,
            "descriptor {fd} is used after it was closed"
        );
        stream
    }

    /// Appends ready descriptors and clears the reported edges.
    fn collect(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        let first = events.len();
        for (&fd, &token) in &self.wakes {
            if is_readable(fd)? {
                events.push(Event {
                    token,
                    readable: true,
                    writable: false,
                    hangup: false,
                });
            }
        }
        for listener in self.listeners.values() {
            if let (Some(token), false) = (listener.token, listener.pending.is_empty()) {
                events.push(Event {
                    token,
                    readable: true,
                    writable: false,
                    hangup: false,
                });
            }
        }
        for stream in self.streams.values_mut() {
            if events.len() - first >= EVENTS_MAX {
                break;
            }
            let Some(token) = stream.token else { continue };
            let spurious = self.random.chance(self.faults.spurious);
            if std::mem::take(&mut stream.edge) || spurious {
                let mut event = stream.event(token);
                event.readable |= spurious;
                event.writable |= spurious;
                if event.readable || event.writable || event.hangup {
                    events.push(event);
                }
            }
        }
        if self.faults.shuffle {
            // Fisher-Yates shuffle.
            for last in (first + 1..events.len()).rev() {
                events.swap(last, first + self.random.below(last - first + 1));
            }
        }
        Ok(())
    }

    fn take_fd(&mut self) -> Fd {
        self.next_fd += 1;
        self.next_fd
    }
}

fn watch(place: &mut Option<u64>, token: u64) -> io::Result<()> {
    match place.replace(token) {
        None => Ok(()),
        Some(_) => Err(ErrorKind::AlreadyExists.into()),
    }
}

/// Polls a waker or pipe, which are real even in tests.
fn is_readable(fd: Fd) -> io::Result<bool> {
    assert!(fd >= 0, "a descriptor that was never opened is watched");
    // SAFETY: not -1, and used only for the call below, which returns POLLNVAL for a closed descriptor.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    Ok(poll(&mut polled, Some(&at_once))? != 0 && polled[0].revents().contains(PollFlags::IN))
}
