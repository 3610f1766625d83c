//! Requests over shared HTTP/2 connections to targets.
//!
//! The first exchange with a target opens a connection, and other exchanges wait until it is established. If the target supports
//! only HTTP/1, each exchange opens its own connection. An exchange that has left its stream receives no further events of the
//! stream.

use std::rc::Rc;

use fermata_engine::{WireEvent, WireId};
use fermata_grip::spelling::same;
use fermata_proto::http2::{Opening, Rest};

use crate::client::request::Body;
use crate::client::source::{Engine, Owner};
use crate::routes::Target;
use crate::server::edge::{Edge, watch_exchanges};
use crate::server::outbound::Outbound;
use crate::server::turn::Turn;
use crate::timers::{Timer, Timers};
use crate::upstream::Failure;
use crate::upstream::codec::Codec;
use crate::upstream::connections::WireUse;
use crate::upstream::error::UpstreamError;
use crate::upstream::exchange::{Purpose, Step, Stop, UpstreamExchange, Wait};
use crate::upstream::forward::{Forwarded, HANDSHAKE_OWN, Header};
use crate::upstream::http2::{
    CarrierLoss, OnCarrier, StreamInput, StreamLoss, TickOutcome, WebSocketSupport,
};
use crate::upstream::parts::Upstream;
use crate::upstream::place::Place;
use crate::upstream::reply::Phase;
use crate::upstream::response::ResponsePart;

/// Maximum number of bytes queued for a connection's socket. Above it, requests of the connection queue no further bytes.
const ROOM_BYTES: usize = 128 * 1024;

/// Maximum number of turns of requests in a row. Normally [`ROOM_BYTES`] ends the loop earlier.
const TURNS_MAX: usize = 4_096;

/// Maximum number of times that a request is sent again after its target returned it unprocessed.
pub(super) const REFUSALS_MAX: u8 = 3;

impl Edge {
    /// Handles an event of a shared connection.
    pub(super) fn on_carrier(&mut self, event: WireEvent) {
        let wire = event.wire;
        if event.writable {
            self.upstream
                .flush_carrier(&mut self.timers, &mut self.worker, wire);
        }
        if (event.readable || event.hangup)
            && let Err(loss) = self.read_carrier(wire)
        {
            self.lose_carrier(wire, &loss.to_string());
            return;
        }
        self.offer_turns(wire);
        self.upstream
            .flush_carrier(&mut self.timers, &mut self.worker, wire);
        if let Some((carrier, _)) = self.upstream.carriers.get_mut(wire)
            && carrier.is_over()
        {
            self.upstream.close_carrier(&mut self.worker, wire);
        }
    }

