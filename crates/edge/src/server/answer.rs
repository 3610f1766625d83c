//! Handles responses of origins. A response is forwarded to the client while it arrives. A GRIP instruction is collected first.

use fermata_config::LogLevel;
use fermata_engine::RequestId;
use fermata_fastcgi::spool::{Spool, unstored};
use fermata_grip::instruct;
use fermata_grip::instruct::{Hold, Instruct};
use fermata_proto::response::bodiless;

use crate::client::clients::Clients;
use crate::client::journal::Outcome;
use crate::client::over_http::RESPONSE_BYTES_MAX;
use crate::client::script::SCRIPT_BYTES_MAX;
use crate::client::source::{Engine, ExchangeKey, Owner};
use crate::routes::figures::Count;
use crate::server::sharing::is_answer_for_one;
use crate::server::tasks::Task;
use crate::server::turn::Turn;
use crate::upstream::codec::Codec;
use crate::upstream::exchange::{Purpose, Sharer, Step, Stop, UpstreamExchange};
use crate::upstream::reply::{
    FAILED, INSTRUCT_BYTES_MAX, Phase, RefusedInstruct, borrowed, passed, read_instruct,
};
use crate::upstream::response::{Head, ResponsePart};

/// Status after a response time-out.
const TIMED_OUT: u16 = 504;

const TOO_LARGE: &str = "Request too large to accept GRIP instruct.";

