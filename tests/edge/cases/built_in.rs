//! The built-in origin `test`.

use std::time::Duration;

use fermata_testkit::wait_until;
use fermata_testkit::websocket::BINARY;
use serde_json::json;

use super::cases;
use crate::bench::Bench;
use crate::socket::{ask, open};

cases!(the_built_in_origin_answers, the_built_in_origin_echoes);

fn the_built_in_origin_answers(bench: &Bench) {
    let mut client = bench.client("built-in.test");
    assert_eq!(client.get("/").status, 200);
    let missing = client.get("/missing");
    assert_eq!(
        (missing.status, missing.text()),
        (404, "no such test resource\n")
    );

    let mut stream = bench.client("built-in.test");
    stream.send(
        "GET",
        &format!("/stream?channel={}", bench.channel("c")),
        &[],
        b"",
    );
    stream.read_head();
    stream.read_until("[stream opened]\n");
    bench.probe(&mut stream, "c");
    bench.publish_stream("c", "one");
    assert_eq!(stream.read_until("one"), "one");

    let mut poll = bench.client("built-in.test");
    poll.send(
        "GET",
        &format!("/response?channel={}", bench.channel("d")),
        &[],
        b"",
    );
    let item = json!({"channel": bench.channel("d"), "http-response": {"body": "two"}});
    assert_eq!(bench.publish_until_answered(&mut poll, item).text(), "two");
}

fn the_built_in_origin_echoes(bench: &Bench) {
    let path = format!("/ws?channel={}", bench.channel("c"));
    let mut socket = open(bench.client("built-in.test"), &path);
    socket.text("hello");
    assert_eq!(socket.next_text(), "hello");
    socket.send(BINARY, b"\x01\xff");
    assert_eq!(socket.message(), (BINARY, b"\x01\xff".to_vec()));
    let item = json!({"channel": bench.channel("c"), "ws-message": {"content": "one"}});
    wait_until("it is subscribed", || {
        bench.publish(json!([item]));
        socket.has_data(Duration::from_millis(100)).then_some(())
    });
    assert_eq!(socket.next_text(), "one");

    let (head, mut client) = ask(bench.client("built-in.test"), "/none", &[]);
    assert_eq!(head.status, 404);
    assert_eq!(client.read_until("\n"), "no such test resource\n");
}
