//! Clients that never complete the start of a connection, at each kind of listener. They are
//! disconnected, and other clients are served.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::deadline;
use fermata_tests::fixture;

use crate::address_after;

/// Pause between two bytes. Sending all bytes would take longer than any of the time-outs.
const PAUSE: Duration = Duration::from_millis(20);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";

/// A client that sends these first bytes, and then the others one by one forever.
struct Slow {
    name: &'static str,
    first: Vec<u8>,
    then: u8,
    /// True if the client sends no byte after the first ones.
    is_silent: bool,
}

fn drips(name: &'static str, first: impl AsRef<[u8]>, then: u8) -> Slow {
    Slow {
        name,
        first: first.as_ref().to_vec(),
        then,
        is_silent: false,
    }
}

fn is_silent(name: &'static str, first: impl AsRef<[u8]>) -> Slow {
    Slow {
        is_silent: true,
        ..drips(name, first, 0)
    }
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Slow {
    /// Returns when the server has closed the connection.
    fn run(&self, mut stream: impl Stream) {
        stream.write_all(&self.first).expect("it is open");
        let mut answer = [0; 4096];
        let until = Instant::now() + deadline();
        loop {
            assert!(Instant::now() < until, "{} stays open", self.name);
            if !self.is_silent && stream.write_all(&[self.then]).is_err() {
                return;
            }
            match stream.read(&mut answer) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return,
            }
        }
    }

    fn run_at(&self, address: SocketAddr) {
        let stream =
            TcpStream::connect(address).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        stream.set_read_timeout(Some(PAUSE)).expect("not zero");
        self.run(stream);
    }
}

#[test]
fn clients_that_finish_no_handshake_are_closed_at_every_listener() {
    let builder = fixture("http");
    let control = builder.directory().join("control.sock");
    let listen = "http://127.0.0.1:0,http://127.0.0.2:0?proxy_protocol=on";
    let server = builder
        .setting("listen", listen)
        .setting("trusted_proxies", "127.0.0.1")
        .setting("metrics_listen", "http://127.0.0.1:0")
        .setting("control", format!("unix:{}", control.display()))
        .setting("header_timeout_ms", 1_000)
        .setting("idle_timeout_ms", 2_000)
        .workers(1)
        .start();
    let public = server.address();
    let proxied = address_after(&server, "and http://");
    let metrics = address_after(&server, "metrics and health at http://");
    let head = "GET /stats HTTP/1.1\r\nHost: a\r\nX: ";
    let upgrade = "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX: ";
    let headers = [PREFACE, SETTINGS, b"\0\x20\0\x01\x05\0\0\0\x01"].concat();
    let continuation = [
        PREFACE,
        SETTINGS,
        b"\0\0\x01\x01\x01\0\0\0\x01\x82\0\x20\0\x09\0\0\0\0\x01",
    ]
    .concat();
    let at_public = [
        is_silent("silent", ""),
        drips("head", head, b'x'),
        drips("upgrade of a WebSocket", upgrade, b'x'),
        drips("empty lines", "", b'\n'),
        is_silent("preface of HTTP/2 alone", PREFACE),
        is_silent("half of the preface of HTTP/2", &PREFACE[..18]),
        is_silent("SETTINGS alone", [PREFACE, SETTINGS].concat()),
        drips(
            "frame of SETTINGS",
            [PREFACE, b"\0\x3f\xc0\x04\0\0\0\0\0"].concat(),
            0,
        ),
        drips("frame of HEADERS", headers, 0x82),
        drips("frame of CONTINUATION", continuation, 0x82),
    ];
    let at_proxied = [
        is_silent("silent before PROXY", ""),
        drips("PROXY version 1", "PROXY TCP4 1.2.3.4 ", b'1'),
        drips(
            "PROXY version 2",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
            0,
        ),
    ];
    let at_metrics = [
        is_silent("silent at metrics", ""),
        drips("head at metrics", head, b'x'),
    ];
    let at_control = [
        is_silent("silent at control", ""),
        drips("head at control", head, b'x'),
    ];
    thread::scope(|scope| {
        let all = [
            (public, &at_public[..]),
            (proxied, &at_proxied),
            (metrics, &at_metrics),
        ];
        for (address, clients) in all {
            for client in clients {
                scope.spawn(move || client.run_at(address));
            }
        }
        for client in &at_control {
            let stream = UnixStream::connect(&control).expect("it listens");
            stream.set_read_timeout(Some(PAUSE)).expect("not zero");
            scope.spawn(move || client.run(stream));
        }
        // The only worker still serves other clients.
        for _ in 0..50 {
            assert_eq!(server.connect().get("/").status(), 200);
            thread::sleep(PAUSE);
        }
    });
    assert_eq!(server.connect().get("/").status(), 200);
}