impl Turn<'_> {
    /// Handles parts of a response that arrived in one read.
    pub(super) fn take(
        &mut self,
        exchange: &mut UpstreamExchange,
        parts: Vec<ResponsePart>,
    ) -> Step {
        let has_trailers = |part: &ResponsePart| matches!(part, ResponsePart::Trailers(_));
        let is_whole = matches!(parts.last(), Some(ResponsePart::End { .. }))
            && !parts.iter().any(has_trailers);
        for part in parts {
            let step = match part {
                ResponsePart::Interim(head) => {
                    self.on_interim(exchange, &head);
                    Ok(())
                }
                ResponsePart::Head(head) => self.on_head(exchange, head, is_whole),
                ResponsePart::Body(piece) if matches!(exchange.phase, Phase::Socket { .. }) => {
                    self.on_frames(exchange, piece)
                }
                ResponsePart::Body(piece) => self.on_body(exchange, piece),
                ResponsePart::Trailers(trailers) => {
                    exchange.trailers = trailers;
                    Ok(())
                }
                ResponsePart::Upgraded(bytes) => self.on_frames(exchange, bytes),
                ResponsePart::End { .. } if matches!(exchange.phase, Phase::Socket { .. }) => {
                    self.clients.on_frames_end(self.worker, exchange)
                }
                ResponsePart::End { is_reusable } => {
                    self.outbound().release_wire(exchange, is_reusable);
                    self.on_end(exchange)
                }
            };
            step?;
        }
        Ok(())
    }

    /// Forwards an interim response to the client.
    fn on_interim(&mut self, exchange: &UpstreamExchange, head: &Head) {
        let is_of_request = matches!(exchange.phase, Phase::AwaitingHead)
            && !matches!(exchange.purpose, Purpose::Events(_));
        if let Owner::Client(handle) = exchange.owner
            && is_of_request
            && !self.clients.is_script(handle)
        {
            let headers = passed(&head.headers);
            // Ignore errors: a client that has left is detected elsewhere, and HTTP/1.0 has no interim responses.
            let _ = self
                .worker
                .send_interim(handle, head.status, headers.into_iter());
        }
    }

    fn on_head(&mut self, exchange: &mut UpstreamExchange, head: Head, is_whole: bool) -> Step {
        self.upstream.targets.note_answered(self.worker, exchange);
        exchange.noted.outcome = Outcome::Answered(head.status);
        self.route_figures.count_of_exchange(
            self.worker,
            exchange,
            &[(Count::ServerHeadReceived, head.words_bytes())],
        );
        // Over HTTP/2, a 2xx status opens the WebSocket (RFC 8441, section 5).
        let is_open = exchange.is_socket_stream() && (200..300).contains(&head.status);
        if head.status == 101 || is_open {
            return self.on_switched(exchange, &head);
        }
        let mut head = head;
        let is_events = matches!(exchange.purpose, Purpose::Events(_));
        if !is_events && !instruct::is_instruct(&borrowed(&head.headers)) {
            self.policy
                .add_cross_origin(&exchange.source, &mut head.headers);
        }
        let is_instruct =
            !exchange.source.is_plain() && instruct::is_instruct(&borrowed(&head.headers));
        let is_whole = is_instruct || is_whole || is_events || exchange.is_shared(&head);
        match exchange.owner {
            Owner::Client(handle) if !is_whole && !self.clients.is_script(handle) => {
                self.begin_passing(exchange, handle, &head, None)
            }
            _ => {
                let body = Vec::new();
                exchange.phase = Phase::Whole { head, body };
                Ok(())
            }
        }
    }

    /// Sends the head of a response to the client, and forwards the body from now on. `then` is an instruction to follow after the
    /// body.
    fn begin_passing(
        &mut self,
        exchange: &mut UpstreamExchange,
        handle: RequestId,
        head: &Head,
        then: Option<Box<Instruct>>,
    ) -> Step {
        self.upstream.release_sharers(exchange, self.tasks);
        let headers = passed(&head.headers);
        let response = head.passed_on(&headers);
        let client = self.worker.client_network(handle);
        let begun = self
            .worker
            .begin_relayed_stream(handle, &response, head.length);
        if begun != Ok(true) {
            // The client has left, or its response has no body. Close the connection to the origin, because the rest of its
            // response would never be read, and an unread FastCGI connection occupies a process.
            self.clients.forget_request(self.worker, handle);
            return Err(Stop::Over);
        }
        self.route_figures
            .count_head_sent(self.worker, &exchange.source, head);
        // Read the response from FastCGI as fast as it arrives, and store what the client does not accept yet: a PHP-FPM process
        // serves no other request until its response has been read.
        let spool = matches!(exchange.codec, Codec::FastCgi(_))
            .then(|| Box::new(Spool::new(&self.upstream.spools, client)));
        exchange.phase = Phase::Streaming {
            pending: Vec::new(),
            spool,
            // The engine reports when the head was sent and the client accepts the body.
            wants: false,
            has_ended: false,
            then,
        };
        Ok(())
    }

    fn on_body(&mut self, exchange: &mut UpstreamExchange, piece: Vec<u8>) -> Step {
        exchange.noted.bytes += piece.len() as u64;
        match &mut exchange.phase {
            Phase::AwaitingHead | Phase::Socket { .. } => Ok(()),
            Phase::Streaming {
                pending,
                spool: Some(spool),
                wants,
                ..
            } if !*wants || !pending.is_empty() || !spool.is_empty() => {
                let stored = spool.write(&piece, || self.worker.http.new_unnamed());
                if let Err(error) = stored {
                    self.worker
                        .net
                        .log_for_client(LogLevel::Error, &unstored(&error));
                }
                self.pass_on(exchange)
            }
            Phase::Streaming { pending, .. } => {
                if pending.is_empty() {
                    *pending = piece;
                } else {
                    pending.extend_from_slice(&piece);
                }
                self.pass_on(exchange)
            }
            // A health check needs only the status.
            Phase::Whole { .. } if matches!(exchange.owner, Owner::Check(..)) => Ok(()),
            Phase::Whole { .. } if self.clients.ignores_body(exchange.owner) => Ok(()),
            Phase::Linked(body) => {
                body.pending.extend_from_slice(&piece);
                self.holds().pass_link(exchange)
            }
            Phase::Whole { body, .. } => {
                body.extend_from_slice(&piece);
                let (bytes, is_events) =
                    (body.len(), matches!(exchange.purpose, Purpose::Events(_)));
                match is_events {
                    true if bytes <= RESPONSE_BYTES_MAX => Ok(()),
                    true => Err(Stop::failed(502, "the response has too many events")),
                    false if bytes <= INSTRUCT_BYTES_MAX => Ok(()),
                    false => self.on_large_body(exchange),
                }
            }
        }
    }

    /// Handles a body that exceeds the limit of an instruction: forwards it. If the head contains an instruction for a stream or a
    /// link, the client is held after the body.
    fn on_large_body(&mut self, exchange: &mut UpstreamExchange) -> Step {
        let handle = match exchange.owner {
            Owner::Client(handle) => handle,
            Owner::Link(handle) => return self.holds().begin_link_body(exchange, handle),
            Owner::Socket(_) | Owner::GoneNotice(_) | Owner::Filter(_) | Owner::Check(..) => {
                return Err(Stop::failed(502, "the response is too large"));
            }
        };
        if self.clients.is_script(handle) {
            let reason = format!("a script has no room for more than {SCRIPT_BYTES_MAX} bytes");
            return Err(Stop::failed(502, reason));
        }
        let Phase::Whole { head, body } =
            std::mem::replace(&mut exchange.phase, Phase::AwaitingHead)
        else {
            return Ok(());
        };
        let mut head = head;
        let is_instruct =
            !exchange.source.is_plain() && instruct::is_instruct(&borrowed(&head.headers));
        let mut then = None;
        if is_instruct {
            let instruct = match read_instruct(&head, None) {
                Some(Ok(mut instruct)) if instruct.hold != Hold::Response => {
                    self.holds()
                        .settle_session(&mut exchange.source, &mut instruct);
                    instruct
                }
                Some(Err(error)) => return Err(Stop::failed(502, error)),
                _ => return Err(Stop::failed(502, RefusedInstruct::TooLarge)),
            };
            head.status = instruct.answer.status;
            head.reason = instruct.answer.reason.clone();
            head.headers = instruct.answer.headers.clone();
            let is_too_large = exchange.source.request.body.bytes() > INSTRUCT_BYTES_MAX as u64;
            if instruct.hold == Hold::Stream && is_too_large {
                self.clients
                    .answer_text(self.worker, handle, 400, TOO_LARGE);
                return Err(Stop::Over);
            }
            self.policy
                .add_cross_origin(&exchange.source, &mut head.headers);
            // More bytes follow after this body: items, or the response of the link. So the length is unknown.
            if instruct.hold == Hold::Stream || instruct.next.is_some() {
                head.length = None;
                then = Some(Box::new(instruct));
            }
        }
        self.begin_passing(exchange, handle, &head, then)?;
        if let Phase::Streaming { pending, .. } = &mut exchange.phase {
            *pending = body;
        }
        Ok(())
    }

    fn on_end(&mut self, exchange: &mut UpstreamExchange) -> Step {
        match &mut exchange.phase {
            Phase::Linked(body) => {
                body.has_ended = true;
                self.holds().pass_link(exchange)
            }
            Phase::Streaming { has_ended, .. } => {
                *has_ended = true;
                self.pass_on(exchange)
            }
            phase => match std::mem::replace(phase, Phase::AwaitingHead) {
                Phase::Whole { head, body } => {
                    self.on_whole(exchange, head, body)?;
                    Err(Stop::Over)
                }
                _ => Err(Stop::failed(502, "the origin sent no response")),
            },
        }
    }

    /// Handles a complete response.
    fn on_whole(&mut self, exchange: &mut UpstreamExchange, head: Head, body: Vec<u8>) -> Step {
        self.share_answer(exchange, &head, &body);
        let handle = match exchange.owner {
            Owner::Client(handle) => handle,
            Owner::Check(..) => {
                let generation = self.routing.table.generation;
                let outcome = Ok(head.status);
                self.upstream
                    .on_checked(generation, self.worker, exchange, outcome);
                return Ok(());
            }
            Owner::Link(handle) => {
                self.holds().on_link(exchange, handle, head, body);
                return Ok(());
            }
            Owner::Socket(handle) => {
                self.upstream
                    .exchange_keys
                    .forget(ExchangeKey::Client(handle));
                self.holds().on_events(handle, &head, &body);
                return Ok(());
            }
            Owner::GoneNotice(_) => {
                self.clients.on_gone(self.worker, &head, &body);
                return Ok(());
            }
            Owner::Filter(number) => {
                self.holds().on_filter_answer(number, &head, &body);
                return Ok(());
            }
        };
        if let Purpose::Events(_) = exchange.purpose {
            self.upstream
                .exchange_keys
                .forget(ExchangeKey::Client(handle));
            return self.holds().on_opening(exchange, handle, &head, &body);
        }
        if exchange.source.is_plain() || !instruct::is_instruct(&borrowed(&head.headers)) {
            self.route_figures
                .count_head_sent(self.worker, &exchange.source, &head);
            self.clients.respond(self.worker, handle, &head, &body);
            return Ok(());
        }
        match read_instruct(&head, Some(&body)) {
            Some(Ok(mut instruct)) => {
                self.holds()
                    .settle_session(&mut exchange.source, &mut instruct);
                self.follow(exchange, handle, instruct, body)
            }
            Some(Err(error)) => Err(Stop::failed(502, error)),
            None => Ok(()),
        }
    }

    /// Sends a complete response to the other clients that wait for it.
    fn share_answer(&mut self, exchange: &mut UpstreamExchange, head: &Head, body: &[u8]) {
        if exchange.shared.key.is_none() {
            return;
        }
        if is_answer_for_one(head, body) {
            return self.upstream.release_sharers(exchange, self.tasks);
        }
        for Sharer { handle, source, .. } in self.upstream.take_sharers(exchange) {
            let mut own = self.upstream.exchange_of_sharer(exchange, handle, source);
            if let Err(Stop::Failed(status, reason)) =
                self.on_whole(&mut own, head.clone(), body.to_vec())
            {
                self.fail(&mut own, status, &reason);
            }
            self.journal
                .log_exchange(self.policy, self.timers, self.worker, &mut own);
        }
    }

    /// Follows an instruction: responds, or holds the client.
    fn follow(
        &mut self,
        exchange: &mut UpstreamExchange,
        handle: RequestId,
        instruct: Instruct,
        body: Vec<u8>,
    ) -> Step {
        let mut instruct = instruct;
        let body = instruct.answer.body.take().unwrap_or(body);
        let is_too_large = exchange.source.request.body.bytes() > INSTRUCT_BYTES_MAX as u64;
        if instruct.hold != Hold::Answered && is_too_large {
            self.clients
                .answer_text(self.worker, handle, 400, TOO_LARGE);
            return Ok(());
        }
        self.policy
            .add_cross_origin(&exchange.source, &mut instruct.answer.headers);
        // A response without a body cannot become a stream. A framework may have changed the status, for example to 304.
        // Respond without holding the client.
        if bodiless(instruct.answer.status) && instruct.hold == Hold::Stream {
            instruct.hold = Hold::Answered;
        }
        let goes_on = instruct.hold == Hold::Stream || instruct.next.is_some();
        if goes_on && instruct.hold != Hold::Response && self.clients.is_script(handle) {
            let reason = "a script cannot go on: hold it as a response";
            return Err(Stop::failed(502, reason));
        }
        let has_body = !bodiless(instruct.answer.status) && !exchange.source.request.is_head();
        match instruct.hold {
            // The response continues with the response of its link.
            Hold::Answered if instruct.next.is_some() && has_body => {
                self.holds().begin_hold(exchange, handle, instruct, &body);
                self.holds().ask_link(handle);
            }
            Hold::Answered => {
                let head = Head::from(instruct.answer);
                self.route_figures
                    .count_head_sent(self.worker, &exchange.source, &head);
                self.clients.respond(self.worker, handle, &head, &body);
            }
            Hold::Response => self.holds().begin_poll(exchange, handle, instruct, body),
            Hold::Stream => self.holds().begin_hold(exchange, handle, instruct, &body),
        }
        Ok(())
    }

    /// Handles an exchange without a response. The client receives an error unless its response has started.
    pub(super) fn fail(&mut self, exchange: &mut UpstreamExchange, status: u16, reason: &str) {
        if let Owner::Check(..) = exchange.owner {
            self.upstream.on_checked(
                self.routing.table.generation,
                self.worker,
                exchange,
                Err(reason),
            );
            return;
        }
        self.share_failure(exchange, status, reason);
        exchange.noted.outcome = Outcome::Failed;
        let request = &exchange.source.request;
        let line = format!(
            "{} {}: {status}: {reason}",
            String::from_utf8_lossy(&request.method),
            String::from_utf8_lossy(&request.target).escape_debug(),
        );
        self.worker.net.log_for_client(LogLevel::Warning, &line);
        let is_debug =
            self.policy.is_debug || exchange.source.rule().is_some_and(|rule| rule.debug);
        match exchange.owner {
            // Reported above.
            Owner::Check(..) => {}
            Owner::Link(handle) => self.holds().on_link_failed(handle, reason),
            Owner::GoneNotice(_) => self.clients.on_gone_undelivered(self.worker, reason),
            Owner::Filter(number) => self.holds().on_filter_failed(number, reason),
            Owner::Socket(handle) if exchange.is_unprocessed() => {
                self.clients
                    .on_events_failed(self.timers, self.worker, handle, reason);
            }
            // The origin may have processed the events, so do not send them again.
            Owner::Socket(handle) => self.clients.end_events(self.worker, handle, reason),
            Owner::Client(handle) if matches!(exchange.phase, Phase::Streaming { .. }) => {
                // Closing the connection shows the client that the body is incomplete.
                self.worker.drop_stream(handle);
                self.clients.forget_request(self.worker, handle);
            }
            Owner::Client(handle) => {
                let text = if is_debug && !reason.is_empty() {
                    format!("{FAILED} ({reason})")
                } else {
                    FAILED.to_owned()
                };
                self.clients.answer_text(self.worker, handle, status, &text);
            }
        }
    }

    /// Sends the error to the other clients that wait for the response.
    fn share_failure(&mut self, exchange: &mut UpstreamExchange, status: u16, reason: &str) {
        let now_ms = self.worker.net.now_ms();
        for other in self.upstream.take_sharers(exchange) {
            let Sharer {
                handle,
                source,
                since_ms,
            } = other;
            if status == TIMED_OUT && now_ms < since_ms + self.policy.limits.response_ms {
                // An earlier client caused the time-out. This client has time left, so start its request again.
                self.tasks.add(Task::Share(handle, source));
                continue;
            }
            let mut own = self.upstream.exchange_of_sharer(exchange, handle, source);
            self.fail(&mut own, status, reason);
            self.journal
                .log_exchange(self.policy, self.timers, self.worker, &mut own);
        }
    }

    /// Sends queued body bytes to the client as far as the client accepts them. After the last byte, ends the response or follows
    /// the instruction that came with it.
    pub(super) fn pass_on(&mut self, exchange: &mut UpstreamExchange) -> Step {
        let Owner::Client(handle) = exchange.owner else {
            return Err(Stop::Over);
        };
        let Phase::Streaming {
            pending,
            spool,
            wants,
            has_ended,
            then,
        } = &mut exchange.phase
        else {
            return Ok(());
        };
        if *wants
            && pending.is_empty()
            && let Some(spool) = spool
            && let Err(error) = spool.read(pending)
        {
            let reason = format!("a stored response cannot be read: {error}");
            return Err(Stop::failed(500, reason));
        }
        if !pending.is_empty() && *wants {
            match self.worker.pass_stream(handle, pending) {
                Ok(taken) if taken == pending.len() => pending.clear(),
                Ok(taken) => {
                    pending.drain(..taken);
                }
                Err(_) => return self.clients.cut_stream(self.worker, handle),
            }
            *wants = false;
        }
        if *has_ended && pending.is_empty() && spool.as_ref().is_none_or(|it| it.is_empty()) {
            match then.take() {
                Some(instruct) => {
                    let is_answered = instruct.hold == Hold::Answered;
                    self.holds().hold_passed(exchange, handle, *instruct);
                    if is_answered {
                        self.holds().ask_link(handle);
                    }
                }
                None => {
                    let trailers = std::mem::take(&mut exchange.trailers);
                    let ended = if trailers.is_empty() {
                        self.worker.end_stream(handle)
                    } else {
                        self.worker.end_stream_with(handle, trailers)
                    };
                    if ended.is_err() {
                        self.worker.drop_stream(handle);
                    }
                    self.clients.forget_request(self.worker, handle);
                }
            }
            return Err(Stop::Over);
        }
        Ok(())
    }
}

