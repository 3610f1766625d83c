//! Tests of FastCGI in a worker, between clients and a fake PHP-FPM, with a manual clock.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fermata_config::Settings;
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

/// All tests of this process share the clock.
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
        Rig::with(change, &Settings::default())
    }

    fn with(change: impl FnOnce(&mut Site), settings: &Settings) -> Rig {
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
            fastcgi: FastCgi::begin(sites, settings).expect("there is a site"),
            listener,
            path,
            log,
            _memory: memory,
            _clock: clock,
        }
    }

    /// Runs until no work is left at the current time.
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

    /// Connects a client that has sent these bytes.
    fn client(&mut self, bytes: impl AsRef<[u8]>) -> UnixStream {
        self.client_at(Peer::Unix, bytes)
    }

    fn client_at(&mut self, address: Peer, bytes: impl AsRef<[u8]>) -> UnixStream {
        let (mut ours, theirs) = UnixStream::pair().expect("descriptors");
        ours.set_nonblocking(true).expect("it is open");
        theirs.set_nonblocking(true).expect("it is open");
        self.worker.adopt(theirs.into_raw_fd(), address);
        ours.write_all(bytes.as_ref()).expect("it has room");
        self.run();
        ours
    }

    fn get(&mut self, path: &str) -> UnixStream {
        self.client(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
    }

    /// Returns the next connection to PHP-FPM.
    fn accept(&self) -> Option<UnixStream> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(true).expect("it is open");
        Some(stream)
    }

    /// Sends bytes from PHP-FPM.
    fn send_bytes(&mut self, to: &mut UnixStream, bytes: &[u8]) {
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

/// Reads all available bytes; true: the other end has closed the connection.
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

/// Returns the content of a kind of records.
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

/// Returns a response as PHP-FPM encodes it.
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
fn forwards_a_request_and_its_response() {
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
    rig.send_bytes(&mut fpm, &record(STDERR, b"a warning"));
    rig.send_bytes(
        &mut fpm,
        &answer("Status: 201 Made\r\nX-Own: 1\r\n\r\nmade"),
    );
    let got = text(&mut client);
    assert!(got.starts_with("HTTP/1.1 201 Made\r\n"), "{got}");
    assert!(
        got.contains("X-Own: 1\r\n") && got.ends_with("\r\n\r\nmade"),
        "{got}"
    );
    // The connection was for this request only.
    assert!(read(&mut fpm).1);
    assert!(rig.log().contains("FastCGI: a warning"), "{}", rig.log());
    assert_eq!(rig.count(Counter::FastCgiAnswered), 1);
    assert_eq!(rig.count(Counter::FastCgiRunningMs), 40);
    assert_eq!(rig.open(), (0, 0));
}

#[test]
fn accepts_a_response_in_any_pieces() {
    let whole = answer("Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello");
    let mut rig = Rig::new(|_| {});
    for len in 1..=whole.len() {
        let mut client = rig.get("/");
        let mut fpm = rig.accept().expect("a connection");
        for piece in whole.chunks(len) {
            rig.send_bytes(&mut fpm, piece);
        }
        let got = text(&mut client);
        let head = got.starts_with("HTTP/1.1 200 OK\r\n") && got.contains("Content-Length: 5\r\n");
        assert!(head && got.ends_with("\r\n\r\nhello"), "{len}: {got}");
    }
}

#[test]
fn logs_why_a_connection_ended_early() {
    let mut rig = Rig::new(|_| {});
    let mut client = rig.get("/");
    // Unread bytes would turn the close into a reset.
    read(&mut rig.accept().expect("a connection"));
    rig.run();
    assert!(text(&mut client).starts_with("HTTP/1.1 502 "));
    assert!(rig.log().contains("before the response"), "{}", rig.log());

    let mut client = rig.get("/");
    let mut fpm = rig.accept().expect("a connection");
    let head = record(STDOUT, b"Content-Type: text/plain\r\n\r\nthe beginning");
    rig.send_bytes(&mut fpm, &head);
    read(&mut fpm);
    drop(fpm);
    rig.run();
    let (got, has_ended) = read(&mut client);
    // The client detects that the rest is missing.
    assert!(has_ended && !got.ends_with(b"0\r\n\r\n"));
    assert!(rig.log().contains("within the response"), "{}", rig.log());

    let mut client = rig.get("/");
    let mut fpm = rig.accept().expect("a connection");
    rig.send_bytes(&mut fpm, b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert!(text(&mut client).starts_with("HTTP/1.1 502 "));
    assert_eq!(rig.count(Counter::FastCgiFailed), 3);
    assert_eq!(rig.open(), (0, 0));
}

#[test]
fn requests_wait_for_a_connection_in_order() {
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
    // A client that leaves frees its position in the queue.
    drop(third);
    rig.run();
    let mut fifth = rig.get("/5");
    rig.advance(100);
    rig.send_bytes(&mut fpm, &answer(HELLO));
    assert!(text(&mut first).ends_with("hello"));
    for (client, path) in [(&mut second, "/2"), (&mut fifth, "/5")] {
        let mut fpm = rig.accept().expect("the next connection");
        let params = content(&read(&mut fpm).0, PARAMS);
        let uri = format!("REQUEST_URI{path}");
        assert!(params.windows(uri.len()).any(|it| it == uri.as_bytes()));
        rig.send_bytes(&mut fpm, &answer(HELLO));
        assert!(text(client).ends_with("hello"));
    }
    assert_eq!(rig.count(Counter::FastCgiAnswered), 3);
    assert_eq!(rig.count(Counter::FastCgiQueueFull), 1);
    assert_eq!(rig.count(Counter::FastCgiLeft), 1);
    // The time of the second and the fifth; the third ended before.
    assert_eq!(rig.count(Counter::FastCgiQueuedMs), 200);
    assert_eq!(rig.open(), (0, 0));
}

#[test]
fn times_out_after_the_silence_of_the_site() {
    let mut rig = Rig::new(|site| site.connections_max = 1);
    let mut running = rig.get("/1");
    let mut fpm = rig.accept().expect("a connection");
    let mut waiting = rig.get("/2");
    rig.advance(TIMEOUT_MS - 1);
    // PHP-FPM is not silent.
    rig.send_bytes(&mut fpm, &record(STDERR, b"still at it"));
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
    // The closed connection notifies PHP-FPM.
    assert!(read(&mut fpm).1);
    assert_eq!(rig.count(Counter::FastCgiTimedOut), 2);
}

#[test]
fn closes_the_php_fpm_connection_of_a_departed_client() {
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
        rig.send_bytes(&mut fpm, &answer(HELLO));
        assert!(text(&mut client).ends_with("hello"));
        client = rig.get(path);
        assert!(rig.accept().is_none());
    }
    // The server closes the connection before it responds, so the request is repeated on another connection.
    read(&mut fpm);
    drop(fpm);
    rig.run();
    let mut fpm = rig.accept().expect("another connection");
    rig.send_bytes(&mut fpm, &answer(HELLO));
    assert!(text(&mut client).ends_with("hello"));
    rig.advance(KEEP_MS - 1);
    assert!(!read(&mut fpm).1);
    rig.advance(1);
    assert!(read(&mut fpm).1);
    assert_eq!(rig.count(Counter::FastCgiAnswered), 3);
}

const PIECE: usize = 60_000;
const PIECES: usize = 100;

/// Makes PHP-FPM send a response of `PIECES` to a client that reads when nothing else moves. Returns true if that was
/// before PHP-FPM had sent everything.
fn waits_for_client(settings: &Settings) -> bool {
    let mut rig = Rig::with(|_| {}, settings);
    let mut client = rig.get("/");
    let mut fpm = rig.accept().expect("a connection");
    rig.send_bytes(
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
            Err(_) => {
                held_back = true;
                let (bytes, _) = read(&mut client);
                assert!(!bytes.is_empty());
                got += bytes.len();
            }
        }
        rig.run();
    }
    rig.send_bytes(&mut fpm, &record(END, &[0; 8]));
    if !held_back {
        assert!(read(&mut fpm).1, "its connection is closed");
    }
    loop {
        let (bytes, _) = read(&mut client);
        got += bytes.len();
        if bytes.ends_with(b"0\r\n\r\n") {
            break;
        }
        assert!(!bytes.is_empty());
        rig.run();
    }
    assert!(got > PIECE * PIECES);
    assert_eq!(rig.count(Counter::FastCgiAnswered), 1);
    held_back
}

