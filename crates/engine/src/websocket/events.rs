//! WebSocket events for the application, and socket properties.
//!
//! A message is delivered when it is parsed. Open and close events may occur anywhere in the loop,
//! even while a handler runs; they are queued here and delivered before any more input is parsed.
//! So a socket's events are ordered: open, messages, close.

use std::collections::VecDeque;

use fermata_io::Peer;

use crate::embed::event::Event;
use crate::id::SocketId;

/// An event of a socket. It is valid until the next event.
#[derive(Clone, Copy, Debug)]
pub struct SocketEvent<'a> {
    /// Handler number of the route.
    pub handler: u32,
    /// The socket.
    pub socket: SocketId,
    /// Close code, for `Event::Close`.
    pub code: u16,
    /// The message is binary.
    pub is_binary: bool,
    /// The message, or the reason of a close.
    pub payload: &'a [u8],
}

/// Properties of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketInfo<'a> {
    /// Messages can be sent.
    pub is_open: bool,
    /// Bytes queued for the client.
    pub queued_bytes: usize,
    /// The negotiated subprotocol, if any.
    pub protocol: Option<&'a [u8]>,
}

/// Location of the current event's payload.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// In the worker's input buffer.
    Input { start: usize, len: usize },
    /// The message is in `Events::bytes`.
    Owned,
}

/// The current event, and the queued events.
pub(crate) struct Events {
    pub handler: u32,
    pub socket: SocketId,
    pub code: u16,
    pub is_binary: bool,
    pub place: Place,
    pub bytes: Vec<u8>,
    /// Peer of the socket whose close is the current event.
    pub peer: Option<Peer>,
    /// Queued events; at most two per connection that existed when the last event was taken.
    pub waiting: VecDeque<Waiting>,
}

pub(crate) enum Waiting {
    Open {
        socket: SocketId,
        handler: u32,
    },
    Close {
        socket: SocketId,
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
            socket: SocketId::UNSET,
            code: 0,
            is_binary: false,
            place: Place::Owned,
            bytes: Vec::new(),
            peer: None,
            waiting: VecDeque::new(),
        }
    }

    pub fn open(&mut self, socket: SocketId, handler: u32) {
        self.waiting.push_back(Waiting::Open { socket, handler });
    }

    /// Sets the current message: the `len` bytes before the offset `end` in the input buffer.
    #[inline]
    pub fn lend(
        &mut self,
        handler: u32,
        socket: SocketId,
        is_binary: bool,
        len: usize,
        end: usize,
    ) {
        self.handler = handler;
        self.socket = socket;
        self.is_binary = is_binary;
        let start = end - len;
        self.place = Place::Input { start, len };
    }

    /// Sets a message that arrived in pieces.
    pub fn give(&mut self, handler: u32, socket: SocketId, is_binary: bool, bytes: Vec<u8>) {
        self.handler = handler;
        self.socket = socket;
        self.is_binary = is_binary;
        self.place = Place::Owned;
        self.bytes = bytes;
    }

    /// Returns true if no event is queued.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Drops queued events: no handler can receive them.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Releases the last message.
    #[inline]
    pub fn release(&mut self) {
        if self.bytes.capacity() > 0 {
            self.bytes = Vec::new();
        }
        self.place = Place::Owned;
        self.peer = None;
    }

    pub fn take(&mut self) -> Option<Event> {
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

    pub fn payload<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        match self.place {
            Place::Input { start, len } => &input[start..start + len],
            Place::Owned => &self.bytes,
        }
    }
}
