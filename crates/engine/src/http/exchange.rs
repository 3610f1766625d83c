//! An exchange: one request and its response, stream, hold or WebSocket.
//!
//! An HTTP/1 connection has one exchange at a time; each HTTP/2 stream has one. Connection state
//! (bytes, deadlines, close) is in `net`. [`Protocol`] decides how a response is written to the
//! connection.

use std::num::NonZeroU32;
use std::rc::Rc;

use fermata_hub::SubId;
use fermata_io::Deadline;
use fermata_proto::http1::{Head, Method};

use crate::channels::missed::Resume;
use crate::channels::presence::Presence;
use crate::channels::stream_format::StreamFormat;
use crate::http::body::{Partial, StreamedBody};
use crate::http::protocol::Protocol;
use crate::http::respond::outgoing::Outgoing;
use crate::id::SERIAL_NONE;
use crate::id::{RequestId, SocketId};
use crate::net::connection::Connection;
use crate::net::http2::CarrierPlace;
use crate::net::index::ExchangeIndex;
use crate::websocket::Socket;

/// Stage of an exchange, with the stage's data.
pub(crate) enum Stage {
    /// Waiting for the rest of the head.
    Head,
    /// Receiving the body.
    Body(Box<Partial>),
    /// Handled by the application, which may still read the body; or the last response is complete.
    Handling(Option<Box<Partial>>),
    /// Held: the client receives published events.
    Held(Held),
    /// A WebSocket.
    Socket(Socket),
    /// No request: the connection carries other exchanges as HTTP/2 streams.
    Http2(CarrierPlace),
}

/// A held client: its format and its keep-alive.
///
/// With `closes_on_gap` the client is closed, without a gap event, when the log overtakes it.
pub(crate) enum Held {
    /// Receives events, and a comment after `keep_alive_ms` of silence.
    Events {
        format: StreamFormat,
        keep_alive_ms: Option<NonZeroU32>,
        closes_on_gap: bool,
        /// Missed events to send before the client receives live events.
        resume: Option<Box<Resume>>,
    },
    /// Receives the embedder's encoding of records, or bytes written by the embedder.
    Own {
        keep_alive_ms: Option<NonZeroU32>,
        closes_on_gap: bool,
        /// True if sent data does not delay the keep-alive.
        keeps_interval: bool,
        keep_alive: Option<Rc<[u8]>>,
    },
    /// The client receives a view of one channel, and a comment after a silence.
    View(Box<HeldView>),
}

/// The state of a view's client.
pub(crate) struct HeldView {
    pub keep_alive_ms: Option<NonZeroU32>,
    /// The embedder retains its state of the view while this reference exists.
    pub view: Rc<u64>,
    /// Time at which the response ends.
    pub ends: Deadline,
    /// Missed events to send before the client receives live events.
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

    /// Returns the time at which the response ends.
    #[inline]
    pub fn ends(&self) -> Deadline {
        match self {
            Held::View(held) => held.ends,
            Held::Events { .. } | Held::Own { .. } => Deadline::NEVER,
        }
    }

    /// Returns the event format; `None` if the embedder writes to the client.
    pub fn format(&self) -> Option<StreamFormat> {
        match self {
            Held::Events { format, .. } => Some(*format),
            Held::View(_) => Some(StreamFormat::EventStream),
            Held::Own { .. } => None,
        }
    }

    /// Returns the client's view.
    pub fn view(&self) -> Option<u64> {
        match self {
            Held::View(held) => Some(*held.view),
            Held::Events { .. } | Held::Own { .. } => None,
        }
    }

