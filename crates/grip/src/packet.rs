//! Payload of a ZeroMQ message. It is a bare tnetstring, `T` and a tnetstring, or `J` and JSON.

use crate::tnetstring::{self, TnetstringError};
use crate::value::Value;

/// Notation of a payload. It determines the form of binary content, which is raw in tnetstrings and base64 in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notation {
    /// `T` and a tnetstring, or a bare tnetstring.
    #[default]
    Tnetstring,
    /// `J` and JSON.
    Json,
}

/// Reason why a payload is invalid.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// It is empty.
    #[error("the payload is empty; send a tnetstring, or J and JSON")]
    Empty,
    /// The payload starts with neither a digit nor `T` nor `J`.
    #[error(
        "the payload begins with byte {0:#04x}; send a tnetstring, or T and one, or J and JSON"
    )]
    Notation(u8),
    /// The tnetstring is invalid.
    #[error(transparent)]
    Tnetstring(#[from] TnetstringError),
    /// The JSON is invalid.
    #[error("the payload's JSON is not valid: {0}")]
    Json(#[from] serde_json::Error),
}

/// Decodes a payload.
///
/// # Errors
/// The payload is invalid.
pub fn decode(payload: &[u8]) -> Result<(Value, Notation), PacketError> {
    match payload {
        [] => Err(PacketError::Empty),
        [b'0'..=b'9', ..] => Ok((tnetstring::decode(payload)?, Notation::Tnetstring)),
        [b'T', rest @ ..] => Ok((tnetstring::decode(rest)?, Notation::Tnetstring)),
        [b'J', rest @ ..] => {
            let json: serde_json::Value = serde_json::from_slice(rest)?;
            Ok((Value::from(json), Notation::Json))
        }
        &[first, ..] => Err(PacketError::Notation(first)),
    }
}

/// Appends a payload with its leading letter.
pub fn encode(out: &mut Vec<u8>, value: &Value, notation: Notation) {
    match notation {
        Notation::Tnetstring => {
            out.push(b'T');
            tnetstring::encode(out, value);
        }
        Notation::Json => {
            out.push(b'J');
            out.extend_from_slice(value.to_json().to_string().as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::map;

    #[test]
    fn decodes_three_notations() {
        let value = map([("a", Value::from("b"))]);
        for (payload, notation) in [
            (&b"8:1:a,1:b,}"[..], Notation::Tnetstring),
            (b"T8:1:a,1:b,}", Notation::Tnetstring),
            (b"J {\"a\": \"b\"}", Notation::Json),
        ] {
            assert_eq!(
                decode(payload).expect("a known notation"),
                (value.clone(), notation)
            );
        }
        for bad in [&b""[..], b"{}", b"J", b"Jx", b"T", b"Tx", b"1", b"\xff"] {
            assert!(decode(bad).is_err(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn payloads_round_trip() {
        let value = map([("a", Value::List(vec![Value::Integer(1), Value::Null]))]);
        for notation in [Notation::Tnetstring, Notation::Json] {
            let mut out = Vec::new();
            encode(&mut out, &value, notation);
            assert_eq!(
                decode(&out).expect("own payload"),
                (value.clone(), notation)
            );
        }
    }
}
