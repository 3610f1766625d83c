//! Messages from the server. A message is a JSON object with `event`, usually `channel`, and `data`, which is JSON in a string.

use serde_json::{Value, json};

use crate::socket_id::SocketId;

/// Estimated size of a message without its event, channel and data.
const MESSAGE_BYTES: usize = 96;

/// Text of the first message, before its two numbers are inserted.
const ESTABLISHED: &str =
    "{\"event\":\"pusher:connection_established\",\"data\":\"{\\\"socket_id\\\":\\\"";
const ESTABLISHED_TIMEOUT: &str = "\\\",\\\"activity_timeout\\\":";

/// Text of a confirmation without members, before the channel is inserted.
const SUCCEEDED: &str = "{\"event\":\"pusher_internal:subscription_succeeded\",\"channel\":";
const SUCCEEDED_END: &str = ",\"data\":\"{}\"}";

/// Maximum length of a text that is first checked for characters to escape. Longer texts are event data, which usually contain
/// quotation marks, so that the check would be useless.
const PLAIN_BYTES_MAX: usize = 256;

/// Separator in the name of an event on the ring, before the sending user and the connection. Names of events and ids
/// of users have no control characters.
const SENDER: char = '\u{1f}';

/// The event with the number of subscribers.
pub const SUBSCRIPTION_COUNT: &str = "pusher_internal:subscription_count";

/// Prefixes of events that only the server sends. Clients read such events as messages about their connection.
const PROTOCOL_PREFIXES: [&str; 3] = ["pusher:", "pusher_internal:", "fermata:"];

/// Returns true if an event with this name belongs to the protocol. Publishers may not send such events.
pub fn is_of_protocol(event: &str) -> bool {
    PROTOCOL_PREFIXES.iter().any(|it| event.starts_with(it))
}

/// The name of an event on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingName<'a> {
    /// Name of the event.
    pub event: &'a str,
    /// The user who sent the event, in a presence channel.
    pub user_id: Option<&'a str>,
    /// Socket id of the sending connection, if a webhook reports it.
    pub socket_id: Option<&'a str>,
}

impl<'a> RingName<'a> {
    /// Parses the text of [`RingName::text`].
    pub fn read(text: &'a str) -> RingName<'a> {
        let mut parts = text.split(SENDER);
        let event = parts.next().unwrap_or_default();
        let mut part = || parts.next().filter(|part| !part.is_empty());
        RingName {
            event,
            user_id: part(),
            socket_id: part(),
        }
    }

    /// Returns the text.
    pub fn text(self) -> String {
        let RingName {
            event,
            user_id,
            socket_id,
        } = self;
        let user = user_id.unwrap_or_default();
        match (user_id, socket_id) {
            (None, None) => event.to_owned(),
            (_, None) => format!("{event}{SENDER}{user}"),
            (_, Some(socket)) => format!("{event}{SENDER}{user}{SENDER}{socket}"),
        }
    }
}

/// Codes of `pusher:error`, which determine whether and when a client may reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No application has this key.
    NoApplication,
    /// The application is disabled.
    Disabled,
    /// The application already has its maximum number of connections.
    OverQuota,
    /// `protocol` is not a number.
    BadProtocol,
    /// The protocol is not 7.
    UnsupportedProtocol,
    /// The parameter `protocol` is missing.
    NoProtocol,
    /// A signature is wrong, or the page may not connect.
    Unauthorized,
    /// The message is malformed.
    Malformed,
    /// The server is over capacity: reconnect after a second.
    OverCapacity,
    /// A ping was not answered.
    PongMissing,
    /// A client event is refused.
    ClientEvent,
}

impl Code {
    /// Returns the number.
    pub fn number(self) -> u16 {
        match self {
            Code::NoApplication => 4001,
            Code::Disabled => 4003,
            Code::OverQuota => 4004,
            Code::BadProtocol => 4006,
            Code::UnsupportedProtocol => 4007,
            Code::NoProtocol => 4008,
            Code::Unauthorized => 4009,
            Code::OverCapacity => 4100,
            Code::Malformed => 4200,
            Code::PongMissing => 4201,
            Code::ClientEvent => 4301,
        }
    }
}

