//! Streams: held by headers, with published items, keep-alives and closes.

use serde_json::json;

use super::cases;
use crate::bench::Bench;
use crate::origin::ok;

cases!(
    a_stream_is_kept_alive_in_each_format,
    a_stream_is_kept_alive_at_intervals,
    a_stream_gets_what_is_published_until_closed,
    the_stream_of_seed_001,
    a_stream_gets_bytes_as_they_are,
    a_stream_gets_only_its_format,
    a_long_first_body_is_streamed_and_held,
    a_stream_has_the_status_it_is_given,
    a_prefix_is_put_before_channels,
    a_target_subscribes_by_itself,
    channels_beyond_the_limit_get_nothing,
    one_message_reaches_everybody,
    messages_of_a_batch_keep_their_order,
    a_client_that_leaves_disturbs_nobody,
    an_empty_stream_is_held,
);

const HOLD: (&str, &str) = ("Grip-Hold", "stream");

fn hold(bench: &Bench, more: &'static [(&'static str, &'static str)]) {
    let channel = bench.channel("c");
    bench.origin(move |_| {
        let headers = [&[HOLD, ("Grip-Channel", &channel)], more];
        ok(&headers.concat(), "opened\n")
    });
}

fn close(bench: &Bench, channel: &str) {
    let close = json!({"action": "close"});
    bench.publish(json!([{"channel": bench.channel(channel), "formats": {"http-stream": close}}]));
}

fn a_stream_is_kept_alive_in_each_format(bench: &Bench) {
    let channel = bench.channel("c");
    bench.origin(move |request| {
        let value = match request.target.rsplit('/').next() {
            Some("raw") => "abc; timeout=1",
            Some("cstring") => "a\\r\\n\\x62\\\\; format=cstring; timeout=1; mode=idle",
            _ => "YWJj; format=base64; timeout=1",
        };
        let headers = [HOLD, ("Grip-Channel", &channel), ("Grip-Keep-Alive", value)];
        ok(&headers, "opened\n")
    });
    for (format, expected) in [("raw", "abc"), ("cstring", "a\r\nb\\"), ("base64", "abc")] {
        let mut client = bench.client("plain.test");
        client.send("GET", &bench.path(&format!("/{format}")), &[], b"");
        client.read_head();
        assert_eq!(client.read_until("opened\n"), "opened\n");
        assert_eq!(client.read_until(expected), expected);
        assert_eq!(client.read_until(expected), expected);
    }
}

fn a_stream_is_kept_alive_at_intervals(bench: &Bench) {
    hold(
        bench,
        &[("Grip-Keep-Alive", "beat; timeout=1; mode=interval")],
    );
    let mut client = bench.stream("plain.test", "/x", "c", "opened\n");
    bench.publish_stream("c", "one");
    let text = client.read_until("one");
    assert_eq!(text.replace("beat", ""), "one");
    client.read_until("beat");
}

fn a_stream_gets_what_is_published_until_closed(bench: &Bench) {
    hold(bench, &[("Content-Type", "text/plain"), ("X-Own", "1")]);
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let head = client.read_head();
    assert_eq!(head.status, 200);
    assert_eq!(head.header("transfer-encoding").as_deref(), Some("chunked"));
    assert_eq!(head.header("content-length"), None);
    assert_eq!(head.header("x-own").as_deref(), Some("1"));
    assert!(
        head.headers
            .iter()
            .all(|(name, _)| !name.to_lowercase().starts_with("grip-"))
    );
    assert_eq!(client.read_until("opened\n"), "opened\n");
    bench.probe(&mut client, "c");
    bench.publish_stream("c", "one\n");
    bench.publish_stream("c", "two\n");
    assert_eq!(client.read_until("two\n"), "one\ntwo\n");
    close(bench, "c");
    assert_eq!(client.read_end(), (String::new(), true));
}

/// Uses the response of the seed's `stream.php`.
fn the_stream_of_seed_001(bench: &Bench) {
    let channel = bench.channel("group-7");
    bench.origin(move |_| {
        ok(
            &[
                ("Content-Type", "text/event-stream"),
                HOLD,
                ("Grip-Channel", &channel),
                ("Grip-Keep-Alive", ":\\n\\n; format=cstring; timeout=55"),
            ],
            "event: message\ndata: stream open\n\n",
        )
    });
    let mut client = bench.stream(
        "plain.test",
        "/stream.php?topic=group-7",
        "group-7",
        "open\n\n",
    );
    bench.publish_stream("group-7", "event: message\ndata: hello world\n\n");
    assert_eq!(
        client.read_until("world\n\n"),
        "event: message\ndata: hello world\n\n"
    );
}

fn a_stream_gets_bytes_as_they_are(bench: &Bench) {
    hold(bench, &[]);
    let mut client = bench.stream("plain.test", "/x", "c", "opened\n");
    // "\0\r\nü" and the bytes that end a chunk.
    let formats = json!({"http-stream": {"content-bin": "AA0Kw7w=", "content": "not this"}});
    bench.publish(json!([{"channel": bench.channel("c"), "formats": formats}]));
    bench.publish_stream("c", "0\r\n\r\nend");
    assert_eq!(client.read_until("end"), "\0\r\nü0\r\n\r\nend");
}

