//! What is known of a WebSocket besides its subscriptions, and how it is closed from here.

use fermata_engine::{RequestId, SocketId};
use fermata_grip::ws_control::Timed;
use fermata_proto::ws::close::CloseCode;

use crate::client::over_http::OverHttp;
use crate::client::source::Engine;
use crate::upstream::id::TalkId;

/// The code of one that is closed without a reason.
pub(crate) const NORMAL: u16 = CloseCode::Normal as u16;

/// The code of one whose origin is gone.
pub(crate) const AWAY: u16 = CloseCode::GoingAway as u16;

/// The code of one whose origin has failed.
pub(crate) const FAILED: u16 = CloseCode::InternalError as u16;

/// The code of one that has lost what was published.
const TRY_AGAIN: u16 = CloseCode::TryAgainLater as u16;

/// What is said of a client or an origin that has left without a word, or without a code.
pub(crate) const ABNORMAL: u16 = CloseCode::Abnormal as u16;
pub(crate) const NO_STATUS: u16 = CloseCode::NoStatus as u16;

/// What is known of a WebSocket besides its subscriptions.
pub(crate) struct Socket {
    /// The origin speaks the extension: what its messages for the client begin with.
    pub prefix: Option<Vec<u8>>,
    /// How the origin is reached; `None`: it has left, or detached.
    pub via: Option<Via>,
    pub(crate) keep_alive: Option<(Timed, u64)>,
    pub(crate) delayed: Option<(Timed, u64)>,
    /// What its origin has pinged it with, and was not answered.
    pub(crate) pinged: Option<Box<[u8]>>,
    /// When a client that speaks SockJS hears that it is still connected; `u64::MAX`: it does not.
    pub(crate) heartbeat_ms: u64,
    /// The client has left; what is left to say to the origin is being said.
    pub is_gone: bool,
}

/// How an origin is reached.
pub(crate) enum Via {
    /// By a WebSocket of its own: the number of the conversation.
    Pass(TalkId),
    /// By requests.
    Http(Box<OverHttp>),
    /// It is the built-in one, which says back what it hears.
    Echo,
}

impl Socket {
    pub fn new(prefix: Option<Vec<u8>>, via: Via) -> Box<Self> {
        Box::new(Self {
            prefix,
            via: Some(via),
            keep_alive: None,
            delayed: None,
            pinged: None,
            heartbeat_ms: u64::MAX,
            is_gone: false,
        })
    }

    /// What is known of an origin that is asked by requests.
    pub fn over(&mut self) -> Option<&mut OverHttp> {
        match &mut self.via {
            Some(Via::Http(over)) => Some(over),
            Some(Via::Pass(_) | Via::Echo) | None => None,
        }
    }

    pub(crate) fn due_ms(&self) -> u64 {
        let keep_alive_ms = self.keep_alive.as_ref().map_or(u64::MAX, |it| it.1);
        let delayed_ms = self.delayed.as_ref().map_or(u64::MAX, |it| it.1);
        let idle_ms = match &self.via {
            Some(Via::Http(over)) => over.idle_due_ms(),
            _ => u64::MAX,
        };
        keep_alive_ms
            .min(delayed_ms)
            .min(idle_ms)
            .min(self.heartbeat_ms)
    }
}

/// Closes a socket from our side; its origin is told by what follows from the client's end.
pub(crate) fn close_socket(worker: &mut Engine, handle: RequestId, code: u16, reason: &[u8]) {
    if worker
        .disconnect(SocketId::of(handle), code, reason)
        .is_err()
    {
        let _ = worker.disconnect(SocketId::of(handle), AWAY, b"");
    }
}

/// Sends a ping or a pong. False: the client has left.
pub(crate) fn send_control(
    worker: &mut Engine,
    handle: RequestId,
    is_ping: bool,
    payload: &[u8],
) -> bool {
    let socket = SocketId::of(handle);
    worker.net.send_control(socket, is_ping, payload).is_ok()
}

/// A socket has lost what was published.
pub(crate) fn close_slow_socket(worker: &mut Engine, handle: RequestId) {
    close_socket(
        worker,
        handle,
        TRY_AGAIN,
        b"messages were missed; read faster",
    );
}
