//! WebSocket handshakes of clients, and frames between clients and origins.

use fermata_engine::{RequestId, SocketId};
use fermata_proto::ws::message::Kind;

use crate::client::socket::{ABNORMAL, NO_STATUS, NORMAL, Via, send_control};
use crate::client::source::{HANDLER_SESSIONS, Owner, Source};
use crate::routes::figures::Count;
use crate::server::edge::Edge;
use crate::server::sockjs::framed::read_framed;
use crate::server::tasks::Ask;
use crate::server::turn::Turn;
use crate::server::upgrade::{PAUSE_MS, QUEUE_BYTES_MAX, queued_for};
use crate::timers::Timer;
use crate::upstream::exchange::{Purpose, Step, Stop, UpstreamExchange};
use crate::upstream::handshake::new_key;
use crate::upstream::id::UpstreamExchangeId;
use crate::upstream::reply::Phase;

/// Time in milliseconds within which an origin has to receive the last messages and the close frame of a client that has left.
const CLOSE_MS: u64 = 5_000;

impl Edge {
    /// Starts the exchange for a client's handshake.
    pub(super) fn begin_socket(&mut self, handle: RequestId, source: Source) {
        let route = match self.worker.request().handler() {
            HANDLER_SESSIONS => self.policy.session_websocket,
            _ => self.policy.websocket,
        };
        if !self.worker.begin_handshake(handle, route) {
            return;
        }
        if self.worker.defer(handle).is_err() {
            return;
        }
        // `UpstreamExchange::carry` converts it for targets with WebSocket-over-HTTP.
        let purpose = Purpose::Upgrade(new_key());
        self.ask(Ask {
            purpose,
            ..Ask::new(Owner::Client(handle), source)
        });
    }

    /// Handles a client's message.
    pub(super) fn on_client_message(&mut self) {
        let event = self.worker.socket_event();
        let (handle, is_text) = (event.socket.handshake(), !event.is_binary);
        let message = event.payload.to_vec();
        if self.pushpin.sockjs.has_framed && self.clients.is_framed(handle) {
            for message in read_framed(&mut self.worker, handle, &message) {
                self.on_message(handle, true, message.into_bytes());
            }
            return;
        }
        self.on_message(handle, is_text, message);
    }

    /// Handles a client's message after SockJS unwrapping.
    pub(super) fn on_message(&mut self, handle: RequestId, is_text: bool, message: Vec<u8>) {
        self.holds().count_message(
            handle,
            Count::ClientMessagesReceived,
            Count::ClientReceived,
            message.len(),
        );
        let Some(socket) = self.clients.socket(handle) else {
            return;
        };
        match &mut socket.via {
            None => {}
            Some(Via::Echo) => self.holds().send_to_client(handle, is_text, &message),
            Some(Via::Pass(id)) => {
                let id = *id;
                self.pass_message(id, handle, is_text, &message);
            }
            Some(Via::Http(_)) => self.holds().queue_message(handle, is_text, message),
        }
    }

    /// Handles a client's ping or pong. Without a WebSocket to the origin, the edge itself sends the pong.
    pub(super) fn on_client_control(&mut self, is_ping: bool) {
        let event = self.worker.socket_event();
        let (handle, payload) = (event.socket.handshake(), event.payload.to_vec());
        let socket = self.clients.socket(handle);
        let Some((id, pinged)) = socket.and_then(|socket| match socket.via {
            Some(Via::Pass(id)) => Some((id, &mut socket.pinged)),
            _ => None,
        }) else {
            if is_ping {
                send_control(&mut self.worker, handle, false, &payload);
            }
            return;
        };
        if is_ping || pinged.take_if(|it| **it == *payload).is_some() {
            self.pass_control(id, handle, is_ping, &payload);
        }
    }

