//! The table of the hub's own settings: the one place where each is declared. Applications and Mercure are tables beside them.

use fermata_config::{Kind, Table, declare};

/// One row. What Reverb calls a setting is beside the other variables of its, in `environment.rs`.
pub(super) type Setting = fermata_config::Setting<()>;

/// What errors need.
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

const fn seconds(min: u64) -> Kind {
    Kind::Count {
        min,
        max: HOUR_S,
        unit: "seconds",
    }
}

#[rustfmt::skip]
declare! {
    // Variables of the environment have the names that Reverb and the Mercure hub gave them.
    prefix "";
    page "docs/reference/hub.md";
    alias ();
    listen: Vec<String> = "127.0.0.1:8080", Kind::Lines, (), "Addresses, HOST:PORT; none is open by default where listen_tls is given.";
    listen_tls: Vec<String> = "", Kind::Lines, (), "Addresses with TLS; they need tls_certificate and tls_key.";
    tls_certificate: String = "", Kind::Line, (), "File of the certificate chain, as PEM.";
    tls_key: String = "", Kind::Line, (), "File of its key.";
    workers: String = "auto", Kind::Line, (), "Worker processes: a number, or auto for one per CPU.";
    path: String = "", Kind::Line, (), "What stands in front of /app and /apps: empty, or a path such as /ws.";
    ping_interval_s: u64 = "60", seconds(0), (), "Silence after which a client is asked whether it is there; 0: never.";
    activity_timeout_s: u64 = "30", seconds(0), (), "Time that it has for the answer; also what a client is told of the server's silence.";
    sockjs: bool = "true", Kind::Choice(&["true", "false"]), (), "Whether pusher-js may fall back to requests where WebSockets do not get through.";
    sockjs_sessions_max: usize = "1000", count(1, MANY), (), "Such clients of each worker; the next gets a 503.";
    sockjs_heartbeat_s: u64 = "25", seconds(1), (), "How often a silent one hears that it is connected.";
    sockjs_linger_s: u64 = "5", seconds(1), (), "How long a session waits for the next request of its client before it ends.";
    connections_max: u64 = "10000", count(1, CONNECTIONS), (), "Connections of each worker, each of which takes a descriptor (ulimit -n); one more client is answered 503.";
    history_bytes_max: u64 = "16777216", HISTORY, (), "Memory for events that clients may resume from.";
    history_path: String = "", Kind::Line, (), "A file that keeps them over a restart; empty: they are in memory.";
    user: String = "", Kind::Line, (), "User of the workers of a hub that root has started; empty: root.";
    group: String = "", Kind::Line, (), "Group of the workers; empty: that of user.";
    log_level: String = "info", Kind::Choice(&["error", "warning", "info", "debug"]), (), "The least that is logged.";
    control_socket: String = "", Kind::Line, (), "Control socket, for fermata stats and fermata top; empty: that of FERMATA_CONTROL, or none.";
    metrics_listen: String = "", Kind::Line, (), "Address for Prometheus and health checks, HOST:PORT; empty: none.";
}