impl Clients {
    /// Sends a piece of a body from the receive buffer. Copies only the bytes that the client does not accept now.
    pub(super) fn pass_at_once(
        &mut self,
        worker: &mut Engine,
        exchange: &mut UpstreamExchange,
        piece: &[u8],
    ) -> Step {
        let Owner::Client(handle) = exchange.owner else {
            return Err(Stop::Over);
        };
        let Phase::Streaming { pending, wants, .. } = &mut exchange.phase else {
            return Ok(());
        };
        exchange.noted.bytes += piece.len() as u64;
        match worker.pass_stream(handle, piece) {
            Ok(taken) => {
                pending.extend_from_slice(&piece[taken..]);
                *wants = false;
                Ok(())
            }
            Err(_) => self.cut_stream(worker, handle),
        }
    }

    /// Closes a stream because the client has left, or the origin has sent more than its `Content-Length`.
    fn cut_stream(&mut self, worker: &mut Engine, handle: RequestId) -> Step {
        worker.drop_stream(handle);
        self.forget_request(worker, handle);
        Err(Stop::Over)
    }

    /// Returns true if the body of the response is not needed.
    fn ignores_body(&self, owner: Owner) -> bool {
        matches!(owner, Owner::Filter(number) if self.filtering.ignores_body(number))
    }

    /// Sends a complete response to a client.
    pub(super) fn respond(
        &mut self,
        worker: &mut Engine,
        handle: RequestId,
        head: &Head,
        body: &[u8],
    ) {
        if let Some(script) = self.scripts.remove(&handle) {
            let (head, body) = script.wrap(head, body);
            self.respond(worker, handle, &head, &body);
            return;
        }
        let headers = passed(&head.headers);
        let response = head.passed_on(&headers);
        // An error only means that the client has left.
        let _ = worker.respond_relayed(handle, &response, body);
        self.forget_request(worker, handle);
    }

    /// Sends a text response of the edge itself.
    pub(super) fn answer_text(
        &mut self,
        worker: &mut Engine,
        handle: RequestId,
        status: u16,
        text: &str,
    ) {
        let head = Head {
            status,
            headers: vec![(b"Content-Type".to_vec(), b"text/plain".to_vec())],
            ..Head::default()
        };
        self.respond(worker, handle, &head, format!("{text}\n").as_bytes());
    }
}
