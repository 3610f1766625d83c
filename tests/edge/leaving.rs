//! Nobody's leaving costs a place: conversations of every kind, whose clients leave in every way while their backends fail
//! in every way, and in the end nothing of any of them is left.
//!
//! `FERMATA_TEST_SEED` repeats a run, `FERMATA_TEST_SECONDS` makes it longer.

use std::fmt::Debug;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::websocket::{TEXT, frame};
use fermata_testkit::{
    Directory, Random, Signal, deadline, free_port, reset_on_close, send_signal, wait_until,
};

use crate::client::Client;
use crate::failing::{Failing, Fault};
use crate::own::Own;

/// Conversations at a time.
const CLIENTS: usize = 24;
/// Until a client has left.
const LEAVES_WITHIN_MS: usize = 700;
/// How long conversations are begun, unless the environment says otherwise.
const SECONDS: u64 = 8;
/// More clients than the edge has places for.
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

/// How a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// It does not, before it has what it came for.
    Stays,
    Closes,
    Resets,
    /// It ends its side, and waits for the other to do the same.
    HalfCloses,
}

const LEAVINGS: [Leaving; 4] = [
    Leaving::Stays,
    Leaving::Closes,
    Leaving::Resets,
    Leaving::HalfCloses,
];

/// One client and what happens to it.
#[derive(Clone, Copy, Debug)]
struct Plan {
    kind: Kind,
    fault: Fault,
    leaving: Leaving,
    after: Duration,
    number: usize,
}

impl Plan {
    fn random(random: &mut Random, number: usize) -> Self {
        Self {
            kind: KINDS[random.within(0..KINDS.len())],
            fault: Fault::ALL[random.within(0..Fault::ALL.len())],
            leaving: LEAVINGS[random.within(0..LEAVINGS.len())],
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

    /// What an upload sends, piece by piece.
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

    /// Plays the client. The error says what the edge owes it.
    fn run(&self, port: u16) -> Result<(), String> {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
            return Err("it does not listen".into());
        };
        let _ = stream.set_nodelay(true);
        let begun = Instant::now();
        let mut is_sent = stream.write_all(&self.request()).is_ok();
        for piece in self.pieces() {
            if self.leaving != Leaving::Stays && begun.elapsed() > self.after {
                break;
            }
            is_sent &= stream.write_all(&piece).is_ok();
            thread::sleep(self.after / 20);
        }
        if self.leaving == Leaving::Stays {
            return self.stay(stream, is_sent);
        }
        // It reads what comes until it leaves, some of it.
        let mut buffer = [0; 16_384];
        let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
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
            Leaving::Stays | Leaving::Closes => Ok(()),
            Leaving::Resets => {
                reset_on_close(&stream);
                Ok(())
            }
            Leaving::HalfCloses => {
                let _ = stream.shutdown(Shutdown::Write);
                match read_to_end(&mut stream) {
                    Some(_) => Ok(()),
                    None => Err("its half-closed connection stays".into()),
                }
            }
        }
    }

    /// Waits for what it came for.
    fn stay(&self, mut stream: TcpStream, is_sent: bool) -> Result<(), String> {
        let is_held = matches!(
            self.kind,
            Kind::Stream | Kind::Filtered | Kind::Link | Kind::Socket | Kind::Over
        );
        // A link that fails is asked again for a while.
        let is_linked = matches!(self.kind, Kind::Link | Kind::Next);
        let is_held = is_held || self.kind == Kind::Next && !self.fault.answers();
        let mut got = Vec::new();
        let end = Instant::now() + deadline();
        let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
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

    /// Whether an answer is complete.
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

/// Reads all there is. `None`: it does not end.
fn read_to_end(stream: &mut TcpStream) -> Option<usize> {
    let mut buffer = [0; 65_536];
    let mut bytes = 0;
    let _ = stream.set_read_timeout(Some(deadline()));
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Some(bytes),
            Ok(len) => bytes += len,
            Err(error) if is_late(&error) => return None,
            Err(_) => return Some(bytes),
        }
    }
}

/// An edge in front of all these backends.
struct Bench {
    own: Own,
    backend: Failing,
    zhttp: u16,
}

impl Bench {
    fn start(arguments: &[&str]) -> Self {
        let (backend, zhttp, folder) = (Failing::start(), free_port(), Directory::new());
        folder.write("routes", Self::routes(&backend, zhttp, 0));
        let own = Own::start_in(folder, arguments);
        backend.serve_zhttp(zhttp);
        Self {
            own,
            backend,
            zhttp,
        }
    }

