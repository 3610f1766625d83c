//! Targets `zhttpreq/…`: backends that get requests as ZeroMQ messages (ZHTTP, rfc.zeromq.org 33), one reply for each.

use fermata_grip::packet::{self, Notation};
use fermata_grip::spelling::same;
use fermata_grip::value::Value;

use super::edge::{Edge, Source};
use super::forward::Forwarded;
use super::origin::{Purpose, Step, Talk};
use super::request::Body;
use super::response::{Head, Said};
use super::services::{Question, Unanswered};
use super::unopened::Unopened;
use crate::routes::Target;
use crate::upstream::Failure;
use crate::zhttp::packet::{Response, bytes, response};

/// The largest body of a request; with its headers it has to fit into one message.
const BODY_BYTES_MAX: u64 = 900_000;

impl Edge {
    /// Asks a target that gets whole requests and gives whole responses.
    pub(super) fn open_zhttp(
        &mut self,
        talk: &mut Talk,
        target: &Target,
        spec: &str,
    ) -> Result<(), Unopened> {
        if let Purpose::Upgrade(_) = talk.purpose {
            let reason = format!("zhttpreq/{spec} speaks no WebSocket; add over_http");
            return Err(Unopened::Request(502, reason));
        }
        let forwarded = self.forwarded(talk, target)?;
        talk.wire = 0;
        talk.out.clear();
        talk.sent = 0;
        talk.file = None;
        talk.arriving = None;
        talk.waits = None;
        talk.has_response = false;
        // What is sent there may have been heard.
        talk.is_connected = true;
        self.ask_zhttp(talk, spec, &forwarded)
    }

    /// Asks the backend at `spec`, which is a service. `Err`: why it cannot be asked.
    fn ask_zhttp(
        &mut self,
        talk: &mut Talk,
        spec: &str,
        forwarded: &Forwarded,
    ) -> Result<(), Unopened> {
        let Some(service) = self.services.addresses.find(spec, false) else {
            return Err(Unopened::Target(format!(
                "zhttpreq/{spec}: it was not among the routes when the edge started; start it anew"
            )));
        };
        let question = Question::Request(talk.id());
        if !self.services.may_ask(service, &question) {
            // It would be answered before anybody waits.
            return Err(Unopened::Own(format!(
                "zhttpreq/{spec}: too many requests wait for answers"
            )));
        }
        let bytes = talk.source.request.body.bytes();
        if bytes > BODY_BYTES_MAX {
            return Err(Unopened::Request(
                413,
                format!("a body of {bytes} bytes is larger than {BODY_BYTES_MAX}"),
            ));
        }
        let body = match &talk.source.request.body {
            Body::None => Vec::new(),
            Body::Memory(body) => body.clone(),
            // Routes with such targets get bodies whole.
            Body::Arriving { .. } => {
                let reason = format!("zhttpreq/{spec} takes no body that still comes");
                return Err(Unopened::Request(502, reason));
            }
            Body::File { path, .. } => {
                let problem = |error| Unopened::Own(format!("{}: {error}", path.display()));
                std::fs::read(path).map_err(problem)?
            }
        };
        let request = write(&talk.source, forwarded, body);
        let times = (self.limits.connect_ms, self.limits.response_ms);
        // It has its time as a question.
        talk.due_ms = u64::MAX;
        talk.question = self.ask_service(service, times, question, |id| {
            let mut entries = vec![(b"id".to_vec(), Value::from(id))];
            entries.extend(request);
            let mut payload = Vec::new();
            packet::encode(&mut payload, &Value::Map(entries), Notation::Tnetstring);
            payload
        });
        Ok(())
    }

    /// The backend has answered, or not.
    pub(super) fn on_zhttp_answer(&mut self, talk: u64, outcome: Result<Value, Unanswered>) {
        self.with_talk(talk, |edge, talk| match outcome {
            // What nobody has heard may be asked of the next one.
            Err(it) if it.is_unheard && !talk.targets.is_empty() => {
                edge.retry(talk, Failure::Connect, &it.reason)
            }
            Err(it) => edge.retry(talk, Failure::TimeOut, &it.reason),
            Ok(reply) => edge.on_zhttp_reply(talk, &reply),
        });
    }

    fn on_zhttp_reply(&mut self, talk: &mut Talk, reply: &Value) -> Step {
        match read(reply) {
            Ok((head, body)) => {
                let end = Said::End { is_reusable: false };
                self.take(talk, vec![Said::Head(head), Said::Body(body), end])
            }
            Err(reason) => self.fail(talk, 502, &reason),
        }
    }
}

/// What a request is, but for its number.
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

/// Headers as packets have them, with the host and without these.
pub(super) fn headers(forwarded: &Forwarded, without: &[&[u8]]) -> Value {
    let pair = |(name, value): (&[u8], &[u8])| {
        Value::List(vec![
            Value::Bytes(name.to_vec()),
            Value::Bytes(value.to_vec()),
        ])
    };
    let all = forwarded.headers.iter();
    let all = all.map(|(name, value)| (&name[..], &value[..]));
    let kept = all.filter(|(name, _)| !without.iter().any(|it| same(name, it)));
    let host = (&b"Host"[..], &forwarded.host[..]);
    Value::List([host].into_iter().chain(kept).map(pair).collect())
}

/// Who has asked.
pub(super) fn peer_address(source: &Source) -> Option<(Vec<u8>, Value)> {
    let peer = source.request.peer.ip()?;
    let address = Value::Bytes(peer.to_string().into_bytes());
    Some((b"peer-address".to_vec(), address))
}

/// A response. `Err`: what the backend says instead, or that it makes no sense.
fn read(reply: &Value) -> Result<(Head, Vec<u8>), String> {
    let text = |name| reply.get(name).and_then(Value::bytes);
    if text("type").is_some_and(|kind| kind != b"data") {
        let condition = text("condition").unwrap_or(b"generic");
        return Err(format!("the backend answers: {}", condition.escape_ascii()));
    }
    let head = Head::of_packet(response(reply)?);
    match head.status {
        101 => Err("the backend answers a request as a WebSocket".to_owned()),
        _ => Ok((head, bytes(reply, "body").to_vec())),
    }
}

impl Head {
    /// What a packet says of a response.
    pub fn of_packet(response: Response) -> Self {
        Self {
            status: response.status,
            reason: response.reason,
            headers: response.headers,
            length: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use fermata_grip::value::map;

    use super::*;

    #[test]
    fn what_is_no_response_is_told() {
        let reply = map([
            ("id", "1".into()),
            ("code", Value::Integer(201)),
            ("body", "text".into()),
        ]);
        let (head, body) = read(&reply).expect("a response");
        assert_eq!((head.status, &body[..]), (201, &b"text"[..]));
        for reply in [
            map([]),
            map([("code", Value::Integer(101))]),
            map([
                ("type", "error".into()),
                ("condition", "bad-request".into()),
            ]),
        ] {
            assert!(read(&reply).is_err(), "{reply:?}");
        }
    }
}
