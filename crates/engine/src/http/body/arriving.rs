//! The worker's part: from a head with a body to the request with all of it.

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_proto::http1::Body;
use fermata_proto::{multipart, percent};

use super::{BodyError, BodyPace, BodyRest, Form, HeadAt, Partial, Plan, Sink};
use crate::http::Http;
use crate::http::exchange::Stage;
use crate::http::request::Place;
use crate::http::router::{BodyRule, Found};
use crate::net::Net;
use crate::net::buffer::Current;
use crate::net::connection::Origin;
use crate::net::index::ExchangeIndex;
use crate::net::input::Step;
use crate::worker::Worker;

/// Most of a body's announced length that is reserved before any of it has arrived.
const BODY_RESERVE_BYTES_MAX: u64 = 64 * 1024;

impl<D: Driver> Net<D> {
    /// The time that a body has.
    pub(crate) fn body_pace(&self, plan: &Plan) -> BodyPace {
        plan.pace.unwrap_or(BodyPace {
            timeout_ms: self.settings.body_timeout_ms,
            rate_min: self.settings.body_rate_min as u64,
            setting: "body_timeout_ms",
        })
    }

    /// A body that arrives at a fair rate may take as long as it is large.
    fn prolong_body(&mut self, index: ExchangeIndex, pace: BodyPace, received: u64, begun_ms: u64) {
        // What has come so far was worth this much time. A short body is not worth a store.
        let allowed_ms = pace.allowed_ms(received);
        if allowed_ms > pace.timeout_ms {
            let due_ms = begun_ms.saturating_add(allowed_ms);
            self.set_deadline(index.connection(), due_ms);
        }
    }
}

impl Http {
    /// Lets go of what the body of a request has left that the program has not seen.
    pub(crate) fn drop_upload(&mut self) {
        if self.request.upload != 0 {
            self.uploads
                .release(std::mem::take(&mut self.request.upload));
        }
    }
}

impl<D: Driver> Worker<D> {
    /// How to take the body whose head has just been parsed and lies at `head` in the input. `None` when it was refused.
    #[inline]
    pub(crate) fn plan_body(&mut self, index: ExchangeIndex, head: &HeadAt) -> Option<Plan> {
        if self.http.request.head.body == Body::None {
            return Some(Plan {
                pace: None,
                bytes_max: 0,
                own_bytes_max: None,
                boundary: None,
                is_early: false,
            });
        }
        self.plan_any_body(index, head)
    }

    fn plan_any_body(&mut self, index: ExchangeIndex, head: &HeadAt) -> Option<Plan> {
        let head_bytes = head.of(&self.net.input.bytes, &self.http.request.head_bytes);
        let origin = self
            .net
            .connections
            .at(index.connection())
            .map(|it| it.origin);
        let is_public = origin == Some(Origin::Public);
        let content_type = self
            .http
            .request
            .head
            .header(head_bytes, b"content-type", 0);
        let form = content_type
            .filter(|_| is_public && !self.http.passes_on)
            .and_then(multipart::boundary);
        let limits = match origin {
            Some(Origin::Own) => self.net.wires.body_limits(index),
            _ => None,
        };
        let bytes_max = limits.map(|it| it.bytes_max);
        let mut plan = Plan {
            bytes_max: bytes_max.unwrap_or(self.net.settings.body_bytes_max as u64),
            pace: limits.and_then(|it| it.pace),
            own_bytes_max: None,
            boundary: None,
            is_early: false,
        };
        if !is_public || form.is_none() && !self.http.router.has_body_rules() {
            return Some(plan);
        }
        // Nothing is written to disk for a path that nobody serves.
        let Some(rule) = self.find_body_rule(head) else {
            return Some(plan);
        };
        let own_bytes_max = rule.bytes_max;
        plan.own_bytes_max = own_bytes_max;
        plan.is_early = rule.is_early;
        match form {
            None => {}
            // Whoever reads it while it arrives takes it apart as well.
            Some(_) if plan.is_early => {}
            Some(Ok(boundary)) => {
                plan.boundary = Some(boundary);
                plan.bytes_max = self.net.settings.multipart_bytes_max as u64;
            }
            Some(Err(refusal)) => {
                let message = format!("{refusal}.\n");
                self.refuse_head(index, refusal.status(), &message);
                return None;
            }
        }
        plan.bytes_max = own_bytes_max.unwrap_or(plan.bytes_max);
        Some(plan)
    }

    /// How the handler of the request wants its bodies; `None` without a handler.
    fn find_body_rule(&mut self, head: &HeadAt) -> Option<BodyRule> {
        let head_bytes = head.of(&self.net.input.bytes, &self.http.request.head_bytes);
        let method = self.http.request.head.method_span.of(head_bytes);
        let raw_path = self.http.request.head.path.of(head_bytes);
        self.net.scratch.clear();
        let mut slashes = Vec::new();
        let path = match percent::decode_path(raw_path, &mut self.net.scratch, &mut slashes) {
            Ok(true) => &self.net.scratch[..],
            Ok(false) => raw_path,
            // Refused when it is dispatched.
            Err(_) => return None,
        };
        let params = &mut self.http.request.params;
        match self.http.router.find(method, path, &slashes, params) {
            Found::Handler(handler) => Some(self.http.router.body_rule(handler)),
            Found::NotFound => {
                let fallback = self.http.router.fallback()?;
                Some(self.http.router.body_rule(fallback.handler))
            }
            _ => None,
        }
    }

