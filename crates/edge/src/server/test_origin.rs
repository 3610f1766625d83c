//! The built-in origin `test`: a route can be tried without any backend.
//!
//! `/` greets, `/response` holds a long poll and `/stream` a stream, on the channels that `?channel=` names, or on
//! `test`. `/ws` is a WebSocket that is subscribed to them and says back what it hears.

use fermata_grip::instruct::MEDIA_TYPE;
use fermata_grip::ws_control::Control;
use serde_json::{Value, json};

use super::edge::{Edge, Owner};
use super::origin::{Step, Talk};
use super::response::Head;
use super::sockets::{Socket, Via};

/// The path of the WebSocket.
const ECHO: &[u8] = b"/ws";

impl Edge {
    /// Opens a client's WebSocket to the built-in origin; `start` is what paths of its route begin with.
    pub(super) fn open_test_socket(&mut self, talk: &mut Talk, start: &str) -> Step {
        let Owner::Client(handle) = talk.owner else {
            return Step::Over;
        };
        let (path, query) = parts(&talk.source.request.target, start);
        if path != ECHO {
            let (head, body) = answer(b"/none", b"");
            self.respond(handle, &head, &body);
            return Step::Over;
        }
        let channels = channels(query);
        self.asking.remove(&handle);
        let Some(socket) = self.accept(handle, &Head::default()) else {
            return self.fail(talk, 502, "the handshake cannot be accepted");
        };
        let state = Socket::new(None, Via::Echo);
        self.enter_socket(socket, talk.source.clone(), state);
        for channel in channels {
            let channel = channel.into_bytes();
            let filters = Vec::new();
            self.control(socket, Control::Subscribe { channel, filters });
        }
        Step::Over
    }
}

/// Path and query, the path without what its route begins with.
pub(super) fn parts<'a>(target: &'a [u8], start: &str) -> (&'a [u8], &'a [u8]) {
    let at = target.iter().position(|&byte| byte == b'?');
    let (path, query) = target.split_at(at.unwrap_or(target.len()));
    let path = path.strip_prefix(start.as_bytes()).unwrap_or(path);
    (path, query.get(1..).unwrap_or_default())
}

/// What the origin answers to a path, without what its route begins with, and a query.
pub(super) fn answer(path: &[u8], query: &[u8]) -> (Head, Vec<u8>) {
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

fn head(status: u16, media: &str) -> Head {
    Head {
        status,
        headers: vec![(b"Content-Type".to_vec(), media.as_bytes().to_vec())],
        ..Head::default()
    }
}

fn channels(query: &[u8]) -> Vec<String> {
    let named: Vec<String> = query
        .split(|&byte| byte == b'&')
        .filter_map(|pair| pair.strip_prefix(b"channel="))
        .map(decode)
        .filter(|name| !name.is_empty())
        .collect();
    match named.is_empty() {
        true => vec!["test".to_owned()],
        false => named,
    }
}

/// A value of a query; what is no escape stays as it is.
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
