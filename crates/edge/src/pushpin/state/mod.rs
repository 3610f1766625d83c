//! Sessions of an outside service.

pub(crate) mod id;
pub(crate) mod rules;

use std::collections::{BTreeMap, HashMap};

use fermata_grip::value::Value;

use crate::client::source::Source;
use crate::pushpin::state::id::SessionId;
use crate::settings::Settings;

/// How much of that goes in one message, of which a connection takes 1 MiB, and what is around a value at most.
const MESSAGE_BYTES: usize = 256 * 1024;
const VALUE_BYTES: usize = 12;

pub(crate) type Ids = BTreeMap<Vec<u8>, Vec<u8>>;

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
    /// Nobody waits.
    Told(&'static str),
}

impl Question {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Rules(..) => "session-detect-rules-get",
            Self::LastIds(..) => "session-get-last-ids",
            Self::Told(method) => method,
        }
    }

    /// The request that waits.
    pub fn handle(&self) -> Option<u64> {
        match self {
            Self::Rules(handle, _) | Self::LastIds(handle, _) => Some(*handle),
            Self::Told(_) => None,
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

/// What the service is told of sessions, in pieces that fit into a message each.
pub(crate) fn messages(updates: &HashMap<SessionId, Ids>) -> Vec<Vec<(Vec<u8>, Value)>> {
    let mut messages = Vec::new();
    let mut message = Vec::new();
    let mut left = MESSAGE_BYTES;
    for (name, had) in updates {
        let name = name.as_str().as_bytes();
        let had_bytes: usize = had
            .iter()
            .map(|(channel, id)| channel.len() + id.len() + 2 * VALUE_BYTES)
            .sum();
        let bytes = name.len() + had_bytes + 2 * VALUE_BYTES;
        if bytes > left && !message.is_empty() {
            messages.push(std::mem::take(&mut message));
            left = MESSAGE_BYTES;
        }
        left = left.saturating_sub(bytes);
        message.push((name.to_vec(), ids(had)));
    }
    if !message.is_empty() {
        messages.push(message);
    }
    messages
}

pub(crate) fn ids(ids: &Ids) -> Value {
    let entries = ids.iter();
    Value::Map(
        entries
            .map(|(channel, id)| (channel.clone(), Value::Bytes(id.clone())))
            .collect(),
    )
}

pub(crate) fn bytes(text: &[u8]) -> Value {
    Value::Bytes(text.to_vec())
}

#[cfg(test)]
mod tests {
    use fermata_grip::packet::{self, Notation};

    use super::*;

    #[test]
    fn however_many_sessions_there_are_each_message_can_be_sent() {
        const SESSIONS: usize = 30_000;
        let updates: HashMap<SessionId, Ids> = (0..SESSIONS)
            .map(|number| {
                let name = SessionId::new(format!("session-{number:040}").as_bytes());
                let had = Ids::from([(b"channel".to_vec(), number.to_string().into_bytes())]);
                (name.expect("an id"), had)
            })
            .collect();
        let messages = messages(&updates);
        assert!(messages.len() > 1);
        let count: usize = messages.iter().map(Vec::len).sum();
        assert_eq!(count, SESSIONS);
        for message in messages {
            let mut out = Vec::new();
            packet::encode(&mut out, &Value::Map(message), Notation::Tnetstring);
            assert!(out.len() <= MESSAGE_BYTES, "{}", out.len());
        }
        assert!(crate::pushpin::state::messages(&HashMap::new()).is_empty());
    }
}
