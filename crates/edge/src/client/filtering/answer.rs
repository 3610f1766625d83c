//! The result of a filter's server for an item, and the data about client and item that it
//! receives.

use fermata_grip::instruct::Meta;

use crate::upstream::reply::is_compressed;
use crate::upstream::response::Head;

/// The header with which a server drops an item, and its value.
const ACTION: &[u8] = b"action";
const DROP: &[u8] = b"drop";

/// Result of a server for an item.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The item is dropped.
    Drop,
    /// The item is delivered unchanged.
    Pass,
    /// Deliver the item with this content.
    Replace(Vec<u8>),
}

/// Reason why there is no valid result of a filter's server. The item is dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfiltered {
    /// The status is neither 200 nor 204.
    #[error("the server of a filter answers {0}; give 200 or 204")]
    Status(u16),
    /// The content is compressed. Clients would receive it between uncompressed items.
    #[error("the server of a filter answers with compressed content; leave out Content-Encoding")]
    Compressed,
    /// No request could be sent, or no response arrived in time.
    #[error("{0}")]
    Unanswered(String),
}

/// Parses the response of a server: status 200 or 204, with new content if the filter modifies.
pub(crate) fn read_answer(head: &Head, body: &[u8], modifies: bool) -> Result<Answer, Unfiltered> {
    if !matches!(head.status, 200 | 204) {
        return Err(Unfiltered::Status(head.status));
    }
    let drops = head.headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case(ACTION) && value.trim_ascii().eq_ignore_ascii_case(DROP)
    });
    match (drops, modifies, head.status) {
        (true, ..) => Ok(Answer::Drop),
        (false, true, 200) if is_compressed(&head.headers) => Err(Unfiltered::Compressed),
        (false, true, 200) => Ok(Answer::Replace(body.to_vec())),
        _ => Ok(Answer::Pass),
    }
}

/// Returns metadata as a JSON object in ASCII, for the value of a header.
pub(crate) fn json(meta: &Meta) -> Vec<u8> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let entries = meta
        .iter()
        .map(|(name, value)| (text(name), serde_json::Value::String(text(value))));
    let object = serde_json::Value::Object(entries.collect());
    let mut out = String::new();
    for it in object.to_string().chars() {
        match it {
            ' '..='~' => out.push(it),
            _ => {
                for unit in it.encode_utf16(&mut [0; 2]) {
                    out += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, headers: &[(&str, &str)]) -> Head {
        let headers = headers.iter();
        Head {
            status,
            headers: headers.map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            ..Head::default()
        }
    }

    #[test]
    fn an_answer_passes_replaces_or_drops() {
        let replaced = Answer::Replace(b"new".to_vec());
        for (status, headers, modifies, expected) in [
            (200, &[][..], true, Some(replaced)),
            (200, &[], false, Some(Answer::Pass)),
            (204, &[], true, Some(Answer::Pass)),
            (200, &[("Action", "drop")], true, Some(Answer::Drop)),
            (204, &[("action", " Drop ")], false, Some(Answer::Drop)),
            (200, &[("Action", "keep")], false, Some(Answer::Pass)),
            (404, &[("Action", "drop")], false, None),
            (201, &[], true, None),
            (200, &[("Content-Encoding", "gzip")], true, None),
        ] {
            let found = read_answer(&head(status, headers), b"new", modifies);
            assert_eq!(found.ok(), expected, "{status} {headers:?}");
        }
    }

    #[test]
    fn meta_is_a_header_whatever_is_in_it() {
        let entry = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let meta: Meta = [entry("user", "Ü\r\n\"\u{7f}😀"), entry("a", "1")]
            .into_iter()
            .collect();
        let text = String::from_utf8(json(&meta)).expect("ASCII");
        assert!(
            text.is_ascii() && !text.contains(['\r', '\n', '\u{7f}']),
            "{text}"
        );
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["user"], "Ü\r\n\"\u{7f}😀");
        assert_eq!(json(&Meta::new()), b"{}");
    }
}
