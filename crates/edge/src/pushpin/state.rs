//! Sessions of an external service.

use std::collections::HashMap;

use fermata_edge_pushpin::state::{Ids, id::SessionId};
use fermata_engine::RequestId;
use fermata_grip::value::Value;

use crate::client::source::Source;
use crate::settings::Settings;

/// Maximum number of sessions with unsent updates.
pub(crate) const UPDATES_MAX: usize = 10_000;

/// Interval of keep-alive updates of sessions.
pub(crate) const ALIVE_MS: u64 = 60_000;

/// A worker's state about the service.
pub(crate) struct State {
    pub(crate) timeout_ms: u64,
    pub(crate) updates: HashMap<SessionId, Ids>,
    pub(crate) alive_ms: u64,
}

/// A question, with the request that waits for its reply.
pub(crate) enum Question {
    /// Rules for finding the session id in a request.
    Rules(RequestId, Source),
    /// Last ids of the request's session.
    LastIds(RequestId, Source),
    /// An update without a waiting request.
    Notify(&'static str),
}

/// Reason why a session is unknown.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateError {
    /// The service did not reply.
    #[error("{0}")]
    Unanswered(String),
    /// The service does not have the session.
    #[error("item-not-found")]
    NotFound,
    /// The service refused the question.
    #[error("{0}")]
    Refused(String),
}

/// Decodes a reply of the service.
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

    /// Returns the request that waits.
    pub fn handle(&self) -> Option<RequestId> {
        match self {
            Self::Rules(handle, _) | Self::LastIds(handle, _) => Some(*handle),
            Self::Notify(_) => None,
        }
    }
}

impl State {
    /// Creates the state. Returns `None` if no service is configured.
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

    /// Records the last id that a session received of a channel. Returns false beyond the limit.
    pub fn note_id(&mut self, session: &SessionId, channel: &[u8], id: &[u8]) -> bool {
        if self.updates.len() >= UPDATES_MAX && !self.updates.contains_key(session) {
            return false;
        }
        let ids = self.updates.entry(session.clone()).or_default();
        ids.insert(channel.to_vec(), id.to_vec());
        true
    }

    /// Returns the updates that are due: new ids, and at each keep-alive interval all sessions.
    pub fn take_updates(
        &mut self,
        now_ms: u64,
        names: impl Iterator<Item = SessionId>,
    ) -> HashMap<SessionId, Ids> {
        let mut updates = std::mem::take(&mut self.updates);
        if self.alive_ms != 0 && self.alive_ms <= now_ms {
            for name in names {
                updates.entry(name).or_default();
            }
            self.alive_ms = if updates.is_empty() {
                0
            } else {
                now_ms + ALIVE_MS
            };
        }
        updates
    }
}

#[cfg(test)]
mod tests {
    use fermata_grip::value::map;

    use super::*;

    #[test]
    fn updates_sessions_while_any_exist() {
        let name = |text: &str| SessionId::new(text.as_bytes()).expect("an id");
        let mut state = *State::new(&Settings {
            zmq_state: "tcp://127.0.0.1:1".to_owned(),
            ..Settings::default()
        })
        .expect("a service is named");
        assert!(state.note_id(&name("a"), b"c", b"1"));
        assert!(state.note_id(&name("a"), b"c", b"2"));
        let updates = state.take_updates(0, [name("b")].into_iter());
        assert_eq!(updates[&name("a")].get(&b"c"[..]), Some(&b"2".to_vec()));
        assert_eq!(updates.len(), 1);
        state.alive_ms = 5;
        let updates = state.take_updates(5, [name("b")].into_iter());
        assert!(updates[&name("b")].is_empty());
        assert_eq!(state.alive_ms, 5 + ALIVE_MS);
        assert!(
            state
                .take_updates(state.alive_ms, std::iter::empty())
                .is_empty()
        );
        assert_eq!(state.alive_ms, 0);
    }

    #[test]
    fn bounds_the_number_of_session_updates() {
        let name = |at: usize| SessionId::new(at.to_string().as_bytes()).expect("an id");
        let mut state = *State::new(&Settings {
            zmq_state: "tcp://127.0.0.1:1".to_owned(),
            ..Settings::default()
        })
        .expect("a service is named");
        let noted = (0..=UPDATES_MAX).filter(|at| state.note_id(&name(*at), b"c", b"1"));
        assert_eq!(noted.count(), UPDATES_MAX);
        assert!(state.note_id(&name(0), b"c", b"2"));
    }

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
