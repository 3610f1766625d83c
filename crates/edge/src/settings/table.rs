//! The table of settings, which declares each setting once.

use fermata_config::{EDGE_PREFIX, Kind, Table, declare};

/// A row of the table. Its alias contains section and key in a `pushpin.conf`, and the factor of
/// numbers there.
pub type Setting = fermata_config::Setting<Alias>;

type Alias = Option<(&'static str, &'static str, u64)>;

/// Returns every setting, in the order of the documentation.
pub fn table() -> &'static [Setting] {
    TABLE.rows
}

/// Returns the table with the data for error messages.
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
    tls_certificates: String = "", Kind::Line, None, "Folder with certificates NAME.crt and keys NAME.key, read again on SIGHUP; a client receives the one for the name it requests, else default*.crt.";
    listen_unix: Vec<String> = "", Kind::Lines, Some(("runner", "local_ports", 1)), "Unix sockets for HTTP and WebSocket: a path with optional ?mode=660&user=NAME&group=NAME.";
    workers: u64 = "1", count(1, 64), Some(("proxy", "workers", 1)), "Worker processes.";
    user: String = "", Kind::Line, None, "User of the workers if the edge is started as root, effective when everything is bound and open; it must be able to read the routes. Empty: no change.";
    group: String = "", Kind::Line, None, "Group of the workers; empty: the groups of user.";
    allowed_hosts: String = "", Kind::Line, None, "Hosts that requests may name, separated by commas, in addition to localhost, *.localhost and IP addresses; *.NAME is every name below NAME; others get 403. Empty: every host.";
    connections_max: u64 = "50000", count(1, MANY), Some(("runner", "client_maxconn", 1)), "Maximum number of clients per worker; more get 503.";
    header_bytes_max: usize = "8192", bytes(256, 1 << 20), Some(("runner", "client_buffer_size", 1)), "Maximum size of a request's head.";
    headers_count_max: u64 = "100", count(1, 1_000), None, "Maximum number of header lines of a request; more get 431.";
    target_bytes_max: usize = "65536", bytes(64, 65_536), None, "Maximum size of a request's target, within header_bytes_max; a larger one gets 414.";
    header_timeout_ms: u64 = "10000", milliseconds(1, 3_600_000), None, "Time from a new connection, or the first byte of a later request, to the end of the head; then 408.";
    idle_timeout_ms: u64 = "75000", milliseconds(1, 3_600_000), None, "Time that a client's connection may stay open without a request; held clients are not idle.";
    write_timeout_ms: u64 = "30000", milliseconds(1, 3_600_000), None, "Time for which a client may read nothing while bytes wait for it; then its connection is reset.";
    write_rate_min: u64 = "4096", bytes(0, 1 << 30), None, "Bytes per second that a client must read while more than 64 KiB are buffered for it, as a mean over write_timeout_ms; 0: any byte suffices.";
    buffered_bytes_max: u64 = "134217728", bytes(0, 1 << 40), None, "Maximum number of bytes that a worker buffers for all clients: unread output, and incomplete bodies and messages; over the limit, the clients with the largest and oldest bytes are closed. 0: no limit.";
    buffered_per_address_bytes_max: u64 = "67108864", bytes(0, 1 << 40), None, "The same for the clients of one address (for IPv6, one /64 network); the largest response that one of them is reading does not count. 0: no limit.";
    buffered_per_connection_bytes_max: u64 = "16777216", bytes(0, 1 << 40), None, "Bytes buffered for one HTTP/2 connection above which its next requests wait until the client has read. 0: no limit.";
    drain_timeout_ms: u64 = "10000", milliseconds(0, 3_600_000), None, "Time in which a stopping edge lets requests and held clients finish.";
    stall_timeout_ms: u64 = "60000", milliseconds(0, 3_600_000), None, "Time after which a worker that does not respond is killed and replaced; 0: never.";
    body_bytes_max: u64 = "1073741824", bytes(1, 1 << 40), None, "Maximum size of a request's body.";
    body_timeout_ms: u64 = "1800000", milliseconds(1, 3_600_000), None, "Time in which a request's body must arrive; one that arrives at body_rate_min may take longer. Then 408.";
    body_rate_min: u64 = "1", count(0, 1 << 30), None, "Minimum bytes per second of a body that takes longer than body_timeout_ms; 0: none may.";
    http2_resets_per_second_max: u64 = "33", count(1, 100_000), None, "RST_STREAM frames of a client's HTTP/2 connection beyond one per response, and streams that it makes the edge reset; a connection over this or one of the next seven limits is closed with ENHANCE_YOUR_CALM.";
    http2_pings_per_second_max: u64 = "100", count(1, 100_000), None, "PING frames of such a connection that accompany no HEADERS or DATA.";
    http2_settings_per_second_max: u64 = "50", count(1, 100_000), None, "SETTINGS frames of such a connection.";
    http2_empty_data_per_second_max: u64 = "100", count(1, 100_000), None, "Empty DATA frames of such a connection that end no stream and accompany no other frames.";
    http2_window_updates_per_second_max: u64 = "500", count(5, 100_000), None, "WINDOW_UPDATE frames of such a connection that accompany no HEADERS or DATA; a fifth of it for the connection's window.";
    http2_priorities_per_second_max: u64 = "200", count(1, 100_000), None, "PRIORITY and PRIORITY_UPDATE frames of such a connection that accompany no HEADERS or DATA.";
    http2_unknown_frames_per_second_max: u64 = "100", count(1, 100_000), None, "Frames of unknown types of such a connection that accompany no HEADERS or DATA, and GOAWAY after the first.";
    http2_continuations_max: u64 = "20", count(1, 200), None, "CONTINUATION frames of one header block that are not full.";
    upload_directory_bytes_max: u64 = "1073741824", bytes(0, 1 << 40), None, "Maximum size of all temporary files of a worker for request bodies, in TMPDIR; a body without room gets 507.";
    upload_directory_files_max: u64 = "1000", count(0, 1_000_000), None, "Maximum number of these files.";
    response_spool_bytes_max: u64 = "536870912", bytes(0, 1 << 40), None, "Bytes of responses of FastCGI targets that a worker stores in such files for slow clients; a response without room is read at its client's pace.";
    response_spool_address_bytes_max: u64 = "134217728", bytes(0, 1 << 40), None, "Of those, bytes for clients of one address (for IPv6, one /64 network).";
    response_waits_per_address_max: u64 = "2", count(1, 65_536), None, "Responses of FastCGI targets of one client address that may lack room, per worker; with one more, the response whose client has read nothing for the longest time, and for at least two seconds, is cut off.";
    compression: bool = "false", SWITCH, Some(("runner", "allow_compression", 1)), "permessage-deflate for WebSockets.";
    websocket_ping_interval_ms: u64 = "25000", milliseconds(0, 3_600_000), None, "Silence of a WebSocket client before it is sent a ping; 0: none.";
    websocket_pong_timeout_ms: u64 = "20000", milliseconds(0, 3_600_000), None, "Time for which a WebSocket client may stay silent after a ping; then its connection is closed. 0: forever.";
    log_level: u64 = "2", count(0, 4), Some(("runner", "log_level", 1)), "0 logs only errors, 4 everything.";
    log_requests: bool = "false", SWITCH, None, "Logs requests, subscriptions and published items at log_level 2; at 3 they are always logged. On with a pushpin.conf, as in Pushpin.";
    routes: String = "routes", Kind::Line, Some(("proxy", "routesfile", 1)), "The routes file.";
    route: Vec<String> = "", Kind::Lines, None, "Routes instead of a file, each a line of one; a malformed one stops the start.";
    origin_connect_timeout_ms: u64 = "10000", milliseconds(1, MANY), None, "Time in which a connection to a backend must open; then the next target is tried.";
    origin_response_timeout_ms: u64 = "60000", milliseconds(1, MANY), None, "Time in which a backend must read more of a request, and then begin its response; then 504.";
    origin_idle_timeout_ms: u64 = "1800000", milliseconds(1, MANY), None, "Time for which a backend may pause within its response.";
    origin_streams_max: u64 = "100", count(1, 1_000), None, "Concurrent requests on one connection to a target with http2, if the target allows as many; further ones use another connection.";
    origin_ping_interval_ms: u64 = "30000", milliseconds(0, MANY), None, "Silence of a connection to a target with http2, while requests wait on it, before it is sent a PING; each acknowledged one makes the time four times as long, up to ten minutes. 0: none.";
    origin_ping_timeout_ms: u64 = "30000", milliseconds(1, MANY), None, "Time in which the target must send anything after that; then the connection is closed, and its requests go to another target or get 502.";
    origin_out_after: u64 = "3", count(0, 1_000), None, "Number of failed requests within origin_out_within_ms after which one of several targets is down; 0: never.";
    origin_out_within_ms: u64 = "10000", milliseconds(1, MANY), None, "Time for these failures.";
    origin_out_for_ms: u64 = "10000", milliseconds(1, MANY), None, "Time for which it is down until one request tries it.";
    origin_check_interval_ms: u64 = "5000", milliseconds(100, 86_400_000), None, "Time between two checks of a target, on routes with check=PATH.";
    origin_check_timeout_ms: u64 = "2000", milliseconds(100, 86_400_000), None, "Time that a check may take, checked once a second.";
    origin_check_rise: u64 = "2", count(1, 1_000), None, "Good checks in a row after which a target is up.";
    origin_check_fall: u64 = "3", count(1, 1_000), None, "Bad checks in a row after which a target is down.";
    origin_authorities: String = "", Kind::Line, None, "PEM file with the authorities for certificates of https backends; a target's ca=FILE overrides it. Empty: those of this machine.";
    debug: bool = "false", SWITCH, Some(("proxy", "debug", 1)), "Responses to failures contain the reason, on every route.";
    auto_cross_origin: bool = "false", SWITCH, Some(("proxy", "auto_cross_origin", 1)), "CORS headers and JSON-P, on every route.";
    accept_x_forwarded_protocol: bool = "false", SWITCH, Some(("proxy", "accept_x_forwarded_protocol", 1)), "Trusts requests that claim to have arrived over https.";
    set_x_forwarded_protocol: String = "proto-only", Kind::Choice(&["proto-only", "true", "false"]), Some(("proxy", "set_x_forwarded_protocol", 1)), "Headers that report https to backends.";
    accept_forwarded: bool = "false", SWITCH, None, "Passes on Forwarded, X-Forwarded-Host, X-Real-IP and similar headers, for an edge behind a proxy that writes them.";
    x_forwarded_for: String = "truncate:0,append", Kind::Line, Some(("proxy", "x_forwarded_for", 1)), "Changes to X-Forwarded-For: truncate:N keeps the last N addresses, append adds the client's; empty: passed on unchanged.";
    x_forwarded_for_trusted: String = "", Kind::Line, Some(("proxy", "x_forwarded_for_trusted", 1)), "The same for clients that are trusted edges.";
    orig_headers_need_mark: Vec<String> = "", Kind::Lines, Some(("proxy", "orig_headers_need_mark", 1)), "Headers that count as original only if they are marked.";
    accept_pushpin_route: bool = "false", SWITCH, Some(("proxy", "accept_pushpin_route", 1)), "The header Pushpin-Route chooses the route.";
    cdn_loop: String = "", Kind::Line, Some(("proxy", "cdn_loop", 1)), "Text appended to CDN-Loop.";
    log_from: bool = "false", SWITCH, Some(("proxy", "log_from", 1)), "Logs addresses of clients.";
    log_user_agent: bool = "false", SWITCH, Some(("proxy", "log_user_agent", 1)), "Logs User-Agent headers.";
    sig_iss: String = "pushpin", Kind::Line, Some(("proxy", "sig_iss", 1)), "Issuer in Grip-Sig.";
    sig_key: String = "", Kind::Secret, Some(("proxy", "sig_key", 1)), "Key of Grip-Sig: a text, base64:… or file:…; empty: no Grip-Sig.";
    upstream_key: String = "", Kind::Secret, Some(("proxy", "upstream_key", 1)), "Key of trusted edges in front.";
    sockjs_url: String = "", Kind::Line, Some(("proxy", "sockjs_url", 1)), "URL of the library for SockJS clients in iframes; empty: no page for iframes.";
    sockjs_sessions_max: usize = "10000", count(1, MANY), None, "Maximum number of polling SockJS sessions per worker.";
    sockjs_queue_bytes_max: usize = "67108864", bytes(262_144, MANY), None, "Bytes of messages that wait in all SockJS sessions of a worker, in addition to 200,000 of each; above it, backends of sessions with waiting messages are not read.";
    sockjs_heartbeat_ms: u64 = "25000", milliseconds(1, MANY), None, "Interval of SockJS heartbeats.";
    sockjs_linger_ms: u64 = "5000", milliseconds(1, MANY), None, "Time for which a polling SockJS session waits for its client's next request.";
    control: String = "127.0.0.1:5561", Kind::Line, None, "Address of the HTTP control port, or a Unix socket: unix:/PATH with optional ?mode=660&user=NAME&group=NAME; empty: none.";
    control_key: String = "", Kind::Secret, None, "Key of the control port: a text, base64:… or file:…; requests need a token made from it, or the key itself, else 401. Empty: every client of the port may publish.";
    control_header_bytes_max: usize = "10000", bytes(1, MANY), Some(("handler", "push_in_http_max_headers_size", 1)), "Maximum size of a control request's head.";
    control_body_bytes_max: u64 = "1000000", bytes(1, MANY), Some(("handler", "push_in_http_max_body_size", 1)), "Maximum size of a control request's body.";
    control_body_timeout_ms: u64 = "30000", milliseconds(1, 3_600_000), None, "Time in which a control request's body must arrive; then 408.";
    zmq_pull: String = "", Kind::Line, Some(("handler", "push_in_spec", 1)), "ZeroMQ PULL socket for items.";
    zmq_sub: Vec<String> = "", Kind::Lines, Some(("handler", "push_in_sub_specs", 1)), "ZeroMQ SUB sockets for items.";
    zmq_sub_connect: bool = "false", SWITCH, Some(("handler", "push_in_sub_connect", 1)), "SUB sockets connect instead of being bound.";
    zmq_rep: String = "", Kind::Line, Some(("handler", "command_spec", 1)), "ZeroMQ REP socket for commands.";
    zmq_stats: String = "", Kind::Line, Some(("handler", "stats_spec", 1)), "ZeroMQ PUB socket for statistics.";
    zmq_state: String = "", Kind::Line, Some(("handler", "state_spec", 1)), "ZeroMQ DEALER socket for session services.";
    zmq_state_timeout_ms: u64 = "1000", milliseconds(1, MANY), None, "Time for such a service to respond; then the request has no session.";
    stats_format: String = "tnetstring", Kind::Choice(&["tnetstring", "json"]), Some(("handler", "stats_format", 1)), "Format of the statistics.";
    stats_report_interval_ms: u64 = "10000", milliseconds(1, MANY), Some(("handler", "stats_report_interval", SECOND)), "Interval of reports.";
    stats_connection_ttl_ms: u64 = "120000", milliseconds(1, MANY), Some(("global", "stats_connection_ttl", SECOND)), "Time for which a connection counts without another packet.";
    stats_connection_send: bool = "true", SWITCH, Some(("global", "stats_connection_send", 1)), "Sends packets for each connection.";
    stats_subscription_ttl_ms: u64 = "60000", milliseconds(1, MANY), Some(("handler", "stats_subscription_ttl", SECOND)), "Time for which a subscription counts without another packet.";
    prometheus: String = "", Kind::Line, Some(("handler", "prometheus_port", 1)), "Address for Prometheus; empty: none.";
    prometheus_prefix: String = "", Kind::Line, Some(("handler", "prometheus_prefix", 1)), "Prefix of Pushpin's metric names.";
    message_rate: u64 = "0", count(0, MANY), Some(("handler", "message_rate", 1)), "Deliveries per second of all routes, in turn; 0: as fast as clients read.";
    message_hwm: u64 = "25000", count(1, MANY), Some(("handler", "message_hwm", 1)), "Deliveries of a route that may wait for message_rate; more are dropped, counted and logged.";
    message_block_bytes: u64 = "0", bytes(0, MANY), Some(("handler", "message_block_size", 1)), "Bytes that count as one delivery, and as a block in reports; 0: each delivery counts once, and reports have no blocks.";
    event_bytes_max: usize = "4194304", bytes(65_536, 16 << 20), None, "Maximum size of a published item, and of the bytes that may wait for one client; a larger item is refused.";
    history_bytes_max: usize = "33554432", bytes(1 << 20, 8 << 30), None, "Bytes of the newest items, in memory shared by all workers; at least four times event_bytes_max.";
    channel_log_bytes_max: usize = "8388608", bytes(65_536, 1 << 30), None, "Bytes of a channel's items that a worker keeps for clients that have not read them; a client further behind is disconnected, or asks its backend.";
    publish_wait_ms_max: u64 = "1000", milliseconds(0, 60_000), None, "Time for which a publisher waits for a worker that is history_bytes_max behind; then 503.";
    message_wait_ms: u64 = "5000", milliseconds(0, MANY), Some(("handler", "message_wait", 1)), "Time for which an item waits for its predecessor.";
    message_wait_bytes_max: usize = "67108864", bytes(1, MANY), None, "Bytes of all such items; further ones are dropped, counted and logged.";
    id_cache_ttl_ms: u64 = "60000", milliseconds(0, MANY), Some(("handler", "id_cache_ttl", SECOND)), "Time for which ids are stored to drop duplicates.";
    update_on_first_subscription: bool = "true", SWITCH, Some(("handler", "update_on_first_subscription", 1)), "Clients with ids of a channel without known ids catch up once, a second after the first of them.";
    recover_from_history: bool = "true", SWITCH, None, "Sends clients what they missed from the edge's history, if it is complete, instead of asking their backend.";
    filter_timeout_ms: u64 = "10000", milliseconds(1, MANY), None, "Time for the server of a filter http-check or http-modify to respond, checked once a second; then the item is dropped for that client, counted and logged.";
    filter_requests_max: usize = "100", count(1, MANY), None, "Concurrent requests of such filters per worker; clients take turns.";
    subscriptions_max: usize = "20", count(1, 10_000), Some(("handler", "connection_subscription_max", 1)), "Maximum number of channels of one client.";
    subscription_linger_ms: u64 = "60000", milliseconds(0, MANY), Some(("handler", "subscription_linger", SECOND)), "Time for which a channel without clients stays subscribed at publishers.";
    share_all: bool = "false", SWITCH, Some(("handler", "share_all", 1)), "Equal requests share one to the backend.";
}
