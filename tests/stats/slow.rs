//! Slow clients are counted, and listed while they are slow.

use fermata_testkit::sse::Stream;
use fermata_testkit::{Server, Target};
use fermata_tests::fixture;

use crate::{fermata, wait_for};

/// Number of messages: more than the buffers of both ends and the channel's log hold.
const MESSAGES: usize = 1_200;
const MESSAGE_BYTES: usize = 8_192;

/// Starts a server with one client that does not read, and returns the client's address.
fn slow_client(policy: &str) -> (Server, Stream, String) {
    let server = fixture("hub")
        .workers(1)
        .control()
        .setting("channel_log_bytes_max", 65_536)
        .start();
    let target = Target {
        address: server.address(),
        source: None,
        receive_bytes: Some(4_096),
    };
    let connection = target.connect().expect("the server listens");
    let address = connection.local_address().to_string();
    let path = format!("/events?slow={policy}");
    let stream = Stream::open(connection, &path, None);
    let mut publisher = server.connect();
    for _ in 0..MESSAGES / 100 {
        let target = format!("/burst/news?count=100&bytes={MESSAGE_BYTES}");
        assert_eq!(publisher.post(&target, "").status(), 200);
    }
    (server, stream, address)
}

#[test]
fn a_client_that_is_told_of_gaps() {
    let (server, mut stream, address) = slow_client("gap");
    wait_for(
        &server,
        &[
            ("total/connections_blocked", 1),
            ("total/connections/sse", 1),
            ("total/deliveries", MESSAGES as u64),
        ],
    );
    let output = fermata(&server, &["stats", "--json", "--sample"]);
    let stats: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    let client = &stats["slowest_clients"][0];
    assert_eq!(client["channel"], "news", "{stats:#}");
    assert_eq!(client["peer"], address.as_str(), "{stats:#}");
    assert!(client["waiting_bytes"].as_u64() > Some(0), "{stats:#}");

    while stream.next_event().name != "gap" {}
    // The client continues to read, so it receives one gap and is not blocked for long.
    while stream
        .try_next(std::time::Duration::from_millis(300))
        .is_some()
    {}
    wait_for(
        &server,
        &[
            ("total/gaps/too_slow", 1),
            ("total/connections_dropped/slow", 0),
            ("total/connections_blocked", 0),
        ],
    );
}

#[test]
fn a_client_that_is_closed() {
    // The client never reads: the server closes it because of its log, before write_timeout_ms.
    let (server, stream, _) = slow_client("close");
    wait_for(
        &server,
        &[
            ("total/connections_dropped/slow", 1),
            ("total/connections_dropped/write_timeout", 0),
            ("total/connections/sse", 0),
            ("total/connections_blocked", 0),
            ("total/subscriptions", 0),
            ("total/gaps/too_slow", 0),
        ],
    );
    drop(stream);
}
