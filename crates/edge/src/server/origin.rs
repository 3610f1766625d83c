//! Runs exchanges with origins: connection, request, response, and the next target after a failure.
//!
//! An exchange owns its connection until the response is complete; then the connection returns to the pool. The edge reads more
//! from the origin only when the receiver of the response accepts more: see `answer`.

use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::{RequestId, missed, unread_bytes};
use fermata_engine::{Upstream as UpstreamSpan, WireEvent};
use fermata_fastcgi::codec as fastcgi;
use fermata_fastcgi::spool::{SILENT_MS, Spool};

use crate::client::journal::Outcome;
use crate::client::source::{Engine, ExchangeKey, Owner};
use crate::routes::Origin;
use crate::server::edge::{Edge, watch_exchanges};
use crate::server::http2::REFUSALS_MAX;
use crate::server::outbound::Outbound;
use crate::server::tasks::Ask;
use crate::server::turn::Turn;
use crate::server::zhttp_stream::part_of;
use crate::timers::{Timer, Timers};
use crate::upstream::codec::Codec;
use crate::upstream::error::UpstreamError;
use crate::upstream::exchange::{Purpose, Step, Stop, UpstreamExchange};
use crate::upstream::folders::Filed;
use crate::upstream::id::UpstreamExchangeId;
use crate::upstream::link_body::PENDING_BYTES_MAX;
use crate::upstream::parts::Upstream;
use crate::upstream::reply::Phase;
use crate::upstream::response::{ResponsePart, of_fastcgi, of_http};
use crate::upstream::{Failure, Sent, may_retry, test_origin};

/// Maximum number of reads per turn from an origin whose client reads more slowly than the response arrives.
const AHEAD_READS_MAX: usize = 8;

/// Pause in milliseconds between such turns.
const AHEAD_MS: u64 = 1;

impl Edge {
    /// Starts an exchange. A health check uses only the target in its source.
    pub(super) fn ask(&mut self, ask: Ask) {
        let (exchanges, mut turn) = self.turn();
        let Some(exchange) = turn.begin(ask) else {
            return;
        };
        if exchanges.is_empty() {
            watch_exchanges(turn.timers, turn.worker.net.now_ms());
        }
        turn.upstream
            .exchange_keys
            .set(exchange.owner.key(), exchange.id());
        exchanges.keep(exchange);
    }

