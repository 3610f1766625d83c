//! Requests and responses without GRIP are forwarded without hop-by-hop headers.

use std::thread;
use std::time::Duration;

use fermata_testkit::deadline;

use super::cases;
use crate::bench::Bench;
use crate::client::Client;
use crate::origin::{Reply, ok, text};
use crate::subject::Kind;

/// Response time of the slow backend.
const SLOW: Duration = Duration::from_millis(400);

cases!(
    methods_and_bodies_pass,
    a_chunked_request_passes,
    an_expected_continue_is_given,
    request_headers_are_cleaned,
    response_headers_are_cleaned,
    header_lines_of_one_name_stay_apart,
    statuses_pass,
    forwarded_for_is_appended,
    forwarded_proto_of_clients_is_dropped,
    what_only_a_proxy_may_say_is_dropped,
    headers_of_the_edge_are_dropped_in_every_spelling,
    large_bodies_stream_both_ways,
    a_response_without_length_passes,
    a_connection_serves_requests_in_turn,
    requests_in_a_row_are_answered_in_order,
    a_client_of_http_1_0_is_served,
    queries_and_odd_paths_pass_unchanged,
    features_are_announced,
    a_client_that_ends_its_side_has_left,
);

fn echo(bench: &Bench) {
    bench.origin(|request| {
        ok(
            &[
                ("X-Method", &request.method),
                ("Content-Type", "text/plain"),
            ],
            &request.body,
        )
    });
}

fn methods_and_bodies_pass(bench: &Bench) {
    echo(bench);
    for (method, body) in [
        ("GET", ""),
        ("HEAD", ""),
        ("OPTIONS", ""),
        ("DELETE", ""),
        ("POST", "name=value"),
        ("POST", ""),
        ("PUT", "x"),
        ("PATCH", "[]"),
    ] {
        let mut client = bench.client("plain.test");
        let answer = client.request(method, &bench.path("/x"), &[], body.as_bytes());
        assert_eq!((answer.status, answer.text()), (200, body), "{method}");
        assert_eq!(answer.header("X-Method").as_deref(), Some(method));
    }
}

fn a_chunked_request_passes(bench: &Bench) {
    echo(bench);
    let answer = bench.client("plain.test").request(
        "POST",
        &bench.path("/x"),
        &[("Transfer-Encoding", "chunked")],
        b"5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n",
    );
    assert_eq!((answer.status, answer.text()), (200, "hello world"));
}

fn an_expected_continue_is_given(bench: &Bench) {
    echo(bench);
    let mut client = bench.client("plain.test");
    let path = bench.path("/x");
    client.raw(format!("POST {path} HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n").as_bytes());
    assert_eq!(client.read_head().status, 100);
    client.raw(b"ok");
    assert_eq!(client.read_answer(false).text(), "ok");
    assert_eq!(bench.requests()[0].header("expect"), None);
}

fn request_headers_are_cleaned(bench: &Bench) {
    echo(bench);
    let answer = bench.client("plain.test").request(
        "GET",
        &bench.path("/x"),
        &[
            ("Accept-Encoding", "gzip"),
            ("Connection", "keep-alive"),
            ("Keep-Alive", "timeout=5"),
            ("Grip-Hold", "stream"),
            ("grip-sig", "x.y.z"),
            ("Grip-Last", "a; last-id=b"),
            ("eb9bf0f5-X-Own", "forged"),
            ("X-Own", "1"),
            ("Cookie", "a=b; c=d"),
            ("Authorization", "Basic eA=="),
        ],
        b"",
    );
    assert_eq!(answer.status, 200);
    let request = &bench.requests()[0];
    let own = "deflate, gzip, br, zstd".to_owned();
    bench.differs(request.header("accept-encoding"), Some(own), None);
    for gone in [
        "connection",
        "keep-alive",
        "grip-hold",
        "grip-last",
        "eb9bf0f5-x-own",
        "transfer-encoding",
    ] {
        assert_eq!(request.header(gone), None, "{gone}");
    }
    assert_ne!(request.header("grip-sig").as_deref(), Some("x.y.z"));
    for (kept, value) in [
        ("x-own", "1"),
        ("cookie", "a=b; c=d"),
        ("authorization", "Basic eA=="),
        ("host", "plain.test"),
    ] {
        assert_eq!(request.header(kept).as_deref(), Some(value), "{kept}");
    }
}

