//! One worker: an event loop that the embedder pulls.
//!
//! The embedder calls `next_event` and receives one request. It answers with `respond`, `hold` or
//! `fail` and calls again. All other work (accepting, reading, parsing, timers, fan-out, writing)
//! happens inside `next_event`, between two requests. So no engine frame is on the stack while a
//! handler runs, and a handler may leave by `longjmp`.
//!
//! A *turn* of the loop handles all requests of one batch of events, then writes their output in
//! one write per connection. A slice of fan-out, timers and waiting follow.

use std::time::{Duration, Instant};

use fermata_config::LogLevel;
use fermata_io::{Deadline, Driver};

mod deadlines;
mod input;

use crate::admin::blocking::Blocking;
use crate::admin::stats::Reporter;
use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::embed::event::Event;
use crate::embed::file_jobs::FileJobs;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::router::WEBSOCKET;
use crate::master::link::Link;
use crate::net::running::Running;
use crate::net::{Net, READ_BYTES};
use crate::websocket::Sockets;

/// Maximum number of subscribers served in a row before other clients are served: about one
/// millisecond of sends.
pub(crate) const FANOUT_SLICE: usize = 800;

/// Interval in milliseconds at which a loop that never sleeps checks outside work.
const OTHERS_MS: u64 = 20;

/// Handler time in a turn, in milliseconds, after which finished output is sent before the turn
/// ends.
const FLUSH_AFTER_MS: u64 = 5;

/// A worker: its parts and the state of the turn.
pub struct Worker<D: Driver> {
    pub(crate) index: u16,
    pub(crate) has_fatal: bool,
    pub(crate) link: Option<Link>,

    /// Sockets, deadlines, clock and log.
    pub net: Net<D>,
    /// The router, the current request, and open bodies and streams.
    pub http: Http,
    pub(crate) sockets: Sockets,
    /// The ring and this worker's subscribers.
    pub channels: Channels,
    /// Handlers that wait.
    pub waiting: Waiting,
    /// File operations of handlers.
    pub file_jobs: FileJobs,

    /// Wall-clock time at which this turn's events were collected, or output was last sent within
    /// the turn.
    pub(crate) flushed_unix_ms: u64,

    /// Detection of handlers that block the loop.
    pub(crate) blocking: Blocking,
    /// Counters and gauges for the operator.
    pub reporter: Reporter,
}

impl<D: Driver> Worker<D> {
    /// Runs the server until an event for the embedder occurs or the server has stopped.
    ///
    /// An unanswered earlier request stays open: its connection is not read until the request is
    /// answered or closed.
    pub fn next_event(&mut self) -> Event {
        self.begin_poll();
        loop {
            if let Some(event) = self.poll_event() {
                return event;
            }
        }
    }

    /// Like `next_event`, but returns `None` when no work is pending. Waits up to `wait` of real
    /// time for work outside the process (watched descriptors, file operations).
    pub fn next_event_within(&mut self, wait: Duration) -> Option<Event> {
        self.waiting.never_sleeps = true;
        self.begin_poll();
        let mut idle = 0;
        let mut until = None;
        loop {
            if let Some(event) = self.poll_event() {
                return Some(event);
            }
            let is_idle = !self.waiting.is_unfinished && self.net.events.is_empty();
            idle = if is_idle { idle + 1 } else { 0 };
            // The first idle turn may have made a descriptor readable, so run one more turn.
            if idle < 2 {
                continue;
            }
            let until = *until.get_or_insert_with(|| Instant::now() + wait);
            if !self.waits_for_others() || Instant::now() >= until {
                return None;
            }
            self.net.wait(Some(OTHERS_MS));
        }
    }

    /// Returns true if the application waits for something outside the process.
    fn waits_for_others(&self) -> bool {
        let watched = self
            .waiting
            .watched_descriptors
            .as_ref()
            .map_or(0, |it| it.armed());
        self.file_jobs.has_file_jobs() || (self.waiting.is_busy && watched > 0)
    }

