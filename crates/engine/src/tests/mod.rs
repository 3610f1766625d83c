//! Tests of the worker over a fake network: virtual time, scripted peers, faults by seed.
//!
//! `Rig` is an embedder with a few handlers. The tests never sleep or open a port, and a run
//! depends only on its seed.

mod bounds;
mod buffered;
mod client;
mod deadlines;
mod early;
mod fair;
mod fanout;
mod handover;
mod holds;
mod http2;
mod http2_attacks;
mod preface;
mod readers;
mod requests;
mod resume;
mod sockets;
mod starts;
mod streams;
mod waiting;
mod websocket;
mod websocket_channels;
mod websocket_deflate;
mod websocket_resume;
mod websocket_time;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use fermata_config::{LogFormat, LogLevel, Settings};
use fermata_hub::{Config, Ring};
use fermata_io::Fd;
use fermata_io::sys::fake::{Fake, FakePeer};

use proptest::prelude::ProptestConfig;

use sockets::Call;

use crate::channels::test_ring;
use crate::http::router::Router;
use crate::id::{RequestId, SocketId};
use crate::{Event, Hold, HoldError, Left, Logger, Message, Parts, ReaderId, Since, Worker};

const HELLO: u32 = 1;
const ECHO: u32 = 2;
const BIG: u32 = 3;
const HOLD: u32 = 4;
const PUBLISH: u32 = 5;
const LATE: u32 = 6;
const EARLY: u32 = 7;
const LONG: u32 = 8;
const LONGER: u32 = 9;

/// Duration in milliseconds of the handlers of `/long` and `/longer`.
const LONG_MS: u64 = 3;
const LONGER_MS: u64 = 7;

/// Size of `/files/large.bin` in bytes: more than a piece, a window and a pool buffer.
pub const FILE_BYTES: usize = 300_000;

/// Size of `/files/huge.bin` as a multiple of `FILE_BYTES`. Sending it takes several turns.
pub const HUGE: usize = 24;

/// An embedder that acts as the handlers.
pub struct Rig {
    pub fake: Fake,
    pub listener: Fd,
    pub worker: Worker<Fake>,
    /// Ids of `/late` and `/early` requests, in order of arrival.
    pub late: VecDeque<RequestId>,
    /// Number of requests delivered to handlers.
    pub requests: usize,
    pub is_stopped: bool,
    /// Socket events delivered to the application.
    pub calls: Vec<Call>,
    /// Open sockets, in order of opening.
    pub open: Vec<SocketId>,
    /// Clients that disconnected while their handlers waited.
    pub left: Vec<Left>,
    /// Requests whose handlers were notified of more body bytes.
    pub arrived: Vec<RequestId>,
    /// Number of wake-ups of the application.
    pub wakes: usize,
    /// Readers that may have further events.
    pub woken: Vec<ReaderId>,
}

/// Returns settings with small shared memory, because every test leaks its memory.
pub fn settings() -> Settings {
    Settings {
        event_bytes_max: 4096,
        log_level: LogLevel::Error,
        ..Settings::default()
    }
}

impl Rig {
    pub fn new(seed: u64) -> Rig {
        Rig::with(seed, settings())
    }

    pub fn with(seed: u64, settings: Settings) -> Rig {
        let [ring, _] = rings(&settings);
        Rig::over(seed, settings, 0, ring)
    }

    /// Creates two workers of one server, each with its own network.
    pub fn pair(seed: u64, settings: &Settings) -> [Rig; 2] {
        let [first, second] = rings(settings);
        [
            Rig::over(seed, settings.clone(), 0, first),
            Rig::over(seed.wrapping_add(1), settings.clone(), 1, second),
        ]
    }

    fn over(seed: u64, settings: Settings, slot: u16, ring: Ring) -> Rig {
        let fake = Fake::new(seed);
        let listener = fake.listen();
        let parts = parts(settings, slot, vec![listener], ring);
        let worker = Worker::new(fake.clone(), parts).expect("the fake refuses nothing");
        Rig {
            fake,
            listener,
            worker,
            late: VecDeque::new(),
            requests: 0,
            is_stopped: false,
            calls: Vec::new(),
            open: Vec::new(),
            left: Vec::new(),
            arrived: Vec::new(),
            wakes: 0,
            woken: Vec::new(),
        }
    }

    pub fn connect(&self) -> FakePeer {
        self.fake.connect(self.listener)
    }

    /// Connects a peer that sends `bytes`, and runs the worker.
    pub fn peer(&mut self, bytes: &[u8]) -> FakePeer {
        let peer = self.connect();
        peer.write(bytes);
        self.run();
        peer
    }

