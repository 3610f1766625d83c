//! One worker: a loop that is pulled.
//!
//! The embedder calls `next_event` and gets one request; it answers with `respond`, `hold` or `fail`
//! and calls again. Whatever else a server does (accepting, reading, parsing, timers, fan-out,
//! writing) happens inside `next_event`, between two requests. So no frame of ours is on the stack
//! while a handler runs, and a handler may leave by `longjmp` without hurting us.
//!
//! A *turn* of the loop: all requests of one batch of events, then the output of all of them in one
//! write per connection, then a slice of fan-out, then timers, then waiting. Methods live by
//! subject: `input` (bytes to requests), `answer` (responses), `output` (bytes to sockets and
//! closing), `hold` (held clients and fan-out), `control` (the control socket).

use std::sync::Arc;

use fermata_config::{LogLevel, Settings};
use fermata_hub::Ring;
use fermata_io::files::Files;
use fermata_io::handover::Inbox;
use fermata_io::wake::Waker;
use fermata_io::{Driver, Event as IoEvent, Fd};

use crate::admin::blocking::Blocking;
use crate::admin::stats::{MoreMetrics, Reporter, Shared};
use crate::admin::trace::{Sink, Tracing};
use crate::channels::Channels;
use crate::embed::event::Event;
use crate::embed::relayed::Relay;
use crate::embed::waiting::Waiting;
use crate::embed::wires::Wires;
use crate::http::Http;
use crate::http::body::{Spools, Upload};
use crate::http::request::RequestView;
use crate::http::router::{Router, WEBSOCKET};
use crate::log::{Detail, Log, Logger};
use crate::master::link::Link;
use crate::net::connection::Origin;
use crate::net::slab::Key;
use crate::net::tls::ServerTls;
use crate::net::token::{
    TOKEN_CONTROL, TOKEN_FILES, TOKEN_INBOX, TOKEN_LINK, TOKEN_LISTENER, TOKEN_LISTENER_LAST,
    TOKEN_METRICS, TOKEN_SIGNAL, TOKEN_WAKE, TOKEN_WATCH,
};
use crate::net::{Net, READ_BYTES};
use crate::websocket::{Route, Sockets};

/// Subscribers served in a row (about a millisecond of sends) before other clients get their turn.
pub(crate) const FANOUT_SLICE: usize = 800;

/// Time that handlers may take in one turn before their output is sent without waiting for its end.
const FLUSH_AFTER_MS: u64 = 5;

/// Why the worker takes no new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// It does take them.
    Serving,
    /// Requests that have begun are finished, then it stops.
    Draining { until_ms: u64 },
    /// As draining, but PHP cannot run any more: only what is already written goes out.
    Retired { until_ms: u64 },
}

/// What a worker is made of besides its settings.
pub struct Parts {
    /// Number of the worker, from 0.
    pub index: u16,
    /// Its slot in the hub.
    pub slot: u16,
    /// Its listening sockets; the driver knows which of them speak TLS.
    pub listeners: Vec<Fd>,
    /// The control socket, shared by all workers.
    pub control: Option<Fd>,
    /// Wakers of all slots, by slot.
    pub wakers: Arc<Vec<Waker>>,
    /// Where connections are handed over, by slot.
    pub inboxes: Arc<Vec<Inbox>>,
    /// Connections that stay are spread evenly; otherwise only those of a worker that retires are handed over.
    pub balances: bool,
    /// The connection to the master.
    pub link: Option<Link>,
    /// The ring of records, shared by all workers.
    pub ring: Ring,
    /// Where its figures are read, shared by all workers.
    pub stats: Shared,
    /// What requests are matched against.
    pub router: Arc<Router>,
    /// The WebSockets that the router knows by number.
    pub websockets: Arc<Vec<Route>>,
    /// Where log lines go.
    pub logger: Logger,
    /// Effective settings.
    pub settings: Arc<Settings>,
    /// What the driver shares with us when a listener speaks TLS.
    pub tls: Option<ServerTls>,
    /// Listeners of `listeners` whose connections begin with a header of the PROXY protocol.
    pub prefaced: Vec<Fd>,
    /// The listener for metrics and health, shared by all workers.
    pub metrics: Option<Fd>,
    /// Where bodies lie that are too large for memory.
    pub(crate) spools: Spools,
    /// The access log, opened.
    pub(crate) access_log: Option<Sink>,
    /// Wakes the master to look at handlers; `None` = nobody wants to.
    pub looker: Option<Waker>,
}

