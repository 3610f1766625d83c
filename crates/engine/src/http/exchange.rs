//! An exchange: one request and what it is answered with, be that a response, a stream, a hold or a WebSocket.
//!
//! A connection of HTTP/1 has one at a time, and a stream of HTTP/2 has one. What belongs to the connection (bytes that come and go, deadlines, the end) is
//! in `net`, and how an exchange's answer lies on its connection is up to [`Protocol`].

use std::num::NonZeroU32;
use std::rc::Rc;

use fermata_hub::SubId;
use fermata_io::Deadline;
use fermata_proto::http1::{Head, Method};

use crate::channels::missed::Resume;
use crate::channels::presence::Presence;
use crate::channels::stream_format::StreamFormat;
use crate::http::body::{Early, Partial};
use crate::http::protocol::Protocol;
use crate::http::respond::outgoing::Outgoing;
use crate::id::SERIAL_NONE;
use crate::id::{RequestId, SocketId};
use crate::net::connection::Connection;
use crate::net::http2::CarrierPlace;
use crate::net::index::ExchangeIndex;
use crate::websocket::Socket;

/// How far an exchange is, with what is needed for that.
pub(crate) enum Stage {
    /// Its head, or the rest of it, has to come.
    Head,
    /// Its body has to come.
    Body(Box<Partial>),
    /// It is with the handler, which may read its body while that arrives, or its last answer has been given.
    Handling(Option<Box<Partial>>),
    /// Its client has nothing more to say and gets what is published.
    Held(Held),
    /// It has become a WebSocket.
    Socket(Socket),
    /// There is none: the connection carries others as streams.
    Http2(CarrierPlace),
}

/// A held client: what it gets, and how its silence is broken, if it is.
///
/// When the log has moved past one that `closes_on_gap`, it is closed instead of told.
pub(crate) enum Held {
    /// It gets events, and a comment when it was silent for so long.
    Events {
        format: StreamFormat,
        keep_alive_ms: Option<NonZeroU32>,
        closes_on_gap: bool,
        /// What it has still to be sent before it is live, when it came back.
        resume: Option<Box<Resume>>,
    },
    /// It gets what its embedder makes of records, or hands it itself.
    Own {
        keep_alive_ms: Option<NonZeroU32>,
        closes_on_gap: bool,
        /// Something sent does not move its keep-alive.
        keeps_interval: bool,
        keep_alive: Option<Rc<[u8]>>,
    },
    /// It gets what its embedder selects of one channel, and a comment when it was silent for so long.
    View(Box<HeldView>),
}

/// What is known of a client that gets a view.
pub(crate) struct HeldView {
    pub keep_alive_ms: Option<NonZeroU32>,
    /// The embedder keeps what it knows of the view for as long as somebody has this.
    pub view: Rc<u64>,
    /// When the response ends by itself.
    pub ends: Deadline,
    /// What it has still to be sent before it is live.
    pub resume: Option<Box<Resume>>,
}

impl Held {
    #[inline]
    pub fn keep_alive_ms(&self) -> Option<NonZeroU32> {
        match self {
            Held::Events { keep_alive_ms, .. } | Held::Own { keep_alive_ms, .. } => *keep_alive_ms,
            Held::View(held) => held.keep_alive_ms,
        }
    }

    /// When its response ends by itself.
    #[inline]
    pub fn ends(&self) -> Deadline {
        match self {
            Held::View(held) => held.ends,
            Held::Events { .. } | Held::Own { .. } => Deadline::NEVER,
        }
    }

    /// How it is told of events; `None` of one that the embedder writes to.
    pub fn format(&self) -> Option<StreamFormat> {
        match self {
            Held::Events { format, .. } => Some(*format),
            Held::View(_) => Some(StreamFormat::EventStream),
            Held::Own { .. } => None,
        }
    }

    /// The view that it gets.
    pub fn view(&self) -> Option<u64> {
        match self {
            Held::View(held) => Some(*held.view),
            Held::Events { .. } | Held::Own { .. } => None,
        }
    }

    pub fn closes_on_gap(&self) -> bool {
        match self {
            Held::Events { closes_on_gap, .. } | Held::Own { closes_on_gap, .. } => *closes_on_gap,
            // It comes back with its last event id, and the ring has what the log has not.
            Held::View(_) => true,
        }
    }

    pub fn keeps_interval(&self) -> bool {
        matches!(
            self,
            Held::Own {
                keeps_interval: true,
                ..
            }
        )
    }

    pub fn is_own(&self) -> bool {
        self.format().is_none()
    }

    /// What it has still to be sent.
    #[inline]
    pub fn resume_mut(&mut self) -> Option<&mut Option<Box<Resume>>> {
        match self {
            Held::Events { resume, .. } => Some(resume),
            Held::View(held) => Some(&mut held.resume),
            Held::Own { .. } => None,
        }
    }

    #[inline]
    pub fn is_resuming(&self) -> bool {
        match self {
            Held::Events { resume, .. } => resume.is_some(),
            Held::View(held) => held.resume.is_some(),
            Held::Own { .. } => false,
        }
    }
}

/// One request and its answer.
pub(crate) struct Exchange {
    pub stage: Stage,
    pub protocol: Protocol,
    /// The request asked for HEAD: its response carries no body.
    pub is_head: bool,
    /// Its handler waits: the client's next request or message waits, too, and its leaving is told.
    pub is_deferred: bool,
    /// Its request waits for being begun, in `Starts`.
    pub is_put_off: bool,
    /// What its channels have for it is handed to the embedder.
    pub takes_items: bool,
    /// `Sockets` remembers something of its handshake.
    pub has_handshake: bool,
    /// Number of the request, part of its handle.
    pub serial: u32,
    /// Head of the chain of subscriptions.
    pub chain: SubId,
    /// The rest of its answer, which follows what the connection has to send.
    pub body: Option<Box<Outgoing>>,
    pub presence: Option<Box<Presence>>,
}

