//! Servers that share a log.

use fermata_testkit::{Builder, LogServer, Server};
use fermata_tests::fixture;
use fermata_tests::health::of_operators;
pub use fermata_tests::health::{readiness, wait_ready};

/// How long a publisher waits where the test wants it to succeed: this machine may be busy.
pub const PATIENT_MS: u64 = 30_000;

/// A server that shares the log.
pub fn node(log: &LogServer) -> Builder {
    node_of("hub", log)
}

/// The same with another program of `tests/fixtures`.
pub fn node_of(program: &str, log: &LogServer) -> Builder {
    node_at(program, &log.url())
}

/// The same with the log at an address, or several.
pub fn node_at(program: &str, log: &str) -> Builder {
    fixture(program)
        .setting("cluster", log)
        // NATS reserves it, and refuses the stream on a machine with less room.
        .setting("cluster_bytes_max", "16m")
        .setting("metrics_listen", "http://127.0.0.1:0")
        .setting("publish_wait_ms_max", PATIENT_MS)
}

/// A figure of its cluster, as Prometheus reads it.
pub fn cluster_figure(server: &Server, name: &str) -> u64 {
    let response = of_operators(server, "/metrics");
    let name = format!("fermata_cluster_{name} ");
    let line = response.text().lines().find(|line| line.starts_with(&name));
    let value = line.and_then(|line| line[name.len()..].parse().ok());
    value.unwrap_or_else(|| panic!("there is no {name}"))
}

/// The process that talks to the log, of those that were started the last one.
pub fn bridge_pid(server: &Server) -> u32 {
    let text = server.log().text();
    let (_, rest) = text
        .rsplit_once("bridge started pid=")
        .expect("it was started");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a process id")
}
