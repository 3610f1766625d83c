//! Responses of the built-in test origin.

use fermata_grip::instruct::MEDIA_TYPE;
use serde_json::{Value, json};

use crate::upstream::response::Head;

/// Splits a target into path, without the prefix of its route, and query.
pub(crate) fn parts<'a>(target: &'a [u8], start: &str) -> (&'a [u8], &'a [u8]) {
    let at = target.iter().position(|&byte| byte == b'?');
    let (path, query) = target.split_at(at.unwrap_or(target.len()));
    let path = path.strip_prefix(start.as_bytes()).unwrap_or(path);
    (path, query.get(1..).unwrap_or_default())
}

/// Returns the response to a path, without the prefix of its route, and a query.
pub(crate) fn answer(path: &[u8], query: &[u8]) -> (Head, Vec<u8>) {
    match path {
        b"" | b"/" => text(200, "Hello from the Pushpin test handler!\n"),
        b"/response" => hold("response", query, "nothing for now\n"),
        b"/stream" => hold("stream", query, "[stream opened]\n"),
        _ => text(404, "no such test resource\n"),
    }
}

fn text(status: u16, text: &str) -> (Head, Vec<u8>) {
    (head(status, "text/plain"), text.as_bytes().to_vec())
}

fn hold(mode: &str, query: &[u8], text: &str) -> (Head, Vec<u8>) {
    let channels: Vec<Value> = channels(query)
        .into_iter()
        .map(|name| json!({"name": name}))
        .collect();
    let instruct = json!({
        "hold": {"mode": mode, "channels": channels},
        "response": {"headers": {"Content-Type": "text/plain"}, "body": text},
    });
    (head(200, MEDIA_TYPE), instruct.to_string().into_bytes())
}

pub(crate) fn head(status: u16, media: &str) -> Head {
    Head {
        status,
        headers: vec![(b"Content-Type".to_vec(), media.as_bytes().to_vec())],
        ..Head::default()
    }
}

pub(crate) fn channels(query: &[u8]) -> Vec<String> {
    let named: Vec<String> = query
        .split(|&byte| byte == b'&')
        .filter_map(|pair| pair.strip_prefix(b"channel="))
        .map(decode)
        .filter(|name| !name.is_empty())
        .collect();
    if named.is_empty() {
        vec!["test".to_owned()]
    } else {
        named
    }
}

/// Decodes a query value; invalid escapes stay unchanged.
fn decode(text: &[u8]) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let value = digit(high).zip(digit(low));
                value.map(|(high, low)| ((high * 16 + low) as u8, after))
            }
            _ => None,
        };
        let (byte, after) = escaped.unwrap_or((if *first == b'+' { b' ' } else { *first }, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_on_the_channels_that_are_named() {
        let (head, body) = answer(b"/stream", b"channel=a%2Fb+c&x=y&channel=%zz&channel=");
        assert_eq!(head.headers[0].1, MEDIA_TYPE.as_bytes());
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(
            body["hold"],
            json!({"mode": "stream", "channels": [{"name": "a/b c"}, {"name": "%zz"}]})
        );
        let (_, body) = answer(b"/response", b"");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["hold"]["channels"], json!([{"name": "test"}]));
        assert_eq!(answer(b"/other", b"").0.status, 404);
    }
}
