//! The worker's part of receiving bodies: from a head to the request with its complete body.

use fermata_config::LogLevel;
use fermata_io::{Deadline, Driver};
use fermata_proto::http1::Body;
use fermata_proto::{multipart, percent};

use super::{BodyError, BodyPace, BodyRest, Form, HeadAt, Partial, Plan, Sink};
use crate::http::Http;
use crate::http::exchange::Stage;
use crate::http::request::Place;
use crate::http::router::{BodyRule, Found};
use crate::missed::missed;
use crate::net::Net;
use crate::net::buffer::Current;
use crate::net::connection::Origin;
use crate::net::index::ExchangeIndex;
use crate::net::input::Step;

/// Maximum number of bytes reserved for a body of announced length before its first byte has
/// arrived.
const BODY_RESERVE_BYTES_MAX: u64 = 64 * 1024;

/// Destination of a request with a body.
enum BodyRoute {
    /// A handler, with its rule for bodies.
    Handler(BodyRule),
    /// No handler: the response is 404.
    Nowhere,
    /// Files, a WebSocket, or an error that dispatch reports.
    Elsewhere,
}

impl<D: Driver> Net<D> {
    /// Returns the time limits of a body.
    pub(crate) fn body_pace(&self, plan: &Plan) -> BodyPace {
        plan.pace.unwrap_or(BodyPace {
            timeout_ms: self.settings.body_timeout_ms,
            rate_min: self.settings.body_rate_min as u64,
            setting: "body_timeout_ms",
        })
    }

    /// Extends the deadline of a body that arrives at the minimum rate or faster.
    fn prolong_body(&mut self, index: ExchangeIndex, pace: BodyPace, received: u64, begun_ms: u64) {
        // Received bytes extend the allowed time. A short body needs no new deadline.
        let allowed_ms = pace.allowed_ms(received);
        if allowed_ms > pace.timeout_ms {
            let deadline = Deadline::after(begun_ms, allowed_ms);
            self.set_deadline(index.connection(), deadline);
        }
    }
}

impl Http {
    /// Drops uploaded body data that the application has not received.
    pub(crate) fn drop_upload(&mut self) {
        if self.request.upload != 0 {
            self.uploads
                .release(std::mem::take(&mut self.request.upload));
        }
    }
}

