//! ZHTTP requests and replies.

use fermata_edge_pushpin::zhttp::packet::{Response, ResponseError, bytes, response};
use fermata_grip::spelling::same;
use fermata_grip::value::Value;

use crate::client::source::Source;
use crate::upstream::forward::Forwarded;
use crate::upstream::response::Head;

/// Encodes header fields for a packet, with the host, and without the fields in `without`.
pub(crate) fn headers(forwarded: &Forwarded, without: &[&[u8]]) -> Value {
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

/// Returns the entry with the client's address.
pub(crate) fn peer_address(source: &Source) -> Option<(Vec<u8>, Value)> {
    let peer = source.request.peer.ip()?;
    let address = Value::Bytes(peer.to_string().into_bytes());
    Some((b"peer-address".to_vec(), address))
}

/// Reason why a reply contains no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoResponse {
    /// The reply is an error condition.
    #[error("the backend answers: {0}")]
    Condition(String),
    /// The reply is malformed.
    #[error(transparent)]
    Malformed(#[from] ResponseError),
    /// A WebSocket reply to an ordinary request.
    #[error("the backend answers a request as a WebSocket")]
    WebSocket,
}

/// Decodes a response.
pub(crate) fn read(reply: &Value) -> Result<(Head, Vec<u8>), NoResponse> {
    let text = |name| reply.get(name).and_then(Value::bytes);
    if text("type").is_some_and(|kind| kind != b"data") {
        let condition = text("condition").unwrap_or(b"generic");
        return Err(NoResponse::Condition(condition.escape_ascii().to_string()));
    }
    let head = Head::of_packet(response(reply)?);
    match head.status {
        101 => Err(NoResponse::WebSocket),
        _ => Ok((head, bytes(reply, "body").to_vec())),
    }
}

impl Head {
    /// Converts the response head of a packet.
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
    fn reports_replies_that_are_no_response() {
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
