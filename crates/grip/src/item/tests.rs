use proptest::prelude::*;

use super::*;
use crate::packet::Notation;
use crate::value::Value;

fn read(json: &str) -> Result<Item, ItemError> {
    let json: serde_json::Value = serde_json::from_str(json).expect("the test's JSON");
    parse(&Value::from(json), Notation::Json, None)
}

/// Responses of Debian's Pushpin 1.36 on its control port.
const AS_PUSHPIN: &[(&str, &str)] = &[
    ("1", "publish item object is not an object"),
    ("{}", "publish item object does not contain 'channel'"),
    (
        r#"{"channel":1}"#,
        "publish item object contains 'channel' with wrong type",
    ),
    (
        r#"{"channel":null}"#,
        "publish item object contains 'channel' with wrong type",
    ),
    (r#"{"channel":""}"#, "no formats specified"),
    (r#"{"channel":"c","formats":{}}"#, "no formats specified"),
    (
        r#"{"channel":"c","formats":[]}"#,
        "publish item object contains 'formats' with wrong type",
    ),
    (
        r#"{"channel":"c","formats":{"http-stream":1}}"#,
        "'http-stream' is not an object",
    ),
    (
        r#"{"channel":"c","http-stream":null}"#,
        "'http-stream' is not an object",
    ),
    (
        r#"{"channel":"c","http-stream":{}}"#,
        "'http-stream' does not contain 'content' or 'content-bin'",
    ),
    (
        r#"{"channel":"c","http-stream":{"content":1}}"#,
        "'http-stream' contains 'content' with wrong type",
    ),
    (
        r#"{"channel":"c","http-stream":{"content-bin":null,"content":"x"}}"#,
        "'http-stream' contains 'content-bin' with wrong type",
    ),
    (
        r#"{"channel":"c","http-stream":{"action":1}}"#,
        "'http-stream' contains 'action' with wrong type",
    ),
    (
        r#"{"channel":"c","http-stream":{"content":"x","content-filters":1}}"#,
        "'http-stream' contains 'content-filters' with wrong type",
    ),
    (
        r#"{"channel":"c","http-stream":{"content":"x","content-filters":[1]}}"#,
        "content-filters contains element with wrong type",
    ),
    (
        r#"{"channel":"c","http-response":{}}"#,
        "'http-response' does not contain 'body', 'body-bin', or 'body-patch'",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","code":-1}}"#,
        "'http-response' contains 'code' with invalid value",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","code":1000}}"#,
        "'http-response' contains 'code' with invalid value",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","reason":1}}"#,
        "'http-response' contains 'reason' with wrong type",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","headers":1}}"#,
        "'http-response' contains 'headers' with wrong type",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","headers":{"a":1}}}"#,
        "headers contains 'a' with wrong type",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","headers":[1]}}"#,
        "headers contains element with wrong type",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","headers":[["a"]]}}"#,
        "headers contains list with wrong number of elements",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","headers":[[1,2]]}}"#,
        "header contains name element with wrong type",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","headers":[["a",2]]}}"#,
        "header contains value element with wrong type",
    ),
    (
        r#"{"channel":"c","http-response":{"body-patch":1}}"#,
        "'http-response' contains 'body-patch' with wrong type",
    ),
    (
        r#"{"channel":"c","ws-message":{}}"#,
        "'ws-message' does not contain 'content' or 'content-bin'",
    ),
    (
        r#"{"channel":"c","ws-message":{"content":"x","type":1}}"#,
        "'ws-message' contains 'type' with wrong type",
    ),
    (
        r#"{"channel":"c","ws-message":{"content":"x","type":"foo"}}"#,
        "'ws-message' contains 'type' with unknown value",
    ),
    (
        r#"{"channel":"c","ws-message":{"type":"text"}}"#,
        "'ws-message' does not contain 'content' or 'content-bin'",
    ),
    (
        r#"{"channel":"c","ws-message":{"action":"close","code":-1}}"#,
        "'ws-message' contains 'code' with invalid value",
    ),
    (
        r#"{"channel":"c","ws-message":{"action":"close","reason":1}}"#,
        "'ws-message' contains 'reason' with wrong type",
    ),
    (
        r#"{"channel":"c","id":1,"http-stream":{"content":"x"}}"#,
        "publish item object contains 'id' with wrong type",
    ),
    (
        r#"{"channel":"c","prev-id":1,"http-stream":{"content":"x"}}"#,
        "publish item object contains 'prev-id' with wrong type",
    ),
    (
        r#"{"channel":"c","meta":1,"http-stream":{"content":"x"}}"#,
        "publish item object contains 'meta' with wrong type",
    ),
    (
        r#"{"channel":"c","meta":{"a":null},"http-stream":{"content":"x"}}"#,
        "'meta' contains 'a' with wrong type",
    ),
    (
        r#"{"channel":"c","size":-1,"http-stream":{"content":"x"}}"#,
        "publish item object contains 'size' with invalid value",
    ),
    (
        r#"{"channel":"c","size":3000000000,"http-stream":{"content":"x"}}"#,
        "publish item object contains 'size' with invalid value",
    ),
    (
        r#"{"channel":"c","no-seq":1,"http-stream":{"content":"x"}}"#,
        "publish item object contains 'no-seq' with wrong type",
    ),
];

/// Items that Pushpin accepts, or refuses without a reason. This crate refuses them with a reason.
const STRICTER: &[(&str, &str)] = &[
    (
        r#"{"channel":"c","http-stream":{"action":"foo"}}"#,
        "'http-stream' contains 'action' with unknown value",
    ),
    (
        r#"{"channel":"c","http-stream":{"content-bin":"!!"}}"#,
        "'http-stream' contains 'content-bin' with invalid value",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","code":"a"}}"#,
        "'http-response' contains 'code' with wrong type",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","code":1.5}}"#,
        "'http-response' contains 'code' with wrong type",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","headers":[["a b","c"]]}}"#,
        "'http-response' contains 'headers' with invalid value",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","headers":[["a","b\r\nc: d"]]}}"#,
        "'http-response' contains 'headers' with invalid value",
    ),
    (
        r#"{"channel":"c","http-response":{"body":"x","reason":"a\nb"}}"#,
        "'http-response' contains 'reason' with invalid value",
    ),
    (
        r#"{"channel":"c","ws-message":{"action":"close","code":70000}}"#,
        "'ws-message' contains 'code' with invalid value",
    ),
];

#[test]
fn errors_match_pushpin() {
    for (json, error) in AS_PUSHPIN.iter().chain(STRICTER) {
        assert_eq!(read(json).expect_err(json).to_string(), *error, "{json}");
    }
}

#[test]
fn one_invalid_item_refuses_the_list() {
    let list = |json: &str| {
        let json: serde_json::Value = serde_json::from_str(json).expect("the test's JSON");
        parse_list(&Value::from(json), Notation::Json)
    };
    for (json, error) in [
        ("{}", "object does not contain 'items'"),
        (r#"{"items":{}}"#, "object contains 'items' with wrong type"),
        (
            r#"{"items":[{"channel":"c","http-stream":{"content":"x"}},1]}"#,
            "publish item object is not an object",
        ),
    ] {
        assert_eq!(list(json).expect_err(json).to_string(), error);
    }
    assert_eq!(list(r#"{"items":[]}"#), Ok(Vec::new()));
}

#[test]
fn accepts_formats_nested_or_top_level() {
    let inside =
        read(r#"{"channel":"c","formats":{"http-stream":{"content":"x"}},"ws-message":1}"#);
    let beside = read(r#"{"channel":"c","http-stream":{"content":"x"}}"#);
    assert_eq!(inside, beside);
    let item = beside.expect("valid");
    assert_eq!(
        item.http_stream,
        Some(Format::new(StreamAction::Send(b"x".to_vec())))
    );
    assert_eq!(item.size(), 1);
    // An unknown format of a newer publisher is ignored without an error.
    let unknown = read(r#"{"channel":"c","formats":{"mqtt":{}}}"#).expect("valid");
    assert!(unknown.http_stream.is_none() && unknown.ws_message.is_none());
}

#[test]
fn content_determines_the_type_of_a_message() {
    for (json, kind, content) in [
        (r#"{"content":"x"}"#, MessageKind::Text, &b"x"[..]),
        (
            r#"{"content-bin":"AP8=","content":"x"}"#,
            MessageKind::Binary,
            b"\0\xff",
        ),
        (
            r#"{"content-bin":"eA==","type":"text"}"#,
            MessageKind::Text,
            b"x",
        ),
        (r#"{"type":"ping"}"#, MessageKind::Ping, b""),
        (r#"{"type":"pong","content":"x"}"#, MessageKind::Pong, b"x"),
    ] {
        let item = read(&format!(r#"{{"channel":"c","ws-message":{json}}}"#)).expect(json);
        let expected = MessageAction::Send {
            kind,
            content: content.to_vec(),
        };
        assert_eq!(item.ws_message.expect("a message").action, expected);
    }
}

#[test]
fn responses_have_defaults() {
    let item = read(
        r#"{"channel":"c","http-response":{"body":"x","headers":{"A":"1","Grip-Hold":"stream"}}}"#,
    );
    let Some(Format {
        action: ResponseAction::Send(response),
        ..
    }) = item.expect("valid").http_response
    else {
        panic!("no response");
    };
    assert_eq!(
        (response.code, response.reason, response.body),
        (200, Vec::new(), Body::Bytes(b"x".to_vec()))
    );
    assert_eq!(response.headers, [(b"A".to_vec(), b"1".to_vec())]);
}

#[test]
fn subscription_replaces_the_channel() {
    let value = Value::Map(vec![(
        b"http-stream".to_vec(),
        Value::Map(vec![(b"content".to_vec(), Value::from("x"))]),
    )]);
    let item = parse(&value, Notation::Tnetstring, Some(b"room")).expect("valid");
    assert_eq!(item.channel, b"room");
    assert!(parse(&value, Notation::Tnetstring, None).is_err());
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..12)
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    "[a-zA-Z0-9 ü;,]{0,8}".prop_map(String::into_bytes)
}

fn format<T: std::fmt::Debug>(
    action: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<Format<T>>> {
    let filters = prop::option::of(prop::collection::vec(text(), 0..3));
    prop::option::of(
        (action, filters).prop_map(|(action, content_filters)| Format {
            action,
            content_filters,
        }),
    )
}

fn items() -> impl Strategy<Value = Item> {
    let header = ("[A-Z][a-z]{0,5}x", "[a-z ]{0,5}")
        .prop_map(|(name, value)| (name.into_bytes(), value.into_bytes()));
    let patch = Just(Body::Patch(
        serde_json::json!([{"op": "remove", "path": "/a"}]),
    ));
    let response = (
        0u16..1000,
        text(),
        prop::collection::vec(header, 0..3),
        prop_oneof![bytes().prop_map(Body::Bytes), patch],
    )
        .prop_map(|(code, reason, headers, body)| {
            ResponseAction::Send(Response {
                code,
                reason,
                headers,
                body,
            })
        });
    let response = prop_oneof![
        response,
        Just(ResponseAction::Hint),
        Just(ResponseAction::Close),
        Just(ResponseAction::Refresh)
    ];
    let stream = prop_oneof![
        bytes().prop_map(StreamAction::Send),
        Just(StreamAction::Hint),
        Just(StreamAction::Close),
        Just(StreamAction::Refresh)
    ];
    let kind = prop_oneof![
        Just(MessageKind::Text),
        Just(MessageKind::Binary),
        Just(MessageKind::Ping),
        Just(MessageKind::Pong)
    ];
    let message = prop_oneof![
        (kind, bytes()).prop_map(|(kind, content)| MessageAction::Send { kind, content }),
        (prop::option::of(any::<u16>()), text())
            .prop_map(|(code, reason)| MessageAction::Close { code, reason }),
        Just(MessageAction::Hint),
        Just(MessageAction::Refresh),
    ];
    let meta = prop::collection::vec((text(), text()), 0..3).prop_map(Meta::from_iter);
    let ids = (prop::option::of(text()), prop::option::of(text()));
    let rest = (prop::option::of(0u32..1 << 31), any::<bool>());
    (
        text(),
        ids,
        meta,
        rest,
        format(response),
        format(stream),
        format(message),
    )
        .prop_map(
            |(
                channel,
                (id, prev_id),
                meta,
                (size, no_seq),
                http_response,
                http_stream,
                ws_message,
            )| Item {
                channel,
                id,
                prev_id,
                meta,
                size,
                no_seq,
                http_response,
                http_stream,
                ws_message,
            },
        )
        .prop_filter("an item has a format", |item| {
            item.http_response.is_some() || item.http_stream.is_some() || item.ws_message.is_some()
        })
}

proptest! {
    #[test]
    fn items_round_trip(item in items()) {
        for notation in [Notation::Json, Notation::Tnetstring] {
            let mut packet = Vec::new();
            crate::packet::encode(&mut packet, &item.to_value(notation), notation);
            let (value, read_notation) = crate::packet::decode(&packet).expect("own packet");
            prop_assert_eq!(read_notation, notation);
            prop_assert_eq!(parse(&value, notation, None).expect("own item"), item.clone());
        }
    }
}
