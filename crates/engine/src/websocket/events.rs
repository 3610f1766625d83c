//! What the program is told of sockets, and what it can ask.
//!
//! A message is handed out the moment it is parsed. That a socket is open, or has ended, may come up
//! anywhere in the loop, also while a handler runs; it waits here and is handed out before anything
//! else is parsed. So a socket's events come in order: open, its messages, close.

use std::collections::VecDeque;

use fermata_io::{Driver, Peer};

use super::{PROTOCOL_NONE, PROTOCOL_OWN};
use crate::admin::stats::{Counter, Counts};
use crate::net::slab::Key;
use crate::worker::{Event, Running, Worker};

/// An event about a socket, valid until the next one.
#[derive(Clone, Copy, Debug)]
pub struct SocketEvent<'a> {
    /// The number of the route.
    pub handler: u32,
    /// The socket.
    pub socket: u64,
    /// The close code, of `Event::Close`.
    pub code: u16,
    /// Whether a message is binary.
    pub is_binary: bool,
    /// The message, or the reason of a close.
    pub payload: &'a [u8],
}

/// What can be asked about a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketInfo<'a> {
    /// Whether something can be sent.
    pub is_open: bool,
    /// Bytes that wait for the client.
    pub queued_bytes: usize,
    /// The subprotocol, if one was agreed on.
    pub protocol: Option<&'a [u8]>,
}

/// Where the payload of the current event lies.
#[derive(Clone, Copy)]
enum Place {
    /// In the worker's input buffer.
    Input { start: usize, len: usize },
    /// In `Events::bytes`.
    Owned,
}

/// The current event, and those to come.
pub(crate) struct Events {
    handler: u32,
    socket: u64,
    code: u16,
    is_binary: bool,
    place: Place,
    bytes: Vec<u8>,
    /// The other end of the socket whose close is the current event.
    peer: Option<Peer>,
    /// At most two for each connection there was when the last one was taken.
    waiting: VecDeque<Waiting>,
}

enum Waiting {
    Open {
        socket: u64,
        handler: u32,
    },
    Close {
        socket: u64,
        handler: u32,
        code: u16,
        peer: Peer,
        reason: Box<str>,
    },
}

impl Events {
    pub fn new() -> Events {
        Events {
            handler: 0,
            socket: 0,
            code: 0,
            is_binary: false,
            place: Place::Owned,
            bytes: Vec::new(),
            peer: None,
            waiting: VecDeque::new(),
        }
    }

    pub fn open(&mut self, socket: u64, handler: u32) {
        self.waiting.push_back(Waiting::Open { socket, handler });
    }

    /// A message that lies in the input buffer.
    #[inline]
    pub fn lend(&mut self, handler: u32, socket: u64, is_binary: bool, start: usize, len: usize) {
        self.handler = handler;
        self.socket = socket;
        self.is_binary = is_binary;
        self.place = Place::Input { start, len };
    }

    /// A message that came in pieces.
    pub fn give(&mut self, handler: u32, socket: u64, is_binary: bool, bytes: Vec<u8>) {
        self.handler = handler;
        self.socket = socket;
        self.is_binary = is_binary;
        self.place = Place::Owned;
        self.bytes = bytes;
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Forgets what waits: nobody is there to be told.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Lets go of the last message.
    #[inline]
    pub fn release(&mut self) {
        if self.bytes.capacity() > 0 {
            self.bytes = Vec::new();
        }
        self.place = Place::Owned;
        self.peer = None;
    }

    fn take(&mut self) -> Option<Event> {
        match self.waiting.pop_front()? {
            Waiting::Open { socket, handler } => {
                self.give(handler, socket, false, Vec::new());
                Some(Event::Open)
            }
            Waiting::Close {
                socket,
                handler,
                code,
                peer,
                reason,
            } => {
                self.give(handler, socket, false, String::from(reason).into_bytes());
                self.code = code;
                self.peer = Some(peer);
                Some(Event::Close)
            }
        }
    }

    fn payload<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        match self.place {
            Place::Input { start, len } => &input[start..start + len],
            Place::Owned => &self.bytes,
        }
    }
}

impl<D: Driver> Worker<D> {
    /// The event of the last `Event::Open`, `Event::Message` or `Event::Close`.
    #[inline]
    pub fn socket_event(&self) -> SocketEvent<'_> {
        let events = &self.sockets.events;
        SocketEvent {
            handler: events.handler,
            socket: events.socket,
            code: events.code,
            is_binary: events.is_binary,
            payload: events.payload(&self.input),
        }
    }

    /// What can be said about a socket; `None` when it is gone.
    pub fn socket_info(&self, socket: u64) -> Option<SocketInfo<'_>> {
        let connection = self.net.connections.get(Key::from_u64(socket))?;
        let it = connection.socket.as_ref()?;
        let served = self.sockets.served.get(it.route())?;
        let protocol = match it.protocol {
            PROTOCOL_NONE => None,
            PROTOCOL_OWN => it.busy.as_ref().and_then(|busy| busy.protocol.as_deref()),
            at => served.protocols.get(usize::from(at)).map(Vec::as_slice),
        };
        let (_, behind_bytes) = self.channels.local.behind(connection.chain);
        Some(SocketInfo {
            is_open: it.can_send(),
            queued_bytes: connection.unsent() + behind_bytes as usize,
            protocol,
        })
    }

    /// The other end of a socket, also of one whose close is the current event.
    pub fn socket_peer(&self, socket: u64) -> Option<Peer> {
        match self.net.connections.get(Key::from_u64(socket)) {
            Some(connection) => connection.socket.is_some().then_some(connection.peer),
            None if self.sockets.events.socket == socket => self.sockets.events.peer,
            None => None,
        }
    }

    /// Whether the current event is the close of this socket.
    pub(super) fn is_ending(&self, socket: u64) -> bool {
        self.sockets.events.socket == socket && self.sockets.events.peer.is_some()
    }

    /// The next event that has waited.
    #[inline]
    pub(crate) fn next_socket_event(&mut self) -> Option<Event> {
        if self.sockets.events.is_empty() || self.waiting.is_full() {
            return None;
        }
        if matches!(self.running, Running::Retired { .. }) {
            self.sockets.events.clear();
            return None;
        }
        self.sockets.events.take()
    }

    /// Tells the program, once, that a socket has ended.
    pub(crate) fn tell_ended(&mut self, index: u32, code: u16, reason: &str) {
        let Some(key) = self.net.connections.key(index) else {
            return;
        };
        let Some(connection) = self.net.connections.at_mut(index) else {
            return;
        };
        let peer = connection.peer;
        let Some(socket) = &mut connection.socket else {
            return;
        };
        if std::mem::replace(&mut socket.busy().is_told, true) {
            return;
        }
        count_ended(&mut self.net.counts, code);
        if let Some(served) = self.sockets.served.get(socket.route())
            && served.callbacks.close
        {
            self.sockets.events.waiting.push_back(Waiting::Close {
                socket: key.to_u64(),
                handler: served.handler,
                code,
                peer,
                reason: reason.into(),
            });
        }
    }
}

/// Counts a close by its code.
fn count_ended(counts: &mut Counts, code: u16) {
    let counter = match code {
        1000 | 1001 | 1005 => Counter::WebSocketClosedNormal,
        1006 => Counter::WebSocketClosedAbnormal,
        1002 | 1003 | 1007 | 1009 | 1010 => Counter::WebSocketClosedProtocol,
        0..=2999 => Counter::WebSocketClosedServer,
        _ => Counter::WebSocketClosedApplication,
    };
    counts.add(counter, 1);
}
