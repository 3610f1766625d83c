//! The route that a request matches, and how routes and targets change the request.

use super::cases;
use crate::bench::Bench;
use crate::origin::{ok, text};

cases!(
    no_route_is_said,
    the_next_target_is_tried,
    no_target_is_said,
    hosts_are_replaced,
    paths_are_cut_and_replaced,
    headers_are_set_and_removed,
    original_headers_are_marked,
    without_grip_nothing_is_touched,
    path_is_chosen_by_its_longest_start,
);

fn no_route_is_said(bench: &Bench) {
    let answer = bench.get("unknown.test", "/x");
    assert_eq!(answer.status, 502);
    bench.differs(
        answer.text(),
        "No route for host: unknown.test\n",
        "Route not found\n",
    );
    assert_eq!(answer.header("content-type").as_deref(), Some("text/plain"));
}

fn the_next_target_is_tried(bench: &Bench) {
    bench.origin(|request| text(&request.text()));
    let mut client = bench.client("failover.test");
    let answer = client.request("POST", &bench.path("/x"), &[], b"body");
    assert_eq!((answer.status, answer.text()), (200, "body"));
}

fn no_target_is_said(bench: &Bench) {
    let answer = bench.get("dead.test", "/x");
    assert_eq!(
        (answer.status, answer.text()),
        (502, "Error while proxying to origin.\n")
    );
}

fn hosts_are_replaced(bench: &Bench) {
    bench.origin(|request| text(&request.header("host").unwrap_or_default()));
    assert_eq!(bench.get("plain.test", "/x").text(), "plain.test");
    assert_eq!(bench.get("host.test", "/x").text(), "other.test:81");
    assert_eq!(bench.get("target-host.test", "/x").text(), "target.test");
}

fn paths_are_cut_and_replaced(bench: &Bench) {
    bench.origin(|request| text(&request.target));
    for (host, start) in [("cut.test", "/cut"), ("replace.test", "/replace")] {
        let path = bench.path("/x?y");
        let answer = bench.client(host).get(&format!("{start}{path}"));
        assert_eq!((answer.status, answer.text()), (200, &path[..]), "{host}");
    }
}

fn headers_are_set_and_removed(bench: &Bench) {
    bench.origin(|request| {
        let added = request.header("x-added").unwrap_or_default();
        let removed = request.header("x-removed").unwrap_or_default();
        text(&format!("{added}/{removed}"))
    });
    let headers = [("X-Added", "of the client"), ("X-Removed", "1")];
    let answer = bench
        .client("header.test")
        .request("GET", &bench.path("/x"), &headers, b"");
    assert_eq!(answer.text(), "yes/");
}

fn original_headers_are_marked(bench: &Bench) {
    bench.origin(|request| {
        let marked = ["X-Own", "Host", "Connection"].map(|name| {
            let value = request.header(&format!("eb9bf0f5-{name}"));
            value.unwrap_or_default()
        });
        text(&marked.join(";"))
    });
    let headers = [("X-Own", "1")];
    let answer = bench
        .client("orig.test")
        .request("GET", &bench.path("/x"), &headers, b"");
    assert_eq!(answer.text(), "1;orig.test;");
}

fn without_grip_nothing_is_touched(bench: &Bench) {
    bench.origin(|_| ok(&[("Grip-Hold", "stream"), ("Grip-Channel", "c")], "plain"));
    let answer = bench.get("nogrip.test", "/x");
    assert_eq!((answer.status, answer.text()), (200, "plain"));
    let request = &bench.requests()[0];
    assert_eq!(request.header("grip-sig"), None);
    assert_eq!(request.header("grip-feature"), None);
}

fn path_is_chosen_by_its_longest_start(bench: &Bench) {
    bench.origin(|_| text("chosen"));
    assert_eq!(bench.get("path.test", "/x").text(), "chosen");
    assert_eq!(bench.client("path.test").get("/a").status, 502);
    assert_eq!(bench.client("path.test").get("/none").status, 502);
}
