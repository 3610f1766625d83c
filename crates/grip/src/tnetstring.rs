//! Tnetstrings, the format of Pushpin's ZeroMQ sockets. A tnetstring is `LENGTH:DATA` and a type letter.
//!
//! Each length is checked before nested data is read, so a parser never copies more than it received. [`DEPTH_MAX`]
//! limits the recursion.

use crate::value::Value;

/// Maximum nesting of lists and objects.
pub const DEPTH_MAX: usize = 64;
/// Maximum number of digits in a length; no message has room for more.
const LENGTH_DIGITS_MAX: usize = 9;

/// Reason why bytes are not a tnetstring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TnetstringError {
    /// The length is missing, too long, not decimal, or has a leading zero.
    #[error("a tnetstring begins with no length of 1 to 9 digits and a colon")]
    Length,
    /// The data is shorter than its stated length.
    #[error("a tnetstring is shorter than its length says")]
    Truncated,
    /// The type letter is unknown.
    #[error("a tnetstring ends in an unknown type letter; known are , # ^ ! ~ }} ]")]
    Type,
    /// The data does not fit the letter.
    #[error("the data of a tnetstring does not fit its type letter")]
    Data,
    /// Lists or objects are nested too deeply.
    #[error("a tnetstring is nested deeper than {DEPTH_MAX}")]
    Depth,
    /// Bytes follow the value.
    #[error("bytes follow the tnetstring")]
    Rest,
}

/// Decodes exactly one value.
///
/// # Errors
/// The bytes are not a tnetstring.
pub fn decode(bytes: &[u8]) -> Result<Value, TnetstringError> {
    match decode_front(bytes, 0)? {
        (value, []) => Ok(value),
        _ => Err(TnetstringError::Rest),
    }
}

/// Appends a value.
pub fn encode(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"0:~"),
        Value::Bool(true) => out.extend_from_slice(b"4:true!"),
        Value::Bool(false) => out.extend_from_slice(b"5:false!"),
        Value::Integer(number) => wrap(out, number.to_string().as_bytes(), b'#'),
        Value::Float(number) => wrap(out, format!("{number:?}").as_bytes(), b'^'),
        Value::Bytes(bytes) => wrap(out, bytes, b','),
        Value::List(values) => {
            let mut inner = Vec::new();
            for value in values {
                encode(&mut inner, value);
            }
            wrap(out, &inner, b']');
        }
        Value::Map(entries) => {
            let mut inner = Vec::new();
            for (name, value) in entries {
                wrap(&mut inner, name, b',');
                encode(&mut inner, value);
            }
            wrap(out, &inner, b'}');
        }
    }
}

