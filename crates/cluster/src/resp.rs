//! RESP3, the protocol of Redis: an encoder of commands, and a parser of replies and pushed messages.
//!
//! <https://github.com/redis/redis-specifications/blob/master/protocol/RESP3.md>

use thiserror::Error;

/// Maximum length of a string. An event's data has at most 16 MiB.
const BULK_BYTES_MAX: usize = 32 << 20;
/// Maximum number of elements of an array, and maximum nesting.
const ELEMENTS_MAX: usize = 1 << 16;
const DEPTH_MAX: usize = 8;
/// Maximum length of a line.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// A reply, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Text(&'a [u8]),
    Error(&'a [u8]),
    Number(i64),
    Null,
    /// An array, a set, or a map as alternating keys and values.
    Array(Vec<Value<'a>>),
    /// A pushed message, which is not the reply to a command.
    Push(Vec<Value<'a>>),
}

/// A violation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum RespError {
    #[error("the server does not speak RESP3, the protocol of Redis 6 and later")]
    Malformed,
    #[error("the server sends more than was asked for")]
    TooLong,
}

impl<'a> Value<'a> {
    pub fn as_text(&self) -> Option<&'a [u8]> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a number or of a string of digits.
    pub fn as_number(&self) -> Option<u64> {
        match self {
            Value::Number(number) => u64::try_from(*number).ok(),
            Value::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&[Value<'a>]> {
        match self {
            Value::Array(values) => Some(values),
            _ => None,
        }
    }
}

/// Parses the first value. Returns the value and its length, or `None` if the value is incomplete.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Value<'_>, usize)>, RespError> {
    let mut at = 0;
    let value = read(bytes, &mut at, 0)?;
    Ok(value.map(|value| (value, at)))
}

fn read<'a>(bytes: &'a [u8], at: &mut usize, depth: usize) -> Result<Option<Value<'a>>, RespError> {
    let Some((kind, line)) = read_line(bytes, at)? else {
        return Ok(None);
    };
    Ok(Some(match kind {
        b'+' | b'(' | b',' => Value::Text(line),
        b'-' => Value::Error(line),
        b':' => Value::Number(number(line)?),
        b'#' => Value::Number(i64::from(line == b"t")),
        b'_' => Value::Null,
        b'$' | b'=' | b'!' => {
            let Some(len) = length(line, BULK_BYTES_MAX)? else {
                return Ok(Some(Value::Null));
            };
            // The string has not arrived completely.
            let Some(text) = bytes.get(*at..*at + len + 2) else {
                return Ok(None);
            };
            let Some(text) = text.strip_suffix(b"\r\n") else {
                return Err(RespError::Malformed);
            };
            *at += len + 2;
            match kind {
                b'!' => Value::Error(text),
                _ => Value::Text(text),
            }
        }
        b'*' | b'~' | b'%' | b'>' => {
            let Some(len) = length(line, ELEMENTS_MAX)? else {
                return Ok(Some(Value::Null));
            };
            // Each level is a recursive call, so the limit bounds the stack.
            if depth == DEPTH_MAX {
                return Err(RespError::TooLong);
            }
            let len = if kind == b'%' { len * 2 } else { len };
            let mut values = Vec::new();
            for _ in 0..len {
                match read(bytes, at, depth + 1)? {
                    Some(value) => values.push(value),
                    None => return Ok(None),
                }
            }
            match kind {
                b'>' => Value::Push(values),
                _ => Value::Array(values),
            }
        }
        _ => return Err(RespError::Malformed),
    }))
}

fn read_line<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<(u8, &'a [u8])>, RespError> {
    let rest = bytes.get(*at..).unwrap_or_default();
    let view = &rest[..rest.len().min(LINE_BYTES_MAX)];
    let Some(end) = view.windows(2).position(|two| two == b"\r\n") else {
        return match view.len() {
            LINE_BYTES_MAX => Err(RespError::TooLong),
            _ => Ok(None),
        };
    };
    let Some((kind, line)) = rest[..end].split_first() else {
        return Err(RespError::Malformed);
    };
    *at += end + 2;
    Ok(Some((*kind, line)))
}

fn number(line: &[u8]) -> Result<i64, RespError> {
    let text = std::str::from_utf8(line).map_err(|_| RespError::Malformed)?;
    text.parse().map_err(|_| RespError::Malformed)
}

/// Parses a length. Returns `None` for -1, which is the null value of RESP2.
fn length(line: &[u8], max: usize) -> Result<Option<usize>, RespError> {
    match number(line)? {
        -1 => Ok(None),
        len => match usize::try_from(len) {
            Ok(len) if len <= max => Ok(Some(len)),
            Ok(_) => Err(RespError::TooLong),
            Err(_) => Err(RespError::Malformed),
        },
    }
}

/// Appends the head of a command with `arguments` arguments; [`argument`] appends each of them.
pub(crate) fn begin(out: &mut Vec<u8>, arguments: usize) {
    out.extend_from_slice(format!("*{arguments}\r\n").as_bytes());
}

/// Appends an argument.
pub(crate) fn argument(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'$');
    out.extend_from_slice(text.len().to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Appends a command.
pub(crate) fn command(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    begin(out, arguments.len());
    for text in arguments {
        argument(out, text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_values_at_any_split() {
        let text = b"*5\r\n:7\r\n$5\r\nhe\r\no\r\n_\r\n%1\r\n+a\r\n#t\r\n>2\r\n+message\r\n$-1\r\n-ERR no\r\n";
        let whole = text.len() - b"-ERR no\r\n".len();
        for end in 0..whole {
            assert_eq!(parse(&text[..end]), Ok(None), "{end}");
        }
        let expected = Value::Array(vec![
            Value::Number(7),
            Value::Text(b"he\r\no"),
            Value::Null,
            Value::Array(vec![Value::Text(b"a"), Value::Number(1)]),
            Value::Push(vec![Value::Text(b"message"), Value::Null]),
        ]);
        assert_eq!(parse(text), Ok(Some((expected, whole))));
        assert_eq!(
            parse(&text[whole..]),
            Ok(Some((Value::Error(b"ERR no"), 9)))
        );
    }

    #[test]
    fn rejects_other_protocols() {
        for text in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"$2\r\nabcd",
            b"$-2\r\n",
            b":x\r\n",
            b"\r\n",
        ] {
            assert_eq!(parse(text), Err(RespError::Malformed));
        }
        assert_eq!(parse(b"$999999999999\r\n"), Err(RespError::TooLong));
        assert_eq!(parse(&b"*1\r\n".repeat(20)), Err(RespError::TooLong));
    }

    proptest! {
        #[test]
        fn commands_are_read_as_they_were_written(
            arguments in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..10),
        ) {
            let mut out = Vec::new();
            let texts: Vec<&[u8]> = arguments.iter().map(|it| &it[..]).collect();
            command(&mut out, &texts);
            let expected = Value::Array(texts.into_iter().map(Value::Text).collect());
            prop_assert_eq!(parse(&out), Ok(Some((expected, out.len()))));
        }

        #[test]
        fn any_bytes_are_handled(text in "[*$:+_%>-]-?[0-9a]{0,3}\r\n[ -~\r\n]{0,20}") {
            if let Ok(Some((_, taken))) = parse(text.as_bytes()) {
                prop_assert!(taken <= text.len());
            }
        }
    }
}