    /// Runs until no event is pending.
    pub fn run(&mut self) {
        // A broadcast continues for several turns without an event.
        let enough = if self.worker.channels.local.subscriptions() > 0 {
            50
        } else {
            3
        };
        let mut idle = 0;
        while idle < enough && !self.is_stopped {
            let before = self.fake.calls().idle_waits;
            let requests = self.requests;
            let calls = self.calls.len();
            self.turn();
            let is_idle = self.fake.calls().idle_waits > before
                && self.requests == requests
                && self.calls.len() == calls
                && self.worker.net.events.is_empty()
                && self.worker.net.dirty.is_empty()
                && !self.worker.net.http2.is_dirty()
                && self.worker.channels.resuming.is_empty();
            idle = if is_idle { idle + 1 } else { 0 };
        }
    }

    /// Runs one turn: all requests of a batch of events, and everything that follows from them.
    pub fn turn(&mut self) {
        loop {
            self.worker.begin_poll();
            match self.worker.poll_event() {
                Some(Event::Request) => self.answer(),
                Some(Event::Stop) => {
                    self.is_stopped = true;
                    break;
                }
                Some(Event::Gone(request)) => self.left.push(Left::Request(request)),
                Some(Event::HeldGone(request)) => self.left.push(Left::Held(request)),
                Some(Event::SocketGone(socket)) => self.left.push(Left::Socket(socket)),
                Some(Event::Body(handle)) => self.arrived.push(handle),
                Some(Event::Wake) => self.wakes += 1,
                Some(Event::Read(reader)) => self.woken.push(reader),
                // The test itself writes the pieces.
                Some(Event::Stream(_) | Event::StreamEnd(_)) => {}
                Some(event) => self.on_socket(event),
                None => break,
            }
        }
        self.worker.net.gauges.check(&self.worker.net.connections);
        self.worker.net.buffered.check();
    }

    /// Advances the clock in small steps, so that every timer fires when it is due.
    pub fn advance(&mut self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let step = left.min(100);
            self.fake.advance(step);
            left -= step;
            self.run();
        }
    }

    pub fn publish(&mut self, channel: &str, data: &str) -> String {
        let message = Message {
            name: None,
            data: data.as_bytes(),
        };
        let id = self
            .worker
            .publish(channel.as_bytes(), message)
            .expect("the ring has room");
        id.as_str().to_owned()
    }

    fn answer(&mut self) {
        self.requests += 1;
        let view = self.worker.request();
        let handle = view.handle();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match view.handler() {
            HELLO => self.respond(handle, b"hello"),
            ECHO => {
                let body = view.body().to_vec();
                self.respond(handle, &body);
            }
            BIG => {
                let bytes = text(view.route(b"bytes").unwrap_or_default());
                let body = vec![b'x'; bytes.parse().expect("a number")];
                self.respond(handle, &body);
            }
            PUBLISH => {
                let channel = text(view.route(b"channel").unwrap_or_default());
                let data = text(view.body());
                let id = self.publish(&channel, &data);
                self.respond(handle, id.as_bytes());
            }
            handler @ (LONG | LONGER) => {
                let body = [view.query().unwrap_or_default(), view.body()].concat();
                let took_ms = if handler == LONG { LONG_MS } else { LONGER_MS };
                self.fake.advance(took_ms);
                self.respond(handle, &body);
            }
            LATE | EARLY => {
                if view.query() == Some(b"waits") {
                    self.worker.defer(handle).expect("it is open");
                }
                self.late.push_back(handle);
            }
            HOLD => {
                let channels = text(view.route(b"channels").unwrap_or_default());
                let query = text(view.query().unwrap_or_default());
                let since = view.header(b"last-event-id", 0).map(<[u8]>::to_vec);
                self.hold(handle, &channels, &query, since.as_deref())
                    .expect("a hold that can be had");
            }
            other => panic!("handler {other} does not exist"),
        }
    }

    fn respond(&mut self, handle: RequestId, body: &[u8]) {
        let none = std::iter::empty();
        self.worker
            .respond(handle, 200, Some(b"text/plain"), none, body)
            .expect("it was handed out just now");
    }

    /// `channels` are comma-separated, and so are the options in `query`: `close`, `keep=MS`,
    /// `user=NAME`.
    fn hold(
        &mut self,
        handle: RequestId,
        channels: &str,
        query: &str,
        since: Option<&[u8]>,
    ) -> Result<(), HoldError> {
        let channels: Vec<&[u8]> = channels.split(',').map(str::as_bytes).collect();
        let word = |name: &str| query.split(',').find_map(|word| word.strip_prefix(name));
        let hold = Hold {
            format: crate::StreamFormat::EventStream,
            channels: &channels,
            user: word("user=").map(str::as_bytes),
            info: None,
            announces: true,
            since: Since::of(since, false),
            keep_alive_ms: word("keep=").map(|ms| ms.parse().expect("a number")),
            closes_on_gap: word("close").is_some(),
            with: &[],
            headers: &[],
        };
        self.worker.hold(handle, &hold)
    }
}

