//! Input of HTTP/2 connections: from frames to requests and their bodies.

use fermata_config::LogLevel;
use fermata_io::buffer::Pool;
use fermata_io::{Deadline, Driver, Event as Readiness};
use fermata_proto::http1::{Body, Method};
use fermata_proto::http2::{Connection as Machine, Event, Origin as ResetBy, StreamId, frame};
use fermata_proto::{Refusal, Span};

use super::{Beyond, Carrier, CarrierPlace, Stream};
use crate::admin::stats::Counter;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::body::BodyRest;
use crate::http::body::HeadAt;
use crate::http::exchange::{Exchange, Stage};
use crate::http::protocol::Protocol;
use crate::http::request::Place;
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::READ_BYTES;
use crate::net::buffer::Current;
use crate::net::connection::{Awaited, Connection, Origin, Phase};
use crate::net::connections::Connections;
use crate::net::index::ConnectionIndex;
use crate::net::input::Step;
use crate::net::line::{Line, StreamPlace};
use crate::net::running::Running;

/// Result of one frame, without borrowing the input.
enum Received {
    Nothing,
    Request(StreamId, bool),
    Data(StreamId),
    Refused(Refusal),
    Reset(StreamId, ResetBy),
}

impl<D: Driver> Net<D> {
    /// Loads the input of a stream from its inbox. Returns true if there is input to parse.
    pub(crate) fn load_stream(&mut self, index: ConnectionIndex) -> bool {
        let Some(connection) = self.connections.at_mut(index) else {
            return missed(false);
        };
        let taken = connection.inbox.len().min(READ_BYTES);
        if taken == 0 && !connection.has_ended {
            connection.has_unread = false;
            return false;
        }
        self.input.bytes[..taken].copy_from_slice(&connection.inbox[..taken]);
        connection.inbox.drain(..taken);
        connection.has_unread = !connection.inbox.is_empty();
        if connection.inbox.is_empty() {
            self.pool.give(std::mem::take(&mut connection.inbox));
        }
        self.input.begin(index, taken);
        true
    }

    /// Discards the unread input of an HTTP/2 stream and returns its bytes to the flow-control
    /// window.
    pub(crate) fn drop_input(&mut self, index: ConnectionIndex) {
        if let Some(connection) = self.connections.at_mut(index).known()
            && connection.line.is_stream()
        {
            let inbox = std::mem::take(&mut connection.inbox);
            self.http2.consumed(connection.line, inbox.len());
            self.pool.give(inbox);
        }
    }

    /// Creates the connection of a new stream. Also returns the limit that the stream exceeds, if
    /// any.
    fn insert_stream(
        &mut self,
        carrier_index: ConnectionIndex,
        carrier: CarrierPlace,
        id: StreamId,
    ) -> Option<(ConnectionIndex, Option<Beyond>)> {
        let peer = self.connections.at(carrier_index)?.peer;
        let beyond = self.http2.count(peer);
        let stream = self.http2.streams.insert(Stream {
            carrier,
            id,
            has_head: false,
            has_ended: false,
            is_reset: false,
            is_blocked: false,
            has_trailers: false,
        });
        let place = StreamPlace(stream.index);
        let mut connection = Connection::new(Line::of_stream(place), peer, Origin::Public);
        connection.keeps_alive = false;
        connection.is_watched = true;
        let mut exchange = Exchange::new();
        exchange.protocol = Protocol::Http2;
        self.gauges.begin_active(&mut connection, &exchange);
        let index = self.connections.insert_pair(connection, exchange);
        let index = index.connection();
        let carrier = self.http2.carriers.at_mut(carrier.0)?;
        carrier.machine.set_context(id, index.0);
        self.counts.add(Counter::Http2Streams, 1);
        Some((index, beyond))
    }
}

