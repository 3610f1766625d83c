//! Both ends of a WebSocket, frame by frame.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use fermata_testkit::deadline;
use fermata_testkit::websocket::{CLOSE, TEXT, close_payload, frame};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::bench::PROBE;
use crate::client::{Client, Head};
use crate::origin::{Reply, Request};

/// A received frame, unmasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// FIN bit and opcode.
    pub first: u8,
    pub payload: Vec<u8>,
}

/// One end of an open WebSocket.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    /// Bytes received together with the handshake.
    early: VecDeque<u8>,
    is_client: bool,
}

impl Frame {
    /// Returns code and reason of a close frame.
    pub fn close(&self) -> Option<(u16, String)> {
        let (code, reason) = self.payload.split_first_chunk::<2>()?;
        let reason = String::from_utf8_lossy(reason).into_owned();
        (self.first == CLOSE).then_some((u16::from_be_bytes(*code), reason))
    }
}

/// Sends the handshake. Returns the head of the response and the connection.
#[track_caller]
pub fn ask(mut client: Client, path: &str, headers: &[(&str, &str)]) -> (Head, Client) {
    let upgrade = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    client.send("GET", path, &[&upgrade, headers].concat(), b"");
    (client.read_head(), client)
}

/// Opens a WebSocket.
#[track_caller]
pub fn open(client: Client, path: &str) -> Socket {
    let (head, client) = ask(client, path, &[]);
    assert_eq!(head.status, 101, "{head:?}");
    assert_eq!(
        head.header("sec-websocket-accept").as_deref(),
        Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    );
    assert_eq!(head.header("sec-websocket-extensions"), None);
    let (stream, early) = client.into_stream();
    let mut socket = Socket::new(stream, true);
    socket.early = early.into();
    socket
}

/// Accepts a WebSocket at the origin with these headers and passes it to `serve`.
pub fn accept(
    request: &Request,
    lines: &str,
    serve: impl FnOnce(Socket) + Send + 'static,
) -> Reply {
    let key = request.header("sec-websocket-key").unwrap_or_default();
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: {}\r\n{lines}\r\n",
        derive_accept_key(key.as_bytes())
    );
    Reply::Take(Box::new(move |mut stream| {
        if stream.write_all(head.as_bytes()).is_ok() {
            serve(Socket::new(stream, false));
        }
    }))
}

impl Socket {
    fn new(stream: TcpStream, is_client: bool) -> Self {
        stream.set_read_timeout(Some(deadline())).expect("a socket");
        Self {
            stream,
            early: VecDeque::new(),
            is_client,
        }
    }

    /// Sends a frame. Ignores errors, because the peer may have closed.
    pub fn send(&mut self, first: u8, payload: impl AsRef<[u8]>) {
        self.send_together(&[(first, payload.as_ref())]);
    }

    /// Sends frames in one write.
    pub fn send_together(&mut self, frames: &[(u8, &[u8])]) {
        let frames = frames
            .iter()
            .map(|(first, payload)| self.encoded(*first, payload));
        let bytes = frames.collect::<Vec<_>>().concat();
        let _ = self.stream.write_all(&bytes);
    }

    fn encoded(&self, first: u8, payload: &[u8]) -> Vec<u8> {
        if self.is_client {
            return frame(first, payload);
        }
        let mut bytes = vec![first];
        match payload.len() {
            len @ 0..=125 => bytes.push(len as u8),
            len @ 126..=0xffff => {
                bytes.push(126);
                bytes.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                bytes.push(127);
                bytes.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Sends a text message.
    pub fn text(&mut self, text: &str) {
        self.send(TEXT, text);
    }

    /// Sends a close frame.
    pub fn close(&mut self, code: u16, reason: &str) {
        self.send(CLOSE, close_payload(code, reason));
    }

    /// Returns the next frame that is not a probe; `None` at the end of the connection.
    pub fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = self.read()?;
            if frame.payload != PROBE.as_bytes() {
                return Some(frame);
            }
        }
    }

    /// Returns the next message, assembled from its frames.
    #[track_caller]
    pub fn message(&mut self) -> (u8, Vec<u8>) {
        let mut frame = self.next().expect("a message");
        let kind = frame.first | 0x80;
        let mut payload = frame.payload;
        while frame.first & 0x80 == 0 {
            frame = self.next().expect("the rest of a message");
            payload.extend_from_slice(&frame.payload);
        }
        (kind, payload)
    }

    /// Returns the next message as text.
    #[track_caller]
    pub fn next_text(&mut self) -> String {
        let (kind, payload) = self.message();
        assert_eq!(kind, TEXT, "{}", payload.escape_ascii());
        String::from_utf8(payload).expect("UTF-8")
    }

    /// Returns true if bytes arrive within `patience`.
    pub fn has_data(&mut self, patience: Duration) -> bool {
        if !self.early.is_empty() {
            return true;
        }
        self.stream
            .set_read_timeout(Some(patience))
            .expect("a socket");
        let is_there = self.stream.peek(&mut [0]).is_ok_and(|len| len > 0);
        self.stream
            .set_read_timeout(Some(deadline()))
            .expect("a socket");
        is_there
    }

    /// Returns true if a probe arrives within `patience`.
    pub fn has_probe(&mut self, patience: Duration) -> bool {
        self.has_data(patience)
            && self
                .read()
                .is_some_and(|frame| frame.payload == PROBE.as_bytes())
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Option<()> {
        let early = self.early.len().min(buffer.len());
        let (first, rest) = buffer.split_at_mut(early);
        for (byte, early) in first.iter_mut().zip(self.early.drain(..early)) {
            *byte = early;
        }
        self.stream.read_exact(rest).ok()
    }

    fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 2];
        self.read_exact(&mut head)?;
        let len = match head[1] & 0x7f {
            126 => {
                let mut len = [0; 2];
                self.read_exact(&mut len)?;
                u64::from(u16::from_be_bytes(len))
            }
            127 => {
                let mut len = [0; 8];
                self.read_exact(&mut len)?;
                u64::from_be_bytes(len)
            }
            len => len.into(),
        };
        let mut mask = [0; 4];
        if head[1] & 0x80 != 0 {
            self.read_exact(&mut mask)?;
        }
        let mut payload = vec![0; len as usize];
        self.read_exact(&mut payload)?;
        for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        Some(Frame {
            first: head[0],
            payload,
        })
    }
}