/// Returns the first message of every connection. `activity_timeout_s` is the silence after which the client sends a ping.
pub fn connection_established(socket_id: SocketId, activity_timeout_s: u64) -> String {
    // Every client gets this message. Nothing in it needs escaping, because the quotation marks of its data are already escaped.
    let (head, middle) = (ESTABLISHED, ESTABLISHED_TIMEOUT);
    format!("{head}{socket_id}{middle}{activity_timeout_s}}}\"}}")
}

/// Returns the reply to `pusher:ping`.
pub fn pong() -> String {
    r#"{"event":"pusher:pong","data":"{}"}"#.to_owned()
}

/// Returns an error message. Its data is an object instead of a string, as clients expect.
pub fn error(code: Option<Code>, message: &str) -> String {
    let code = code.map(Code::number);
    json!({"event": "pusher:error", "data": {"code": code, "message": message}}).to_string()
}

/// Returns the confirmation of a subscription. `members` are users with their public data as JSON.
pub fn subscription_succeeded(channel: &str, members: Option<&[(String, Value)]>) -> String {
    let event = "pusher_internal:subscription_succeeded";
    match members {
        Some(members) => {
            let ids: Vec<&String> = members.iter().map(|(id, _)| id).collect();
            let hash: serde_json::Map<String, Value> = members.iter().cloned().collect();
            let data = json!({"presence": {"count": members.len(), "ids": ids, "hash": hash}});
            internal(event, Some(channel), &data)
        }
        None => {
            // The most frequent message: only the channel's name varies.
            let mut out = Vec::with_capacity(MESSAGE_BYTES + channel.len());
            out.extend_from_slice(SUCCEEDED.as_bytes());
            string(&mut out, channel);
            out.extend_from_slice(SUCCEEDED_END.as_bytes());
            // All parts are UTF-8.
            String::from_utf8(out).unwrap_or_default()
        }
    }
}

/// Returns the message that a user has joined a presence channel.
pub fn member_added(channel: &str, user_id: &str, info: &Value) -> String {
    let data = json!({"user_id": user_id, "user_info": info});
    internal("pusher_internal:member_added", Some(channel), &data)
}

/// Returns the message that a user has left a presence channel.
pub fn member_removed(channel: &str, user_id: &str) -> String {
    let data = json!({"user_id": user_id});
    internal("pusher_internal:member_removed", Some(channel), &data)
}

/// Returns the message that a cache channel is empty.
pub fn cache_miss(channel: &str) -> String {
    json!({"event": "pusher:cache_miss", "channel": channel}).to_string()
}

/// Returns the data of [`SUBSCRIPTION_COUNT`].
pub fn subscription_count(count: u64) -> String {
    json!({"subscription_count": count}).to_string()
}

/// Returns the message that users of a watchlist came online or went offline.
pub fn watchlist_events(online: &[&str], offline: &[&str]) -> String {
    let events: Vec<Value> = [("online", online), ("offline", offline)]
        .into_iter()
        .filter(|(_, users)| !users.is_empty())
        .map(|(name, users)| json!({"name": name, "user_ids": users}))
        .collect();
    internal(
        "pusher_internal:watchlist_events",
        None,
        &json!({"events": events}),
    )
}

/// Returns the message that a user has signed in.
pub fn signin_success(user_data: &str) -> String {
    internal(
        "pusher:signin_success",
        None,
        &json!({"user_data": user_data}),
    )
}

/// Returns the message which says that events after the client's last event are missing.
pub fn gap(channel: Option<&str>) -> String {
    internal("fermata:gap", channel, &json!({}))
}

/// Appends an event of a channel for its subscribers. `name` is the name on the ring, with the sender if that is known. `id` is the
/// position from which a client resumes (`fermata:since`).
pub fn event(out: &mut Vec<u8>, channel: &str, name: &str, data: &str, id: Option<&str>) {
    let RingName {
        event,
        user_id: user,
        socket_id: _,
    } = RingName::read(name);
    out.extend_from_slice(b"{\"event\":");
    string(out, event);
    out.extend_from_slice(b",\"channel\":");
    string(out, channel);
    out.extend_from_slice(b",\"data\":");
    string(out, data);
    if let Some(user) = user {
        out.extend_from_slice(b",\"user_id\":");
        string(out, user);
    }
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        string(out, id);
    }
    out.push(b'}');
}