    /// Handles the end of a client's socket.
    pub(super) fn on_client_close(&mut self) {
        let event = self.worker.socket_event();
        let (handle, code) = (event.socket.handshake(), event.code);
        let reason = event.payload.to_vec();
        self.holds().on_no_longer_held(handle);
        let Some(socket) = self.clients.socket(handle) else {
            return;
        };
        socket.is_gone = true;
        match &socket.via {
            Some(Via::Pass(id)) => {
                let id = *id;
                self.clients.sessions.remove(&handle);
                self.pass_close(id, code, &reason);
            }
            Some(Via::Http(_)) => {
                let close = match code {
                    ABNORMAL => None,
                    NO_STATUS => Some(None),
                    code => Some(Some((code, reason))),
                };
                self.holds().queue_close(handle, close);
            }
            Some(Via::Echo) | None => {
                self.clients.sessions.remove(&handle);
            }
        }
    }

    /// Resumes reading from the origin after the client's send queue has drained.
    pub(super) fn on_pause_over(&mut self, handle: RequestId) {
        self.with_exchange_of(handle, |turn, exchange| {
            if queued_for(turn.worker, handle) > QUEUE_BYTES_MAX {
                let due_ms = turn.worker.net.now_ms() + PAUSE_MS;
                turn.timers.at(due_ms, Timer::Paused(handle));
                return Ok(());
            }
            if let Phase::Socket { is_paused, .. } = &mut exchange.phase {
                *is_paused = false;
            }
            turn.pump(exchange)
        });
    }

    /// Sends a client's message to its origin.
    pub(super) fn pass_message(
        &mut self,
        id: UpstreamExchangeId,
        handle: RequestId,
        is_text: bool,
        message: &[u8],
    ) {
        self.holds().count_message(
            handle,
            Count::ServerMessagesSent,
            Count::ServerSent,
            message.len(),
        );
        self.with_exchange(id, |turn, exchange| {
            let kind = if is_text { Kind::Text } else { Kind::Binary };
            let mut frames = Vec::new();
            if let Phase::Socket { client, .. } = &mut exchange.phase {
                // Ignore an error: after the origin's close frame, no message is sent.
                let _ = client.send(kind, message, turn.upstream.masks.next(), &mut frames);
            }
            turn.send_to_origin(exchange, handle, &frames)
        });
    }

    /// Sends a client's ping or pong to its origin.
    pub(super) fn pass_control(
        &mut self,
        id: UpstreamExchangeId,
        handle: RequestId,
        is_ping: bool,
        payload: &[u8],
    ) {
        self.with_exchange(id, |turn, exchange| {
            let mut frames = Vec::new();
            if let Phase::Socket { client, .. } = &mut exchange.phase {
                // Ignore an error: after the origin's close frame, no frame is sent.
                let mask = turn.upstream.masks.next();
                let _ = if is_ping {
                    client.ping(payload, mask, &mut frames)
                } else {
                    client.pong(payload, mask, &mut frames)
                };
            }
            turn.send_to_origin(exchange, handle, &frames)
        });
    }

    /// Closes the WebSocket to the origin after the client's WebSocket has closed.
    pub(super) fn pass_close(&mut self, id: UpstreamExchangeId, code: u16, reason: &[u8]) {
        self.with_exchange(id, |turn, exchange| {
            let mut frames = Vec::new();
            if code != ABNORMAL
                && let Phase::Socket { client, .. } = &mut exchange.phase
            {
                let code = if code == NO_STATUS { NORMAL } else { code };
                let _ = client.close(code, reason, turn.upstream.masks.next(), &mut frames);
            }
            exchange.queue(&frames);
            if let Phase::Socket { is_paused, .. } = &mut exchange.phase {
                *is_paused = false;
            }
            turn.pump(exchange)?;
            if frames.is_empty() && exchange.queued() == 0 {
                return Err(Stop::Over);
            }
            // Wait until the client's last messages were sent and the origin's close frame arrived.
            exchange.due_ms = turn.worker.net.now_ms() + CLOSE_MS;
            Ok(())
        });
    }
}

impl Turn<'_> {
    /// Sends a client's frames to its origin.
    fn send_to_origin(
        &mut self,
        exchange: &mut UpstreamExchange,
        handle: RequestId,
        frames: &[u8],
    ) -> Step {
        exchange.queue(frames);
        let step = self.pump(exchange);
        if exchange.queued() > QUEUE_BYTES_MAX {
            // The origin reads more slowly than the client sends: stop reading from the client.
            let _ = self.worker.defer_socket(SocketId::of(handle));
            exchange.has_deferred = true;
        }
        step
    }
}
