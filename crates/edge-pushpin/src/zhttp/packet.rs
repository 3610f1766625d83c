//! Parses a response in a packet.

use fermata_grip::value::Value;
use fermata_proto::response::{valid_name, valid_value};

/// Headers about message framing, which ZHTTP replaces.
const FRAMING: [&[u8]; 3] = [b"content-length", b"transfer-encoding", b"connection"];

/// Status, reason and headers of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// At least 101.
    pub status: u16,
    /// May be empty.
    pub reason: Vec<u8>,
    /// Headers of the response, without the headers that determine framing.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Reason why a response is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The code is missing, or not final.
    #[error("the backend's response has no final code")]
    Code,
    /// The reason phrase contains a line end.
    #[error("the reason of the backend's response is malformed")]
    Reason,
    /// A header is not a name and a value.
    #[error("a header of the backend is not a pair")]
    NoPair,
    /// A header contains a line end. It could start another header or another response.
    #[error("a header of the backend is malformed")]
    Header,
}

/// Parses status, reason and headers.
///
/// # Errors
/// The response cannot be forwarded.
pub fn response(packet: &Value) -> Result<Response, ResponseError> {
    let status = packet.get("code").and_then(Value::integer);
    let status = status.and_then(|code| u16::try_from(code).ok());
    let is_final = |code: &u16| *code == 101 || (200..1_000).contains(code);
    let Some(status) = status.filter(is_final) else {
        return Err(ResponseError::Code);
    };
    let reason = bytes(packet, "reason");
    if !valid_value(reason) {
        return Err(ResponseError::Reason);
    }
    let mut headers = Vec::new();
    if let Some(Value::List(pairs)) = packet.get("headers") {
        for pair in pairs {
            let Value::List(pair) = pair else {
                return Err(ResponseError::NoPair);
            };
            let [Value::Bytes(name), Value::Bytes(value)] = &pair[..] else {
                return Err(ResponseError::NoPair);
            };
            if !valid_name(name) || !valid_value(value) {
                return Err(ResponseError::Header);
            }
            if !FRAMING.iter().any(|it| name.eq_ignore_ascii_case(it)) {
                headers.push((name.clone(), value.clone()));
            }
        }
    }
    Ok(Response {
        status,
        reason: reason.to_vec(),
        headers,
    })
}

/// Returns the bytes under a key. Empty: the key is missing.
pub fn bytes<'a>(packet: &'a Value, key: &str) -> &'a [u8] {
    packet.get(key).and_then(Value::bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use fermata_grip::value::map;

    use super::*;

    fn pair(name: &str, value: &str) -> Value {
        Value::List(vec![name.into(), value.into()])
    }

    #[test]
    fn parses_responses() {
        let headers = vec![pair("X-A", "b"), pair("content-length", "99")];
        let read = response(&map([
            ("code", Value::Integer(201)),
            ("headers", Value::List(headers)),
        ]));
        let read = read.expect("a response");
        assert_eq!(read.status, 201);
        assert_eq!(read.headers, [(b"X-A".to_vec(), b"b".to_vec())]);
    }

    /// The reason phrase is part of the first line of the head. A line end in the phrase would let the backend inject headers or a
    /// second response.
    #[test]
    fn rejects_a_reason_with_a_line_end() {
        let with = |reason: &str| {
            response(&map([
                ("code", Value::Integer(200)),
                ("reason", reason.into()),
            ]))
        };
        assert_eq!(with("Fine so far").map(|it| it.reason.len()), Ok(11));
        for reason in ["OK\r\nSet-Cookie: a=b", "OK\n", "\r", "\0", "\x7f"] {
            assert!(with(reason).is_err(), "{reason:?}");
        }
    }

    #[test]
    fn reports_malformed_responses() {
        let with = |headers| {
            map([
                ("code", Value::Integer(200)),
                ("headers", Value::List(headers)),
            ])
        };
        for packet in [
            map([]),
            map([("code", Value::Integer(100))]),
            map([("code", Value::Integer(70_000))]),
            with(vec![Value::Null]),
            with(vec![pair("X A", "b")]),
            with(vec![pair("X-A", "b\r\nC: d")]),
        ] {
            assert!(response(&packet).is_err(), "{packet:?}");
        }
    }
}
