//! Publishes to a ZeroMQ PULL socket as a PUSH socket.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fermata_grip::item::Item;
use fermata_grip::packet::{self, Notation};
use fermata_grip::zmtp::{Endpoint, Limits, Peer, Socket, message};
use fermata_origin::post::connect as connect_tcp;

use crate::error::Error;

/// Timeout for publishing.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends the item and waits until the peer has read it.
pub fn publish(endpoint: &Endpoint, item: &Item) -> Result<(), Error> {
    let mut payload = Vec::new();
    packet::encode(&mut payload, &item.to_value(Notation::Json), Notation::Json);
    match endpoint {
        Endpoint::Tcp { host, port } => {
            let address = format!("{host}:{port}");
            connect_tcp(host, *port, Instant::now() + TIMEOUT)
                .and_then(|socket| push(&socket, || socket.shutdown(Shutdown::Write), &payload))
                .map_err(|error| failed("publish to", &address, error))
        }
        Endpoint::Ipc(path) => connect(path)
            .and_then(|socket| push(&socket, || socket.shutdown(Shutdown::Write), &payload))
            .map_err(|error| failed("publish to", path, error)),
    }
}

fn connect(path: &str) -> io::Result<UnixStream> {
    let socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.set_write_timeout(Some(TIMEOUT))?;
    Ok(socket)
}

/// Sends `payload` as a PUSH socket. A PULL socket sends no acknowledgment, but closes the connection after reading everything.
fn push<S>(socket: S, finish: impl FnOnce() -> io::Result<()>, payload: &[u8]) -> io::Result<()>
where
    S: Read + Write + Copy,
{
    let mut socket = socket;
    let (mut out, mut events) = (Vec::new(), Vec::new());
    let mut peer = Peer::new(Socket::Push, Limits::default(), &mut out);
    let mut buffer = [0; 1024];
    while !peer.is_open() {
        socket.write_all(&out)?;
        out.clear();
        let len = socket.read(&mut buffer)?;
        if len == 0 {
            let reason = "the other end closed before it was ready";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
        }
        peer.handle(&buffer[..len], &mut out, &mut events)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    }
    message(&mut out, &[payload]);
    socket.write_all(&out)?;
    finish()?;
    while socket.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Builds the error for an address.
fn failed(what: &str, address: &str, error: impl std::fmt::Display) -> Error {
    Error::Misuse(format!(
        "cannot {what} {address}: {error}; is an edge or Pushpin listening there? --spec names another"
    ))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use fermata_grip::item::{self, Format, StreamAction};
    use fermata_grip::zmtp::Event;

    use super::*;

    fn sent() -> Item {
        Item {
            channel: b"c".to_vec(),
            http_stream: Some(Format::new(StreamAction::Send(b"\0\xff".repeat(300)))),
            ..Item::default()
        }
    }

    /// Returns the result of publishing to a local socket that announces the type `kind`, and the events that the socket receives.
    fn against(kind: Socket) -> (Result<(), Error>, Vec<Event>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client");
            let (mut out, mut events) = (Vec::new(), Vec::new());
            let mut peer = Peer::new(kind, Limits::default(), &mut out);
            let mut buffer = [0; 7];
            loop {
                socket.write_all(&out).expect("a client that reads");
                out.clear();
                match socket.read(&mut buffer) {
                    Ok(0) | Err(_) => return events,
                    Ok(len) if peer.handle(&buffer[..len], &mut out, &mut events).is_err() => {
                        return events;
                    }
                    Ok(_) => {}
                }
            }
        });
        let endpoint = Endpoint::Tcp {
            host: "127.0.0.1".into(),
            port,
        };
        (
            publish(&endpoint, &sent()),
            server.join().expect("the server"),
        )
    }

    #[test]
    fn an_item_reaches_a_pull_socket() {
        let (outcome, events) = against(Socket::Pull);
        outcome.expect("it is read");
        let [Event::Ready(Socket::Push), Event::Message(parts)] = &events[..] else {
            panic!("{events:?}");
        };
        let (value, notation) = packet::decode(&parts[0]).expect("a payload");
        assert_eq!(
            item::parse(&value, notation, None).expect("an item"),
            sent()
        );
    }

    #[test]
    fn another_kind_of_socket_is_an_error() {
        let error = against(Socket::Sub).0.expect_err("a mismatch");
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
    }
}
