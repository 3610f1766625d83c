//! A small HTTP/2 server over cleartext with prior knowledge: the state machine with blocking sockets and a thread per
//! connection. `scripts/http2.sh` runs conformance suites and clients against it.
//!
//! `cargo run -p fermata-proto --example h2c [PORT]` prints its address and stops at the end of standard input.
//!
//! - `/` responds with `hello`.
//! - `/bytes/N` responds with N bytes.
//! - `/echo` returns the request body while it arrives.
//! - `/events/N` responds with N events, each in its own DATA frame.
//!
//! All responses except that of `/echo` start after the end of the request.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fermata_proto::http2::{Connection, Event, Limits, Message, Priority, Rest, StreamId};

/// Maximum number of output bytes; above it, further output waits until the socket accepts some.
const OUT_BYTES_MAX: usize = 256 * 1024;

/// Read time-out. After it, the connection checks its own time-outs.
const TICK: Duration = Duration::from_millis(200);

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}"))?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || {
                if let Err(error) = serve(socket) {
                    eprintln!("{error}");
                }
            });
        }
    });
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    Ok(())
}

/// State of one stream.
struct Exchange {
    stream: StreamId,
    output: VecDeque<u8>,
    /// True if the request has ended, so that the output is complete.
    complete: bool,
    /// True if the request body is sent back; otherwise the response waits for the end of the request.
    echoes: bool,
    /// Number of bytes of one event, for which a DATA frame is sent. 0: the output is not divided.
    event_bytes: usize,
}

fn serve(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(TICK))?;
    let limits = Limits {
        connect_protocol: true,
        ..Limits::default()
    };
    let start = Instant::now();
    let now = || start.elapsed().as_millis() as u64;
    let (mut message, mut out) = (Message::new(), Vec::new());
    let mut connection = Connection::server(&limits, now(), &mut out);
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut input = vec![0; 65_536];
    loop {
        flush(&mut connection, &mut exchanges, &limits, &mut out);
        socket.write_all(&out)?;
        let wrote = !out.is_empty();
        out.clear();
        if wrote && connection.has_ready() {
            continue;
        }
        let read = match socket.read(&mut input) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(error) => return Err(error),
        };
        let mut at = 0;
        let mut failed = None;
        while at < read && failed.is_none() {
            match connection.handle(&input[at..read], now(), &limits, &mut message, &mut out) {
                Ok(step) => {
                    at += step.consumed;
                    if let Some(event) = step.event {
                        let answer = take(event, &message, &mut connection, &mut out);
                        exchanges.extend(answer);
                        settle(event, &mut connection, &mut exchanges, &limits, &mut out);
                    }
                }
                Err(violation) => failed = Some(violation),
            }
        }
        while failed.is_none() {
            match connection.tick(now(), &limits, &mut out) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    settle(event, &mut connection, &mut exchanges, &limits, &mut out);
                }
                Err(violation) => failed = Some(violation),
            }
        }
        if let Some(violation) = failed {
            socket.write_all(&out)?;
            socket.shutdown(std::net::Shutdown::Write)?;
            eprintln!("{violation}");
            // Unread input would make the kernel drop sent data when the socket closes.
            while matches!(socket.read(&mut input), Ok(read) if read > 0) {}
            return Ok(());
        }
    }
}

