//! Encodes items, for publishers.

use super::{Body, Format, Item, MessageAction, Response, ResponseAction, StreamAction};
use crate::encoding::to_base64;
use crate::packet::Notation;
use crate::value::Value;

impl Item {
    /// Encodes the item for a notation: binary content is base64 in JSON and raw otherwise.
    pub fn to_value(&self, notation: Notation) -> Value {
        let mut fields = Fields {
            entries: Vec::new(),
            notation,
        };
        fields.bytes("channel", &self.channel);
        if let Some(id) = &self.id {
            fields.bytes("id", id);
        }
        if let Some(id) = &self.prev_id {
            fields.bytes("prev-id", id);
        }
        if !self.meta.is_empty() {
            let entries = self.meta.iter();
            fields.value(
                "meta",
                Value::Map(
                    entries
                        .map(|(name, value)| (name.clone(), Value::Bytes(value.clone())))
                        .collect(),
                ),
            );
        }
        if let Some(size) = self.size {
            fields.value("size", Value::Integer(size.into()));
        }
        if self.no_seq {
            fields.value("no-seq", Value::Bool(true));
        }
        let mut formats = fields.empty();
        if let Some(format) = &self.http_response {
            formats.format("http-response", format, response);
        }
        if let Some(format) = &self.http_stream {
            formats.format("http-stream", format, stream);
        }
        if let Some(format) = &self.ws_message {
            formats.format("ws-message", format, message);
        }
        fields.value("formats", Value::Map(formats.entries));
        Value::Map(fields.entries)
    }
}

struct Fields {
    entries: Vec<(Vec<u8>, Value)>,
    notation: Notation,
}

impl Fields {
    fn empty(&self) -> Self {
        Self {
            entries: Vec::new(),
            notation: self.notation,
        }
    }

    fn value(&mut self, name: &str, value: Value) {
        self.entries.push((name.into(), value));
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.value(name, Value::Bytes(bytes.to_vec()));
    }

    /// Writes content under the name `plain` if the notation can represent the bytes. Otherwise writes base64 under the name
    /// `binary`.
    fn content(&mut self, plain: &str, binary: &str, bytes: &[u8]) {
        if self.notation == Notation::Tnetstring || std::str::from_utf8(bytes).is_ok() {
            self.bytes(plain, bytes)
        } else {
            self.value(binary, Value::Bytes(to_base64(bytes).into_bytes()))
        }
    }

    fn format<T>(&mut self, name: &str, format: &Format<T>, write: fn(&mut Fields, &T)) {
        let mut fields = self.empty();
        write(&mut fields, &format.action);
        if let Some(names) = &format.content_filters {
            let names = names.iter().map(|name| Value::Bytes(name.clone()));
            fields.value("content-filters", Value::List(names.collect()));
        }
        self.value(name, Value::Map(fields.entries));
    }
}

fn response(fields: &mut Fields, action: &ResponseAction) {
    match action {
        ResponseAction::Hint => fields.value("action", "hint".into()),
        ResponseAction::Close => fields.value("action", "close".into()),
        ResponseAction::Refresh => fields.value("action", "refresh".into()),
        ResponseAction::Send(Response {
            code,
            reason,
            headers,
            body,
        }) => {
            fields.value("code", Value::Integer((*code).into()));
            if !reason.is_empty() {
                fields.bytes("reason", reason);
            }
            if !headers.is_empty() {
                let pair = |(name, value): &(Vec<u8>, Vec<u8>)| {
                    Value::List(vec![
                        Value::Bytes(name.clone()),
                        Value::Bytes(value.clone()),
                    ])
                };
                fields.value("headers", Value::List(headers.iter().map(pair).collect()));
            }
            match body {
                Body::Bytes(bytes) => fields.content("body", "body-bin", bytes),
                Body::Patch(patch) => fields.value("body-patch", Value::from(patch.clone())),
            }
        }
    }
}

fn stream(fields: &mut Fields, action: &StreamAction) {
    match action {
        StreamAction::Hint => fields.value("action", "hint".into()),
        StreamAction::Close => fields.value("action", "close".into()),
        StreamAction::Refresh => fields.value("action", "refresh".into()),
        StreamAction::Send(bytes) => fields.content("content", "content-bin", bytes),
    }
}

fn message(fields: &mut Fields, action: &MessageAction) {
    match action {
        MessageAction::Hint => fields.value("action", "hint".into()),
        MessageAction::Refresh => fields.value("action", "refresh".into()),
        MessageAction::Close { code, reason } => {
            fields.value("action", "close".into());
            if let Some(code) = code {
                fields.value("code", Value::Integer((*code).into()));
            }
            if !reason.is_empty() {
                fields.bytes("reason", reason);
            }
        }
        MessageAction::Send { kind, content } => {
            fields.value("type", kind.name().into());
            fields.content("content", "content-bin", content);
        }
    }
}
