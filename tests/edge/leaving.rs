//! Disconnects never leak resources. Clients of every kind disconnect in every way while their
//! backends fail in every way; afterwards no connection, slot or subscription is left.
//!
//! `FERMATA_TEST_SEED` repeats a run, `FERMATA_TEST_SECONDS` makes it longer, and
//! `FERMATA_TEST_RESULTS` names a folder for a report: `make soak-leaving`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::websocket::{TEXT, frame};
use fermata_testkit::{Directory, Random, Signal, deadline, free_port, send_signal, wait_until};
use fermata_tls::development;
use serde_json::json;

use crate::client::Client;
use crate::failing::{Failing, Fault};
use crate::link::Link;
use crate::own::Own;

/// Number of concurrent conversations.
const CLIENTS: usize = 24;
/// Maximum time in milliseconds until a client disconnects.
const LEAVES_WITHIN_MS: usize = 700;
/// Seconds for which new conversations start, unless the environment specifies it.
const SECONDS: u64 = 8;
/// Maximum number of clients of the edge, which is less than the test opens.
const PLACES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Large,
    Upload,
    Jsonp,
    Poll,
    Stream,
    Filtered,
    Link,
    Next,
    Socket,
    Over,
    SockJs,
    FastCgi,
    Zhttp,
}

const KINDS: [Kind; 14] = [
    Kind::Plain,
    Kind::Large,
    Kind::Upload,
    Kind::Jsonp,
    Kind::Poll,
    Kind::Stream,
    Kind::Filtered,
    Kind::Link,
    Kind::Next,
    Kind::Socket,
    Kind::Over,
    Kind::SockJs,
    Kind::FastCgi,
    Kind::Zhttp,
];

/// How a client disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// Waits for the complete result.
    Stays,
    Closes,
    Resets,
    /// Closes its sending side and waits for the peer to close.
    HalfCloses,
    /// The client never completes its request, and waits until the edge disconnects it.
    Stalls,
}

const LEAVINGS: [Leaving; 4] = [
    Leaving::Stays,
    Leaving::Closes,
    Leaving::Resets,
    Leaving::HalfCloses,
];
/// One of this many clients stalls. The time-out of a stalled client lasts as long as twenty other
/// conversations.
const STALLS: usize = 50;
/// One of this many clients uses TLS.
const TLS: usize = 3;

/// Delay of this process that counts as a standstill of the machine: a third of the shortest
/// time-out in the test.
const STANDSTILL: Duration = Duration::from_millis(500);
/// Interval at which this process measures its own delay.
const PULSE: Duration = Duration::from_millis(20);
/// One of this many conversations may fail because of a standstill.
const LATE_ONE_OF: u64 = 1_000;

/// Responses after a time-out. Only these are excused by a standstill.
const TIME_OUTS: [&str; 3] = ["HTTP/1.1 408 ", "HTTP/1.1 502 ", "HTTP/1.1 504 "];

/// Records when this process did not run. Clients and backends are its threads, while the edge's
/// time-outs continue.
#[derive(Debug, Default)]
struct Pulse {
    standstills: Mutex<Vec<(Instant, Duration)>>,
}

impl Pulse {
    /// Records how much later than `expected` an operation has finished.
    fn note(&self, begun: Instant, expected: Duration) {
        let late = begun.elapsed().saturating_sub(expected);
        if late >= STANDSTILL {
            lock(&self.standstills).push((begun, late));
        }
    }

    fn beat(&self) {
        let begun = Instant::now();
        thread::sleep(PULSE);
        self.note(begun, PULSE);
    }

    /// Returns the longest standstill that was in progress after `from`.
    fn since(&self, from: Instant) -> Option<Duration> {
        let standstills = lock(&self.standstills);
        // A standstill that started before this time may have ended after it.
        let after = standstills
            .iter()
            .filter(|(begun, late)| *begun + *late >= from);
        after.map(|(_, late)| *late).max()
    }
}

