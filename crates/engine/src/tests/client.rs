//! The client's side: parses responses and events.

use std::collections::HashMap;

/// A response as a client parses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
    /// The framing shows that the response is complete.
    pub is_whole: bool,
}

/// Parses all responses in `bytes`. `is_head` has one entry per request: true if it was HEAD.
/// Missing entries are false.
///
/// Panics if a status line is malformed: the tests check this.
pub fn answers(bytes: &[u8], is_head: &[bool]) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some(head_len) = rest.windows(4).position(|four| four == b"\r\n\r\n") else {
            break;
        };
        let head = std::str::from_utf8(&rest[..head_len]).expect("a head is text");
        let mut lines = head.split("\r\n");
        let status_line = lines.next().expect("split gives one item at least");
        assert!(
            status_line.starts_with("HTTP/1.1 "),
            "no status line: {status_line:?} after {} answers",
            answers.len()
        );
        let status: u16 = status_line[9..12].parse().expect("three digits");
        let headers: HashMap<String, String> = lines
            .map(|line| {
                let (name, value) = line.split_once(": ").expect("a field line");
                (name.to_ascii_lowercase(), value.to_owned())
            })
            .collect();
        rest = &rest[head_len + 4..];
        let without = is_head.get(answers.len()).copied().unwrap_or(false)
            || status < 200
            || status == 204
            || status == 304;
        let (body, is_whole) = if without {
            (Vec::new(), true)
        } else if headers
            .get("transfer-encoding")
            .is_some_and(|coding| coding == "chunked")
        {
            let (body, used, is_whole) = chunks(rest);
            rest = &rest[used..];
            (body, is_whole)
        } else if let Some(length) = headers.get("content-length") {
            let length: usize = length.parse().expect("digits");
            let there = length.min(rest.len());
            let body = rest[..there].to_vec();
            rest = &rest[there..];
            (body, there == length)
        } else {
            (std::mem::take(&mut rest).to_vec(), true)
        };
        answers.push(Answer {
            status,
            headers,
            body,
            is_whole,
        });
    }
    answers
}

/// Returns the payload of complete chunks, their encoded length, and true if the last chunk was
/// present.
fn chunks(bytes: &[u8]) -> (Vec<u8>, usize, bool) {
    let mut body = Vec::new();
    let mut at = 0;
    while let Some(end) = bytes[at..].windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&bytes[at..at + end]).expect("a chunk size is text");
        let size = usize::from_str_radix(size, 16)
            .unwrap_or_else(|_| panic!("no chunk size: {size:?} at {at}"));
        let start = at + end + 2;
        if bytes.len() < start + size + 2 {
            break;
        }
        assert_eq!(&bytes[start + size..start + size + 2], b"\r\n");
        body.extend_from_slice(&bytes[start..start + size]);
        at = start + size + 2;
        if size == 0 {
            return (body, at, true);
        }
    }
    (body, bytes.len(), false)
}

/// A dispatched event, or an event that only changed the last event id (`data` is `None`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub id: Option<String>,
    pub name: Option<String>,
    pub data: Option<String>,
}

/// Returns the events of the one stream in `bytes`, without comments.
pub fn events(bytes: &[u8]) -> Vec<Received> {
    let all = answers(bytes, &[]);
    let stream = all.last().expect("a response");
    assert_eq!(stream.status, 200);
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    let text = std::str::from_utf8(&stream.body).expect("events are text");
    let blocks = text.split_inclusive("\n\n");
    blocks
        .filter(|block| block.ends_with("\n\n"))
        .filter_map(|block| {
            let field = |name: &str| {
                let lines: Vec<&str> = block
                    .lines()
                    .filter_map(|line| line.strip_prefix(name))
                    .collect();
                (!lines.is_empty()).then(|| lines.join("\n"))
            };
            let received = Received {
                id: field("id: "),
                name: field("event: "),
                data: field("data: "),
            };
            (received.id.is_some() || received.data.is_some()).then_some(received)
        })
        .collect()
}

/// Returns the data of unnamed messages.
pub fn data(bytes: &[u8]) -> Vec<String> {
    events(bytes)
        .into_iter()
        .filter(|event| event.name.is_none())
        .filter_map(|event| event.data)
        .collect()
}

/// Returns the last event id that a browser would send when it reconnects.
pub fn last_id(bytes: &[u8]) -> String {
    events(bytes)
        .into_iter()
        .filter_map(|event| event.id)
        .next_back()
        .expect("at least the position")
}
