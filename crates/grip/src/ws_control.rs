//! The GRIP extension of WebSockets. A prefix distinguishes control messages of the origin from data messages.

use crate::encoding;
use crate::filter::FILTERS_MAX;
use crate::instruct::{KeepAliveMode, TIMEOUT_DEFAULT_S};
use crate::item::MessageKind;
use crate::params::{self, list};
use crate::value::Value;

/// Prefix of control messages.
pub const CONTROL_PREFIX: &[u8] = b"c:";
/// Default prefix of messages for the client.
pub const MESSAGE_PREFIX_DEFAULT: &[u8] = b"m:";
/// Header and value that offer the extension.
pub const OFFER: (&str, &str) = ("Sec-WebSocket-Extensions", "grip");

/// Default delay of a delayed message, in seconds.
const DELAY_DEFAULT_S: u32 = 1;

/// Returns the prefix of messages, if the origin's response accepts the extension.
pub fn accepted_prefix(headers: &[(&[u8], &[u8])]) -> Option<Vec<u8>> {
    let element = list(headers, OFFER.0)
        .filter_map(params::element)
        .find(|element| element.first.eq_ignore_ascii_case(OFFER.1.as_bytes()))?;
    let prefix = element
        .param("message-prefix")
        .unwrap_or(MESSAGE_PREFIX_DEFAULT);
    Some(prefix.to_vec())
}

/// Kind of a data message from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A control message for the edge, as JSON.
    Control(&'a [u8]),
    /// A data message for the client.
    Message(&'a [u8]),
    /// A message without the required prefix. It is dropped and counted.
    Unprefixed,
}

/// Returns the kind of a message. Only a text message can be a control message.
pub fn kind<'a>(message: &'a [u8], is_text: bool, prefix: &[u8]) -> Kind<'a> {
    match message.strip_prefix(CONTROL_PREFIX) {
        Some(control) if is_text => Kind::Control(control),
        _ => message
            .strip_prefix(prefix)
            .map_or(Kind::Unprefixed, Kind::Message),
    }
}

/// A message that the edge sends after a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Its type.
    pub kind: MessageKind,
    /// Its content.
    pub content: Vec<u8>,
    /// The time in seconds.
    pub timeout_s: u32,
    /// Event from which the time of a keep-alive counts. Not used for delayed messages.
    pub mode: KeepAliveMode,
}

/// A control message of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Subscribes the connection.
    Subscribe {
        /// The channel, without prefix.
        channel: Vec<u8>,
        /// Names of filters.
        filters: Vec<Vec<u8>>,
    },
    /// Ends a subscription.
    Unsubscribe {
        /// The channel.
        channel: Vec<u8>,
    },
    /// Disconnects the origin. The client stays connected.
    Detach,
    /// Sets the session of the connection. `None`: ends the session.
    Session(Option<Vec<u8>>),
    /// Sets metadata for filters. Without a value, removes the metadata.
    SetMeta {
        /// Name.
        name: Vec<u8>,
        /// Value.
        value: Option<Vec<u8>>,
    },
    /// Sets the message that is sent in idle times. `None`: no message is sent.
    KeepAlive(Option<Timed>),
    /// Sends a message after a time. If another message is already waiting, that message is sent immediately.
    SendDelayed(Timed),
    /// Sends the delayed message immediately.
    FlushDelayed,
}

/// Reason why a control message is ignored and counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Not a JSON object.
    #[error("a control message is not a JSON object")]
    Json,
    /// The control message has an unknown type.
    #[error("a control message has no known type")]
    Type,
    /// A field is missing or invalid.
    #[error("a control message has a missing or wrong {0}")]
    Field(&'static str),
    /// More than [`FILTERS_MAX`]: the WebSocket is closed with 1011.
    #[error("a subscription has more than {FILTERS_MAX} filters; leave some out")]
    FiltersTooMany,
}

type Read<T> = Result<T, ControlError>;