    pub fn closes_on_gap(&self) -> bool {
        match self {
            Held::Events { closes_on_gap, .. } | Held::Own { closes_on_gap, .. } => *closes_on_gap,
            // The client resumes with its last event id: the ring still has the events that the
            // view's log has dropped.
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

    /// Returns the client's missed events.
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

/// One request and its response.
pub(crate) struct Exchange {
    pub stage: Stage,
    pub protocol: Protocol,
    /// The request method is HEAD: the response has no body.
    pub is_head: bool,
    /// The handler waits: the next request or message is delayed, and a disconnect is reported.
    pub is_deferred: bool,
    /// The request waits in `Starts`.
    pub is_put_off: bool,
    /// The client's channel records are passed to the embedder.
    pub takes_items: bool,
    /// `Sockets` stores data of the handshake.
    pub has_handshake: bool,
    /// Number of the request, part of the request's handle.
    pub serial: u32,
    /// Head of the chain of subscriptions.
    pub chain: SubId,
    /// Rest of the response body, after the connection's output buffer.
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

    /// Returns true if handlers, sockets or channels refer to this exchange.
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

    /// Returns true if the exchange may use buffers although its connection is not blocked.
    #[inline]
    pub fn may_buffer(&self) -> bool {
        self.is_put_off
            || self.body.is_some()
            || matches!(
                self.stage,
                Stage::Body(_) | Stage::Handling(Some(_)) | Stage::Socket(_) | Stage::Http2(_)
            )
    }

    /// Enters another stage. The stages of a request without a body hold no memory; the check
    /// avoids a call to drop.
    #[inline]
    pub fn enter(&mut self, stage: Stage) {
        let before = std::mem::replace(&mut self.stage, stage);
        match before {
            Stage::Head | Stage::Handling(None) => std::mem::forget(before),
            _ => drop(before),
        }
    }

    /// Stores the properties of a parsed head.
    #[inline]
    pub fn note_head(&mut self, head: &Head) {
        self.is_head = head.method == Method::Head;
        self.protocol = Protocol::of(head);
    }

    /// Returns the handle of the request.
    pub fn handle(&self, index: ExchangeIndex) -> RequestId {
        RequestId::new(self.serial, index)
    }

    /// Returns the id of the WebSocket.
    #[inline]
    pub fn socket_id(&self, index: ExchangeIndex) -> SocketId {
        SocketId::of(self.handle(index))
    }

    #[inline]
    pub fn awaits_head(&self) -> bool {
        matches!(self.stage, Stage::Head)
    }

    /// Returns true if the connection is idle apart from unsent output.
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

    /// Returns true if the client is held and sent data does not delay its keep-alive.
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

    /// Returns the body that the handler reads while it arrives.
    pub fn early(&self) -> Option<(&Partial, &StreamedBody)> {
        match &self.stage {
            Stage::Handling(Some(partial)) => Some((partial, partial.early.as_ref()?)),
            _ => None,
        }
    }

    pub fn early_mut(&mut self) -> Option<&mut StreamedBody> {
        match &mut self.stage {
            Stage::Handling(Some(partial)) => partial.early.as_mut(),
            _ => None,
        }
    }

    /// Returns true if the handler waits for more of the body and must be notified when the body
    /// ends.
    pub fn is_read_from(&self) -> bool {
        self.early().is_some_and(|(_, early)| early.is_waited_for())
    }

    /// Returns true if only output remains to be sent: the response is complete, or the exchange is
    /// a WebSocket without channels.
    #[inline]
    pub fn rests_when_sent(&self) -> bool {
        self.body.is_none()
            && match &self.stage {
                Stage::Head => true,
                Stage::Socket(socket) => self.chain == SubId::NONE && !socket.is_resuming(),
                _ => false,
            }
    }

    /// Notes that the kernel has accepted `bytes` more of the output, but not the complete output.
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

    /// Returns true if a part of the response is unsent.
    pub fn has_output(&self, connection: &Connection) -> bool {
        connection.unsent() > 0 || self.body.is_some()
    }

    /// Returns the memory in bytes used by an incomplete request body or WebSocket message.
    pub fn arriving_bytes(&self) -> usize {
        match &self.stage {
            Stage::Body(partial) | Stage::Handling(Some(partial)) => partial.buffered_bytes(),
            Stage::Socket(socket) => socket.buffered_bytes(),
            Stage::Head | Stage::Handling(None) | Stage::Held(_) | Stage::Http2(_) => 0,
        }
    }

    /// Returns the memory in bytes used by a response, besides the connection's buffers.
    pub fn unread_bytes(&self) -> usize {
        self.body.as_deref().map_or(0, Outgoing::buffered_bytes)
    }

    /// Returns the flag for membership in `Channels::resuming`, while the client has missed events
    /// to send.
    pub fn resume_queued(&mut self) -> Option<&mut bool> {
        match &mut self.stage {
            Stage::Held(held) => Some(&mut held.resume_mut()?.as_mut()?.is_queued),
            Stage::Socket(socket) => socket.resume_queued(),
            _ => None,
        }
    }
}
