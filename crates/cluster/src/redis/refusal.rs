//! What a server says when it is greeted or refuses something, in words for whoever runs it.

use super::pending::Pending;
use crate::resp::Value;

/// How a record of TLS begins that says what went wrong (RFC 8446, 5.1).
pub(super) const TLS_ALERT: u8 = 21;
pub(super) const TLS_MAJOR: u8 = 3;
pub(super) const WANTS_TLS: &str = "the server speaks TLS at this port; write rediss:// in cluster";

pub(super) const REPLICA: &str = "the server is a replica, which takes no events";

pub(super) const SENTINEL: &str = "the server is a Sentinel, which has no events and is not asked who has them; write the master and its \
                        replicas in cluster, the one that is promoted is found";

/// Whether a server says so of itself when it is greeted.
pub(super) fn is_greeted_by(greeting: &Value<'_>, name: &str, value: &str) -> bool {
    let pairs = greeting.as_array().unwrap_or_default().chunks_exact(2);
    let mut named = pairs.filter(|pair| pair[0].as_text() == Some(name.as_bytes()));
    named.any(|pair| pair[1].as_text() == Some(value.as_bytes()))
}

/// Errors of a server that answers reads and does not write, for a while. `ORDER` is of our script.
const REFUSALS: [&str; 4] = ["OOM", "MISCONF", "NOREPLICAS", "ORDER"];

/// The server's words, when it does not write for a while. Redis 6 has a script's error behind words about the script, and
/// Redis 7 before them.
pub(super) fn words_of_refusal(text: &str) -> Option<&str> {
    let code = |code: &&str| {
        let at = text.find(&format!("{code} "))?;
        (at == 0 || text[..at].ends_with(": -")).then_some(at)
    };
    let at = REFUSALS.iter().find_map(code)?;
    let words = &text[at..];
    let end = words.find(" script: ").unwrap_or(words.len());
    Some(words[..end].trim_end_matches(['.', ',']))
}

/// What an error means, in which a command may be that has the password.
pub(super) fn refusal(pending: &Pending, text: &str) -> String {
    if let Some(words) = words_of_refusal(text) {
        return format!("the server refuses to write: {words}");
    }
    let code = text.split(' ').next().unwrap_or_default();
    match (pending, code) {
        (Pending::Hello, "ERR") => {
            "the server does not speak RESP3, the protocol of Redis 6 and later".to_owned()
        }
        (_, "READONLY") => REPLICA.to_owned(),
        (_, "MOVED") => "another server of this Redis Cluster has the log".to_owned(),
        (_, "EPOCH") => "the log was made anew".to_owned(),
        (_, "LOST") => "the log has lost messages that were read".to_owned(),
        _ => format!("the server says {text}"),
    }
}