/// A worker: its parts, and what the turn itself has to know.
pub struct Worker<D: Driver> {
    pub(crate) settings: Arc<Settings>,
    pub(crate) index: u16,
    pub(crate) slot: u16,
    pub(crate) log: Log,
    pub(crate) running: Running,
    pub(crate) has_fatal: bool,
    pub(crate) link: Option<Link>,
    pub(crate) inboxes: Arc<Vec<Inbox>>,
    pub(crate) balances: bool,

    pub(crate) net: Net<D>,
    pub(crate) http: Http,
    pub(crate) sockets: Sockets,
    pub(crate) channels: Channels,
    /// Handlers that are not done yet.
    pub(crate) waiting: Waiting,
    pub(crate) wires: Wires,
    /// What an embedder has set that publishes in formats of its own; see `relay`.
    pub(crate) relay: Option<Box<Relay>>,
    /// What handlers have asked for of files; `None` = nothing yet.
    pub(crate) file_jobs: Option<Box<Files>>,
    /// What an embedder adds to the text for Prometheus.
    pub(crate) more_metrics: Option<Box<MoreMetrics>>,

    events_at: usize,
    /// When the events of this turn were collected.
    pub(crate) turn_ms: u64,
    /// The same by the wall clock, or when output was last sent within the turn.
    flushed_unix_ms: u64,
    /// The input buffer, and what of it is being parsed.
    pub(crate) input: Vec<u8>,
    pub(crate) current: Option<Current>,
    pub(crate) scratch: Vec<u8>,

    /// How long handlers hold the loop.
    pub(crate) blocking: Blocking,
    /// What is remembered of requests in progress, when somebody wants it.
    pub(crate) trace: Tracing,
    pub(crate) reporter: Reporter,
}

/// Input that is being parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    pub index: u32,
    /// Parsed bytes at the front of `input`.
    pub at: usize,
    /// Bytes in `input`.
    pub filled: usize,
    /// Requests taken from it.
    pub requests: u32,
}

impl<D: Driver> Worker<D> {
    /// A worker over `driver`. Errors are those of watching the listeners.
    pub fn new(mut driver: D, parts: Parts) -> std::io::Result<Worker<D>> {
        for (fd, token) in parts.listeners.iter().zip(TOKEN_LISTENER..) {
            driver.add_listener(*fd, token)?;
        }
        if let Some(fd) = parts.control {
            driver.add_listener(fd, TOKEN_CONTROL)?;
        }
        if let Some(fd) = parts.metrics {
            driver.add_listener(fd, TOKEN_METRICS)?;
        }
        let (index, slot) = (parts.index, parts.slot);
        if let Some(waker) = parts.wakers.get(usize::from(slot)) {
            driver.add_wake(waker.fd(), TOKEN_WAKE)?;
        }
        if let Some(inbox) = parts.inboxes.get(usize::from(slot)) {
            driver.add_wake(inbox.fd(), TOKEN_INBOX)?;
        }
        if let Some(link) = &parts.link {
            driver.add_wake(link.fd(), TOKEN_LINK)?;
            driver.add_wake(link.signals_fd(), TOKEN_SIGNAL)?;
        }
        let (now_ms, unix_ms) = (driver.now_ms(), driver.unix_ms());
        let (settings, stats) = (parts.settings, parts.stats);
        let channels = Channels::new(slot, &settings, parts.ring, parts.wakers, now_ms, unix_ms)?;
        stats.worker_started(slot, index, channels.owner.pid, unix_ms);
        stats.set_takes(slot, true);
        let mut net = Net::new(driver);
        net.listeners = parts.listeners;
        net.prefaced = parts.prefaced;
        net.control = parts.control;
        net.metrics = parts.metrics;
        net.tls = parts.tls;
        let mut worker = Worker {
            index,
            slot,
            log: Log::new(parts.logger),
            running: Running::Serving,
            has_fatal: false,
            link: parts.link,
            inboxes: parts.inboxes,
            balances: parts.balances,
            net,
            http: Http::new(&settings, parts.router, parts.spools),
            sockets: Sockets::new(&settings, &parts.websockets),
            channels,
            waiting: Waiting::new(),
            wires: Wires::new(),
            relay: None,
            file_jobs: None,
            more_metrics: None,
            events_at: 0,
            turn_ms: now_ms,
            flushed_unix_ms: unix_ms,
            input: vec![0; settings.header_bytes_max + READ_BYTES],
            current: None,
            scratch: Vec::new(),
            blocking: Blocking::new(settings.blocking_call_ms, parts.looker, stats, slot),
            trace: Tracing::new(&settings, parts.access_log, index),
            reporter: Reporter::new(stats, slot, &settings),
            settings,
        };
        worker.http.set_date(unix_ms / 1000);
        Ok(worker)
    }

