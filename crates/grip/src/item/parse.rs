//! Parses items.

use super::error::ItemError;
use super::fields::{Content, Object, texts};
use super::{
    Body, Format, Item, MessageAction, MessageKind, Response, ResponseAction, StreamAction,
};
use crate::instruct::{STATUS_MAX, is_header, is_header_byte};
use crate::packet::Notation;
use crate::value::Value;

/// Default status of an item.
const CODE_DEFAULT: u32 = 200;
const ITEM: &str = "publish item object";

type Read<T> = Result<T, ItemError>;

/// Parses the items of a request: an object with a list under `items`. If one item is invalid, all are refused.
///
/// # Errors
/// A field is invalid.
pub fn parse_list(value: &Value, notation: Notation) -> Read<Vec<Item>> {
    let object = Object::new(value, "object", notation)?;
    match value.get("items") {
        Some(Value::List(items)) => items
            .iter()
            .map(|item| parse(item, notation, None))
            .collect(),
        Some(_) => Err(object.kind("items")),
        None => Err(object.missing("'items'")),
    }
}

/// Parses one item. `channel` comes from a ZeroMQ subscription and replaces the channel that the item names.
///
/// # Errors
/// A field is invalid.
pub fn parse(value: &Value, notation: Notation, channel: Option<&[u8]>) -> Read<Item> {
    let object = Object::new(value, ITEM, notation)?;
    let channel = match channel {
        Some(channel) => channel.to_vec(),
        None => object
            .owned("channel")?
            .ok_or_else(|| object.missing("'channel'"))?,
    };
    let mut item = Item {
        channel,
        id: object.owned("id")?,
        prev_id: object.owned("prev-id")?,
        ..Item::default()
    };
    let formats = match value.get("formats") {
        Some(formats @ Value::Map(_)) => formats,
        Some(_) => return Err(object.kind("formats")),
        None => value,
    };
    let format = |name: &str, place| {
        let value = formats.get(name);
        value
            .map(|value| Object::new(value, place, notation))
            .transpose()
    };
    if let Some(object) = format("http-response", "'http-response'")? {
        item.http_response = Some(with_filters(&object, response(&object)?)?);
    }
    if let Some(object) = format("http-stream", "'http-stream'")? {
        item.http_stream = Some(with_filters(&object, stream(&object)?)?);
    }
    if let Some(object) = format("ws-message", "'ws-message'")? {
        item.ws_message = Some(with_filters(&object, message(&object)?)?);
    }
    let has_format =
        item.http_response.is_some() || item.http_stream.is_some() || item.ws_message.is_some();
    // An object with only unknown formats is valid: the publisher may be newer.
    let has_unknown = formats.get("formats").is_none()
        && value.get("formats").is_some()
        && matches!(formats, Value::Map(entries) if !entries.is_empty());
    if !has_format && !has_unknown {
        return Err(ItemError::Formats);
    }
    if let Some(meta) = value.get("meta") {
        if !matches!(meta, Value::Map(_)) {
            return Err(object.kind("meta"));
        }
        item.meta = texts(meta, "'meta'")?.into_iter().collect();
    }
    item.size = object.number("size", i32::MAX as u32)?;
    item.no_seq = object.boolean("no-seq")?;
    Ok(item)
}

fn with_filters<T>(object: &Object<'_>, action: T) -> Read<Format<T>> {
    let content_filters = match object.value.get("content-filters") {
        None => None,
        Some(Value::List(names)) => Some(
            names
                .iter()
                .map(|name| name.bytes().map(<[u8]>::to_vec))
                .collect::<Option<_>>()
                .ok_or(ItemError::Element(
                    "content-filters contains element with wrong type",
                ))?,
        ),
        Some(_) => return Err(object.kind("content-filters")),
    };
    Ok(Format {
        action,
        content_filters,
    })
}

enum Action {
    Send,
    Hint,
    Close,
    Refresh,
}

fn action(object: &Object<'_>) -> Read<Action> {
    match object.text("action")? {
        None | Some(b"send") => Ok(Action::Send),
        Some(b"hint") => Ok(Action::Hint),
        Some(b"close") => Ok(Action::Close),
        Some(b"refresh") => Ok(Action::Refresh),
        Some(_) => Err(object.unknown("action")),
    }
}

