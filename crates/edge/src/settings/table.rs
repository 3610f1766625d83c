//! The table of settings: the one place where a setting is declared.

use fermata_config::{EDGE_PREFIX, Kind, Table, declare};

/// One row; its alias is section and key in a `pushpin.conf`, and what numbers there are multiplied with.
pub type Setting = fermata_config::Setting<Alias>;

type Alias = Option<(&'static str, &'static str, u64)>;

/// Every setting, in the order documentation shows them.
pub fn table() -> &'static [Setting] {
    TABLE.rows
}

/// The same with what errors need.
pub(super) fn declared() -> &'static Table<Alias> {
    &TABLE
}

const SECOND: u64 = 1_000;
const MANY: u64 = u32::MAX as u64;
const SWITCH: Kind = Kind::Choice(&["true", "false"]);

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max, unit: "" }
}

const fn bytes(min: u64, max: u64) -> Kind {
    Kind::Bytes { min, max }
}

const fn milliseconds(min: u64, max: u64) -> Kind {
    Kind::Milliseconds { min, max }
}

#[rustfmt::skip]
declare! {
    prefix EDGE_PREFIX;
    page "docs/reference/edge.md";
    alias Alias;
    listen: Vec<String> = "127.0.0.1:7999", Kind::Lines, Some(("runner", "http_port", 1)), "Addresses for HTTP and WebSocket.";
    listen_tls: Vec<String> = "", Kind::Lines, Some(("runner", "https_ports", 1)), "Addresses for HTTPS and wss; they need certificates.";
    tls_certificates: String = "", Kind::Line, None, "Folder with certificates NAME.crt and their keys NAME.key, read again on SIGHUP; clients get the one for the name they ask for, and default*.crt otherwise.";
    listen_unix: Vec<String> = "", Kind::Lines, Some(("runner", "local_ports", 1)), "Unix sockets for HTTP and WebSocket: a path, and behind it what is needed of ?mode=660&user=NAME&group=NAME.";
    workers: u64 = "1", count(1, 64), Some(("proxy", "workers", 1)), "Worker processes.";
    user: String = "", Kind::Line, None, "User that workers run as when the edge is started as root: they change to it when everything is bound and open; empty: none. It has to be able to read the routes, which are read again.";
    group: String = "", Kind::Line, None, "Group of the workers beside user; empty: those that the user has.";
    connections_max: u64 = "50000", count(1, MANY), Some(("runner", "client_maxconn", 1)), "Clients of each worker; further ones get 503.";
    header_bytes_max: usize = "8192", bytes(256, 1 << 20), Some(("runner", "client_buffer_size", 1)), "Bytes of a request's head.";
    headers_count_max: u64 = "100", count(1, 1_000), None, "Header lines of a request; one with more gets 431.";
    target_bytes_max: usize = "65536", bytes(64, 65_536), None, "Bytes of a request's target, within header_bytes_max; one with more gets 414.";
    header_timeout_ms: u64 = "10000", milliseconds(1, 3_600_000), None, "Time from a new connection, or a later request's first byte, to the end of the request's head; after it the client gets 408.";
    idle_timeout_ms: u64 = "75000", milliseconds(1, 3_600_000), None, "Time that a client's connection may stay open without a request; held clients are not idle.";
    write_timeout_ms: u64 = "30000", milliseconds(1, 3_600_000), None, "Time that a client may take nothing while something waits for it; then its connection is cut off.";
    drain_timeout_ms: u64 = "10000", milliseconds(0, 3_600_000), None, "Time that an edge that stops gives its requests and held clients to end.";
    stall_timeout_ms: u64 = "60000", milliseconds(0, 3_600_000), None, "Time after which a worker that does not answer is killed and replaced; 0: never.";
    body_bytes_max: u64 = "1073741824", bytes(1, 1 << 40), None, "Bytes of a request's body.";
    body_timeout_ms: u64 = "1800000", milliseconds(1, 3_600_000), None, "Time that a request's body has to arrive; one that comes at body_rate_min may take longer. After it the client gets 408.";
    body_rate_min: u64 = "1", count(0, 1 << 30), None, "Bytes a second at which a body may take longer than body_timeout_ms; 0: none may.";
    compression: bool = "false", SWITCH, Some(("runner", "allow_compression", 1)), "permessage-deflate for WebSockets.";
    websocket_ping_interval_ms: u64 = "25000", milliseconds(0, 3_600_000), None, "Longest silence of a WebSocket client before the edge sends it a ping; 0: it sends none.";
    websocket_pong_timeout_ms: u64 = "20000", milliseconds(0, 3_600_000), None, "Time that a WebSocket client may stay silent after a ping before its connection is cut off; 0: for ever.";
    log_level: u64 = "2", count(0, 4), Some(("runner", "log_level", 1)), "0 is nothing but errors, 4 everything.";
    log_requests: bool = "false", SWITCH, None, "Lines for requests, subscriptions and published items at log_level 2; at 3 they are there anyway. With a pushpin.conf they are on, as in Pushpin.";
    routes: String = "routes", Kind::Line, Some(("proxy", "routesfile", 1)), "The routes file.";
    route: Vec<String> = "", Kind::Lines, None, "Routes in place of a file, each a line of one; the edge does not start with one that is malformed.";
    origin_connect_timeout_ms: u64 = "10000", milliseconds(1, MANY), None, "Time that a connection to a backend has until it stands, or the next target is tried.";
    origin_response_timeout_ms: u64 = "60000", milliseconds(1, MANY), None, "Time that a backend has to take more of a request, and then to begin its response; otherwise the client gets 504.";
    origin_idle_timeout_ms: u64 = "1800000", milliseconds(1, MANY), None, "Time that a backend may pause within its response.";
    origin_streams_max: u64 = "100", count(1, 1_000), None, "Requests at a time on one connection to a target with http2, if the target allows as many; further ones get another connection.";
    origin_ping_interval_ms: u64 = "30000", milliseconds(0, MANY), None, "Silence of a connection to a target with http2, while requests wait on it, after which it is sent a PING; each answered one makes the time until the next four times as long, up to ten minutes; 0: none is sent.";
    origin_ping_timeout_ms: u64 = "30000", milliseconds(1, MANY), None, "Time that the target has to send anything after that; then the connection is closed, and its requests go to another or end with 502.";
    origin_out_after: u64 = "3", count(0, 1_000), None, "Requests that have to fail within origin_out_within_ms until a target of several is asked only when no other is left; 0: never.";
    origin_out_within_ms: u64 = "10000", milliseconds(1, MANY), None, "The time for that.";
    origin_out_for_ms: u64 = "10000", milliseconds(1, MANY), None, "How long it stays so until one request tries it.";
    origin_check_interval_ms: u64 = "5000", milliseconds(100, 86_400_000), None, "Time between two checks of a target, on routes with check=PATH.";
    origin_check_timeout_ms: u64 = "2000", milliseconds(100, 86_400_000), None, "Time that a check may take, in whole seconds at least.";
    origin_check_rise: u64 = "2", count(1, 1_000), None, "Good checks in a row that bring a target back.";
    origin_check_fall: u64 = "3", count(1, 1_000), None, "Bad checks in a row that put a target out.";
    origin_authorities: String = "", Kind::Line, None, "PEM file with the authorities that certificates of https backends may be of; empty: those of this machine. A target's ca=FILE goes before it.";
    debug: bool = "false", SWITCH, Some(("proxy", "debug", 1)), "Failures say why in the response, on every route.";
    auto_cross_origin: bool = "false", SWITCH, Some(("proxy", "auto_cross_origin", 1)), "CORS headers and JSON-P, on every route.";
    accept_x_forwarded_protocol: bool = "false", SWITCH, Some(("proxy", "accept_x_forwarded_protocol", 1)), "Requests that say they came by https count as such.";
    set_x_forwarded_protocol: String = "proto-only", Kind::Choice(&["proto-only", "true", "false"]), Some(("proxy", "set_x_forwarded_protocol", 1)), "Which headers tell backends of https.";
    accept_forwarded: bool = "false", SWITCH, None, "What clients say of themselves in Forwarded, X-Forwarded-Host, X-Real-IP and their like is passed on: for an edge behind a proxy that writes them.";
    x_forwarded_for: String = "truncate:0,append", Kind::Line, Some(("proxy", "x_forwarded_for", 1)), "What becomes of X-Forwarded-For: truncate:N keeps the last N addresses, append adds the client's; empty: it is passed on as it comes.";
    x_forwarded_for_trusted: String = "", Kind::Line, Some(("proxy", "x_forwarded_for_trusted", 1)), "The same for clients that are edges themselves.";
    orig_headers_need_mark: Vec<String> = "", Kind::Lines, Some(("proxy", "orig_headers_need_mark", 1)), "Headers that count as original only where they arrive marked.";
    accept_pushpin_route: bool = "false", SWITCH, Some(("proxy", "accept_pushpin_route", 1)), "The header Pushpin-Route chooses the route.";
    cdn_loop: String = "", Kind::Line, Some(("proxy", "cdn_loop", 1)), "What is appended to CDN-Loop.";
    log_from: bool = "false", SWITCH, Some(("proxy", "log_from", 1)), "Addresses of clients in log lines.";
    log_user_agent: bool = "false", SWITCH, Some(("proxy", "log_user_agent", 1)), "Programs of clients in log lines.";
    sig_iss: String = "pushpin", Kind::Line, Some(("proxy", "sig_iss", 1)), "Issuer in Grip-Sig.";
    sig_key: String = "", Kind::Secret, Some(("proxy", "sig_key", 1)), "Key of Grip-Sig: a text, base64:… or file:…; empty: none is sent.";
    upstream_key: String = "", Kind::Secret, Some(("proxy", "upstream_key", 1)), "Key by which clients that are edges are known.";
    sockjs_url: String = "", Kind::Line, Some(("proxy", "sockjs_url", 1)), "Where SockJS clients in iframes load their library from; empty: there is no page for iframes.";
    sockjs_sessions_max: usize = "10000", count(1, MANY), None, "Polling SockJS sessions of each worker.";
    sockjs_heartbeat_ms: u64 = "25000", milliseconds(1, MANY), None, "How often SockJS clients hear that they are connected.";
    sockjs_linger_ms: u64 = "5000", milliseconds(1, MANY), None, "How long a polling SockJS session waits for the next request of its client.";
    control: String = "127.0.0.1:5561", Kind::Line, None, "Address of the HTTP control port, or its Unix socket: unix:/PATH, and behind it what is needed of ?mode=660&user=NAME&group=NAME; empty: none.";
    control_key: String = "", Kind::Secret, None, "Key of the control port: a text, base64:… or file:…; requests without a token made of it, or itself, get 401. Empty: whoever reaches the port may publish.";
    control_header_bytes_max: usize = "10000", bytes(1, MANY), Some(("handler", "push_in_http_max_headers_size", 1)), "Bytes of a control request's head.";
    control_body_bytes_max: u64 = "1000000", bytes(1, MANY), Some(("handler", "push_in_http_max_body_size", 1)), "Bytes of a control request's body.";
    control_body_timeout_ms: u64 = "30000", milliseconds(1, 3_600_000), None, "Time that a control request's body has to arrive, however fast it comes; after it the publisher gets 408.";
    zmq_pull: String = "", Kind::Line, Some(("handler", "push_in_spec", 1)), "ZeroMQ PULL socket for items.";
    zmq_sub: Vec<String> = "", Kind::Lines, Some(("handler", "push_in_sub_specs", 1)), "ZeroMQ SUB sockets for items.";
    zmq_sub_connect: bool = "false", SWITCH, Some(("handler", "push_in_sub_connect", 1)), "SUB sockets connect instead of being bound.";
    zmq_rep: String = "", Kind::Line, Some(("handler", "command_spec", 1)), "ZeroMQ REP socket for commands.";
    zmq_stats: String = "", Kind::Line, Some(("handler", "stats_spec", 1)), "ZeroMQ PUB socket for figures.";
    zmq_state: String = "", Kind::Line, Some(("handler", "state_spec", 1)), "ZeroMQ DEALER socket for services that keep sessions.";
    zmq_state_timeout_ms: u64 = "1000", milliseconds(1, MANY), None, "How long such a service has to answer; then a request has no session.";
    stats_format: String = "tnetstring", Kind::Choice(&["tnetstring", "json"]), Some(("handler", "stats_format", 1)), "Notation of that.";
    stats_report_interval_ms: u64 = "10000", milliseconds(1, MANY), Some(("handler", "stats_report_interval", SECOND)), "How often reports are sent.";
    stats_connection_ttl_ms: u64 = "120000", milliseconds(1, MANY), Some(("global", "stats_connection_ttl", SECOND)), "How long a connection counts without another packet.";
    stats_connection_send: bool = "true", SWITCH, Some(("global", "stats_connection_send", 1)), "Packets for each connection.";
    stats_subscription_ttl_ms: u64 = "60000", milliseconds(1, MANY), Some(("handler", "stats_subscription_ttl", SECOND)), "How long a subscription counts without another packet.";
    prometheus: String = "", Kind::Line, Some(("handler", "prometheus_port", 1)), "Address for Prometheus; empty: none.";
    prometheus_prefix: String = "", Kind::Line, Some(("handler", "prometheus_prefix", 1)), "In front of its names.";
    message_rate: u64 = "0", count(0, MANY), Some(("handler", "message_rate", 1)), "Deliveries a second, all routes together and in turns; 0: as fast as clients take them.";
    message_hwm: u64 = "25000", count(1, MANY), Some(("handler", "message_hwm", 1)), "Deliveries of a route that may wait for message_rate; more are dropped, counted and told.";
    message_block_bytes: u64 = "0", bytes(0, MANY), Some(("handler", "message_block_size", 1)), "Bytes that count as one delivery, and as a block in reports; 0: every delivery counts one, and reports have no blocks.";
    event_bytes_max: usize = "4194304", bytes(65_536, 16 << 20), None, "Bytes of a published item, and of what may wait for one client; a larger item is refused.";
    history_bytes_max: usize = "33554432", bytes(1 << 20, 8 << 30), None, "Bytes of the newest items, in memory that all workers share; it has to hold four of event_bytes_max at least.";
    channel_log_bytes_max: usize = "8388608", bytes(65_536, 1 << 30), None, "Bytes of a channel's items that a worker keeps for clients that have not taken them; a client further behind is disconnected, or asks its backend.";
    publish_wait_ms_max: u64 = "1000", milliseconds(0, 60_000), None, "Time that a publisher waits for a worker that is a whole history_bytes_max behind; then it gets 503.";
    message_wait_ms: u64 = "5000", milliseconds(0, MANY), Some(("handler", "message_wait", 1)), "How long an item waits for its predecessor.";
    message_wait_bytes_max: usize = "67108864", bytes(1, MANY), None, "Bytes of all items that wait so; further ones are dropped, counted and told.";
    id_cache_ttl_ms: u64 = "60000", milliseconds(0, MANY), Some(("handler", "id_cache_ttl", SECOND)), "How long ids are remembered, to drop duplicates.";
    update_on_first_subscription: bool = "true", SWITCH, Some(("handler", "update_on_first_subscription", 1)), "Reliable clients of a channel that the edge knows no ids of catch up once, a second after the first of them.";
    recover_from_history: bool = "true", SWITCH, None, "Clients get what they have missed from the edge's own history, where that has all of it, and their backend is not asked.";
    filter_timeout_ms: u64 = "10000", milliseconds(1, MANY), None, "Time that the server of a filter http-check or http-modify has to answer, in whole seconds at least; then the item is left out for that client, counted and told.";
    filter_requests_max: usize = "100", count(1, MANY), None, "Requests of such filters at a time, of each worker; clients take turns.";
    subscriptions_max: usize = "20", count(1, 10_000), Some(("handler", "connection_subscription_max", 1)), "Channels of one client.";
    subscription_linger_ms: u64 = "60000", milliseconds(0, MANY), Some(("handler", "subscription_linger", SECOND)), "How long a channel stays subscribed at publishers without clients.";
    share_all: bool = "false", SWITCH, Some(("handler", "share_all", 1)), "Equal requests share one to the backend.";
}
