//! A long-polling client.

use fermata_grip::instruct::Answer;

/// Response to a long poll at its time-out, and base of a published response.
pub(crate) struct Poll {
    pub answer: Answer,
    pub body: Vec<u8>,
    /// True if a request to the client's origin is queued.
    pub is_queued: bool,
    pub(crate) due_ms: u64,
}

/// Returns true for published fields other than framing fields and instructions.
pub(crate) fn passes((name, value): &(Vec<u8>, Vec<u8>)) -> bool {
    use fermata_proto::response::{reserved_name, valid_name, valid_value};
    let is_grip = name
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case(b"grip-"));
    !is_grip && valid_name(name) && valid_value(value) && !reserved_name(name)
}

/// Applies a patch to the body of an instruction. Preserves a final newline. Returns `None` if the patch cannot be applied.
pub(crate) fn patched(body: &[u8], patch: &serde_json::Value) -> Option<Vec<u8>> {
    let document = serde_json::from_slice(body).ok()?;
    let patched = fermata_grip::patch::apply(&document, patch).ok()?;
    let mut text = patched.to_string().into_bytes();
    if body.ends_with(b"\n") {
        text.push(b'\n');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_keeps_the_newline_and_gives_nothing_when_it_fails() {
        let patch = serde_json::json!([{"op": "replace", "path": "/a", "value": 2}]);
        let text = b"{\"a\":2}\n".to_vec();
        assert_eq!(patched(b"{\"a\": 1}\n", &patch), Some(text));
        assert_eq!(patched(b"{\"b\": 1}", &patch), None);
        assert_eq!(patched(b"no JSON", &patch), None);
    }

    #[test]
    fn published_headers_cannot_break_the_response() {
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert!(passes(&pair("X-A", "b")));
        for (name, value) in [
            ("Grip-Hold", "stream"),
            ("Content-Length", "1"),
            ("X-A", "a\r\nB: c"),
            ("X A", "b"),
        ] {
            assert!(!passes(&pair(name, value)), "{name}");
        }
    }
}
