//! WebSockets (RFC 6455, RFC 7692) with ordinary and with malicious clients.

mod channels;
mod closing;
mod compression;
mod frames;
mod handshake;
mod heartbeat;
mod hostile;
mod interop;
mod limits;

use fermata_testkit::Server;
use fermata_testkit::websocket::Socket;
use fermata_tests::fixture;

/// Starts a server with one worker.
fn start() -> Server {
    fixture("websocket").workers(1).start()
}

#[track_caller]
fn open(server: &Server, path: &str) -> Socket {
    Socket::open(server.connect(), path)
}

/// Returns the resident memory of the only worker in bytes, without shared memory.
fn worker_memory(server: &Server) -> u64 {
    let pid = server.worker_pids()[&0];
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok()).expect("kB") * 1024
}
