//! A backend that fails as specified by the path of a request, `/KIND/FAULT/NUMBER`, over HTTP,
//! FastCGI and ZHTTP.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fermata_grip::value::{Value, map};
use fermata_grip::zmtp::Socket as Role;
use fermata_testkit::reset_on_close;

use crate::origin::{Origin, Reply, Request, answer};
use crate::socket;
use crate::zmq::Zmq;

/// Delay of a slow response.
pub const SLOW: Duration = Duration::from_millis(300);
/// Time for which a connection without a request stays open.
const PATIENCE: Duration = Duration::from_millis(500);
/// Size larger than all buffers between backend and client.
const LARGE_BYTES: usize = 12 * 1024 * 1024;
/// Number of clients, counted from the first one, whose disconnect is always reported.
const HEARD_MAX: usize = 100;
/// FastCGI record types that the backend uses.
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

type Headers = Vec<(&'static str, String)>;

/// Fault of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Quick,
    Slow,
    /// The connection closes without a byte.
    Dying,
    /// The connection closes in the middle.
    Early,
    /// The connection is reset in the middle.
    Reset,
    /// No more bytes follow after the middle.
    Still,
    /// No bytes are sent.
    Never,
}

impl Fault {
    pub const ALL: [Fault; 7] = [
        Fault::Quick,
        Fault::Slow,
        Fault::Dying,
        Fault::Early,
        Fault::Reset,
        Fault::Still,
        Fault::Never,
    ];

    /// Returns true if the client receives a response.
    pub fn answers(self) -> bool {
        matches!(self, Fault::Quick | Fault::Slow)
    }

    fn of(target: &str) -> Fault {
        let word = target.split(['/', '?']).nth(2).unwrap_or_default();
        let found = Fault::ALL.into_iter().find(|it| it.word() == word);
        found.unwrap_or(Fault::Quick)
    }

    pub fn word(self) -> String {
        format!("{self:?}").to_ascii_lowercase()
    }