    /// Runs one turn of `next_event`: returns the next event of its batch, or waits for the next
    /// batch and returns `None`.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        loop {
            self.after_output();
            if let Some(event) = self.next_event_of_input() {
                // The master reports this handler if it does not return.
                let handler = match event {
                    Event::Request => self.http.request.handler,
                    Event::Upgrade => self.http.request.handler | WEBSOCKET,
                    _ => self.sockets.socket_event(&self.net).handler | WEBSOCKET,
                };
                self.blocking.begin(handler);
                return Some(event);
            }
            if self.next_input() {
                continue;
            }
            let event = self.waiting.next_wait_event();
            if event.is_some() {
                self.reporter.shared.end_handler(self.net.slot);
                return event;
            }
            if let Some(event) = self.http.next_stream_event(&mut self.net) {
                let handler = self.http.stream_handler();
                self.blocking.begin(handler);
                return Some(event);
            }
            if !self.http.starts.is_empty() {
                // Starting a handler takes long, so send earlier responses first. Sending may close
                // connections, so select the request afterwards.
                self.flush_dirty();
            }
            if let Some(event) = self.http.next_start(&mut self.net, &self.waiting) {
                self.blocking.begin(self.http.request.handler);
                return Some(event);
            }
            return match self.turn() {
                // The application still receives the close events of sockets that were cut off.
                Turn::Stopped
                    if !self.sockets.events.is_empty() || self.http.streams.has_ended() =>
                {
                    continue;
                }
                Turn::Stopped => Some(Event::Stop),
                Turn::Goes => None,
            };
        }
    }

    /// Returns the channels, and the other parts through which a record can reach clients.
    #[inline]
    pub(crate) fn clients(&mut self) -> (&mut Channels, Clients<'_, D>) {
        let (_, channels, to) = self.reporting();
        (channels, to)
    }

    /// Returns the same parts, and the reporter.
    #[inline]
    pub(crate) fn reporting(&mut self) -> (&mut Reporter, &mut Channels, Clients<'_, D>) {
        let to = Clients {
            net: &mut self.net,
            http: &mut self.http,
            sockets: &mut self.sockets,
            waiting: &mut self.waiting,
        };
        (&mut self.reporter, &mut self.channels, to)
    }

    /// Sends this turn's output, with one write per connection.
    #[inline]
    pub(crate) fn flush_dirty(&mut self) {
        // `flush_dirty` is called several times per turn, mostly with nothing to send.
        if self.net.is_dirty() {
            self.net.flush_dirty(&mut self.http);
        }
        self.after_output();
    }

    /// Notifies the other parts of sent output and closed connections, which `Net` has listed.
    #[inline]
    pub(crate) fn after_output(&mut self) {
        let (channels, mut to) = self.clients();
        channels.after_output(&mut to);
    }

    /// Returns the next queued WebSocket event.
    #[inline]
    fn next_socket_event(&mut self) -> Option<Event> {
        self.sockets
            .next_socket_event(self.net.running, &self.waiting)
    }

    /// Copies the counters to shared memory.
    pub(crate) fn report(&mut self) {
        let (reporter, channels, mut to) = self.reporting();
        let now_ms = to.net.driver.now_ms();
        reporter.report(channels, &mut to, now_ms);
    }

    /// Returns the next event that needs no further reading: a queued event, or the next event of
    /// the current input.
    #[inline]
    fn next_event_of_input(&mut self) -> Option<Event> {
        let event = self.next_socket_event();
        if event.is_some() {
            return event;
        }
        self.step_input()
    }

    /// Releases the last request. If handlers take long, sends finished output within the turn, so
    /// that the first client of a batch does not wait for the handlers of the others.
    pub(crate) fn begin_poll(&mut self) {
        self.net.leave_unanswered();
        self.http.lent = None;
        self.sockets.events.release();
        if self.http.request.body_bytes.capacity() > READ_BYTES {
            self.http.request.body_bytes = Vec::new();
        }
        if self.http.starts.is_measuring() {
            let now_us = self.net.driver.now_us();
            self.http.starts.note_return(now_us);
        }
        // Reading the coarse clock takes a few nanoseconds.
        let unix_ms = self.net.driver.unix_ms();
        self.note_return(unix_ms);
        self.blocking.polled_unix_ms = unix_ms;
        if unix_ms.abs_diff(self.flushed_unix_ms) >= FLUSH_AFTER_MS {
            self.flushed_unix_ms = unix_ms;
            self.net.driver.refresh_now();
            self.reporter.shared.beat(self.net.slot);
            self.flush_dirty();
            // Fan-out may be unfinished: `turn` continues it.
            let (channels, mut to) = self.clients();
            channels.fan_out(&mut to, FANOUT_SLICE);
            self.net.driver.flush();
        }
    }

    /// Completes a batch: sends output, distributes messages, runs timers, and waits for the next
    /// batch.
    fn turn(&mut self) -> Turn {
        // Read the clock, because handlers may have taken long.
        self.net.driver.refresh_now();
        self.reporter.shared.beat(self.net.slot);
        self.reporter.shared.end_handler(self.net.slot);
        self.flush_dirty();
        let has_fanout = {
            let (channels, mut to) = self.clients();
            channels.fan_out(&mut to, FANOUT_SLICE) | channels.resume_held(&mut to)
        };
        if has_fanout {
            self.net.driver.refresh_now();
        }
        self.fire_timers();
        self.http.refuse_overdue(&mut self.net, &self.waiting);
        let times = (self.net.driver.now_ms(), self.net.driver.unix_ms());
        self.channels.sweep(times, &mut self.net.log);
        self.net.resume_accepting(&mut self.http);
        self.flush_dirty();
        self.net.watch_fresh(&mut self.http);
        self.after_output();
        self.http.trace.end_turn();
        if self.is_stopped() {
            self.report();
            return Turn::Stopped;
        }
        let now_ms = self.net.driver.now_ms();
        let took_ms = now_ms.saturating_sub(self.net.turn_ms);
        if self.reporter.end_turn(&mut self.net, now_ms, took_ms) {
            self.report();
        }

        let is_busy = has_fanout
            || !self.net.again.is_empty()
            || !self.http.uploads.postponed.is_empty()
            || self.net.is_dirty()
            || !self.channels.resuming.is_empty()
            || !self.waiting.events.is_empty()
            || self.http.streams.is_busy()
            || (!self.http.starts.is_empty() && !self.waiting.is_full());
        self.waiting.is_unfinished = is_busy;
        self.http.streams.begin_turn();
        self.http.uploads.begin_turn();
        self.net.begin_batch(&mut self.http.uploads.postponed);
        let timeout = if is_busy { Some(0) } else { self.sleep_ms() };
        if timeout != Some(0) {
            // Announce the sleep, then check again. A record published in between is either seen by
            // this check, or its publisher sees the announcement and wakes this worker.
            let now_ms = self.net.driver.now_ms();
            let timeout = if self.channels.reader.set_sleeping() {
                timeout
            } else {
                Some(self.channels.gathering_ms(now_ms, timeout))
            };
            self.net.wait(timeout);
            self.channels.reader.set_awake();
        } else {
            self.net.wait(timeout);
        }
        self.net.turn_ms = self.net.driver.now_ms();
        self.http.starts.begin_turn();
        if self.channels.take_log_answers() {
            self.waiting.wake_now();
        }
        if self.channels.take_past() {
            self.channels.look_ahead();
        }
        if self.waiting.wake.is_due(self.net.turn_ms) {
            self.waiting.wake = Deadline::NEVER;
            self.waiting.is_due = true;
        }
        self.http.trace.begin_turn();
        self.flushed_unix_ms = self.net.driver.unix_ms();
        self.blocking.polled_unix_ms = self.flushed_unix_ms;
        self.http.set_date(self.flushed_unix_ms / 1000);
        Turn::Goes
    }

    /// Returns the time in milliseconds until the next deadline; `None` = no deadline.
    pub(crate) fn sleep_ms(&self) -> Option<u64> {
        if self.waiting.never_sleeps {
            return Some(0);
        }
        self.due_in_ms()
    }

    /// Returns the time in milliseconds until the next deadline; `None` = no deadline.
    pub fn due_in_ms(&self) -> Option<u64> {
        let now_ms = self.net.driver.now_ms();
        let mut due = Deadline::from(self.net.wheel.next_due_ms())
            .min(self.channels.sweep)
            .min(self.channels.ahead.due)
            .min(self.net.accept)
            .min(self.waiting.wake)
            .min(self.reporter.due())
            .min(self.http.overdue(&self.net, &self.waiting));
        if let Running::Draining { until } | Running::Retired { until } = self.net.running {
            due = due.min(until);
        }
        due.left_ms(now_ms)
    }
}

impl<D: Driver> Net<D> {
    #[inline]
    fn wait(&mut self, timeout_ms: Option<u64>) {
        if let Err(error) = self.driver.wait(&mut self.events, timeout_ms) {
            // The descriptors are valid, so the only cause is a kernel out of memory.
            let message = format!("waiting for events failed: {error}");
            self.log
                .write_limited(LogLevel::Error, self.driver.unix_ms(), &message);
        }
    }
}

#[derive(PartialEq, Eq)]
enum Turn {
    Goes,
    Stopped,
}