    /// Moves a head whose body comes in pieces, or is to be taken apart, out of the input buffer.
    pub(crate) fn begin_body(
        &mut self,
        current: Current,
        body_start: usize,
        rest: BodyRest,
        plan: Plan,
    ) -> Step {
        let (index, at, filled) = (current.index.exchange(), current.at, current.filled);
        let is_waiting = self.http.request.head.expect_continue && body_start == filled;
        if plan.is_early {
            self.http.request.head_bytes.clear();
            let head = &self.net.input.bytes[at..body_start];
            self.http.request.head_bytes.extend_from_slice(head);
            self.net.input.advance(body_start);
            return self.hand_out_early(index, rest, is_waiting, &plan);
        }
        let head_bytes = self.net.input.bytes[at..body_start].to_vec();
        if self.collect_body(index, head_bytes, is_waiting, rest, &plan) {
            self.net.input.advance(body_start);
        }
        Step::Again
    }

    /// Has the body of the request whose head has been read collect from here on. False when it was refused.
    pub(crate) fn collect_body(
        &mut self,
        index: ExchangeIndex,
        head_bytes: Vec<u8>,
        is_waiting: bool,
        rest: BodyRest,
        plan: &Plan,
    ) -> bool {
        let (sink, body) = match self.sink(&rest, plan) {
            Ok(sink) => sink,
            Err(error) => {
                self.refuse_arriving(index, &error);
                return false;
            }
        };
        let begun_ms = self.net.driver.refresh_now();
        let pace = self.net.body_pace(plan);
        let head = std::mem::take(&mut self.http.request.head);
        let Some((connection, exchange)) = self.net.connections.pair_mut(index) else {
            return false;
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
        self.net.gauges.begin_active(connection, exchange);
        if is_waiting {
            self.net.send_continue(index.connection());
        }
        let due_ms = begun_ms.saturating_add(pace.timeout_ms);
        self.net.set_deadline(index.connection(), due_ms);
        true
    }

    /// Where a body goes, and room for what goes to memory.
    fn sink(&self, rest: &BodyRest, plan: &Plan) -> Result<(Sink, Vec<u8>), BodyError> {
        if let Some(boundary) = &plan.boundary {
            let form = Form::new(
                boundary,
                &self.net.settings,
                &self.http.spools,
                plan.own_bytes_max,
            );
            return Ok((Sink::Form(Box::new(form)), Vec::new()));
        }
        match rest {
            BodyRest::Length(length)
                if *length > self.net.settings.body_memory_bytes_max as u64 =>
            {
                let spool = self.http.spools.create()?;
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
    pub(crate) fn step_body(&mut self, current: Current) -> Step {
        let (index, at, filled) = (current.index.exchange(), current.at, current.filled);
        let Some((connection, exchange)) = self.net.connections.pair_mut(index) else {
            return Step::Starved;
        };
        let Stage::Body(partial) = &mut exchange.stage else {
            return Step::Starved;
        };
        if let BodyRest::Stream { has_ended } = &mut partial.rest {
            *has_ended = connection.has_ended && connection.inbox.is_empty();
        }
        let stream = connection.line.stream();
        let spooled = partial.spooled();
        let taken = partial.take(
            &self.net.input.bytes[at..filled],
            &self.net.settings,
            &self.http.spools,
        );
        self.http.uploads.turn_bytes += partial.spooled() - spooled;
        let (bytes_max, received, begun_ms) =
            (partial.bytes_max, partial.received, partial.begun_ms);
        let pace = partial.pace;
        if let (Some(stream), Ok((consumed, _))) = (stream, &taken) {
            self.net.http2.consumed(stream, *consumed);
        }
        match taken {
            Ok((consumed, true)) => {
                self.net.input.advance(at + consumed);
                self.end_body(index)
            }
            Ok((consumed, false)) => {
                self.net.input.advance(at + consumed);
                self.net.prolong_body(index, pace, received, begun_ms);
                Step::Starved
            }
            Err(BodyError::Refused(refusal)) if refusal.status() == 413 => {
                self.refuse_body(index, bytes_max);
                Step::Again
            }
            Err(error) => self.refuse_arriving(index, &error),
        }
    }

    /// The body has arrived: its request is the current one.
    fn end_body(&mut self, index: ExchangeIndex) -> Step {
        let exchange = self.net.connections.exchange_mut(index);
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
            Err(error) => return self.refuse_arriving(index, &error),
        };
        self.http.request.head = head;
        self.http.request.head_bytes = head_bytes;
        self.http.request.body_bytes = body;
        self.http.trace.on_body(index);
        self.take_request(index, Place::Owned);
        if let Some(upload) = upload {
            self.http.request.upload = self.http.uploads.keep(upload);
        }
        Step::Request
    }

    fn refuse_arriving(&mut self, index: ExchangeIndex, error: &BodyError) -> Step {
        if matches!(error, BodyError::Io { .. }) {
            self.net.log_for_client(LogLevel::Error, &error.to_string());
        }
        self.refuse(index, error.status(), &error.client_message());
        Step::Again
    }
}
