//! Filters: which clients receive a message, and how they change it.

use serde_json::{Value, json};

use super::cases;
use crate::bench::Bench;
use crate::client::Client;
use crate::origin::ok;
use crate::socket::open;

cases!(
    a_sender_skips_itself,
    named_users_are_skipped,
    a_message_may_require_a_channel,
    ids_are_built_into_messages,
    variables_are_put_into_messages,
    unknown_filters_are_an_error,
    an_unknown_filter_ends_the_socket_that_asks_for_it,
    too_many_filters_are_an_error,
    content_filters_must_be_those_of_the_message,
);

fn stream(bench: &Bench, channels: String, meta: &'static str) -> Client {
    bench.origin(move |_| {
        ok(
            &[
                ("Grip-Hold", "stream"),
                ("Grip-Channel", &channels),
                ("Grip-Set-Meta", meta),
            ],
            "opened\n",
        )
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    client.read_head();
    client.read_until("opened\n");
    bench.probe(&mut client, "c");
    client
}

fn item(bench: &Bench, content: &str, meta: Value) -> Value {
    json!({"channel": bench.channel("c"), "meta": meta, "http-stream": {"content": content}})
}

fn a_sender_skips_itself(bench: &Bench) {
    let channel = format!("{}; filter=skip-self", bench.channel("c"));
    let mut client = stream(bench, channel, "user=\"me\"");
    bench.publish(json!([
        item(bench, "mine", json!({"sender": "me"})),
        item(bench, "yours,", json!({"sender": "you"})),
        item(bench, "nobody's", json!({}))
    ]));
    assert_eq!(client.read_until("nobody's"), "yours,nobody's");
}

fn named_users_are_skipped(bench: &Bench) {
    let channel = format!("{}; filter=skip-users", bench.channel("c"));
    let mut client = stream(bench, channel, "user=me");
    bench.publish(json!([
        item(bench, "1", json!({"skip_users": "you, me"})),
        item(bench, "2", json!({"skip_users": "you,meme"}))
    ]));
    assert_eq!(client.read_until("2"), "2");
}

fn a_message_may_require_a_channel(bench: &Bench) {
    let channels = format!(
        "{}; filter=require-sub, {}",
        bench.channel("c"),
        bench.channel("d")
    );
    let mut client = stream(bench, channels, "a=b");
    bench.publish(json!([
        item(bench, "1", json!({"require_sub": bench.channel("e")})),
        item(bench, "2", json!({"require_sub": bench.channel("d")}))
    ]));
    assert_eq!(client.read_until("2"), "2");
}

fn ids_are_built_into_messages(bench: &Bench) {
    let channel = format!("{}; filter=build-id", bench.channel("c"));
    let meta = "id_format=\"none\", id_encoding=hex";
    let mut client = stream(bench, channel, meta);
    let content = "id: %(C3PO)I 100%%\n";
    let mut item = item(bench, content, json!({}));
    item["http-stream"]["content-filters"] = json!(["build-id"]);
    bench.publish(json!([item]));
    assert_eq!(client.read_until("\n"), "id: 4333504f 100%\n");
}

fn variables_are_put_into_messages(bench: &Bench) {
    let channel = format!("{}; filter=var-subst", bench.channel("c"));
    let mut client = stream(bench, channel, "user=me, place=\"a b\"");
    bench.publish(json!([
        item(bench, "%(user)s is at %(place)s 100%%;", json!({})),
        item(bench, "%(unknown)s", json!({})),
        item(bench, "end", json!({}))
    ]));
    // An item that lacks a variable is not sent. The servers differ in whether the item also closes
    // the stream.
    bench.differs(
        client.read_until_or_end("end"),
        "me is at a b 100%;".to_owned(),
        "me is at a b 100%;end".to_owned(),
    );
}

fn unknown_filters_are_an_error(bench: &Bench) {
    bench.origin(|_| {
        let channel = "c; filter=new; filter=skip-self";
        ok(&[("Grip-Hold", "stream"), ("Grip-Channel", channel)], "x")
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    bench.differs(client.read_head().status, 200, 502);
}

fn an_unknown_filter_ends_the_socket_that_asks_for_it(bench: &Bench) {
    let subscribe = json!({"type": "subscribe", "channel": bench.channel("c"), "filters": ["new"]});
    let control = format!("c:{subscribe}");
    bench.origin(move |request| match &request.body[..] {
        b"OPEN\r\n" => ok(
            &[
                ("Content-Type", "application/websocket-events"),
                ("Sec-WebSocket-Extensions", "grip; message-prefix=\"\""),
            ],
            format!(
                "OPEN\r\nTEXT {:x}\r\n{control}\r\nTEXT 2\r\nhi\r\n",
                control.len()
            ),
        ),
        _ => ok(&[("Content-Type", "application/websocket-events")], ""),
    });
    let mut socket = open(bench.client("over.test"), &bench.path("/ws"));
    let frame = socket.next().expect("a frame");
    let code = frame.close().map(|(code, _)| code);
    bench.differs(code, None, Some(1011));
}

fn too_many_filters_are_an_error(bench: &Bench) {
    let channel = format!("c{}", "; filter=skip-self".repeat(6));
    bench.origin(move |_| ok(&[("Grip-Hold", "stream"), ("Grip-Channel", &channel)], "x"));
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    bench.differs(client.read_head().status, 200, 502);
}

fn content_filters_must_be_those_of_the_message(bench: &Bench) {
    let mut client = stream(bench, bench.channel("c"), "user=me");
    let mut templated = item(bench, "%(user)s", json!({}));
    templated["http-stream"]["content-filters"] = json!(["var-subst"]);
    let mut plain = item(bench, "plain", json!({}));
    plain["http-stream"]["content-filters"] = json!([]);
    bench.publish(json!([templated, plain]));
    bench.differs(
        client.read_until_or_end("plain"),
        String::new(),
        "plain".to_owned(),
    );
}
