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

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use fermata_config::{LISTENERS_MAX, LogLevel, Settings};
use fermata_hub::{Local, LocalConfig, Owner, Reader, Ring};
use fermata_io::buffer::Pool;
use fermata_io::files::Files;
use fermata_io::handover::Inbox;
use fermata_io::wake::Waker;
use fermata_io::wheel::{Fired, Wheel};
use fermata_io::{Driver, Event as IoEvent, Fd};
use fermata_proto::response::Repeated;
use fermata_proto::ws::deflate::Decompressor;
use fermata_proto::{date, http1};

use crate::admin::metrics::MoreMetrics;
use crate::admin::stats::{Counts, Reporter, Shared};
use crate::admin::trace::{Sink, Trace};
use crate::channels::encode::Encoder;
use crate::channels::follow::Told;
use crate::channels::gather::Gather;
use crate::channels::hold::SWEEP_MS;
use crate::embed::defer::Waiting;
use crate::embed::relay::Relay;
use crate::embed::wires::Wires;
use crate::http::body::{Spools, Upload, Uploads};
use crate::http::files::{Compressors, Roots};
use crate::http::request::{Request, RequestView};
use crate::http::respond::stream::Streams;
use crate::http::router::{Router, WEBSOCKET};
use crate::log::{Detail, Limiter, Logger};
use crate::master::Link;
use crate::net::connection::{Connection, Origin};
use crate::net::slab::{Key, Slab};
use crate::net::tls::ServerTls;
use crate::websocket::{Events, Route, Served, Upgrade, private_channel};

/// Bytes read from one socket at once. Larger reads save calls for large bodies, but make the
/// others wait longer for their turn.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Subscribers served in a row (about a millisecond of sends) before other clients get their turn.
pub(crate) const FANOUT_SLICE: usize = 800;

/// Time that handlers may take in one turn before their output is sent without waiting for its end.
const FLUSH_AFTER_MS: u64 = 5;

/// Buffers kept for reuse, what a new one has room for, and the largest that is worth keeping.
const POOL_BUFFERS: usize = 256;
const POOL_BUFFER_BYTES: usize = 4 * 1024;
const POOL_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Tokens of what is not a connection. No connection has such an index.
/// Listeners count up from the first.
pub(crate) const TOKEN_LISTENER: u64 = u64::MAX - 0xff;
const TOKEN_LISTENER_LAST: u64 = TOKEN_LISTENER + LISTENERS_MAX as u64 - 1;
pub(crate) const TOKEN_CONTROL: u64 = u64::MAX - 1;
const TOKEN_WAKE: u64 = u64::MAX - 2;
const TOKEN_LINK: u64 = u64::MAX - 3;
const TOKEN_SIGNAL: u64 = u64::MAX - 4;
const TOKEN_INBOX: u64 = u64::MAX - 5;
pub(crate) const TOKEN_METRICS: u64 = u64::MAX - 6;
pub(crate) const TOKEN_WATCH: u64 = u64::MAX - 7;
pub(crate) const TOKEN_FILES: u64 = u64::MAX - 8;

/// What `next_event` hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `Worker::request` is to be answered.
    Request,
    /// `Worker::request` is a WebSocket handshake, to be answered by `Worker::accept_upgrade` or like
    /// a request.
    Upgrade,
    /// `Worker::socket_event` is a socket that is open.
    Open,
    /// `Worker::socket_event` has a message.
    Message,
    /// `Worker::socket_event` is a socket that has ended.
    Close,
    /// `Worker::left` has left while its handler waits.
    Gone,
    /// More of the body of `Worker::body_arrived` can be read, or the rest of it cannot be had.
    Body,
    /// It is the time that was given to `Worker::wake_at`, or `Worker::next_file_job` has something to say.
    Wake,
    /// `Worker::ready` is a descriptor that was given to `Worker::watch_descriptor`.
    Ready,
    /// `Worker::wire` can be read from or written to.
    Wire,
    /// `Worker::items` has what was published to a client of the embedder's.
    Items,
    /// `Worker::told` is what another worker has told all of them.
    Told,
    /// `Worker::stream` wants its next piece: `write_stream`, `end_stream` or `fail_stream`.
    Stream,
    /// `Worker::stream` has ended before its end: its client has left.
    StreamEnd,
    /// The worker has stopped: nothing is left to serve.
    Stop,
}

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

