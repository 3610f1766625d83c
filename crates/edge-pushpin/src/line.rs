//! Requests to external services. Workers without the ports send them through the worker that has the ports and their connections.

use std::path::PathBuf;

use fermata_grip::packet;
use fermata_grip::packet::Notation;
use fermata_grip::value::{Value, map};

/// Reason why a request that no service accepted is dropped.
pub const NOBODY_THERE: &str = "no service accepted the request";

/// Maximum number of requests that wait for one service. Further requests fail immediately.
pub const OUTBOX_MAX: usize = 1_000;

/// Condition reported to another worker if too many requests wait.
pub const TOO_MANY: &str = "fermata-too-many-questions";
/// Condition for a request that no service accepted in time.
pub const NOBODY: &str = "fermata-nobody-there";

/// A waiting request.
#[derive(Debug)]
pub struct Waiting {
    /// Number of the request. 0: the request belongs to another worker.
    pub id: u64,
    /// Time until which a service has to accept the request.
    pub due_ms: u64,
    /// The message's parts, as sent to the service.
    pub parts: Vec<Vec<u8>>,
}

/// The path to the services.
#[derive(Debug)]
pub struct Line<W> {
    /// Socket of the worker that has the ports. `None`: this worker has them.
    pub path: Option<PathBuf>,
    /// The connection to that worker. `None`: there is no connection.
    pub wire: Option<W>,
    /// Time of the next connection attempt.
    pub retry_ms: u64,
    /// Index of the service's connection to use next.
    pub turn: usize,
}

impl<W> Default for Line<W> {
    fn default() -> Self {
        Self {
            path: None,
            wire: None,
            retry_ms: 0,
            turn: 0,
        }
    }
}

impl<W> Line<W> {
    /// Creates the path through the worker that listens at `path`.
    pub fn through(path: PathBuf) -> Self {
        Self {
            path: Some(path),
            ..Self::default()
        }
    }
}

/// Returns the reason why the worker with the ports did not forward a request. `None`: the reply reports no reason.
pub fn why_not_forwarded(reply: &Value) -> Option<&'static str> {
    let condition = reply.get("condition").and_then(Value::bytes)?;
    if condition == TOO_MANY.as_bytes() {
        return Some("too many questions wait for answers");
    }
    (condition == NOBODY.as_bytes()).then_some(NOBODY_THERE)
}

/// Encodes the prefix of a request to the worker with the ports: requesting worker, service, and remaining time.
pub fn envelope(worker: u16, service: u16, left_ms: u64) -> [u8; 12] {
    let mut out = [0; 12];
    out[..2].copy_from_slice(&worker.to_be_bytes());
    out[2..4].copy_from_slice(&service.to_be_bytes());
    out[4..].copy_from_slice(&left_ms.to_be_bytes());
    out
}

/// Decodes an [`envelope`] into worker, service and milliseconds. `None`: the envelope is invalid.
pub fn read_envelope(bytes: &[u8]) -> Option<(u16, u16, u64)> {
    let (worker, rest) = bytes.split_first_chunk::<2>()?;
    let (service, left_ms) = rest.split_first_chunk::<2>()?;
    let left_ms = <[u8; 8]>::try_from(left_ms).ok()?;
    Some((
        u16::from_be_bytes(*worker),
        u16::from_be_bytes(*service),
        u64::from_be_bytes(left_ms),
    ))
}

/// Encodes the reply to a request that is not forwarded to a service.
pub fn refusal(question: &[u8], condition: &str) -> Option<Vec<u8>> {
    let (question, _) = packet::decode(question).ok()?;
    let reply = map([
        ("id", question.get("id")?.clone()),
        ("type", "error".into()),
        ("condition", condition.into()),
    ]);
    let mut out = Vec::new();
    packet::encode(&mut out, &reply, Notation::Tnetstring);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_round_trip() {
        let envelope = envelope(3, 7, 60_001);
        assert_eq!(read_envelope(&envelope), Some((3, 7, 60_001)));
        for bad in [&b""[..], b"1", b"12345678901", b"1234567890123"] {
            assert_eq!(read_envelope(bad), None);
        }
    }

    #[test]
    fn refusal_has_the_id_of_its_request() {
        let mut question = Vec::new();
        let asked = map([("id", "12".into()), ("method", "GET".into())]);
        packet::encode(&mut question, &asked, Notation::Tnetstring);
        for condition in [TOO_MANY, NOBODY] {
            let reply = refusal(&question, condition).expect("a reply");
            let (reply, _) = packet::decode(&reply).expect("a packet");
            assert_eq!(reply.get("id"), Some(&Value::from("12")));
            assert!(why_not_forwarded(&reply).is_some());
        }
        assert_eq!(refusal(b"no packet", NOBODY), None);
        let other = map([("type", "error".into()), ("condition", "bad".into())]);
        assert_eq!(why_not_forwarded(&other), None);
    }
}