/// A client and its scenario.
#[derive(Clone, Copy, Debug)]
struct Plan {
    kind: Kind,
    fault: Fault,
    leaving: Leaving,
    is_tls: bool,
    after: Duration,
    number: usize,
}

impl Plan {
    fn random(random: &mut Random, number: usize) -> Self {
        let leaving = match random.within(0..STALLS) {
            0 => Leaving::Stalls,
            _ => LEAVINGS[random.within(0..LEAVINGS.len())],
        };
        Self {
            kind: KINDS[random.within(0..KINDS.len())],
            fault: Fault::ALL[random.within(0..Fault::ALL.len())],
            leaving,
            is_tls: random.within(0..TLS) == 0,
            after: Duration::from_millis(random.within(0..LEAVES_WITHIN_MS) as u64),
            number,
        }
    }

    fn host(&self) -> &'static str {
        match self.kind {
            Kind::Over => "over.test",
            Kind::SockJs => "sockjs.test",
            Kind::Jsonp => "jsonp.test",
            Kind::FastCgi => "fastcgi.test",
            Kind::Zhttp => "zhttp.test",
            _ => "plain.test",
        }
    }

    fn path(&self) -> String {
        let (fault, number) = (self.fault.word(), self.number);
        match self.kind {
            Kind::Socket => format!("/ws/{fault}/{number}"),
            Kind::Jsonp => format!("/jsonp/{fault}/{number}?callback=call"),
            Kind::SockJs => format!("/ws/{fault}/000/{number}/xhr"),
            Kind::FastCgi => format!("/fastcgi/{fault}/{number}.php"),
            kind => format!(
                "/{}/{fault}/{number}",
                format!("{kind:?}").to_ascii_lowercase()
            ),
        }
    }

    fn request(&self) -> Vec<u8> {
        let method = match self.kind {
            Kind::Upload | Kind::SockJs => "POST",
            _ => "GET",
        };
        let mut text = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\n",
            self.path(),
            self.host()
        );
        text += match self.kind {
            Kind::Socket | Kind::Over => {
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            }
            Kind::Upload if self.number.is_multiple_of(2) => "Transfer-Encoding: chunked\r\n",
            Kind::Upload => "Content-Length: 300000\r\n",
            Kind::SockJs => "Content-Length: 0\r\n",
            _ => "",
        };
        (text + "\r\n").into_bytes()
    }

    /// Returns the pieces of an upload.
    fn pieces(&self) -> Vec<Vec<u8>> {
        let piece = vec![b'u'; 30_000];
        match self.kind {
            Kind::Upload if self.number.is_multiple_of(2) => {
                let chunk = [b"7530\r\n", &piece[..], b"\r\n"].concat();
                let mut pieces = vec![chunk; 10];
                pieces.push(b"0\r\n\r\n".to_vec());
                pieces
            }
            Kind::Upload => vec![piece; 10],
            _ => Vec::new(),
        }
    }

    /// Runs the client. The error describes the missing result.
    fn run(&self, ports: Ports, pulse: &Pulse) -> Result<(), String> {
        let Ok(mut stream) = self.open(ports) else {
            return Err("it does not listen".into());
        };
        if self.leaving == Leaving::Stalls {
            return self.stall(stream);
        }
        let begun = Instant::now();
        let mut is_sent = stream.write_all(&self.request()).is_ok();
        for piece in self.pieces() {
            if self.leaving != Leaving::Stays && begun.elapsed() > self.after {
                break;
            }
            is_sent &= stream.write_all(&piece).is_ok();
            thread::sleep(self.after / 20);
        }
        pulse.note(begun, self.after);
        if self.leaving == Leaving::Stays {
            return self.stay(stream, is_sent);
        }
        // Read some of the response before the client disconnects.
        let mut buffer = [0; 16_384];
        stream.set_patience(Duration::from_millis(50));
        while begun.elapsed() < self.after {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) if self.kind == Kind::Socket || self.kind == Kind::Over => {
                    let _ = stream.write_all(&frame(TEXT, b"hello"));
                }
                Ok(_) => {}
                Err(error) if is_late(&error) => {}
                Err(_) => break,
            }
        }
        match self.leaving {
            Leaving::Stays | Leaving::Stalls => Ok(()),
            Leaving::Closes => {
                // Many TLS clients disconnect without close_notify.
                if self.number.is_multiple_of(2) {
                    stream.send_goodbye();
                }
                Ok(())
            }
            Leaving::Resets => {
                stream.reset_on_close();
                Ok(())
            }
            Leaving::HalfCloses => {
                stream.half_close();
                match read_to_end(&mut stream) {
                    Some(_) => Ok(()),
                    None => Err("its half-closed connection stays".into()),
                }
            }
        }
    }

    fn open(&self, ports: Ports) -> std::io::Result<Link> {
        let port = if self.is_tls { ports.tls } else { ports.plain };
        Link::open(port, self.is_tls)
    }

    /// Sends part of its request and waits until the edge disconnects it.
    fn stall(&self, mut stream: Link) -> Result<(), String> {
        let request = self.request();
        // With a body, send the head and the first piece of the body. Without one, omit the last CRLF
        // of the head.
        let bytes = match self.pieces().into_iter().next() {
            Some(piece) => [request, piece].concat(),
            None => request[..request.len() - 2].to_vec(),
        };
        let _ = stream.write_all(&bytes);
        match read_to_end(&mut stream) {
            Some(_) => Ok(()),
            None => Err("its unfinished request stays".into()),
        }
    }

    /// Waits for the expected result.
    fn stay(&self, mut stream: Link, is_sent: bool) -> Result<(), String> {
        let is_held = matches!(
            self.kind,
            Kind::Stream | Kind::Filtered | Kind::Link | Kind::Socket | Kind::Over
        );
        // The edge retries a failed link for some time.
        let is_linked = matches!(self.kind, Kind::Link | Kind::Next);
        let is_held = is_held || self.kind == Kind::Next && !self.fault.answers();
        let mut got = Vec::new();
        let end = Instant::now() + deadline();
        stream.set_patience(Duration::from_millis(100));
        let is_closed = loop {
            if Instant::now() > end {
                return Err(format!("neither answer nor end after {:?}", shown(&got)));
            }
            if is_held && got.len() >= 100 && (self.fault.answers() || is_linked) {
                break false;
            }
            if self.is_whole(&got) {
                break false;
            }
            let mut buffer = [0; 65_536];
            match stream.read(&mut buffer) {
                Ok(0) => break true,
                Ok(len) => got.extend_from_slice(&buffer[..len]),
                Err(error) if is_late(&error) => {}
                Err(_) => break true,
            }
        };
        let is_good = match self.kind {
            Kind::Socket | Kind::Over => got.starts_with(b"HTTP/1.1 101 "),
            Kind::SockJs => got.ends_with(b"\r\n\r\no\n"),
            Kind::Jsonp => got.starts_with(b"HTTP/1.1 200 ") && contains(&got, b"\"code\":200"),
            _ if is_linked => got.starts_with(b"HTTP/1.1 200 "),
            kind => {
                let is_ok = got.starts_with(b"HTTP/1.1 200 ");
                is_ok && (!is_closed || kind == Kind::Plain && self.is_whole(&got))
            }
        };
        let is_owed = self.fault.answers() || is_linked;
        match (is_good, is_owed) {
            (false, true) if is_sent => Err(format!("no answer but {}", shown(&got))),
            (true, false) => Err(format!("an answer that nobody gave: {}", shown(&got))),
            _ => Ok(()),
        }
    }

    /// Returns true if the response is complete.
    fn is_whole(&self, got: &[u8]) -> bool {
        let Some(at) = got.windows(4).position(|four| four == b"\r\n\r\n") else {
            return false;
        };
        let head = String::from_utf8_lossy(&got[..at]).to_ascii_lowercase();
        let body = &got[at + 4..];
        match head.split_once("content-length: ") {
            Some((_, rest)) => {
                let length = rest.lines().next().and_then(|it| it.trim().parse().ok());
                length.is_some_and(|length: usize| body.len() >= length)
            }
            None if head.contains("transfer-encoding: chunked") => body.ends_with(b"\r\n0\r\n\r\n"),
            None => head.starts_with("http/1.1 101 "),
        }
    }
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn shown(got: &[u8]) -> String {
    let start = String::from_utf8_lossy(&got[..got.len().min(300)]);
    format!("{} bytes: {}", got.len(), start.escape_debug())
}

