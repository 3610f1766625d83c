//! The state of a conversation with an origin.

use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;

use fermata_engine::{ReadError, RequestId, UpstreamSpan, WireId};
use fermata_proto::response_reader::{RequestKind, ResponseReader};
use fermata_proto::ws::accept::KEY_BYTES;

use crate::client::body::Arriving;
use crate::client::journal::Noted;
use crate::client::over_http::OverHttp;
use crate::client::source::{Owner, Source};
use crate::numbered::Numbered;
use crate::routes::Target;
use crate::upstream::codec::Codec;
use crate::upstream::error::UpstreamError;
use crate::upstream::http2::OnCarrier;
use crate::upstream::id::TalkId;
use crate::upstream::place::Place;
use crate::upstream::reply::Phase;
use crate::upstream::{Failure, HealthAtSend};

/// What a conversation is for.
pub(crate) enum Purpose {
    /// A response.
    Plain,
    /// A WebSocket, with this key.
    Upgrade([u8; KEY_BYTES]),
    /// What another worker's SockJS session answers.
    Worker,
    /// Events of a WebSocket; while it is being opened, with the state it will have.
    Events(Option<Box<OverHttp>>),
}

/// A request to an origin, and its response.
pub(crate) struct Talk {
    id: TalkId,
    pub owner: Owner,
    pub purpose: Purpose,
    /// The client's socket waits for its origin to take more.
    pub has_deferred: bool,
    pub source: Source,
    pub last_ids: Vec<(Vec<u8>, Vec<u8>)>,
    pub phase: Phase,
    /// Its connection, if it has one of its own.
    pub wire: Option<WireId>,
    /// What it asks a service instead.
    pub question: Option<u64>,
    /// Its stream of a connection that carries others' requests, too.
    pub http2: Option<OnCarrier>,
    /// The connection that it opens for others, too.
    pub opens: Option<Place>,
    /// How often the target has not looked at the request.
    pub refusals: u8,
    /// The target takes no WebSockets over HTTP/2.
    pub is_http1: bool,
    /// What follows the response's body.
    pub trailers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Its session with a backend that has such.
    pub stream: Option<StreamOf>,
    pub codec: Codec,
    pub out: Vec<u8>,
    pub sent: usize,
    /// What is left of a body in a file.
    pub file: Option<File>,
    /// Targets that have not been tried, the next last.
    pub targets: Vec<usize>,
    /// The target counts it among its requests.
    pub is_counted: bool,
    /// How the target fared when the request was sent.
    pub health_at_send: HealthAtSend,
    /// What there is no connection for yet.
    pub waits: Option<Wait>,
    /// What is left of a body that arrives still.
    pub arriving: Option<Arriving>,
    /// Addresses of the target that have not been tried.
    pub addresses: Vec<SocketAddr>,
    pub is_connected: bool,
    pub can_read: bool,
    pub has_hung_up: bool,
    pub is_reused: bool,
    pub has_response: bool,
    /// When it takes too long.
    pub due_ms: u64,
    /// When all of it takes too long.
    pub(crate) deadline_ms: u64,
    /// Why targets have failed, for the log.
    pub failures: Vec<UpstreamError>,
    /// Clients that wait for the same response.
    pub shared: Shared,
    /// For its line in the log.
    pub noted: Noted,
    /// Its span, where its request has one.
    pub span: Option<UpstreamSpan>,
}

/// What a connection waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The addresses of this host.
    Name(String),
    /// Room in the queue of a Unix socket.
    Room,
    /// A connection to this place that another conversation opens.
    Carrier(Place),
}

/// The session that a conversation has with its backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamOf {
    pub number: u64,
    pub service: u16,
}

/// What makes two requests equal.
pub(crate) type ShareKey = Vec<u8>;

/// Requests that others may share.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    pub is_on: bool,
    /// The conversation that asks, by what it asks for.
    pub asked: HashMap<ShareKey, TalkId>,
    /// The conversation that a client waits for, by its request.
    pub waiting: Numbered<RequestId, TalkId>,
}

/// What a conversation has to do with others' requests.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub key: Option<ShareKey>,
    /// Clients that wait for the same response.
    pub others: Vec<Sharer>,
}

