//! The operators' interface of a server.

use fermata_testkit::{Connection, Response, Server, wait_until};

/// Returns the status of `GET /health/ready`.
pub fn readiness(server: &Server) -> u16 {
    of_operators(server, "/health/ready").status()
}

/// Sends a request to `metrics_listen` and returns the response.
pub fn of_operators(server: &Server, path: &str) -> Response {
    let address = server.log().wait_map(0, "the address for metrics", |line| {
        let (_, address) = line.text.split_once("metrics and health at http://")?;
        address.trim().parse().ok()
    });
    Connection::open(address).get(path)
}

/// Waits until `GET /health/ready` returns this status: the server is connected to the log, or it
/// is not.
pub fn wait_ready(server: &Server, status: u16) {
    wait_until("the server's readiness", || {
        (readiness(server) == status).then_some(())
    });
}