    /// Runs the server until a request has to be answered or nothing is left to do.
    ///
    /// A request handed out before and not answered yet stays open: its connection is not read
    /// from until it is answered or closed.
    pub fn next_event(&mut self) -> Event {
        self.begin_poll();
        loop {
            if let Some(event) = self.poll_event() {
                return event;
            }
        }
    }

    /// What `next_event` does in one turn: the next request of its batch of events, or the turn's end
    /// with waiting for the next batch (`None`).
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.next_event_of_input() {
                // The master names it if it never returns.
                let handler = match event {
                    Event::Request => self.http.request.handler,
                    Event::Upgrade => self.http.request.handler | WEBSOCKET,
                    _ => self.socket_event().handler | WEBSOCKET,
                };
                self.blocking.begin(handler);
                return Some(event);
            }
            if self.next_input() {
                continue;
            }
            let event = self.next_wait_event();
            if event.is_some() {
                self.reporter.shared.end_handler(self.slot);
                return event;
            }
            if let Some(event) = self.next_stream_event() {
                let handler = self.stream_handler();
                self.blocking.begin(handler);
                return Some(event);
            }
            if let Some(event) = self.next_start() {
                self.blocking.begin(self.http.request.handler);
                return Some(event);
            }
            return match self.turn() {
                // The program is told of the sockets that were cut off.
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

    /// The next event that needs no more input: one that has waited, or the next of the current input.
    #[inline]
    fn next_event_of_input(&mut self) -> Option<Event> {
        let event = self.next_socket_event();
        if event.is_some() {
            return event;
        }
        self.step_input()
    }

    /// The request of the last `Event::Request`. Meaningless after the next `next_event`.
    #[inline]
    pub fn request(&self) -> RequestView<'_> {
        self.http.request.view(&self.input)
    }

    /// What a body has left outside of memory, by the number that `RequestView::upload` gave.
    pub fn upload(&self, number: u32) -> Option<&Upload> {
        self.http.uploads.get(number)
    }

    /// The request is over: removes its files, but for those that were moved away.
    pub fn release_upload(&mut self, number: u32) {
        self.http.uploads.release(number);
    }

    /// Stops taking requests for good because PHP can no longer run, tells the master to start a
    /// replacement, and lets what has been written go out.
    pub fn retire(&mut self) {
        self.has_fatal = true;
        self.begin_drain(true);
    }

    /// What the process should exit with: 0, or `master::EXIT_RETIRED` after `retire`.
    pub fn exit_code(&self) -> i32 {
        if self.has_fatal {
            crate::master::link::EXIT_RETIRED
        } else {
            0
        }
    }

    /// Writes a log line of the embedder.
    pub fn log(&self, level: LogLevel, message: &str) {
        self.log.write(level, self.net.driver.unix_ms(), message);
    }

    /// The same with what is known of the program's code.
    pub fn log_detailed(&self, level: LogLevel, message: &str, detail: &Detail<'_>) {
        let unix_ms = self.net.driver.unix_ms();
        self.log.write_detailed(level, unix_ms, message, detail);
    }

    /// What a handler was added for, for a log line: the pattern of its route without the method.
    pub fn route_of(&self, handler: u32) -> &str {
        if handler == crate::http::router::TASK {
            return "a task";
        }
        let label = self.http.router.label(handler).unwrap_or_default();
        label.find('/').map_or(label, |at| &label[at..])
    }

    /// Writes a log line of the embedder that clients can cause at will: at most so many per second.
    pub fn log_for_client(&mut self, level: LogLevel, message: &str) {
        let unix_ms = self.net.driver.unix_ms();
        self.log.write_limited(level, unix_ms, message);
    }

    /// The same with what is known of the program's code.
    pub fn log_detailed_for_client(&mut self, level: LogLevel, message: &str, detail: &Detail<'_>) {
        let unix_ms = self.net.driver.unix_ms();
        self.log
            .write_limited_detailed(level, unix_ms, message, detail);
    }