fn response(object: &Object<'_>) -> Read<ResponseAction> {
    match action(object)? {
        Action::Hint => return Ok(ResponseAction::Hint),
        Action::Close => return Ok(ResponseAction::Close),
        Action::Refresh => return Ok(ResponseAction::Refresh),
        Action::Send => {}
    }
    let code = object
        .number("code", u32::from(STATUS_MAX))?
        .unwrap_or(CODE_DEFAULT) as u16;
    let reason = object.owned("reason")?.unwrap_or_default();
    if !reason.iter().all(|&byte| is_header_byte(byte)) {
        return Err(object.invalid("reason"));
    }
    let headers = match object.value.get("headers") {
        None => Vec::new(),
        Some(value) => headers(object, value)?,
    };
    let body = match (
        object.content("body", "body-bin")?,
        object.value.get("body-patch"),
    ) {
        (Some(content), _) => Body::Bytes(content.into_bytes()),
        (None, Some(patch @ Value::List(_))) => Body::Patch(patch.to_json()),
        (None, Some(_)) => return Err(object.kind("body-patch")),
        (None, None) => return Err(object.missing("'body', 'body-bin', or 'body-patch'")),
    };
    Ok(ResponseAction::Send(Response {
        code,
        reason,
        headers,
        body,
    }))
}

fn headers(object: &Object<'_>, value: &Value) -> Read<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut headers = match value {
        Value::Map(_) => texts(value, "headers")?,
        Value::List(pairs) => pairs.iter().map(pair).collect::<Read<_>>()?,
        _ => return Err(object.kind("headers")),
    };
    if !headers.iter().all(|(name, value)| is_header(name, value)) {
        return Err(object.invalid("headers"));
    }
    headers.retain(|(name, _)| {
        !name
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"grip-"))
    });
    Ok(headers)
}

fn pair(value: &Value) -> Read<(Vec<u8>, Vec<u8>)> {
    let Value::List(pair) = value else {
        return Err(ItemError::Element(
            "headers contains element with wrong type",
        ));
    };
    match &pair[..] {
        [Value::Bytes(name), Value::Bytes(value)] => Ok((name.clone(), value.clone())),
        [Value::Bytes(_), _] => Err(ItemError::Element(
            "header contains value element with wrong type",
        )),
        [_, _] => Err(ItemError::Element(
            "header contains name element with wrong type",
        )),
        _ => Err(ItemError::Element(
            "headers contains list with wrong number of elements",
        )),
    }
}

fn stream(object: &Object<'_>) -> Read<StreamAction> {
    Ok(match action(object)? {
        Action::Hint => StreamAction::Hint,
        Action::Close => StreamAction::Close,
        Action::Refresh => StreamAction::Refresh,
        Action::Send => StreamAction::Send(
            object
                .content("content", "content-bin")?
                .ok_or_else(|| object.missing("'content' or 'content-bin'"))?
                .into_bytes(),
        ),
    })
}

fn message(object: &Object<'_>) -> Read<MessageAction> {
    match action(object)? {
        Action::Hint => return Ok(MessageAction::Hint),
        Action::Refresh => return Ok(MessageAction::Refresh),
        Action::Close => {
            return Ok(MessageAction::Close {
                code: object
                    .number("code", u32::from(u16::MAX))?
                    .map(|code| code as u16),
                reason: object.owned("reason")?.unwrap_or_default(),
            });
        }
        Action::Send => {}
    }
    let kind = match object.text("type")? {
        None => None,
        Some(name) => Some(MessageKind::from_name(name).ok_or_else(|| object.unknown("type"))?),
    };
    let (kind, content) = match (object.content("content", "content-bin")?, kind) {
        (Some(Content::Plain(bytes)), kind) => (kind.unwrap_or(MessageKind::Text), bytes),
        (Some(Content::Binary(bytes)), kind) => (kind.unwrap_or(MessageKind::Binary), bytes),
        (None, Some(kind @ (MessageKind::Ping | MessageKind::Pong))) => (kind, Vec::new()),
        (None, _) => return Err(object.missing("'content' or 'content-bin'")),
    };
    Ok(MessageAction::Send { kind, content })
}
