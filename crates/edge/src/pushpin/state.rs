//! Sessions of an outside service.

use std::collections::HashMap;

use fermata_edge_pushpin::state::{Ids, id::SessionId};
use fermata_grip::value::Value;

use crate::client::source::Source;
use crate::settings::Settings;

/// What a worker has of the service.
pub(crate) struct State {
    pub(crate) timeout_ms: u64,
    pub(crate) updates: HashMap<SessionId, Ids>,
    pub(crate) alive_ms: u64,
}

/// What was asked, and who waits for it.
pub(crate) enum Question {
    /// How sessions are found in requests like this.
    Rules(u64, Source),
    /// What the session of a request has had.
    LastIds(u64, Source),
    /// A notification, which has no reply to wait for.
    Notify(&'static str),
}

/// Why nothing is known of a session.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateError {
    /// The service has not answered, for this reason.
    #[error("{0}")]
    Unanswered(String),
    /// It does not know the session yet.
    #[error("item-not-found")]
    NotFound,
    /// It does not do what it was asked, on this condition.
    #[error("{0}")]
    Refused(String),
}

/// What a reply of the service says.
pub(crate) fn read_reply(reply: Value) -> Result<Value, StateError> {
    if let Some(Value::Bool(true)) = reply.get("success") {
        return Ok(reply.get("value").cloned().unwrap_or(Value::Null));
    }
    match reply.get("condition").and_then(Value::bytes) {
        Some(b"item-not-found") => Err(StateError::NotFound),
        condition => {
            let condition = condition.unwrap_or(b"general");
            Err(StateError::Refused(condition.escape_ascii().to_string()))
        }
    }
}

impl Question {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Rules(..) => "session-detect-rules-get",
            Self::LastIds(..) => "session-get-last-ids",
            Self::Notify(method) => method,
        }
    }

    /// The request that waits.
    pub fn handle(&self) -> Option<u64> {
        match self {
            Self::Rules(handle, _) | Self::LastIds(handle, _) => Some(*handle),
            Self::Notify(_) => None,
        }
    }
}

impl State {
    /// `None`: no service is named.
    pub fn new(settings: &Settings) -> Option<Box<Self>> {
        let is_named = !settings.zmq_state.is_empty();
        is_named.then(|| {
            Box::new(Self {
                timeout_ms: settings.zmq_state_timeout_ms,
                updates: HashMap::new(),
                alive_ms: 0,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use fermata_grip::value::map;

    use super::*;

    #[test]
    fn a_reply_is_a_value_or_says_why_there_is_none() {
        let success = |value: bool| ("success", Value::Bool(value));
        let condition = |text: &str| ("condition", text.into());
        let refused = |text: &str| Err(StateError::Refused(text.to_owned()));
        for (reply, expected) in [
            (map([success(true), ("value", "a".into())]), Ok("a".into())),
            (map([success(true)]), Ok(Value::Null)),
            (
                map([success(false), condition("item-not-found")]),
                Err(StateError::NotFound),
            ),
            (map([success(false), condition("a\n")]), refused("a\\n")),
            (map([success(false)]), refused("general")),
            (Value::Null, refused("general")),
        ] {
            assert_eq!(read_reply(reply), expected);
        }
    }
}
