//! The table that declares all settings of the server.

use std::path::PathBuf;

use crate::declare::{Setting, Table};
use crate::listen::{Access, Listen, Scheme, Transport};
use crate::networks::Networks;
use crate::proxy_headers::ProxyHeaders;
use crate::value::{Kind, LogFormat, LogLevel};
use crate::variables::ENVIRONMENT_PREFIX;

/// Maximum number of worker processes: the shared-memory ring has one bit per worker in four 64-bit words.
pub const WORKERS_MAX: u16 = 256;

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl Setting {
    /// Returns the environment variable, such as `FERMATA_IDLE_TIMEOUT_MS`.
    pub fn environment_name(&self) -> String {
        TABLE.variable(self.name)
    }

    /// Returns the `php.ini` directive, such as `fermata.idle_timeout_ms`.
    pub fn ini_name(&self) -> String {
        format!("fermata.{}", self.name)
    }
}

/// Returns all settings in the order of the documentation.
pub fn table() -> &'static [Setting] {
    TABLE.rows
}

/// Returns the table with the data that error messages need.
pub(crate) fn declared() -> &'static Table<Option<&'static str>> {
    &TABLE
}

/// Returns name and current value of every setting, in the order of the table.
pub fn effective(settings: &Settings) -> Vec<(&'static str, String)> {
    table()
        .iter()
        .map(|setting| (setting.name, settings.text(setting.name)))
        .collect()
}

impl Settings {
    /// Returns the parsed addresses of `listen`; at least one.
    pub fn listen_addresses(&self) -> Vec<Listen> {
        // Callers can set the public field without a check; fall back to the safe default.
        Listen::parse_list(&self.listen).unwrap_or_else(|_| {
            vec![Listen {
                scheme: Scheme::Http,
                transport: Transport::Tcp,
                host: "127.0.0.1".to_owned(),
                port: 8080,
                access: Access::default(),
                has_preface: false,
            }]
        })
    }

    /// Returns true if the address for metrics and health is a loopback address.
    pub fn has_loopback_metrics(&self) -> bool {
        let text = self.metrics_listen.as_deref().unwrap_or_default();
        let text = text.strip_prefix("http://").unwrap_or(text);
        let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|it| it.to_canonical().is_loopback())
    }

    /// Returns true if any address uses TLS.
    pub fn has_https(&self) -> bool {
        let addresses = self.listen_addresses();
        addresses
            .iter()
            .any(|listen| listen.scheme == Scheme::Https)
    }
}

