//! Backends and clients that crash, hang or violate protocols, and oversized instructions.

use std::time::Duration;

use fermata_testkit::deadline;

use super::cases;
use crate::bench::Bench;
use crate::origin::{Reply, ok, text};
use crate::subject::Kind;

cases!(
    a_backend_that_hangs_disturbs_nobody,
    garbage_is_an_error,
    a_body_that_ends_early_is_not_whole,
    a_backend_that_dies_is_an_error,
    failures_are_told_with_debug,
    bad_instructions_are_errors,
    a_large_instruction_is_an_error,
    a_request_too_large_to_hold_is_refused,
    a_malformed_request_is_refused,
    a_client_that_leaves_early_disturbs_nobody,
);

const ERROR: (u16, &str) = (502, "Error while proxying to origin.\n");

fn a_backend_that_dies_is_an_error(bench: &Bench) {
    bench.origin(|request| match request.target.rsplit('/').next() {
        Some("silent") => Reply::Close(Vec::new()),
        Some("head") => Reply::Close(b"HTTP/1.1 200 OK\r\nX-".to_vec()),
        _ => text("fine"),
    });
    for rest in ["/silent", "/head"] {
        let answer = bench.get("plain.test", rest);
        bench.differs_at_times((answer.status, answer.text()), ERROR);
    }
    assert_eq!(bench.get("plain.test", "/x").text(), "fine");
}

fn garbage_is_an_error(bench: &Bench) {
    bench.origin(|_| Reply::Close(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()));
    let answer = bench.get("plain.test", "/x");
    assert_eq!((answer.status, answer.text()), ERROR);
}

fn a_body_that_ends_early_is_not_whole(bench: &Bench) {
    bench.origin(|request| {
        Reply::Close(if request.target.ends_with("/length") {
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_vec()
        } else {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n".to_vec()
        })
    });
    for rest in ["/length", "/chunks"] {
        let mut client = bench.client("plain.test");
        client.send("GET", &bench.path(rest), &[], b"");
        // Pushpin leaves the client waiting, or ends the incomplete response as if it were
        // complete.
        let patience = match bench.kind() {
            Kind::Pushpin => Duration::from_secs(2),
            Kind::Fermata => deadline(),
        };
        bench.differs_at_times(client.ends_within(patience), Some(false));
    }
}

fn a_backend_that_hangs_disturbs_nobody(bench: &Bench) {
    bench.origin(|request| match request.target.rsplit('/').next() {
        Some("hang") => Reply::Hang(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_vec()),
        Some("silent") => Reply::Hang(Vec::new()),
        _ => text("fine"),
    });
    let mut hanging = bench.client("plain.test");
    hanging.send("GET", &bench.path("/hang"), &[], b"");
    let mut silent = bench.client("plain.test");
    silent.send("GET", &bench.path("/silent"), &[], b"");
    assert_eq!(hanging.read_head().status, 200);
    for _ in 0..5 {
        assert_eq!(bench.get("plain.test", "/x").text(), "fine");
    }
    assert!(!silent.has_data(std::time::Duration::from_millis(10)));
}

fn failures_are_told_with_debug(bench: &Bench) {
    let answer = bench.get("dead-debug.test", "/x");
    assert_eq!(answer.status, 502);
    assert!(answer.text().len() > ERROR.1.len(), "{:?}", answer.text());
}

fn bad_instructions_are_errors(bench: &Bench) {
    let bad: [&[(&str, &str)]; 15] = [
        &[("Grip-Hold", "forever")],
        &[("Grip-Hold", "response"), ("Grip-Timeout", "soon")],
        &[("Grip-Hold", "response"), ("Grip-Timeout", "-1")],
        &[("Grip-Hold", "stream"), ("Grip-Keep-Alive", "; timeout=5")],
        &[
            ("Grip-Hold", "stream"),
            ("Grip-Keep-Alive", "x; format=yaml"),
        ],
        &[
            ("Grip-Hold", "stream"),
            ("Grip-Keep-Alive", "x; timeout=soon"),
        ],
        &[("Grip-Hold", "stream"), ("Grip-Keep-Alive", "x; mode=loud")],
        &[
            ("Grip-Hold", "stream"),
            ("Grip-Keep-Alive", "\\xzz; format=cstring"),
        ],
        &[
            ("Grip-Hold", "stream"),
            ("Grip-Keep-Alive", "!!; format=base64"),
        ],
        &[("Grip-Status", "1000")],
        &[("Grip-Status", "x")],
        &[("Grip-Link", "nowhere; rel=next")],
        &[("Grip-Link", "</x>; rel=next; timeout=soon")],
        &[("Grip-Link", "</x>; rel=next; timeout=-1")],
        &[("Grip-Set-Meta", "a=b,,c=d")],
    ];
    bench.origin(move |request| {
        let at = request
            .target
            .rsplit('/')
            .next()
            .and_then(|at| at.parse().ok());
        ok(
            &[bad[at.unwrap_or(0)], &[("Grip-Channel", "c")]].concat(),
            "x",
        )
    });
    let lenient: Vec<_> = bad
        .iter()
        .enumerate()
        .filter(|(at, _)| {
            let mut client = bench.client("debug.test");
            client.send("GET", &bench.path(&format!("/{at}")), &[], b"");
            client.read_head().status != 502
        })
        .map(|(_, headers)| format!("{headers:?}"))
        .collect();
    let base64 = format!("{:?}", bad[8]);
    bench.differs(lenient, vec![base64], Vec::new());
}

fn a_large_instruction_is_an_error(bench: &Bench) {
    let body = "x".repeat(110_001);
    bench.origin(move |_| ok(&[("Grip-Hold", "response"), ("Grip-Channel", "c")], &body));
    let answer = bench.get("plain.test", "/x");
    assert_eq!((answer.status, answer.text()), ERROR);
}

fn a_request_too_large_to_hold_is_refused(bench: &Bench) {
    bench.origin(|_| {
        ok(
            &[
                ("Grip-Hold", "response"),
                ("Grip-Channel", "c"),
                ("Grip-Timeout", "5"),
            ],
            "x",
        )
    });
    let body = "x".repeat(110_001);
    let mut client = bench.client("plain.test");
    let answer = client.request("POST", &bench.path("/x"), &[], body.as_bytes());
    assert_eq!(
        (answer.status, answer.text()),
        (400, "Request too large to accept GRIP instruct.\n")
    );
}

fn a_malformed_request_is_refused(bench: &Bench) {
    let outcome = |bytes: &[u8]| {
        let mut client = bench.client("plain.test");
        client.raw(bytes);
        if client.is_closed() {
            0
        } else {
            client.read_head().status
        }
    };
    bench.differs(outcome(b"nonsense\r\n\r\n"), 0, 400);
    bench.differs(
        outcome(b"GET / HTTP/1.1\r\nHost: plain.test\r\nX Y: 1\r\n\r\n"),
        0,
        400,
    );
}

fn a_client_that_leaves_early_disturbs_nobody(bench: &Bench) {
    bench.origin(|request| {
        if request.target.ends_with("/large") {
            text(&"x".repeat(2_000_000))
        } else {
            text("fine")
        }
    });
    for _ in 0..5 {
        let mut client = bench.client("plain.test");
        client.send("GET", &bench.path("/large"), &[], b"");
        client.read_head();
        drop(client);
    }
    assert_eq!(bench.get("plain.test", "/x").text(), "fine");
}
