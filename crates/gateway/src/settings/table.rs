//! Table of the hub's own settings, which declares each setting once. Applications and Mercure have separate tables.

use fermata_config::{Kind, Table, declare};

/// One row. The Reverb name of a setting is in `environment.rs`, with Reverb's other variables.
pub(super) type Setting = fermata_config::Setting<()>;

/// Returns the table, which errors use to name settings.
pub(super) fn declared() -> &'static Table<()> {
    &TABLE
}

const HOUR_S: u64 = 3_600;
const MANY: u64 = u32::MAX as u64;
const CONNECTIONS: u64 = 10_000_000;
const HISTORY: Kind = Kind::Bytes {
    min: 64 << 10,
    max: 8 << 30,
};

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max, unit: "" }
}

const fn bytes(min: u64, max: u64) -> Kind {
    Kind::Bytes { min, max }
}

const fn milliseconds(min: u64) -> Kind {
    Kind::Milliseconds {
        min,
        max: 1000 * HOUR_S,
    }
}

const fn seconds(min: u64) -> Kind {
    Kind::Count {
        min,
        max: HOUR_S,
        unit: "seconds",
    }
}

#[rustfmt::skip]
declare! {
    // Environment variables have the names that Reverb and the Mercure hub use.
    prefix "";
    page "docs/reference/hub.md";
    alias ();
    listen: Vec<String> = "127.0.0.1:8080", Kind::Lines, (), "Plain HTTP addresses, HOST:PORT; if listen_tls is set, the default is none.";
    listen_tls: Vec<String> = "", Kind::Lines, (), "TLS addresses, HOST:PORT; need tls_certificate and tls_key.";
    tls_certificate: String = "", Kind::Line, (), "PEM file with the certificate chain.";
    tls_key: String = "", Kind::Line, (), "PEM file with the private key.";
    workers: String = "auto", Kind::Line, (), "Worker processes: a number, or auto for one per CPU.";
    path: String = "", Kind::Line, (), "Prefix of the paths /app and /apps: empty, or a path such as /ws.";
    ping_interval_s: u64 = "60", seconds(0), (), "Idle time after which a client is pinged; 0: never.";
    activity_timeout_s: u64 = "30", seconds(0), (), "Time for the pong; also sent to clients when they connect.";
    sockjs: bool = "true", Kind::Choice(&["true", "false"]), (), "Lets pusher-js fall back to HTTP requests if WebSockets are blocked.";
    sockjs_sessions_max: usize = "1000", count(1, MANY), (), "Maximum number of fallback clients per worker; further ones get 503.";
    sockjs_queue_bytes_max: usize = "67108864", bytes(262_144, MANY), (), "Maximum bytes of queued messages over all fallback clients, in addition to 200,000 of each. Beyond it, a client with queued messages receives no more until its next request.";
    sockjs_heartbeat_s: u64 = "25", seconds(1), (), "Interval of heartbeats to an idle fallback client.";
    sockjs_linger_s: u64 = "5", seconds(1), (), "Time for which a session waits for the next request of its client.";
    connections_max: u64 = "10000", count(1, CONNECTIONS), (), "Maximum number of connections per worker, each with a descriptor (ulimit -n); further clients get 503.";
    write_timeout_ms: u64 = "30000", milliseconds(1), (), "Time that a client may read nothing while bytes wait for it; then its connection is reset.";
    write_rate_min: u64 = "4096", bytes(0, 1 << 30), (), "Bytes per second that a client has to read while more than 64 KiB are buffered for it, as a mean over write_timeout_ms; 0: any byte suffices.";
    buffered_bytes_max: u64 = "134217728", bytes(0, 1 << 40), (), "Bytes that a worker buffers for all clients: bytes that they have not read, and bodies and messages that have not arrived whole; over it the clients with the largest and oldest bytes are closed. 0: no limit.";
    buffered_per_address_bytes_max: u64 = "67108864", bytes(0, 1 << 40), (), "The same for the clients of one address, or IPv6 network of 64 bits; the largest response that one of them reads does not count. 0: no limit.";
    buffered_per_connection_bytes_max: u64 = "16777216", bytes(0, 1 << 40), (), "Bytes buffered for one HTTP/2 connection from which on its next requests wait until the client has read. 0: no limit.";
    history_bytes_max: u64 = "16777216", HISTORY, (), "Memory for events from which clients can resume.";
    history_path: String = "", Kind::Line, (), "File that preserves these events over a restart; empty: memory only.";
    user: String = "", Kind::Line, (), "User of the workers if root starts the hub; empty: root.";
    group: String = "", Kind::Line, (), "Group of the workers; empty: the group of user.";
    log_level: String = "info", Kind::Choice(&["error", "warning", "info", "debug"]), (), "Lowest level that is logged.";
    control_socket: String = "", Kind::Line, (), "Control socket for fermata stats and fermata top; empty: FERMATA_CONTROL, or none.";
    metrics_listen: String = "", Kind::Line, (), "Address for Prometheus and health checks, HOST:PORT; empty: none.";
}