    /// Runs a step of an exchange, and removes the exchange if it ends.
    pub(super) fn with_exchange(
        &mut self,
        id: UpstreamExchangeId,
        run: impl FnOnce(&mut Turn<'_>, &mut UpstreamExchange) -> Step,
    ) {
        let (exchanges, mut turn) = self.turn();
        let Some(exchange) = exchanges.get_mut(id) else {
            // The exchange has ended.
            return;
        };
        let step = run(&mut turn, exchange);
        if !turn.goes_on(exchange, step) {
            let key = exchange.owner.key();
            turn.end(exchange);
            turn.upstream.exchange_keys.forget_of(key, id);
            exchanges.end(id);
        } else if exchange.phase.spool().is_some_and(Spool::holds_too_many) {
            self.bound_holding(id);
        }
    }

    /// Disconnects clients whose responses occupy PHP-FPM processes, if the clients of one address occupy more processes than
    /// allowed. Only clients that have read nothing for [`SILENT_MS`] are disconnected, the longest silent one first.
    fn bound_holding(&mut self, id: UpstreamExchangeId) {
        let Some(own) = self.exchanges.get(id).and_then(|it| it.phase.spool()) else {
            return missed(());
        };
        let beside = self.exchanges.find(|exchange| {
            exchange
                .phase
                .spool()
                .is_some_and(|spool| spool.holds_beside(own))
        });
        let now_ms = self.worker.net.now_ms();
        let mut longest: Option<(u64, UpstreamExchangeId)> = None;
        for other in beside {
            if let Some(exchange) = self.exchanges.get_mut(other)
                && let Owner::Client(handle) = exchange.owner
                && let Some(spool) = exchange.phase.spool_ahead()
            {
                spool.note_unread(now_ms, unread_bytes(&self.worker.net, handle));
                let found = spool.holding_since_ms().map(|it| (it, other));
                longest = [longest, found].into_iter().flatten().min();
            }
        }
        let Some((since_ms, longest)) = longest else {
            return;
        };
        let due_ms = since_ms + SILENT_MS;
        if now_ms < due_ms {
            if let Some(Owner::Client(handle)) = self.exchanges.get(id).map(|it| it.owner) {
                self.timers.at(due_ms, Timer::Holding(handle));
            }
            return;
        }
        let reason = format!(
            "client cut off: its address reads more than {} responses too slowly (response_waits_per_address_max), and \
            response_spool_bytes_max or response_spool_address_bytes_max has no room for them",
            self.worker.settings().response_waits_per_address_max
        );
        self.with_exchange(longest, |_, _| Err(Stop::failed(502, reason)));
        if longest != id && self.holds_too_many(id) {
            self.bound_holding(id);
        }
    }

    fn holds_too_many(&self, id: UpstreamExchangeId) -> bool {
        let spool = self.exchanges.get(id).and_then(|it| it.phase.spool());
        spool.is_some_and(Spool::holds_too_many)
    }

    /// Checks again if the clients of one address occupy more PHP-FPM processes than allowed.
    pub(super) fn on_holding(&mut self, handle: RequestId) {
        if let Some(id) = self.upstream.exchange_keys.of(ExchangeKey::Client(handle))
            && self.holds_too_many(id)
        {
            self.bound_holding(id);
        }
    }

    /// Continues to read a response ahead of its client after a pause.
    pub(super) fn on_ahead(&mut self, handle: RequestId) {
        self.with_exchange_of(handle, |turn, exchange| {
            turn.pump_ahead(exchange, AHEAD_READS_MAX)
        });
    }

    /// Runs a step of the exchange that a client waits for, if such an exchange exists.
    pub(super) fn with_exchange_of(
        &mut self,
        client: RequestId,
        run: impl FnOnce(&mut Turn<'_>, &mut UpstreamExchange) -> Step,
    ) {
        if let Some(id) = self.upstream.exchange_keys.of(ExchangeKey::Client(client)) {
            self.with_exchange(id, run);
        }
    }

    /// Ends the exchange of a client that has left, unless other clients share the exchange.
    pub(super) fn abandon(&mut self, key: ExchangeKey) {
        if let Some(id) = self.upstream.exchange_keys.forget(key)
            && !self.upstream.hand_over(&mut self.exchanges, id)
        {
            self.with_exchange(id, |_, _| Err(Stop::Over));
        }
    }

    /// Handles a client that has received all queued bytes and can receive more.
    pub(super) fn on_stream_wanted(&mut self, handle: RequestId) {
        self.with_exchange_of(handle, |turn, exchange| {
            if let Phase::Streaming { wants, spool, .. } = &mut exchange.phase {
                *wants = true;
                if let Some(spool) = spool {
                    spool.release();
                }
            }
            exchange.due_ms = turn.worker.net.now_ms() + turn.policy.limits.idle_ms;
            turn.pass_on(exchange)?;
            turn.pump(exchange)?;
            if matches!(exchange.phase, Phase::Streaming { wants: true, .. }) {
                // Watch for the client's disconnect: nothing is written to the client until the origin sends more.
                let _ = turn.worker.defer_stream(handle);
            }
            Ok(())
        });
    }

    /// Continues to forward a link's response to a slow client.
    pub(super) fn on_link_body_due(&mut self, handle: RequestId) {
        self.with_exchange_of(handle, |turn, exchange| {
            turn.holds().pass_link(exchange)?;
            turn.pump(exchange)
        });
    }

    /// Ends exchanges that timed out.
    pub(super) fn check_exchanges(&mut self, now_ms: u64) {
        let late = self.exchanges.find(|exchange| {
            let has_begun = exchange.wire.is_some()
                || exchange.waits.is_some()
                || exchange.stream.is_some()
                || exchange.http2.is_some();
            // A request that another worker holds may wait without limit. If that worker exits, the kernel closes the connection.
            let may_wait = matches!(exchange.purpose, Purpose::Worker) && exchange.is_connected;
            let is_late =
                exchange.due_ms <= now_ms && has_begun && !may_wait && exchange.phase.wants_more();
            is_late || exchange.deadline_ms <= now_ms
        });
        for id in late {
            self.with_exchange(id, |_, exchange| {
                if exchange.deadline_ms <= now_ms {
                    Err(Stop::failed(504, "it takes too long"))
                } else if exchange.is_connected {
                    Err(Stop::retried(
                        Failure::TimeOut,
                        "the origin does not answer in time",
                    ))
                } else {
                    Err(Stop::retried(Failure::Connect, "no connection in time"))
                }
            });
        }
    }
}

impl Turn<'_> {
    /// Starts an exchange. Returns `None` if the exchange has already ended.
    fn begin(&mut self, ask: Ask) -> Option<Box<UpstreamExchange>> {
        let Ask {
            owner,
            source,
            last_ids,
            purpose,
            deadline_ms,
        } = ask;
        let exchange_keys = &mut self.upstream.exchange_keys;
        let mut exchange = exchange_keys.begin(owner, source, last_ids, purpose);
        exchange.deadline_ms = deadline_ms;
        if !matches!(owner, Owner::Check(..)) {
            self.upstream
                .targets
                .choose(&mut exchange, self.worker.net.now_ms());
        }
        let client = exchange.owner.client();
        exchange.span = client.and_then(|handle| self.worker.begin_upstream(handle));
        let step = self.open(&mut exchange, true);
        let goes_on = self.goes_on(&mut exchange, step);
        if !goes_on {
            self.end(&mut exchange);
        }
        goes_on.then_some(exchange)
    }

    /// Ends an exchange and releases its connection.
    fn end(&mut self, exchange: &mut UpstreamExchange) {
        self.upstream.release_sharers(exchange, self.tasks);
        self.route_figures.count_exchange(self.worker, exchange);
        self.journal
            .log_exchange(self.policy, self.timers, self.worker, exchange);
        self.outbound().end_span(exchange);
        self.outbound().drop_wire(exchange);
        exchange.leave_target();
    }

    /// Acts on the result of a step. Each target is tried once, and a stale idle connection is replaced a few times. Returns
    /// false if the exchange ended.
    fn goes_on(&mut self, exchange: &mut UpstreamExchange, step: Step) -> bool {
        let mut step = step;
        loop {
            step = match step {
                Ok(()) => return true,
                Err(Stop::Over) => return false,
                Err(Stop::Failed(status, reason)) => {
                    self.fail(exchange, status, &reason);
                    return false;
                }
                Err(Stop::Unread(failure)) => {
                    self.clients
                        .on_body_failure(self.worker, exchange, &failure);
                    return false;
                }
                Err(Stop::Retried(failure, reason)) => self.retry(exchange, failure, reason),
            };
        }
    }

    /// Sends the request to the target on an idle or a new connection, and to the next target if that fails.
    pub(super) fn open(&mut self, exchange: &mut UpstreamExchange, may_reuse: bool) -> Step {
        // A check always opens a new connection.
        let is_check = matches!(exchange.owner, Owner::Check(..));
        let mut may_reuse = may_reuse && !is_check;
        loop {
            let table = Rc::clone(&exchange.source.table);
            let Some(rule) = table.routes.rules().get(exchange.source.rule) else {
                return missed(Err(Stop::failed(502, "the route is gone")));
            };
            let Some(target) = rule.targets.get(exchange.source.target) else {
                // No target is left.
                return self.fail_upstream(exchange);
            };
            self.upstream
                .targets
                .enter(exchange, self.worker.net.now_ms());
            exchange.carry(target);
            if target.origin == Origin::Test {
                match exchange.purpose {
                    Purpose::Upgrade(_) => return self.open_test_socket(exchange, &rule.path_beg),
                    Purpose::Events(_) => {}
                    _ => return self.ask_test(exchange, &rule.path_beg),
                }
            }
            let opened = match &target.origin {
                Origin::Files(folder) if matches!(exchange.purpose, Purpose::Plain) => {
                    let asked = self.clients.ask_folder(
                        self.policy,
                        &mut self.upstream.folders,
                        self.worker,
                        exchange,
                        rule,
                        (target, folder),
                    );
                    match asked {
                        Ok(Filed::Answered) => {
                            exchange.noted.outcome = Outcome::File;
                            return Err(Stop::Over);
                        }
                        Ok(Filed::Nothing(head, text)) if exchange.targets.is_empty() => {
                            exchange.noted.outcome = Outcome::Answered(head.status);
                            return self.clients.answer_nothing(
                                self.policy,
                                self.worker,
                                exchange,
                                head,
                                &text,
                            );
                        }
                        // The next target may have the file.
                        Ok(Filed::Nothing(..)) => {
                            self.upstream
                                .next_target(self.timers, self.worker, exchange);
                            continue;
                        }
                        Err(failure) => Err(failure),
                    }
                }
                _ => self.outbound().open_target(exchange, target, may_reuse),
            };
            match opened {
                Ok(()) => return self.pump(exchange),
                Err(failure) => {
                    if let UpstreamError::Target(reason) = &failure {
                        self.upstream
                            .targets
                            .note_failed(self.worker, exchange, reason);
                    }
                    exchange.failures.push(failure);
                    self.upstream
                        .next_target(self.timers, self.worker, exchange);
                    may_reuse = !is_check;
                }
            }
        }
    }

    /// Uses the built-in test origin's response.
    fn ask_test(&mut self, exchange: &mut UpstreamExchange, start: &str) -> Step {
        let (path, query) = test_origin::parts(&exchange.source.request.target, start);
        let (head, body) = test_origin::answer(path, query);
        let end = ResponsePart::End { is_reusable: false };
        self.take(
            exchange,
            vec![ResponsePart::Head(head), ResponsePart::Body(body), end],
        )
    }

    pub(super) fn on_wire_event(
        &mut self,
        exchange: &mut UpstreamExchange,
        event: WireEvent,
    ) -> Step {
        exchange.can_read |= event.readable || event.hangup;
        exchange.has_hung_up |= event.hangup;
        match self.outbound().on_connecting(exchange, event) {
            Ok(()) => self.pump(exchange),
            Err((failure, reason)) => Err(Stop::retried(failure, reason)),
        }
    }

    /// Sends and reads as far as possible.
    pub(super) fn pump(&mut self, exchange: &mut UpstreamExchange) -> Step {
        self.pump_ahead(exchange, 1)
    }

    /// Like [`Self::pump`]. While the client cannot receive more, at most `reads_max` reads follow each other, and the next reads
    /// follow after a pause. So one response does not delay other clients.
    fn pump_ahead(&mut self, exchange: &mut UpstreamExchange, reads_max: usize) -> Step {
        if exchange.stream.is_some() {
            return self.pump_stream(exchange);
        }
        if exchange.http2.is_some() {
            return self.outbound().flush(exchange);
        }
        if exchange.wire.is_none() || !exchange.is_connected {
            return Ok(());
        }
        self.outbound().flush(exchange)?;
        let mut reads_ahead = 0;
        while let Some(wire) = exchange.wire
            && exchange.can_read
            && exchange.phase.wants_more()
        {
            if exchange.phase.spool_ahead().is_some() {
                if reads_ahead == reads_max
                    && let Owner::Client(handle) = exchange.owner
                {
                    let due_ms = self.worker.net.now_ms() + AHEAD_MS;
                    self.timers.at(due_ms, Timer::Ahead(handle));
                    return Ok(());
                }
                reads_ahead += 1;
            }
            let mut buffer = std::mem::take(self.buffer);
            let received = self.worker.net.recv_wire(wire, &mut buffer);
            let step = match received {
                Ok(None) => {
                    exchange.can_read = false;
                    Ok(())
                }
                Ok(Some(0)) => self.on_origin_end(exchange, None),
                Ok(Some(read)) => {
                    // A short read has emptied the socket. After a hang-up, read again to detect the end of the stream.
                    exchange.can_read = read == buffer.len() || exchange.has_hung_up;
                    exchange.has_response = true;
                    // A closing WebSocket retains its deadline although the origin still sends.
                    let is_socket = matches!(exchange.phase, Phase::Socket { .. });
                    if !is_socket {
                        exchange.due_ms = self.worker.net.now_ms() + self.policy.limits.idle_ms;
                    }
                    self.on_bytes(exchange, &buffer[..read])
                }
                Err(error) => self.on_origin_end(exchange, Some(error.to_string())),
            };
            *self.buffer = buffer;
            step?;
        }
        if exchange.wire.is_some()
            && let now_ms = self.worker.net.now_ms()
            && let Some(spool) = exchange.phase.spool_ahead()
            && !spool.has_room(PENDING_BYTES_MAX)
        {
            let unread_bytes = match exchange.owner {
                Owner::Client(handle) => unread_bytes(&self.worker.net, handle),
                _ => 0,
            };
            spool.hold(now_ms, unread_bytes);
        }
        Ok(())
    }

    /// Sends and reads as far as possible on a ZHTTP session.
    fn pump_stream(&mut self, exchange: &mut UpstreamExchange) -> Step {
        self.outbound().flush(exchange)?;
        while exchange.phase.wants_more() {
            let Codec::Zhttp(codec) = &mut exchange.codec else {
                break;
            };
            let events = codec.next_events();
            if events.is_empty() {
                break;
            }
            exchange.has_response = true;
            let key = match &exchange.purpose {
                Purpose::Upgrade(key) => Some(*key),
                _ => None,
            };
            let parts = events.into_iter().map(|it| part_of(it, key)).collect();
            self.take(exchange, parts)?;
        }
        self.holds().backends().give_credit(exchange);
        self.outbound().flush(exchange)
    }

    fn on_bytes(&mut self, exchange: &mut UpstreamExchange, bytes: &[u8]) -> Step {
        if let Codec::Http(codec) = &mut exchange.codec
            && exchange.phase.passes_at_once()
            && codec.pass(bytes)
        {
            return self.clients.pass_at_once(self.worker, exchange, bytes);
        }
        let (parts, outcome) = match &mut exchange.codec {
            Codec::Http(codec) => {
                let mut events = Vec::new();
                let outcome = codec.handle(bytes, &mut events);
                let parts: Vec<ResponsePart> = events.into_iter().filter_map(of_http).collect();
                (parts, outcome.map_err(|error| error.to_string()))
            }
            Codec::FastCgi(codec) => {
                let mut parts = Vec::new();
                let mut events = Vec::new();
                let outcome = codec.handle(bytes, &mut events);
                for event in events {
                    if let fastcgi::Event::Stderr(text) = &event {
                        let text = String::from_utf8_lossy(text);
                        let line = format!("FastCGI: {}", text.trim_end().escape_debug());
                        self.worker.net.log_for_client(LogLevel::Warning, &line);
                    }
                    parts.extend(of_fastcgi(event));
                }
                (parts, outcome.map_err(|error| error.to_string()))
            }
            // Exchanges over ZHTTP and HTTP/2 have no connection of their own.
            Codec::Zhttp(_) | Codec::Http2 => (Vec::new(), Ok(())),
        };
        self.take(exchange, parts)?;
        match outcome {
            Ok(()) => Ok(()),
            // The response is complete, and its last bytes are queued for the client. An error after them only closes the
            // connection.
            Err(_) if exchange.has_ended() => {
                self.outbound().drop_wire(exchange);
                Ok(())
            }
            Err(reason) => Err(Stop::retried(Failure::Response, reason)),
        }
    }

    /// Handles the end of a connection by the origin or by an error.
    fn on_origin_end(&mut self, exchange: &mut UpstreamExchange, error: Option<String>) -> Step {
        exchange.can_read = false;
        if let Phase::Socket { .. } = exchange.phase {
            return self.clients.on_frames_end(self.worker, exchange);
        }
        let mut events = Vec::new();
        let outcome = match &mut exchange.codec {
            Codec::Http(codec) if error.is_none() => {
                codec.finish(&mut events).map_err(|error| error.to_string())
            }
            Codec::FastCgi(codec) if error.is_none() => {
                codec.finish().map_err(|error| error.to_string())
            }
            _ => Err(error.unwrap_or_default()),
        };
        let parts: Vec<ResponsePart> = events.into_iter().filter_map(of_http).collect();
        self.take(exchange, parts)?;
        match outcome {
            Ok(()) => Ok(()),
            Err(reason) if exchange.has_response => Err(Stop::retried(Failure::Response, reason)),
            Err(reason) => Err(Stop::retried(Failure::NoResponse, reason)),
        }
    }

    /// Sends the request again if that is safe.
    fn retry(&mut self, exchange: &mut UpstreamExchange, failure: Failure, reason: String) -> Step {
        match self.outbound().after_failure(exchange, failure, &reason) {
            AfterFailure::SocketEnds => self.clients.on_frames_end(self.worker, exchange),
            AfterFailure::Fails(status) => Err(Stop::Failed(status, reason)),
            AfterFailure::Open { may_reuse } => self.open(exchange, may_reuse),
        }
    }
}

/// Action for a failed exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterFailure {
    /// End the exchange's WebSocket.
    SocketEnds,
    /// Send an error with this status.
    Fails(u16),
    /// Send the request again, to the same or the next target.
    Open { may_reuse: bool },
}

