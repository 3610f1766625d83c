//! Commands of the ZeroMQ REP socket: `{id, method, args}` and `{id, success, value or condition}`.

use crate::item::{Item, parse_list};
use crate::packet::{self, Notation};
use crate::tnetstring;
use crate::value::{Value, map};

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Asks which of the given connections exist.
    ConnectionCheck(Vec<Vec<u8>>),
    /// Returns the addresses for publishers.
    ZmqUris,
    /// Drops the last ids of channels and lets every reliable session catch up.
    Recover,
    /// Asks the edge to poll the origin of one WebSocket over HTTP.
    RefreshConnection(Vec<u8>),
    /// Polls the origins of all subscribers of a channel.
    RefreshChannel(Vec<u8>),
    /// Publishes items.
    Publish(Vec<Item>),
}

/// Reason why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The arguments are invalid.
    BadRequest,
    /// The method does not exist.
    MethodNotFound,
    /// The connection does not exist.
    ItemNotFound,
    /// A request to an origin failed.
    ProxyRequestFailed,
}

impl Condition {
    /// Returns the name of the condition on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::MethodNotFound => "method-not-found",
            Self::ItemNotFound => "item-not-found",
            Self::ProxyRequestFailed => "proxy-request-failed",
        }
    }
}

/// A request: the command, and the data that the reply needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The command, or the reason why it is refused.
    pub command: Result<Command, Condition>,
    id: Option<Vec<u8>>,
    notation: Notation,
    has_letter: bool,
}

impl Request {
    /// Parses the payload of one message. `None`: the payload is not a request, so no reply is
    /// possible.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let (value, notation) = packet::decode(payload).ok()?;
        let id = value.get("id").and_then(Value::bytes).map(<[u8]>::to_vec);
        let method = value.get("method")?.bytes()?;
        Some(Self {
            command: command(method, value.get("args"), notation),
            id,
            notation,
            has_letter: payload.first().is_some_and(u8::is_ascii_alphabetic),
        })
    }

    /// Encodes the reply's payload, in the notation of the request.
    pub fn reply(&self, outcome: Result<Value, Condition>) -> Vec<u8> {
        let mut entries = Vec::new();
        if let Some(id) = &self.id {
            entries.push((b"id".to_vec(), Value::Bytes(id.clone())));
        }
        entries.push((b"success".to_vec(), Value::Bool(outcome.is_ok())));
        entries.push(match outcome {
            Ok(value) => (b"value".to_vec(), value),
            Err(condition) => (b"condition".to_vec(), condition.name().into()),
        });
        let mut payload = Vec::new();
        if self.has_letter {
            packet::encode(&mut payload, &Value::Map(entries), self.notation)
        } else {
            tnetstring::encode(&mut payload, &Value::Map(entries))
        }
        payload
    }
}

/// Returns the value of a reply to [`Command::ZmqUris`].
pub fn zmq_uris(command: &str, pull: Option<&str>, sub: Option<&str>) -> Value {
    let mut entries = vec![("command", command)];
    entries.extend(pull.map(|uri| ("publish-pull", uri)));
    entries.extend(sub.map(|uri| ("publish-sub", uri)));
    let entries = entries
        .into_iter()
        .map(|(name, uri)| (name.into(), uri.into()));
    Value::Map(entries.collect())
}

/// Encodes a request's payload, for clients.
pub fn request(id: &str, method: &str, args: Value) -> Vec<u8> {
    let mut payload = Vec::new();
    let value = map([("id", id.into()), ("method", method.into()), ("args", args)]);
    tnetstring::encode(&mut payload, &value);
    payload
}

fn command(method: &[u8], args: Option<&Value>, notation: Notation) -> Result<Command, Condition> {
    let text = |name| args.and_then(|args| args.get(name)).and_then(Value::bytes);
    match method {
        b"conncheck" => match args.and_then(|args| args.get("ids")) {
            Some(Value::List(ids)) => ids
                .iter()
                .map(|id| id.bytes().map(<[u8]>::to_vec))
                .collect::<Option<_>>()
                .map(Command::ConnectionCheck)
                .ok_or(Condition::BadRequest),
            _ => Err(Condition::BadRequest),
        },
        b"get-zmq-uris" => Ok(Command::ZmqUris),
        b"recover" => Ok(Command::Recover),
        b"refresh" => match (text("cid"), text("channel")) {
            (Some(id), _) => Ok(Command::RefreshConnection(id.to_vec())),
            (None, Some(channel)) => Ok(Command::RefreshChannel(channel.to_vec())),
            (None, None) => Err(Condition::BadRequest),
        },
        b"publish" => args
            .and_then(|args| parse_list(args, notation).ok())
            .map(Command::Publish)
            .ok_or(Condition::BadRequest),
        _ => Err(Condition::MethodNotFound),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, args: Value) -> Result<Command, Condition> {
        Request::read(&request("1", method, args))
            .expect("own request")
            .command
    }

    #[test]
    fn parses_the_arguments_of_every_method() {
        let ids = map([("ids", Value::List(vec!["a".into(), "b".into()]))]);
        let item = map([
            ("channel", "c".into()),
            ("http-stream", map([("content", "x".into())])),
        ]);
        for (method, args, expected) in [
            (
                "conncheck",
                ids,
                Ok(Command::ConnectionCheck(vec![b"a".to_vec(), b"b".to_vec()])),
            ),
            ("conncheck", map([]), Err(Condition::BadRequest)),
            ("get-zmq-uris", map([]), Ok(Command::ZmqUris)),
            ("recover", map([]), Ok(Command::Recover)),
            (
                "refresh",
                map([("cid", "a".into())]),
                Ok(Command::RefreshConnection(b"a".to_vec())),
            ),
            (
                "refresh",
                map([("channel", "a".into())]),
                Ok(Command::RefreshChannel(b"a".to_vec())),
            ),
            ("refresh", map([]), Err(Condition::BadRequest)),
            (
                "publish",
                map([("items", Value::List(vec![Value::Null]))]),
                Err(Condition::BadRequest),
            ),
            ("reboot", map([]), Err(Condition::MethodNotFound)),
        ] {
            assert_eq!(read(method, args), expected, "{method}");
        }
        let published = read("publish", map([("items", Value::List(vec![item]))]));
        assert!(matches!(published, Ok(Command::Publish(items)) if items[0].channel == b"c"));
    }

    #[test]
    fn reply_uses_the_notation_of_its_request() {
        for payload in [
            &b"J{\"id\":\"7\",\"method\":\"recover\"}"[..],
            b"T28:2:id,1:7,6:method,7:recover,}",
            b"28:2:id,1:7,6:method,7:recover,}",
        ] {
            let request = Request::read(payload).expect("a request");
            let reply = request.reply(Err(Condition::ItemNotFound));
            assert_eq!(reply[0].is_ascii_digit(), payload[0].is_ascii_digit());
            assert_eq!(reply[0] == b'J', payload[0] == b'J');
            let (value, _) = packet::decode(&reply).expect("own reply");
            assert_eq!(value.get("id"), Some(&"7".into()));
            assert_eq!(value.get("success"), Some(&Value::Bool(false)));
            assert_eq!(value.get("condition"), Some(&"item-not-found".into()));
        }
        for no_request in [&b""[..], b"x", b"0:}", b"J{\"method\":1}", b"0:~"] {
            assert_eq!(Request::read(no_request), None);
        }
    }
}