impl Http {
    /// Processes frames of the current input, up to the next request.
    pub(crate) fn step_http2<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        current: Current,
        place: CarrierPlace,
    ) -> Step {
        let index = current.index;
        let queue_bytes_max = net.settings.queue_bytes_max;
        let now_ms = net.driver.now_ms();
        let Some(carrier) = net.http2.carriers.at_mut(place.0) else {
            return missed(Step::Starved);
        };
        if carrier.out.len() > queue_bytes_max {
            // The client sends requests faster than it reads responses. Resume when it has read
            // enough.
            carrier.mark(&mut net.http2.dirty);
            if let Some(connection) = net.connections.at_mut(index).known() {
                connection.is_paused = true;
            }
            return Step::Starved;
        }
        let input = &net.input.bytes[current.at..current.filled];
        let (machine, out) = (&mut carrier.machine, &mut carrier.out);
        let message = &mut net.http2.message;
        let step = machine.handle(input, now_ms, &net.http2.limits, message, out);
        let step = match step {
            Ok(step) => step,
            Err(violation) => {
                net.fail_carrier(self, index, place, violation);
                return Step::Again;
            }
        };
        let consumed = step.consumed;
        let is_starved = step.event.is_none();
        let received = match step.event {
            None | Some(Event::Pong(_) | Event::Settings | Event::GoAway { .. }) => {
                Received::Nothing
            }
            // Only clients receive responses.
            Some(Event::Response { .. }) => Received::Nothing,
            Some(Event::Request { stream, end }) => Received::Request(stream, end),
            Some(Event::Data { stream, data, end }) => {
                let to = stream_connection(&mut net.connections, machine, stream);
                put_into_inbox(to, &mut net.pool, data, end);
                Received::Data(stream)
            }
            Some(Event::Trailers { stream }) => {
                let to = stream_connection(&mut net.connections, machine, stream);
                put_into_inbox(to, &mut net.pool, b"", true);
                Received::Data(stream)
            }
            Some(Event::Refused { refusal, .. }) => Received::Refused(refusal),
            Some(Event::Reset { stream, origin, .. }) => Received::Reset(stream, origin),
        };
        carrier.mark(&mut net.http2.dirty);
        let context = match received {
            Received::Reset(stream, _) | Received::Data(stream) => carrier.machine.context(stream),
            Received::Nothing | Received::Refused(_) | Received::Request(..) => None,
        };
        net.input.advance(current.at + consumed);
        // Refused and reset requests cost as much as answered requests, so count them for the
        // client's turn.
        if matches!(received, Received::Refused(_) | Received::Reset(..)) {
            net.input.count(1);
        }
        let step = match (received, context.map(ConnectionIndex)) {
            (Received::Request(stream, end), _) => {
                let step = self.open_stream_request(net, index, place, stream, end);
                return match step {
                    Step::Request => self.unless_unread(net),
                    step => step,
                };
            }
            (Received::Refused(refusal), _) => {
                self.note_refused(net, index, refusal);
                Step::Again
            }
            (Received::Data(_), Some(stream)) => {
                self.on_stream_data(net, waiting, stream);
                Step::Again
            }
            (Received::Reset(_, origin), Some(stream)) => {
                self.on_stream_reset(net, waiting, stream, origin);
                Step::Again
            }
            _ => Step::Again,
        };
        if is_starved { Step::Starved } else { step }
    }

    /// Returns the step for the current request: start now, or after the client has read earlier
    /// responses.
    pub(crate) fn unless_unread<D: Driver>(&self, net: &Net<D>) -> Step {
        let index = self.request.index().connection();
        net.unread_carrier(index).map_or(Step::Request, Step::Later)
    }

    /// Counts a request that the state machine refused without a stream.
    fn note_refused<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        carrier_index: ConnectionIndex,
        refusal: Refusal,
    ) {
        let status = refusal.status();
        net.counts.add(Counter::Requests, 1);
        net.counts.refusal(status);
        net.counts.response(status);
        let Some(connection) = net.connections.at(carrier_index) else {
            return missed(());
        };
        let peer = connection.peer;
        let line = format!("{peer}: refused with {status}: {refusal}");
        let unix_ms = net.driver.unix_ms();
        net.log.write_limited(LogLevel::Info, unix_ms, &line);
        self.trace.on_refused(unix_ms, peer, status, 0);
    }

    /// Handles bytes or the end of a stream's body.
    fn on_stream_data<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        index: ConnectionIndex,
    ) {
        let Some((connection, exchange)) = net.connections.pair_mut(index.exchange()) else {
            return missed(());
        };
        let is_lingering = connection.phase == Phase::Lingering;
        if is_lingering && connection.has_ended {
            net.close(self, index);
            return;
        }
        match &exchange.stage {
            _ if is_lingering => net.drop_input(index),
            Stage::Handling(Some(_)) => {
                connection.has_unread = true;
                waiting.note_arrived(net, index.exchange());
            }
            Stage::Body(_) | Stage::Socket(_) => {
                if connection.is_again {
                    return;
                }
                let Some(key) = net.connections.key(index) else {
                    return missed(());
                };
                // Handle the event in this turn, after the current input.
                let event = Readiness::readable(key.to_u64());
                if net.events.last().is_none_or(|it| it.token != event.token) {
                    net.events.push(event);
                }
            }
            // The handshake has no response yet.
            Stage::Handling(None) if exchange.has_handshake => {}
            // The input is not needed in these stages.
            Stage::Head | Stage::Handling(None) | Stage::Held(_) | Stage::Http2(_) => {
                net.drop_input(index);
            }
        }
    }
}

/// Returns the connection of a stream, unless it has ended.
fn stream_connection<'a>(
    connections: &'a mut Connections,
    machine: &Machine,
    stream: StreamId,
) -> Option<&'a mut Connection> {
    connections.at_mut(ConnectionIndex(machine.context(stream)?))
}

/// Stores bytes of a stream until they are parsed, and notes the end of the stream.
fn put_into_inbox(to: Option<&mut Connection>, pool: &mut Pool, data: &[u8], has_ended: bool) {
    if let Some(connection) = to {
        if connection.inbox.capacity() == 0 && !data.is_empty() {
            connection.inbox = pool.take();
        }
        connection.inbox.extend_from_slice(data);
        connection.has_ended |= has_ended;
    }
}

