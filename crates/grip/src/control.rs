//! The HTTP control port: its requests, and its responses, whose texts publishers compare.

use crate::item::{Item, ItemError, parse_list};
use crate::packet::Notation;
use crate::value::Value;

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";

/// A response. The connection may stay open after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status.
    pub status: u16,
    /// Value of the header `Content-Type`.
    pub media: &'static str,
    /// `Allow`, if the method was wrong.
    pub allow: Option<&'static str>,
    /// Body.
    pub body: String,
}

/// Action that a request requires.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Only respond.
    Answer(Reply),
    /// Publish these items, then respond.
    Publish(Vec<Item>, Reply),
    /// Drop the last ids of channels and let every reliable session catch up, then respond.
    Recover(Reply),
}

/// Parses a request. A query in `path` is ignored.
pub fn read(method: &[u8], path: &[u8], accept: Option<&[u8]>, body: &[u8]) -> Request {
    let path = path.split(|&byte| byte == b'?').next().unwrap_or_default();
    let Some(media) = media(accept) else {
        return Request::Answer(text(
            406,
            "Not Acceptable. Supported formats are text/plain and application/json.",
        ));
    };
    let path = match path {
        b"/" => return Request::Answer(text(200, "Pushpin API")),
        path => path.strip_suffix(b"/").unwrap_or(path),
    };
    if !matches!(path, b"/publish" | b"/recover") {
        return Request::Answer(text(404, "Not Found"));
    }
    if method != b"POST" {
        let method = method.escape_ascii();
        return Request::Answer(Reply {
            allow: Some("POST"),
            ..text(405, &format!("Method not allowed: {method}."))
        });
    }
    if path == b"/recover" {
        return Request::Recover(done(media, "Updated"));
    }
    match items(body) {
        Ok(items) => Request::Publish(items, done(media, "Published")),
        Err(error) => Request::Answer(text(400, &error.to_string())),
    }
}

/// Returns the response to a body without a length.
pub fn length_required() -> Reply {
    text(411, "Must provide Content-Length header.")
}

/// Fault in a body, with Pushpin's texts.
#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error("Body is not valid JSON.")]
    Json,
    #[error("Invalid format.")]
    List,
    #[error("Invalid format: {0}")]
    Item(#[from] ItemError),
}

fn items(body: &[u8]) -> Result<Vec<Item>, BodyError> {
    let json: serde_json::Value = serde_json::from_slice(body).map_err(|_| BodyError::Json)?;
    match Value::from(json) {
        value @ Value::Map(_) => Ok(parse_list(&value, Notation::Json)?),
        Value::List(_) => Err(BodyError::List),
        // Older JSON parsers refused a document that is neither an object nor a list. Publishers rely on that error.
        _ => Err(BodyError::Json),
    }
}

/// Returns the media type of a successful response, which is that of the last acceptable entry of `Accept`. `None`: no entry is
/// acceptable.
fn media(accept: Option<&[u8]>) -> Option<&'static str> {
    let Some(accept) = accept else {
        return Some(TEXT);
    };
    accept
        .split(|&byte| byte == b',')
        .filter_map(|entry| {
            let media = entry.split(|&byte| byte == b';').next()?.trim_ascii();
            match media.to_ascii_lowercase().as_slice() {
                b"text/plain" | b"text/*" | b"*/*" => Some(TEXT),
                b"application/json" | b"application/*" => Some(JSON),
                _ => None,
            }
        })
        .next_back()
}

fn done(media: &'static str, message: &str) -> Reply {
    match media {
        JSON => Reply {
            status: 200,
            media,
            allow: None,
            body: format!("{{\"message\":\"{message}\"}}\n"),
        },
        _ => text(200, message),
    }
}

fn text(status: u16, message: &str) -> Reply {
    Reply {
        status,
        media: TEXT,
        allow: None,
        body: format!("{message}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: &[u8] = br#"{"items":[{"channel":"c","http-stream":{"content":"x"}}]}"#;

    fn answer(request: Request) -> Reply {
        match request {
            Request::Answer(reply) | Request::Publish(_, reply) | Request::Recover(reply) => reply,
        }
    }

    /// Status and text as in responses of Debian's Pushpin 1.36.
    #[test]
    fn responses_match_pushpin() {
        for (method, path, body, status, message) in [
            ("GET", "/", &b""[..], 200, "Pushpin API"),
            ("POST", "/", b"x", 200, "Pushpin API"),
            ("POST", "/publish", ITEM, 200, "Published"),
            ("POST", "/publish/", ITEM, 200, "Published"),
            ("POST", "/recover", b"", 200, "Updated"),
            ("POST", "/recover/", b"", 200, "Updated"),
            ("GET", "/publish/", b"", 405, "Method not allowed: GET."),
            ("PUT", "/recover", b"", 405, "Method not allowed: PUT."),
            ("POST", "/other", b"", 404, "Not Found"),
            ("POST", "/publish//", b"", 404, "Not Found"),
            ("POST", "/publish/", b"", 400, "Body is not valid JSON."),
            ("POST", "/publish/", b"1", 400, "Body is not valid JSON."),
            ("POST", "/publish/", b"{}x", 400, "Body is not valid JSON."),
            ("POST", "/publish/", b"[]", 400, "Invalid format."),
            (
                "POST",
                "/publish/",
                b"{}",
                400,
                "Invalid format: object does not contain 'items'",
            ),
            (
                "POST",
                "/publish/",
                br#"{"items":[{}]}"#,
                400,
                "Invalid format: publish item object does not contain 'channel'",
            ),
        ] {
            let reply = answer(read(method.as_bytes(), path.as_bytes(), None, body));
            assert_eq!(
                (reply.status, reply.body),
                (status, format!("{message}\n")),
                "{method} {path}"
            );
            assert_eq!(reply.allow.is_some(), status == 405);
        }
    }

    #[test]
    fn the_last_acceptable_entry_decides() {
        for (accept, expected) in [
            ("text/plain", Some("Published\n")),
            ("*/*", Some("Published\n")),
            ("application/*", Some("{\"message\":\"Published\"}\n")),
            (
                "text/plain, application/json",
                Some("{\"message\":\"Published\"}\n"),
            ),
            ("application/json, text/plain", Some("Published\n")),
            (
                "application/json;q=1",
                Some("{\"message\":\"Published\"}\n"),
            ),
            ("application/json, */*", Some("Published\n")),
            ("image/png", None),
            ("", None),
        ] {
            let reply = answer(read(b"POST", b"/publish/", Some(accept.as_bytes()), ITEM));
            match expected {
                Some(body) => assert_eq!(reply.body, body, "{accept}"),
                None => assert_eq!(reply.status, 406, "{accept}"),
            }
        }
        // An error is text, whatever was requested.
        assert_eq!(
            answer(read(b"POST", b"/publish/", Some(b"application/json"), b"x")).media,
            TEXT
        );
    }

    #[test]
    fn publish_request_has_items_and_response() {
        let Request::Publish(items, _) = read(b"POST", b"/publish/?x", None, ITEM) else {
            panic!("not a publish");
        };
        assert_eq!(items[0].channel, b"c");
    }
}
