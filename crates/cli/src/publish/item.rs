//! Builds the GRIP item from the command-line options.

use fermata_grip::item::{
    Body, Format, Item, MessageAction, MessageKind, Response, ResponseAction, StreamAction,
};

use super::arguments::Arguments;
use crate::error::{Error, at};

/// Maximum size of the content; the limit of control ports.
const CONTENT_BYTES_MAX: u64 = 1 << 20;

/// Builds the item with every format that the action applies to.
pub fn build(arguments: &Arguments) -> Result<Item, Error> {
    let mut item = Item {
        channel: arguments.channel.clone().into(),
        id: arguments.id.clone().map(Into::into),
        prev_id: arguments.prev_id.clone().map(Into::into),
        no_seq: arguments.no_seq,
        ..Item::default()
    };
    let sender = arguments
        .sender
        .iter()
        .map(|sender| ("sender", sender.as_str()));
    let meta = arguments
        .meta
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    item.meta = meta
        .chain(sender)
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    if arguments.hint {
        item.http_response = Some(Format::new(ResponseAction::Hint));
        item.http_stream = Some(Format::new(StreamAction::Hint));
        item.ws_message = Some(Format::new(MessageAction::Hint));
        return Ok(item);
    }
    if arguments.close {
        item.http_stream = Some(Format::new(StreamAction::Close));
        item.ws_message = Some(Format::new(MessageAction::Close {
            code: None,
            reason: Vec::new(),
        }));
        return Ok(item);
    }
    let (content, is_file) = content(arguments)?;
    if arguments.patch {
        let patch: serde_json::Value =
            serde_json::from_slice(&content).map_err(at("the content is no JSON patch"))?;
        if !patch.is_array() {
            return Err(Error::Misuse(
                "the content is no JSON patch: that is a list of operations".to_owned(),
            ));
        }
        item.http_response = Some(response(arguments, Body::Patch(patch)));
        return Ok(item);
    }
    let mut line = content.clone();
    if !arguments.no_eol && !is_file {
        line.push(b'\n');
    }
    let kind = match std::str::from_utf8(&content) {
        Ok(_) => MessageKind::Text,
        Err(_) => MessageKind::Binary,
    };
    item.http_response = Some(response(arguments, Body::Bytes(line.clone())));
    item.http_stream = Some(Format::new(StreamAction::Send(line)));
    item.ws_message = Some(Format::new(MessageAction::Send { kind, content }));
    Ok(item)
}

fn response(arguments: &Arguments, body: Body) -> Format<ResponseAction> {
    let headers = arguments.headers.iter();
    Format::new(ResponseAction::Send(Response {
        code: arguments.code,
        reason: Vec::new(),
        headers: headers
            .map(|(name, value)| (name.clone().into(), value.clone().into()))
            .collect(),
        body,
    }))
}

/// Returns the content, and true if it was read from a file.
fn content(arguments: &Arguments) -> Result<(Vec<u8>, bool), Error> {
    let Some(content) = &arguments.content else {
        return Err(Error::Misuse(
            "there is nothing to publish; give content, @FILE, --hint or --close".to_owned(),
        ));
    };
    let Some(path) = content.strip_prefix('@') else {
        return Ok((content.clone().into(), false));
    };
    let wrong = |error| at(format_args!("cannot publish the file {path}"))(error);
    let length = std::fs::metadata(path).map_err(wrong)?.len();
    if length > CONTENT_BYTES_MAX {
        return Err(Error::Misuse(format!(
            "cannot publish the file {path}: it has {length} bytes, and control ports take {CONTENT_BYTES_MAX} at most"
        )));
    }
    let content = std::fs::read(path).map_err(wrong)?;
    Ok((content, true))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fermata_grip::packet::Notation;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn item(words: &[&str]) -> Result<Value, String> {
        let words = ["publish"].iter().chain(words);
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        let item = build(&line.arguments).map_err(|error| error.to_string())?;
        Ok(item.to_value(Notation::Json).to_json())
    }

    /// The expected items are the ones that `pushpin-publish` 1.36 sends for the same arguments, plus `type`, which it omits.
    #[test]
    fn items_are_those_of_pushpin_publish() {
        for (words, expected) in [
            (
                &["c", "hello"][..],
                json!({"channel": "c", "formats": {
                "http-response": {"body": "hello\n", "code": 200}, "http-stream": {"content": "hello\n"},
                "ws-message": {"content": "hello", "type": "text"}}}),
            ),
            (
                &[
                    "c",
                    "hello",
                    "--no-eol",
                    "--id",
                    "1",
                    "--prev-id",
                    "0",
                    "--sender",
                    "bob",
                    "-M",
                    "a=b",
                    "--no-seq",
                ],
                json!({
                "channel": "c", "id": "1", "prev-id": "0", "meta": {"a": "b", "sender": "bob"}, "no-seq": true, "formats": {
                "http-response": {"body": "hello", "code": 200}, "http-stream": {"content": "hello"},
                "ws-message": {"content": "hello", "type": "text"}}}),
            ),
            (
                &["c", "--hint"],
                json!({"channel": "c", "formats": {"http-response": {"action": "hint"},
                "http-stream": {"action": "hint"}, "ws-message": {"action": "hint"}}}),
            ),
            (
                &["c", "--close"],
                json!({"channel": "c", "formats": {"http-stream": {"action": "close"}, "ws-message": {"action": "close"}}}),
            ),
            (
                &["c", "[]", "--patch"],
                json!({"channel": "c", "formats": {"http-response": {"body-patch": [], "code": 200}}}),
            ),
            (
                &["c", "x", "--code", "404", "-H", "A: b", "-H", "C: d"],
                json!({"channel": "c", "formats": {
                "http-response": {"body": "x\n", "code": 404, "headers": [["A", "b"], ["C", "d"]]}, "http-stream": {"content": "x\n"},
                "ws-message": {"content": "x", "type": "text"}}}),
            ),
        ] {
            assert_eq!(item(words), Ok(expected), "{words:?}");
        }
    }

    #[test]
    fn a_file_is_sent_as_it_is() {
        let path = std::env::temp_dir().join(format!("fermata-publish-{}", std::process::id()));
        let word = format!("@{}", path.display());
        std::fs::write(&path, b"\0\xff").expect("a temporary file");
        let binary = item(&["c", &word]);
        std::fs::write(&path, b"from file\n").expect("a temporary file");
        let text = item(&["c", &word]);
        std::fs::remove_file(&path).expect("our own file");
        assert_eq!(
            binary.expect("an item")["formats"],
            json!({"http-response": {"body-bin": "AP8=", "code": 200},
            "http-stream": {"content-bin": "AP8="}, "ws-message": {"content-bin": "AP8=", "type": "binary"}})
        );
        assert_eq!(
            text.expect("an item")["formats"]["http-stream"],
            json!({"content": "from file\n"})
        );
    }

    #[test]
    fn what_cannot_be_published_says_why() {
        for (words, part) in [
            (&["c"][..], "nothing to publish"),
            (&["c", "@/does/not/exist"], "/does/not/exist"),
            (&["c", "{", "--patch"], "no JSON patch"),
            (&["c", "{}", "--patch"], "list of operations"),
            (&["c", "x", "-H", "bad"], "colon"),
            (&["c", "x", "-M", "bad"], "equals sign"),
            (&["c", "x", "--code", "1000"], "1000"),
            (&["c", "x", "--hint", "--close"], "--close"),
        ] {
            let error = item(words).expect_err("a mistake");
            assert!(error.contains(part), "{words:?}: {error}");
        }
    }
}