/// Reads to the end of the stream; returns `None` if the stream does not end.
fn read_to_end(stream: &mut Link) -> Option<usize> {
    let mut buffer = [0; 65_536];
    let mut bytes = 0;
    stream.set_patience(deadline());
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Some(bytes),
            Ok(len) => bytes += len,
            Err(error) if is_late(&error) => return None,
            Err(_) => return Some(bytes),
        }
    }
}

/// Ports for clients.
#[derive(Clone, Copy)]
struct Ports {
    plain: u16,
    tls: u16,
}

/// An edge in front of all these backends.
struct Bench {
    own: Own,
    backend: Failing,
    zhttp: u16,
    tls: u16,
}

impl Bench {
    fn start(arguments: &[&str]) -> Self {
        let (backend, zhttp, folder) = (Failing::start(), free_port(), Directory::new());
        folder.write("routes", Self::routes(&backend, zhttp, 0));
        for serial in 0..2 {
            provide_certificate(&folder, serial);
        }
        exchange_certificate(&folder, 0);
        let tls = free_port();
        let listen = format!("127.0.0.1:{tls}");
        let secure = [
            "--listen-tls",
            &listen,
            "--tls-certificates",
            "certificates",
        ];
        let own = Own::start_in(folder, &[&secure, arguments].concat());
        wait_until("the edge listens by TLS", || {
            std::net::TcpStream::connect(("127.0.0.1", tls)).ok()
        });
        backend.serve_zhttp(zhttp);
        Self {
            own,
            backend,
            zhttp,
            tls,
        }
    }

