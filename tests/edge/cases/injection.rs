//! Unexpected bytes in channel names, headers and reasons.

use serde_json::json;

use super::cases;
use crate::bench::Bench;
use crate::origin::{Reply, ok};
use crate::subject::Kind;

cases!(
    odd_channel_names_are_just_names,
    a_published_header_cannot_end_its_line,
    a_published_reason_cannot_end_its_line,
    an_instructed_header_cannot_end_its_line,
    a_client_cannot_hold_itself,
    a_request_cannot_smuggle_another,
);

/// Uses JSON, because header syntax has its own rules for commas, semicolons and quotes.
fn odd_channel_names_are_just_names(bench: &Bench) {
    for (at, odd) in [
        "a, b",
        "a;b=c",
        "a b",
        "ü/%2f?#",
        "$(reboot)",
        "'\"quoted\"'",
    ]
    .iter()
    .enumerate()
    {
        let channel = bench.channel(odd);
        bench.origin(move |_| {
            let hold = json!({"mode": "stream", "channels": [{"name": channel}]});
            let instruct = json!({"hold": hold, "response": {"body": "opened
"}});
            ok(
                &[("Content-Type", "application/grip-instruct")],
                instruct.to_string(),
            )
        });
        let mut client = bench.stream("plain.test", &format!("/{at}"), odd, "opened\n");
        bench.publish_stream(odd, "got");
        assert_eq!(client.read_until("got"), "got", "{odd}");
    }
}

fn hold(bench: &Bench) {
    let channel = bench.channel("c");
    bench.origin(move |_| {
        ok(
            &[
                ("Grip-Hold", "response"),
                ("Grip-Channel", &channel),
                ("Grip-Timeout", "5"),
            ],
            "own\n",
        )
    });
}

/// Returns true if the control port rejects an item.
fn is_refused(bench: &Bench, response: serde_json::Value) -> bool {
    hold(bench);
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    let item = json!({"channel": bench.channel("c"), "http-response": response});
    let answer = bench.control("/publish/", &json!({"items": [item]}).to_string());
    if answer.status == 200 {
        let answer = bench.publish_until_answered(&mut client, item);
        // Debian's Pushpin sends the injected header.
        assert_eq!(
            answer.header("injected").is_some(),
            bench.kind() == Kind::Pushpin
        );
    }
    answer.status == 400
}

fn a_published_header_cannot_end_its_line(bench: &Bench) {
    let is_refused = is_refused(
        bench,
        json!({"headers": [["X-A", "1\r\nInjected: 1"]], "body": "x"}),
    );
    bench.differs(is_refused, false, true);
}

fn a_published_reason_cannot_end_its_line(bench: &Bench) {
    let is_refused = is_refused(bench, json!({"reason": "Fine\r\nInjected: 1", "body": "x"}));
    bench.differs(is_refused, false, true);
}

fn an_instructed_header_cannot_end_its_line(bench: &Bench) {
    bench.origin(|_| {
        let headers = json!([["X-A", "1\r\nInjected: 1"]]);
        let instruct = json!({"response": {"headers": headers, "body": "x"}});
        ok(
            &[("Content-Type", "application/grip-instruct")],
            instruct.to_string(),
        )
    });
    let answer = bench.get("plain.test", "/x");
    let got = (answer.status, answer.header("injected").is_some());
    bench.differs(got, (200, true), (502, false));
}

fn a_client_cannot_hold_itself(bench: &Bench) {
    bench.origin(|request| {
        let found = request
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("grip-hold"));
        ok(&[("Content-Type", "text/plain")], format!("{found}"))
    });
    let headers = [("Grip-Hold", "stream"), ("gRiP-HoLd", "stream")];
    let answer = bench
        .client("plain.test")
        .request("GET", &bench.path("/x"), &headers, b"");
    assert_eq!(answer.text(), "false");
}

fn a_request_cannot_smuggle_another(bench: &Bench) {
    bench.origin(|_| Reply::Answer(200, Vec::new(), b"x".to_vec()));
    let path = bench.path("/x");
    let inner = format!("GET {path}/smuggled HTTP/1.1\r\nHost: plain.test\r\n\r\n");
    for lines in [
        format!(
            "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n",
            5 + inner.len()
        ),
        "Content-Length: 5\r\nContent-Length: 6\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned(),
    ] {
        let mut client = bench.client("plain.test");
        client.raw(
            format!("POST {path} HTTP/1.1\r\nHost: plain.test\r\n{lines}\r\n0\r\n\r\n{inner}")
                .as_bytes(),
        );
        let _ = client.is_closed();
    }
    let smuggled = bench
        .requests()
        .iter()
        .any(|request| request.target.ends_with("smuggled"));
    assert!(!smuggled || bench.kind() == Kind::Pushpin);
}
