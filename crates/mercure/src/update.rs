//! Updates: how they are parsed from publishers' requests, stored, and encoded for subscribers.

use serde::{Deserialize, Serialize};

use crate::form::Form;
use crate::{TOPIC_BYTES_MAX, TOPICS_MAX};

/// Id that requests all stored updates. In a response, this id means that no update precedes the first one that is sent.
pub const EARLIEST: &str = "earliest";

/// Maximum length of a publisher-chosen id and of a type, in bytes.
const NAME_BYTES_MAX: usize = 1024;

/// An update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Topics of the update. The first one is the canonical topic.
    pub topics: Vec<String>,
    /// True if only subscribers whose token allows one of the topics receive the update.
    pub is_private: bool,
    /// Id that the publisher chose.
    pub id: Option<String>,
    /// Type of the event.
    pub kind: Option<String>,
    /// Reconnection time of subscribers, in milliseconds.
    pub retry_ms: Option<u64>,
    /// The data.
    pub data: String,
}

/// An update without its data. This is the metadata that is stored with the data.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(rename = "t")]
    topics: Vec<String>,
    #[serde(rename = "p", default, skip_serializing_if = "std::ops::Not::not")]
    is_private: bool,
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    retry_ms: Option<u64>,
}

impl Update {
    /// Parses a publisher's form.
    pub(crate) fn from_form(form: &Form) -> Result<Update, &'static str> {
        let topics: Vec<String> = form.all("topic").map(str::to_owned).collect();
        let given = |name: &str| form.get(name).filter(|it| !it.is_empty());
        let retry = given("retry").map(str::parse::<u64>).transpose();
        let retry_ms = retry.map_err(|_| "Invalid \"retry\" parameter")?;
        let update = Update {
            topics,
            is_private: form.get("private").is_some(),
            id: given("id").map(str::to_owned),
            kind: given("type").map(str::to_owned),
            retry_ms: retry_ms.filter(|&ms| ms > 0),
            data: form.get("data").unwrap_or_default().to_owned(),
        };
        update.check()?;
        Ok(update)
    }

    /// Checks that the update may be published.
    ///
    /// # Errors
    /// A message that describes the fault.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.topics.is_empty() {
            return Err("Missing \"topic\" parameter");
        }
        if self.topics.len() > TOPICS_MAX {
            return Err("Too many \"topic\" parameters");
        }
        if self.topics.iter().any(|topic| !is_topic(topic)) {
            return Err("Invalid \"topic\" parameter");
        }
        let is_id = |id: &str| is_line(id) && !id.starts_with('#') && id != EARLIEST;
        if !self.id.as_deref().is_none_or(is_id) {
            return Err("Invalid \"id\" parameter");
        }
        if !self.kind.as_deref().is_none_or(is_line) {
            return Err("Invalid \"type\" parameter");
        }
        Ok(())
    }

    /// Encodes everything except the data as one line of text.
    pub fn to_name(&self) -> String {
        let kept = Kept {
            topics: self.topics.clone(),
            is_private: self.is_private,
            id: self.id.clone(),
            kind: self.kind.clone(),
            retry_ms: self.retry_ms,
        };
        serde_json::to_string(&kept).unwrap_or_default()
    }

    /// Decodes a stored update. `None`: the stored item is not an update.
    pub fn from_kept(name: &[u8], data: &[u8]) -> Option<Update> {
        let kept: Kept = serde_json::from_slice(name).ok()?;
        Some(Update {
            topics: kept.topics,
            is_private: kept.is_private,
            id: kept.id,
            kind: kept.kind,
            retry_ms: kept.retry_ms,
            data: std::str::from_utf8(data).ok()?.to_owned(),
        })
    }

    /// Appends the event for subscribers. `id` is the id of the update.
    pub fn write(&self, id: &str, out: &mut Vec<u8>) {
        write_event(id, self.kind.as_deref(), self.retry_ms, &self.data, out);
    }
}

/// Appends an event (HTML, section 9.2, Server-sent events).
pub(crate) fn write_event(
    id: &str,
    kind: Option<&str>,
    retry_ms: Option<u64>,
    data: &str,
    out: &mut Vec<u8>,
) {
    let mut field = |name: &str, value: &str| {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.push(b'\n');
    };
    if let Some(kind) = kind {
        field("event", kind);
    }
    if let Some(ms) = retry_ms {
        field("retry", &ms.to_string());
    }
    if !id.is_empty() {
        field("id", id);
    }
    let mut rest = data;
    loop {
        let Some(at) = rest.find(['\r', '\n']) else {
            field("data", rest);
            break;
        };
        field("data", &rest[..at]);
        rest = match rest[at..].strip_prefix("\r\n") {
            Some(after) => after,
            None => &rest[at + 1..],
        };
    }
    out.push(b'\n');
}

/// Returns true if text is valid as a topic or selector.
pub(crate) fn is_topic(text: &str) -> bool {
    !text.is_empty() && text.len() <= TOPIC_BYTES_MAX && !text.chars().any(char::is_control)
}

fn is_line(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Update, &'static str> {
        Update::from_form(&Form::parse(text.as_bytes()).expect("a form"))
    }

    #[test]
    fn parses_and_writes_an_update() {
        let update = read(
            "topic=https%3A%2F%2Fex.org%2Fb%2F1&topic=alt&data=%7B%22a%22%3A1%7D&private=on&type=new&retry=9&id=x",
        );
        let update = update.expect("an update");
        assert_eq!(update.topics, ["https://ex.org/b/1", "alt"]);
        assert!(update.is_private);
        let mut out = Vec::new();
        update.write("x", &mut out);
        let expected = "event: new\nretry: 9\nid: x\ndata: {\"a\":1}\n\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        let lines = read("topic=a&data=1%0D%0A2%0D3%0A4").expect("an update");
        out.clear();
        lines.write("1", &mut out);
        let expected = "id: 1\ndata: 1\ndata: 2\ndata: 3\ndata: 4\n\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        assert!(read("topic=a&private").is_ok_and(|it| it.is_private));
    }

    #[test]
    fn error_has_the_invalid_parameter() {
        for (text, word) in [
            ("data=1", "topic"),
            ("topic=", "topic"),
            ("topic=a%00", "topic"),
            ("topic=a&id=%23a", "id"),
            ("topic=a&id=earliest", "id"),
            ("topic=a&id=a%0Adata:b", "id"),
            ("topic=a&type=a%0Ad", "type"),
            ("topic=a&retry=soon", "retry"),
            ("topic=a&retry=-1", "retry"),
        ] {
            assert!(read(text).is_err_and(|it| it.contains(word)), "{text}");
        }
        assert!(read(&"topic=a&".repeat(TOPICS_MAX + 1)).is_err());
        assert!(read(&format!("topic={}", "a".repeat(TOPIC_BYTES_MAX + 1))).is_err());
    }

    proptest! {
        #[test]
        fn stored_updates_round_trip(
            topics in proptest::collection::vec("\\PC{1,20}", 1..4),
            is_private: bool,
            id in proptest::option::of("\\PC{1,9}"),
            kind in proptest::option::of("\\PC{1,9}"),
            retry_ms in proptest::option::of(any::<u64>()),
            data in ".*",
        ) {
            let update = Update { topics, is_private, id, kind, retry_ms, data };
            let name = update.to_name();
            prop_assert!(!name.contains(['\r', '\n', '\0']));
            prop_assert_eq!(Update::from_kept(name.as_bytes(), update.data.as_bytes()), Some(update));
        }
    }
}
