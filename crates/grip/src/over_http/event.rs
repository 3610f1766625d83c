//! Events of WebSocket over HTTP, written as `TYPE SIZE CRLF CONTENT CRLF`, or as `TYPE CRLF` without content.

/// Maximum length of the line with type and size, in bytes.
pub const LINE_BYTES_MAX: usize = 128;

/// An event of a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The WebSocket is open. This is the first event of the first request and of its response.
    Open,
    /// A text message.
    Text(Vec<u8>),
    /// A binary message.
    Binary(Vec<u8>),
    /// A ping frame.
    Ping(Vec<u8>),
    /// A pong frame.
    Pong(Vec<u8>),
    /// The closing handshake, with a code and a UTF-8 reason, or with neither.
    Close(Option<(u16, Vec<u8>)>),
    /// The WebSocket was closed without a closing handshake.
    Disconnect,
}

impl Event {
    /// Returns the content that `Content-Bytes-Accepted` counts. A close has no such content, because it is accepted together with
    /// the data before it.
    pub fn content(&self) -> &[u8] {
        match self {
            Self::Text(content)
            | Self::Binary(content)
            | Self::Ping(content)
            | Self::Pong(content) => content,
            Self::Open | Self::Close(_) | Self::Disconnect => &[],
        }
    }
}

/// Reason why a body of events is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// A line has no end, or is too long.
    #[error("a line of the body is not TYPE CRLF or TYPE SIZE CRLF")]
    Line,
    /// A size is not hexadecimal.
    #[error("the size of an event is not a hexadecimal number")]
    Size,
    /// The content of an event is shorter than its stated size.
    #[error("an event has less content than its size says; sizes are in hexadecimal")]
    Truncated,
    /// The content of an event is longer than its stated size.
    #[error("no CRLF follows the content of an event; sizes are in hexadecimal")]
    End,
    /// A close event has one byte of content.
    #[error("a CLOSE has a content of one byte; give a two-byte code and a reason, or nothing")]
    Close,
}

/// Decodes all events of a body. Events of unknown types, which newer peers may send, are skipped.
///
/// # Errors
/// An event is invalid. The entire body is refused, because earlier events may be wrong too.
pub fn decode(body: &[u8]) -> Result<Vec<Event>, EventError> {
    let (mut events, mut rest) = (Vec::new(), body);
    while !rest.is_empty() {
        let line = rest[..rest.len().min(LINE_BYTES_MAX)]
            .windows(2)
            .position(|pair| pair == b"\r\n");
        let end = line.ok_or(EventError::Line)?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        let (name, content) = match line.iter().position(|&byte| byte == b' ') {
            None => (line, &[][..]),
            Some(at) => {
                let len = size(line[at + 1..].trim_ascii())?;
                let (content, after) = rest.split_at_checked(len).ok_or(EventError::Truncated)?;
                // Some hand-written backends omit the last line end.
                rest = match after.strip_prefix(b"\r\n") {
                    Some(after) => after,
                    None if after.is_empty() => after,
                    None => return Err(EventError::End),
                };
                (&line[..at], content)
            }
        };
        events.extend(event(name, content)?);
    }
    Ok(events)
}

/// Appends an event.
pub fn encode(out: &mut Vec<u8>, event: &Event) {
    let close;
    let (name, content) = match event {
        Event::Open => ("OPEN", &[][..]),
        Event::Text(content) => ("TEXT", &content[..]),
        Event::Binary(content) => ("BINARY", &content[..]),
        Event::Ping(content) => ("PING", &content[..]),
        Event::Pong(content) => ("PONG", &content[..]),
        Event::Close(Some((code, reason))) => {
            close = [&code.to_be_bytes()[..], reason].concat();
            ("CLOSE", &close[..])
        }
        Event::Close(None) => ("CLOSE", &[][..]),
        Event::Disconnect => ("DISCONNECT", &[][..]),
    };
    out.extend_from_slice(name.as_bytes());
    // Write a size for messages even if they are empty. Without a size, the event might be read as another kind of event.
    if !content.is_empty() || matches!(event, Event::Text(_) | Event::Binary(_)) {
        out.extend_from_slice(format!(" {:x}\r\n", content.len()).as_bytes());
        out.extend_from_slice(content);
    }
    out.extend_from_slice(b"\r\n");
}