fn internal(event: &str, channel: Option<&str>, data: &Value) -> String {
    written(event, channel, &data.to_string())
}

/// Returns a message with this text as data. The message is written in pieces, because an intermediate JSON value would cost a
/// dozen allocations per connecting client.
fn written(event: &str, channel: Option<&str>, data: &str) -> String {
    let mut out = Vec::with_capacity(MESSAGE_BYTES + event.len() + 2 * data.len());
    out.extend_from_slice(b"{\"event\":");
    string(&mut out, event);
    if let Some(channel) = channel {
        out.extend_from_slice(b",\"channel\":");
        string(&mut out, channel);
    }
    out.extend_from_slice(b",\"data\":");
    string(&mut out, data);
    out.push(b'}');
    // All parts are UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

fn string(out: &mut Vec<u8>, text: &str) {
    // Names rarely need escapes. This check costs a quarter of the table lookup per byte that the encoder makes.
    let is_plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    if text.len() <= PLAIN_BYTES_MAX && text.as_bytes().iter().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    // Writing to a vector never fails.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_the_protocol_are_known_by_their_prefix() {
        for event in [
            "pusher:error",
            "pusher:",
            "pusher_internal:member_added",
            "fermata:gap",
        ] {
            assert!(is_of_protocol(event), "{event}");
        }
        for event in ["pusher", "client-pusher:error", "App\\pusher:x", ""] {
            assert!(!is_of_protocol(event), "{event}");
        }
    }

    #[test]
    fn data_is_json_in_a_string() {
        assert_eq!(
            connection_established(
                SocketId {
                    life: 1,
                    socket: 0,
                    worker: 2,
                    secret: 0,
                },
                30
            ),
            r#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.2\",\"activity_timeout\":30}"}"#
        );
        for channel in ["news", "private-a\"b\\"] {
            let text = subscription_succeeded(channel, None);
            let frame: Value = serde_json::from_str(&text).expect("JSON");
            let event = "pusher_internal:subscription_succeeded";
            let expected = json!({"event": event, "channel": channel, "data": "{}"});
            assert_eq!(frame, expected);
        }
        let members = [("7".to_owned(), json!({"name": "Ann"}))];
        let text = subscription_succeeded("presence-a", Some(&members));
        let frame: Value = serde_json::from_str(&text).expect("JSON");
        let data: Value =
            serde_json::from_str(frame["data"].as_str().expect("a string")).expect("JSON");
        assert_eq!(
            data,
            json!({"presence": {"count": 1, "ids": ["7"], "hash": {"7": {"name": "Ann"}}}})
        );
    }

    #[test]
    fn event_has_its_sender() {
        let mut out = Vec::new();
        event(
            &mut out,
            "presence-a",
            "client-typing\u{1f}7",
            "{}",
            Some("id"),
        );
        assert_eq!(
            String::from_utf8(out).expect("text"),
            r#"{"event":"client-typing","channel":"presence-a","data":"{}","user_id":"7","id":"id"}"#
        );
    }

    #[test]
    fn ring_names_round_trip() {
        for (user_id, socket_id) in [
            (None, None),
            (Some("7"), None),
            (None, Some("1.2")),
            (Some("7"), Some("1.2")),
        ] {
            let name = RingName {
                event: "client-x",
                user_id,
                socket_id,
            };
            assert_eq!(RingName::read(&name.text()), name);
            let mut out = Vec::new();
            event(&mut out, "presence-a", &name.text(), "{}", None);
            let frame: Value = serde_json::from_slice(&out).expect("JSON");
            assert_eq!(frame["event"], "client-x");
            assert_eq!(frame["user_id"].as_str(), user_id);
        }
    }

    proptest::proptest! {
        #[test]
        fn text_is_written_as_json(text in proptest::string::string_regex("(?s).{0,300}").expect("a pattern")) {
            let mut out = Vec::new();
            string(&mut out, &text);
            let expected = serde_json::to_vec(&text).expect("JSON");
            proptest::prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn errors_are_objects() {
        assert_eq!(
            error(Some(Code::Unauthorized), "no"),
            r#"{"data":{"code":4009,"message":"no"},"event":"pusher:error"}"#
        );
    }
}
