//! The address for metrics and health checks.

use std::time::Duration;

use fermata_testkit::{Connection, Server, Signal, wait_until};
use fermata_tests::fixture;

use crate::address_after;

const LISTEN: &str = "http://127.0.0.1:0";

fn metrics(server: &Server) -> Connection {
    Connection::open(address_after(server, "metrics and health at http://"))
}

/// Returns the sum of all series of a metric whose labels contain `label`.
fn sum(text: &str, metric: &str, label: &str) -> f64 {
    text.lines()
        .filter(|line| line.starts_with(&format!("{metric}{{")) && line.contains(label))
        .map(|line| line.rsplit(' ').next().and_then(|value| value.parse().ok()))
        .map(|value: Option<f64>| value.expect("a number"))
        .sum()
}

#[test]
fn metrics_are_read_at_their_own_address_and_count_only_the_public_one() {
    let server = fixture("http").setting("metrics_listen", LISTEN).start();
    for _ in 0..30 {
        assert_eq!(server.connect().get("/").status(), 200);
    }
    let mut connection = metrics(&server);
    let text = wait_until("all requests are counted", || {
        let response = connection.get("/metrics");
        assert_eq!(response.status(), 200);
        let text = response.text().to_owned();
        (sum(&text, "fermata_requests_total", "") >= 30.0).then_some(text)
    });
    assert_eq!(sum(&text, "fermata_requests_total", ""), 30.0);
    // Each request is counted in one bucket; the last, cumulative bucket contains all requests.
    let bucket = "fermata_request_duration_seconds_bucket";
    assert_eq!(sum(&text, bucket, "le=\"+Inf\""), 30.0);
    assert!(sum(&text, bucket, "le=\"0.00005\"") <= sum(&text, bucket, "le=\"10\""));
    assert_eq!(
        sum(&text, "fermata_request_duration_seconds_count", ""),
        30.0
    );
    assert!(sum(&text, "fermata_request_duration_seconds_sum", "") > 0.0);
    assert!(text.contains("\nfermata_worker_stalls_total 0\n"));
    assert_eq!(
        connection.get("/stats").header("content-type"),
        Some("application/json")
    );
    assert_eq!(connection.get("/publish").status(), 404);
    assert_eq!(connection.post("/metrics", "").status(), 405);
    // The public listener does not serve these paths.
    assert_eq!(server.connect().get("/metrics").status(), 404);
}

#[test]
fn a_server_is_live_and_ready_until_it_stops() {
    let mut server = fixture("faults")
        .setting("metrics_listen", LISTEN)
        .setting("drain_timeout_ms", 60_000)
        .workers(2)
        .start();
    let mut connection = metrics(&server);
    assert_eq!(connection.get("/health/live").text(), "live\n");
    assert_eq!(connection.get("/health/ready").text(), "ready\n");
    // A started, incomplete request occupies its worker.
    let mut busy = server.connect();
    busy.send("POST /publish HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12");
    let address = address_after(&server, "metrics and health at http://");
    wait_until("the request has begun", || {
        let text = Connection::open(address).get("/metrics").text().to_owned();
        (sum(&text, "fermata_connections", "http_active") >= 1.0).then_some(())
    });
    server.signal(Signal::Terminate);
    wait_until("it is not ready any more", || {
        let mut connection = Connection::try_open(address).ok()?;
        let answer = connection
            .try_request("GET", "/health/ready", &[], b"")
            .ok()?;
        (answer.status() == 503).then_some(())
    });
    // The request arrives after the connection, on whichever worker has accepted it.
    for _ in 0..8 {
        let mut connection = Connection::open(address);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(connection.get("/health/live").status(), 200);
    }
    busy.send("345");
    assert_eq!(busy.read_response().status(), 200);
    assert_eq!(server.wait_exit().code(), Some(0));
}

#[test]
fn one_worker_that_is_replaced_does_not_make_the_server_unready() {
    let server = fixture("http").setting("metrics_listen", LISTEN).start();
    let pid = server.worker_pids()[&0];
    fermata_testkit::send_signal(pid, Signal::Terminate);
    server.wait_replaced(0, pid);
    for _ in 0..20 {
        assert_eq!(metrics(&server).get("/health/ready").status(), 200);
    }
}

#[test]
fn an_address_that_is_taken_is_named_with_its_setting() {
    let server = fixture("http").setting("metrics_listen", LISTEN).start();
    let taken = address_after(&server, "metrics and health at http://");
    let builder = fixture("http").setting("metrics_listen", format!("http://{taken}"));
    let exited = builder.start_refused();
    exited.log.wait_for(0, "metrics_listen: cannot listen on");
}
