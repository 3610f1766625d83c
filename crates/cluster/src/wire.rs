//! The client protocol of NATS: a parser of operations that servers send, and an encoder of messages.
//!
//! <https://docs.nats.io/reference/reference-protocols/nats-protocol>

use thiserror::Error;

use crate::decimal;

/// Maximum length of a line. `INFO` names all servers of a large cluster.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of a message with headers in bytes. This is the limit of NATS itself.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// An operation of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// `INFO`: JSON about the server.
    Info(&'a [u8]),
    /// A message for a subscription.
    Message(Message<'a>),
    /// `PING`, to be answered by `PONG`.
    Ping,
    /// `PONG`, the response to our `PING`.
    Pong,
    /// `+OK`, sent to verbose clients.
    Ok,
    /// `-ERR`, with its text.
    Error(&'a [u8]),
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Subject to which the message was published.
    pub subject: &'a [u8],
    /// Number of the subscription that the message matches.
    pub sid: u64,
    /// Subject to which responses are sent.
    pub reply: Option<&'a [u8]>,
    /// `NATS/1.0`, an optional status, and headers, with all line ends; empty without headers.
    pub head: &'a [u8],
    /// Content.
    pub payload: &'a [u8],
}

/// A violation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// A line exceeds its maximum length.
    #[error("a line of the NATS protocol is longer than {LINE_BYTES_MAX} bytes")]
    LineTooLong,
    /// A message exceeds its maximum size.
    #[error("a message has more than {MESSAGE_BYTES_MAX} bytes")]
    MessageTooLong,
    /// Any other violation.
    #[error("this is not the NATS protocol")]
    Malformed,
}

/// Parses the first operation of `input`. Returns the operation and its length, or `None` if the operation is incomplete.
///
/// # Errors
/// [`WireError`]: the connection cannot continue.
pub fn parse(input: &[u8]) -> Result<Option<(Operation<'_>, usize)>, WireError> {
    let looked_at = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some((line, taken)) = line(looked_at) else {
        return if looked_at.len() < LINE_BYTES_MAX {
            Ok(None)
        } else {
            Err(WireError::LineTooLong)
        };
    };
    let verb_len = line
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t'))
        .unwrap_or(line.len());
    let (verb, rest) = line.split_at(verb_len);
    let rest = rest.trim_ascii();
    let is = |other: &[u8]| verb.eq_ignore_ascii_case(other);
    // Check the most frequent operations first.
    if is(b"HMSG") {
        return message(rest, taken, input, true);
    }
    if is(b"MSG") {
        return message(rest, taken, input, false);
    }
    let operation = match () {
        () if is(b"INFO") => Operation::Info(rest),
        () if is(b"PING") => Operation::Ping,
        () if is(b"PONG") => Operation::Pong,
        () if is(b"+OK") => Operation::Ok,
        () if is(b"-ERR") => Operation::Error(rest),
        () => return Err(WireError::Malformed),
    };
    Ok(Some((operation, taken)))
}

/// Parses `subject sid [reply] [head bytes] bytes`, and the content after this line.
fn message<'a>(
    line: &'a [u8],
    line_taken: usize,
    input: &'a [u8],
    has_head: bool,
) -> Result<Option<(Operation<'a>, usize)>, WireError> {
    let mut fields = [&line[..0]; 5];
    let mut count = 0;
    for field in line
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|field| !field.is_empty())
    {
        *fields.get_mut(count).ok_or(WireError::Malformed)? = field;
        count += 1;
    }
    let sizes = if has_head { 2 } else { 1 };
    let reply = match count.checked_sub(2 + sizes) {
        Some(0) => None,
        Some(1) => Some(fields[2]),
        _ => return Err(WireError::Malformed),
    };
    let total = number(fields[count - 1])?;
    let head_len = if has_head {
        number(fields[count - 2])?
    } else {
        0
    };
    if total > MESSAGE_BYTES_MAX {
        return Err(WireError::MessageTooLong);
    }
    if head_len > total {
        return Err(WireError::Malformed);
    }
    // The message has not arrived completely.
    let Some(content) = input.get(line_taken..line_taken + total + 2) else {
        return Ok(None);
    };
    if !content.ends_with(b"\r\n") {
        return Err(WireError::Malformed);
    }
    let (head, payload) = content[..total].split_at(head_len);
    let message = Message {
        subject: fields[0],
        sid: number(fields[1])? as u64,
        reply,
        head,
        payload,
    };
    Ok(Some((Operation::Message(message), line_taken + total + 2)))
}