/// Parses a hexadecimal size in upper or lower case, with or without `0x`. Backends send all of these forms.
fn size(text: &[u8]) -> Result<usize, EventError> {
    let digits = text
        .strip_prefix(b"0x")
        .or(text.strip_prefix(b"0X"))
        .unwrap_or(text);
    let is_plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    std::str::from_utf8(digits)
        .ok()
        .filter(|_| is_plain)
        .and_then(|digits| usize::from_str_radix(digits, 16).ok())
        .ok_or(EventError::Size)
}

fn event(name: &[u8], content: &[u8]) -> Result<Option<Event>, EventError> {
    Ok(Some(match name {
        b"OPEN" => Event::Open,
        b"TEXT" => Event::Text(content.to_vec()),
        b"BINARY" => Event::Binary(content.to_vec()),
        b"PING" => Event::Ping(content.to_vec()),
        b"PONG" => Event::Pong(content.to_vec()),
        b"DISCONNECT" => Event::Disconnect,
        b"CLOSE" => Event::Close(match content {
            [] => None,
            &[high, low, ref reason @ ..] => {
                Some((u16::from_be_bytes([high, low]), reason.to_vec()))
            }
            [_] => return Err(EventError::Close),
        }),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_bodies_of_real_backends() {
        for (body, expected) in [
            (&b""[..], vec![]),
            (b"OPEN\r\n", vec![Event::Open]),
            (
                b"OPEN\r\nTEXT 5\r\nhello\r\n",
                vec![Event::Open, Event::Text(b"hello".to_vec())],
            ),
            (
                b"TEXT 0x5\r\nhello\r\nTEXT 0X1\r\na\r\n",
                vec![Event::Text(b"hello".to_vec()), Event::Text(b"a".to_vec())],
            ),
            (
                b"TEXT A\r\n0123456789\r\nBINARY a\r\n0123456789\r\n",
                vec![
                    Event::Text(b"0123456789".to_vec()),
                    Event::Binary(b"0123456789".to_vec()),
                ],
            ),
            (b"TEXT 5\r\nhello", vec![Event::Text(b"hello".to_vec())]),
            (b"TEXT 2\r\n\r\n\r\n", vec![Event::Text(b"\r\n".to_vec())]),
            (
                b"TEXT\r\nTEXT 0\r\n\r\n",
                vec![Event::Text(Vec::new()), Event::Text(Vec::new())],
            ),
            (b"NEW 1\r\nx\r\nPING\r\n", vec![Event::Ping(Vec::new())]),
            (
                b"CLOSE\r\nCLOSE 5\r\n\x03\xe8bye\r\n",
                vec![
                    Event::Close(None),
                    Event::Close(Some((1000, b"bye".to_vec()))),
                ],
            ),
            (b"DISCONNECT\r\n", vec![Event::Disconnect]),
        ] {
            assert_eq!(decode(body), Ok(expected), "{}", body.escape_ascii());
        }
    }

    #[test]
    fn reports_every_kind_of_error() {
        for (body, error) in [
            (&b"OPEN"[..], EventError::Line),
            (b"OPEN\n", EventError::Line),
            (b"<html>", EventError::Line),
            (&[b'A'; 200], EventError::Line),
            (b"TEXT x\r\n", EventError::Size),
            (b"TEXT \r\n", EventError::Size),
            (b"TEXT +5\r\nhello\r\n", EventError::Size),
            (b"TEXT 0x\r\n", EventError::Size),
            (b"TEXT fffffffffffffffff\r\n", EventError::Size),
            (b"TEXT 10\r\nhello\r\n", EventError::Truncated),
            (b"TEXT 4\r\nhello\r\n", EventError::End),
            (b"CLOSE 1\r\n\x03\r\n", EventError::Close),
        ] {
            assert_eq!(decode(body), Err(error), "{}", body.escape_ascii());
        }
    }

    pub fn events() -> impl Strategy<Value = Event> {
        let content = || prop::collection::vec(any::<u8>(), 0..20);
        prop_oneof![
            Just(Event::Open),
            content().prop_map(Event::Text),
            content().prop_map(Event::Binary),
            content().prop_map(Event::Ping),
            content().prop_map(Event::Pong),
            Just(Event::Close(None)),
            (any::<u16>(), content()).prop_map(|close| Event::Close(Some(close))),
            Just(Event::Disconnect),
        ]
    }

    proptest! {
        #[test]
        fn events_round_trip(events in prop::collection::vec(events(), 0..6)) {
            let mut body = Vec::new();
            for event in &events {
                encode(&mut body, event);
            }
            prop_assert_eq!(decode(&body), Ok(events));
        }
    }
}