    /// Reads from the target. Flow control bounds the bytes that can arrive.
    fn read_carrier(&mut self, wire: WireId) -> Result<(), CarrierLoss> {
        loop {
            let mut buffer = std::mem::take(&mut self.buffer);
            let received = self.worker.net.recv_wire(wire, &mut buffer);
            let now_ms = self.worker.net.now_ms();
            let (inputs, outcome) = match received {
                Ok(Some(read @ 1..)) => self.upstream.carriers.read(wire, &buffer[..read], now_ms),
                _ => (Vec::new(), Ok(())),
            };
            self.buffer = buffer;
            self.upstream
                .watch_carriers(&mut self.timers, &mut self.worker);
            for input in inputs {
                self.with_exchange(input.exchange, |turn, exchange| {
                    turn.on_stream_input(exchange, wire, input)
                });
            }
            outcome?;
            match received {
                Ok(Some(1..)) => {}
                Ok(None) => return Ok(()),
                Ok(Some(0)) => return Err(CarrierLoss::Ended),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Lets the requests of a connection send bytes in turn while its socket has room.
    fn offer_turns(&mut self, wire: WireId) {
        for _ in 0..TURNS_MAX {
            let Some((carrier, _)) = self.upstream.carriers.get_mut(wire) else {
                // The last exchange may have closed the connection.
                return;
            };
            if carrier.unsent() >= ROOM_BYTES {
                return;
            }
            let Some(ready) = carrier.machine.next_ready() else {
                return;
            };
            // The exchange sets the flag again if this turn is not enough.
            carrier.machine.set_pending(ready.stream, false);
            if let Some(&exchange) = carrier.exchanges.get(&ready.stream) {
                self.with_exchange(exchange, |turn, exchange| {
                    turn.outbound().pump_carrier(exchange, true)
                });
            }
        }
    }

    /// Closes a lost connection. Requests on it that are safe to repeat are sent again.
    fn lose_carrier(&mut self, wire: WireId, reason: &str) {
        self.upstream
            .flush_carrier(&mut self.timers, &mut self.worker, wire);
        let Some(carrier) = self.upstream.carriers.remove(wire) else {
            // The connection's last exchange may have closed it.
            return;
        };
        self.upstream.connections.close(&mut self.worker, wire);
        // WebSocket exchanges may wait for SETTINGS of this connection.
        self.upstream.carriers.settle(carrier.place.clone());
        self.upstream
            .watch_carriers(&mut self.timers, &mut self.worker);
        for &exchange in carrier.exchanges.values() {
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

    /// Handles broken connections and exchanges that no longer need to wait.
    pub(super) fn on_carriers_due(&mut self) {
        for wire in self.upstream.carriers.take_broken() {
            let outcome = self.read_carrier(wire);
            let loss = outcome.err().unwrap_or(CarrierLoss::Unsendable);
            self.lose_carrier(wire, &loss.to_string());
        }
        let settled = self.upstream.carriers.take_settled();
        if settled.is_empty() {
            return;
        }
        let goes_on = |exchange: &UpstreamExchange| matches!(&exchange.waits, Some(Wait::Carrier(place)) if settled.contains(place));
        for id in self.exchanges.find(goes_on) {
            self.with_exchange(id, |turn, exchange| turn.open(exchange, true));
        }
    }

    /// Checks all connections once a second: sends pings, and closes silent and idle connections.
    pub(super) fn check_carriers(&mut self, now_ms: u64) {
        for (wire, looked) in self.upstream.carriers.tick(now_ms) {
            match looked {
                TickOutcome::MustSend => {
                    self.upstream
                        .flush_carrier(&mut self.timers, &mut self.worker, wire)
                }
                TickOutcome::Failed(reason) => self.lose_carrier(wire, &reason),
                TickOutcome::Idle => {
                    self.upstream
                        .flush_carrier(&mut self.timers, &mut self.worker, wire);
                    self.upstream.close_carrier(&mut self.worker, wire);
                }
            }
        }
    }
}

impl Turn<'_> {
    fn on_stream_input(
        &mut self,
        exchange: &mut UpstreamExchange,
        wire: WireId,
        input: StreamInput,
    ) -> Step {
        let Some(on) = &mut exchange.http2 else {
            return Ok(());
        };
        // The exchange now uses another stream, for example because its request was sent again.
        if on.wire != wire || on.stream != input.stream {
            return Ok(());
        }
        if !input.parts.is_empty() {
            exchange.has_response = true;
            // A closing WebSocket retains its deadline although the target still sends.
            if !matches!(exchange.phase, Phase::Socket { .. }) {
                exchange.due_ms = self.worker.net.now_ms() + self.policy.limits.idle_ms;
            }
            on.uncredited += input.parts.iter().map(body_bytes).sum::<usize>();
            self.take(exchange, input.parts)?;
        }
        if exchange.http2.is_none() {
            // The response is already complete.
            return Ok(());
        }
        match input.lost {
            None => self.outbound().flush(exchange),
            Some(StreamLoss::Reset(code)) => {
                let reason = format!("the target has reset the stream with {code:?}");
                Err(Stop::retried(Failure::Response, reason))
            }
            Some(StreamLoss::Violation(violation)) => {
                Err(Stop::retried(Failure::Response, violation))
            }
            Some(lost @ (StreamLoss::Refused | StreamLoss::Left)) => {
                if lost == StreamLoss::Refused
                    && let Some((carrier, _)) = self.upstream.carriers.get_mut(wire)
                {
                    // The target accepts fewer streams at a time than it announced. Open no more than were open next to this one.
                    carrier.streams_max = carrier.exchanges.len().saturating_sub(1).max(1);
                }
                exchange.refusals += 1;
                let failure = if exchange.refusals > REFUSALS_MAX {
                    Failure::Connect
                } else {
                    Failure::Unprocessed
                };
                Err(Stop::retried(
                    failure,
                    "the target has not taken the request",
                ))
            }
        }
    }
}

impl Outbound<'_> {
    /// Uses a stream of an existing connection, or waits for a connection that is being opened. Returns false if the exchange has
    /// to open a connection.
    pub(super) fn join_carrier(
        &mut self,
        exchange: &mut UpstreamExchange,
        target: &Target,
    ) -> Result<bool, UpstreamError> {
        let (place, now_ms) = (exchange.place(), self.worker.net.now_ms());
        let room = match exchange.purpose {
            Purpose::Upgrade(_) => self.upstream.carriers.room_for_socket(&place),
            _ => match self.upstream.carriers.with_room(&place) {
                Some(wire) => WebSocketSupport::Ready(wire),
                None => WebSocketSupport::Absent,
            },
        };
        match room {
            WebSocketSupport::Ready(wire) => {
                self.enter_carrier(exchange, target, wire)?;
                // Another connection became available while the exchange waited to open its own.
                self.upstream
                    .end_opening(self.timers, self.worker, exchange);
                return Ok(true);
            }
            WebSocketSupport::Unknown => {
                self.wait_for_carrier(exchange, place, now_ms);
                return Ok(true);
            }
            WebSocketSupport::Never => {
                exchange.is_http1 = true;
                return Ok(false);
            }
            WebSocketSupport::Absent => {}
        }
        if self.upstream.carriers.is_http1(&place, now_ms) {
            return Ok(false);
        }
        if self.upstream.carriers.is_opening(&place, exchange.id()) {
            self.wait_for_carrier(exchange, place, now_ms);
            return Ok(true);
        }
        if exchange.opens.is_none() {
            self.upstream
                .carriers
                .begin_opening(place.clone(), exchange.id());
            exchange.opens = Some(place);
        }
        Ok(false)
    }

    fn wait_for_carrier(&self, exchange: &mut UpstreamExchange, place: Place, now_ms: u64) {
        // One connect time-out covers all waits.
        if exchange.waits.replace(Wait::Carrier(place)).is_none() {
            exchange.due_ms = now_ms + self.policy.limits.connect_ms;
        }
        exchange.is_connected = false;
    }

    /// Turns the connection of the exchange into a shared connection, and sends the exchange's request on it.
    pub(super) fn become_carrier(
        &mut self,
        exchange: &mut UpstreamExchange,
        target: &Target,
    ) -> Result<(), UpstreamError> {
        let Some(wire) = exchange.wire.take() else {
            return Err(UpstreamError::Target("the connection is gone".to_owned()));
        };
        let is_private = matches!(exchange.owner, Owner::Check(..));
        let (place, now_ms) = (exchange.place(), self.worker.net.now_ms());
        self.upstream
            .carriers
            .add(wire, place.clone(), is_private, now_ms);
        self.upstream.connections.give(wire, WireUse::Carrier);
        watch_exchanges(self.timers, now_ms);
        let entered = match exchange.purpose {
            Purpose::Upgrade(_) => {
                // The target's SETTINGS frame reports support for WebSockets, so wait for it. If connections close before the frame
                // arrives, use HTTP/1.1 after `REFUSALS_MAX` attempts.
                exchange.refusals += 1;
                exchange.is_http1 = exchange.refusals > REFUSALS_MAX;
                self.wait_for_carrier(exchange, place, now_ms);
                self.upstream.flush_carrier(self.timers, self.worker, wire);
                Ok(())
            }
            _ => self.enter_carrier(exchange, target, wire),
        };
        self.upstream
            .end_opening(self.timers, self.worker, exchange);
        entered
    }

    /// Sends the head of the request on this connection.
    fn enter_carrier(
        &mut self,
        exchange: &mut UpstreamExchange,
        target: &Target,
        wire: WireId,
    ) -> Result<(), UpstreamError> {
        let request = Rc::clone(&exchange.source.request);
        let forwarded = self.forwarded(exchange, &request, target)?;
        exchange.codec = Codec::Http2;
        exchange.open_body()?;
        if let Body::Memory(bytes) | Body::Arriving { first: bytes, .. } = &request.body {
            exchange.out.extend_from_slice(bytes);
        }
        let now_ms = self.worker.net.now_ms();
        let Some((carrier, limits)) = self.upstream.carriers.get_mut(wire) else {
            return Err(UpstreamError::Target("the connection is gone".to_owned()));
        };
        let is_socket = matches!(exchange.purpose, Purpose::Upgrade(_));
        let opening = Opening {
            method: if is_socket {
                b"CONNECT"
            } else {
                &request.method
            },
            scheme: if target.is_tls { b"https" } else { b"http" },
            authority: &forwarded.host,
            path: &forwarded.target,
            protocol: is_socket.then_some(b"websocket"),
        };
        let has_ended = !is_socket && exchange.is_sent() && exchange.queued() == 0;
        let length = length_of(&request.body);
        let own = if is_socket {
            socket_fields(!exchange.source.is_plain())
        } else {
            plain_fields(length.as_deref(), takes_trailers(&request.headers))
        };
        let fields = fields(&forwarded, is_socket, own);
        let opened = carrier
            .machine
            .open(&opening, fields, has_ended, limits, &mut carrier.out);
        let stream = opened.map_err(|error| UpstreamError::Target(error.to_string()))?;
        if carrier.exchanges.is_empty() {
            carrier.idle_until_ms = now_ms;
        }
        carrier.exchanges.insert(stream, exchange.id());
        exchange.is_reused = std::mem::replace(&mut carrier.has_served, true);
        exchange.http2 = Some(OnCarrier {
            wire,
            stream,
            uncredited: 0,
            has_ended,
        });
        exchange.waits = None;
        exchange.is_connected = true;
        exchange.can_read = false;
        exchange.has_hung_up = false;
        exchange.has_response = false;
        exchange.due_ms = now_ms + self.policy.limits.response_ms;
        Ok(())
    }

    /// Sends the request as far as possible, and returns window credit for bytes that the client received.
    pub(super) fn pump_carrier(
        &mut self,
        exchange: &mut UpstreamExchange,
        is_its_turn: bool,
    ) -> Step {
        let before = exchange.sent;
        self.send_request_body(exchange, is_its_turn)
            .map_err(|error| Stop::retried(Failure::Response, error))?;
        self.give_time(exchange, exchange.sent != before);
        self.on_flushed(exchange)?;
        self.upstream.give_carrier_credit(exchange);
        if let Some(on) = &exchange.http2 {
            self.upstream
                .flush_carrier(self.timers, self.worker, on.wire);
        }
        Ok(())
    }

    fn send_request_body(
        &mut self,
        exchange: &mut UpstreamExchange,
        is_its_turn: bool,
    ) -> std::io::Result<()> {
        let mut turn_bytes = 0;
        loop {
            let is_whole = !exchange.is_socket_stream()
                && exchange.file.is_none()
                && exchange
                    .arriving
                    .as_ref()
                    .is_none_or(|arriving| arriving.has_ended);
            let Some(on) = exchange.http2.as_mut().filter(|on| !on.has_ended) else {
                return Ok(());
            };
            let Some((carrier, _)) = self.upstream.carriers.get_mut(on.wire) else {
                // The connection is lost; each exchange is notified separately.
                return Ok(());
            };
            if exchange.sent < exchange.out.len() || is_whole {
                let room = ROOM_BYTES.saturating_sub(carrier.unsent());
                if room == 0 || (!is_its_turn && carrier.machine.has_ready()) {
                    // The exchange gets a turn when the socket has room again.
                    carrier.machine.set_pending(on.stream, true);
                    return Ok(());
                }
                let left = &exchange.out[exchange.sent..];
                let piece = &left[..left.len().min(room)];
                let rest = match (piece.len() == left.len(), is_whole) {
                    (true, true) => Rest::End,
                    (true, false) => Rest::Open,
                    (false, _) => Rest::Pending,
                };
                let sent = carrier
                    .machine
                    .send_data(on.stream, piece, rest, &mut carrier.out);
                exchange.sent += sent;
                if sent < piece.len() {
                    // The flow-control window is exhausted.
                    return Ok(());
                }
                on.has_ended = rest == Rest::End;
                continue;
            }
            if !exchange.refill(self.timers, self.worker, &mut turn_bytes)? {
                return Ok(());
            }
        }
    }
}

impl Upstream {
    /// Handles the end of an attempt to open a connection, successful or not: exchanges that wait for it continue.
    pub(super) fn end_opening(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        exchange: &mut UpstreamExchange,
    ) {
        if let Some(place) = exchange.opens.take() {
            self.carriers.end_opening(place, exchange.id());
            self.watch_carriers(timers, worker);
        }
    }

    /// Returns true if an established connection negotiated HTTP/2.
    pub(super) fn has_chosen_http2(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        exchange: &mut UpstreamExchange,
        target: &Target,
    ) -> bool {
        if !exchange.may_use_http2(target) {
            return false;
        }
        let has_chosen = !target.is_tls
            || exchange
                .wire
                .is_some_and(|wire| worker.net.wire_uses_http2(wire));
        if !has_chosen {
            let now_ms = worker.net.now_ms();
            self.carriers.note_http1(exchange.place(), now_ms);
            self.end_opening(timers, worker, exchange);
        }
        has_chosen
    }

    /// Removes an exchange from its stream.
    pub(super) fn leave_carrier(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        exchange: &mut UpstreamExchange,
    ) {
        // True for a WebSocket that has sent all bytes, including its close frame.
        let is_socket = matches!(exchange.phase, Phase::Socket { .. }) && exchange.queued() == 0;
        let Some(on) = exchange.http2.take() else {
            return;
        };
        let OnCarrier {
            wire,
            stream,
            has_ended,
            ..
        } = on;
        let now_ms = worker.net.now_ms();
        let Some((carrier, limits)) = self.carriers.get_mut(wire) else {
            // The connection is lost. Its exchanges leave it one by one.
            return;
        };
        carrier.exchanges.remove(&stream);
        if is_socket && !has_ended {
            // RST_STREAM would report a broken WebSocket (RFC 8441, section 5).
            carrier
                .machine
                .send_data(stream, &[], Rest::End, &mut carrier.out);
        }
        carrier.machine.release(stream, limits, &mut carrier.out);
        if carrier.exchanges.is_empty() {
            carrier.idle_since_ms = now_ms;
        }
        let is_over = carrier.is_over();
        self.flush_carrier(timers, worker, wire);
        if is_over {
            self.close_carrier(worker, wire);
        }
    }

    /// Returns window credit for response bytes that the client received.
    fn give_carrier_credit(&mut self, exchange: &mut UpstreamExchange) {
        let waiting = match &exchange.phase {
            Phase::Streaming { pending, .. } => pending.len(),
            Phase::Linked(body) => body.pending.len(),
            // The client's send queue is full.
            Phase::Socket {
                is_paused: true, ..
            } => return,
            Phase::AwaitingHead | Phase::Whole { .. } | Phase::Socket { .. } => 0,
        };
        if let Some(on) = &mut exchange.http2
            && on.uncredited > waiting
            && let Some((carrier, limits)) = self.carriers.get_mut(on.wire)
        {
            let taken = on.uncredited - waiting;
            on.uncredited = waiting;
            carrier
                .machine
                .consumed(on.stream, taken, limits, &mut carrier.out);
        }
    }

    /// Writes queued frames to the socket.
    fn flush_carrier(&mut self, timers: &mut Timers, worker: &mut Engine, wire: WireId) {
        let Some((carrier, _)) = self.carriers.get_mut(wire) else {
            // The connection's last exchange may have closed it.
            return;
        };
        while carrier.sent < carrier.out.len() {
            match worker.net.send_wire(wire, &carrier.out[carrier.sent..]) {
                Ok(Some(sent)) => carrier.sent += sent,
                Ok(None) => return,
                Err(_) => {
                    // The target may have sent responses before the failure. `on_carriers_due` reads them before it closes the
                    // connection.
                    self.carriers.note_broken(wire);
                    self.watch_carriers(timers, worker);
                    return;
                }
            }
        }
        carrier.out.clear();
        carrier.sent = 0;
        if carrier.out.capacity() > ROOM_BYTES {
            carrier.out = Vec::new();
        }
    }

    /// Closes a connection without requests.
    fn close_carrier(&mut self, worker: &mut Engine, wire: WireId) {
        self.carriers.remove(wire);
        self.connections.close(worker, wire);
    }

    fn watch_carriers(&self, timers: &mut Timers, worker: &mut Engine) {
        if self.carriers.has_changes() {
            let now_ms = worker.net.now_ms();
            timers.at(now_ms, Timer::Carriers);
        }
    }
}

fn body_bytes(part: &ResponsePart) -> usize {
    match part {
        ResponsePart::Body(body) => body.len(),
        ResponsePart::Interim(_)
        | ResponsePart::Head(_)
        | ResponsePart::Trailers(_)
        | ResponsePart::End { .. }
        | ResponsePart::Upgraded(_) => 0,
    }
}

/// Returns the request's `Content-Length`.
fn length_of(body: &Body) -> Option<String> {
    match body {
        Body::None | Body::Arriving { length: None, .. } => None,
        body => Some(body.bytes().to_string()),
    }
}

/// Returns true for `TE: trailers`, the only value that HTTP/2 allows; gRPC requires it.
fn takes_trailers(headers: &[(Vec<u8>, Vec<u8>)]) -> bool {
    let named = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"te"));
    let mut tokens = named.flat_map(|(_, value)| value.split(|&byte| byte == b','));
    tokens.any(|token| token.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Fields of a request in addition to the forwarded ones.
type OwnFields<'a> = [Option<(&'a [u8], &'a [u8])>; 2];

fn plain_fields(length: Option<&str>, takes_trailers: bool) -> OwnFields<'_> {
    [
        length.map(|length| (&b"content-length"[..], length.as_bytes())),
        takes_trailers.then_some((b"te", b"trailers")),
    ]
}

/// Returns the fields that the edge adds to a WebSocket handshake (RFC 8441, section 5).
fn socket_fields(offers_grip: bool) -> OwnFields<'static> {
    [
        Some((b"sec-websocket-version", b"13")),
        offers_grip.then_some((b"sec-websocket-extensions", b"grip")),
    ]
}

fn fields<'a>(
    forwarded: &'a Forwarded<'a>,
    is_socket: bool,
    own: OwnFields<'a>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let headers = forwarded.headers.iter();
    let passes = move |(name, _): &&Header<'_>| {
        !is_socket || !HANDSHAKE_OWN.iter().any(|own| same(name, own))
    };
    let headers = headers
        .filter(passes)
        .map(|(name, value)| (&name[..], &value[..]));
    headers.chain(own.into_iter().flatten())
}
