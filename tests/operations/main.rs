//! Features for operators: access log, metrics and health, reports of blocking handlers, listeners.

mod access_log;
mod blocking;
mod handshakes;
mod hosts;
mod listeners;
mod metrics;
mod proxies;
mod proxy_protocol;
mod secrets;
mod stuck_log;
mod traces;

use fermata_testkit::Server;

/// Returns the address in the log line that contains `what`.
#[track_caller]
fn address_after(server: &Server, what: &str) -> std::net::SocketAddr {
    server.log().wait_map(0, what, |line| {
        let (_, rest) = line.text.split_once(what)?;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
        rest[..end.unwrap_or(rest.len())].parse().ok()
    })
}
