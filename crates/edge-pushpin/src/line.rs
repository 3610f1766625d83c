//! How other workers ask services through the one that has them.

use std::path::PathBuf;

use fermata_grip::packet;
use fermata_grip::packet::Notation;
use fermata_grip::value::{Value, map};

/// Why a question that nobody has taken is given up.
pub const NOBODY_THERE: &str = "nobody is there to be asked";

/// Questions that wait for one service. One more is answered at once: that it cannot be asked.
pub const OUTBOX_MAX: usize = 1_000;

/// What another worker is told then, and of a question that nobody has taken in time.
pub const TOO_MANY: &str = "fermata-too-many-questions";
/// The condition for a question that nobody has taken in time.
pub const NOBODY: &str = "fermata-nobody-there";

/// A question on its way.
#[derive(Debug)]
pub struct Waiting {
    /// Its number; 0: another worker's.
    pub id: u64,
    /// Until when somebody has to take it.
    pub due_ms: u64,
    /// The message's parts, as its service gets them.
    pub parts: Vec<Vec<u8>>,
}

/// The way to the services.
#[derive(Debug)]
pub struct Line<W> {
    /// The worker with the ports, where this is another; and the wire to it.
    pub path: Option<PathBuf>,
    /// The wire to that worker, while there is one.
    pub wire: Option<W>,
    /// When it is connected to again.
    pub retry_ms: u64,
    /// Which of a service's connections is next.
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
    /// The way through the worker that listens at `path`.
    pub fn through(path: PathBuf) -> Self {
        Self {
            path: Some(path),
            ..Self::default()
        }
    }
}

/// Why the worker that has the ports has asked nobody, if that is what it answers.
pub fn why_unheard(reply: &Value) -> Option<&'static str> {
    let condition = reply.get("condition").and_then(Value::bytes)?;
    if condition == TOO_MANY.as_bytes() {
        return Some("too many questions wait for answers");
    }
    (condition == NOBODY.as_bytes()).then_some(NOBODY_THERE)
}

/// What goes before a question to the worker that has the ports: who asks, whom it is for, and how long it may wait there.
pub fn envelope(worker: u16, service: u16, left_ms: u64) -> [u8; 12] {
    let mut out = [0; 12];
    out[..2].copy_from_slice(&worker.to_be_bytes());
    out[2..4].copy_from_slice(&service.to_be_bytes());
    out[4..].copy_from_slice(&left_ms.to_be_bytes());
    out
}

/// Worker, service and milliseconds of an [`envelope`]; `None`: it is none.
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

/// The answer to a question that no service gets.
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
    fn envelopes_read_back() {
        let envelope = envelope(3, 7, 60_001);
        assert_eq!(read_envelope(&envelope), Some((3, 7, 60_001)));
        for bad in [&b""[..], b"1", b"12345678901", b"1234567890123"] {
            assert_eq!(read_envelope(bad), None);
        }
    }

    #[test]
    fn a_refusal_names_its_request() {
        let mut question = Vec::new();
        let asked = map([("id", "12".into()), ("method", "GET".into())]);
        packet::encode(&mut question, &asked, Notation::Tnetstring);
        for condition in [TOO_MANY, NOBODY] {
            let reply = refusal(&question, condition).expect("a reply");
            let (reply, _) = packet::decode(&reply).expect("a packet");
            assert_eq!(reply.get("id"), Some(&Value::from("12")));
            assert!(why_unheard(&reply).is_some());
        }
        assert_eq!(refusal(b"no packet", NOBODY), None);
        let other = map([("type", "error".into()), ("condition", "bad".into())]);
        assert_eq!(why_unheard(&other), None);
    }
}
