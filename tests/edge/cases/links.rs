//! Next links: streams that continue with the response of another address.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::cases;
use crate::bench::Bench;
use crate::origin::{Reply, ok, text};

cases!(
    a_link_that_fails_is_tried_again,
    an_idle_stream_asks_its_link,
    a_link_without_hold_is_appended,
    links_are_followed_to_a_stream,
    a_hint_asks_the_link,
    a_link_gives_new_channels,
    a_link_of_another_status_is_tried_again,
    a_relative_link_belongs_to_its_path,
);

const HOLD: (&str, &str) = ("Grip-Hold", "stream");

fn last(target: &str) -> &str {
    target.rsplit('/').next().unwrap_or_default()
}

fn a_link_without_hold_is_appended(bench: &Bench) {
    let link = format!("<{}>; rel=next", bench.path("/second"));
    bench.origin(move |request| match last(&request.target) {
        "first" => ok(&[("Grip-Link", &link), ("X-Own", "1")], "one "),
        _ => text("two"),
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/first"), &[], b"");
    let head = client.read_head();
    assert_eq!(head.header("x-own").as_deref(), Some("1"));
    assert_eq!(head.header("grip-link"), None);
    assert_eq!(client.read_end(), ("one two".to_owned(), true));
    assert_eq!(bench.requests()[1].method, "GET");
}

fn links_are_followed_to_a_stream(bench: &Bench) {
    let (channel, path) = (bench.channel("c"), bench.path(""));
    bench.origin(move |request| match last(&request.target) {
        "1" => ok(&[("Grip-Link", &format!("<{path}/2>; rel=next"))], "one "),
        "2" => ok(&[("Grip-Link", &format!("<{path}/3>; rel=next"))], "two "),
        _ => ok(&[HOLD, ("Grip-Channel", &channel)], "three\n"),
    });
    let mut client = bench.stream("plain.test", "/1", "c", "one two three\n");
    bench.publish_stream("c", "four");
    assert_eq!(client.read_until("four"), "four");
}

fn a_hint_asks_the_link(bench: &Bench) {
    let (channel, path, count) = (bench.channel("c"), bench.path(""), AtomicUsize::new(0));
    bench.origin(move |request| {
        let link = format!("<{path}/next>; rel=next");
        let channel = format!("{channel}; prev-id=7");
        let headers = [HOLD, ("Grip-Channel", &channel), ("Grip-Link", &link)];
        match last(&request.target) {
            "first" => ok(&headers, "opened\n"),
            _ => {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let got = request.header("grip-last").unwrap_or_default();
                ok(&headers, format!("asked {number} {got}\n"))
            }
        }
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/first"), &[], b"");
    client.read_head();
    // No probe is published here: an item without id would start a request for missed items.
    client.read_until("opened\n");
    let hint = json!({"channel": bench.channel("c"), "http-stream": {"action": "hint"}});
    bench.publish(json!([hint]));
    let text = client.read_until("last-id=7\n");
    let expected = format!("asked 0 {}; last-id=7\n", bench.channel("c"));
    assert!(text.ends_with(&expected), "{text}");
}

fn an_idle_stream_asks_its_link(bench: &Bench) {
    let (channel, path, count) = (bench.channel("c"), bench.path(""), AtomicUsize::new(0));
    bench.origin(move |request| {
        let link = format!("<{path}/next>; rel=next; timeout=1");
        let headers = [HOLD, ("Grip-Channel", &channel), ("Grip-Link", &link)];
        match last(&request.target) {
            "first" => ok(&headers, "opened\n"),
            _ => ok(
                &headers,
                format!("{} ", count.fetch_add(1, Ordering::Relaxed)),
            ),
        }
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/first"), &[], b"");
    client.read_head();
    assert_eq!(client.read_until("0 1 "), "opened\n0 1 ");
}

fn a_link_gives_new_channels(bench: &Bench) {
    let (old, new, path) = (bench.channel("old"), bench.channel("new"), bench.path(""));
    bench.origin(move |request| match last(&request.target) {
        "first" => ok(
            &[
                HOLD,
                ("Grip-Channel", &old),
                ("Grip-Link", &format!("<{path}/next>; rel=next")),
            ],
            "opened\n",
        ),
        _ => ok(&[HOLD, ("Grip-Channel", &new)], "changed\n"),
    });
    let mut client = bench.stream("plain.test", "/first", "old", "opened\n");
    let hint = json!({"channel": bench.channel("old"), "http-stream": {"action": "hint"}});
    bench.publish(json!([hint]));
    assert_eq!(client.read_until("changed\n"), "changed\n");
    bench.probe(&mut client, "new");
    bench.publish_stream("old", "old");
    bench.publish_stream("new", "new");
    assert_eq!(client.read_until("new"), "new");
}

fn a_link_of_another_status_is_tried_again(bench: &Bench) {
    let (path, count) = (bench.path(""), AtomicUsize::new(0));
    bench.origin(move |request| match last(&request.target) {
        "first" => ok(
            &[("Grip-Link", &format!("<{path}/next>; rel=next"))],
            "one ",
        ),
        _ if count.fetch_add(1, Ordering::Relaxed) == 0 => {
            Reply::Answer(404, Vec::new(), b"not this ".to_vec())
        }
        _ => text("two"),
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/first"), &[], b"");
    client.read_head();
    assert_eq!(client.read_end(), ("one two".to_owned(), true));
}

fn a_link_that_fails_is_tried_again(bench: &Bench) {
    let (path, count) = (bench.path(""), AtomicUsize::new(0));
    bench.origin(move |request| match last(&request.target) {
        "first" => ok(
            &[("Grip-Link", &format!("<{path}/next>; rel=next"))],
            "one ",
        ),
        _ if count.fetch_add(1, Ordering::Relaxed) == 0 => Reply::Close(Vec::new()),
        _ => text("two"),
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/first"), &[], b"");
    client.read_head();
    assert_eq!(client.read_end(), ("one two".to_owned(), true));
}

fn a_relative_link_belongs_to_its_path(bench: &Bench) {
    bench.origin(|request| match last(&request.target) {
        "first?a=b" => ok(&[("Grip-Link", "<second?c=d>; rel=next")], "one "),
        _ => text(&request.target),
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/below/first?a=b"), &[], b"");
    client.read_head();
    let expected = format!("one {}", bench.path("/below/second?c=d"));
    assert_eq!(client.read_end(), (expected, true));
}
