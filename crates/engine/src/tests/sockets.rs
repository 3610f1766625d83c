//! WebSockets of the rig: its application, and the client's side.

use fermata_io::sys::fake::FakePeer;
use fermata_proto::ws::Role;
use fermata_proto::ws::accept::accept_key;
use fermata_proto::ws::frame::{self, Header, Opcode, Parse, Reserved, Rules};

use super::{Rig, client};
use crate::id::SocketId;
use crate::websocket::{Callbacks, Compression, Format, Join, OriginPolicy, QueuePolicy, Route};
use crate::{Event, Message, Since};

pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// An event delivered to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Upgrade,
    Open(SocketId),
    Text(SocketId, String),
    Binary(SocketId, Vec<u8>),
    Close(SocketId, u16, String),
}

/// The rig's WebSocket routes. Messages with a leading slash are commands, see `Rig::on_message`;
/// other messages are echoed.
pub fn routes() -> Vec<(&'static str, Route)> {
    let all = Callbacks {
        upgrade: false,
        open: true,
        message: true,
        control: false,
        close: true,
    };
    let route = |handler| Route {
        handler,
        callbacks: all,
        ..Route::default()
    };
    let small = |handler, queue_policy| Route {
        queue_bytes_max: Some(4096),
        message_bytes_max: Some(8192),
        frame_bytes_max: Some(6000),
        queue_policy,
        ..route(handler)
    };
    let compression = |takeover| Compression {
        server_takeover: takeover,
        client_takeover: takeover,
        window_bits: 15,
        level: 6,
        bytes_min: 16,
    };
    vec![
        ("/ws", route(100)),
        (
            "/asked/{room}",
            Route {
                callbacks: Callbacks {
                    upgrade: true,
                    ..all
                },
                protocols: vec![b"chat.v2".to_vec(), b"chat".to_vec()],
                ..route(101)
            },
        ),
        ("/refuse", small(102, QueuePolicy::Refuse)),
        ("/drop", small(103, QueuePolicy::DropOldest)),
        ("/close", small(104, QueuePolicy::Close)),
        (
            "/idle",
            Route {
                idle_timeout_ms: Some(60_000),
                ping_interval_ms: Some(0),
                ..route(105)
            },
        ),
        (
            "/listed",
            Route {
                origins: OriginPolicy::Listed(vec![b"https://Example.org:443".to_vec()]),
                protocols: vec![b"chat.v2".to_vec(), b"chat".to_vec()],
                ..route(106)
            },
        ),
        (
            "/small",
            Route {
                compression: Some(compression(false)),
                ..route(108)
            },
        ),
        (
            "/smaller",
            Route {
                compression: Some(compression(true)),
                ..route(109)
            },
        ),
        (
            "/silent",
            Route {
                callbacks: Callbacks::default(),
                ..route(107)
            },
        ),
    ]
}

impl Rig {
    pub fn on_socket(&mut self, event: Event) {
        if event == Event::Upgrade {
            self.calls.push(Call::Upgrade);
            self.on_upgrade();
            return;
        }
        let found = self.worker.socket_event();
        let (socket, code) = (found.socket, found.code);
        let text = String::from_utf8_lossy(found.payload).into_owned();
        let call = match event {
            Event::Open => Call::Open(socket),
            Event::Message if found.is_binary => Call::Binary(socket, found.payload.to_vec()),
            Event::Message => {
                std::str::from_utf8(found.payload).expect("text messages are UTF-8");
                Call::Text(socket, text.clone())
            }
            Event::Close => Call::Close(socket, code, text.clone()),
            other => panic!("{other:?} is no event of a socket"),
        };
        self.calls.push(call);
        match event {
            Event::Open => self.open.push(socket),
            Event::Close => self.open.retain(|is| *is != socket),
            _ => self.on_message(socket, &text),
        }
    }

    fn on_upgrade(&mut self) {
        let view = self.worker.request();
        let handle = view.handle();
        let room = String::from_utf8_lossy(view.route(b"room").unwrap_or_default()).into_owned();
        match room.as_str() {
            "late" => self.late.push_back(handle),
            "no" => {
                let none = std::iter::empty();
                let body = b"not here";
                self.worker
                    .respond(handle, 403, None, none, body)
                    .expect("it is open");
            }
            "own" => {
                let headers = [(&b"X-Room"[..], &b"own"[..])];
                self.worker
                    .accept_upgrade(handle, Some(b"mine"), &headers)
                    .expect("it is offered");
            }
            _ => {
                self.worker
                    .accept_upgrade(handle, None, &[])
                    .expect("it is open");
            }
        }
    }

