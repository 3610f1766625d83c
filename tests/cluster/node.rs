//! Servers that share a log.

use fermata_testkit::{Builder, LogServer, Server};
use fermata_tests::fixture;
use fermata_tests::health::of_operators;
pub use fermata_tests::health::{readiness, wait_ready};

/// Publisher's time-out where the publish must succeed even on a busy machine.
pub const PATIENT_MS: u64 = 30_000;

/// Returns a server that shares the log.
pub fn node(log: &LogServer) -> Builder {
    node_of("hub", log)
}

/// Returns a server with another script of `tests/fixtures`.
pub fn node_of(program: &str, log: &LogServer) -> Builder {
    node_at(program, &log.url())
}

/// Returns a server whose log is at one or more addresses.
pub fn node_at(program: &str, log: &str) -> Builder {
    fixture(program)
        .setting("cluster", log)
        // NATS reserves this size, and rejects the stream on a machine with less free space.
        .setting("cluster_bytes_max", "16m")
        .setting("metrics_listen", "http://127.0.0.1:0")
        .setting("publish_wait_ms_max", PATIENT_MS)
}

/// Returns a cluster metric as Prometheus reads it.
pub fn cluster_figure(server: &Server, name: &str) -> u64 {
    let response = of_operators(server, "/metrics");
    let name = format!("fermata_cluster_{name} ");
    let line = response.text().lines().find(|line| line.starts_with(&name));
    let value = line.and_then(|line| line[name.len()..].parse().ok());
    value.unwrap_or_else(|| panic!("there is no {name}"))
}

/// Returns the process id of the newest bridge to the log.
pub fn bridge_pid(server: &Server) -> u32 {
    let text = server.log().text();
    let (_, rest) = text
        .rsplit_once("bridge started pid=")
        .expect("it was started");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a process id")
}