crate::declare! {
    prefix ENVIRONMENT_PREFIX;
    page "docs/reference/settings.md";
    alias Option<&'static str>;
    listen: String = "http://127.0.0.1:8080", Kind::Addresses, Some("Server listen"),
        "Addresses that every worker listens at, separated by commas.\n\
         http://HOST:PORT and https://HOST:PORT; port 0 takes any free port. An https address needs tls_certificate or tls_development.\n\
         unix:/path.sock is a Unix socket; append ?mode=660&user=NAME&group=NAME to set who may connect.\n\
         systemd and systemd:NAME are sockets that systemd opened, https+systemd:NAME those with TLS.\n\
         ?proxy_protocol=on (&proxy_protocol=on after another option) requires connections to begin with a PROXY protocol header, version 1 or 2, and to come from trusted_proxies.\n\
         The environment variable PORT replaces the port of the first address.";
    listen_unix_mode: String = "0660", Kind::Choice(&["0600", "0660", "0666"]), None,
        "Permissions of Unix sockets in listen: the owner; also its group; everyone.";
    tls_certificate: Vec<PathBuf> = "", Kind::Paths, Some("Tls certificate"),
        "PEM files with the certificate chains for https addresses, the server's own certificate first in each.\n\
         A folder stands for all its files NAME.crt, with keys NAME.key in the folder that tls_key names; default*.crt comes first.\n\
         A client receives the certificate for the name it requests, else the first one.\n\
         SIGHUP to the master reads the files again.";
    tls_key: Vec<PathBuf> = "", Kind::Paths, Some("Tls key"),
        "PEM files with the private keys of tls_certificate, in the same order.";
    tls_development: String = "off", Kind::Choice(&["off", "on"]), Some("Tls development"),
        "Creates a certificate for localhost in ~/.local/share/fermata if tls_certificate is empty.\n\
         For development only: a client accepts it if it trusts the authority created with it.";
    tls_version_min: String = "1.2", Kind::Choice(&["1.2", "1.3"]), Some("Tls minVersion"),
        "Oldest accepted version of TLS.";
    tls_client_ca: Option<PathBuf> = "", Kind::Path, Some("Tls clientCa"),
        "PEM file with the authorities that sign client certificates.\n\
         Empty: clients are not asked for a certificate.";
    tls_client_required: String = "on", Kind::Choice(&["on", "off"]), Some("Tls clientRequired"),
        "Refuses clients without a certificate if tls_client_ca is set.";
    http2: String = "on", Kind::Choice(&["on", "off"]), None,
        "Accepts HTTP/2: over TLS by ALPN, in the clear with prior knowledge (h2c).\n\
         HTTP/1.1 stays available on the same addresses.";
    streams_per_connection_max: u16 = "100", Kind::Count { min: 1, max: 10_000, unit: "streams" }, None,
        "Maximum number of concurrent requests on one HTTP/2 connection; each held client is one.\n\
         A quarter more may be cancelled requests whose handlers are still running. Further streams are refused, and the client retries.";
    stream_window_bytes: usize = "65535", Kind::Bytes { min: 1024, max: 16 * MIB }, None,
        "Bytes of an HTTP/2 request body that a client may send before the server has read them.";
    connection_window_bytes: usize = "1048576", Kind::Bytes { min: 64 * KIB, max: 256 * MIB }, None,
        "The same limit for all requests of a connection together.";
    streams_per_address_max: usize = "0", Kind::Count { min: 0, max: 10_000_000, unit: "streams" }, None,
        "Maximum number of concurrent HTTP/2 requests of one client address, per worker; each held client is one.\n\
         A request over the limit gets 429. Clients are told the limit for one connection.\n\
         0: as connections_per_address_max, and no limit if that is 0, too. Keep 0 behind a proxy, where all clients have its address.";
    http2_resets_per_second_max: usize = "33", Kind::Count { min: 1, max: 100_000, unit: "streams per second" }, None,
        "Streams per second that a client may cancel on one HTTP/2 connection, and as many that it may make the server reset.\n\
         Each response allows one more. Up to thirty seconds' worth may come at once.\n\
         A connection over this limit, or over one of the following, is closed with ENHANCE_YOUR_CALM.";
    http2_pings_per_second_max: usize = "100", Kind::Count { min: 1, max: 100_000, unit: "frames per second" }, None,
        "PING frames, and acknowledgements of PING, of an HTTP/2 connection.\n\
         PING frames do not count while HEADERS or DATA are exchanged: gRPC clients send one per round trip.\n\
         Each HEADERS or DATA frame allows four of PING, WINDOW_UPDATE, PRIORITY, empty DATA and unknown types, and DATA one per 512 bytes.";
    http2_settings_per_second_max: usize = "50", Kind::Count { min: 1, max: 100_000, unit: "frames per second" }, None,
        "SETTINGS frames of an HTTP/2 connection.";
    http2_empty_data_per_second_max: usize = "100", Kind::Count { min: 1, max: 100_000, unit: "frames per second" }, None,
        "Empty DATA frames of an HTTP/2 connection that do not end their stream and accompany no other frames.";
    http2_window_updates_per_second_max: usize = "500", Kind::Count { min: 5, max: 100_000, unit: "frames per second" }, None,
        "WINDOW_UPDATE frames of all streams of an HTTP/2 connection that accompany no HEADERS or DATA; a fifth of it for the window of the connection.\n\
         Up to two seconds' worth may come at once.";
    http2_priorities_per_second_max: usize = "200", Kind::Count { min: 1, max: 100_000, unit: "frames per second" }, None,
        "PRIORITY and PRIORITY_UPDATE frames of an HTTP/2 connection that accompany no HEADERS or DATA.\n\
         Up to two seconds' worth may come at once.";
    http2_unknown_frames_per_second_max: usize = "100", Kind::Count { min: 1, max: 100_000, unit: "frames per second" }, None,
        "Frames of unknown types on an HTTP/2 connection, and GOAWAY after the first.\n\
         Up to two seconds' worth may come at once.";
    http2_continuations_max: u16 = "20", Kind::Count { min: 1, max: 200, unit: "frames" }, None,
        "CONTINUATION frames of one header block that are not full (16,384 bytes); header_bytes_max bounds full ones.";
    tls_ticket_period_ms: u64 = "21600000", Kind::Milliseconds { min: 60 * SECOND, max: 7 * 24 * HOUR }, None,
        "Period after which the keys of TLS session tickets change.\n\
         A client that returns within it skips the expensive part of the handshake.";
    workers: u16 = "0", Kind::Count { min: 0, max: WORKERS_MAX as u64, unit: "processes" },
        Some("Server workers"),
        "Number of worker processes.\n\
         0: one per usable core, up to 64.";
    user: Option<String> = "", Kind::Account, None,
        "User of workers and job processes if the server is started as root. They change to it when everything is bound and open, before they run a handler.\n\
         The master stays root and runs no handler; your script runs as root before run().\n\
         Empty: no change.";
    group: Option<String> = "", Kind::Account, None,
        "Group of those processes.\n\
         Empty: the groups of the user in /etc/passwd and /etc/group.";
    balance: String = "on", Kind::Choice(&["on", "off"]), None,
        "Moves a connection that stays open after its first response to the worker with the fewest connections.\n\
         off: the kernel distributes connections by a hash, unevenly if there are few.";
    cluster: Option<String> = "", Kind::LogServers, Some("Server cluster"),
        "Servers of the log that several machines share, NATS with JetStream or Redis: an event reaches the clients of all machines, in one order and with one id.\n\
         nats://HOST:PORT or redis://HOST:PORT; over TLS tls://HOST:PORT (NATS) or rediss://HOST:PORT; nats://USER:PASSWORD@HOST:PORT with an account; several separated by commas; Sentinels as redis+sentinel://HOST:PORT,HOST:PORT/NAME. docs/cluster.md shows each.\n\
         Empty: channels of this machine only.";
    cluster_user: String = "", Kind::Text, None,
        "User for servers of cluster whose address has none.\n\
         Empty: the default user of Redis; for NATS the password is then a token.";
    cluster_password: Option<String> = "", Kind::Secret, None,
        "Password for servers of cluster whose address has none, given by FERMATA_CLUSTER_PASSWORD.\n\
         phpinfo() lists environment variables; cluster_password_file avoids that.";
    cluster_password_file: Option<PathBuf> = "", Kind::Path, None,
        "File with that password, read by the server's user at each connection; trailing line breaks are ignored.";
    cluster_credentials: Option<PathBuf> = "", Kind::Path, None,
        "For NATS instead of user and password: a user's .creds file, or a file with an nkey seed (SU…), read by the server's user at each connection.";
    cluster_ca: Option<PathBuf> = "", Kind::Path, None,
        "PEM file with the authorities that sign certificates of the servers of cluster, read at each connection.\n\
         Empty: the authorities that this machine trusts.";
    cluster_certificate: Option<PathBuf> = "", Kind::Path, None,
        "PEM file with the client certificate for the servers of cluster and its chain, read at each connection.\n\
         Empty: none.";
    cluster_key: Option<PathBuf> = "", Kind::Path, None,
        "PEM file with the private key of cluster_certificate, read by the server's user.";
    cluster_prefix: String = "fermata", Kind::Label, None,
        "Name of the application in the log: machines with the same prefix share their channels.\n\
         NATS: the stream is FERMATA_ and the prefix, its subjects are below the prefix. Redis: keys begin with it, in braces.";
    cluster_application: String = "", Kind::Text, None,
        "Name that the application's events carry in the log: events with another name are rejected.\n\
         Empty: a fingerprint of the secrets of Pusher applications and Mercure keys, if there are any. Set it before you change those secrets.";
    cluster_replicas: u16 = "1", Kind::Count { min: 1, max: 5, unit: "copies" }, None,
        "Number of NATS servers that store the log, used when it is created.\n\
         3 survives the loss of one server; a single server allows 1 only.";
    cluster_bytes_max: u64 = "1g", Kind::Bytes { min: MIB, max: 1024 * GIB }, None,
        "Maximum size of the log in NATS, used when it is created; events older than history_age_ms_max, or beyond the size, are removed.";
    cluster_events_max: u64 = "100000", Kind::Count { min: 1000, max: 1_000_000_000, unit: "events" }, None,
        "Number of events that the log keeps in Redis, which cannot bound it by bytes.";
    cluster_lease_ms: u64 = "10000", Kind::Milliseconds { min: 1000, max: HOUR }, None,
        "Time without a sign of life after which the users present on a machine of the cluster have left.\n\
         All machines need the same value.";
    control: Option<String> = "", Kind::Control, Some("Server control"),
        "Unix socket on which other processes publish.\n\
         Empty: none. The socket has mode 0600, so only the server's user can publish.";
    test_clock: String = "off", Kind::Choice(&["off", "on"]), None,
        "Lets a test set the server's clock forward by POST /clock on the control socket, with one worker.\n\
         It moves timers, time limits and ages of stored data, not PHP's time() and microtime().";
    trusted_proxies: Networks = "", Kind::Networks, Some("Server trustedProxies"),
        "Proxies whose headers say who the client is; proxy_headers names the headers.\n\
         unix stands for all peers on Unix sockets.\n\
         Empty: no proxy is trusted, and the headers change nothing.";
    proxy_headers: ProxyHeaders = "x-forwarded-for,x-forwarded-proto", Kind::ProxyHeaders, Some("Server proxyHeaders"),
        "Headers that the proxies of trusted_proxies write, separated by commas: forwarded, or some of x-forwarded-for, x-forwarded-proto and x-forwarded-host.\n\
         No other header is trusted, because a proxy passes on headers that it does not write.\n\
         If a request has both Forwarded and an X-Forwarded header and only one kind is listed, neither is trusted: the client is the proxy, the request is counted and logged.";
    grip_url: Option<String> = "", Kind::Edges, Some("Server gripUrl"),
        "Control ports of GRIP edges in front (fermata edge, Pushpin): URLs separated by spaces.\n\
         Requests that an edge has signed with the URL's key receive a Hold as GRIP headers, so the edge holds the client; every edge receives published events.\n\
         http://HOST:PORT?key=SECRET, or with verify-key and verify-iss if requests are signed with another key; a key is a text, base64:… or file:PATH.\n\
         GRIP_URL is used if no other source sets a value; addresses that only publishers use (tcp:, ipc:, unix:) are ignored.\n\
         Empty: none.";
    grip_link_timeout_ms: u64 = "120000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Silence after which an edge checks whether a client that it holds missed events; it also checks if the ids of events show a loss.\n\
         0: edges receive neither ids nor a link, so clients cost them less, and a loss is noticed only when a client reconnects.";
    grip_publish_timeout_ms: u64 = "5000", Kind::Milliseconds { min: 100, max: HOUR }, None,
        "Time in which an edge must accept published events.\n\
         After it the events are sent again; later events wait in the ring.";
    io: String = "auto", Kind::Choice(&["auto", "epoll", "io_uring"]), None,
        "Kernel interface of the event loop; docs/io.md compares them.\n\
         auto is epoll, which measured better for most servers.\n\
         If io_uring is not permitted, the log says why and the server uses epoll.";
    log_format: LogFormat = "text", Kind::Choice(&["text", "json"]), Some("Log format"),
        "Format of log lines on standard error: text, or one JSON object per line.";
    log_level: LogLevel = "info", Kind::Choice(&["error", "warning", "info", "debug"]),
        Some("Log level"),
        "Least severe level that is logged.";
    access_log: Option<PathBuf> = "", Kind::Path, Some("AccessLog path"),
        "File that gets a line per request, or stderr or stdout.\n\
         Empty: none. SIGUSR1 or SIGHUP to the master reopens the file after rotation.";
    access_log_format: String = "combined", Kind::Choice(&["common", "combined", "json"]),
        Some("AccessLog format"),
        "Format of those lines.";
    access_log_query: String = "off", Kind::Choice(&["off", "on"]), Some("AccessLog query"),
        "Includes the query of targets and referers, which often contains secrets.";
    access_log_buffer_bytes_max: usize = "262144", Kind::Bytes { min: 64 * KIB, max: GIB }, None,
        "Bytes of lines per worker that may wait for a slow disk or reader.\n\
         Further lines are dropped and counted; no request waits for its line.";
    allowed_hosts: String = "", Kind::Text, None,
        "Hosts that requests may name, separated by commas; *.NAME is every name below NAME.\n\
         localhost, *.localhost and IP addresses are always allowed; a request for another host gets 403.\n\
         With trusted_proxies both Host and the host that the proxy names are checked.\n\
         Empty or *: every host. fermata dev and fermata cluster up set localhost, against DNS rebinding.";
    metrics_listen: Option<String> = "", Kind::Address, Some("Server metrics"),
        "Address of GET /metrics for Prometheus, /health/live and /health/ready.\n\
         Empty: none. Every client that can connect reads all metrics, so keep it private.\n\
         On a loopback address, requests must name localhost, *.localhost, an IP address or a host of allowed_hosts.";
    otlp_endpoint: Option<String> = "", Kind::Url, None,
        "OpenTelemetry collector that receives a span for each request, hold and publish, by OTLP over HTTP; docs/traces.md shows one.\n\
         http://HOST:PORT or https://HOST:PORT; a URL without a path gets /v1/traces.\n\
         Empty: none. OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT is used if no other source sets a value.";
    otlp_protocol: String = "http/protobuf", Kind::Choice(&["http/protobuf", "http/json"]), None,
        "Encoding of spans. gRPC is not supported: use the collector's port for OTLP over HTTP, usually 4318.\n\
         OTEL_EXPORTER_OTLP_TRACES_PROTOCOL or OTEL_EXPORTER_OTLP_PROTOCOL is used if no other source sets a value.";
    otlp_headers: Option<String> = "", Kind::Pairs, None,
        "Headers of requests to the collector, such as api-key=SECRET: name=value separated by commas, values percent-encoded.\n\
         OTEL_EXPORTER_OTLP_TRACES_HEADERS or OTEL_EXPORTER_OTLP_HEADERS is used if no other source sets a value.";
    otlp_service_name: String = "fermata", Kind::Text, None,
        "Service that spans belong to (service.name).\n\
         OTEL_SERVICE_NAME is used if no other source sets a value.";
    otlp_resource: Option<String> = "", Kind::Pairs, None,
        "Further attributes of the service, such as deployment.environment.name=production: name=value separated by commas, values percent-encoded.\n\
         OTEL_RESOURCE_ATTRIBUTES is used if no other source sets a value.";
    otlp_sampler: String = "parentbased_traceidratio", Kind::Choice(&[
        "parentbased_traceidratio", "parentbased_always_on", "parentbased_always_off", "traceidratio", "always_on", "always_off",
    ]), None,
        "Which requests get spans. parentbased_ follows the decision in traceparent, and applies the rest of the word to requests without one.\n\
         OTEL_TRACES_SAMPLER is used if no other source sets a value.";
    otlp_sampling_ratio: String = "1", Kind::Ratio, None,
        "Ratio of traceidratio: 0.01 records one trace in a hundred.\n\
         OTEL_TRACES_SAMPLER_ARG is used if no other source sets a value.";
    otlp_timeout_ms: u64 = "10000", Kind::Milliseconds { min: 100, max: HOUR }, None,
        "Time in which the collector must accept a request; then it is sent again.\n\
         OTEL_EXPORTER_OTLP_TRACES_TIMEOUT or OTEL_EXPORTER_OTLP_TIMEOUT is used if no other source sets a value.";
    connections_max: usize = "10000",
        Kind::Count { min: 1, max: 10_000_000, unit: "connections" }, Some("Limits connections"),
        "Maximum number of open connections per worker, and of concurrent HTTP/2 requests.\n\
         One more gets 503; a connection is then closed.";
    connections_per_address_max: usize = "0",
        Kind::Count { min: 0, max: 10_000_000, unit: "connections" },
        Some("Limits connectionsPerAddress"),
        "Maximum number of open connections of one client address, per worker; one more gets 429 and is closed.\n\
         0: no limit. Keep 0 behind a proxy, where all clients have its address.";
    header_bytes_max: usize = "16384", Kind::Bytes { min: KIB, max: MIB },
        Some("Limits headerBytes"),
        "Maximum size of a request's line and headers together; a larger one gets 431.";
    headers_count_max: usize = "100", Kind::Count { min: 1, max: 1_000, unit: "lines" }, None,
        "Maximum number of header lines of a request; more get 431.";
    target_bytes_max: usize = "8192", Kind::Bytes { min: 64, max: 64 * KIB }, None,
        "Maximum size of a request's target, the path with the query; a larger one gets 414.";
    body_bytes_max: usize = "1048576", Kind::Bytes { min: 0, max: GIB }, Some("Limits bodyBytes"),
        "Maximum size of a request's body; a larger one gets 413. A route's bodyBytes replaces it.";
    body_memory_bytes_max: usize = "1048576", Kind::Bytes { min: 4 * KIB, max: GIB }, None,
        "Maximum size of a body kept in memory; a larger one, if allowed, goes to a temporary file as it arrives.\n\
         The fields of a form with files may have as many bytes together.";
    body_piece_bytes_max: usize = "65536", Kind::Bytes { min: KIB, max: 64 * KIB }, None,
        "Bytes read ahead of a body that its handler reads as it arrives (streamBody of a route).\n\
         The client waits while the handler does not read.";
    body_rate_min: usize = "16384", Kind::Bytes { min: 0, max: GIB }, None,
        "Minimum bytes per second of a body that takes longer than body_timeout_ms.\n\
         0: no body may take longer.";
    multipart_bytes_max: usize = "67108864", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "Maximum size of a multipart/form-data body with all its files; a larger one gets 413.\n\
         A route's bodyBytes replaces it.";
    upload_bytes_max: usize = "16777216", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "Maximum size of one file in a form; a larger one gets 413.\n\
         A route's bodyBytes replaces it.";
    uploads_max: usize = "20", Kind::Count { min: 0, max: 10_000, unit: "files" }, None,
        "Maximum number of files in a form; more get 413.";
    form_fields_max: usize = "1000", Kind::Count { min: 0, max: 100_000, unit: "fields" }, None,
        "Maximum number of fields without files in a multipart/form-data body; more get 413.";
    upload_directory: Option<PathBuf> = "", Kind::Path, None,
        "Directory of temporary files for uploads and large bodies, which are removed after their request.\n\
         Empty: TMPDIR, or /tmp.";
    upload_directory_bytes_max: u64 = "1073741824", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "Maximum size of all temporary files of a worker for uploads and large bodies.\n\
         A request whose body finds no room gets 507.";
    upload_directory_files_max: usize = "1000", Kind::Count { min: 0, max: 1_000_000, unit: "files" }, None,
        "Maximum number of these files.";
    response_spool_bytes_max: u64 = "536870912", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "Bytes of PHP-FPM's responses that a worker stores in unnamed files of upload_directory for slow clients, after 256 KiB in memory for each and 16 MiB for all.\n\
         Where the file system can punch holes, bytes that the client has read no longer count.\n\
         A response without room is read at its client's pace, and occupies its PHP-FPM process.";
    response_spool_address_bytes_max: u64 = "134217728", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "Of those, bytes for clients of one address (for IPv6, one /64 network).\n\
         Behind a proxy outside trusted_proxies, all clients have the proxy's address.";
    response_waits_per_address_max: usize = "2", Kind::Count { min: 1, max: 65_536, unit: "responses" }, None,
        "Responses of PHP-FPM of one client address that may lack room, per worker.\n\
         With one more, the response whose client has read nothing for the longest time, and for at least two seconds, is cut off.";
    header_timeout_ms: u64 = "10000", Kind::Milliseconds { min: 1, max: HOUR },
        Some("Limits headerTimeoutMs"),
        "Time from a new connection, or the first byte of a later request, to the end of the headers; then 408.";
    body_timeout_ms: u64 = "30000", Kind::Milliseconds { min: 1, max: HOUR },
        Some("Limits bodyTimeoutMs"),
        "Time from the end of a request's headers to the end of its body; then 408.";
    idle_timeout_ms: u64 = "75000", Kind::Milliseconds { min: 1, max: HOUR },
        Some("Limits idleTimeoutMs"),
        "Time that a connection may stay open without a request; held clients are not idle.";
    write_timeout_ms: u64 = "30000", Kind::Milliseconds { min: 1, max: HOUR },
        Some("Limits writeTimeoutMs"),
        "Time for which a client may read nothing, or less than write_rate_min allows, while bytes wait for it in the server or the kernel; then the connection is closed.\n\
         Bytes in the kernel count for TCP only (TCP_USER_TIMEOUT), which also detects clients without a network.";
    write_rate_min: usize = "4096", Kind::Bytes { min: 0, max: GIB }, None,
        "Bytes per second that a client must read while more than 64 KiB are buffered for it, as a mean over write_timeout_ms.\n\
         0: any byte within write_timeout_ms suffices.";
    drain_timeout_ms: u64 = "10000", Kind::Milliseconds { min: 0, max: HOUR },
        Some("Limits drainTimeoutMs"),
        "Time in which a stopping server lets open requests and held clients finish; then it closes their connections.";
    retry_ms: u64 = "1000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Reconnection delay that a stopping server sends to its SSE clients.";
    queue_bytes_max: usize = "1048576", Kind::Bytes { min: 4 * KIB, max: GIB },
        Some("Limits queueBytes"),
        "Unsent bytes of a connection above which the server stops reading from it.";
    buffered_bytes_max: usize = "134217728", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "Maximum number of bytes that a worker buffers for all clients: unread output, and incomplete bodies and messages.\n\
         Over the limit, the clients with the largest and oldest bytes are closed. 0: no limit.";
    buffered_per_address_bytes_max: usize = "67108864", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "Of those, bytes for the clients of one address (for IPv6, one /64 network).\n\
         Over the limit, the clients of that address with the largest and oldest bytes are closed. Addresses in trusted_proxies have no such limit. 0: no limit.\n\
         One response of the address, the largest that its client reads, does not count.";
    buffered_per_connection_bytes_max: usize = "16777216", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "Of those, bytes of one HTTP/2 connection above which its next requests wait until the client has read.\n\
         Over HTTP/1 and for WebSockets, queue_bytes_max and websocket_queue_bytes_max apply. 0: no limit.";
    streams_max: usize = "1000", Kind::Count { min: 0, max: 1_000_000, unit: "streams" }, None,
        "Maximum number of concurrent Response::stream() responses per worker; one more gets 503.";
    compression: String = "on", Kind::Choice(&["on", "off"]), None,
        "Compresses text for clients that accept br, zstd or gzip.\n\
         Responses with Content-Encoding or Cache-Control: no-transform, and streams, are not compressed. Precompressed siblings of files are sent in any case.";
    compression_bytes_min: usize = "1024", Kind::Bytes { min: 64, max: GIB }, None,
        "Smallest body that is compressed.";
    compression_bytes_max: usize = "524288", Kind::Bytes { min: 64, max: GIB }, None,
        "Largest body or file that is compressed.\n\
         A worker serves no other client while it compresses: about 10 ms for 512 KiB.";
    compression_cache_bytes_max: usize = "4194304", Kind::Bytes { min: 0, max: GIB }, None,
        "Bytes of compressed files that each worker caches.";
    keep_alive_ms: u64 = "25000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Silence on a held SSE connection before which a comment is sent, so that proxies keep it open.\n\
         Comments to clients that connected together are spread. 0: none. Hold::keepAlive() sets it for one client, in seconds.";
    websocket_message_bytes_max: usize = "1048576", Kind::Bytes { min: 1, max: GIB }, None,
        "Maximum size of a WebSocket message, over all frames and after decompression; a larger one closes with 1009.\n\
         WebSocket\\Options sets it for one route.";
    websocket_frame_bytes_max: usize = "0", Kind::Bytes { min: 0, max: GIB }, None,
        "Maximum size of one WebSocket frame; a larger one closes with 1009.\n\
         0: as websocket_message_bytes_max. WebSocket\\Options sets it for one route.";
    websocket_queue_bytes_max: usize = "1048576", Kind::Bytes { min: 4 * KIB, max: GIB }, None,
        "Bytes that may wait for a WebSocket client; a single message may be larger.\n\
         Above half of it nothing is read from the client, and the route's queue policy applies to a message that does not fit. WebSocket\\Options sets it for one route.";
    websocket_ping_interval_ms: u64 = "25000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Silence of a WebSocket client before it is sent a ping; pings are spread over the second half.\n\
         0: none. WebSocket\\Options sets it for one route.";
    websocket_pong_timeout_ms: u64 = "20000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Time for which a WebSocket client may stay silent after a ping; then the connection is closed, with code 1006 for the handler.\n\
         0: forever. WebSocket\\Options sets it for one route.";
    websocket_idle_timeout_ms: u64 = "0", Kind::Milliseconds { min: 0, max: 24 * HOUR }, None,
        "Time for which a WebSocket may be open without a message of the client, not counting pings and pongs; then it is closed with 1001.\n\
         0: forever. WebSocket\\Options sets it for one route.";
    websocket_close_timeout_ms: u64 = "5000", Kind::Milliseconds { min: 1, max: HOUR }, None,
        "Time in which a WebSocket client must answer a close frame; then the connection is closed, with code 1006 for the handler.";
    channels_per_hold_max: usize = "32", Kind::Count { min: 1, max: 1_024, unit: "channels" }, None,
        "Maximum number of channels of one held client or WebSocket.";
    event_bytes_max: usize = "65536", Kind::Bytes { min: 64, max: 16 * MIB },
        Some("Limits eventBytes"),
        "Maximum size of a published event, name and data together; a larger one throws MisuseError.";
    channel_log_bytes_max: usize = "262144", Kind::Bytes { min: KIB, max: GIB }, None,
        "Encoded bytes per channel and wire format that a worker keeps for clients that have not read them.\n\
         The slow policy of its hold applies to a client that falls further behind.";
    gather_ms_max: u64 = "0", Kind::Milliseconds { min: 0, max: SECOND }, None,
        "Longest time that messages wait for more after a message to very many clients, to reach each client in one write.\n\
         The time grows by 1 ms per 64 clients; a message that comes alone never waits. 0: no wait, which takes far more CPU for messages in quick succession.";
    history_count_max: usize = "1000", Kind::Count { min: 1, max: 1_000_000, unit: "events" },
        Some("History count"),
        "Number of events of a channel that can be replayed.";
    history_age_ms_max: u64 = "86400000", Kind::Milliseconds { min: 1, max: 366 * 24 * HOUR },
        Some("History ageMs"),
        "Age after which an event is no longer replayed.";
    history_bytes_max: usize = "16777216", Kind::Bytes { min: 64 * KIB, max: 8 * GIB },
        Some("History bytes"),
        "Size of the ring in shared memory that stores the events of all channels, rounded up to a power of two.\n\
         New events replace the oldest.";
    history_path: Option<PathBuf> = "", Kind::Path, Some("History path"),
        "File that stores the ring, so that history survives a restart; 51 MiB larger than history_bytes_max with the default settings.\n\
         A damaged file is moved aside; a file of another kind stops the start and stays unchanged. Empty: memory.";
    fibers_max: usize = "2048", Kind::Count { min: 2, max: 30_000, unit: "fibers" }, None,
        "Handlers and tasks per worker that may wait at the same time, plus one.\n\
         When all wait, new requests and messages wait, too.\n\
         Each takes two memory maps of the kernel's vm.max_map_count, and about 25 KB once used.";
    handlers_max: usize = "0", Kind::Count { min: 0, max: 30_000, unit: "handlers" }, Some("Limits handlers"),
        "Handlers of requests and WebSocket events per worker that may run or wait at the same time; the next one starts in order of arrival.\n\
         Holds, static files, pieces of streams and tasks do not count.\n\
         1 is for code that stores a request's state in global or static variables. 0: as many as there are fibers.";
    worker_memory_bytes_max: usize = "536870912", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "PHP's memory limit in workers and job processes if memory_limit is -1, as in Debian's php.ini for the command line.\n\
         A handler or job that exceeds it ends in a fatal error, and its process is replaced. 0: no limit.";
    fibers_idle_max: usize = "256", Kind::Count { min: 1, max: 30_000, unit: "fibers" }, None,
        "Idle fibers that a worker keeps for reuse.\n\
         A new one costs about 12 microseconds.";
    fiber_stack_bytes: usize = "2097152", Kind::Bytes { min: 128 * KIB, max: 64 * MIB }, None,
        "Size of a fiber's stack for PHP's internal functions; only used pages take memory.\n\
         Code that nests internal functions deeply (recursion through array_map or __get) needs more.";
    abandoned_query_ms_max: u64 = "5000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Time for which a hooked query of MySQL, PostgreSQL or Redis continues when its client has left, so that its connection stays usable.\n\
         Its handler keeps its fiber. Then the connection is closed, although the database may continue. 0: closed immediately.";
    abandoned_wait_ms_max: u64 = "300000", Kind::Milliseconds { min: 1, max: 24 * HOUR }, None,
        "Time for which a handler may wait inside shield() when its client has left, as all handlers of frameworks do.\n\
         Then the wait throws TimeoutException, and the log has a line.";
    tasks_queue_max: usize = "65536", Kind::Count { min: 1, max: 10_000_000, unit: "tasks" }, None,
        "Maximum number of tasks per worker that async() or defer() accepted and that have not started; one more throws BackpressureException.";
    tasks_per_request_max: usize = "16384", Kind::Count { min: 1, max: 10_000_000, unit: "tasks" }, None,
        "Maximum number of concurrent tasks of one request, including those that its tasks start; one more throws BackpressureException.\n\
         At most half of the free fibers (fibers_max) run tasks of one request, so that other requests are served.";
    shared_wait_timeout_ms: u64 = "30000", Kind::Milliseconds { min: 1, max: HOUR }, None,
        "Time for which a handler or task waits for a hooked connection that another one of its worker uses, or for the lock of a session.\n\
         Then the call throws TimeoutException.";
    callback_wait: String = "hold", Kind::Choice(&["hold", "throw"]), None,
        "What a wait does in a callback of a function that PHP cannot leave half-way, such as json_encode() or mb_ereg_replace_callback().\n\
         hold blocks the worker, with one log line per function; throw throws MisuseError.";
    callback_wait_ms_max: u64 = "5000", Kind::Milliseconds { min: 1, max: HOUR }, None,
        "Total time for which callbacks of one handler or task may block their worker so; then the wait throws MisuseError.";
    sapi_name: String = "", Kind::Text, None,
        "Value of PHP_SAPI and php_sapi_name() in a server and its workers.\n\
         Libraries use it to distinguish pages from a terminal; names other than cli hide the constant STDIN.\n\
         Empty: frankenphp for worker scripts and the bridges for frameworks, cli for other scripts.";
    file_io: String = "auto", Kind::Choice(&["auto", "threads"]), None,
        "Mechanism for file operations (Fermata\\File) that cannot run in the loop.\n\
         auto is io_uring if it is permitted, else threads; one log line says so.";
    file_operations_max: usize = "256", Kind::Count { min: 1, max: 4_096, unit: "operations" }, None,
        "Maximum number of concurrent file operations of a worker; further ones wait.";
    file_queue_max: usize = "4096", Kind::Count { min: 0, max: 1_000_000, unit: "operations" }, None,
        "Maximum number of waiting file operations; one more throws BackpressureException.";
    file_queue_bytes_max: usize = "268435456", Kind::Bytes { min: 64 * KIB, max: 64 * GIB }, None,
        "Bytes that a worker copies for unfinished writes to files; one more write throws BackpressureException, unless it is the only one.";
    file_threads_max: usize = "4", Kind::Count { min: 1, max: 64, unit: "threads" }, None,
        "Threads per worker for file operations that io_uring cannot do.\n\
         Threads start when they are needed.";
    file_inline_bytes_max: usize = "262144", Kind::Bytes { min: 0, max: 16 * MIB }, None,
        "Bytes that one call reads from or writes to the page cache without leaving the loop.\n\
         When writes have waited for the disk for more than 5 ms together, all operations leave the loop for twenty times as long.";
    file_read_bytes_max: usize = "67108864", Kind::Bytes { min: 4 * KIB, max: 64 * GIB }, None,
        "Bytes that File::read() loads into memory at once in a handler or task; a larger file throws FileException.\n\
         Blocks and lines are not limited.";
    members_max: usize = "16384", Kind::Count { min: 1, max: 1_000_000, unit: "users" }, None,
        "Maximum number of users present, counted once per channel over all workers; a user who left counts for leave_delay_ms.";
    members_per_channel_max: usize = "8192", Kind::Count { min: 1, max: 1_000_000, unit: "users" }, None,
        "Of those, users present in one channel.\n\
         Over either limit a hold gets 503, and WebSocket::join() throws BackpressureException.";
    members_per_address_max: usize = "2048", Kind::Count { min: 1, max: 1_000_000, unit: "users" }, None,
        "Of those, users whose first connection came from one client address (for IPv6, one /64 network), over all workers.\n\
         It is refused like the other limits. Behind a proxy outside trusted_proxies, all clients have the proxy's address.";
    leave_delay_ms: u64 = "2000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Time after the loss of a user's last connection until the user counts as gone, so that a page that reloads causes no leave and join.\n\
         A client that unsubscribes, or closes its WebSocket with code 1000 or none, is gone immediately.";
    publish_wait_ms_max: u64 = "1000", Kind::Milliseconds { min: 0, max: 60 * SECOND }, None,
        "Time for which a publish waits for a worker that is a complete ring behind; then it throws BackpressureException.";
    restart_delay_ms_max: u64 = "5000", Kind::Milliseconds { min: 10, max: HOUR }, None,
        "Longest pause before a worker that keeps failing is started again.";
    blocking_call_ms: u64 = "100", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Time for which a handler may block its worker before the log reports it, with the line of PHP.\n\
         0: no report.";
    stall_timeout_ms: u64 = "60000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Time for which a worker may stay inside one handler, or otherwise not respond to its master, before it is killed and replaced.\n\
         Its other clients wait meanwhile, so do long work in another process. 0: never, for debugging.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;

    #[test]
    fn defaults_pass_every_check() {
        assert_eq!(Builder::new().build(), Ok(Settings::default()));
    }

    #[test]
    fn names_are_unique_and_every_row_has_a_sentence() {
        for (index, setting) in table().iter().enumerate() {
            assert_eq!(
                declared().find(setting.name).map(|(at, _)| at),
                Some(index),
                "{}",
                setting.name
            );
            assert!(setting.doc.ends_with('.'), "{}", setting.name);
        }
    }

    #[test]
    fn effective_values_read_back_to_the_same_settings() {
        let settings = Settings {
            workers: 3,
            control: Some("unix:/run/f.sock".to_owned()),
            history_path: Some(PathBuf::from("/var/lib/ring")),
            tls_key: vec![PathBuf::from("/a.pem"), PathBuf::from("b c.pem")],
            log_level: LogLevel::Debug,
            ..Settings::default()
        };
        let mut copy = Settings::default();
        for ((_, text), setting) in effective(&settings).iter().zip(table()) {
            copy.assign(setting, &[text]).expect(setting.name);
        }
        assert_eq!(copy, settings);
    }
}
