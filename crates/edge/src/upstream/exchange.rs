//! One exchange with an origin: a request, its response, and all later data on the same connection, such as WebSocket frames.

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
use crate::upstream::id::UpstreamExchangeId;
use crate::upstream::place::Place;
use crate::upstream::reply::Phase;
use crate::upstream::{Failure, HealthAtSend};

/// Purpose of an exchange.
pub(crate) enum Purpose {
    /// An HTTP response for a client.
    Plain,
    /// A WebSocket, opened with this `Sec-WebSocket-Key`.
    Upgrade([u8; KEY_BYTES]),
    /// A response of another worker, which has the SockJS session.
    Worker,
    /// Events of a WebSocket over HTTP. While the WebSocket is being opened, contains its future state.
    Events(Option<Box<OverHttp>>),
}

/// A request to an origin and its response.
pub(crate) struct UpstreamExchange {
    id: UpstreamExchangeId,
    pub owner: Owner,
    pub purpose: Purpose,
    /// Reading from the client's WebSocket is paused until the origin accepts more.
    pub has_deferred: bool,
    pub source: Source,
    pub last_ids: Vec<(Vec<u8>, Vec<u8>)>,
    pub phase: Phase,
    /// Connection of the exchange, unless it uses a shared HTTP/2 connection.
    pub wire: Option<WireId>,
    /// Number of the exchange's question to a service, used instead of a connection.
    pub question: Option<u64>,
    /// Stream of the exchange on a shared HTTP/2 connection.
    pub http2: Option<OnCarrier>,
    /// Place to which the exchange opens an HTTP/2 connection that other exchanges wait for.
    pub opens: Option<Place>,
    /// Number of times the target returned the request unprocessed.
    pub refusals: u8,
    /// The target does not support WebSockets over HTTP/2.
    pub is_http1: bool,
    /// Trailers of the response.
    pub trailers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Session of the exchange with a ZHTTP backend.
    pub stream: Option<StreamOf>,
    pub codec: Codec,
    pub out: Vec<u8>,
    pub sent: usize,
    /// Rest of a request body that is spooled in a file.
    pub file: Option<File>,
    /// Targets that were not tried yet, in reverse order.
    pub targets: Vec<usize>,
    /// The exchange is included in the target's count of requests in flight.
    pub is_counted: bool,
    /// Health of the target when the request was sent.
    pub health_at_send: HealthAtSend,
    /// Reason why the exchange has no connection yet.
    pub waits: Option<Wait>,
    /// Rest of a request body that is still arriving.
    pub arriving: Option<Arriving>,
    /// Addresses of the target that were not tried yet.
    pub addresses: Vec<SocketAddr>,
    pub is_connected: bool,
    pub can_read: bool,
    pub has_hung_up: bool,
    pub is_reused: bool,
    pub has_response: bool,
    /// Deadline of the current step.
    pub due_ms: u64,
    /// Deadline of the exchange.
    pub(crate) deadline_ms: u64,
    /// Errors of the targets tried so far, for the log.
    pub failures: Vec<UpstreamError>,
    /// Other clients that wait for the same response.
    pub shared: Shared,
    /// Values for the access log line.
    pub noted: Noted,
    /// Trace span, if the request is sampled.
    pub span: Option<UpstreamSpan>,
}

/// Event without which a connection cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Name resolution of this host.
    Name(String),
    /// A free slot in the backlog of a Unix socket.
    Room,
    /// An HTTP/2 connection that another exchange is opening to this target.
    Carrier(Place),
}

/// Session of an exchange with a ZHTTP backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamOf {
    pub number: u64,
    pub service: u16,
}

/// Key of a request; requests with the same key share one response.
pub(crate) type ShareKey = Vec<u8>;

/// Requests whose responses may be shared (`share_all`).
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    pub is_on: bool,
    /// Exchange that is in progress for each key.
    pub asked: HashMap<ShareKey, UpstreamExchangeId>,
    /// Exchange that each waiting client shares, by its request.
    pub waiting: Numbered<RequestId, UpstreamExchangeId>,
}

/// Sharing state of one exchange.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub key: Option<ShareKey>,
    /// Other clients that wait for this response.
    pub others: Vec<Sharer>,
}

/// A client that waits for the response to another client's request.
#[derive(Debug)]
pub(crate) struct Sharer {
    pub handle: RequestId,
    pub source: Source,
    /// Time at which the client began to wait. The client's own time-out starts at this time.
    pub since_ms: u64,
}

impl Sharing {
    pub fn new(is_on: bool) -> Self {
        Self {
            is_on,
            ..Self::default()
        }
    }

    /// Number of clients that wait for another client's request.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// `Ok` while the exchange continues. On `Stop`, the caller acts on the reason.
pub(crate) type Step = Result<(), Stop>;

/// Reason why an exchange cannot continue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The exchange is complete, and its connection was returned or closed.
    Over,
    /// No target provides a response: the client receives this status.
    Failed(u16, String),
    /// The attempt failed: the request is sent again if that is safe.
    Retried(Failure, String),
    /// The rest of the request body cannot be read.
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

impl UpstreamExchange {
    pub(crate) fn new(
        id: UpstreamExchangeId,
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

    /// Returns true if the origin cannot have processed the request: it has not received the complete request and has sent nothing.
    pub fn is_unprocessed(&self) -> bool {
        let may_be_processed = self.has_response || (self.is_connected && self.is_sent());
        !may_be_processed
    }

    /// Returns true if the complete response has arrived.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(
            self.phase,
            Phase::Streaming {
                has_ended: true,
                ..
            }
        )
    }

    /// Returns true if part of the response was sent to the client.
    pub fn has_begun_answer(&self) -> bool {
        matches!(self.phase, Phase::Streaming { .. })
    }

    /// Returns the id of the exchange.
    pub fn id(&self) -> UpstreamExchangeId {
        self.id
    }
}

impl UpstreamExchange {
    /// Returns true if the complete request was sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent == self.out.len()
            && self.file.is_none()
            && self.arriving.as_ref().is_none_or(|it| it.has_ended)
    }

    /// Queues bytes for a connection that was upgraded to a WebSocket.
    pub fn queue(&mut self, bytes: &[u8]) {
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        self.out.extend_from_slice(bytes);
    }

    /// Returns the number of bytes queued for the origin.
    pub fn queued(&self) -> usize {
        self.out.len() - self.sent
    }
}

/// Time-outs of origins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub connect_ms: u64,
    pub response_ms: u64,
    pub idle_ms: u64,
}

impl UpstreamExchange {
    /// Returns the place under which the connection can be reused.
    pub(crate) fn place(&self) -> Place {
        Place::of(&self.source)
    }

    /// Returns true if the request may be sent over HTTP/2.
    pub(crate) fn may_use_http2(&self, target: &Target) -> bool {
        let is_carried = match self.purpose {
            Purpose::Plain | Purpose::Events(_) => true,
            Purpose::Upgrade(_) => !self.is_http1,
            Purpose::Worker => false,
        };
        target.http2 && is_carried
    }

    /// Returns true if the exchange is an HTTP/2 stream that is or will become a WebSocket. The request of such an exchange ends
    /// only with the stream.
    pub(crate) fn is_socket_stream(&self) -> bool {
        self.http2.is_some() && matches!(self.purpose, Purpose::Upgrade(_))
    }
}