/// Parses a control message, given without its prefix.
///
/// # Errors
/// The control message is invalid.
pub fn read(json: &[u8]) -> Read<Control> {
    let json: serde_json::Value = serde_json::from_slice(json).map_err(|_| ControlError::Json)?;
    let value = Value::from(json);
    if !matches!(value, Value::Map(_)) {
        return Err(ControlError::Json);
    }
    match text(&value, "type")? {
        Some(b"subscribe") => Ok(Control::Subscribe {
            channel: needed(&value, "channel")?,
            filters: filters(&value)?,
        }),
        Some(b"unsubscribe") => Ok(Control::Unsubscribe {
            channel: needed(&value, "channel")?,
        }),
        Some(b"detach") => Ok(Control::Detach),
        Some(b"session") => Ok(Control::Session(text(&value, "id")?.map(<[u8]>::to_vec))),
        Some(b"set-meta") => Ok(Control::SetMeta {
            name: needed(&value, "name")?,
            value: text(&value, "value")?.map(<[u8]>::to_vec),
        }),
        Some(b"keep-alive") => Ok(Control::KeepAlive(timed(&value, TIMEOUT_DEFAULT_S)?)),
        Some(b"send-delayed") => timed(&value, DELAY_DEFAULT_S)?
            .map(Control::SendDelayed)
            .ok_or(ControlError::Field("content")),
        Some(b"flush-delayed") => Ok(Control::FlushDelayed),
        _ => Err(ControlError::Type),
    }
}

fn filters(value: &Value) -> Read<Vec<Vec<u8>>> {
    let filters: Vec<_> = match value.get("filters") {
        None => Vec::new(),
        Some(Value::List(names)) => names
            .iter()
            .map(|name| name.bytes().map(<[u8]>::to_vec))
            .collect::<Option<_>>()
            .ok_or(ControlError::Field("filters"))?,
        Some(_) => return Err(ControlError::Field("filters")),
    };
    match filters.len() {
        ..=FILTERS_MAX => Ok(filters),
        _ => Err(ControlError::FiltersTooMany),
    }
}

fn timed(value: &Value, timeout_default_s: u32) -> Read<Option<Timed>> {
    let kind = match text(value, "message-type")? {
        None => None,
        Some(name) => {
            Some(MessageKind::from_name(name).ok_or(ControlError::Field("message-type"))?)
        }
    };
    let (content, kind_default) = match text(value, "content-bin")? {
        Some(text) => (
            encoding::base64(text).ok_or(ControlError::Field("content-bin"))?,
            MessageKind::Binary,
        ),
        None => match text(value, "content")? {
            Some(content) => (content.to_vec(), MessageKind::Text),
            None => return Ok(None),
        },
    };
    let timeout_s = match value.get("timeout") {
        None => timeout_default_s,
        Some(value) => value
            .integer()
            .and_then(|seconds| u32::try_from(seconds).ok())
            .filter(|seconds| (1..=i32::MAX as u32).contains(seconds))
            .ok_or(ControlError::Field("timeout"))?,
    };
    let mode = match text(value, "mode")? {
        None => KeepAliveMode::Idle,
        Some(name) => KeepAliveMode::from_name(name).ok_or(ControlError::Field("mode"))?,
    };
    Ok(Some(Timed {
        kind: kind.unwrap_or(kind_default),
        content,
        timeout_s,
        mode,
    }))
}

fn needed(value: &Value, name: &'static str) -> Read<Vec<u8>> {
    text(value, name)?
        .filter(|text| !text.is_empty())
        .map(<[u8]>::to_vec)
        .ok_or(ControlError::Field(name))
}