impl Http {
    /// Returns how to receive the body whose head was just parsed at `head` in the input. `None` if
    /// it was refused.
    #[inline]
    pub(crate) fn plan_body<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        head: &HeadAt,
    ) -> Option<Plan> {
        if self.request.head.body == Body::None {
            return Some(Plan {
                pace: None,
                bytes_max: 0,
                own_bytes_max: None,
                boundary: None,
                is_early: false,
            });
        }
        self.plan_any_body(net, index, head)
    }

    fn plan_any_body<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        head: &HeadAt,
    ) -> Option<Plan> {
        let origin = net.connections.at(index.connection()).map(|it| it.origin);
        let is_public = origin == Some(Origin::Public);
        // A final response that the head alone determines replaces 100 (RFC 9110, section 10.1.1).
        let may_wait = is_public && !self.passes_on && self.request.head.expect_continue;
        if may_wait && matches!(self.find_body_route(net, head), BodyRoute::Nowhere) {
            self.refuse_head(net, index, 404, "Nothing is here.\n");
            return None;
        }
        let head_bytes = head.of(&net.input.bytes, &self.request.head_bytes);
        let content_type = self.request.head.header(head_bytes, b"content-type", 0);
        let form = content_type
            .filter(|_| is_public && !self.passes_on)
            .and_then(multipart::boundary);
        let limits = match origin {
            Some(Origin::Own) => net.wires.body_limits(index),
            _ => None,
        };
        let bytes_max = limits.map(|it| it.bytes_max);
        let mut plan = Plan {
            bytes_max: bytes_max.unwrap_or(net.settings.body_bytes_max as u64),
            pace: limits.and_then(|it| it.pace),
            own_bytes_max: None,
            boundary: None,
            is_early: false,
        };
        if !is_public || form.is_none() && !self.router.has_body_rules() {
            return Some(plan);
        }
        // Write nothing to disk for a path without a route.
        let BodyRoute::Handler(rule) = self.find_body_route(net, head) else {
            return Some(plan);
        };
        let own_bytes_max = rule.bytes_max;
        plan.own_bytes_max = own_bytes_max;
        plan.is_early = rule.is_early;
        match form {
            None => {}
            // A handler that reads the body while it arrives also parses the form.
            Some(_) if plan.is_early => {}
            Some(Ok(boundary)) => {
                plan.boundary = Some(boundary);
                plan.bytes_max = net.settings.multipart_bytes_max as u64;
            }
            Some(Err(refusal)) => {
                let message = format!("{refusal}.\n");
                self.refuse_head(net, index, refusal.status(), &message);
                return None;
            }
        }
        plan.bytes_max = own_bytes_max.unwrap_or(plan.bytes_max);
        Some(plan)
    }

    fn find_body_route<D: Driver>(&mut self, net: &mut Net<D>, head: &HeadAt) -> BodyRoute {
        let head_bytes = head.of(&net.input.bytes, &self.request.head_bytes);
        let method = self.request.head.method_span.of(head_bytes);
        let raw_path = self.request.head.path.of(head_bytes);
        net.scratch.clear();
        let mut slashes = Vec::new();
        let path = match percent::decode_path(raw_path, &mut net.scratch, &mut slashes) {
            Ok(true) => &net.scratch[..],
            Ok(false) => raw_path,
            // `dispatch` refuses this request.
            Err(_) => return BodyRoute::Elsewhere,
        };
        let params = &mut self.request.params;
        match self.router.find(method, path, &slashes, params) {
            Found::Handler(handler) => BodyRoute::Handler(self.router.body_rule(handler)),
            Found::NotFound => match self.router.fallback() {
                Some(fallback) => BodyRoute::Handler(self.router.body_rule(fallback.handler)),
                None => BodyRoute::Nowhere,
            },
            _ => BodyRoute::Elsewhere,
        }
    }

    /// Moves a head out of the input buffer if its body arrives in pieces or is a form to parse.
    pub(crate) fn begin_body<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        current: Current,
        body_start: usize,
        rest: BodyRest,
        plan: Plan,
    ) -> Step {
        let (index, at, filled) = (current.index.exchange(), current.at, current.filled);
        let is_waiting = self.request.head.expect_continue && body_start == filled;
        if plan.is_early {
            self.request.head_bytes.clear();
            let head = &net.input.bytes[at..body_start];
            self.request.head_bytes.extend_from_slice(head);
            net.input.advance(body_start);
            return self.hand_out_early(net, index, rest, is_waiting, &plan);
        }
        let head_bytes = net.input.bytes[at..body_start].to_vec();
        if self.collect_body(net, index, head_bytes, is_waiting, rest, &plan) {
            net.input.advance(body_start);
        }
        Step::Again
    }

    /// Starts to collect the body of a request. Returns false if it was refused.
    pub(crate) fn collect_body<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        head_bytes: Vec<u8>,
        is_waiting: bool,
        rest: BodyRest,
        plan: &Plan,
    ) -> bool {
        let (sink, body) = match self.sink(net, &rest, plan) {
            Ok(sink) => sink,
            Err(error) => {
                self.refuse_arriving(net, index, &error);
                return false;
            }
        };
        let begun_ms = net.driver.refresh_now();
        let pace = net.body_pace(plan);
        let head = std::mem::take(&mut self.request.head);
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return missed(false);
        };
        exchange.stage = Stage::Body(Box::new(Partial {
            head_bytes,
            head,
            body,
            rest,
            bytes_max: plan.bytes_max,
            pace,
            sink,
            received: 0,
            begun_ms,
            early: None,
        }));
        net.gauges.begin_active(connection, exchange);
        if is_waiting {
            net.send_continue(index.connection());
        }
        let deadline = Deadline::after(begun_ms, pace.timeout_ms);
        net.set_deadline(index.connection(), deadline);
        true
    }

    /// Creates the destination of a body, and its buffer in memory.
    fn sink<D: Driver>(
        &self,
        net: &Net<D>,
        rest: &BodyRest,
        plan: &Plan,
    ) -> Result<(Sink, Vec<u8>), BodyError> {
        if let Some(boundary) = &plan.boundary {
            let form = Form::new(boundary, &net.settings, &self.spools, plan.own_bytes_max);
            return Ok((Sink::Form(Box::new(form)), Vec::new()));
        }
        match rest {
            BodyRest::Length(length) if *length > net.settings.body_memory_bytes_max as u64 => {
                let spool = self.spools.create()?;
                Ok((Sink::File(spool), Vec::new()))
            }
            BodyRest::Length(length) => {
                let reserve = (*length).min(BODY_RESERVE_BYTES_MAX) as usize;
                Ok((Sink::Memory, Vec::with_capacity(reserve)))
            }
            BodyRest::Chunked(_) | BodyRest::Stream { .. } => Ok((Sink::Memory, Vec::new())),
        }
    }

    /// Adds the current input to the body being collected.
    pub(crate) fn step_body<D: Driver>(&mut self, net: &mut Net<D>, current: Current) -> Step {
        let (index, at, filled) = (current.index.exchange(), current.at, current.filled);
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return missed(Step::Starved);
        };
        let Stage::Body(partial) = &mut exchange.stage else {
            return Step::Starved;
        };
        if let BodyRest::Stream { has_ended } = &mut partial.rest {
            *has_ended = connection.has_ended && connection.inbox.is_empty();
        }
        let line = connection.line;
        let spooled = partial.spooled();
        let taken = partial.take(&net.input.bytes[at..filled], &net.settings, &self.spools);
        self.uploads.turn_bytes += partial.spooled() - spooled;
        let pace = partial.pace;
        let earned_ms = pace.earned_ms(partial.received);
        if earned_ms > 0 {
            let worth_ms = net.driver.now_ms().saturating_sub(earned_ms);
            partial.begun_ms = partial.begun_ms.min(worth_ms);
        }
        let (bytes_max, received, begun_ms) =
            (partial.bytes_max, partial.received, partial.begun_ms);
        if let Ok((consumed, _)) = &taken {
            net.http2.consumed(line, *consumed);
        }
        match taken {
            Ok((consumed, true)) => {
                net.input.advance(at + consumed);
                self.end_body(net, index)
            }
            Ok((consumed, false)) => {
                net.input.advance(at + consumed);
                net.prolong_body(index, pace, received, begun_ms);
                net.note_buffered(index.connection());
                Step::Starved
            }
            Err(BodyError::Refused(refusal)) if refusal.status() == 413 => {
                self.refuse_body(net, index, bytes_max);
                Step::Again
            }
            Err(error) => self.refuse_arriving(net, index, &error),
        }
    }

    /// Makes the request of a complete body the current request.
    fn end_body<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) -> Step {
        let exchange = net.connections.exchange_mut(index);
        let stage = exchange.map(|it| std::mem::replace(&mut it.stage, Stage::Handling(None)));
        let Some(Stage::Body(partial)) = stage else {
            return Step::Starved;
        };
        let Partial {
            head_bytes,
            head,
            body,
            sink,
            ..
        } = *partial;
        let upload = match Partial::finish(sink) {
            Ok(upload) => upload,
            Err(error) => return self.refuse_arriving(net, index, &error),
        };
        net.note_buffered(index.connection());
        self.request.head = head;
        self.request.head_bytes = head_bytes;
        self.request.body_bytes = body;
        self.trace.on_body(index);
        self.take_request(net, index, Place::Owned);
        if let Some(upload) = upload {
            self.request.upload = self.uploads.keep(upload);
        }
        self.unless_unread(net)
    }

    fn refuse_arriving<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        error: &BodyError,
    ) -> Step {
        if matches!(error, BodyError::Io { .. }) {
            net.log_for_client(LogLevel::Error, &error.to_string());
        }
        self.refuse(net, index, error.status(), &error.client_message());
        Step::Again
    }
}