impl Exchange {
    pub fn new() -> Exchange {
        Exchange {
            stage: Stage::Head,
            protocol: Protocol::Http11,
            is_head: false,
            is_deferred: false,
            is_put_off: false,
            takes_items: false,
            has_handshake: false,
            serial: SERIAL_NONE,
            chain: SubId::NONE,
            body: None,
            presence: None,
        }
    }

    /// Whether other parts know of it: handlers, sockets, channels.
    pub fn is_known(&self) -> bool {
        self.is_deferred
            || self.has_handshake
            || self.chain != SubId::NONE
            || self.presence.is_some()
            || !matches!(
                self.stage,
                Stage::Head | Stage::Body(_) | Stage::Handling(None) | Stage::Http2(_)
            )
    }

    /// Another stage begins. Those of a request without a body have nothing to be let go of, which is seen here without a call.
    #[inline]
    pub fn enter(&mut self, stage: Stage) {
        let before = std::mem::replace(&mut self.stage, stage);
        match before {
            Stage::Head | Stage::Handling(None) => std::mem::forget(before),
            _ => drop(before),
        }
    }

    /// A request's head has been read.
    #[inline]
    pub fn note_head(&mut self, head: &Head) {
        self.is_head = head.method == Method::Head;
        self.protocol = Protocol::of(head);
    }

    /// The handle of its request, by its number.
    pub fn handle(&self, index: ExchangeIndex) -> RequestId {
        RequestId::new(self.serial, index)
    }

    /// The WebSocket that it is, by its number.
    #[inline]
    pub fn socket_id(&self, index: ExchangeIndex) -> SocketId {
        SocketId::of(self.handle(index))
    }

    #[inline]
    pub fn awaits_head(&self) -> bool {
        matches!(self.stage, Stage::Head)
    }

    /// Whether its connection is at rest but for what it has still to send.
    #[inline]
    pub fn awaits_request(&self) -> bool {
        matches!(self.stage, Stage::Head | Stage::Http2(_))
    }

    #[inline]
    pub fn is_handling(&self) -> bool {
        matches!(self.stage, Stage::Handling(_))
    }

    #[inline]
    pub fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Held(_))
    }

    #[inline]
    pub fn is_socket(&self) -> bool {
        matches!(self.stage, Stage::Socket(_))
    }

    #[inline]
    pub fn held(&self) -> Option<&Held> {
        match &self.stage {
            Stage::Held(held) => Some(held),
            _ => None,
        }
    }

    /// Whether it is held, and what is sent to it does not move its keep-alive.
    pub fn keeps_interval(&self) -> bool {
        self.held().is_some_and(Held::keeps_interval)
    }

    pub fn held_mut(&mut self) -> Option<&mut Held> {
        match &mut self.stage {
            Stage::Held(held) => Some(held),
            _ => None,
        }
    }

    #[inline]
    pub fn socket(&self) -> Option<&Socket> {
        match &self.stage {
            Stage::Socket(socket) => Some(socket),
            _ => None,
        }
    }

    #[inline]
    pub fn socket_mut(&mut self) -> Option<&mut Socket> {
        match &mut self.stage {
            Stage::Socket(socket) => Some(socket),
            _ => None,
        }
    }

    /// The body that its handler reads while it arrives.
    pub fn early(&self) -> Option<(&Partial, &Early)> {
        match &self.stage {
            Stage::Handling(Some(partial)) => Some((partial, partial.early.as_ref()?)),
            _ => None,
        }
    }

    pub fn early_mut(&mut self) -> Option<&mut Early> {
        match &mut self.stage {
            Stage::Handling(Some(partial)) => partial.early.as_mut(),
            _ => None,
        }
    }

    /// Whether its handler waits for more of its body, and has to be told of the end of that.
    pub fn is_read_from(&self) -> bool {
        self.early().is_some_and(|(_, early)| early.is_waited_for())
    }

    /// Whether its output has only to be sent, as far as it is concerned: its answer has been given whole, or it is a WebSocket
    /// that follows no channel.
    #[inline]
    pub fn rests_when_sent(&self) -> bool {
        self.body.is_none()
            && match &self.stage {
                Stage::Head => true,
                Stage::Socket(socket) => self.chain == SubId::NONE && !socket.is_resuming(),
                _ => false,
            }
    }

    /// The kernel has taken `bytes` more of what `connection` has to send, and not all of it.
    pub fn drop_sent(&mut self, connection: &mut Connection, bytes: usize) {
        let sent = connection.out_sent as usize + bytes;
        if let Some(socket) = self.socket_mut() {
            socket.on_sent(&connection.out, sent);
        }
        if connection.drop_sent(sent)
            && let Some(socket) = self.socket_mut()
        {
            socket.on_removed(sent);
        }
    }

    /// Whether something of its answer has not gone out over `connection`.
    pub fn has_output(&self, connection: &Connection) -> bool {
        connection.unsent() > 0 || self.body.is_some()
    }

    /// Its mark of being listed in `Channels::resuming`, while it has still to be sent what it missed.
    pub fn resume_queued(&mut self) -> Option<&mut bool> {
        match &mut self.stage {
            Stage::Held(held) => Some(&mut held.resume_mut()?.as_mut()?.is_queued),
            Stage::Socket(socket) => socket.resume_queued(),
            _ => None,
        }
    }
}
