//! A ZeroMQ socket with one connection, as publishers and dashboards use.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use fermata_grip::packet::{Notation, decode, encode};
use fermata_grip::value::Value;
use fermata_grip::zmtp::{Event, Limits, Peer, Socket, message, subscription};
use fermata_testkit::deadline;

trait Stream: Read + Write + Send {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// A connected socket.
pub struct Zmq {
    stream: Box<dyn Stream>,
    peer: Peer,
    events: std::collections::VecDeque<Event>,
}

impl Zmq {
    /// Connects over TCP.
    #[track_caller]
    pub fn tcp(port: u16, socket: Socket) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        stream.set_read_timeout(Some(deadline())).expect("a socket");
        Self::over(Box::new(stream), socket)
    }

    /// Connects to a Unix socket.
    #[track_caller]
    pub fn unix(path: &Path, socket: Socket) -> Self {
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(deadline())).expect("a socket");
        Self::over(Box::new(stream), socket)
    }

    /// Connects to a Unix socket with this routing id.
    #[track_caller]
    pub fn unix_named(path: &Path, socket: Socket, name: &[u8]) -> Self {
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(deadline())).expect("a socket");
        let mut out = Vec::new();
        let peer = Peer::named(socket, name, Limits::default(), &mut out);
        Self::greet(Box::new(stream), peer, &out)
    }

    /// Connects over TCP with this routing id.
    #[track_caller]
    pub fn tcp_named(port: u16, socket: Socket, name: &[u8]) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        stream.set_read_timeout(Some(deadline())).expect("a socket");
        let mut out = Vec::new();
        let peer = Peer::named(socket, name, Limits::default(), &mut out);
        Self::greet(Box::new(stream), peer, &out)
    }

    /// Accepts a TCP connection.
    #[track_caller]
    pub fn accept(listener: &TcpListener, socket: Socket) -> Self {
        let (stream, _) = listener.accept().expect("somebody connects");
        stream.set_read_timeout(Some(deadline())).expect("a socket");
        Self::over(Box::new(stream), socket)
    }

    #[track_caller]
    fn over(stream: Box<dyn Stream>, socket: Socket) -> Self {
        let mut out = Vec::new();
        let peer = Peer::new(socket, Limits::default(), &mut out);
        Self::greet(stream, peer, &out)
    }

    #[track_caller]
    fn greet(mut stream: Box<dyn Stream>, peer: Peer, out: &[u8]) -> Self {
        stream.write_all(out).expect("it reads");
        let mut zmq = Self {
            stream,
            peer,
            events: Default::default(),
        };
        let ready = zmq.event();
        assert!(matches!(ready, Event::Ready(_)), "{ready:?}");
        zmq
    }

    /// Returns true if the peer closes a connection with this routing id, during or after the
    /// handshake.
    #[track_caller]
    pub fn is_refused(port: u16, socket: Socket, name: &[u8]) -> bool {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        stream.set_read_timeout(Some(deadline())).expect("a socket");
        let mut out = Vec::new();
        let mut peer = Peer::named(socket, name, Limits::default(), &mut out);
        let mut buffer = [0; 4_096];
        loop {
            if stream.write_all(&out).is_err() {
                return true;
            }
            out.clear();
            match stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(len) => {
                    let handled = peer.handle(&buffer[..len], &mut out, &mut Vec::new());
                    handled.expect("ZMTP");
                }
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }

    /// Sends a message.
    #[track_caller]
    pub fn send(&mut self, parts: &[&[u8]]) {
        let mut out = Vec::new();
        message(&mut out, parts);
        self.stream.write_all(&out).expect("it reads");
    }

    /// Subscribes to messages that start with `topic`.
    #[track_caller]
    pub fn subscribe(&mut self, topic: &[u8]) {
        let mut out = Vec::new();
        subscription(&mut out, topic, true);
        self.stream.write_all(&out).expect("it reads");
    }

    /// Returns the next message.
    #[track_caller]
    pub fn receive(&mut self) -> Vec<Vec<u8>> {
        loop {
            if let Event::Message(parts) = self.event() {
                return parts;
            }
        }
    }

    /// Responds to the next `count` requests, as a ZHTTP backend does.
    #[track_caller]
    pub fn answer(&mut self, count: usize, respond: impl Fn(&Value) -> Value) {
        for _ in 0..count {
            self.answer_or_not(|request| Some(respond(request)));
        }
    }

    /// Receives the next request; sends no response if `respond` returns `None`.
    #[track_caller]
    pub fn answer_or_not(&mut self, respond: impl Fn(&Value) -> Option<Value>) {
        let mut parts = self.receive();
        let payload = parts.pop().expect("a request");
        let (request, _) = decode(&payload).expect("a packet");
        let mut response = vec![(b"id".to_vec(), request.get("id").expect("an id").clone())];
        let Some(answer) = respond(&request) else {
            return;
        };
        if let Value::Map(entries) = answer {
            response.extend(entries);
        }
        let mut payload = Vec::new();
        encode(&mut payload, &Value::Map(response), Notation::Tnetstring);
        parts.push(payload);
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        self.send(&parts);
    }

    /// Waits until the peer has subscribed.
    #[track_caller]
    pub fn wait_until_wanted(&mut self) {
        while !matches!(self.event(), Event::Subscribed(_)) {}
    }

    /// Returns the peer's next subscription.
    #[track_caller]
    pub fn next_subscription(&mut self) -> Event {
        loop {
            let event = self.event();
            // Skips the channels of other cases.
            if matches!(&event, Event::Subscribed(topic) if topic.is_empty() || topic.starts_with(b"sub_"))
            {
                return event;
            }
        }
    }

    #[track_caller]
    fn event(&mut self) -> Event {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            let (mut buffer, mut out, mut events) = ([0; 65_536], Vec::new(), Vec::new());
            let len = self.stream.read(&mut buffer).expect("an answer");
            assert!(len > 0, "the connection has ended");
            let handled = self.peer.handle(&buffer[..len], &mut out, &mut events);
            handled.expect("ZMTP");
            self.stream.write_all(&out).expect("it reads");
            self.events.extend(events);
        }
    }
}