/// Turns a request into an exchange and sends the head of its response.
fn take(
    event: Event<'_>,
    message: &Message,
    connection: &mut Connection,
    out: &mut Vec<u8>,
) -> Option<Exchange> {
    let Event::Request { stream, end } = event else {
        return None;
    };
    let path = message.head.path.of(&message.text);
    let path = std::str::from_utf8(path).unwrap_or_default();
    let count = |text: &str| text.parse::<usize>().unwrap_or(0);
    let mut exchange = Exchange {
        stream,
        output: VecDeque::new(),
        complete: end,
        echoes: false,
        event_bytes: 0,
    };
    let mut status = 200;
    match path.split('/').collect::<Vec<_>>()[..] {
        ["", ""] => exchange.output.extend(b"hello"),
        ["", "bytes", len] => exchange.output.resize(count(len), b'x'),
        ["", "echo"] => exchange.echoes = true,
        ["", "events", events] => {
            let event = b"data: 0123456789\n\n";
            exchange.event_bytes = event.len();
            connection.set_priority(stream, Priority::STREAM);
            for _ in 0..count(events) {
                exchange.output.extend(event);
            }
        }
        _ => status = 404,
    }
    let length = exchange.output.len().to_string();
    let fields = [
        (&b"content-type"[..], &b"text/plain"[..]),
        (b"content-length", length.as_bytes()),
    ];
    let known = usize::from(!exchange.echoes && exchange.event_bytes == 0);
    let fields = fields.into_iter().take(1 + known);
    connection.send_head(stream, status, fields, false, out);
    connection.set_pending(stream, end);
    Some(exchange)
}

/// Applies all other events to the exchanges.
fn settle(
    event: Event<'_>,
    connection: &mut Connection,
    exchanges: &mut Vec<Exchange>,
    limits: &Limits,
    out: &mut Vec<u8>,
) {
    match event {
        Event::Data { stream, data, end } => {
            connection.consumed(stream, data.len(), limits, out);
            feed(connection, exchanges, stream, data, end);
        }
        Event::Trailers { stream } => feed(connection, exchanges, stream, &[], true),
        Event::Reset { stream, .. } => {
            exchanges.retain(|exchange| exchange.stream != stream);
            connection.release(stream, limits, out);
        }
        _ => {}
    }
}

fn feed(
    connection: &mut Connection,
    exchanges: &mut [Exchange],
    stream: StreamId,
    data: &[u8],
    end: bool,
) {
    let found = exchanges
        .iter_mut()
        .find(|exchange| exchange.stream == stream && !exchange.complete);
    if let Some(exchange) = found {
        if exchange.echoes {
            exchange.output.extend(data);
        }
        exchange.complete = end;
        connection.set_pending(stream, exchange.echoes || end);
    }
}

/// Sends output in the order of turns while the buffer has room.
fn flush(
    connection: &mut Connection,
    exchanges: &mut Vec<Exchange>,
    limits: &Limits,
    out: &mut Vec<u8>,
) {
    // A stream that only has to end needs no window.
    let empty: Vec<StreamId> = exchanges
        .iter()
        .filter(|exchange| exchange.output.is_empty() && exchange.complete)
        .map(|exchange| exchange.stream)
        .collect();
    for stream in empty {
        offer(connection, exchanges, stream, usize::MAX, limits, out);
    }
    while out.len() < OUT_BYTES_MAX
        && let Some(ready) = connection.next_ready()
    {
        let room = ready.bytes_max.min(OUT_BYTES_MAX);
        offer(connection, exchanges, ready.stream, room, limits, out);
    }
}

fn offer(
    connection: &mut Connection,
    exchanges: &mut Vec<Exchange>,
    stream: StreamId,
    bytes_max: usize,
    limits: &Limits,
    out: &mut Vec<u8>,
) {
    let Some(index) = exchanges.iter().position(|e| e.stream == stream) else {
        return connection.set_pending(stream, false);
    };
    let exchange = &mut exchanges[index];
    let all = exchange.output.make_contiguous();
    let mut len = all.len().min(bytes_max);
    if exchange.event_bytes > 0 {
        len = len.min(exchange.event_bytes);
    }
    let rest = match (len == all.len(), exchange.complete) {
        (false, _) => Rest::Pending,
        (true, true) => Rest::End,
        (true, false) => Rest::Open,
    };
    let sent = connection.send_data(stream, &all[..len], rest, out);
    exchange.output.drain(..sent);
    if exchange.complete && exchange.output.is_empty() && sent == len {
        exchanges.remove(index);
        connection.release(stream, limits, out);
    }
}