    /// The worker's event loop driver.
    pub fn driver_mut(&mut self) -> &mut D {
        &mut self.net.driver
    }

    /// Takes over a connected stream, for tests and inherited sockets.
    pub fn adopt(&mut self, fd: Fd, peer: fermata_io::Peer) {
        self.open(fd, peer, Origin::Public);
    }

    /// Effective settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where its log lines go.
    pub fn logger(&self) -> Logger {
        self.log.logger().clone()
    }

    /// Number of the worker, from 0.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Number of connections, for tests and statistics.
    pub fn connections_len(&self) -> usize {
        self.net.connections.len()
    }

    /// Lets go of the last request. When handlers take long, sends what is ready in the middle of a
    /// turn: the first client of a batch does not wait for the handlers of all others.
    pub(crate) fn begin_poll(&mut self) {
        self.leave_unanswered();
        self.http.lent = 0;
        self.sockets.events.release();
        if self.http.request.body_bytes.capacity() > READ_BYTES {
            self.http.request.body_bytes = Vec::new();
        }
        let now_us = self.net.driver.now_us();
        self.http.starts.note_return(now_us);
        // The coarse clock costs a few nanoseconds.
        let unix_ms = self.net.driver.unix_ms();
        self.note_return(unix_ms);
        self.blocking.polled_unix_ms = unix_ms;
        if unix_ms.abs_diff(self.flushed_unix_ms) >= FLUSH_AFTER_MS {
            self.flushed_unix_ms = unix_ms;
            self.net.driver.refresh_now();
            self.reporter.shared.beat(self.slot);
            self.flush_dirty();
            // What is left over goes on in `turn`, which finds it by itself.
            self.fan_out(FANOUT_SLICE);
            self.net.driver.flush();
        }
    }

