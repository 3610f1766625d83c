//! Ids: order, duplicates, and recovery of a client that missed items.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::cases;
use crate::bench::Bench;
use crate::client::Client;
use crate::origin::{ok, text};

/// Time for which a long poll must be held, per attempt.
const SETTLE: [Duration; 3] = [
    Duration::from_millis(700),
    Duration::from_secs(3),
    Duration::from_secs(9),
];

cases!(
    a_predecessor_is_waited_for_only_so_long,
    items_out_of_order_are_turned,
    an_id_is_delivered_once,
    an_item_without_order_overtakes,
    a_missed_item_asks_the_link,
    a_long_poll_behind_is_asked_again,
    a_long_poll_up_to_date_is_held,
    recovering_asks_links,
);

/// Returns a stream after its first body. Publishes no probes, because an item without id would
/// look like a missed item.
fn opened(bench: &Bench) -> Client {
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/first"), &[], b"");
    client.read_head();
    client.read_until("opened\n");
    client
}

fn item(bench: &Bench, id: &str, prev_id: Option<&str>) -> Value {
    let mut item = json!({"channel": bench.channel("c"), "id": id, "http-stream": {"content": id}});
    if let Some(prev_id) = prev_id {
        item["prev-id"] = prev_id.into();
    }
    item
}

fn items_out_of_order_are_turned(bench: &Bench) {
    let mut client = bench.opened_stream();
    let items = [
        ("a", None),
        ("e", Some("d")),
        ("d", Some("c")),
        ("c", Some("b")),
        ("b", Some("a")),
    ];
    let items: Vec<_> = items.map(|(id, prev_id)| item(bench, id, prev_id)).into();
    bench.publish(json!(items));
    assert_eq!(client.read_until("e"), "abcde");
}

fn an_id_is_delivered_once(bench: &Bench) {
    let mut client = bench.opened_stream();
    for (id, prev_id) in [
        ("a", None),
        ("a", None),
        ("b", Some("a")),
        ("a", None),
        ("b", Some("a")),
    ] {
        bench.publish(json!([item(bench, id, prev_id)]));
    }
    let mut unordered = item(bench, "a", None);
    unordered["no-seq"] = true.into();
    bench.publish(json!([unordered, item(bench, "c", Some("b"))]));
    assert_eq!(client.read_until("c"), "abc");
}

fn an_item_without_order_overtakes(bench: &Bench) {
    let mut client = bench.opened_stream();
    bench.publish(json!([item(bench, "a", None), item(bench, "c", Some("b"))]));
    let mut unordered = item(bench, "x", Some("w"));
    unordered["no-seq"] = true.into();
    bench.publish(json!([unordered, item(bench, "b", Some("a"))]));
    assert_eq!(client.read_until("c"), "axbc");
}

fn a_predecessor_is_waited_for_only_so_long(bench: &Bench) {
    let mut client = bench.opened_stream();
    bench.publish(json!([item(bench, "a", None), item(bench, "c", Some("b"))]));
    assert_eq!(client.read_until("c"), "ac");
}

fn a_missed_item_asks_the_link(bench: &Bench) {
    let (channel, path, count) = (bench.channel("c"), bench.path(""), AtomicUsize::new(0));
    bench.origin(move |request| {
        let link = format!("<{path}/next>; rel=next");
        let hold = |id: &str, body: &str| {
            let channel = format!("{channel}; prev-id={id}");
            ok(
                &[
                    ("Grip-Hold", "stream"),
                    ("Grip-Channel", &channel),
                    ("Grip-Link", &link),
                ],
                body,
            )
        };
        if request.target.ends_with("/first") {
            hold("1", "opened\n")
        } else {
            match request.header("grip-last") {
                Some(last)
                    if last.ends_with("last-id=1")
                        && count.fetch_add(1, Ordering::Relaxed) == 0 =>
                {
                    hold("3", "2,3,")
                }
                last => hold("3", &format!("{last:?}")),
            }
        }
    });
    let mut client = opened(bench);
    // Item 2 is lost: the test never publishes it.
    bench.publish(json!([item(bench, "3,", Some("2,"))]));
    let text = client.read_until("2,3,");
    assert!(text.ends_with("2,3,"), "{text}");
    bench.publish(json!([item(bench, "4,", Some("3"))]));
    let _ = client.read_until("4,");
}

fn a_long_poll_behind_is_asked_again(bench: &Bench) {
    let mut client = bench.opened_stream();
    bench.publish(json!([item(bench, "2", None)]));
    client.read_until("2");
    let (channel, count) = (bench.channel("c"), AtomicUsize::new(0));
    bench.origin(move |request| match count.fetch_add(1, Ordering::Relaxed) {
        0 => ok(
            &[
                ("Grip-Hold", "response"),
                ("Grip-Channel", &format!("{channel}; prev-id=1")),
            ],
            "held",
        ),
        _ => text(&request.header("grip-last").unwrap_or_default()),
    });
    let answer = bench.get("plain.test", "/poll");
    assert_eq!(answer.text(), format!("{}; last-id=1", bench.channel("c")));
}

fn a_long_poll_up_to_date_is_held(bench: &Bench) {
    let mut client = bench.opened_stream();
    bench.publish(json!([item(bench, "1", None)]));
    client.read_until("1");
    let channel = bench.channel("c");
    bench.origin(move |request| {
        let newest = request.target.rsplit('/').next().unwrap_or_default();
        match request.header("grip-last") {
            Some(_) => text("again"),
            None => ok(
                &[
                    ("Grip-Hold", "response"),
                    ("Grip-Channel", &format!("{channel}; prev-id={newest}")),
                ],
                "nothing",
            ),
        }
    });
    // The client cannot detect when its long poll is held. If an item arrives before the hold, the
    // edge correctly polls again. The next poll, which follows that item, then has more time.
    for (newest, settle) in SETTLE.into_iter().enumerate() {
        let path = format!("/poll/{}", newest + 1);
        let mut poll = bench.client("plain.test");
        poll.send("GET", &bench.path(&path), &[], b"");
        bench.wait_for_request(&path);
        std::thread::sleep(settle);
        let (id, before) = ((newest + 2).to_string(), (newest + 1).to_string());
        bench.publish(
            json!([{"channel": bench.channel("c"), "id": id, "prev-id": before,
            "http-response": {"body": "something"}}]),
        );
        let answer = poll.read_answer(false);
        if answer.text() == "again" {
            continue;
        }
        assert_eq!(answer.text(), "something");
        let polls = bench.requests();
        let asked = polls.iter().filter(|it| it.target == bench.path(&path));
        assert_eq!(asked.count(), 1);
        return;
    }
    panic!("no long poll is held");
}

fn recovering_asks_links(bench: &Bench) {
    let (channel, path) = (bench.channel("c"), bench.path(""));
    bench.origin(move |request| {
        let link = format!("<{path}/next>; rel=next");
        let channel = format!("{channel}; prev-id=1");
        let body = if request.target.ends_with("/first") {
            "opened\n"
        } else {
            "asked\n"
        };
        ok(
            &[
                ("Grip-Hold", "stream"),
                ("Grip-Channel", &channel),
                ("Grip-Link", &link),
            ],
            body,
        )
    });
    let mut client = opened(bench);
    let answer = bench.control("/recover", "");
    assert_eq!((answer.status, answer.text()), (200, "Updated\n"));
    assert_eq!(client.read_until("asked\n"), "asked\n");
}
