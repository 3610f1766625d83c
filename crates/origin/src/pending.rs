//! Items for an edge, and their grouping into requests.

use std::collections::VecDeque;
use std::ops::Range;

use fermata_grip::encoding::to_base64;
use serde_json::{Map, Value, json};

/// Maximum number of items in one request: half of Pushpin's limit.
pub(crate) const BATCH_ITEMS_MAX: usize = 100;
/// Content size in bytes at which no further item is added to a request: half of Pushpin's limit.
const BATCH_BYTES_MAX: usize = 400_000;
/// Minimum number of items that are read from the source, whatever their size. With a second item, the publisher can test
/// whether the edge refuses only the first one.
const ITEMS_MIN: usize = 2;

/// A published item.
pub struct Item {
    /// Position of the item in the source. Positions ascend.
    pub place: u64,
    /// Name of the channel.
    pub channel: String,
    /// Its id.
    pub id: String,
    /// Id of the channel's preceding item. `None`: the id is unknown.
    pub previous: Option<String>,
    /// Content for event streams.
    pub stream: Vec<u8>,
    /// Content for long polls and WebSockets. `None`: long polls and WebSockets receive nothing.
    pub message: Option<Vec<u8>>,
}

#[derive(Default)]
pub(crate) struct Pending {
    items: Vec<Value>,
    /// Position in the source, and content size in bytes, of each item.
    marks: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl Pending {
    pub fn push(&mut self, item: Item) {
        let bytes = item.stream.len() + item.message.as_ref().map_or(0, Vec::len);
        self.marks.push_back((item.place, bytes));
        self.bytes += bytes;
        self.items.push(to_json(item));
    }

    /// Removes completed items. Returns the position of the last removed item.
    pub fn remove(&mut self, range: Range<usize>) -> u64 {
        self.items.drain(range.clone());
        let removed: Vec<_> = self.marks.drain(range).collect();
        self.bytes -= removed.iter().map(|(_, bytes)| bytes).sum::<usize>();
        removed.last().map_or(0, |(place, _)| *place)
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn wants_more(&self) -> bool {
        let len = self.items.len();
        len < ITEMS_MIN || len < BATCH_ITEMS_MAX && self.bytes < BATCH_BYTES_MAX
    }

    /// Returns the number of items at the start of the queue that fit into one request.
    pub fn batch_len(&self) -> usize {
        let mut bytes = 0;
        let fits = self.marks.iter().take_while(|(_, size)| {
            let fits = bytes < BATCH_BYTES_MAX;
            bytes += size;
            fits
        });
        fits.count()
    }

    pub fn items(&self, range: Range<usize>) -> &[Value] {
        &self.items[range]
    }
}

fn to_json(item: Item) -> Value {
    let mut formats = Map::new();
    if let Some(message) = item.message {
        formats.insert("http-response".into(), content("body", message.clone()));
        formats.insert("ws-message".into(), content("content", message));
    }
    formats.insert("http-stream".into(), content("content", item.stream));
    let mut value = json!({ "channel": item.channel, "id": item.id, "formats": formats });
    if let Some(previous) = item.previous {
        value["prev-id"] = previous.into();
    }
    value
}

/// Returns a format with this content. Bytes that are not UTF-8 are base64 under `NAME-bin`, because JSON cannot
/// represent them.
fn content(name: &str, bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => json!({ name: text }),
        Err(error) => json!({ format!("{name}-bin"): to_base64(error.as_bytes()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(place: u64, stream: &[u8], message: Option<&[u8]>) -> Item {
        Item {
            place,
            channel: "c".into(),
            id: place.to_string(),
            previous: None,
            stream: stream.to_vec(),
            message: message.map(<[u8]>::to_vec),
        }
    }

    #[test]
    fn batch_is_bounded_and_has_two_items_if_possible() {
        let mut pending = Pending::default();
        let mut place = 0;
        while pending.wants_more() {
            place += 1;
            pending.push(item(place, b"x", None));
        }
        assert_eq!((pending.len(), pending.batch_len()), (100, 100));
        assert_eq!(pending.remove(0..100), 100);
        let large = vec![b'x'; BATCH_BYTES_MAX];
        for place in 1..=2 {
            assert!(pending.wants_more());
            pending.push(item(place, &large, None));
        }
        assert!(!pending.wants_more());
        assert_eq!(pending.batch_len(), 1);
        assert_eq!((pending.remove(1..2), pending.remove(0..1)), (2, 1));
        assert!(pending.is_empty() && pending.bytes == 0);
    }

    #[test]
    fn encodes_binary_content_as_base64() {
        let mut pending = Pending::default();
        pending.push(item(1, b"data: \xff\n\n", Some(b"\xff")));
        pending.push(item(
            2,
            "data: \u{e9}\n\n".as_bytes(),
            Some("\u{e9}".as_bytes()),
        ));
        let formats = |at: usize| &pending.items[at]["formats"];
        assert_eq!(
            *formats(0),
            json!({
                "http-stream": { "content-bin": "ZGF0YTog/woK" },
                "http-response": { "body-bin": "/w==" },
                "ws-message": { "content-bin": "/w==" },
            })
        );
        assert_eq!(
            *formats(1),
            json!({
                "http-stream": { "content": "data: \u{e9}\n\n" },
                "http-response": { "body": "\u{e9}" },
                "ws-message": { "content": "\u{e9}" },
            })
        );
    }
}
