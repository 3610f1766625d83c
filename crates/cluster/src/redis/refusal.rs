//! Turns errors of the Redis server into messages for operators.

use super::pending::Pending;
use super::servers::REPLICA;
use crate::address::Address;

/// First bytes of a TLS alert (RFC 8446, section 5.1).
pub(super) const TLS_ALERT: u8 = 21;
pub(super) const TLS_MAJOR: u8 = 3;

/// Scheme of `cluster` for a server with TLS.
pub(super) fn tls_scheme(server: &Address) -> &'static str {
    if server.sentinel.is_some() {
        "rediss+sentinel://"
    } else {
        "rediss://"
    }
}

/// Errors of a server that answers reads but temporarily refuses writes. `ORDER` is an error of this node's script.
const REFUSALS: [&str; 4] = ["OOM", "MISCONF", "NOREPLICAS", "ORDER"];

/// Returns the text of a refusal to write. Redis 6 puts the error of a script behind a description of the script, Redis 7 before
/// it.
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

/// Explains an error. Omits the error's text if it may quote a command with the password.
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
            "another server of this Redis Cluster has the log; its MOVED names no address".to_owned()
        }
        (_, "ASK" | "TRYAGAIN") => {
            "the log is migrating to another server of this Redis Cluster".to_owned()
        }
        (_, "CLUSTERDOWN") => format!("the Redis Cluster is not whole: {text}"),
        (Pending::Select, "ERR") => {
            "the server has no such database, and a Redis Cluster has one; leave out the number at the end of the address in cluster".to_owned()
        }
        (_, "EPOCH") => "the log was recreated".to_owned(),
        (_, "LOST") => "the log has lost messages that were read".to_owned(),
        _ => format!("the server reported {text}"),
    }
}