fn text<'a>(value: &'a Value, name: &'static str) -> Read<Option<&'a [u8]>> {
    match value.get(name) {
        None => Ok(None),
        Some(Value::Bytes(text)) => Ok(Some(text)),
        Some(_) => Err(ControlError::Field(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_is_accepted_with_or_without_prefix() {
        for (value, expected) in [
            ("grip", Some("m:")),
            ("grip; message-prefix=\"\"", Some("")),
            ("permessage-deflate, GRIP; message-prefix=x", Some("x")),
            ("permessage-deflate", None),
            ("", None),
        ] {
            let headers = [(&b"sec-websocket-extensions"[..], value.as_bytes())];
            assert_eq!(
                accepted_prefix(&headers).as_deref(),
                expected.map(str::as_bytes),
                "{value}"
            );
        }
    }

    #[test]
    fn control_messages_are_text_with_a_prefix() {
        assert_eq!(kind(b"c:{}", true, b"m:"), Kind::Control(b"{}"));
        assert_eq!(kind(b"c:{}", false, b"m:"), Kind::Unprefixed);
        assert_eq!(kind(b"m:hello", true, b"m:"), Kind::Message(b"hello"));
        assert_eq!(kind(b"hello", true, b"m:"), Kind::Unprefixed);
        assert_eq!(kind(b"hello", true, b""), Kind::Message(b"hello"));
        assert_eq!(kind(b"c:{}", false, b""), Kind::Message(b"c:{}"));
    }

    #[test]
    fn parses_every_type() {
        let timed = |kind, content: &[u8], timeout_s, mode| Timed {
            kind,
            content: content.to_vec(),
            timeout_s,
            mode,
        };
        for (json, expected) in [
            (
                r#"{"type":"subscribe","channel":"a","filters":["skip-self"]}"#,
                Control::Subscribe {
                    channel: b"a".to_vec(),
                    filters: vec![b"skip-self".to_vec()],
                },
            ),
            (
                r#"{"type":"unsubscribe","channel":"a"}"#,
                Control::Unsubscribe {
                    channel: b"a".to_vec(),
                },
            ),
            (r#"{"type":"detach"}"#, Control::Detach),
            (
                r#"{"type":"session","id":"s"}"#,
                Control::Session(Some(b"s".to_vec())),
            ),
            (r#"{"type":"session"}"#, Control::Session(None)),
            (
                r#"{"type":"set-meta","name":"a","value":"b"}"#,
                Control::SetMeta {
                    name: b"a".to_vec(),
                    value: Some(b"b".to_vec()),
                },
            ),
            (
                r#"{"type":"set-meta","name":"a"}"#,
                Control::SetMeta {
                    name: b"a".to_vec(),
                    value: None,
                },
            ),
            (r#"{"type":"keep-alive"}"#, Control::KeepAlive(None)),
            (
                r#"{"type":"keep-alive","content":"x","mode":"interval"}"#,
                Control::KeepAlive(Some(timed(
                    MessageKind::Text,
                    b"x",
                    55,
                    KeepAliveMode::Interval,
                ))),
            ),
            (
                r#"{"type":"keep-alive","content-bin":"AA==","timeout":20}"#,
                Control::KeepAlive(Some(timed(
                    MessageKind::Binary,
                    b"\0",
                    20,
                    KeepAliveMode::Idle,
                ))),
            ),
            (
                r#"{"type":"send-delayed","content":"","message-type":"ping"}"#,
                Control::SendDelayed(timed(MessageKind::Ping, b"", 1, KeepAliveMode::Idle)),
            ),
            (r#"{"type":"flush-delayed"}"#, Control::FlushDelayed),
        ] {
            assert_eq!(read(json.as_bytes()), Ok(expected), "{json}");
        }
    }

    #[test]
    fn reports_why_a_message_is_ignored() {
        for (json, error) in [
            ("", ControlError::Json),
            ("[]", ControlError::Json),
            ("{}", ControlError::Type),
            (r#"{"type":"dance"}"#, ControlError::Type),
            (r#"{"type":1}"#, ControlError::Field("type")),
            (r#"{"type":"subscribe"}"#, ControlError::Field("channel")),
            (
                r#"{"type":"subscribe","channel":""}"#,
                ControlError::Field("channel"),
            ),
            (
                r#"{"type":"subscribe","channel":"a","filters":"x"}"#,
                ControlError::Field("filters"),
            ),
            (
                r#"{"type":"subscribe","channel":"a","filters":["1","2","3","4","5","6"]}"#,
                ControlError::FiltersTooMany,
            ),
            (
                r#"{"type":"set-meta","value":"b"}"#,
                ControlError::Field("name"),
            ),
            (
                r#"{"type":"keep-alive","content":1}"#,
                ControlError::Field("content"),
            ),
            (
                r#"{"type":"keep-alive","content":"x","timeout":0}"#,
                ControlError::Field("timeout"),
            ),
            (
                r#"{"type":"keep-alive","content":"x","mode":"x"}"#,
                ControlError::Field("mode"),
            ),
            (r#"{"type":"send-delayed"}"#, ControlError::Field("content")),
            (
                r#"{"type":"send-delayed","content":"x","message-type":"x"}"#,
                ControlError::Field("message-type"),
            ),
            (
                r#"{"type":"send-delayed","content-bin":"?"}"#,
                ControlError::Field("content-bin"),
            ),
        ] {
            assert_eq!(read(json.as_bytes()), Err(error), "{json}");
        }
    }
}
