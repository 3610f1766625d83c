//! A server is ready when it delivers the log's events; otherwise it reports the reason.

use std::time::{Duration, Instant};

use fermata_testkit::{LogServer, Server, Signal, over_each_log, send_signal, wait_until};
use fermata_tests::health::of_operators;
use fermata_tests::publish;

use crate::node::{bridge_pid, node, readiness, wait_ready};

over_each_log!(
    a_server_is_not_ready_while_a_worker_holds_up_the_ring,
    a_server_is_not_ready_while_its_bridge_stands_still,
);

/// Maximum time until a server notices a failure.
const NOTICED_MS: u64 = 6_000;

fn text(server: &Server) -> String {
    of_operators(server, "/health/ready").text().to_owned()
}

fn a_server_is_not_ready_while_a_worker_holds_up_the_ring(log: LogServer) {
    let full = node(&log)
        .workers(2)
        .setting("history_bytes_max", "128k")
        .setting("event_bytes_max", "8k")
        .setting("stall_timeout_ms", 120_000)
        .start();
    let other = node(&log).workers(1).start();
    for server in [&full, &other] {
        wait_ready(server, 200);
    }
    let pids: Vec<u32> = full.worker_pids().into_values().collect();
    assert!(send_signal(pids[0], Signal::Stop));
    let padding = "x".repeat(7_000);
    for _ in 0..40 {
        publish(&other, "news", &padding);
    }
    wait_until("it is not ready", || {
        text(&full)
            .contains("has not yet read the oldest events and the ring is full")
            .then_some(())
    });
    assert_eq!(readiness(&other), 200);
    assert!(send_signal(pids[0], Signal::Continue));
    wait_ready(&full, 200);
}

fn a_server_is_not_ready_while_its_bridge_stands_still(log: LogServer) {
    let server = node(&log).workers(1).start();
    wait_ready(&server, 200);
    let (bridge, begun) = (bridge_pid(&server), Instant::now());
    assert!(send_signal(bridge, Signal::Stop));
    wait_until("it is not ready", || {
        text(&server).contains("is stuck for").then_some(())
    });
    assert!(begun.elapsed() < Duration::from_millis(NOTICED_MS));
    assert!(send_signal(bridge, Signal::Continue));
    wait_ready(&server, 200);
}

/// The exception contains the size, the limit and its setting, and is not a retryable one.
#[test]
fn an_event_that_is_larger_than_the_log_takes_says_so() {
    let Some(log) = LogServer::nats() else {
        return;
    };
    let server = node(&log)
        .workers(1)
        .setting("event_bytes_max", "4m")
        .setting("channel_log_bytes_max", "8m")
        .setting("queue_bytes_max", "8m")
        .setting("history_bytes_max", "64m")
        .setting("body_bytes_max", "8m")
        .setting("body_memory_bytes_max", "8m")
        .start();
    wait_ready(&server, 200);
    let response = server
        .connect()
        .post("/publish/news", "x".repeat((1 << 20) + 1));
    assert_eq!(response.status(), 500);
    let words = "and the log of the cluster takes 1048576 (max_payload of NATS)";
    server.log().wait_for(0, words);
    let text = server.log().text();
    assert!(!text.contains("BackpressureException"), "{text}");
    publish(&server, "news", "small");
}
