//! What a server says to its operators.

use fermata_testkit::{Connection, Response, Server, wait_until};

/// What `GET /health/ready` answers.
pub fn readiness(server: &Server) -> u16 {
    of_operators(server, "/health/ready").status()
}

/// What it answers at `metrics_listen`.
pub fn of_operators(server: &Server, path: &str) -> Response {
    let address = server.log().wait_map(0, "the address for metrics", |line| {
        let (_, address) = line.text.split_once("metrics and health at http://")?;
        address.trim().parse().ok()
    });
    Connection::open(address).get(path)
}

/// Waits until the server is connected to the log, or is not.
pub fn wait_ready(server: &Server, status: u16) {
    wait_until("the server's readiness", || {
        (readiness(server) == status).then_some(())
    });
}