fn wrap(out: &mut Vec<u8>, data: &[u8], letter: u8) {
    out.extend_from_slice(data.len().to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(data);
    out.push(letter);
}

fn decode_front(bytes: &[u8], depth: usize) -> Result<(Value, &[u8]), TnetstringError> {
    // Each level is a recursive call, so the limit bounds the stack.
    if depth > DEPTH_MAX {
        return Err(TnetstringError::Depth);
    }
    let (letter, data, rest) = split(bytes)?;
    let value = match letter {
        b',' => Value::Bytes(data.to_vec()),
        b'#' => Value::Integer(number(data)?),
        b'^' => Value::Float(number(data)?),
        b'!' => match data {
            b"true" => Value::Bool(true),
            b"false" => Value::Bool(false),
            _ => return Err(TnetstringError::Data),
        },
        b'~' if data.is_empty() => Value::Null,
        b'~' => return Err(TnetstringError::Data),
        b']' => {
            let (mut values, mut data) = (Vec::new(), data);
            while !data.is_empty() {
                let (value, rest) = decode_front(data, depth + 1)?;
                values.push(value);
                data = rest;
            }
            Value::List(values)
        }
        b'}' => {
            let (mut entries, mut data) = (Vec::new(), data);
            while !data.is_empty() {
                let (b',', name, rest) = split(data)? else {
                    return Err(TnetstringError::Data);
                };
                let (value, rest) = decode_front(rest, depth + 1)?;
                entries.push((name.to_vec(), value));
                data = rest;
            }
            Value::Map(entries)
        }
        _ => return Err(TnetstringError::Type),
    };
    Ok((value, rest))
}

/// Returns the type letter and the data of the first value, and the bytes after it.
fn split(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), TnetstringError> {
    let digits = bytes
        .iter()
        .take(LENGTH_DIGITS_MAX + 1)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if !(1..=LENGTH_DIGITS_MAX).contains(&digits)
        || bytes.get(digits).is_some_and(|&byte| byte != b':')
        || (digits > 1 && bytes[0] == b'0')
    {
        return Err(TnetstringError::Length);
    }
    let len = bytes[..digits]
        .iter()
        .fold(0, |len, digit| len * 10 + usize::from(digit - b'0'));
    let data = bytes.get(digits + 1..).ok_or(TnetstringError::Truncated)?;
    let (data, rest) = data
        .split_at_checked(len)
        .ok_or(TnetstringError::Truncated)?;
    let (&letter, rest) = rest.split_first().ok_or(TnetstringError::Truncated)?;
    Ok((letter, data, rest))
}

fn number<T: std::str::FromStr>(data: &[u8]) -> Result<T, TnetstringError> {
    std::str::from_utf8(data)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(TnetstringError::Data)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::map;

    #[test]
    fn every_type_has_its_letter() {
        for (text, value) in [
            (&b"0:~"[..], Value::Null),
            (b"4:true!", Value::Bool(true)),
            (b"5:false!", Value::Bool(false)),
            (b"2:-7#", Value::Integer(-7)),
            (b"3:1.5^", Value::Float(1.5)),
            (b"5:a\0\xffbc,", Value::Bytes(b"a\0\xffbc".to_vec())),
            (b"0:]", Value::List(Vec::new())),
            (b"0:}", Value::Map(Vec::new())),
            (
                b"12:1:a,2:12#0:~]",
                Value::List(vec![Value::from("a"), Value::Integer(12), Value::Null]),
            ),
            (b"8:1:a,1:1#}", map([("a", Value::Integer(1))])),
        ] {
            assert_eq!(decode(text), Ok(value.clone()), "{}", text.escape_ascii());
            let mut out = Vec::new();
            encode(&mut out, &value);
            assert_eq!(out, text);
        }
    }

    #[test]
    fn reports_every_kind_of_error() {
        let mut deep = b"0:]".to_vec();
        for _ in 0..=DEPTH_MAX {
            let mut outer = Vec::new();
            wrap(&mut outer, &deep, b']');
            deep = outer;
        }
        for (text, error) in [
            (&b""[..], TnetstringError::Length),
            (b"a", TnetstringError::Length),
            (b":,", TnetstringError::Length),
            (b"01:a,", TnetstringError::Length),
            (b"9999999999:", TnetstringError::Length),
            (b"1", TnetstringError::Truncated),
            (b"1:", TnetstringError::Truncated),
            (b"1:a", TnetstringError::Truncated),
            (b"999999999:a,", TnetstringError::Truncated),
            (b"1:a?", TnetstringError::Type),
            (b"1:a#", TnetstringError::Data),
            (b"3:yes!", TnetstringError::Data),
            (b"1:a~", TnetstringError::Data),
            (b"8:1:1#1:1#}", TnetstringError::Data),
            (b"1:a,x", TnetstringError::Rest),
            (&deep, TnetstringError::Depth),
        ] {
            assert_eq!(decode(text), Err(error), "{}", text.escape_ascii());
        }
    }

    pub(crate) fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Integer),
            prop::num::f64::NORMAL.prop_map(Value::Float),
            prop::collection::vec(any::<u8>(), 0..20).prop_map(Value::Bytes),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
                prop::collection::vec((prop::collection::vec(any::<u8>(), 0..8), inner), 0..6)
                    .prop_map(Value::Map),
            ]
        })
    }

    proptest! {
        #[test]
        fn tnetstrings_round_trip(value in values()) {
            let mut out = Vec::new();
            encode(&mut out, &value);
            prop_assert_eq!(decode(&out), Ok(value));
            prop_assert!(decode(&out[..out.len() - 1]).is_err());
        }
    }
}
