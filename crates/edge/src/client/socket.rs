//! State of a WebSocket other than its subscriptions, and ways to close it.

use fermata_engine::{RequestId, SocketId};
use fermata_grip::ws_control::Timed;
use fermata_proto::ws::close::CloseCode;

use crate::client::over_http::OverHttp;
use crate::client::source::Engine;
use crate::upstream::id::UpstreamExchangeId;

/// Close code without a particular reason.
pub(crate) const NORMAL: u16 = CloseCode::Normal as u16;

/// Close code after the origin disconnected.
pub(crate) const AWAY: u16 = CloseCode::GoingAway as u16;

/// Close code after the origin failed.
pub(crate) const FAILED: u16 = CloseCode::InternalError as u16;

/// Close code of a client that lost items.
const TRY_AGAIN: u16 = CloseCode::TryAgainLater as u16;

/// Code that stands for a connection that ended without a close frame (RFC 6455, section 7.4.1). It is never sent.
pub(crate) const ABNORMAL: u16 = CloseCode::Abnormal as u16;
/// Code that stands for a close frame without a code. It is never sent.
pub(crate) const NO_STATUS: u16 = CloseCode::NoStatus as u16;

/// State of a WebSocket other than its subscriptions.
pub(crate) struct Socket {
    /// Prefix of messages for the client, if the origin negotiated the `grip` extension.
    pub prefix: Option<Vec<u8>>,
    /// Connection to the origin; `None` if the origin disconnected or detached.
    pub via: Option<Via>,
    pub(crate) keep_alive: Option<(Timed, u64)>,
    pub(crate) delayed: Option<(Timed, u64)>,
    /// Payload of the origin's last ping without a pong.
    pub(crate) pinged: Option<Box<[u8]>>,
    /// Time of the next SockJS heartbeat; `u64::MAX` for other clients.
    pub(crate) heartbeat_ms: u64,
    /// The client has disconnected; remaining events are sent to the origin.
    pub is_gone: bool,
}

/// Kind of connection to an origin.
pub(crate) enum Via {
    /// A WebSocket to the origin, by its exchange.
    Pass(UpstreamExchangeId),
    /// WebSocket-over-HTTP.
    Http(Box<OverHttp>),
    /// The built-in test origin, which echoes messages.
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

    /// Returns the state of WebSocket-over-HTTP.
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

/// Closes a socket. The origin is notified when the client's connection ends.
pub(crate) fn close_socket(worker: &mut Engine, handle: RequestId, code: u16, reason: &[u8]) {
    if worker
        .disconnect(SocketId::of(handle), code, reason)
        .is_err()
    {
        let _ = worker.disconnect(SocketId::of(handle), AWAY, b"");
    }
}

/// Sends a ping or a pong. Returns false if the client left.
pub(crate) fn send_control(
    worker: &mut Engine,
    handle: RequestId,
    is_ping: bool,
    payload: &[u8],
) -> bool {
    let socket = SocketId::of(handle);
    worker.net.send_control(socket, is_ping, payload).is_ok()
}

/// Closes the WebSocket of a client that lost items because it read too slowly.
pub(crate) fn close_slow_socket(worker: &mut Engine, handle: RequestId) {
    close_socket(
        worker,
        handle,
        TRY_AGAIN,
        b"messages were missed; read faster",
    );
}
