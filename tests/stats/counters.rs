//! Known traffic over two workers, counted exactly.

use fermata_testkit::sse::Stream;
use fermata_tests::fixture;

use crate::{ask, fermata, figure, settled, stats, wait_for};

#[test]
fn requests_and_responses_are_counted_exactly_over_two_workers() {
    let server = fixture("http").control().start();
    let pids = server.worker_pids();
    let mut connections = [server.connect_to(pids[&0]), server.connect_to(pids[&1])];
    // Finding the workers has sent requests, too.
    let before = settled(&server);
    let base = |path: &str| figure(&before, path);
    let request = "GET /status/204 HTTP/1.1\r\nHost: x\r\n\r\n";
    for (connection, count) in connections.iter_mut().zip([30, 12]) {
        for _ in 0..count {
            connection.send(request);
            assert_eq!(connection.read_response().status(), 204);
        }
        assert_eq!(connection.get("/missing").status(), 404);
        assert_eq!(connection.get("/status/302").status(), 302);
    }
    let mut refused = server.connect();
    refused.send("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n");
    assert_eq!(refused.read_response().status(), 400);
    refused.expect_end();
    drop(refused);

    let total = "total";
    let expected = [
        ("requests", 46),
        ("responses/2xx", 42),
        ("responses/3xx", 2),
        ("responses/4xx", 3),
        ("responses/5xx", 0),
        ("requests_refused/400", 1),
        ("accepted", 1),
        ("handler_failures", 0),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(key, gained)| {
            let path = format!("{total}/{key}");
            let value = base(&path) + gained;
            (path, value)
        })
        .chain([
            ("total/connections/http_idle".to_owned(), 2),
            ("total/connections/http_active".to_owned(), 0),
            (
                "workers/0/requests".to_owned(),
                base("workers/0/requests") + 32,
            ),
            (
                "workers/1/requests".to_owned(),
                base("workers/1/requests") + 14,
            ),
        ])
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(path, value)| (path.as_str(), *value))
        .collect();
    wait_for(&server, &expected);
}

#[test]
fn bytes_are_those_on_the_wire() {
    let server = fixture("http").workers(1).control().start();
    let mut connection = server.connect();
    let request = "GET /bytes/4096 HTTP/1.1\r\nHost: x\r\n\r\n";
    connection.send(request);
    connection.finish_sending();
    let (answer, _) = connection.read_to_end();
    wait_for(
        &server,
        &[
            ("total/bytes_received", request.len() as u64),
            ("total/bytes_sent", answer.len() as u64),
            ("total/requests", 1),
            ("total/connections/http_idle", 0),
        ],
    );
}

#[test]
fn a_request_that_is_still_arriving_makes_its_connection_active() {
    let server = fixture("http").control().start();
    let mut connection = server.connect();
    connection.send("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab");
    let active = "total/connections/http_active";
    let idle = "total/connections/http_idle";
    wait_for(&server, &[(active, 1), (idle, 0), ("total/requests", 0)]);
    connection.send("cd");
    assert_eq!(connection.read_response().text(), "abcd");
    wait_for(&server, &[(active, 0), (idle, 1), ("total/requests", 1)]);
    drop(connection);
    wait_for(&server, &[(active, 0), (idle, 0)]);
}

#[test]
fn deliveries_are_records_times_subscribers() {
    let server = fixture("hub").control().start();
    let pids = server.worker_pids();
    let mut streams = Vec::new();
    for (worker, count) in [(0, 3), (1, 2)] {
        for _ in 0..count {
            let connection = server.connect_to(pids[&worker]);
            streams.push(Stream::open(
                connection,
                "/events?channels=news,other",
                None,
            ));
        }
    }
    let mut publisher = server.connect();
    for number in 0..7 {
        let response = publisher.post("/publish/news", format!("n{number}"));
        assert_eq!(response.status(), 200);
    }
    assert_eq!(publisher.post("/publish/nobody", "x").status(), 200);
    for stream in &mut streams {
        assert_eq!(stream.next_events(7).len(), 7);
    }
    let held = [
        ("total/published", 8),
        ("total/deliveries", 35),
        ("workers/0/deliveries", 21),
        ("workers/1/deliveries", 14),
        // Each worker reads all records.
        ("total/records_read", 16),
        ("total/holds", 5),
        ("total/connections/sse", 5),
        ("total/subscriptions", 10),
        ("workers/0/channels", 2),
        ("workers/1/channels", 2),
        ("total/ring_lag_bytes", 0),
    ];
    wait_for(&server, &held);
    drop(streams);
    wait_for(
        &server,
        &[
            ("total/connections/sse", 0),
            ("total/subscriptions", 0),
            ("total/channels", 0),
            ("total/deliveries", 35),
        ],
    );
}

