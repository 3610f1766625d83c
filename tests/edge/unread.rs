//! Bytes that one side of the edge sends and the other does not read: memory is bounded per client,
//! in both directions, for bodies and for WebSocket messages.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::websocket;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::own::Own;

const CLIENTS: usize = 20;
/// Number of bytes that each side sends.
const BYTES: usize = 100_000_000;
/// Maximum memory of the edge for all clients: about 256 KiB and one piece for each.
const KEPT_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Sends until the peer has read nothing for some time.
fn send_what_is_taken(stream: &mut TcpStream) -> usize {
    let piece = vec![b'x'; 65_536];
    let patience = Some(Duration::from_millis(500));
    stream.set_write_timeout(patience).expect("not zero");
    let mut sent = 0;
    while sent < BYTES {
        match stream.write(&piece) {
            Ok(len) => sent += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => break,
        }
    }
    sent
}

/// Starts an origin that sends a huge response to `/down`, never reads the body sent to `/up`, and
/// handles other paths normally.
fn origin() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    port
}

fn serve(mut stream: TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|len| len > 0) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let key = head.lines().find_map(|it| {
        let (name, value) = it.split_once(": ")?;
        name.eq_ignore_ascii_case("sec-websocket-key")
            .then_some(value)
    });
    if let Some(key) = key {
        serve_socket(&mut stream, &head, key);
    } else if head.contains(" /down ") {
        let start = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n");
        let _ = stream.write_all(start.as_bytes());
        send_what_is_taken(&mut stream);
        thread::sleep(Duration::from_secs(20));
    } else if head.contains(" /up ") {
        thread::sleep(Duration::from_secs(20));
    } else {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    }
}

/// Serves a WebSocket: on `/down` it sends messages that the client never reads, on other paths it reads nothing.
fn serve_socket(stream: &mut TcpStream, head: &str, key: &str) {
    let accept = derive_accept_key(key.as_bytes());
    let start = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    let _ = stream.write_all(start.as_bytes());
    if head.contains(" /down ") {
        // A binary message of 65,535 bytes; servers do not mask frames.
        let message = [&[0x82, 126, 0xff, 0xff][..], &[b'x'; 65_535]].concat();
        let patience = Some(Duration::from_millis(500));
        stream.set_write_timeout(patience).expect("not zero");
        while stream.write_all(&message).is_ok() {}
    }
    thread::sleep(Duration::from_secs(20));
}

/// Returns the size of a process's private memory.
fn private_bytes(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
    let rollup = rollup.expect("our own process");
    let lines = rollup.lines().filter(|line| line.starts_with("Private_"));
    lines
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum::<u64>()
        * 1024
}

#[test]
fn what_neither_side_reads_is_bounded() {
    let own = Own::start(&["--route", &format!("* 127.0.0.1:{}", origin())]);
    // A worker that responds exists.
    assert_eq!(own.get("/").text(), "ok");
    let pid = own.workers()[0];
    let before = private_bytes(pid);
    let connect = |request: String| {
        let mut stream = TcpStream::connect(("127.0.0.1", own.port)).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it is open");
        stream
    };
    let _silent: Vec<_> = (0..CLIENTS)
        .map(|_| connect("GET /down HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned()))
        .collect();
    let sending: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let head =
                format!("POST /up HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BYTES}\r\n\r\n");
            let mut stream = connect(head);
            thread::spawn(move || (send_what_is_taken(&mut stream), stream))
        })
        .collect();
    for sender in sending {
        let (sent, _stream) = sender.join().expect("it does not panic");
        assert!(sent < BYTES / 2, "{sent} bytes of one client are somewhere");
    }
    let kept = private_bytes(pid).saturating_sub(before);
    assert!(kept < KEPT_BYTES_MAX, "{kept} bytes");
    let asked = Instant::now();
    assert_eq!(own.get("/").text(), "ok");
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "others are served"
    );
}

#[test]
fn websocket_messages_that_neither_side_reads_are_bounded() {
    let own = Own::start(&["--route", &format!("* 127.0.0.1:{}", origin())]);
    // A worker that responds exists.
    assert_eq!(own.get("/").text(), "ok");
    let pid = own.workers()[0];
    let before = private_bytes(pid);
    let open = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", own.port)).expect("it listens");
        let request = websocket::request(path, &[]);
        stream.write_all(request.as_bytes()).expect("it is open");
        let mut start = [0; 12];
        stream.read_exact(&mut start).expect("a response");
        assert_eq!(&start, b"HTTP/1.1 101");
        stream
    };
    let _silent: Vec<_> = (0..CLIENTS).map(|_| open("/down")).collect();
    let message = websocket::frame(websocket::BINARY, &[b'x'; 65_535]);
    let sending: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (mut stream, message) = (open("/silent"), message.clone());
            let patience = Some(Duration::from_millis(500));
            stream.set_write_timeout(patience).expect("not zero");
            thread::spawn(move || {
                let mut sent = 0;
                while sent < BYTES && stream.write_all(&message).is_ok() {
                    sent += message.len();
                }
                (sent, stream)
            })
        })
        .collect();
    for sender in sending {
        let (sent, _stream) = sender.join().expect("it does not panic");
        assert!(sent < BYTES / 2, "{sent} bytes of one client are somewhere");
    }
    let kept = private_bytes(pid).saturating_sub(before);
    assert!(kept < KEPT_BYTES_MAX, "{kept} bytes");
    assert_eq!(own.get("/").text(), "ok");
    assert_eq!(own.workers()[0], pid);
}
