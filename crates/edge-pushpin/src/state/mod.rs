//! Sessions of an external service.

pub mod id;
pub mod rules;

use std::collections::{BTreeMap, HashMap};

use fermata_grip::value::Value;

use crate::state::id::SessionId;

/// Maximum size of the updates in one message, in bytes. A connection accepts messages of up to 1 MiB.
const MESSAGE_BYTES: usize = 256 * 1024;
/// Maximum overhead per encoded value, in bytes.
const VALUE_BYTES: usize = 12;

/// The last id that a session has received of each channel.
pub type Ids = BTreeMap<Vec<u8>, Vec<u8>>;

/// Splits the updates of sessions into messages of bounded size.
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

/// Converts ids to a packet's value.
pub fn ids(ids: &Ids) -> Value {
    let entries = ids.iter();
    Value::Map(
        entries
            .map(|(channel, id)| (channel.clone(), Value::Bytes(id.clone())))
            .collect(),
    )
}

/// Converts bytes to a packet's value.
pub fn bytes(text: &[u8]) -> Value {
    Value::Bytes(text.to_vec())
}

#[cfg(test)]
mod tests {
    use fermata_grip::packet::{self, Notation};

    use super::*;

    #[test]
    fn splits_many_sessions_into_bounded_messages() {
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
