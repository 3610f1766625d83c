//! WebSockets to origins: handshakes and frames.

use fermata_engine::{RequestId, SocketId};
use fermata_grip::ws_control;
use fermata_proto::ws::accept::accept_key;
use fermata_proto::ws::client::{Client, Received};
use fermata_proto::ws::message::Kind;

use crate::client::clients::Clients;
use crate::client::socket::{ABNORMAL, FAILED, Socket, Via, send_control};
use crate::client::source::{Engine, ExchangeKey, Owner};
use crate::routes::figures::Count;
use crate::server::turn::Turn;
use crate::timers::Timer;
use crate::upstream::exchange::{Purpose, Step, Stop, UpstreamExchange};
use crate::upstream::reply::{Phase, borrowed};
use crate::upstream::response::Head;

/// Maximum size of an origin's message in bytes.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum number of bytes queued for an origin. Above it, the edge stops reading from the client. The same limit applies in the
/// other direction.
pub(super) const QUEUE_BYTES_MAX: usize = 512 * 1024;

/// Interval in milliseconds at which the edge checks whether a slow client has received enough to read from its origin again.
pub(super) const PAUSE_MS: u64 = 20;

/// Fields of a handshake that the engine writes itself, and fields of WebSocket-over-HTTP.
const OWN: [&[u8]; 10] = [
    b"content-type",
    b"keep-alive-interval",
    b"content-bytes-accepted",
    b"date",
    b"upgrade",
    b"connection",
    b"sec-websocket-accept",
    b"sec-websocket-protocol",
    b"sec-websocket-extensions",
    b"sec-websocket-version",
];

impl Turn<'_> {
    /// Opens the client's socket after the origin switched protocols.
    pub(super) fn on_switched(&mut self, exchange: &mut UpstreamExchange, head: &Head) -> Step {
        let id = exchange.id();
        let (Owner::Client(handle), Purpose::Upgrade(key)) = (exchange.owner, &exchange.purpose)
        else {
            return Err(Stop::Over);
        };
        let accepted = head
            .headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(b"sec-websocket-accept"));
        // HTTP/2 streams have no key.
        let is_accepted = exchange.http2.is_some()
            || accepted.is_some_and(|(_, value)| value[..] == accept_key(key));
        if !is_accepted {
            return Err(Stop::failed(
                502,
                "the origin's handshake has a wrong Sec-WebSocket-Accept",
            ));
        }
        let prefix = if exchange.source.is_plain() {
            None
        } else {
            ws_control::accepted_prefix(&borrowed(&head.headers))
        };
        self.journal
            .log_exchange(self.policy, self.timers, self.worker, exchange);
        self.upstream
            .exchange_keys
            .forget(ExchangeKey::Client(handle));
        let socket = accept(self.worker, handle, head)?;
        self.route_figures
            .count_head_sent(self.worker, &exchange.source, head);
        exchange.owner = Owner::Socket(socket);
        self.upstream
            .exchange_keys
            .set(ExchangeKey::Client(socket), id);
        exchange.due_ms = u64::MAX;
        exchange.phase = Phase::Socket {
            client: Box::new(Client::new(None, MESSAGE_BYTES_MAX).passing_pings()),
            is_paused: false,
        };
        let state = Socket::new(prefix, Via::Pass(id));
        self.holds()
            .enter_socket(socket, exchange.source.clone(), state);
        Ok(())
    }

    /// Handles frames of the origin's WebSocket.
    pub(super) fn on_frames(&mut self, exchange: &mut UpstreamExchange, bytes: Vec<u8>) -> Step {
        let Owner::Socket(handle) = exchange.owner else {
            return Err(Stop::Over);
        };
        let Phase::Socket { client, is_paused } = &mut exchange.phase else {
            return Err(Stop::Over);
        };
        let mut bytes = bytes;
        let mut rest = &mut bytes[..];
        let mut answers = Vec::new();
        let mut step = Ok(());
        loop {
            let outcome = client.handle(rest, self.upstream.masks.next(), &mut answers);
            let consumed = match outcome {
                Ok((consumed, received)) => {
                    match received {
                        Some(Received::Message(kind, message)) => {
                            let mut holds = self.holds();
                            holds.count_message(
                                handle,
                                Count::ServerMessagesReceived,
                                Count::ServerReceived,
                                message.len(),
                            );
                            holds.on_origin_message(handle, kind == Kind::Text, message);
                        }
                        Some(Received::Ping(payload)) => {
                            self.clients.pass_ping(self.worker, handle, payload)
                        }
                        Some(Received::Pong(payload)) => {
                            send_control(self.worker, handle, false, &payload);
                        }
                        Some(Received::Closed { code, reason }) => {
                            self.clients.on_origin_close(
                                self.worker,
                                handle,
                                code,
                                reason.as_bytes(),
                            );
                            step = Err(Stop::Over);
                        }
                        None => {}
                    }
                    consumed
                }
                Err(violation) => {
                    let line = format!("a WebSocket of an origin: {violation}");
                    self.worker
                        .net
                        .log_for_client(fermata_config::LogLevel::Warning, &line);
                    self.clients
                        .on_origin_close(self.worker, handle, FAILED, b"");
                    step = Err(Stop::Over);
                    0
                }
            };
            if step == Err(Stop::Over) || consumed >= rest.len() {
                break;
            }
            rest = &mut rest[consumed..];
        }
        *is_paused = queued_for(self.worker, handle) > QUEUE_BYTES_MAX;
        if *is_paused {
            let due_ms = self.worker.net.now_ms() + PAUSE_MS;
            self.timers.at(due_ms, Timer::Paused(handle));
        }
        exchange.queue(&answers);
        step.and(self.outbound().flush(exchange))
    }
}

