//! Targets `zhttp/…`: backends that receive requests as sessions of ZeroMQ messages, streaming in both directions, including
//! WebSockets.
//!
//! An exchange writes bodies without framing, and WebSocket frames, as if to a connection. This module sends them as packets, as
//! far as the backend has granted credit. Packets of the backend are handled like bytes of a connection.

use std::io;
use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_edge_pushpin::zhttp;
use fermata_edge_pushpin::zhttp::{Condition, Event, Exchange, Opening, WINDOW_BYTES};
use fermata_grip::value::Value;
use fermata_proto::ws::accept::accept_key;

use crate::client::request::Body;
use crate::client::source::Owner;
use crate::pushpin::services::Question;
use crate::pushpin::zhttp::{headers, peer_address};
use crate::routes::Target;
use crate::server::arriving::FILE_PIECE_BYTES;
use crate::server::edge::Edge;
use crate::server::outbound::Outbound;
use crate::server::services::Backends;
use crate::server::turn::Turn;
use crate::timers::Timer;
use crate::upstream::Failure;
use crate::upstream::codec::Codec;
use crate::upstream::error::UpstreamError;
use crate::upstream::exchange::{Purpose, Step, Stop, StreamOf, UpstreamExchange};
use crate::upstream::forward::{Forwarded, HANDSHAKE_OWN};
use crate::upstream::id::UpstreamExchangeId;
use crate::upstream::reply::Phase;
use crate::upstream::response::{Head, ResponsePart};

/// Maximum number of bytes sent per turn.
const TURN_BYTES_MAX: usize = 512 * 1024;

/// Size of a packet in bytes without its content.
const PACKET_BYTES: usize = 1_024;

/// Time in milliseconds after which sending to a backend with a full queue is tried again.
const PAUSE_MS: u64 = 20;

