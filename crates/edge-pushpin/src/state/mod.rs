//! Sessions of an outside service.

pub mod id;
pub mod rules;

use std::collections::{BTreeMap, HashMap};

use fermata_grip::value::Value;

use crate::state::id::SessionId;

/// How much of that goes in one message, of which a connection takes 1 MiB, and what is around a value at most.
const MESSAGE_BYTES: usize = 256 * 1024;
const VALUE_BYTES: usize = 12;

/// The last id that a session has had of each channel.
pub type Ids = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the service is told of sessions, in pieces that fit into a message each.
pub fn messages(updates: &HashMap<SessionId, Ids>) -> Vec<Vec<(Vec<u8>, Value)>> {
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

/// Ids as packets have them.
pub fn ids(ids: &Ids) -> Value {
    let entries = ids.iter();
    Value::Map(
        entries
            .map(|(channel, id)| (channel.clone(), Value::Bytes(id.clone())))
            .collect(),
    )
}

/// Bytes as packets have them.
pub fn bytes(text: &[u8]) -> Value {
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
        assert!(super::messages(&HashMap::new()).is_empty());
    }
}