    /// Commands: `/close CODE REASON`, `/join CHANNEL`, `/json CHANNEL`, `/leave CHANNEL`, `/say
    /// CHANNEL TEXT` (all but the sender), `/flood COUNT BYTES`.
    fn on_message(&mut self, socket: SocketId, text: &str) {
        let mut words = text.splitn(3, ' ');
        let (command, first, second) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let join = Join {
            channel: first.as_bytes(),
            user: None,
            info: None,
            announces: true,
            since: Since::Now,
            formerly: None,
            format: Format::Data,
        };
        let outcome = match command {
            "/close" => {
                let code = first.parse().expect("a code");
                self.worker.disconnect(socket, code, second.as_bytes())
            }
            "/join" => self.worker.join_channel(socket, &join),
            "/json" => {
                let since = Some(second.as_bytes()).filter(|since| !since.is_empty());
                let since = Since::of(since, false);
                let format = Format::Json;
                self.worker.join_channel(
                    socket,
                    &Join {
                        since,
                        format,
                        ..join
                    },
                )
            }
            "/as" => {
                let (user, info) = second.split_once(' ').unwrap_or((second, ""));
                let (user, info) = (Some(user.as_bytes()), Some(info.as_bytes()));
                self.worker
                    .join_channel(socket, &Join { user, info, ..join })
            }
            "/leave" => self.worker.leave_channel(socket, first.as_bytes()),
            "/say" => {
                let message = Message {
                    name: None,
                    data: second.as_bytes(),
                };
                self.worker
                    .publish_except(first.as_bytes(), message, Some(socket))
                    .expect("the ring has room");
                Ok(())
            }
            "/flood" => {
                let count: usize = first.parse().expect("a number");
                let bytes: usize = second.parse().expect("a number");
                let mut outcome = Ok(());
                for at in 0..count {
                    let text = format!("{at:0bytes$}");
                    outcome = outcome.and(self.worker.send(socket, false, text.as_bytes()));
                }
                outcome
            }
            _ => {
                let found = self.worker.socket_event();
                let (is_binary, data) = (found.is_binary, found.payload.to_vec());
                self.worker.send(socket, is_binary, &data)
            }
        };
        if let Err(error) = outcome {
            let text = format!("error: {error}");
            let _ = self.worker.send(socket, false, text.as_bytes());
        }
    }

    /// Opens a WebSocket at `path`.
    pub fn socket(&mut self, path: &str) -> Client {
        let peer = self.peer(&handshake(path, ""));
        let mut client = Client::new(peer);
        assert!(client.accepted().contains("101"), "{}", client.head);
        client
    }
}

/// Builds a handshake with further field lines.
pub fn handshake(path: &str, lines: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{lines}\r\n"
    )
    .into_bytes()
}

/// Encodes a client's frame, masked.
pub fn masked(opcode: Opcode, fin: bool, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let key = Some([1, 2, 0x83, payload.len() as u8]);
    frame::write(&mut out, opcode, fin, Reserved::NONE, key, payload);
    out
}

pub fn text(payload: &str) -> Vec<u8> {
    masked(Opcode::Text, true, payload.as_bytes())
}

pub fn close(code: u16, reason: &str) -> Vec<u8> {
    let mut payload = code.to_be_bytes().to_vec();
    payload.extend_from_slice(reason.as_bytes());
    masked(Opcode::Close, true, &payload)
}

/// A client and the bytes it has received.
pub struct Client {
    pub peer: FakePeer,
    /// The response to the handshake.
    pub head: String,
    bytes: Vec<u8>,
}

impl Client {
    pub fn new(peer: FakePeer) -> Client {
        Client {
            peer,
            head: String::new(),
            bytes: Vec::new(),
        }
    }

    /// Returns the response to the handshake.
    pub fn accepted(&mut self) -> &str {
        self.bytes.extend(self.peer.read());
        if self.head.is_empty()
            && let Some(end) = self.bytes.windows(4).position(|four| four == b"\r\n\r\n")
        {
            self.head = String::from_utf8(self.bytes.drain(..end + 4).collect()).expect("a head");
            let accept = String::from_utf8(accept_key(KEY.as_bytes()).to_vec()).expect("base64");
            if self.head.contains(" 101 ") {
                assert!(self.head.contains(&accept), "{}", self.head);
                assert_eq!(client::answers(self.head.as_bytes(), &[]).len(), 1);
            }
        }
        &self.head
    }

    /// Returns the complete frames that have arrived since the last call.
    pub fn frames(&mut self) -> Vec<(Opcode, Vec<u8>)> {
        self.bytes.extend(self.peer.read());
        let rules = Rules::for_role(Role::Client, u64::MAX);
        let mut frames = Vec::new();
        loop {
            let parsed = Header::parse(&self.bytes, &rules).expect("valid frames only");
            let Parse::Complete {
                header,
                header_bytes,
            } = parsed
            else {
                return frames;
            };
            assert!(header.fin);
            let end = header_bytes + header.payload_len as usize;
            if end > self.bytes.len() {
                return frames;
            }
            let frame: Vec<u8> = self.bytes.drain(..end).collect();
            frames.push((header.opcode, frame[header_bytes..].to_vec()));
        }
    }

    /// Returns the received text messages; panics at other frames.
    pub fn texts(&mut self) -> Vec<String> {
        let texts = self.frames().into_iter().map(|(opcode, payload)| {
            assert_eq!(opcode, Opcode::Text, "{payload:?}");
            String::from_utf8(payload).expect("text")
        });
        texts.collect()
    }

    /// Returns code and reason of the close frame, which must be the only frame.
    pub fn closed(&mut self) -> (u16, String) {
        let frames = self.frames();
        let [(Opcode::Close, payload)] = &frames[..] else {
            panic!("not a close frame alone: {frames:?}");
        };
        let code = payload
            .first_chunk()
            .map_or(0, |code| u16::from_be_bytes(*code));
        let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default());
        (code, reason.into_owned())
    }
}
