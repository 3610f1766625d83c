//! Spans of publishes that wait for the log of the cluster.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fermata_testkit::{LogServer, over_each_log, wait_until};
use serde_json::Value;

use crate::node::{node, wait_ready};

over_each_log!(a_publish_that_waits_for_the_log_is_below_its_request);

type Spans = Arc<Mutex<Vec<Value>>>;

/// Starts a collector of one connection and returns its address and spans.
fn collector() -> (String, Spans) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let address = listener.local_addr().expect("it is bound");
    let spans = Spans::default();
    let kept = Arc::clone(&spans);
    // The thread runs until the test process exits.
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("an exporter");
        let (mut input, mut buffer) = (Vec::new(), [0; 65_536]);
        while let Ok(len @ 1..) = client.read(&mut buffer) {
            input.extend_from_slice(&buffer[..len]);
            let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let Ok(body) = serde_json::from_slice::<Value>(&input[end + 4..]) else {
                continue;
            };
            input.clear();
            let of_body = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
            let of_body = of_body.as_array().expect("a list").iter().cloned();
            kept.lock().expect("nobody panics").extend(of_body);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
            client.write_all(answer).expect("it is read");
        }
    });
    (format!("http://{address}"), spans)
}

fn a_publish_that_waits_for_the_log_is_below_its_request(mut log: LogServer) {
    let (endpoint, spans) = collector();
    let server = node(&log)
        .setting("otlp_endpoint", endpoint)
        .setting("otlp_protocol", "http/json")
        .start();
    wait_ready(&server, 200);
    log.kill();
    wait_ready(&server, 503);
    let status = thread::scope(|scope| {
        let publishing = scope.spawn(|| server.connect().post("/publish/news", "one").status());
        // The publish retries continuously.
        thread::sleep(Duration::from_millis(300));
        log.restart();
        publishing.join().expect("it is answered")
    });
    assert_eq!(status, 200);
    let spans = wait_until("both spans have come", || {
        let spans = spans.lock().expect("nobody panics").clone();
        (spans.len() == 2).then_some(spans)
    });
    let named = |name: &str| {
        let found = spans.iter().find(|span| span["name"] == name);
        found.unwrap_or_else(|| panic!("{spans:#?}"))
    };
    let (request, publish) = (named("POST /publish/{channel}"), named("publish"));
    assert_eq!(publish["parentSpanId"], request["spanId"]);
    assert_eq!(publish["traceId"], request["traceId"]);
}
