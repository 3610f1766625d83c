//! Sends requests to origins, and large bodies in pieces.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_edge_pushpin::state::id::SessionId;
use fermata_engine::SocketId;
use fermata_fastcgi::codec::Script;
use fermata_proto::response_reader::{RequestKind, ResponseReader};
use fermata_proto::traceparent::TraceParent;

use crate::client::request::ClientRequest;
use crate::client::source::Owner;
use crate::pushpin::sockjs::workers;
use crate::routes::figures::Count;
use crate::routes::{Origin, Target};
use crate::server::outbound::Outbound;
use crate::upstream::codec::Codec;
use crate::upstream::error::UpstreamError;
use crate::upstream::exchange::{Purpose, Step, Stop, UpstreamExchange};
use crate::upstream::forward::{Forwarded, Hop, trace_of};
use crate::upstream::reply::Phase;

impl Outbound<'_> {
    /// Returns the request for a target, without framing.
    pub(super) fn forwarded<'a>(
        &mut self,
        exchange: &UpstreamExchange,
        request: &'a ClientRequest,
        target: &Target,
    ) -> Result<Forwarded<'a>, UpstreamError> {
        let source = &exchange.source;
        let Some(rule) = source.table.routes.rules().get(source.rule) else {
            return Err(UpstreamError::Local("the route is gone".to_owned()));
        };
        let signature = if source.is_foreign() {
            // No signature: a foreign server could replay it to the edge's own origins.
            None
        } else {
            self.upstream.signatures.get(rule, self.worker.net.unix_s())
        };
        if let Some(problem) = self.upstream.signatures.take_problem() {
            let line = format!("route {}: {problem}", rule.label());
            self.worker.net.log(LogLevel::Warning, &line);
        }
        let traceparent = self.traceparent(exchange);
        let hop = Hop {
            rule,
            target,
            rewriting: &self.policy.rewriting,
            is_trusted: source.is_trusted,
            is_events: matches!(exchange.purpose, Purpose::Events(_)),
            is_check: matches!(exchange.owner, Owner::Check(..)),
            is_filter: matches!(exchange.owner, Owner::Filter(_)),
            has_over_http: source.table.routes.has_over_http(),
            signature: signature.as_deref(),
            session_id: source.session_id.as_ref().map(SessionId::as_str),
            traceparent: traceparent.as_deref(),
            last_ids: &exchange.last_ids,
        };
        let forwarded = Forwarded::new(request, &hop);
        let bytes = forwarded.words_bytes(&request.method);
        self.route_figures.count_of_exchange(
            self.worker,
            exchange,
            &[(Count::ServerHeadSent, bytes)],
        );
        Ok(forwarded)
    }

    /// Returns the `traceparent` that replaces the client's value: that of the edge's span, or the client's value without the
    /// sampled flag if the edge does not record the request. `None` = the client's value is forwarded unchanged.
    fn traceparent(&self, exchange: &UpstreamExchange) -> Option<String> {
        if let Some(span) = &exchange.span {
            return Some(span.traceparent());
        }
        let client = exchange.owner.client();
        let is_left_out = client.is_some_and(|handle| self.worker.is_left_out(handle));
        if !is_left_out {
            return None;
        }
        trace_of(&exchange.source.request).map(TraceParent::unsampled)
    }

    /// Encodes the request in the target's protocol.
    pub(super) fn write_request(
        &mut self,
        exchange: &mut UpstreamExchange,
        target: &Target,
    ) -> Result<(), UpstreamError> {
        let source = &exchange.source;
        if let Purpose::Worker = exchange.purpose {
            exchange.codec = Codec::Http(ResponseReader::new(RequestKind::default()));
            exchange.out.clear();
            exchange.sent = 0;
            workers::pack(&source.request, &mut exchange.out);
            return Ok(());
        }
        let request = Rc::clone(&exchange.source.request);
        let forwarded = self.forwarded(exchange, &request, target)?;
        exchange.open_body()?;
        let source = &exchange.source;
        if matches!(
            target.origin,
            Origin::FastCgiHost { .. } | Origin::FastCgiUnix(_)
        ) {
            let root = target.root.as_deref().unwrap_or_default();
            let check = source
                .rule()
                .and_then(|rule| rule.target_options.check.as_deref());
            let check = check.and_then(|path| path.split('?').next());
            let denied = &target.denied[..];
            let script = match (&target.script, exchange.owner, check) {
                // The ping path of PHP-FPM needs no script suffix.
                (_, Owner::Check(..), Some(name)) => Script::Fixed { root, name },
                (Some(name), ..) if target.is_front => Script::Front { root, name, denied },
                (Some(name), ..) => Script::Fixed { root, name },
                (None, ..) => Script::Path { root },
            };
            let server = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.policy.port);
            exchange.codec = Codec::FastCgi(Box::default());
            forwarded
                .write_fastcgi(&source.request, script, server, &mut exchange.out)
                .map_err(UpstreamError::from)
        } else {
            let key = match &exchange.purpose {
                Purpose::Upgrade(key) => Some(key),
                Purpose::Plain | Purpose::Worker | Purpose::Events(_) => None,
            };
            let is_head = source.request.is_head();
            exchange.codec = Codec::Http(ResponseReader::new(RequestKind {
                is_head,
                wants_upgrade: key.is_some(),
            }));
            match key {
                None => forwarded.write_http(&source.request, &mut exchange.out),
                Some(key) => forwarded.write_upgrade(key, !source.is_plain(), &mut exchange.out),
            }
            Ok(())
        }
    }

    /// Handles the state after queued bytes were written: an error of the client's body, or room to read from the client again.
    pub(super) fn on_flushed(&mut self, exchange: &mut UpstreamExchange) -> Step {
        if let Some(arriving) = &mut exchange.arriving
            && let Some(failure) = arriving.failure.take()
        {
            return Err(Stop::Unread(failure));
        }
        if exchange.has_deferred && exchange.is_sent() {
            exchange.has_deferred = false;
            if let Some(handle) = exchange.owner.client() {
                self.worker.net.resume_socket(SocketId::of(handle));
            }
        }
        Ok(())
    }

    /// Restarts the response time-out whenever the origin accepts bytes of the request.
    pub(super) fn give_time(&mut self, exchange: &mut UpstreamExchange, has_moved: bool) {
        let is_asked = !exchange.has_response && !matches!(exchange.phase, Phase::Socket { .. });
        // The time-out is off while the edge waits for body bytes of the client.
        if is_asked && (has_moved || exchange.due_ms == u64::MAX) {
            exchange.due_ms = if exchange.is_sent() || exchange.queued() > 0 {
                self.worker.net.now_ms() + self.policy.limits.response_ms
            } else {
                // The engine has time-outs for arriving bodies.
                u64::MAX
            };
        }
    }

    /// Writes the queued request and its body until the socket accepts no more, or no body bytes are available.
    pub(super) fn send_request(
        &mut self,
        exchange: &mut UpstreamExchange,
        has_moved: &mut bool,
    ) -> std::io::Result<()> {
        let Some(wire) = exchange.wire else {
            return Ok(());
        };
        let mut turn_bytes = 0;
        loop {
            while exchange.sent < exchange.out.len() {
                match self
                    .worker
                    .net
                    .send_wire(wire, &exchange.out[exchange.sent..])?
                {
                    Some(sent) => {
                        *has_moved |= sent > 0;
                        exchange.sent += sent;
                    }
                    None => return Ok(()),
                }
            }
            if !exchange.refill(self.timers, self.worker, &mut turn_bytes)? {
                return Ok(());
            }
        }
    }
}