    /// Takes the next event of the batch. True when it left input to be parsed.
    fn next_input(&mut self) -> bool {
        while let Some(event) = self.net.events.get(self.events_at).copied() {
            self.events_at += 1;
            match event.token {
                token @ TOKEN_LISTENER..=TOKEN_LISTENER_LAST => {
                    let at = (token - TOKEN_LISTENER) as usize;
                    if let Some(&listener) = self.net.listeners.get(at) {
                        self.accept(listener, Origin::Public);
                    }
                }
                TOKEN_CONTROL => {
                    if let Some(control) = self.net.control {
                        self.accept(control, Origin::Control);
                    }
                }
                TOKEN_METRICS => {
                    if let Some(metrics) = self.net.metrics {
                        self.accept(metrics, Origin::Metrics);
                    }
                }
                TOKEN_WAKE => {
                    if let Some(waker) = self.channels.wakers.get(usize::from(self.slot)) {
                        waker.drain();
                    }
                    // The master wakes everybody when a worker has died: its users may be leaving.
                    self.channels.expect_leaving(self.turn_ms);
                }
                TOKEN_INBOX => self.take_over(),
                TOKEN_LINK => self.on_master(),
                TOKEN_SIGNAL => self.on_signal(),
                TOKEN_WATCH => self.collect_watched(),
                TOKEN_FILES => self.on_files(),
                token => {
                    if self.on_connection(Key::from_u64(token), event) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Handles an event of a connection. True when it left input to be parsed.
    fn on_connection(&mut self, key: Key, event: IoEvent) -> bool {
        let Some((connection, exchange)) = self.net.connections.get_mut(key) else {
            self.on_wire(event);
            return false;
        };
        if event.hangup {
            connection.has_hung_up = true;
        }
        let has_left = event.hangup && exchange.is_deferred;
        if event.writable && connection.is_blocked {
            self.on_writable(key.index);
        }
        if has_left {
            self.note_left(key.index);
        }
        (event.readable || event.hangup) && self.load(key.index)
    }

    /// The end of a batch: output, fan-out, timers, waiting for the next one.
    fn turn(&mut self) -> Turn {
        // Handlers may have taken long.
        self.net.driver.refresh_now();
        self.reporter.shared.beat(self.slot);
        self.reporter.shared.end_handler(self.slot);
        self.flush_dirty();
        let has_fanout = self.fan_out(FANOUT_SLICE) | self.resume_held();
        if has_fanout {
            self.net.driver.refresh_now();
        }
        self.fire_timers();
        self.refuse_overdue();
        let times = (self.net.driver.now_ms(), self.net.driver.unix_ms());
        self.channels.sweep(times, &mut self.log);
        self.resume_accepting();
        self.flush_dirty();
        self.watch_fresh();
        self.trace.end_turn();
        if self.is_stopped() {
            self.report(self.net.driver.now_ms());
            return Turn::Stopped;
        }
        let now_ms = self.net.driver.now_ms();
        let took_ms = now_ms.saturating_sub(self.turn_ms);
        if self.reporter.end_turn(&mut self.net, now_ms, took_ms) {
            self.report(now_ms);
        }

        self.net.events.clear();
        self.events_at = 0;
        let is_busy = has_fanout
            || !self.net.again.is_empty()
            || !self.http.uploads.postponed.is_empty()
            || !self.net.dirty.is_empty()
            || !self.channels.resuming.is_empty()
            || !self.waiting.news.is_empty()
            || self.http.streams.is_busy()
            || (!self.http.starts.is_empty() && !self.waiting.is_full());
        self.http.streams.begin_turn();
        self.http.uploads.begin_turn();
        let mut again = std::mem::take(&mut self.net.again);
        let mut postponed = std::mem::take(&mut self.http.uploads.postponed);
        for index in postponed.drain(..).chain(again.drain(..)) {
            if let Some(connection) = self.net.connections.at_mut(index) {
                connection.is_again = false;
                let key = self
                    .net
                    .connections
                    .key(index)
                    .expect("the entry was just found");
                self.net.events.push(IoEvent {
                    token: key.to_u64(),
                    readable: true,
                    writable: false,
                    hangup: false,
                });
            }
        }
        self.net.again = again;
        self.http.uploads.postponed = postponed;
        let timeout = if is_busy { Some(0) } else { self.sleep_ms() };
        if timeout != Some(0) {
            // Announce the sleep, then look once more: a record published in between has either
            // been seen by this look, or its publisher has seen the announcement and wakes us.
            let timeout = if self.channels.reader.set_sleeping() {
                timeout
            } else {
                Some(
                    self.channels
                        .gathering_ms(self.net.driver.now_ms(), timeout),
                )
            };
            self.wait(timeout);
            self.channels.reader.set_awake();
        } else {
            self.wait(timeout);
        }
        self.turn_ms = self.net.driver.now_ms();
        self.http.starts.begin_turn(self.net.driver.now_us());
        if self.turn_ms >= self.waiting.wake_ms {
            self.waiting.wake_ms = u64::MAX;
            self.waiting.is_due = true;
        }
        self.trace.begin_turn();
        self.flushed_unix_ms = self.net.driver.unix_ms();
        self.blocking.polled_unix_ms = self.flushed_unix_ms;
        self.http.set_date(self.flushed_unix_ms / 1000);
        Turn::Goes
    }

    /// Copies the figures to where others read them.
    pub(crate) fn report(&mut self, now_ms: u64) {
        let unix_ms = self.net.driver.unix_ms();
        let counts = &mut self.net.counts;
        self.trace.write_log(counts, &mut self.log, unix_ms);
        self.log.logger().tell_dropped(unix_ms);
        self.channels.report_followers(counts);
        self.reporter
            .copy(&mut self.net, &mut self.channels.local, now_ms);
    }

    fn wait(&mut self, timeout_ms: Option<u64>) {
        if let Err(error) = self.net.driver.wait(&mut self.net.events, timeout_ms) {
            // The set of descriptors is ours and valid; what is left is a kernel out of memory.
            let message = format!("waiting for events failed: {error}");
            self.log
                .write_limited(LogLevel::Error, self.net.driver.unix_ms(), &message);
        }
    }

    /// How long nothing is due, `None` = for ever.
    pub(crate) fn sleep_ms(&self) -> Option<u64> {
        let now_ms = self.net.driver.now_ms();
        let mut due_ms = self
            .net
            .wheel
            .next_due_ms()
            .unwrap_or(u64::MAX)
            .min(self.channels.sweep_ms)
            .min(self.net.accept_ms)
            .min(self.waiting.wake_ms)
            .min(self.reporter.due_ms())
            .min(self.overdue_ms());
        if let Running::Draining { until_ms } | Running::Retired { until_ms } = self.running {
            due_ms = due_ms.min(until_ms);
        }
        (due_ms != u64::MAX).then(|| due_ms.saturating_sub(now_ms))
    }
}

#[derive(PartialEq, Eq)]
enum Turn {
    Goes,
    Stopped,
}
