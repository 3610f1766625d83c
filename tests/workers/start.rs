//! Starting: addresses, ports, invalid settings, and the log format.

use std::net::TcpListener;

use fermata_testkit::{Connection, Signal, free_port};
use fermata_tests::fixture;
use serde_json::Value;

/// Number of tries of a test that needs a port which no other process uses.
const PORT_TRIES: usize = 5;

#[test]
fn the_port_variable_is_respected() {
    for _ in 0..PORT_TRIES {
        let port = free_port();
        let builder = fixture("hub").env("PORT", port.to_string());
        // The probe shows that the port is still free; starting on a used port is the next test.
        if TcpListener::bind(("127.0.0.1", port)).is_err() {
            continue;
        }
        let server = builder.start();
        assert_eq!(server.address().port(), port);
        assert_eq!(server.connect().get("/pid").status(), 200);
        return;
    }
    panic!("no port stayed free in {PORT_TRIES} tries");
}

#[test]
fn a_variable_that_nobody_reads_is_told_and_one_that_is_almost_a_setting_refused() {
    let server = fixture("hub")
        .env("FERMATA_MAX_BODY_BYTES", "secret")
        .env("FERMATA_EDGE_LISTEN", "127.0.0.1:1")
        .env("FERMATA_PORT_80_TCP_ADDR", "10.0.0.1")
        .env("FERMATA_TEST_SEED", "1")
        .start();
    assert_eq!(server.connect().get("/pid").status(), 200);
    let log = server.log();
    log.wait_for(0, "did you mean FERMATA_BODY_BYTES_MAX?");
    log.wait_for(0, "FERMATA_EDGE_LISTEN changes nothing here");
    for none in ["secret", "FERMATA_PORT_80", "FERMATA_TEST_SEED"] {
        assert!(!log.text().contains(none), "{none}");
    }
    let refused = fixture("hub").env("FERMATA_WORKRES", "1").start_refused();
    refused.log.wait_for(0, "did you mean FERMATA_WORKERS?");
}

#[test]
fn a_port_in_use_is_a_clear_error() {
    let other = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has free ports");
    let port = other.local_addr().expect("it is bound").port();
    let refused = fixture("hub").env("PORT", port.to_string()).start_refused();
    assert!(
        refused.status.code().is_some_and(|code| code != 0),
        "{:?}",
        refused.status
    );
    refused.log.wait_for(0, &format!("127.0.0.1:{port}"));
    refused.log.wait_for(0, "in use");
}

#[test]
fn two_servers_do_not_share_a_port() {
    let server = fixture("hub").start();
    let port = server.address().port();
    let refused = fixture("hub").env("PORT", port.to_string()).start_refused();
    assert!(!refused.status.success());
    refused.log.wait_for(0, "in use");
    assert_eq!(server.connect().get("/pid").status(), 200);
}

#[test]
fn a_port_is_free_again_when_the_server_has_ended() {
    let mut server = fixture("hub").start();
    let port = server.address().port();
    // A connection that the server closes first leaves its port in TIME_WAIT.
    let mut connection = server.connect();
    connection.request("GET", "/pid", &[("Connection", "close")], b"");
    connection.expect_end();
    server.signal(Signal::Terminate);
    server.wait_exit();
    let server = fixture("hub").env("PORT", port.to_string()).start();
    assert_eq!(server.connect().get("/pid").status(), 200);
}

#[test]
fn ipv6_is_served() {
    if TcpListener::bind(("::1", 0)).is_err() {
        println!("skipped: this machine has no IPv6 loopback");
        return;
    }
    let server = fixture("hub")
        .env("FERMATA_LISTEN", "http://[::1]:0")
        .start();
    assert!(server.address().is_ipv6());
    assert_eq!(Connection::open(server.address()).get("/pid").status(), 200);
}

#[test]
fn wrong_settings_are_named() {
    for (name, value) in [
        ("idle_timeout_ms", "soon"),
        ("connections_max", "-1"),
        ("workers", "0x2"),
        ("listen", "ftp://127.0.0.1:0"),
        ("listen", "http://no.such.host.invalid:0"),
        ("io", "magic"),
        ("log_format", "xml"),
        ("control", "carrier-pigeon"),
    ] {
        let refused = fixture("hub").setting(name, value).start_refused();
        assert!(
            refused.status.code().is_some_and(|code| code != 0),
            "{name}={value}"
        );
        let said = refused.log.text().to_lowercase();
        assert!(said.contains(name), "{name}={value}: {said}");
    }
}

#[test]
fn logs_are_json_on_request() {
    let mut server = fixture("hub").setting("log_format", "json").start();
    assert_eq!(server.connect().get("/pid").status(), 200);
    server.signal(Signal::Terminate);
    server.wait_exit();
    server.log().wait_for(0, "after run");
    let lines = server.log().lines_from(0);
    let lines: Vec<&str> = lines
        .iter()
        .map(|line| line.text.as_str())
        .filter(|t| !t.starts_with("[stdout]"))
        .collect();
    assert!(lines.len() >= 3, "{lines:?}");
    for line in lines {
        let parsed: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(
            parsed["level"].is_string() && parsed["message"].is_string(),
            "{line}"
        );
    }
}