impl Edge {
    /// Handles packets of backends for sessions.
    pub(super) fn on_session_packets(&mut self) {
        while let Some(packet) = self.pushpin.services.inbox.pop_front() {
            let sequence = |packet: &Value| packet.get("seq").and_then(Value::integer);
            match packet.get("id") {
                Some(Value::Bytes(id)) => {
                    let (id, sequence) = (id.clone(), sequence(&packet));
                    self.on_session_packet(&id, &packet, sequence);
                }
                Some(Value::List(ids)) => {
                    for of_one in ids {
                        if let Some(id) = of_one.get("id").and_then(Value::bytes) {
                            self.on_session_packet(id, &packet, sequence(of_one));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn on_session_packet(&mut self, id: &[u8], packet: &Value, sequence: Option<i64>) {
        let number = self.pushpin.services.session_number(id);
        let exchange = number.and_then(|it| Some((it, *self.pushpin.services.sessions.get(&it)?)));
        let Some((number, exchange)) = exchange else {
            self.holds().backends().refuse_session_packet(id, packet);
            return;
        };
        self.pushpin.services.settle_session(number);
        self.with_exchange(exchange, |turn, exchange| {
            exchange.question = None;
            let now_ms = turn.worker.net.now_ms();
            let Codec::Zhttp(codec) = &mut exchange.codec else {
                return Ok(());
            };
            let outcome = codec.handle(packet, sequence, now_ms);
            if !matches!(exchange.phase, Phase::Socket { .. }) {
                let room_ms = if exchange.has_response {
                    turn.policy.limits.idle_ms
                } else {
                    turn.policy.limits.response_ms
                };
                exchange.due_ms = now_ms + room_ms;
            }
            match outcome {
                Ok(()) => turn.pump(exchange),
                Err(Condition::Unserved(reason)) => Err(Stop::retried(Failure::Connect, reason)),
                Err(Condition::LengthRequired) => turn.on_length_required(exchange),
                Err(Condition::Failed(reason)) => Err(Stop::retried(Failure::Response, reason)),
            }
        });
    }

    /// Retries sending to backends whose queues were full.
    pub(super) fn on_streams_due(&mut self) {
        let exchanges: Vec<UpstreamExchangeId> =
            self.pushpin.services.sessions.values().copied().collect();
        for exchange in exchanges {
            self.with_exchange(exchange, |turn, exchange| {
                turn.outbound().flush(exchange)?;
                turn.holds().backends().give_credit(exchange);
                Ok(())
            });
        }
    }

    /// Fails all sessions after the worker with the ports exited.
    pub(super) fn on_sessions_lost(&mut self) {
        let reason = "the worker that has the ports of zhttp backends has ended";
        for answered in self.pushpin.services.take_lost(reason) {
            self.on_service_answer(answered);
        }
        let sessions = self.pushpin.services.sessions.iter();
        let begun: Vec<UpstreamExchangeId> = sessions
            .filter(|(number, _)| !self.pushpin.services.is_asked(**number))
            .map(|(_, exchange)| *exchange)
            .collect();
        for exchange in begun {
            self.with_exchange(exchange, |_, exchange| {
                let failure = if exchange.has_response {
                    Failure::Response
                } else {
                    Failure::NoResponse
                };
                Err(Stop::retried(failure, reason))
            });
        }
    }

    /// Sends keep-alive packets, and fails sessions whose backends were silent too long.
    pub(super) fn check_streams(&mut self, now_ms: u64) {
        if self.pushpin.services.sessions.is_empty() {
            return;
        }
        let exchanges: Vec<UpstreamExchangeId> =
            self.pushpin.services.sessions.values().copied().collect();
        for exchange in exchanges {
            self.with_exchange(exchange, |turn, exchange| {
                let (Some(stream), Codec::Zhttp(codec)) = (exchange.stream, &mut exchange.codec)
                else {
                    return Ok(());
                };
                if codec.is_expired(now_ms) {
                    let reason = "the backend sent nothing for too long";
                    return Err(Stop::retried(Failure::TimeOut, reason));
                }
                if let Some(packet) = codec.keep_alive(now_ms)
                    && turn.holds().backends().send_to_session(
                        stream.service,
                        codec.peer(),
                        &packet,
                    )
                {
                    codec.sent_keep_alive(now_ms);
                }
                Ok(())
            });
        }
    }
}

impl Turn<'_> {
    fn on_length_required(&mut self, exchange: &mut UpstreamExchange) -> Step {
        let Owner::Client(handle) = exchange.owner else {
            return Err(Stop::failed(
                502,
                "the backend wants to know the length of the body",
            ));
        };
        self.clients.answer_text(
            self.worker,
            handle,
            411,
            "Must provide Content-Length header.",
        );
        Err(Stop::Over)
    }
}

impl Outbound<'_> {
    /// Opens a session with the first backend that accepts it.
    pub(super) fn open_stream(
        &mut self,
        exchange: &mut UpstreamExchange,
        target: &Target,
        spec: &str,
    ) -> Result<(), UpstreamError> {
        let Some(service) = self.services.addresses.find(spec, true) else {
            return Err(UpstreamError::Target(format!(
                "zhttp/{spec}: it was not among the routes when the edge started; restart the edge"
            )));
        };
        let request = Rc::clone(&exchange.source.request);
        let forwarded = self.forwarded(exchange, &request, target)?;
        exchange.wire = None;
        exchange.waits = None;
        exchange.has_response = false;
        // From here on, the backend may have received the request.
        exchange.is_connected = true;
        exchange.is_reused = false;
        exchange.open_body()?;
        let (entries, body, has_more) = begin(exchange, &forwarded);
        let from = self.services.from.clone();
        let now_ms = self.worker.net.now_ms();
        let times = (
            self.policy.limits.connect_ms,
            self.policy.limits.response_ms,
        );
        exchange.due_ms = now_ms + self.policy.limits.response_ms;
        let mut codec = Exchange::default();
        let question = Question::Session(exchange.id());
        let asked = self.backends().ask(service, times, question, |id| {
            let opening = Opening {
                from: &from,
                id,
                entries,
                body: body.as_deref(),
                has_more,
            };
            let (opened, packet) = Exchange::open(opening, now_ms);
            codec = opened;
            packet
        });
        let problem =
            |_| UpstreamError::Local(format!("zhttp/{spec}: too many requests wait for answers"));
        let number = asked.map_err(problem)?;
        exchange.codec = Codec::Zhttp(Box::new(codec));
        exchange.question = Some(number);
        exchange.stream = Some(StreamOf { number, service });
        self.services.sessions.insert(number, exchange.id());
        Ok(())
    }

    /// Sends queued bytes as far as the backend has granted credit.
    pub(super) fn flush_stream(&mut self, exchange: &mut UpstreamExchange) -> Step {
        let Some(stream) = exchange.stream else {
            return Ok(());
        };
        let before = exchange.sent;
        match exchange.phase {
            Phase::Socket { .. } => self.backends().send_frames(exchange, stream),
            _ => self.backends().send_body(exchange, stream),
        }
        .map_err(|problem| Stop::retried(Failure::Response, problem))?;
        self.give_time(exchange, exchange.sent != before);
        self.on_flushed(exchange)
    }

    /// Removes an exchange from its session.
    pub(super) fn drop_stream_of(&mut self, exchange: &mut UpstreamExchange) {
        let Some(stream) = exchange.stream.take() else {
            return;
        };
        self.services.sessions.remove(&stream.number);
        if let Codec::Zhttp(codec) = &mut exchange.codec
            && let Some(packet) = codec.cancel()
            && !self
                .backends()
                .send_to_session(stream.service, codec.peer(), &packet)
        {
            let line = "zhttp: cannot notify a backend that its client has left: it has no connection for that";
            self.worker.net.log_for_client(LogLevel::Debug, line);
        }
    }
}

impl Backends<'_> {
    /// Cancels a backend's session for which no exchange exists here.
    fn refuse_session_packet(&mut self, id: &[u8], packet: &Value) {
        let kind = zhttp::packet::bytes(packet, "type");
        let peer = zhttp::packet::bytes(packet, "from");
        let is_end = matches!(kind, b"error" | b"cancel") || packet.get("more").is_none();
        // No cancel is needed for a session that ended with this packet.
        if peer.is_empty() || (is_end && !matches!(kind, b"credit" | b"keep-alive")) {
            return;
        }
        let cancel = zhttp::cancel(&self.services.from, id);
        for service in self.services.addresses.streams() {
            self.send_to_session(service, peer, &cancel);
        }
    }

    pub(super) fn give_credit(&mut self, exchange: &mut UpstreamExchange) {
        let (Some(stream), Codec::Zhttp(codec)) = (exchange.stream, &mut exchange.codec) else {
            return;
        };
        let Some((packet, bytes)) = codec.credit() else {
            return;
        };
        if self.send_to_session(stream.service, codec.peer(), &packet) {
            codec.sent_credit(bytes)
        } else {
            // The backend waits for this packet, and no later event would send it.
            self.pause_streams()
        }
    }

    fn send_body(
        &mut self,
        exchange: &mut UpstreamExchange,
        stream: StreamOf,
    ) -> Result<(), SendError> {
        let mut turn_bytes = 0;
        loop {
            let is_sent = exchange.is_sent();
            let Codec::Zhttp(codec) = &mut exchange.codec else {
                return Ok(());
            };
            if exchange.sent < exchange.out.len() {
                if !codec.may_send() {
                    return Ok(());
                }
                let piece = &exchange.out[exchange.sent..];
                let piece = &piece[..piece.len().min(FILE_PIECE_BYTES)];
                let (packet, bytes) = codec.body(piece);
                if !self.has_room_to(stream.service, codec.peer(), packet.len()) {
                    self.pause_streams();
                    return Ok(());
                }
                if !self.send_to_session(stream.service, codec.peer(), &packet) {
                    return Err(SendError::Gone);
                }
                codec.sent_body(bytes);
                exchange.sent += bytes;
                continue;
            }
            if is_sent {
                let Some(packet) = codec.body_end() else {
                    return Ok(());
                };
                if !self.has_room_to(stream.service, codec.peer(), packet.len()) {
                    self.pause_streams();
                } else if self.send_to_session(stream.service, codec.peer(), &packet) {
                    codec.sent_end();
                }
                return Ok(());
            }
            // Without credit, read no further body bytes, from the client or the file. A packet of the backend that grants credit
            // continues.
            if !codec.may_send() {
                return Ok(());
            }
            if !exchange.refill(self.timers, self.worker, &mut turn_bytes)? {
                return Ok(());
            }
        }
    }

    fn send_frames(
        &mut self,
        exchange: &mut UpstreamExchange,
        stream: StreamOf,
    ) -> Result<(), SendError> {
        let mut turn_bytes = 0;
        loop {
            let Codec::Zhttp(codec) = &mut exchange.codec else {
                return Ok(());
            };
            if exchange.sent == exchange.out.len() && !codec.has_frame() {
                return Ok(());
            }
            let room = WINDOW_BYTES + PACKET_BYTES;
            let is_its_turn = turn_bytes < TURN_BYTES_MAX;
            if !is_its_turn || !self.has_room_to(stream.service, codec.peer(), room) {
                self.pause_streams();
                return Ok(());
            }
            let (packet, taken) = codec.frame(&exchange.out[exchange.sent..]);
            exchange.sent += taken;
            let Some((packet, bytes, is_done)) = packet else {
                return Ok(());
            };
            if !self.send_to_session(stream.service, codec.peer(), &packet) {
                return Err(SendError::Gone);
            }
            codec.sent_frame(bytes, is_done);
            turn_bytes += bytes;
        }
    }

    fn pause_streams(&mut self) {
        let due_ms = self.worker.net.now_ms() + PAUSE_MS;
        self.timers.at(due_ms, Timer::Streams);
    }
}

/// Additional entries of the first packet, the start of the body, and true if more of the body follows.
type Beginning = (Vec<(Vec<u8>, Value)>, Option<Vec<u8>>, bool);

/// Returns the first packet of a session: its entries, the start of the body, and true if more of the body follows. The rest of the
/// body stays queued in the exchange.
fn begin(exchange: &mut UpstreamExchange, forwarded: &Forwarded) -> Beginning {
    let is_socket = matches!(exchange.purpose, Purpose::Upgrade(_));
    let source = &exchange.source;
    let scheme: &[u8] = match (is_socket, source.request.is_tls) {
        (true, true) => b"wss://",
        (true, false) => b"ws://",
        (false, true) => b"https://",
        (false, false) => b"http://",
    };
    let uri = [scheme, &forwarded.host, &forwarded.target].concat();
    let mut entries = vec![(b"uri".to_vec(), Value::Bytes(uri))];
    entries.extend(peer_address(source));
    if is_socket {
        let mut headers = headers(forwarded, &HANDSHAKE_OWN);
        if !source.is_plain()
            && let Value::List(all) = &mut headers
        {
            let offer = vec!["Sec-WebSocket-Extensions".into(), "grip".into()];
            all.push(Value::List(offer));
        }
        entries.push((b"headers".to_vec(), headers));
        return (entries, None, false);
    }
    let method = Value::Bytes(source.request.method.clone());
    entries.push((b"method".to_vec(), method));
    entries.push((b"headers".to_vec(), headers(forwarded, &[])));
    let first = match &source.request.body {
        Body::Memory(bytes) | Body::Arriving { first: bytes, .. } => bytes.clone(),
        Body::None | Body::File { .. } => Vec::new(),
    };
    // The first packet needs no credit. Its content is limited to one window.
    let end = first.len().min(WINDOW_BYTES);
    exchange.out = first;
    exchange.sent = end;
    let body = exchange.out[..end].to_vec();
    let has_more = !exchange.is_sent();
    (entries, Some(body), has_more)
}

/// Reason why no more of a request can be sent.
#[derive(Debug, thiserror::Error)]
enum SendError {
    /// The backend disconnected.
    #[error("the backend is gone")]
    Gone,
    /// The file with the body cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

pub(super) fn part_of(
    event: Event,
    key: Option<[u8; fermata_proto::ws::accept::KEY_BYTES]>,
) -> ResponsePart {
    match event {
        Event::Head(response) => {
            let mut head = Head::of_packet(response);
            // Backends send no `Sec-WebSocket-Accept`, which `on_switched` checks, so add it.
            if let Some(key) = key.filter(|_| head.status == 101) {
                head.headers
                    .retain(|(name, _)| !name.eq_ignore_ascii_case(b"sec-websocket-accept"));
                let accept = accept_key(&key).to_vec();
                head.headers
                    .push((b"Sec-WebSocket-Accept".to_vec(), accept));
            }
            ResponsePart::Head(head)
        }
        Event::Body(piece) => ResponsePart::Body(piece),
        Event::Frames(frames) => ResponsePart::Upgraded(frames),
        Event::End => ResponsePart::End { is_reusable: false },
    }
}
