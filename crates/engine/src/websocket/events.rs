//! What the program is told of sockets, and what it can ask.
//!
//! A message is handed out the moment it is parsed. That a socket is open, or has ended, may come up
//! anywhere in the loop, also while a handler runs; it waits here and is handed out before anything
//! else is parsed. So a socket's events come in order: open, its messages, close.

use std::collections::VecDeque;

use fermata_io::Peer;

use crate::embed::event::Event;
use crate::id::SocketId;

/// An event about a socket, valid until the next one.
#[derive(Clone, Copy, Debug)]
pub struct SocketEvent<'a> {
    /// The number of the route.
    pub handler: u32,
    /// The socket.
    pub socket: SocketId,
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
pub(crate) enum Place {
    /// In the worker's input buffer.
    Input { start: usize, len: usize },
    /// In `Events::bytes`.
    Owned,
}

/// The current event, and those to come.
pub(crate) struct Events {
    pub handler: u32,
    pub socket: SocketId,
    pub code: u16,
    pub is_binary: bool,
    pub place: Place,
    pub bytes: Vec<u8>,
    /// The other end of the socket whose close is the current event.
    pub peer: Option<Peer>,
    /// At most two for each connection there was when the last one was taken.
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

    /// A message whose `len` bytes lie in the input buffer, and end where its frame ends.
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

    /// A message that came in pieces.
    pub fn give(&mut self, handler: u32, socket: SocketId, is_binary: bool, bytes: Vec<u8>) {
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