/// Builds the parts of a rig's worker.
fn parts(settings: Settings, slot: u16, listeners: Vec<Fd>, ring: Ring) -> Parts {
    let mut router = Router::new();
    for (method, pattern, handler) in [
        ("GET", "/hello", HELLO),
        ("POST", "/echo", ECHO),
        ("GET", "/big/{bytes}", BIG),
        ("GET", "/hold/{channels}", HOLD),
        ("POST", "/publish/{channel}", PUBLISH),
        ("GET", "/late", LATE),
        ("POST", "/early", EARLY),
        ("GET", "/long", LONG),
        ("POST", "/long", LONG),
        ("GET", "/longer", LONGER),
    ] {
        router
            .add(Some(method), pattern, handler)
            .expect("a route of this table");
    }
    router.begin_early(EARLY);
    let mut routes = Vec::new();
    for (number, (pattern, route)) in sockets::routes().into_iter().enumerate() {
        router
            .add_websocket(pattern, number as u16, route.handler)
            .expect("a path of its own");
        routes.push(route.check(pattern).expect("options that work"));
    }
    router
        .add_static("/files", &directory(), Default::default())
        .expect("a prefix of its own");
    Parts {
        index: slot,
        slot,
        prefaced: if settings.trusted_proxies.is_empty() {
            Vec::new()
        } else {
            listeners.clone()
        },
        listeners,
        control: None,
        wakers: Arc::new(Vec::new()),
        inboxes: Arc::new(Vec::new()),
        balances: true,
        link: None,
        ring,
        outbox: None,
        stats: crate::admin::stats::Shared::private(),
        router: Arc::new(router),
        websockets: Arc::new(routes),
        logger: Logger::new(LogFormat::Text, settings.log_level, "test"),
        spools: crate::http::body::Spools::new(&settings, 1),
        spans: spans(&settings),
        settings: Arc::new(settings),
        tls: None,
        metrics: None,
        access_log: None,
        sampler: None,
    }
}

/// Creates an outbox for spans if the settings name a collector, which does not exist.
fn spans(settings: &Settings) -> Option<crate::admin::otlp::Outbox> {
    struct Nobody;
    impl crate::Post for Nobody {
        fn post(
            &mut self,
            _: &'static str,
            _: &[(&str, &str)],
            _: &[u8],
            _: std::time::Duration,
        ) -> Result<crate::Posted, crate::PostError> {
            Err("nobody is asked".into())
        }
    }
    let open: crate::OpenPost = |_| Ok(Box::new(Nobody));
    let otlp = crate::admin::otlp::Otlp::open(settings, Some(open)).expect("descriptors");
    otlp.map(|it| it.into_outbox(crate::admin::stats::Shared::private()))
}

/// Sets the number of runs of a property. A failure prints the minimal input with its seeds.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Builds a request without a body.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").into_bytes()
}

/// Builds a request with a body of known length.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// Creates the same shared memory for two processes.
fn rings(settings: &Settings) -> [Ring; 2] {
    let config = Config {
        ring_bytes: settings.history_bytes_max.min(1 << 20),
        index_buckets: 64,
        record_bytes_max: settings.event_bytes_max,
        workers_max: 2,
        history_count_max: settings.history_count_max,
        history_age_ms_max: settings.history_age_ms_max,
        members_max: 64,
        leave_delay_ms: settings.leave_delay_ms,
    };
    let words = test_ring::words(&config);
    [
        test_ring::ring_in(words, &config),
        Ring::open(words, &config).expect("it was made just now"),
    ]
}

/// Returns a static root with large files. All test runs share the directory, so that only one is
/// left behind. A file gets its final name when it is complete.
fn directory() -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY
        .get_or_init(|| {
            let path = std::env::temp_dir().join("fermata-engine-tests");
            std::fs::create_dir_all(&path).expect("a writable temporary directory");
            for (name, content) in [
                ("large.bin", file_content()),
                ("huge.bin", file_content().repeat(HUGE)),
            ] {
                let new = path.join(format!("{name}.{}", std::process::id()));
                std::fs::write(&new, content).expect("the same");
                // The virtual clock starts in the past, so set the modification time of the files
                // to an earlier time.
                let modified =
                    UNIX_EPOCH + Duration::from_millis(fermata_io::sys::fake::UNIX_START_MS);
                let file = std::fs::File::options().write(true).open(&new);
                file.and_then(|it| it.set_modified(modified))
                    .expect("the same");
                std::fs::rename(new, path.join(name)).expect("the same");
            }
            path
        })
        .clone()
}

pub fn file_content() -> Vec<u8> {
    (0..FILE_BYTES).map(|at| (at / 7) as u8).collect()
}
