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
use crate::upstream::forward::Forwarded;
use crate::upstream::id::UpstreamExchangeId;
use crate::upstream::response::ResponsePart;
use crate::upstream::talk::{Purpose, Step, Stop, Talk};

/// Maximum size of a request body in bytes. Body and header fields have to fit into one message.
const BODY_BYTES_MAX: u64 = 900_000;

impl Edge {
    /// Handles the backend's reply, or a missing reply.
    pub(super) fn on_zhttp_answer(
        &mut self,
        talk: UpstreamExchangeId,
        outcome: Result<Value, Unanswered>,
    ) {
        self.with_talk(talk, |turn, talk| match outcome {
            // An undelivered request may go to the next target.
            Err(it) if it.is_unheard && !talk.targets.is_empty() => {
                Err(Stop::retried(Failure::Connect, it.reason))
            }
            Err(it) => Err(Stop::retried(Failure::TimeOut, it.reason)),
            Ok(reply) => turn.on_zhttp_reply(talk, &reply),
        });
    }
}

impl Turn<'_> {
    fn on_zhttp_reply(&mut self, talk: &mut Talk, reply: &Value) -> Step {
        match read(reply) {
            Ok((head, body)) => {
                let end = ResponsePart::End { is_reusable: false };
                self.take(
                    talk,
                    vec![ResponsePart::Head(head), ResponsePart::Body(body), end],
                )
            }
            Err(error) => Err(Stop::failed(502, error)),
        }
    }
}

impl Outbound<'_> {
    /// Sends a complete request to a target with one reply.
    pub(super) fn open_zhttp(
        &mut self,
        talk: &mut Talk,
        target: &Target,
        spec: &str,
    ) -> Result<(), UpstreamError> {
        if let Purpose::Upgrade(_) = talk.purpose {
            let reason = format!("zhttpreq/{spec} speaks no WebSocket; add over_http");
            return Err(UpstreamError::Request(502, reason));
        }
        let request = Rc::clone(&talk.source.request);
        let forwarded = self.forwarded(talk, &request, target)?;
        talk.wire = None;
        talk.out.clear();
        talk.sent = 0;
        talk.file = None;
        talk.arriving = None;
        talk.waits = None;
        talk.has_response = false;
        // From here on, the backend may have received the request.
        talk.is_connected = true;
        self.ask_zhttp(talk, spec, &forwarded)
    }

    /// Queries the backend at `spec`, which is a service.
    fn ask_zhttp(
        &mut self,
        talk: &mut Talk,
        spec: &str,
        forwarded: &Forwarded,
    ) -> Result<(), UpstreamError> {
        let Some(service) = self.services.addresses.find(spec, false) else {
            return Err(UpstreamError::Target(format!(
                "zhttpreq/{spec}: it was not among the routes when the edge started; restart the edge"
            )));
        };
        let bytes = talk.source.request.body.bytes();
        if bytes > BODY_BYTES_MAX {
            return Err(UpstreamError::Request(
                413,
                format!("a body of {bytes} bytes is larger than {BODY_BYTES_MAX}"),
            ));
        }
        let body = match &talk.source.request.body {
            Body::None => Vec::new(),
            Body::Memory(body) => body.clone(),
            // Bodies for such targets are collected first.
            Body::Arriving { .. } => {
                let reason = format!("zhttpreq/{spec} takes no body that still comes");
                return Err(UpstreamError::Request(502, reason));
            }
            Body::File { path, .. } => {
                let problem = |error| UpstreamError::Local(format!("{}: {error}", path.display()));
                std::fs::read(path).map_err(problem)?
            }
        };
        let request = write(&talk.source, forwarded, body);
        let times = (
            self.policy.limits.connect_ms,
            self.policy.limits.response_ms,
        );
        // The question has its own time-out.
        talk.due_ms = u64::MAX;
        let question = Question::Request(talk.id());
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
        talk.question = Some(asked.map_err(problem)?);
        Ok(())
    }
}

/// Encodes a request without its number.
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