fn a_stream_gets_only_its_format(bench: &Bench) {
    hold(bench, &[]);
    let mut client = bench.stream("plain.test", "/x", "c", "opened\n");
    let channel = bench.channel("c");
    bench.publish(json!([
        {"channel": channel, "formats": {"http-response": {"body": "response"}}},
        {"channel": channel, "formats": {"ws-message": {"content": "message"}}},
        {"channel": channel, "http-stream": {"content": "stream"}}]));
    assert_eq!(client.read_until("stream"), "stream");
}

fn a_long_first_body_is_streamed_and_held(bench: &Bench) {
    let (channel, body) = (bench.channel("c"), "x".repeat(110_001));
    bench.origin(move |_| ok(&[HOLD, ("Grip-Channel", &channel)], &body));
    let start = "x".repeat(110_001);
    let mut client = bench.stream("plain.test", "/x", "c", &start);
    bench.publish_stream("c", "after");
    assert_eq!(client.read_until("after"), "after");
}

fn a_stream_has_the_status_it_is_given(bench: &Bench) {
    hold(bench, &[("Grip-Status", "203 Odd")]);
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let head = client.read_head();
    assert_eq!((head.status, &head.reason[..]), (203, "Odd"));
}

fn a_prefix_is_put_before_channels(bench: &Bench) {
    hold(bench, &[]);
    let mut client = bench.client("prefix.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    client.read_head();
    client.read_until("opened\n");
    // The channel's name for publishers.
    let prefixed = format!("pre-{}", bench.channel("c"));
    let end = std::time::Instant::now() + fermata_testkit::deadline();
    while !client.has_probe(std::time::Duration::from_millis(100)) {
        assert!(
            std::time::Instant::now() < end,
            "nobody is held on {prefixed}"
        );
        bench.publish_stream("c", "unprefixed");
        bench.publish(json!([{"channel": prefixed, "http-stream": {"content": "~"}}]));
    }
    bench.publish(json!([{"channel": prefixed, "http-stream": {"content": "one"}}]));
    assert_eq!(client.read_until("one"), "one");
}

fn a_target_subscribes_by_itself(bench: &Bench) {
    hold(bench, &[]);
    let mut client = bench.stream("sub.test", "/x", "c", "opened\n");
    bench.publish(json!([{"channel": "implicit", "http-stream": {"content": "implicit"}}]));
    bench.publish_stream("c", "own");
    assert_eq!(client.read_until("own"), "implicitown");
}

fn channels_beyond_the_limit_get_nothing(bench: &Bench) {
    let names: Vec<_> = (0..21).map(|at| bench.channel(&format!("{at}"))).collect();
    let list = names.join(", ");
    bench.origin(move |_| ok(&[HOLD, ("Grip-Channel", &list)], "opened\n"));
    let mut client = bench.stream("plain.test", "/x", "0", "opened\n");
    let items: Vec<_> = names
        .iter()
        .map(|name| json!({"channel": name, "http-stream": {"content": "x"}}))
        .collect();
    bench.publish(json!(items));
    bench.publish_stream("0", "end");
    assert_eq!(client.read_until("end"), format!("{}end", "x".repeat(20)));
}

fn one_message_reaches_everybody(bench: &Bench) {
    hold(bench, &[]);
    let mut clients: Vec<_> = (0..10)
        .map(|_| bench.stream("plain.test", "/x", "c", "opened\n"))
        .collect();
    bench.publish_stream("c", "all");
    for client in &mut clients {
        assert_eq!(client.read_until("all"), "all");
    }
}

fn messages_of_a_batch_keep_their_order(bench: &Bench) {
    hold(bench, &[]);
    let mut client = bench.stream("plain.test", "/x", "c", "opened\n");
    let items: Vec<_> = (0..50)
        .map(|at| json!({"channel": bench.channel("c"), "http-stream": {"content": format!("{at},")}}))
        .collect();
    bench.publish(json!(items));
    let expected: String = (0..50).map(|at| format!("{at},")).collect();
    assert_eq!(client.read_until("49,"), expected);
}

fn a_client_that_leaves_disturbs_nobody(bench: &Bench) {
    hold(bench, &[]);
    let leaving = bench.stream("plain.test", "/x", "c", "opened\n");
    let mut staying = bench.stream("plain.test", "/x", "c", "opened\n");
    drop(leaving);
    for at in 0..5 {
        bench.publish_stream("c", &format!("{at}"));
    }
    assert_eq!(staying.read_until("4"), "01234");
}

fn an_empty_stream_is_held(bench: &Bench) {
    let channel = bench.channel("c");
    bench.origin(move |_| ok(&[HOLD, ("Grip-Channel", &channel)], ""));
    let mut client = bench.stream("plain.test", "/x", "c", "");
    bench.publish_stream("c", "one");
    assert_eq!(client.read_until("one"), "one");
}