impl Outbound<'_> {
    /// Closes the connection or stream of a failed exchange. Returns how to continue with the exchange.
    pub fn after_failure(
        &mut self,
        exchange: &mut UpstreamExchange,
        failure: Failure,
        reason: &str,
    ) -> AfterFailure {
        let was_on_carrier = exchange.http2.is_some();
        if failure == Failure::TimeOut
            && let Some(on) = &exchange.http2
        {
            let since_ms = self
                .worker
                .net
                .now_ms()
                .saturating_sub(self.policy.limits.response_ms);
            self.upstream.carriers.suspect(on.wire, since_ms);
        }
        if failure == Failure::NoResponse && was_on_carrier {
            exchange.refusals += 1;
        }
        let sent = Sent {
            // If an idle connection closes without a byte, the origin has almost certainly closed it before the request arrived.
            // Events of a WebSocket are sent again although the origin may have received them, because losing them is worse.
            is_idempotent: exchange.source.request.is_idempotent()
                || matches!(exchange.purpose, Purpose::Events(None)),
            is_reused: exchange.is_reused && exchange.refusals <= REFUSALS_MAX,
            is_replayable: exchange.arriving.as_ref().is_none_or(|it| !it.has_begun),
        };
        let has_tried = exchange.wire.is_some();
        self.drop_wire(exchange);
        exchange.waits = None;
        if let Phase::Socket { .. } = exchange.phase {
            return AfterFailure::SocketEnds;
        }
        // The end of an idle connection does not count against the target.
        let is_stale = failure == Failure::Unprocessed
            || (failure == Failure::NoResponse && exchange.is_reused);
        // A failed address does not count against the target either, while other addresses are left.
        let has_more = failure.is_unsent() && !exchange.addresses.is_empty();
        let is_its_fault = !is_stale && failure != Failure::Name;
        if is_its_fault && !has_more {
            self.upstream
                .targets
                .note_failed(self.worker, exchange, reason);
        }
        let origin = exchange.source.target().map(|target| &target.origin);
        if failure == Failure::Connect
            && has_tried
            && !has_more
            && let Some(Origin::Host { host, .. } | Origin::FastCgiHost { host, .. }) = origin
        {
            self.upstream.connections.note_failed_host(host);
        }
        if !may_retry(failure, sent) {
            let status = if failure == Failure::TimeOut {
                504
            } else {
                502
            };
            return AfterFailure::Fails(status);
        }
        exchange
            .failures
            .push(UpstreamError::Target(reason.to_owned()));
        if failure.is_unsent() && !has_more {
            self.upstream
                .next_target(self.timers, self.worker, exchange);
        }
        AfterFailure::Open {
            // After the loss of an HTTP/2 connection, the exchanges on it share one new connection. After the end of an idle
            // connection, the exchange opens its own.
            may_reuse: failure.is_unsent() || was_on_carrier,
        }
    }

    /// Sends queued bytes as far as the origin accepts them.
    pub(super) fn flush(&mut self, exchange: &mut UpstreamExchange) -> Step {
        if exchange.stream.is_some() {
            return self.flush_stream(exchange);
        }
        if exchange.http2.is_some() {
            return self.pump_carrier(exchange, false);
        }
        if exchange.wire.is_none() || exchange.is_sent() {
            return Ok(());
        }
        let mut has_moved = false;
        let outcome = self.send_request(exchange, &mut has_moved);
        self.give_time(exchange, has_moved);
        if outcome.is_err() {
            // The origin may have sent a response before it closed the connection: read it.
            exchange.can_read = true;
        }
        self.on_flushed(exchange)
    }

    /// Handles the first event of a connection that is being opened.
    ///
    /// # Errors
    /// The connection could not be opened.
    fn on_connecting(
        &mut self,
        exchange: &mut UpstreamExchange,
        event: WireEvent,
    ) -> Result<(), (Failure, String)> {
        if exchange.is_connected {
            return Ok(());
        }
        if event.hangup {
            return Err(self.why_unconnected(exchange));
        }
        if event.writable {
            self.on_connected(exchange);
            let table = Rc::clone(&exchange.source.table);
            let rule = table.routes.rules().get(exchange.source.rule);
            if let Some(target) = rule.and_then(|rule| rule.targets.get(exchange.source.target))
                && self
                    .upstream
                    .has_chosen_http2(self.timers, self.worker, exchange, target)
                && let Err(failure) = self.become_carrier(exchange, target)
            {
                return Err((Failure::Connect, failure.reason().to_owned()));
            }
        }
        Ok(())
    }

    /// Exports the span of an exchange that ended.
    fn end_span(&mut self, exchange: &mut UpstreamExchange) {
        let Some(span) = exchange.span.take() else {
            return;
        };
        let request = &exchange.source.request;
        let path = request.target.split(|byte| *byte == b'?').next();
        let target = exchange.source.target();
        let outcome = exchange.noted.outcome;
        let upstream = UpstreamSpan {
            method: &request.method,
            path: path.unwrap_or_default(),
            server: target.map_or(&[], |target| target.name.as_bytes()),
            status: match outcome {
                Outcome::Answered(status) => Some(status),
                Outcome::Failed | Outcome::Held | Outcome::File => None,
            },
            is_failed: outcome == Outcome::Failed,
        };
        self.worker.end_upstream(span, &upstream);
    }

    /// Returns the connection to the pool after a complete response, if it is reusable.
    pub(super) fn release_wire(&mut self, exchange: &mut UpstreamExchange, is_reusable: bool) {
        if exchange.http2.is_some() {
            self.upstream
                .leave_carrier(self.timers, self.worker, exchange);
            return;
        }
        // A FastCGI process serves one connection. An idle connection would reserve the process for this worker, while other
        // workers wait for a process.
        let is_fastcgi = matches!(exchange.codec, Codec::FastCgi(_));
        // No later request uses the routes of this exchange.
        let is_single = matches!(exchange.owner, Owner::Filter(_)) && exchange.source.is_foreign();
        if is_fastcgi || is_single || !is_reusable || exchange.has_hung_up || !exchange.is_sent() {
            self.drop_wire(exchange);
            return;
        }
        if let Some(wire) = exchange.wire.take() {
            let (connections, place) = (&mut self.upstream.connections, exchange.place());
            connections.release(self.worker, self.timers, place, wire);
        }
    }

    pub(super) fn drop_wire(&mut self, exchange: &mut UpstreamExchange) {
        if let Some(wire) = exchange.wire.take() {
            self.upstream.connections.close(self.worker, wire);
        }
        self.upstream
            .leave_carrier(self.timers, self.worker, exchange);
        self.upstream
            .end_opening(self.timers, self.worker, exchange);
        if let Some(question) = exchange.question.take() {
            self.services.forget(question);
        }
        self.drop_stream_of(exchange);
    }
}

impl Upstream {
    /// Selects the next target.
    fn next_target(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        exchange: &mut UpstreamExchange,
    ) {
        exchange.leave_target();
        self.end_opening(timers, worker, exchange);
        exchange.is_http1 = false;
        exchange.addresses.clear();
        exchange.source.target = exchange.targets.pop().unwrap_or(usize::MAX);
    }
}