/// A client that waits for the answer to another's request.
#[derive(Debug)]
pub(crate) struct Sharer {
    pub handle: RequestId,
    pub source: Source,
    /// Since when: it has its own time.
    pub since_ms: u64,
}

impl Sharing {
    pub fn new(is_on: bool) -> Self {
        Self {
            is_on,
            ..Self::default()
        }
    }

    /// Clients that wait for another's request.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Whether a conversation goes on; who runs it does what follows otherwise.
pub(crate) type Step = Result<(), Stop>;

/// Why a conversation does not go on as it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Nothing is left to do, and its connection is no longer its own.
    Over,
    /// The response is not to be had: its asker is told so, with this status.
    Failed(u16, String),
    /// It is tried once more where that can do no harm.
    Retried(Failure, String),
    /// The rest of the request's body is not to be had.
    Unread(ReadError),
}

impl Stop {
    pub fn failed(status: u16, reason: impl ToString) -> Self {
        Self::Failed(status, reason.to_string())
    }

    pub fn retried(failure: Failure, reason: impl ToString) -> Self {
        Self::Retried(failure, reason.to_string())
    }
}

impl Talk {
    pub(crate) fn new(
        id: TalkId,
        owner: Owner,
        source: Source,
        last_ids: Vec<(Vec<u8>, Vec<u8>)>,
        purpose: Purpose,
    ) -> Box<Self> {
        Box::new(Self {
            id,
            owner,
            purpose,
            has_deferred: false,
            source,
            last_ids,
            phase: Phase::AwaitingHead,
            wire: None,
            question: None,
            http2: None,
            opens: None,
            refusals: 0,
            is_http1: false,
            trailers: Vec::new(),
            stream: None,
            codec: Codec::Http(ResponseReader::new(RequestKind::default())),
            out: Vec::new(),
            sent: 0,
            file: None,
            targets: Vec::new(),
            is_counted: false,
            health_at_send: HealthAtSend::default(),
            waits: None,
            arriving: None,
            addresses: Vec::new(),
            is_connected: false,
            can_read: false,
            has_hung_up: false,
            is_reused: false,
            has_response: false,
            due_ms: u64::MAX,
            deadline_ms: u64::MAX,
            failures: Vec::new(),
            shared: Shared::default(),
            noted: Noted::default(),
            span: None,
        })
    }

    /// Whether the origin cannot have acted on the request: it has not got all of it, and has said nothing.
    pub fn may_be_unheard(&self) -> bool {
        let is_heard = self.has_response || (self.is_connected && self.is_sent());
        !is_heard
    }

    /// Whether the whole response is here.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(
            self.phase,
            Phase::Streaming {
                has_ended: true,
                ..
            }
        )
    }

    /// Whether its client has got a part of the answer.
    pub fn has_begun_answer(&self) -> bool {
        matches!(self.phase, Phase::Streaming { .. })
    }

    /// Its number.
    pub fn id(&self) -> TalkId {
        self.id
    }
}

impl Talk {
    /// Whether the origin has all of it.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent == self.out.len()
            && self.file.is_none()
            && self.arriving.as_ref().is_none_or(|it| it.has_ended)
    }

    /// Adds bytes of a connection that has become a WebSocket.
    pub fn queue(&mut self, bytes: &[u8]) {
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        self.out.extend_from_slice(bytes);
    }

    /// Bytes that wait for the origin.
    pub fn queued(&self) -> usize {
        self.out.len() - self.sent
    }
}

/// Times that origins have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub connect_ms: u64,
    pub response_ms: u64,
    pub idle_ms: u64,
}

impl Talk {
    /// Where its connection may serve again.
    pub(crate) fn place(&self) -> Place {
        Place::of(&self.source)
    }

    /// Whether its request may go to its target in HTTP/2.
    pub(crate) fn may_speak_http2(&self, target: &Target) -> bool {
        let is_carried = match self.purpose {
            Purpose::Plain | Purpose::Events(_) => true,
            Purpose::Upgrade(_) => !self.is_http1,
            Purpose::Worker => false,
        };
        target.http2 && is_carried
    }

    /// Whether it is a WebSocket, or is to become one, on a stream of HTTP/2: what is sent has no end but that of the stream.
    pub(crate) fn is_socket_stream(&self) -> bool {
        self.http2.is_some() && matches!(self.purpose, Purpose::Upgrade(_))
    }
}