    /// Returns a response with this fault.
    fn reply(self, headers: &[(&'static str, String)], body: Vec<u8>) -> Reply {
        let bytes = answer(200, headers, &body, false);
        match self {
            Fault::Quick => Reply::Answer(200, headers.to_vec(), body),
            Fault::Slow => {
                thread::sleep(SLOW);
                Reply::Answer(200, headers.to_vec(), body)
            }
            fault => Reply::Take(Box::new(move |stream| fault.fail(stream, &bytes))),
        }
    }

    /// Sends as many bytes as the fault allows.
    fn fail(self, mut stream: TcpStream, bytes: &[u8]) {
        let _ = stream.set_read_timeout(None);
        let half = &bytes[..bytes.len() / 2];
        match self {
            Fault::Quick | Fault::Slow => {
                let _ = stream.write_all(bytes);
            }
            Fault::Dying => {}
            Fault::Early => {
                let _ = stream.write_all(half);
            }
            Fault::Reset => {
                let _ = stream.write_all(half);
                reset_on_close(&stream);
                return;
            }
            Fault::Still => {
                let _ = stream.write_all(half);
                until_end(&mut stream);
            }
            Fault::Never => until_end(&mut stream),
        }
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

fn until_end(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|len| len > 0) {}
}

/// The backend. It serves until the process exits. Its ZHTTP ports close when the value is dropped.
pub struct Failing {
    origin: Origin,
    pub http: u16,
    pub fastcgi: u16,
    has_ended: Arc<AtomicBool>,
}

impl Drop for Failing {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }
}

impl Failing {
    pub fn start() -> Self {
        let origin = Origin::start_impatient(PATIENCE);
        let headers = |list: &[(&'static str, &str)]| -> Headers {
            list.iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect()
        };
        let plain = headers(&[("Content-Type", "text/plain")]);
        let bodies: [(&str, Headers, usize); 7] = [
            ("plain", plain.clone(), 2_000),
            ("large", plain.clone(), LARGE_BYTES),
            ("upload", plain.clone(), 2_000),
            ("jsonp", plain.clone(), 2_000),
            (
                "poll",
                headers(&[
                    ("Grip-Hold", "response"),
                    ("Grip-Channel", "c"),
                    ("Grip-Timeout", "1"),
                    ("Grip-Link", "</gone/quick/0>; rel=gone"),
                ]),
                2_000,
            ),
            (
                "stream",
                headers(&[("Grip-Hold", "stream"), ("Grip-Channel", "c")]),
                2_000,
            ),
            // Notifications about disconnected clients also receive a response.
            ("gone", Vec::new(), 0),
        ];
        for (kind, headers, bytes) in bodies {
            origin.on(kind, move |request| {
                let fault = Fault::of(&request.target);
                fault.reply(&headers, vec![b'x'; bytes])
            });
        }
        origin.on("filtered", filtered);
        for kind in ["link", "next"] {
            origin.on(kind, move |request| linked(kind, request));
        }
        origin.on("linked", |request| {
            let fault = Fault::of(&request.target);
            fault.reply(&[], vec![b'y'; 2_000])
        });
        origin.on("ws", on_socket);
        origin.on("over", on_events);
        let fastcgi = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = fastcgi.local_addr().expect("bound").port();
        thread::spawn(move || {
            for stream in fastcgi.incoming().flatten() {
                thread::spawn(move || serve_fastcgi(stream));
            }
        });
        Self {
            http: origin.port(),
            origin,
            fastcgi: port,
            has_ended: Arc::default(),
        }
    }

    /// Returns true if an HTTP request for this path was received.
    pub fn has_been_asked(&self, path: &str) -> bool {
        let kind = path.split('/').nth(1).unwrap_or_default();
        self.origin.seen(kind).iter().any(|it| it.target == path)
    }

    /// Serves the edge's ZHTTP requests at a separate port, and reconnects when the edge restarts.
    pub fn serve_zhttp(&self, port: u16) {
        let has_ended = Arc::clone(&self.has_ended);
        thread::spawn(move || {
            while !has_ended.load(Ordering::SeqCst) {
                let is_there = TcpStream::connect(("127.0.0.1", port)).is_ok();
                let serve = || {
                    let mut socket = Zmq::tcp(port, Role::Rep);
                    loop {
                        socket.answer_or_not(zhttp);
                    }
                };
                // Panics when its connection closes.
                if !is_there || catch_unwind(AssertUnwindSafe(serve)).is_err() {
                    thread::sleep(Duration::from_millis(20));
                }
            }
        });
    }
}

/// Holds a client with a filter that requests a decision for every item, without notification of
/// disconnects.
fn filtered(request: &Request) -> Reply {
    let number = request.target.rsplit('/').next();
    let number: usize = number.and_then(|it| it.parse().ok()).unwrap_or_default();
    let gone = match number {
        0..HEARD_MAX => Fault::Quick,
        _ => Fault::ALL[number % Fault::ALL.len()],
    };
    let link = format!("</gone/{}/0>; rel=gone", gone.word());
    let headers = [
        ("Grip-Hold", "stream"),
        ("Grip-Channel", "c; filter=skip-users"),
        ("Grip-Set-Meta", "user=me"),
        ("Grip-Link", &link),
    ];
    let headers = headers.map(|(name, value)| (name, value.to_owned()));
    Fault::of(&request.target).reply(&headers, vec![b'x'; 2_000])
}

/// `link` holds the client and polls the link every second; `next` requests it immediately. The
/// fault applies to the link's response.
fn linked(kind: &str, request: &Request) -> Reply {
    let fault = Fault::of(&request.target).word();
    let link = format!("</linked/{fault}/0>; rel=next; timeout=1");
    let mut headers = vec![("Grip-Link", link)];
    if kind == "link" {
        headers.push(("Grip-Hold", "stream".to_owned()));
        headers.push(("Grip-Channel", "c".to_owned()));
    }
    Fault::Quick.reply(&headers, vec![b'x'; 2_000])
}

/// A WebSocket echo that closes after the second message. Other faults apply to the handshake.
fn on_socket(request: &Request) -> Reply {
    let fault = Fault::of(&request.target);
    if fault == Fault::Slow {
        thread::sleep(SLOW);
    }
    if !fault.answers() {
        return fault.reply(&[], Vec::new());
    }
    socket::accept(request, "", |mut socket| {
        while let Some(frame) = socket.next() {
            match frame.close() {
                Some(_) => return,
                None => socket.send(frame.first, frame.payload),
            }
        }
    })
}

/// A WebSocket echo over HTTP requests.
fn on_events(request: &Request) -> Reply {
    let body = request.body.clone();
    let body = if body.starts_with(b"TEXT") || body.starts_with(b"OPEN") {
        body
    } else {
        Vec::new()
    };
    let events = ("Content-Type", "application/websocket-events".to_owned());
    let fault = Fault::of(&request.target);
    match fault {
        // Later events of a socket have a response only with some faults.
        fault if !body.starts_with(b"OPEN") && !fault.answers() => fault.reply(&[events], body),
        fault => fault.reply(&[events], body),
    }
}

fn zhttp(request: &Value) -> Option<Value> {
    let uri = match request.get("uri") {
        Some(Value::Bytes(uri)) => String::from_utf8_lossy(uri).into_owned(),
        _ => return None,
    };
    let path = uri.splitn(4, '/').nth(3).unwrap_or_default();
    let fault = Fault::of(&format!("/{path}"));
    if fault == Fault::Slow {
        thread::sleep(SLOW / 10);
    }
    fault.answers().then(|| {
        let body = Value::Bytes(vec![b'x'; 2_000]);
        map([("code", Value::Integer(200)), ("body", body)])
    })
}

/// Serves one FastCGI request.
fn serve_fastcgi(mut stream: TcpStream) {
    let mut params = Vec::new();
    loop {
        let Ok((kind, content)) = read_record(&mut stream) else {
            return;
        };
        match kind {
            PARAMS => params.extend_from_slice(&content),
            STDIN if content.is_empty() => break,
            _ => {}
        }
    }
    let params = String::from_utf8_lossy(&params).into_owned();
    let fault = match params.split_once("REQUEST_URI") {
        Some((_, rest)) => Fault::of(rest.split_whitespace().next().unwrap_or_default()),
        None => Fault::Dying,
    };
    let mut bytes = record(
        STDOUT,
        &[b"Status: 200\r\n\r\n", &[b'x'; 2_000][..]].concat(),
    );
    bytes.extend(record(STDOUT, b""));
    bytes.extend(record(END_REQUEST, &[0; 8]));
    if fault == Fault::Slow {
        thread::sleep(SLOW);
    }
    fault.fail(stream, &bytes);
}

fn read_record(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 8];
    stream.read_exact(&mut head)?;
    let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let mut content = vec![0; len + usize::from(head[6])];
    stream.read_exact(&mut content)?;
    content.truncate(len);
    Ok((head[1], content))
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let len = (content.len() as u16).to_be_bytes();
    let head = [1, kind, 0, 1, len[0], len[1], 0, 0];
    [&head, content].concat()
}
