//! Items on their way to an edge, and how many of them are sent at once.

use std::collections::VecDeque;
use std::ops::Range;

use fermata_grip::encoding::to_base64;
use serde_json::{Map, Value, json};

/// Items of one request at most, and bytes of their content after which no more is added: half of what Pushpin takes.
pub(crate) const BATCH_ITEMS_MAX: usize = 100;
const BATCH_BYTES_MAX: usize = 400_000;
/// So many are there whatever their size: by the second one is seen whether the edge refuses the first alone.
const ITEMS_MIN: usize = 2;

/// Something that was published.
pub struct Item {
    /// Where it stands in the source; the next one has a larger number.
    pub place: u64,
    /// The channel's name.
    pub channel: String,
    /// Its id.
    pub id: String,
    /// The id of the channel's item before it, if that is known.
    pub previous: Option<String>,
    /// What event streams get.
    pub stream: Vec<u8>,
    /// What long polls and WebSockets get, if anything.
    pub message: Option<Vec<u8>>,
}

#[derive(Default)]
pub(crate) struct Pending {
    items: Vec<Value>,
    /// Place and bytes of each.
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

    /// Takes away items that are done with; the place of the last of them.
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

    /// How many from the first on are sent in one request.
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

/// JSON has no bytes that are no text.
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
    fn a_batch_is_bounded_and_never_alone() {
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
    fn bytes_that_are_no_text_are_told_as_they_are() {
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