    /// The routes; `serial` makes others of the same.
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

    /// What is still there of conversations.
    fn rest(&self) -> Vec<(String, u64)> {
        let mut rest = self.own.figures("fermata_connections{");
        // Whoever asks is one.
        rest.retain(|(name, _)| !name.contains("control"));
        rest.extend(self.own.figures("fermata_edge_open{"));
        // Workers keep connections to each other for a minute.
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

    /// Waits until nothing is left of any conversation.
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

const QUICK_FAILURES: [&str; 10] = [
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
                // Their clients are held.
                Kind::Poll | Kind::Stream | Kind::Filtered | Kind::Link => Fault::Quick,
                _ => Fault::Never,
            };
            let after = Duration::from_millis(200);
            thread::scope(|scope| {
                let plans = (0..PLACES).map(|number| Plan {
                    kind,
                    fault,
                    leaving,
                    after,
                    number,
                });
                let port = bench.own.port;
                let running: Vec<_> = plans
                    .map(|plan| scope.spawn(move || plan.run(port)))
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

/// Plays clients for this long. `is_calm`: what a client gets is what its backend has said.
fn play(
    bench: &Bench,
    random: &mut Random,
    for_seconds: u64,
    is_calm: bool,
    disturb: impl Fn() + Sync,
) {
    let (count, has_ended) = (AtomicUsize::new(1), AtomicBool::new(false));
    let failures = Mutex::new(Vec::new());
    let end = Instant::now() + Duration::from_secs(for_seconds);
    let seeds: Vec<u64> = (0..CLIENTS).map(|_| random.bits()).collect();
    thread::scope(|scope| {
        let players: Vec<_> = seeds
            .into_iter()
            .map(|seed| {
                let (count, failures) = (&count, &failures);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    while Instant::now() < end {
                        let number = count.fetch_add(1, Ordering::Relaxed);
                        let plan = Plan::random(&mut random, number);
                        let outcome = plan.run(bench.own.port);
                        if let Err(error) = outcome
                            && is_calm
                        {
                            let mut failures =
                                failures.lock().unwrap_or_else(PoisonError::into_inner);
                            failures.push(format!("{plan:?}: {error}"));
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
        for player in players {
            player.join().expect("it plays");
        }
        has_ended.store(true, Ordering::Relaxed);
    });
    let failures = failures.into_inner().unwrap_or_default();
    let count = count.load(Ordering::Relaxed);
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n")
    );
    println!("{count} conversations");
}

#[test]
fn nothing_is_left_of_any_conversation() {
    let mut random = Random::from_environment();
    let bench = Bench::start(&[&QUICK_FAILURES[..], &["--workers", "2"]].concat());
    bench.settle(usize::MAX, &"nobody");
    let descriptors = bench.descriptors() + 8;
    let serial = AtomicUsize::new(1);
    play(&bench, &mut random, seconds(), true, || {
        bench.reload(serial.fetch_add(1, Ordering::Relaxed));
        bench.own.publish("c", "news");
        thread::sleep(Duration::from_millis(250));
    });
    bench.settle(descriptors, &"conversations");
}

#[test]
fn nothing_is_left_when_workers_are_killed() {
    let mut random = Random::from_environment();
    let bench = Bench::start(&[&QUICK_FAILURES[..], &["--workers", "2"]].concat());
    bench.settle(usize::MAX, &"nobody");
    let descriptors = bench.descriptors() + 8;
    let turn = AtomicUsize::new(0);
    play(&bench, &mut random, seconds(), false, || {
        thread::sleep(Duration::from_millis(1_500));
        let workers = bench.own.workers();
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        if let Some(&pid) = workers.get(turn % workers.len().max(1)) {
            send_signal(pid, Signal::Kill);
        }
    });
    wait_until("both workers are there", || {
        (bench.own.workers().len() >= 2).then_some(())
    });
    bench.settle(descriptors, &"conversations");
}

#[test]
fn an_edge_that_stops_waits_for_nobody_who_has_left() {
    let mut random = Random::from_environment();
    let mut bench = Bench::start(&[&QUICK_FAILURES[..], &["--workers", "2"]].concat());
    play(&bench, &mut random, 2, false, || {
        thread::sleep(Duration::from_millis(100));
    });
    bench.own.signal("-TERM");
    wait_until("it has ended", || bench.own.has_ended().then_some(()));
}