impl<D: Driver> Net<D> {
    /// Makes a connection a carrier if its input is an HTTP/2 preface instead of an HTTP/1 request.
    /// Returns true if the connection is a carrier.
    #[cold]
    pub(crate) fn begin_http2(&mut self, current: Current) -> bool {
        let input = &self.input.bytes[current.at..current.filled];
        let begins = frame::PREFACE.starts_with(input) || input.starts_with(frame::PREFACE);
        if !begins || !self.http2.is_on {
            return false;
        }
        let now_ms = self.driver.now_ms();
        let index = current.index;
        let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
            return missed(false);
        };
        if connection.origin != Origin::Public || connection.awaited != Awaited::First {
            return false;
        }
        let http2 = &mut self.http2;
        // Offer extended CONNECT only with WebSocket routes: browsers use it if it is offered, and
        // do not fall back to HTTP/1.
        http2.limits.connect_protocol = !self.silences.is_empty();
        let mut out = Vec::new();
        let machine = Machine::server(&http2.limits, now_ms, &mut out);
        let key = http2.carriers.insert(Box::new(Carrier {
            index,
            machine,
            out,
            turn: None,
            blocked: 0,
            is_dirty: false,
            idle_since_ms: None,
            tick: Deadline::NEVER,
        }));
        exchange.stage = Stage::Http2(CarrierPlace(key.index));
        // The requests of the connection count as active individually.
        self.gauges.end_active(connection);
        self.counts.add(Counter::Http2Connections, 1);
        if let Some(carrier) = self.http2.carriers.at_mut(key.index).known() {
            carrier.mark(&mut self.http2.dirty);
        }
        if self.running != Running::Serving {
            self.drain_carrier(index, CarrierPlace(key.index));
        }
        true
    }
}

impl Http {
    /// Starts a request whose head is in the message.
    fn open_stream_request<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        carrier_index: ConnectionIndex,
        carrier: CarrierPlace,
        id: StreamId,
        ends: bool,
    ) -> Step {
        let Some((index, beyond)) = net.insert_stream(carrier_index, carrier, id) else {
            return Step::Again;
        };
        let message = &mut net.http2.message;
        let request = &mut self.request;
        std::mem::swap(&mut request.head, &mut message.head);
        std::mem::swap(&mut request.head_bytes, &mut message.text);
        request.body_bytes.clear();
        request.place = Place::Owned;
        self.trace.on_request(
            index.exchange(),
            Origin::Public,
            Protocol::Http2,
            &request.head,
            &request.head_bytes,
        );
        let protocol = message.protocol;
        let is_connect = protocol.is_some();
        if let Some(protocol) = protocol
            && !self.begin_connect(protocol)
        {
            let text = "This server speaks no other protocol within HTTP than WebSocket.\n";
            self.refuse(net, index.exchange(), 501, text);
            return Step::Again;
        }
        let request = &mut self.request;
        let body = if ends { Body::None } else { request.head.body };
        let is_head = request.head.method == Method::Head;
        let is_waiting = request.head.expect_continue;
        if let Some((connection, exchange)) = net.connections.pair_mut(index.exchange()).known() {
            exchange.is_head = is_head;
            connection.has_ended = ends;
        }
        if let Some(beyond) = beyond {
            let (counter, status, text) = beyond.refusal();
            net.counts.add(counter, 1);
            self.refuse(net, index.exchange(), status, text);
            return Step::Again;
        }
        if body == Body::None {
            self.take_request(net, index.exchange(), Place::Owned);
            self.request.is_connect = is_connect;
            return Step::Request;
        }
        let Some(plan) = self.plan_body(net, index.exchange(), &HeadAt::Request) else {
            return Step::Again;
        };
        let rest = match body {
            Body::Length(length) if length > plan.bytes_max => {
                self.refuse_body(net, index.exchange(), plan.bytes_max);
                return Step::Again;
            }
            Body::Length(length) => BodyRest::Length(length),
            Body::None | Body::Chunked => BodyRest::Stream { has_ended: false },
        };
        if plan.is_early {
            return self.hand_out_early(net, index.exchange(), rest, is_waiting, &plan);
        }
        let head_bytes = std::mem::take(&mut self.request.head_bytes);
        self.collect_body(net, index.exchange(), head_bytes, is_waiting, rest, &plan);
        Step::Again
    }

    /// Converts an extended CONNECT to an HTTP/1.1 handshake (RFC 8441, section 5). Returns false
    /// if it does not request a WebSocket.
    fn begin_connect(&mut self, protocol: Span) -> bool {
        let request = &mut self.request;
        let protocol = protocol.of(&request.head_bytes);
        let is_websocket = protocol.eq_ignore_ascii_case(b"websocket");
        let start = request.head_bytes.len();
        request.head_bytes.extend_from_slice(b"GET");
        request.head.method_span = Span::new(start, start + 3);
        request.head.method = Method::Get;
        request.head.body = Body::None;
        is_websocket
    }
}
