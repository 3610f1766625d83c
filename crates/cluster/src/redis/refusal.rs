//! What a server says when it refuses something, in words for whoever runs it.

use super::pending::Pending;
use super::servers::REPLICA;
use crate::address::Address;

/// How a record of TLS begins that says what went wrong (RFC 8446, 5.1).
pub(super) const TLS_ALERT: u8 = 21;
pub(super) const TLS_MAJOR: u8 = 3;

/// How a server is written in `cluster` that is spoken to over TLS.
pub(super) fn tls_scheme(server: &Address) -> &'static str {
    match server.sentinel.is_some() {
        true => "rediss+sentinel://",
        false => "rediss://",
    }
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
        (_, "MOVED") => {
            "another server of this Redis Cluster has the log, and its address is not said".to_owned()
        }
        (_, "ASK" | "TRYAGAIN") => {
            "the log is on its way to another server of this Redis Cluster".to_owned()
        }
        (_, "CLUSTERDOWN") => format!("the Redis Cluster is not whole: {text}"),
        (Pending::Select, "ERR") => {
            "the server has no such database, and a Redis Cluster has one; leave out the number at the end of the address in cluster".to_owned()
        }
        (_, "EPOCH") => "the log was made anew".to_owned(),
        (_, "LOST") => "the log has lost messages that were read".to_owned(),
        _ => format!("the server says {text}"),
    }
}