fn response_headers_are_cleaned(bench: &Bench) {
    bench.origin(|_| {
        ok(
            &[
                ("Connection", "keep-alive"),
                ("Keep-Alive", "timeout=5"),
                ("Content-Encoding", "identity"),
                ("X-Own", "1"),
                ("ETag", "\"7\""),
            ],
            "x",
        )
    });
    let answer = bench.get("plain.test", "/x");
    assert_eq!(answer.header("keep-alive"), None);
    assert_eq!(answer.header("content-encoding"), None);
    assert_eq!(answer.header("x-own").as_deref(), Some("1"));
    assert_eq!(answer.header("etag").as_deref(), Some("\"7\""));
}

fn header_lines_of_one_name_stay_apart(bench: &Bench) {
    bench.origin(|_| ok(&[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")], "x"));
    let answer = bench.get("plain.test", "/x");
    let cookies: Vec<_> = answer
        .head
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
}

fn statuses_pass(bench: &Bench) {
    bench.origin(|request| {
        let status = request.target.rsplit('/').next().unwrap_or_default();
        Reply::Answer(
            status.parse().unwrap_or(500),
            vec![("Location", "/elsewhere".into())],
            Vec::new(),
        )
    });
    for status in [200, 201, 204, 301, 304, 404, 418, 500, 503] {
        let answer = bench.get("plain.test", &format!("/{status}"));
        assert_eq!(
            (answer.status, &answer.head.reason[..]),
            (status, "Whatever")
        );
        assert_eq!(answer.header("location").as_deref(), Some("/elsewhere"));
    }
}

fn forwarded_for_is_appended(bench: &Bench) {
    echo(bench);
    bench.get("plain.test", "/1");
    bench.client("plain.test").request(
        "GET",
        &bench.path("/2"),
        &[("X-Forwarded-For", "192.0.2.1")],
        b"",
    );
    let values: Vec<_> = bench
        .requests()
        .iter()
        .map(|request| request.header("x-forwarded-for").unwrap_or_default())
        .collect();
    assert_eq!(values[0], "127.0.0.1");
    let second: Vec<_> = values[1].split(',').map(str::trim).collect();
    assert_eq!(second, ["192.0.2.1", "127.0.0.1"]);
}

fn forwarded_proto_of_clients_is_dropped(bench: &Bench) {
    echo(bench);
    let headers = [("X-Forwarded-Proto", "https")];
    bench
        .client("plain.test")
        .request("GET", &bench.path("/x"), &headers, b"");
    assert_eq!(bench.requests()[0].header("x-forwarded-proto"), None);
}

/// Sends these headers, and returns the ones that the backend received.
fn passed(bench: &Bench, host: &str, names: &[&'static str]) -> Vec<&'static str> {
    echo(bench);
    let headers: Vec<_> = names.iter().map(|name| (*name, "forged")).collect();
    bench
        .client(host)
        .request("GET", &bench.path("/x"), &headers, b"");
    let requests = bench.requests();
    let is_there = |name: &&&str| requests.iter().any(|it| it.header(name).is_some());
    names.iter().filter(is_there).copied().collect()
}

fn what_only_a_proxy_may_say_is_dropped(bench: &Bench) {
    let names = [
        "Forwarded",
        "X-Forwarded-Host",
        "X-Forwarded-Port",
        "X-Real-IP",
        "True-Client-IP",
    ];
    bench.differs(passed(bench, "plain.test", &names), names.to_vec(), vec![]);
}

fn headers_of_the_edge_are_dropped_in_every_spelling(bench: &Bench) {
    let names = [
        "Grip_Sig",
        "GRIP_FEATURE",
        "X_Forwarded_For",
        "X_Forwarded_Proto",
    ];
    bench.differs(passed(bench, "plain.test", &names), names.to_vec(), vec![]);
}

fn large_bodies_stream_both_ways(bench: &Bench) {
    echo(bench);
    let body: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
    let mut client = bench.client("plain.test");
    let path = bench.path("/x");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: plain.test\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.raw(head.as_bytes());
    client.raw(&body);
    let answer = client.read_answer(false);
    assert!(answer.body == body, "{} bytes came back", answer.body.len());
}

fn a_response_without_length_passes(bench: &Bench) {
    bench.origin(|request| if request.target.ends_with("chunks") { Reply::Close(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n".to_vec(),
        ) } else { Reply::Close(b"HTTP/1.0 200 OK\r\nX-Own: 1\r\n\r\nuntil the end".to_vec()) });
    for (path, body) in [("/chunks", "abcdef"), ("/close", "until the end")] {
        let answer = bench.get("plain.test", path);
        assert_eq!(
            (answer.status, answer.text(), answer.is_whole),
            (200, body, true)
        );
    }
}

fn a_connection_serves_requests_in_turn(bench: &Bench) {
    echo(bench);
    let mut client = bench.client("plain.test");
    for body in ["a", "b", "c"] {
        let answer = client.request("POST", &bench.path("/x"), &[], body.as_bytes());
        assert_eq!(answer.text(), body);
    }
}

fn requests_in_a_row_are_answered_in_order(bench: &Bench) {
    echo(bench);
    let path = bench.path("/x");
    let request = |body: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 1\r\n\r\n{body}")
    };
    let mut client = bench.client("plain.test");
    client.raw(
        [request("1"), request("2"), request("3")]
            .concat()
            .as_bytes(),
    );
    for body in ["1", "2", "3"] {
        assert_eq!(client.read_answer(false).text(), body);
    }
}

fn a_client_of_http_1_0_is_served(bench: &Bench) {
    bench.origin(|_| {
        Reply::Close(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_vec(),
        )
    });
    let mut client = Client::open(bench.subject().port, "plain.test");
    client.raw(
        format!(
            "GET {} HTTP/1.0\r\nHost: plain.test\r\n\r\n",
            bench.path("/x")
        )
        .as_bytes(),
    );
    let answer = client.read_answer(false);
    assert_eq!((answer.status, answer.text()), (200, "abc"));
    assert_eq!(answer.header("transfer-encoding"), None);
    assert!(client.is_closed());
}

fn queries_and_odd_paths_pass_unchanged(bench: &Bench) {
    bench.origin(|request| text(&request.target));
    for rest in [
        "/?a=b&c=d%20e",
        "/%2Fb",
        "//double",
        "/semi;colon?",
        "/~tilde!$'()*,",
    ] {
        let answer = bench.get("plain.test", rest);
        assert_eq!(answer.text(), bench.path(rest));
    }
    let answer = bench.get("plain.test", "/%41%2fb");
    bench.differs(
        answer.text(),
        &bench.path("/A%2Fb")[..],
        &bench.path("/%41%2fb"),
    );
}

fn features_are_announced(bench: &Bench) {
    echo(bench);
    bench.get("plain.test", "/x");
    let features = bench.requests()[0]
        .header("grip-feature")
        .unwrap_or_default();
    let old = "status, session, link:next, filter:skip-self, filter:skip-users, filter:require-sub, filter:build-id, filter:var-subst";
    let new = old.replace("link:next", "link:next, link:gone")
        + ", filter:http-check, filter:http-modify";
    match bench.kind() {
        // Versions after 1.36 announce the new features.
        Kind::Fermata if features == old => {}
        _ => bench.differs(features, old.to_owned(), new),
    }
}

fn a_client_that_ends_its_side_has_left(bench: &Bench) {
    bench.origin(|_| {
        thread::sleep(SLOW);
        text("late")
    });
    let mut client = bench.client("plain.test");
    client.send("GET", &bench.path("/x"), &[], b"");
    client.end_side();
    assert!(client.has_ended(deadline()), "the connection stays");
    assert_eq!(client.try_status(SLOW), None);
}