#[test]
fn resumed_clients_and_their_gaps_are_counted() {
    // Use one worker: a second one may not have read the last record yet, and would deliver it as
    // live.
    let server = fixture("hub").workers(1).control().start();
    let mut publisher = server.connect();
    let ids: Vec<_> = (0..4)
        .map(|number| {
            let answer = publisher.post("/publish/news", number.to_string());
            answer.text().to_string()
        })
        .collect();
    let mut resumed = Stream::open(server.connect(), "/events", Some(&ids[0]));
    assert_eq!(resumed.next_events(3).len(), 3);
    let mut stranger = Stream::open(server.connect(), "/events", Some("zzz-1"));
    assert_eq!(stranger.next_event().name, "gap");
    wait_for(
        &server,
        &[
            ("total/replayed", 3),
            ("total/gaps/unknown_id", 1),
            ("total/gaps/expired", 0),
        ],
    );
}

#[test]
fn connections_over_the_limit_are_counted() {
    let server = fixture("http")
        .workers(1)
        .setting("connections_max", 2)
        .control()
        .start();
    let mut kept = [server.connect(), server.connect()];
    for connection in &mut kept {
        assert_eq!(connection.get("/").status(), 200);
    }
    assert_eq!(server.connect().read_response().status(), 503);
    let stats = stats(&server);
    let refused = "total/connections_refused/connections_max";
    assert_eq!(figure(&stats, refused), 1);
    assert_eq!(figure(&stats, "total/responses/5xx"), 1);
    assert_eq!(figure(&stats, "total/accepted"), 2);
}

#[test]
fn the_control_socket_is_counted_apart() {
    let server = fixture("http").workers(1).control().start();
    for _ in 0..3 {
        ask(&server, "GET", "/stats");
    }
    let (head, _) = ask(&server, "POST", "/stats");
    assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    let stats = stats(&server);
    assert_eq!(figure(&stats, "total/control_requests"), 5);
    assert_eq!(figure(&stats, "total/connections/control"), 1);
    for path in ["requests", "responses/2xx", "bytes_sent", "accepted"] {
        assert_eq!(figure(&stats, &format!("total/{path}")), 0, "{path}");
    }
}

#[test]
fn tables_are_told_by_any_worker() {
    let server = fixture("tables").workers(2).control().start();
    let pids = server.worker_pids();
    let mut bytes = Vec::new();
    for (worker, key) in [(0, "a"), (1, "b"), (0, "b")] {
        let mut connection = server.connect_to(pids[&worker]);
        let of_first: u64 = connection
            .get(&format!("/first/{key}"))
            .text()
            .parse()
            .expect("bytes");
        let of_second: u64 = connection
            .get(&format!("/second/{key}"))
            .text()
            .parse()
            .expect("bytes");
        bytes = vec![of_first, of_second];
    }
    for worker in [0, 1, 1] {
        assert_eq!(
            server.connect_to(pids[&worker]).get("/second/c").status(),
            503
        );
    }
    let expected = serde_json::json!([
        {"rows": 2, "rows_max": 100, "bytes": bytes[0], "full": 0, "locked": 0},
        {"rows": 2, "rows_max": 2, "bytes": bytes[1], "full": 3, "locked": 0},
    ]);
    assert_eq!(stats(&server)["tables"], expected);
    let text = String::from_utf8(fermata(&server, &["stats"]).stdout).expect("text");
    assert!(
        text.contains("table 1: 2 of 2 rows, ")
            && text.contains(" 3 refused because it was full, 0 because"),
        "{text}"
    );
    let (_, metrics) = ask(&server, "GET", "/metrics");
    for line in [
        "fermata_table_rows{table=\"0\"} 2",
        "fermata_table_rows_max{table=\"1\"} 2",
        "fermata_table_refused_total{table=\"1\",reason=\"full\"} 3",
        "fermata_table_refused_total{table=\"1\",reason=\"locked\"} 0",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}\n{metrics}");
    }
}