    fn ports(&self) -> Ports {
        Ports {
            plain: self.own.port,
            tls: self.tls,
        }
    }

    /// Returns the route table; `serial` varies its text but not its meaning.
    fn routes(backend: &Failing, zhttp: u16, serial: usize) -> String {
        let (http, fastcgi) = (backend.http, backend.fastcgi);
        format!(
            "plain.test,header=X-Serial:{serial} 127.0.0.1:{http}\n\
            over.test 127.0.0.1:{http},over_http\n\
            sockjs.test,path_beg=/ws/quick,sockjs=/ws/quick,sockjs_as_path=/ws/quick 127.0.0.1:{http}\n\
            sockjs.test,path_beg=/ws/slow,sockjs=/ws/slow,sockjs_as_path=/ws/slow 127.0.0.1:{http}\n\
            sockjs.test,path_beg=/ws/dying,sockjs=/ws/dying,sockjs_as_path=/ws/dying 127.0.0.1:{http}\n\
            sockjs.test,path_beg=/ws/early,sockjs=/ws/early,sockjs_as_path=/ws/early 127.0.0.1:{http}\n\
            sockjs.test,path_beg=/ws/reset,sockjs=/ws/reset,sockjs_as_path=/ws/reset 127.0.0.1:{http}\n\
            sockjs.test,path_beg=/ws/still,sockjs=/ws/still,sockjs_as_path=/ws/still 127.0.0.1:{http}\n\
            sockjs.test,path_beg=/ws/never,sockjs=/ws/never,sockjs_as_path=/ws/never 127.0.0.1:{http}\n\
            jsonp.test,aco 127.0.0.1:{http}\n\
            fastcgi.test fastcgi/127.0.0.1:{fastcgi},root=/srv\n\
            zhttp.test zhttpreq/tcp://127.0.0.1:{zhttp}\n"
        )
    }

