//! Targets `zhttpreq/…`: backends that receive requests as ZeroMQ messages with one reply each (ZHTTP, rfc.zeromq.org/spec/33).

use std::rc::Rc;

use fermata_grip::packet;
use fermata_grip::packet::Notation;
use fermata_grip::value::Value;

use crate::client::request::Body;
use crate::client::source::Source;
use crate::pushpin::services::{Question, Unanswered};
use crate::pushpin::zhttp::{headers, peer_address, read};
use crate::routes::Target;
use crate::server::edge::Edge;
use crate::server::outbound::Outbound;
use crate::server::turn::Turn;
use crate::upstream::Failure;
use crate::upstream::error::UpstreamError;
use crate::upstream::exchange::{Purpose, Step, Stop, UpstreamExchange};
use crate::upstream::forward::Forwarded;
use crate::upstream::id::UpstreamExchangeId;
use crate::upstream::response::ResponsePart;

/// Maximum size of a request body in bytes. Body and header fields have to fit into one message.
const BODY_BYTES_MAX: u64 = 900_000;

impl Edge {
    /// Handles the backend's reply, or a missing reply.
    pub(super) fn on_zhttp_answer(
        &mut self,
        exchange: UpstreamExchangeId,
        outcome: Result<Value, Unanswered>,
    ) {
        self.with_exchange(exchange, |turn, exchange| match outcome {
            // An undelivered request may go to the next target.
            Err(it) if it.is_unsent && !exchange.targets.is_empty() => {
                Err(Stop::retried(Failure::Connect, it.reason))
            }
            Err(it) => Err(Stop::retried(Failure::TimeOut, it.reason)),
            Ok(reply) => turn.on_zhttp_reply(exchange, &reply),
        });
    }
}

impl Turn<'_> {
    fn on_zhttp_reply(&mut self, exchange: &mut UpstreamExchange, reply: &Value) -> Step {
        match read(reply) {
            Ok((head, body)) => {
                let end = ResponsePart::End { is_reusable: false };
                self.take(
                    exchange,
                    vec![ResponsePart::Head(head), ResponsePart::Body(body), end],
                )
            }
            Err(error) => Err(Stop::failed(502, error)),
        }
    }
}

impl Outbound<'_> {
    /// Sends a complete request to a target that sends one reply.
    pub(super) fn open_zhttp(
        &mut self,
        exchange: &mut UpstreamExchange,
        target: &Target,
        spec: &str,
    ) -> Result<(), UpstreamError> {
        if let Purpose::Upgrade(_) = exchange.purpose {
            let reason = format!("zhttpreq/{spec} does not support WebSocket; add over_http");
            return Err(UpstreamError::Request(502, reason));
        }
        let request = Rc::clone(&exchange.source.request);
        let forwarded = self.forwarded(exchange, &request, target)?;
        exchange.wire = None;
        exchange.out.clear();
        exchange.sent = 0;
        exchange.file = None;
        exchange.arriving = None;
        exchange.waits = None;
        exchange.has_response = false;
        // From here on, the backend may have received the request.
        exchange.is_connected = true;
        self.ask_zhttp(exchange, spec, &forwarded)
    }

    /// Sends a request to the backend at the ZeroMQ address `spec`.
    fn ask_zhttp(
        &mut self,
        exchange: &mut UpstreamExchange,
        spec: &str,
        forwarded: &Forwarded,
    ) -> Result<(), UpstreamError> {
        let Some(service) = self.services.addresses.find(spec, false) else {
            return Err(UpstreamError::Target(format!(
                "zhttpreq/{spec}: it was not among the routes when the edge started; restart the edge"
            )));
        };
        let bytes = exchange.source.request.body.bytes();
        if bytes > BODY_BYTES_MAX {
            return Err(UpstreamError::Request(
                413,
                format!("a body of {bytes} bytes is larger than {BODY_BYTES_MAX}"),
            ));
        }
        let body = match &exchange.source.request.body {
            Body::None => Vec::new(),
            Body::Memory(body) => body.clone(),
            // Cannot happen: the edge collects a body for such a target before it sends the request.
            Body::Arriving { .. } => {
                let reason = format!("zhttpreq/{spec} takes no body that still comes");
                return Err(UpstreamError::Request(502, reason));
            }
            Body::File { path, .. } => {
                let problem = |error| UpstreamError::Local(format!("{}: {error}", path.display()));
                std::fs::read(path).map_err(problem)?
            }
        };
        let request = write(&exchange.source, forwarded, body);
        let times = (
            self.policy.limits.connect_ms,
            self.policy.limits.response_ms,
        );
        // `Services` times the request out, so the exchange needs no deadline.
        exchange.due_ms = u64::MAX;
        let question = Question::Request(exchange.id());
        let asked = self.backends().ask(service, times, question, |id| {
            let mut entries = vec![(b"id".to_vec(), Value::from(id))];
            entries.extend(request);
            let mut payload = Vec::new();
            packet::encode(&mut payload, &Value::Map(entries), Notation::Tnetstring);
            payload
        });
        let problem = |_| {
            UpstreamError::Local(format!(
                "zhttpreq/{spec}: too many requests wait for answers"
            ))
        };
        exchange.question = Some(asked.map_err(problem)?);
        Ok(())
    }
}

/// Returns the entries of a request. The caller adds the entry `id`.
fn write(source: &Source, forwarded: &Forwarded, body: Vec<u8>) -> Vec<(Vec<u8>, Value)> {
    let request = &source.request;
    let scheme: &[u8] = if request.is_tls {
        b"https://"
    } else {
        b"http://"
    };
    let uri = [scheme, &forwarded.host, &forwarded.target].concat();
    let mut entries = vec![
        (b"method".to_vec(), Value::Bytes(request.method.clone())),
        (b"uri".to_vec(), Value::Bytes(uri)),
        (b"headers".to_vec(), headers(forwarded, &[])),
        (b"body".to_vec(), Value::Bytes(body)),
    ];
    entries.extend(peer_address(source));
    entries
}