/// A worker's whole state.
pub struct Worker<D: Driver> {
    pub(crate) driver: D,
    pub(crate) settings: Arc<Settings>,
    pub(crate) limits: http1::Limits,
    pub(crate) router: Arc<Router>,
    pub(crate) logger: Logger,
    pub(crate) limiter: Limiter,
    pub(crate) index: u16,
    pub(crate) slot: u16,
    pub(crate) running: Running,
    pub(crate) has_fatal: bool,

    pub(crate) listeners: Vec<Fd>,
    pub(crate) prefaced: Vec<Fd>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) control: Option<Fd>,
    pub(crate) metrics: Option<Fd>,
    pub(crate) wakers: Arc<Vec<Waker>>,
    pub(crate) inboxes: Arc<Vec<Inbox>>,
    pub(crate) balances: bool,
    pub(crate) link: Option<Link>,

    pub(crate) connections: Slab<Connection>,
    pub(crate) addresses: HashMap<IpAddr, u32>,
    pub(crate) wheel: Wheel,
    pub(crate) fired: Vec<Fired>,
    pub(crate) pool: Pool,

    pub(crate) events: Vec<IoEvent>,
    events_at: usize,
    /// When the events of this turn were collected.
    pub(crate) turn_ms: u64,
    /// The same by the wall clock, or when output was last sent within the turn.
    flushed_unix_ms: u64,
    /// When the program last asked for an event, or the last wait for some ended, by the wall clock.
    pub(crate) polled_unix_ms: u64,
    /// When the handler that runs began; 0 = none does.
    pub(crate) handler_unix_ms: u64,
    /// From when on a handler is too long; `u64::MAX` = never.
    pub(crate) blocking_call_ms: u64,
    /// Wakes the master to look at handlers.
    pub(crate) looker: Option<Waker>,
    /// When accepting goes on after an error; `u64::MAX` = it has not stopped.
    pub(crate) accept_ms: u64,
    /// Connections accepted in this turn.
    pub(crate) fresh: Vec<u32>,
    /// Connections with output for the end of the turn.
    pub(crate) dirty: Vec<u32>,
    /// Connections to go on with in the next turn without waiting for an event.
    pub(crate) again: Vec<u32>,
    /// Held clients that have room for the next piece of what they missed.
    pub(crate) resuming: VecDeque<Key>,

    pub(crate) input: Vec<u8>,
    pub(crate) current: Option<Current>,
    pub(crate) request: Request,
    /// The header lines of the request before.
    pub(crate) repeats: http1::Repeats,
    /// How the answer before began.
    pub(crate) repeated: Repeated,
    /// What bodies of requests that are not over have left outside of memory.
    pub(crate) uploads: Uploads,
    /// Where those lie.
    pub(crate) spools: Spools,
    /// The WebSockets of the router, by number.
    pub(crate) served: Vec<Served>,
    pub(crate) socket_events: Events,
    /// Handshakes that the program has to decide on, by connection.
    pub(crate) upgrades: HashMap<u32, Upgrade>,
    /// Decompresses what sockets send; allocates nothing until one does.
    pub(crate) inflater: Decompressor,
    pub(crate) serial: u32,
    /// Handlers that are not done yet.
    pub(crate) waiting: Waiting,
    pub(crate) wires: Wires,
    /// What an embedder has set that publishes in formats of its own; see `relay`.
    pub(crate) relay: Option<Box<Relay>>,
    /// Who reads what is published.
    pub(crate) followers: Vec<Told>,
    /// What an embedder adds to the text for Prometheus.
    pub(crate) more_metrics: Option<Box<MoreMetrics>>,
    /// The request whose head and body can still be read, by its handle; 0 = none.
    pub(crate) lent: u64,
    pub(crate) streams: Streams,
    /// What handlers have asked for of files; `None` = nothing yet.
    pub(crate) file_jobs: Option<Box<Files>>,
    /// The directories of static files.
    pub(crate) roots: Roots,
    pub(crate) compressors: Compressors,
    /// Whether answers are compressed at all.
    pub(crate) compresses: bool,
    /// What one answer was compressed to, reused.
    pub(crate) packed: Vec<u8>,

    pub(crate) owner: Owner,
    pub(crate) ring: Ring,
    pub(crate) reader: Reader,
    pub(crate) local: Local,
    pub(crate) encoder: Encoder,
    pub(crate) gather: Gather,
    /// Tells this life of the worker from all others, in the ids of its sockets.
    pub(crate) identity: u64,
    pub(crate) rest: Vec<u8>,
    pub(crate) sweep_ms: u64,

    /// What is remembered of requests in progress, when somebody wants it.
    pub(crate) trace: Option<Box<Trace>>,
    pub(crate) counts: Counts,
    pub(crate) reporter: Reporter,

    pub(crate) date: [u8; 29],
    pub(crate) date_unix_s: u64,
    pub(crate) scratch: Vec<u8>,
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
        let Parts {
            index,
            slot,
            listeners,
            prefaced,
            control,
            wakers,
            inboxes,
            balances,
            link,
            mut ring,
            stats,
            router,
            websockets,
            logger,
            settings,
            tls,
            metrics,
            spools,
            access_log,
            looker,
        } = parts;
        for (fd, token) in listeners.iter().zip(TOKEN_LISTENER..) {
            driver.add_listener(*fd, token)?;
        }
        if let Some(fd) = control {
            driver.add_listener(fd, TOKEN_CONTROL)?;
        }
        if let Some(fd) = metrics {
            driver.add_listener(fd, TOKEN_METRICS)?;
        }
        if let Some(waker) = wakers.get(usize::from(slot)) {
            driver.add_wake(waker.fd(), TOKEN_WAKE)?;
        }
        if let Some(inbox) = inboxes.get(usize::from(slot)) {
            driver.add_wake(inbox.fd(), TOKEN_INBOX)?;
        }
        if let Some(link) = &link {
            driver.add_wake(link.fd(), TOKEN_LINK)?;
            driver.add_wake(link.signals_fd(), TOKEN_SIGNAL)?;
        }
        let now_ms = driver.now_ms();
        let owner = crate::channels::memory::owner(u32::from(slot));
        ring.set_channel_members_max(settings.members_per_channel_max);
        let reader = ring
            .worker_started(&owner, driver.unix_ms())
            .map_err(std::io::Error::other)?;
        stats.worker_started(slot, index, owner.pid, driver.unix_ms());
        stats.set_takes(slot, true);
        let (ids, hasher) = (ring.ids(), ring.hasher());
        let input_bytes = settings.header_bytes_max + READ_BYTES;
        let mut local = Local::new(LocalConfig {
            log_bytes_max: settings.channel_log_bytes_max,
            hasher,
        });
        let identity = fermata_io::random::u64();
        local.receive_directs(identity, &private_channel(slot));
        let mut worker = Worker {
            limits: http1::Limits {
                head_bytes_max: settings.header_bytes_max,
                target_bytes_max: settings.target_bytes_max,
                headers_count_max: settings.headers_count_max,
            },
            router,
            logger,
            limiter: Limiter::default(),
            index,
            slot,
            running: Running::Serving,
            has_fatal: false,
            listeners,
            prefaced,
            tls,
            control,
            metrics,
            wakers,
            inboxes,
            balances,
            link,
            connections: Slab::new(),
            addresses: HashMap::new(),
            wheel: Wheel::new(now_ms),
            fired: Vec::new(),
            pool: Pool::new(POOL_BUFFERS, POOL_BUFFER_BYTES, POOL_BUFFER_BYTES_MAX),
            events: Vec::new(),
            events_at: 0,
            turn_ms: now_ms,
            flushed_unix_ms: driver.unix_ms(),
            polled_unix_ms: driver.unix_ms(),
            handler_unix_ms: 0,
            blocking_call_ms: match settings.blocking_call_ms {
                0 => u64::MAX,
                ms => ms,
            },
            looker,
            accept_ms: u64::MAX,
            fresh: Vec::new(),
            dirty: Vec::new(),
            again: Vec::new(),
            resuming: VecDeque::new(),
            input: vec![0; input_bytes],
            current: None,
            request: Request::new(),
            repeats: http1::Repeats::default(),
            repeated: Repeated::default(),
            uploads: Uploads::default(),
            spools,
            served: websockets
                .iter()
                .map(|route| route.served(&settings))
                .collect(),
            socket_events: Events::new(),
            upgrades: HashMap::new(),
            inflater: Decompressor::new(),
            serial: 0,
            waiting: Waiting::new(),
            wires: Wires::new(),
            relay: None,
            followers: Vec::new(),
            more_metrics: None,
            lent: 0,
            streams: Streams::default(),
            file_jobs: None,
            roots: Roots::default(),
            compressors: Compressors::new(settings.compression_cache_bytes_max),
            compresses: settings.compression == "on",
            packed: Vec::new(),
            owner,
            ring,
            reader,
            local,
            encoder: Encoder::new(ids),
            gather: Gather::new(settings.gather_ms_max),
            identity,
            rest: Vec::new(),
            // Users whose worker has died may be waiting to be announced as gone.
            sweep_ms: now_ms,
            trace: Trace::new(&settings, access_log, index),
            counts: Counts::new(),
            reporter: Reporter::new(stats),
            date: date::imf_fixdate(0),
            date_unix_s: u64::MAX,
            scratch: Vec::new(),
            settings,
            driver,
        };
        worker.refresh_date();
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
                    Event::Request => self.request.handler,
                    Event::Upgrade => self.request.handler | WEBSOCKET,
                    _ => self.socket_event().handler | WEBSOCKET,
                };
                self.note_handler(handler);
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
                self.note_handler(handler);
                return Some(event);
            }
            return match self.turn() {
                // The program is told of the sockets that were cut off.
                Turn::Stopped if !self.socket_events.is_empty() || self.streams.has_ended() => {
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
        self.request.view(&self.input)
    }

    /// What a body has left outside of memory, by the number that `RequestView::upload` gave.
    pub fn upload(&self, number: u32) -> Option<&Upload> {
        self.uploads.get(number)
    }

    /// The request is over: removes its files, but for those that were moved away.
    pub fn release_upload(&mut self, number: u32) {
        self.uploads.release(number);
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
            crate::master::EXIT_RETIRED
        } else {
            0
        }
    }

    /// Writes a log line of the embedder.
    pub fn log(&self, level: LogLevel, message: &str) {
        self.logger.write(level, self.driver.unix_ms(), message);
    }

    /// The same with what is known of the program's code.
    pub fn log_detailed(&self, level: LogLevel, message: &str, detail: &Detail<'_>) {
        let unix_ms = self.driver.unix_ms();
        self.logger.write_detailed(level, unix_ms, message, detail);
    }

    /// What a handler was added for, for a log line: the pattern of its route without the method.
    pub fn route_of(&self, handler: u32) -> &str {
        if handler == crate::http::router::TASK {
            return "a task";
        }
        let label = self.router.label(handler).unwrap_or_default();
        label.find('/').map_or(label, |at| &label[at..])
    }

    /// Writes a log line of the embedder that clients can cause at will: at most so many per second.
    pub fn log_for_client(&mut self, level: LogLevel, message: &str) {
        let unix_ms = self.driver.unix_ms();
        self.limiter.write(&self.logger, level, unix_ms, message);
    }

    /// The same with what is known of the program's code.
    pub fn log_detailed_for_client(&mut self, level: LogLevel, message: &str, detail: &Detail<'_>) {
        let unix_ms = self.driver.unix_ms();
        self.limiter
            .write_detailed(&self.logger, level, unix_ms, message, detail);
    }

    /// The worker's event loop driver.
    pub fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
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
        self.logger.clone()
    }

    /// Number of the worker, from 0.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Number of connections, for tests and statistics.
    pub fn connections_len(&self) -> usize {
        self.connections.len()
    }

    /// Lets go of the last request. When handlers take long, sends what is ready in the middle of a
    /// turn: the first client of a batch does not wait for the handlers of all others.
    pub(crate) fn begin_poll(&mut self) {
        self.leave_unanswered();
        self.lent = 0;
        self.socket_events.release();
        if self.request.body_bytes.capacity() > READ_BYTES {
            self.request.body_bytes = Vec::new();
        }
        // The coarse clock costs a few nanoseconds.
        let unix_ms = self.driver.unix_ms();
        self.note_return(unix_ms);
        self.polled_unix_ms = unix_ms;
        if unix_ms.abs_diff(self.flushed_unix_ms) >= FLUSH_AFTER_MS {
            self.flushed_unix_ms = unix_ms;
            self.driver.refresh_now();
            self.reporter.shared.beat(self.slot);
            self.flush_dirty();
            // What is left over goes on in `turn`, which finds it by itself.
            self.fan_out(FANOUT_SLICE);
            self.driver.flush();
        }
    }

    /// Takes the next event of the batch. True when it left input to be parsed.
    fn next_input(&mut self) -> bool {
        while let Some(event) = self.events.get(self.events_at).copied() {
            self.events_at += 1;
            match event.token {
                token @ TOKEN_LISTENER..=TOKEN_LISTENER_LAST => {
                    let at = (token - TOKEN_LISTENER) as usize;
                    if let Some(&listener) = self.listeners.get(at) {
                        self.accept(listener, Origin::Public);
                    }
                }
                TOKEN_CONTROL => {
                    if let Some(control) = self.control {
                        self.accept(control, Origin::Control);
                    }
                }
                TOKEN_METRICS => {
                    if let Some(metrics) = self.metrics {
                        self.accept(metrics, Origin::Metrics);
                    }
                }
                TOKEN_WAKE => {
                    if let Some(waker) = self.wakers.get(usize::from(self.slot)) {
                        waker.drain();
                    }
                    // The master wakes everybody when a worker has died: its users may be leaving.
                    if self.ring.leaving_count() > 0 {
                        let due_ms = self.turn_ms + SWEEP_MS;
                        self.sweep_ms = self.sweep_ms.min(due_ms);
                    }
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
        let Some(connection) = self.connections.get_mut(key) else {
            self.on_wire(event);
            return false;
        };
        if event.hangup {
            connection.has_hung_up = true;
        }
        let has_left = event.hangup && connection.is_deferred;
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
        self.driver.refresh_now();
        self.reporter.shared.beat(self.slot);
        self.reporter.shared.end_handler(self.slot);
        self.flush_dirty();
        let has_fanout = self.fan_out(FANOUT_SLICE) | self.resume_held();
        if has_fanout {
            self.driver.refresh_now();
        }
        self.fire_timers();
        self.sweep_presence();
        self.resume_accepting();
        self.flush_dirty();
        self.watch_fresh();
        if let Some(trace) = &mut self.trace {
            trace.flush(false);
        }
        if self.is_stopped() {
            self.report(self.driver.now_ms());
            return Turn::Stopped;
        }
        self.report_turn();

        self.events.clear();
        self.events_at = 0;
        let is_busy = has_fanout
            || !self.again.is_empty()
            || !self.uploads.postponed.is_empty()
            || !self.dirty.is_empty()
            || !self.resuming.is_empty()
            || !self.waiting.news.is_empty()
            || self.streams.is_busy();
        self.streams.begin_turn();
        self.uploads.begin_turn();
        let mut again = std::mem::take(&mut self.again);
        let mut postponed = std::mem::take(&mut self.uploads.postponed);
        for index in postponed.drain(..).chain(again.drain(..)) {
            if let Some(connection) = self.connections.at_mut(index) {
                connection.is_again = false;
                let key = self
                    .connections
                    .key(index)
                    .expect("the entry was just found");
                self.events.push(IoEvent {
                    token: key.to_u64(),
                    readable: true,
                    writable: false,
                    hangup: false,
                });
            }
        }
        self.again = again;
        self.uploads.postponed = postponed;
        let timeout = if is_busy { Some(0) } else { self.sleep_ms() };
        if timeout != Some(0) {
            // Announce the sleep, then look once more: a record published in between has either
            // been seen by this look, or its publisher has seen the announcement and wakes us.
            let timeout = if self.reader.set_sleeping() {
                timeout
            } else {
                Some(self.gathering_ms(timeout))
            };
            self.wait(timeout);
            self.reader.set_awake();
        } else {
            self.wait(timeout);
        }
        self.turn_ms = self.driver.now_ms();
        if self.turn_ms >= self.waiting.wake_ms {
            self.waiting.wake_ms = u64::MAX;
            self.waiting.is_due = true;
        }
        if let Some(trace) = &mut self.trace {
            trace.begin_turn();
        }
        self.flushed_unix_ms = self.driver.unix_ms();
        self.polled_unix_ms = self.flushed_unix_ms;
        self.refresh_date();
        Turn::Goes
    }

    fn wait(&mut self, timeout_ms: Option<u64>) {
        if let Err(error) = self.driver.wait(&mut self.events, timeout_ms) {
            // The set of descriptors is ours and valid; what is left is a kernel out of memory.
            let message = format!("waiting for events failed: {error}");
            self.limiter.write(
                &self.logger,
                LogLevel::Error,
                self.driver.unix_ms(),
                &message,
            );
        }
    }

    /// How long nothing is due, `None` = for ever.
    pub(crate) fn sleep_ms(&self) -> Option<u64> {
        let now_ms = self.driver.now_ms();
        let mut due_ms = self
            .wheel
            .next_due_ms()
            .unwrap_or(u64::MAX)
            .min(self.sweep_ms)
            .min(self.accept_ms)
            .min(self.waiting.wake_ms)
            .min(self.reporter.due_ms());
        if let Running::Draining { until_ms } | Running::Retired { until_ms } = self.running {
            due_ms = due_ms.min(until_ms);
        }
        (due_ms != u64::MAX).then(|| due_ms.saturating_sub(now_ms))
    }

    fn refresh_date(&mut self) {
        let unix_s = self.flushed_unix_ms / 1000;
        if unix_s != self.date_unix_s {
            self.date_unix_s = unix_s;
            self.date = date::imf_fixdate(unix_s);
        }
    }
}

#[derive(PartialEq, Eq)]
enum Turn {
    Goes,
    Stopped,
}