    fn reload(&self, serial: usize) {
        let routes = Self::routes(&self.backend, self.zhttp, serial);
        self.own.folder.write("routes.new", routes);
        let (from, to) = (
            self.own.folder.join("routes.new"),
            self.own.folder.join("routes"),
        );
        std::fs::rename(from, to).expect("it was just written");
    }

    /// Installs a new certificate for later connections.
    fn exchange_certificate(&self, serial: usize) {
        exchange_certificate(&self.own.folder, serial);
        self.own.signal("-HUP");
    }

    /// Returns the counts of resources that conversations still hold.
    fn rest(&self) -> Vec<(String, u64)> {
        let mut rest = self.own.figures("fermata_connections{");
        // The metrics request itself is a connection.
        rest.retain(|(name, _)| !name.contains("control"));
        rest.extend(self.own.figures("fermata_edge_open{"));
        // Workers keep connections to each other open for a minute.
        rest.retain(|(name, _)| !name.contains("idle_connection"));
        rest.extend(self.own.figures("fermata_subscriptions{"));
        rest.extend(self.own.figures("fermata_tls_connections{"));
        rest.retain(|(_, value)| *value > 0);
        rest
    }

    fn descriptors(&self) -> usize {
        let count = |pid| std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        let workers = self.own.workers();
        workers.into_iter().map(count).max().unwrap_or_default()
    }