impl Clients {
    /// Handles the end of the origin's connection without a close frame.
    pub(super) fn on_frames_end(
        &mut self,
        worker: &mut Engine,
        exchange: &mut UpstreamExchange,
    ) -> Step {
        if let Owner::Socket(handle) = exchange.owner {
            self.on_origin_close(worker, handle, ABNORMAL, b"");
        }
        Err(Stop::Over)
    }
}

/// Accepts a client's handshake with the fields of the origin's response. Returns the socket.
pub(super) fn accept(
    worker: &mut Engine,
    handle: RequestId,
    head: &Head,
) -> Result<RequestId, Stop> {
    let protocol = head
        .headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(b"sec-websocket-protocol"))
        .map(|(_, value)| &value[..]);
    let headers: Vec<(&[u8], &[u8])> = borrowed(&head.headers)
        .into_iter()
        .filter(|(name, _)| {
            let is_meta = name
                .get(..9)
                .is_some_and(|start| start.eq_ignore_ascii_case(b"set-meta-"));
            let is_own = is_meta || OWN.iter().any(|own| name.eq_ignore_ascii_case(own));
            let is_grip = name
                .get(..5)
                .is_some_and(|start| start.eq_ignore_ascii_case(b"grip-"));
            !is_own && !is_grip && !fermata_proto::response::reserved_name(name)
        })
        .collect();
    let accepted = worker.accept_upgrade(handle, protocol, &headers);
    let reason = "the origin's handshake does not fit the client's";
    accepted
        .map(SocketId::handshake)
        .map_err(|_| Stop::failed(502, reason))
}

pub(super) fn queued_for(worker: &mut Engine, socket: RequestId) -> usize {
    let info = worker.socket_info(SocketId::of(socket));
    info.map_or(0, |info| info.queued_bytes)
}

impl Clients {
    /// Forwards a ping of the origin to its client. If several pings precede the pong, the pong acknowledges the last one.
    fn pass_ping(&mut self, worker: &mut Engine, handle: RequestId, payload: Vec<u8>) {
        if send_control(worker, handle, true, &payload)
            && let Some(socket) = self.socket(handle)
        {
            socket.pinged = Some(payload.into_boxed_slice());
        }
    }
}