/// Returns the first line, and its length including the line end.
fn line(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', input)?;
    let line = &input[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

fn number(digits: &[u8]) -> Result<usize, WireError> {
    let number = decimal::read(digits).and_then(|number| usize::try_from(number).ok());
    number.ok_or(WireError::Malformed)
}

impl<'a> Message<'a> {
    /// Returns the status and the text of a message that the server itself sends, such as `100 Idle Heartbeat`.
    pub fn status(&self) -> Option<(u16, &'a [u8])> {
        let (line, _) = line(self.head)?;
        let rest = line.strip_prefix(b"NATS/1.0")?.trim_ascii();
        let code = std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok()?;
        Some((code, rest[3..].trim_ascii()))
    }

    /// Returns the value of a header, without the colon and without one space.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let [value] = self.headers([name]);
        value
    }

    /// Returns the values of several headers, found in one pass.
    pub fn headers<const LEN: usize>(&self, names: [&str; LEN]) -> [Option<&'a [u8]>; LEN] {
        let mut values = [None; LEN];
        let mut rest = self.head;
        while let Some((line, taken)) = line(rest) {
            rest = &rest[taken..];
            for (name, found) in names.iter().zip(&mut values) {
                if found.is_none()
                    && line.get(name.len()) == Some(&b':')
                    && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
                {
                    let value = &line[name.len() + 1..];
                    *found = Some(value.strip_prefix(b" ").unwrap_or(value));
                }
            }
        }
        values
    }
}

/// Appends a `HPUB`, or a `PUB` if there are no headers.
pub(crate) fn publish<'a>(
    out: &mut Vec<u8>,
    subject: &[u8],
    reply: Option<&[u8]>,
    headers: impl IntoIterator<Item = (&'a str, &'a [u8])> + Clone,
    payload: &[u8],
) {
    // Per header a colon, a space and the line end.
    let headers_len: usize = headers
        .clone()
        .into_iter()
        .map(|(name, value)| name.len() + value.len() + 4)
        .sum();
    let head_len = match headers_len {
        0 => 0,
        len => VERSION.len() + len + 2,
    };
    out.extend_from_slice(if head_len == 0 { b"PUB " } else { b"HPUB " });
    out.extend_from_slice(subject);
    out.push(b' ');
    if let Some(reply) = reply {
        out.extend_from_slice(reply);
        out.push(b' ');
    }
    let mut digits = [0; decimal::DIGITS_MAX];
    if head_len > 0 {
        out.extend_from_slice(decimal::write(head_len as u64, &mut digits));
        out.push(b' ');
    }
    let len = (head_len + payload.len()) as u64;
    out.extend_from_slice(decimal::write(len, &mut digits));
    out.extend_from_slice(b"\r\n");
    if head_len > 0 {
        out.extend_from_slice(VERSION);
        for (name, value) in headers {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

/// First line of a head.
const VERSION: &[u8] = b"NATS/1.0\r\n";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn publish_has_the_documented_form() {
        let mut out = Vec::new();
        let headers = [("Nats-Msg-Id", &b"a1"[..])];
        publish(
            &mut out,
            b"fermata.c.room7",
            Some(b"_INBOX.x"),
            headers,
            b"hello",
        );
        let expected =
            "HPUB fermata.c.room7 _INBOX.x 29 34\r\nNATS/1.0\r\nNats-Msg-Id: a1\r\n\r\nhello\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        out.clear();
        publish(&mut out, b"a", None, [], b"");
        assert_eq!(out, b"PUB a 0\r\n\r\n");
    }

    #[test]
    fn parses_message_with_headers_at_any_split() {
        let text = b"HMSG a.b 1 r.x 48 53\r\nNATS/1.0 100 Idle\r\nA: b c\r\nFermata-Name:  x \r\n\r\nhello\r\nPING\r\n";
        let head_len = text.len() - b"HMSG a.b 1 r.x 48 53\r\n".len() - b"hello\r\nPING\r\n".len();
        let fixed = String::from_utf8_lossy(text)
            .replace("48 53", &format!("{} {}", head_len, head_len + 5));
        let text = fixed.as_bytes();
        let whole = text.len() - b"PING\r\n".len();
        for end in 0..whole {
            assert_eq!(parse(&text[..end]), Ok(None), "{end}");
        }
        let (operation, taken) = parse(text).unwrap().unwrap();
        assert_eq!(taken, whole);
        let Operation::Message(message) = operation else {
            panic!("{operation:?}");
        };
        assert_eq!(
            (message.subject, message.reply),
            (&b"a.b"[..], Some(&b"r.x"[..]))
        );
        assert_eq!(message.payload, b"hello");
        assert_eq!(message.status(), Some((100, &b"Idle"[..])));
        assert_eq!(message.header("a"), Some(&b"b c"[..]));
        assert_eq!(message.header("fermata-name"), Some(&b" x "[..]));
        assert_eq!(message.header("b"), None);
        assert_eq!(parse(&text[whole..]), Ok(Some((Operation::Ping, 6))));
    }

    #[test]
    fn rejects_other_protocols() {
        for (text, error) in [
            (&b"HTTP/1.1 400 Bad Request\r\n"[..], WireError::Malformed),
            (b"MSG a 1\r\n", WireError::Malformed),
            (b"MSG a 1 r 1 1 1\r\n", WireError::Malformed),
            (b"MSG a 1 +1\r\n", WireError::Malformed),
            (b"HMSG a 1 9 8\r\n", WireError::Malformed),
            (b"MSG a 1 1\r\nabc", WireError::Malformed),
            (b"MSG a 1 99999999999\r\n", WireError::MessageTooLong),
            (&[b'x'; LINE_BYTES_MAX], WireError::LineTooLong),
        ] {
            assert_eq!(
                parse(text),
                Err(error),
                "{}",
                String::from_utf8_lossy(&text[..text.len().min(40)])
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_handled(text in "(MSG|HMSG|INFO|-ERR|PING) ?[ -~]{0,20}\r\n[ -~\r\n]{0,20}") {
            if let Ok(Some((operation, taken))) = parse(text.as_bytes()) {
                prop_assert!(taken <= text.len());
                if let Operation::Message(message) = operation {
                    let _ = (message.status(), message.header("a"));
                }
            }
        }
    }
}