#[test]
fn php_fpm_finishes_while_a_client_reads_slowly() {
    assert!(!waits_for_client(&Settings::default()));
}

#[test]
fn php_fpm_waits_for_a_client_when_its_spool_has_no_room() {
    let settings = Settings {
        response_spool_bytes_max: (PIECE * PIECES / 2) as u64,
        ..Settings::default()
    };
    assert!(waits_for_client(&settings));
}

#[test]
fn requests_of_silent_clients_free_connections_and_queue_slots() {
    const SILENT: usize = 20;
    let mut rig = Rig::new(|_| {});
    let mut clients = Vec::new();
    for _ in 0..SILENT {
        clients.push(rig.get("/"));
        let mut fpm = rig.accept().expect("a connection is free");
        rig.send_bytes(&mut fpm, &record(STDOUT, b"Status: 200\r\n\r\n"));
        for _ in 0..20 {
            rig.send_bytes(&mut fpm, &record(STDOUT, &[b'x'; PIECE]));
        }
        rig.send_bytes(&mut fpm, &record(END, &[0; 8]));
    }
    rig.advance(TIMEOUT_MS / 2);
    for client in &mut clients {
        let mut got = 0;
        loop {
            let (bytes, has_ended) = read(client);
            got += bytes.len();
            rig.run();
            if bytes.ends_with(b"0\r\n\r\n") {
                break;
            }
            assert!(!has_ended);
        }
        assert!(got > 20 * PIECE);
    }
    assert_eq!(rig.count(Counter::FastCgiAnswered), SILENT as u64);
}

