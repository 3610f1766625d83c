//! The part beside a worker, between clients and a PHP-FPM that the test plays, on a clock that stands still.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fermata_engine::stats::{Counter, Gauge};
use fermata_engine::{Memory, Server, Worker};
use fermata_io::{Kernel, Peer, clock};
use fermata_tls::Tls;

use crate::{FastCgi, Site, add};

const END: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

const TIMEOUT_MS: u64 = 30_000;
const KEEP_MS: u64 = 5_000;

/// The clock is one for all tests of this process.
static CLOCK: Mutex<()> = Mutex::new(());

struct Rig {
    worker: Worker<Tls<Kernel>>,
    fastcgi: Box<FastCgi>,
    listener: UnixListener,
    path: PathBuf,
    log: PathBuf,
    _memory: Memory,
    _clock: MutexGuard<'static, ()>,
}

impl Rig {
    fn new(change: impl FnOnce(&mut Site)) -> Rig {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("fermata-fastcgi-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(format!("{name}.sock"));
        let log = std::env::temp_dir().join(format!("{name}.log"));
        let listener = UnixListener::bind(&path).expect("a name of its own");
        listener.set_nonblocking(true).expect("it is open");
        let mut site = Site {
            prefix: "/".to_owned(),
            socket: path.to_str().expect("a plain path").to_owned(),
            root: "/srv".to_owned(),
            index: Some("index.php".to_owned()),
            has_files: false,
            streams_body: false,
            body_bytes_max: None,
            connections_max: 2,
            queue_max: 2,
            timeout_ms: TIMEOUT_MS,
            keep_ms: 0,
        };
        change(&mut site);
        let (mut sites, mut server) = (Vec::new(), Server::new());
        add(&mut sites, &mut server, site).expect("a site");
        let file = File::create(&log).expect("a file");
        let (worker, memory) = server.start_in_process(file).expect("a worker");
        Rig {
            worker,
            fastcgi: FastCgi::begin(sites).expect("there is a site"),
            listener,
            path,
            log,
            _memory: memory,
            _clock: clock,
        }
    }

    /// Runs until nothing is left to do at this moment.
    fn run(&mut self) {
        loop {
            self.worker.waiting.wake_at(self.fastcgi.due());
            let Some(event) = self.worker.next_event_within(Duration::ZERO) else {
                return;
            };
            self.fastcgi.handle(&mut self.worker, event);
        }
    }

    fn advance(&mut self, ms: u64) {
        clock::advance_ms(ms);
        self.run();
    }

    /// A client that has sent this.
    fn client(&mut self, bytes: impl AsRef<[u8]>) -> UnixStream {
        let (mut ours, theirs) = UnixStream::pair().expect("descriptors");
        ours.set_nonblocking(true).expect("it is open");
        theirs.set_nonblocking(true).expect("it is open");
        self.worker.adopt(theirs.into_raw_fd(), Peer::Unix);
        ours.write_all(bytes.as_ref()).expect("it has room");
        self.run();
        ours
    }

    fn get(&mut self, path: &str) -> UnixStream {
        self.client(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
    }

    /// The next connection to PHP-FPM, and what has come over it.
    fn accept(&self) -> Option<UnixStream> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(true).expect("it is open");
        Some(stream)
    }

    /// PHP-FPM says this.
    fn say(&mut self, to: &mut UnixStream, bytes: &[u8]) {
        to.write_all(bytes).expect("it has room");
        self.run();
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }

    fn count(&mut self, counter: Counter) -> u64 {
        self.worker.figures().total.counter(counter)
    }

    fn open(&mut self) -> (u64, u64) {
        let total = self.worker.figures().total;
        let gauge = |it| total.gauge(it);
        (gauge(Gauge::FastCgiRunning), gauge(Gauge::FastCgiQueued))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for path in [&self.path, &self.log] {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// All that has come by now; whether the other side has ended the connection.
fn read(stream: &mut UnixStream) -> (Vec<u8>, bool) {
    let (mut all, mut piece) = (Vec::new(), [0; 65_536]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return (all, true),
            Ok(len) => all.extend_from_slice(&piece[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (all, false),
            Err(_) => return (all, true),
        }
    }
}

#[track_caller]
fn text(stream: &mut UnixStream) -> String {
    String::from_utf8(read(stream).0).expect("text")
}

/// The content of a kind of records.
fn content(mut bytes: &[u8], kind: u8) -> Vec<u8> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
        if head[1] == kind {
            found.extend_from_slice(&rest[..len]);
        }
        bytes = &rest[len + usize::from(head[6])..];
    }
    found
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let len = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, len[0], len[1], 0, 0][..], content].concat()
}

/// An answer as PHP-FPM gives it.
fn answer(content: &str) -> Vec<u8> {
    [
        record(STDOUT, content.as_bytes()),
        record(STDOUT, b""),
        record(END, &[0; 8]),
    ]
    .concat()
}

const HELLO: &str = "Content-Type: text/plain\r\n\r\nhello";

#[test]
fn a_request_is_asked_and_its_answer_given() {
    let mut rig = Rig::new(|_| {});
    let mut client = rig.client("POST /a?b=c HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    let mut fpm = rig.accept().expect("a connection");
    let (asked, _) = read(&mut fpm);
    let params = content(&asked, PARAMS);
    for part in [
        &b"SCRIPT_FILENAME/srv/index.php"[..],
        b"REQUEST_URI/a?b=c",
        b"CONTENT_LENGTH4",
    ] {
        let is_there = params.windows(part.len()).any(|it| it == part);
        assert!(is_there, "{}", String::from_utf8_lossy(&params));
    }
    assert_eq!(content(&asked, STDIN), b"body");
    assert_eq!(rig.open(), (1, 0));
    rig.advance(40);
    rig.say(&mut fpm, &record(STDERR, b"a warning"));
    rig.say(
        &mut fpm,
        &answer("Status: 201 Made\r\nX-Own: 1\r\n\r\nmade"),
    );
    let got = text(&mut client);
    assert!(got.starts_with("HTTP/1.1 201 Made\r\n"), "{got}");
    assert!(
        got.contains("X-Own: 1\r\n") && got.ends_with("\r\n\r\nmade"),
        "{got}"
    );
    // The connection was for this request alone.
    assert!(read(&mut fpm).1);
    assert!(rig.log().contains("FastCGI: a warning"), "{}", rig.log());
    assert_eq!(rig.count(Counter::FastCgiAnswered), 1);
    assert_eq!(rig.count(Counter::FastCgiRunningMs), 40);
    assert_eq!(rig.open(), (0, 0));
}

#[test]
fn an_answer_may_come_in_any_pieces() {
    let whole = answer("Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello");
    let mut rig = Rig::new(|_| {});
    for len in 1..=whole.len() {
        let mut client = rig.get("/");
        let mut fpm = rig.accept().expect("a connection");
        for piece in whole.chunks(len) {
            rig.say(&mut fpm, piece);
        }
        let got = text(&mut client);
        let head = got.starts_with("HTTP/1.1 200 OK\r\n") && got.contains("Content-Length: 5\r\n");
        assert!(head && got.ends_with("\r\n\r\nhello"), "{len}: {got}");
    }
}

#[test]
fn a_connection_that_ends_too_soon_is_told_by_its_cause() {
    let mut rig = Rig::new(|_| {});
    let mut client = rig.get("/");
    // What was not read would make it a reset.
    read(&mut rig.accept().expect("a connection"));
    rig.run();
    assert!(text(&mut client).starts_with("HTTP/1.1 502 "));
    assert!(rig.log().contains("before the response"), "{}", rig.log());

    let mut client = rig.get("/");
    let mut fpm = rig.accept().expect("a connection");
    let head = record(STDOUT, b"Content-Type: text/plain\r\n\r\nthe beginning");
    rig.say(&mut fpm, &head);
    read(&mut fpm);
    drop(fpm);
    rig.run();
    let (got, has_ended) = read(&mut client);
    // The client sees that the rest is missing.
    assert!(has_ended && !got.ends_with(b"0\r\n\r\n"));
    assert!(rig.log().contains("within the response"), "{}", rig.log());

    let mut client = rig.get("/");
    let mut fpm = rig.accept().expect("a connection");
    rig.say(&mut fpm, b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert!(text(&mut client).starts_with("HTTP/1.1 502 "));
    assert_eq!(rig.count(Counter::FastCgiFailed), 3);
    assert_eq!(rig.open(), (0, 0));
}

#[test]
fn requests_wait_for_a_connection_in_their_order() {
    let mut rig = Rig::new(|site| site.connections_max = 1);
    let mut first = rig.get("/1");
    let mut fpm = rig.accept().expect("a connection");
    let mut second = rig.get("/2");
    let third = rig.get("/3");
    assert!(rig.accept().is_none());
    assert_eq!(rig.open(), (1, 2));
    assert!(text(&mut rig.get("/4")).starts_with("HTTP/1.1 503 "));
    assert!(
        rig.log().contains("2 requests wait already (queue)"),
        "{}",
        rig.log()
    );
    // A client that leaves the queue leaves its place to another.
    drop(third);
    rig.run();
    let mut fifth = rig.get("/5");
    rig.advance(100);
    rig.say(&mut fpm, &answer(HELLO));
    assert!(text(&mut first).ends_with("hello"));
    for (client, path) in [(&mut second, "/2"), (&mut fifth, "/5")] {
        let mut fpm = rig.accept().expect("the next connection");
        let params = content(&read(&mut fpm).0, PARAMS);
        let uri = format!("REQUEST_URI{path}");
        assert!(params.windows(uri.len()).any(|it| it == uri.as_bytes()));
        rig.say(&mut fpm, &answer(HELLO));
        assert!(text(client).ends_with("hello"));
    }
    assert_eq!(rig.count(Counter::FastCgiAnswered), 3);
    assert_eq!(rig.count(Counter::FastCgiQueueFull), 1);
    assert_eq!(rig.count(Counter::FastCgiLeft), 1);
    // The second and the fifth; that of the third was over before.
    assert_eq!(rig.count(Counter::FastCgiQueuedMs), 200);
    assert_eq!(rig.open(), (0, 0));
}

#[test]
fn silence_is_borne_for_as_long_as_the_site_says() {
    let mut rig = Rig::new(|site| site.connections_max = 1);
    let mut running = rig.get("/1");
    let mut fpm = rig.accept().expect("a connection");
    let mut waiting = rig.get("/2");
    rig.advance(TIMEOUT_MS - 1);
    // It is not silent.
    rig.say(&mut fpm, &record(STDERR, b"still at it"));
    rig.advance(1);
    assert!(text(&mut waiting).starts_with("HTTP/1.1 504 "));
    assert!(
        rig.log().contains("no connection was free for 30 seconds"),
        "{}",
        rig.log()
    );
    assert_eq!(text(&mut running), "");
    rig.advance(TIMEOUT_MS - 2);
    assert_eq!(text(&mut running), "");
    rig.advance(1);
    assert!(text(&mut running).starts_with("HTTP/1.1 504 "));
    assert!(rig.log().contains("silent for 30 seconds"), "{}", rig.log());
    // PHP-FPM learns of it by the end of the connection.
    assert!(read(&mut fpm).1);
    assert_eq!(rig.count(Counter::FastCgiTimedOut), 2);
}

#[test]
fn a_client_that_leaves_ends_the_connection_to_php_fpm() {
    let mut rig = Rig::new(|_| {});
    let client = rig.get("/");
    let mut fpm = rig.accept().expect("a connection");
    read(&mut fpm);
    drop(client);
    rig.run();
    assert!(read(&mut fpm).1);
    assert_eq!(rig.count(Counter::FastCgiLeft), 1);
    assert_eq!(rig.open(), (0, 0));
}

#[test]
fn a_kept_connection_carries_the_next_request() {
    let mut rig = Rig::new(|site| site.keep_ms = KEEP_MS);
    let mut client = rig.get("/1");
    let mut fpm = rig.accept().expect("a connection");
    for path in ["/2", "/3"] {
        assert!(!read(&mut fpm).1);
        rig.say(&mut fpm, &answer(HELLO));
        assert!(text(&mut client).ends_with("hello"));
        client = rig.get(path);
        assert!(rig.accept().is_none());
    }
    // It is closed before it has said anything: the request is asked once more, on another.
    read(&mut fpm);
    drop(fpm);
    rig.run();
    let mut fpm = rig.accept().expect("another connection");
    rig.say(&mut fpm, &answer(HELLO));
    assert!(text(&mut client).ends_with("hello"));
    rig.advance(KEEP_MS - 1);
    assert!(!read(&mut fpm).1);
    rig.advance(1);
    assert!(read(&mut fpm).1);
    assert_eq!(rig.count(Counter::FastCgiAnswered), 3);
}

#[test]
fn a_client_that_reads_slowly_holds_back_php_fpm() {
    const PIECE: usize = 60_000;
    const PIECES: usize = 100;
    let mut rig = Rig::new(|_| {});
    let mut client = rig.get("/");
    let mut fpm = rig.accept().expect("a connection");
    rig.say(
        &mut fpm,
        &record(STDOUT, b"Content-Type: text/plain\r\n\r\n"),
    );
    let piece = record(STDOUT, &[b'x'; PIECE]);
    let (mut out, mut pieces, mut got, mut held_back) = (Vec::new(), 0, 0, false);
    while pieces < PIECES || !out.is_empty() {
        if out.is_empty() {
            out = piece.clone();
            pieces += 1;
        }
        match fpm.write(&out) {
            Ok(len) => drop(out.drain(..len)),
            // Nothing more is taken before the client reads.
            Err(_) => {
                held_back = true;
                let (bytes, _) = read(&mut client);
                assert!(!bytes.is_empty());
                got += bytes.len();
            }
        }
        rig.run();
    }
    rig.say(&mut fpm, &record(END, &[0; 8]));
    loop {
        let (bytes, _) = read(&mut client);
        got += bytes.len();
        if bytes.ends_with(b"0\r\n\r\n") {
            break;
        }
        assert!(!bytes.is_empty());
        rig.run();
    }
    assert!(held_back && got > PIECE * PIECES);
    assert_eq!(rig.count(Counter::FastCgiAnswered), 1);
}
