//! The HTTP control port.

use serde_json::json;

use super::cases;
use crate::bench::Bench;
use crate::client::Client;

cases!(
    control_answers_have_known_words,
    control_speaks_what_is_accepted,
    control_keeps_connections,
    control_takes_chunks,
    control_refuses_large_bodies,
    control_is_closed_to_web_pages,
);

fn control_answers_have_known_words(bench: &Bench) {
    bench.assert_alone();
    let item =
        json!({"items": [{"channel": "nobody", "http-stream": {"content": "x"}}]}).to_string();
    let no_format = json!({"items": [{"channel": "nobody"}]}).to_string();
    let bad_code =
        json!({"items": [{"channel": "c", "http-response": {"body": "x", "code": 1000}}]})
            .to_string();
    for (method, path, body, status, text) in [
        ("GET", "/", "", 200, "Pushpin API"),
        ("POST", "/publish", &item[..], 200, "Published"),
        ("POST", "/publish/", &item, 200, "Published"),
        ("POST", "/recover", "", 200, "Updated"),
        ("GET", "/publish/", "", 405, "Method not allowed: GET."),
        ("POST", "/other", "", 404, "Not Found"),
        ("POST", "/publish/", "x", 400, "Body is not valid JSON."),
        ("POST", "/publish/", "[]", 400, "Invalid format."),
        (
            "POST",
            "/publish/",
            "{}",
            400,
            "Invalid format: object does not contain 'items'",
        ),
        (
            "POST",
            "/publish/",
            r#"{"items":1}"#,
            400,
            "Invalid format: object contains 'items' with wrong type",
        ),
        (
            "POST",
            "/publish/",
            &no_format,
            400,
            "Invalid format: no formats specified",
        ),
        (
            "POST",
            "/publish/",
            &bad_code,
            400,
            "Invalid format: 'http-response' contains 'code' with invalid value",
        ),
        ("POST", "/publish/", r#"{"items":[]}"#, 200, "Published"),
    ] {
        let answer = Client::open(bench.subject().control, "localhost").request(
            method,
            path,
            &[],
            body.as_bytes(),
        );
        assert_eq!(
            (answer.status, answer.text()),
            (status, &format!("{text}\n")[..]),
            "{method} {path} {body}"
        );
        assert_eq!(answer.header("allow").is_some(), status == 405);
    }
}

fn control_speaks_what_is_accepted(bench: &Bench) {
    let body = json!({"items": []}).to_string();
    for (accept, status, media) in [
        ("application/json", 200, "application/json"),
        ("text/plain", 200, "text/plain"),
        ("*/*", 200, "text/plain"),
        ("text/plain, application/json", 200, "application/json"),
        ("image/png", 406, "text/plain"),
    ] {
        let answer = Client::open(bench.subject().control, "localhost").request(
            "POST",
            "/publish/",
            &[("Accept", accept)],
            body.as_bytes(),
        );
        assert_eq!(
            (answer.status, answer.header("content-type").as_deref()),
            (status, Some(media)),
            "{accept}"
        );
        if media == "application/json" {
            let said: serde_json::Value = serde_json::from_str(answer.text()).expect("JSON");
            assert_eq!(said, json!({"message": "Published"}));
        }
    }
}

fn control_keeps_connections(bench: &Bench) {
    let mut client = Client::open(bench.subject().control, "localhost");
    let first = client.request("POST", "/publish/", &[], br#"{"items":[]}"#);
    assert_eq!(first.status, 200);
    client.send("POST", "/publish/", &[], br#"{"items":[]}"#);
    let is_kept = !client.is_closed();
    bench.differs(is_kept, false, true);
}

fn control_takes_chunks(bench: &Bench) {
    let mut client = Client::open(bench.subject().control, "localhost");
    client.send(
        "POST",
        "/publish/",
        &[("Transfer-Encoding", "chunked")],
        b"c\r\n{\"items\":[]}\r\n0\r\n\r\n",
    );
    let answer = client.read_answer(false);
    bench.differs(answer.status, 411, 200);
}

fn control_refuses_large_bodies(bench: &Bench) {
    let item = json!({"channel": "nobody", "http-stream": {"content": "x".repeat(1_100_000)}});
    let answer = bench.control("/publish/", &json!({"items": [item]}).to_string());
    assert!((400..500).contains(&answer.status), "{answer:?}");
}

fn control_is_closed_to_web_pages(bench: &Bench) {
    let headers = [
        ("Origin", "https://page.example"),
        ("Content-Type", "text/plain"),
    ];
    let answer = Client::open(bench.subject().control, "localhost").request(
        "POST",
        "/publish/",
        &headers,
        br#"{"items":[]}"#,
    );
    bench.differs(answer.status, 200, 403);
}