/// Clients of one address. PHP-FPM sends each a response without end, which exceeds the spool's room.
struct Crowd {
    rig: Rig,
    clients: Vec<UnixStream>,
    /// Connections to PHP-FPM, each with the rest of the record that it sends.
    fpm: Vec<(UnixStream, Vec<u8>)>,
}

impl Crowd {
    fn new(clients: usize) -> Crowd {
        let settings = Settings {
            response_spool_bytes_max: 0,
            response_waits_per_address_max: 1,
            ..Settings::default()
        };
        let many = |site: &mut Site| site.connections_max = clients as u32;
        let mut crowd = Crowd {
            rig: Rig::with(many, &settings),
            clients: Vec::new(),
            fpm: Vec::new(),
        };
        for port in 0..clients {
            let address = Peer::V4([192, 0, 2, 1].into(), port as u16);
            let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
            crowd.clients.push(crowd.rig.client_at(address, request));
            let mut fpm = crowd.rig.accept().expect("a connection is free");
            crowd
                .rig
                .send_bytes(&mut fpm, &record(STDOUT, b"Status: 200\r\n\r\n"));
            crowd.fpm.push((fpm, Vec::new()));
        }
        crowd.send();
        crowd
    }

    /// PHP-FPM sends as many bytes as the worker reads.
    fn send(&mut self) {
        for (fpm, rest) in &mut self.fpm {
            loop {
                if rest.is_empty() {
                    rest.extend(record(STDOUT, &[b'x'; PIECE]));
                }
                let Ok(len) = fpm.write(rest) else { break };
                rest.drain(..len);
                self.rig.run();
            }
        }
    }

    /// Clients that have not been cut off.
    fn open(&mut self) -> usize {
        let cut = self.rig.log().matches("client cut off").count();
        self.clients.len() - cut
    }
}

#[test]
fn cuts_off_no_client_of_an_address_that_reads() {
    let mut crowd = Crowd::new(3);
    let mut got = [0; 3];
    for _ in 0..40 {
        for (nth, client) in crowd.clients.iter_mut().enumerate() {
            // A Unix socket frees whole writes.
            let mut piece = [0; 40_000];
            got[nth] += client.read(&mut piece).expect("its response goes on");
        }
        crowd.rig.advance(500);
        crowd.send();
    }
    assert_eq!(crowd.open(), 3, "{}", crowd.rig.log());
    assert!(got.iter().all(|&it| it > 1_000_000), "{got:?}");
}

#[test]
fn cuts_off_clients_of_an_address_that_hold_connections_and_read_nothing() {
    let mut crowd = Crowd::new(4);
    assert_eq!(crowd.open(), 4);
    for _ in 0..8 {
        let mut piece = [0; 40_000];
        let _ = crowd.clients[0].read(&mut piece).expect("it goes on");
        crowd.rig.advance(500);
    }
    assert_eq!(crowd.open(), 1);
    assert!(!read(&mut crowd.clients[0]).1, "the one that reads stays");
    assert_eq!(crowd.rig.open(), (1, 0));
}