    /// Waits until no conversation holds a resource.
    #[track_caller]
    fn settle(&self, descriptors: usize, what: &dyn Debug) {
        let end = Instant::now() + deadline();
        loop {
            let (rest, now) = (self.rest(), self.descriptors());
            if rest.is_empty() && now <= descriptors {
                return;
            }
            assert!(
                Instant::now() < end,
                "left of {what:?}: {rest:?}; {now} descriptors, {descriptors} before"
            );
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Creates the certificate with this number.
fn provide_certificate(folder: &Directory, serial: usize) {
    let unix_s = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let unix_s = unix_s.expect("it is later than 1970").as_secs();
    let own = folder.join(&format!("certificate.{serial}"));
    development::provide(&own, unix_s).expect("a certificate");
}

/// Installs the key and chain of one of two certificates, which the edge reads at its next check.
fn exchange_certificate(folder: &Directory, serial: usize) {
    let from = folder.join(&format!("certificate.{}", serial % 2));
    let to = folder.join("certificates");
    std::fs::create_dir_all(&to).expect("a folder");
    for (source, name) in [
        ("localhost-key.pem", "localhost.key"),
        ("localhost.pem", "localhost.crt"),
    ] {
        let new = folder.join("certificate.new");
        std::fs::copy(from.join(source), &new).expect("it was made");
        std::fs::rename(&new, to.join(name)).expect("it was just written");
    }
}

const QUICK_FAILURES: [&str; 14] = [
    "--origin-response-timeout-ms",
    "1500",
    "--origin-connect-timeout-ms",
    "1000",
    "--origin-idle-timeout-ms",
    "1500",
    "--sockjs-linger-ms",
    "500",
    "--subscription-linger-ms",
    "1",
    // The time-out for clients that stall.
    "--body-timeout-ms",
    "1500",
    "--body-rate-min",
    "0",
];

#[test]
fn a_client_that_leaves_keeps_no_place() {
    let places = (PLACES).to_string();
    let arguments = [
        &QUICK_FAILURES[4..],
        &["--workers", "1", "--connections-max", &places],
    ]
    .concat();
    let bench = Bench::start(&arguments);
    assert_eq!(
        Client::open(bench.own.port, "plain.test")
            .get("/plain/quick/0")
            .status,
        200
    );
    bench.settle(usize::MAX, &"nobody");
    let descriptors = bench.descriptors();
    for kind in KINDS {
        for leaving in [Leaving::Closes, Leaving::Resets, Leaving::HalfCloses] {
            let fault = match kind {
                // The edge holds the clients of these kinds.
                Kind::Poll | Kind::Stream | Kind::Filtered | Kind::Link => Fault::Quick,
                _ => Fault::Never,
            };
            let after = Duration::from_millis(200);
            thread::scope(|scope| {
                let plans = (0..PLACES).map(|number| Plan {
                    kind,
                    fault,
                    leaving,
                    is_tls: number.is_multiple_of(TLS),
                    after,
                    number,
                });
                let ports = bench.ports();
                let running: Vec<_> = plans
                    .map(|plan| scope.spawn(move || plan.run(ports, &Pulse::default())))
                    .collect();
                for one in running {
                    one.join().expect("it runs").expect("it is let go");
                }
            });
            bench.settle(descriptors, &(kind, leaving));
        }
    }
}

fn seconds() -> u64 {
    let given = std::env::var("FERMATA_TEST_SECONDS");
    given.ok().and_then(|it| it.parse().ok()).unwrap_or(SECONDS)
}

/// A run: its scenario and the values from the environment.
struct Run {
    name: &'static str,
    seed: u64,
    seconds: u64,
    /// True if no fault affects a client, so that it must receive the backend's response unchanged.
    is_calm: bool,
}

impl Run {
    fn new(name: &'static str, seconds: u64, is_calm: bool) -> Self {
        let seed = Random::seed_from_environment();
        Self {
            name,
            seed,
            seconds,
            is_calm,
        }
    }

    /// Runs clients, and concurrently `disturb`.
    fn play(&self, bench: &Bench, disturb: impl Fn() + Sync) {
        let count = AtomicUsize::new(1);
        let has_ended = AtomicBool::new(false);
        let (played, failures) = (Mutex::new(Played::default()), Mutex::new(Vec::new()));
        let (pulse, late) = (Pulse::default(), Mutex::new(Vec::new()));
        let begun = Instant::now();
        let end = begun + Duration::from_secs(self.seconds);
        let mut random = Random::new(self.seed);
        let seeds: Vec<u64> = (0..CLIENTS).map(|_| random.bits()).collect();
        thread::scope(|scope| {
            let players: Vec<_> = seeds
                .into_iter()
                .map(|seed| {
                    let (count, played, failures) = (&count, &played, &failures);
                    let (pulse, late) = (&pulse, &late);
                    scope.spawn(move || {
                        let mut random = Random::new(seed);
                        while Instant::now() < end {
                            let number = count.fetch_add(1, Ordering::Relaxed);
                            let plan = Plan::random(&mut random, number);
                            let begun = Instant::now();
                            let outcome = plan.run(bench.ports(), pulse);
                            lock(played).add(&plan);
                            if let Err(error) = outcome
                                && self.is_calm
                            {
                                let error = format!("{plan:?}: {error}");
                                let is_time_out = TIME_OUTS.iter().any(|it| error.contains(it));
                                match pulse.since(begun).filter(|_| is_time_out) {
                                    Some(stood) => lock(late).push(format!("{stood:?}: {error}")),
                                    None => lock(failures).push(error),
                                }
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    disturb();
                }
            });
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    pulse.beat();
                }
            });
            for player in players {
                player.join().expect("it plays");
            }
            has_ended.store(true, Ordering::Relaxed);
        });
        let mut failures = failures.into_inner().unwrap_or_default();
        let late = late.into_inner().unwrap_or_default();
        let played = played.into_inner().unwrap_or_default();
        if late.len() as u64 > 1 + played.count / LATE_ONE_OF {
            failures.extend(late.iter().cloned());
        }
        self.note(&played, &failures, &late, begun.elapsed());
        assert!(
            failures.is_empty(),
            "{} of {}:\n{}",
            failures.len(),
            played.count,
            failures.join("\n")
        );
        println!("{} conversations", played.count);
    }

    /// Writes a report of the run if the environment names a folder.
    fn note(&self, played: &Played, failures: &[String], late: &[String], took: Duration) {
        let Ok(folder) = std::env::var("FERMATA_TEST_RESULTS") else {
            return;
        };
        let result = json!({
            "test": self.name,
            "seed": self.seed,
            "seconds": took.as_secs(),
            "conversations": played.count,
            "by_tls": played.by_tls,
            "by_kind_fault_and_leaving": played.counts,
            "failures": failures,
            "late": late,
        });
        let file = Path::new(&folder).join(format!("{}.json", self.name));
        std::fs::write(file, format!("{result:#}\n")).expect("a folder for results");
    }
}

/// Numbers of conversations by kind.
#[derive(Default)]
struct Played {
    count: u64,
    by_tls: u64,
    counts: BTreeMap<String, BTreeMap<String, BTreeMap<String, u64>>>,
}

impl Played {
    fn add(&mut self, plan: &Plan) {
        self.count += 1;
        self.by_tls += u64::from(plan.is_tls);
        let kind = self.counts.entry(word(&plan.kind)).or_default();
        let fault = kind.entry(plan.fault.word()).or_default();
        *fault.entry(word(&plan.leaving)).or_default() += 1;
    }
}

fn word(of: &dyn Debug) -> String {
    format!("{of:?}").to_ascii_lowercase()
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn nothing_is_left_of_any_conversation() {
    let run = Run::new("conversations", seconds(), true);
    let bench = Bench::start(&[&QUICK_FAILURES[..], &["--workers", "2"]].concat());
    bench.settle(usize::MAX, &"nobody");
    let descriptors = bench.descriptors() + 8;
    let turn = AtomicUsize::new(1);
    run.play(&bench, || {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        bench.reload(turn);
        if turn.is_multiple_of(4) {
            bench.exchange_certificate(turn / 4);
        }
        bench.own.publish("c", "news");
        thread::sleep(Duration::from_millis(250));
    });
    bench.settle(descriptors, &"conversations");
}

#[test]
fn nothing_is_left_when_workers_are_killed() {
    let run = Run::new("killed", seconds(), false);
    let bench = Bench::start(&[&QUICK_FAILURES[..], &["--workers", "2"]].concat());
    bench.settle(usize::MAX, &"nobody");
    let descriptors = bench.descriptors() + 8;
    let turn = AtomicUsize::new(0);
    run.play(&bench, || {
        thread::sleep(Duration::from_millis(1_500));
        let workers = bench.own.workers();
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        bench.reload(turn);
        if let Some(&pid) = workers.get(turn % workers.len().max(1)) {
            send_signal(pid, Signal::Kill);
        }
    });
    wait_until("both workers are there", || {
        (bench.own.workers().len() >= 2).then_some(())
    });
    bench.settle(descriptors, &"conversations");
}

/// Four clients of a kind, two of them over TLS, that wait without receiving anything.
struct Waiting {
    plans: Vec<(Plan, Link)>,
}

impl Waiting {
    fn open(bench: &Bench, kind: Kind) -> Self {
        let plans = (0..4).map(|number| Plan {
            kind,
            fault: match kind {
                // The edge holds these clients or their open sockets.
                Kind::Poll | Kind::Stream | Kind::Filtered | Kind::Link => Fault::Quick,
                Kind::Socket | Kind::Over | Kind::SockJs => Fault::Quick,
                _ => Fault::Never,
            },
            leaving: Leaving::Stays,
            is_tls: number % 2 == 1,
            after: Duration::ZERO,
            number,
        });
        let open = |plan: Plan| {
            let mut link = plan.open(bench.ports()).expect("it listens");
            link.write_all(&plan.request()).expect("a request");
            if kind == Kind::SockJs {
                // The first request opens the session, and the second one waits.
                let mut opened = Vec::new();
                while !opened.ends_with(b"\r\n\r\no\n") {
                    let mut more = [0; 4096];
                    let read = link.read(&mut more).expect("an answer");
                    assert!(read > 0, "{}", opened.escape_ascii());
                    opened.extend_from_slice(&more[..read]);
                }
                link.write_all(&plan.request()).expect("a request");
            }
            for piece in plan.pieces() {
                // After a long standstill the upload may have timed out.
                let _ = link.write_all(&piece);
            }
            (plan, link)
        };
        Self {
            plans: plans.map(open).collect(),
        }
    }

    /// Waits until every connection is closed, whatever bytes it receives before.
    fn wait_for_end(self) {
        for (plan, mut link) in self.plans {
            assert!(read_to_end(&mut link).is_some(), "{plan:?} stays");
        }
    }
}

#[test]
fn a_reload_ends_no_conversation_and_a_killed_worker_leaves_none() {
    let slow = ["--sockjs-linger-ms", "500", "--subscription-linger-ms", "1"];
    let bench = Bench::start(&[&slow[..], &["--workers", "1"]].concat());
    bench.settle(usize::MAX, &"nobody");
    let descriptors = bench.descriptors() + 8;
    // Client connections and SockJS sessions.
    let connections = || -> u64 {
        let figures = bench.own.figures("fermata_connections{");
        let clients = figures.iter().filter(|(name, _)| !name.contains("control"));
        clients.map(|(_, value)| value).sum()
    };
    let all_there = |kind| match kind {
        Kind::SockJs => 8,
        _ => 4,
    };
    for (serial, kind) in KINDS.into_iter().enumerate() {
        // A long poll gets its response after a second, and the edge closes a client whose link
        // fails.
        let stays = !matches!(kind, Kind::Poll | Kind::Next | Kind::Link);
        let waiting = Waiting::open(&bench, kind);
        let count = all_there(kind);
        wait_until("all are there", || (connections() >= count).then_some(()));
        bench.reload(serial);
        bench.exchange_certificate(serial);
        bench.own.publish("c", "news");
        thread::sleep(Duration::from_millis(300));
        if stays {
            assert_eq!(connections(), count, "{kind:?} after a reload");
        }
        drop(waiting);
        bench.settle(descriptors, &kind);
        let waiting = Waiting::open(&bench, kind);
        wait_until("all are there", || (connections() >= count).then_some(()));
        let worker = bench.own.workers()[0];
        send_signal(worker, Signal::Kill);
        waiting.wait_for_end();
        wait_until("another worker serves", || {
            let workers = bench.own.workers();
            let is_there = workers.first().is_some_and(|&pid| pid != worker);
            (is_there && Link::open(bench.tls, false).is_ok()).then_some(())
        });
        bench.settle(descriptors, &kind);
    }
}

#[test]
fn an_edge_that_stops_ends_every_conversation() {
    let mut bench = Bench::start(&[&QUICK_FAILURES[..], &["--workers", "2"]].concat());
    let waiting: Vec<_> = KINDS
        .into_iter()
        .map(|kind| Waiting::open(&bench, kind))
        .collect();
    let plan = Plan {
        kind: Kind::Plain,
        fault: Fault::Slow,
        leaving: Leaving::Stays,
        is_tls: false,
        after: Duration::ZERO,
        number: 1_000,
    };
    let mut answered = plan.open(bench.ports()).expect("it listens");
    answered.write_all(&plan.request()).expect("a request");
    wait_until("it is asked", || {
        bench.backend.has_been_asked(&plan.path()).then_some(())
    });
    bench.own.signal("-TERM");
    // Requests that complete before the deadline of the drain receive their response.
    plan.stay(answered, true).expect("an answer");
    for waiting in waiting {
        waiting.wait_for_end();
    }
    wait_until("it has ended", || bench.own.has_ended().then_some(()));
}

#[test]
fn an_edge_that_stops_waits_for_nobody_who_has_left() {
    let run = Run::new("stopped", 2, false);
    let mut bench = Bench::start(&[&QUICK_FAILURES[..], &["--workers", "2"]].concat());
    run.play(&bench, || thread::sleep(Duration::from_millis(100)));
    bench.own.signal("-TERM");
    wait_until("it has ended", || bench.own.has_ended().then_some(()));
}
