//! The table of settings: the one place where a setting is declared.

use std::path::PathBuf;

use crate::declare::{Setting, Table};
use crate::listen::{Access, Listen, Scheme, Transport};
use crate::networks::Networks;
use crate::proxy_headers::ProxyHeaders;
use crate::value::{Kind, LogFormat, LogLevel};
use crate::variables::ENVIRONMENT_PREFIX;

/// Most worker processes: the shared-memory ring keeps one bit per worker in four words.
pub const WORKERS_MAX: u16 = 256;

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl Setting {
    /// The environment variable: `FERMATA_IDLE_TIMEOUT_MS`.
    pub fn environment_name(&self) -> String {
        TABLE.variable(self.name)
    }

    /// The `php.ini` directive: `fermata.idle_timeout_ms`.
    pub fn ini_name(&self) -> String {
        format!("fermata.{}", self.name)
    }
}

/// Every setting, in the order the documentation shows them.
pub fn table() -> &'static [Setting] {
    TABLE.rows
}

/// The same with what errors need.
pub(crate) fn declared() -> &'static Table<Option<&'static str>> {
    &TABLE
}

/// Every setting's name and its present value, in the order of the table.
pub fn effective(settings: &Settings) -> Vec<(&'static str, String)> {
    table()
        .iter()
        .map(|setting| (setting.name, settings.text(setting.name)))
        .collect()
}

impl Settings {
    /// The parts of `listen`, at least one.
    pub fn listen_addresses(&self) -> Vec<Listen> {
        // A caller may have filled the public field by hand; the default is then the safe answer.
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

    /// Whether TLS is spoken at any address.
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
        "Addresses the server binds, with commas between them; every worker listens at all of them.\n\
         An https address speaks TLS and needs tls_certificate or tls_development.\n\
         Port 0 takes any free port.\n\
         unix:/path.sock is a Unix socket; ?mode=660&user=NAME&group=NAME behind it say who may connect. systemd or systemd:NAME are the sockets that systemd passes, https+systemd:NAME those with TLS.\n\
         Behind each of them ?proxy_protocol=on (&proxy_protocol=on where a ? stands already) expects connections to begin with a header of the PROXY protocol, version 1 or 2, from proxies of trusted_proxies alone.\n\
         The environment variable PORT replaces the port of the first address alone.";
    listen_unix_mode: String = "0660", Kind::Choice(&["0600", "0660", "0666"]), None,
        "Permissions of Unix sockets in listen: the owner alone, its group as well, everybody.";
    tls_certificate: Vec<PathBuf> = "", Kind::Paths, Some("Tls certificate"),
        "PEM files with the certificate chains for https addresses, the server's own certificate first in each.\n\
         A folder stands for all files NAME.crt in it, with their keys in NAME.key of the same folder in tls_key; default*.crt comes first.\n\
         A client gets the one for the name it asks for; the first serves those that ask for none or an unknown one.\n\
         SIGHUP to the master reads them again.";
    tls_key: Vec<PathBuf> = "", Kind::Paths, Some("Tls key"),
        "PEM files with the private keys of tls_certificate, in the same order.";
    tls_development: String = "off", Kind::Choice(&["off", "on"]), Some("Tls development"),
        "Make a certificate for localhost when tls_certificate is empty, and keep it in ~/.local/share/fermata.\n\
         For development: only those who trust its authority on this machine accept it.";
    tls_version_min: String = "1.2", Kind::Choice(&["1.2", "1.3"]), Some("Tls minVersion"),
        "Oldest version of TLS that is spoken.";
    tls_client_ca: Option<PathBuf> = "", Kind::Path, Some("Tls clientCa"),
        "PEM file with the authorities that vouch for clients.\n\
         Empty means that clients are not asked for a certificate.";
    tls_client_required: String = "on", Kind::Choice(&["on", "off"]), Some("Tls clientRequired"),
        "Whether a client without a certificate is turned away when tls_client_ca is set.";
    http2: String = "on", Kind::Choice(&["on", "off"]), None,
        "Whether clients may speak HTTP/2: over TLS by ALPN, in the clear when they know beforehand (h2c).\n\
         HTTP/1.1 is spoken on the same addresses.";
    streams_per_connection_max: u16 = "100", Kind::Count { min: 1, max: 10_000, unit: "streams" }, None,
        "Requests at a time on one connection of HTTP/2; each held client is one.\n\
         A quarter more may be cancelled ones whose handlers have not come to their end. Beyond it streams are refused, and the client tries again.";
    stream_window_bytes: usize = "65535", Kind::Bytes { min: 1024, max: 16 * MIB }, None,
        "Bytes of a request's body over HTTP/2 that a client may send before the server has taken them.";
    connection_window_bytes: usize = "1048576", Kind::Bytes { min: 64 * KIB, max: 256 * MIB }, None,
        "The same for all requests of a connection together.";
    streams_per_address_max: usize = "0", Kind::Count { min: 0, max: 10_000_000, unit: "streams" }, None,
        "Requests at a time over HTTP/2 from one client address, per worker; each held client is one.\n\
         0 means as many as connections_per_address_max, and no limit where that is 0, too.\n\
         Clients are told to have no more on one connection; a request over the limit is answered 429.\n\
         Leave it at 0 behind a proxy, where every client has the proxy's address.";
    http2_resets_per_second_max: usize = "33", Kind::Count { min: 1, max: 100_000, unit: "streams per second" }, None,
        "Streams that a client may cancel on one connection of HTTP/2, and as many that it may have the server reset by its mistakes.\n\
         It is a rate: thirty times as many may come at once.\n\
         A connection over it is closed with ENHANCE_YOUR_CALM, as it is over each of the following.";
    http2_pings_per_second_max: usize = "100", Kind::Count { min: 1, max: 100_000, unit: "frames per second" }, None,
        "PING frames of a connection of HTTP/2, and answers to them.";
    http2_settings_per_second_max: usize = "50", Kind::Count { min: 1, max: 100_000, unit: "frames per second" }, None,
        "SETTINGS frames of a connection of HTTP/2.";
    http2_empty_data_per_second_max: usize = "100", Kind::Count { min: 1, max: 100_000, unit: "frames per second" }, None,
        "DATA frames of a connection of HTTP/2 that hold nothing and do not end their stream.";
    http2_window_updates_per_second_max: usize = "500", Kind::Count { min: 5, max: 100_000, unit: "frames per second" }, None,
        "WINDOW_UPDATE frames of all streams of a connection of HTTP/2, beyond one per 1,024 bytes sent; of those of the connection itself a fifth.\n\
         Twice as many may come at once.";
    http2_priorities_per_second_max: usize = "200", Kind::Count { min: 1, max: 100_000, unit: "frames per second" }, None,
        "PRIORITY and PRIORITY_UPDATE frames of a connection of HTTP/2.\n\
         Twice as many may come at once.";
    http2_unknown_frames_per_second_max: usize = "100", Kind::Count { min: 1, max: 100_000, unit: "frames per second" }, None,
        "Frames of a connection of HTTP/2 whose kind the server does not know, and GOAWAY behind the first.\n\
         Twice as many may come at once.";
    http2_continuations_max: u16 = "20", Kind::Count { min: 1, max: 200, unit: "frames" }, None,
        "CONTINUATION frames of one header block.";
    tls_ticket_period_ms: u64 = "21600000", Kind::Milliseconds { min: 60 * SECOND, max: 7 * 24 * HOUR }, None,
        "Time after which the keys of session tickets change.\n\
         A client that comes back within it skips the costly part of the handshake.";
    workers: u16 = "0", Kind::Count { min: 0, max: WORKERS_MAX as u64, unit: "processes" },
        Some("Server workers"),
        "Worker processes.\n\
         0 starts one per usable core, up to 64.";
    user: Option<String> = "", Kind::Account, None,
        "User that workers and processes for jobs run as when the server is started as root: they change to it when everything is bound and open, before they run a handler.\n\
         The master stays root and runs no handler; what the script does before run() it does as root.\n\
         Empty changes nothing.";
    group: Option<String> = "", Kind::Account, None,
        "Group of those processes beside user.\n\
         Empty means the groups that the user has in /etc/passwd and /etc/group.";
    balance: String = "on", Kind::Choice(&["on", "off"]), None,
        "Whether a connection that stays open after its first answer moves to the worker that has the fewest.\n\
         Without it the kernel spreads connections by a hash, which is uneven while there are few.";
    cluster: Option<String> = "", Kind::LogServers, Some("Server cluster"),
        "Servers of the log that several machines share, NATS with JetStream or Redis: what one machine publishes, clients of all of them get, in one order and under one id.\n\
         nats://HOST:PORT or redis://HOST:PORT, tls://HOST:PORT (NATS) or rediss://HOST:PORT (Redis) over TLS, with nats://USER:PASSWORD@HOST:PORT where there is an account, several with commas between them, or Sentinels: redis+sentinel://HOST:PORT,HOST:PORT/NAME; docs/cluster.md says what is guaranteed.\n\
         Empty keeps channels on this machine.";
    cluster_user: String = "", Kind::Text, None,
        "User at the servers of cluster, for addresses without one.\n\
         Empty: the default user of Redis; for NATS the password is then its token.";
    cluster_password: Option<String> = "", Kind::Secret, None,
        "Password at the servers of cluster, for addresses without one; for FERMATA_CLUSTER_PASSWORD.\n\
         phpinfo() lists all environment variables: cluster_password_file keeps it out of them.";
    cluster_password_file: Option<PathBuf> = "", Kind::Path, None,
        "File with that password, read by the server's user with each new connection; line ends behind it do not count.";
    cluster_credentials: Option<PathBuf> = "", Kind::Path, None,
        "In place of user and password, for NATS alone: the .creds file of a user, or a file with the seed of its nkey (SU…), read by the server's user with each new connection.";
    cluster_ca: Option<PathBuf> = "", Kind::Path, None,
        "PEM file with the authorities that certificates of the servers of cluster may be of, read with each new connection.\n\
         Empty means those that this machine trusts.";
    cluster_certificate: Option<PathBuf> = "", Kind::Path, None,
        "PEM file with the certificate that is shown to the servers of cluster, and what vouches for it; read with each new connection.\n\
         Empty means none.";
    cluster_key: Option<PathBuf> = "", Kind::Path, None,
        "PEM file with the private key of cluster_certificate, read by the server's user.";
    cluster_prefix: String = "fermata", Kind::Label, None,
        "Name of the application in the log: machines with the same prefix share their channels.\n\
         In NATS events are published below this subject and kept in the stream FERMATA_ and the prefix; in Redis keys begin with it, in braces.";
    cluster_replicas: u16 = "1", Kind::Count { min: 1, max: 5, unit: "copies" }, None,
        "On how many servers of NATS the log is kept, when it is not there and is made.\n\
         3 survives the loss of one server; a single server can have 1 only.";
    cluster_bytes_max: u64 = "1g", Kind::Bytes { min: MIB, max: 1024 * GIB }, None,
        "Size of the log in NATS, when it is not there and is made; what is older than history_age_ms_max, or does not fit, is removed.";
    cluster_events_max: u64 = "100000", Kind::Count { min: 1000, max: 1_000_000_000, unit: "events" }, None,
        "How many events the log keeps in Redis, which cannot bound it by bytes.";
    cluster_lease_ms: u64 = "10000", Kind::Milliseconds { min: 1000, max: HOUR }, None,
        "How long a machine of the cluster may show no sign of life before the users that are present on it have left.\n\
         All machines need the same.";
    control: Option<String> = "", Kind::Control, Some("Server control"),
        "Unix socket on which other processes publish.\n\
         Empty means none.\n\
         The socket has mode 0600, so only the server's own user can publish.";
    test_clock: String = "off", Kind::Choice(&["off", "on"]), None,
        "Whether a test may set the clock of the server forward, by POST /clock on the control socket: for tests of what waits, with one worker.\n\
         Timers, time limits and ages of what is kept go by it; PHP's own time() and microtime() do not.";
    trusted_proxies: Networks = "", Kind::Networks, Some("Server trustedProxies"),
        "Proxies in front who tell by headers who a client is; proxy_headers names the headers.\n\
         unix stands for all peers on Unix sockets.\n\
         Empty believes nobody: the headers are there to read, and change nothing.";
    proxy_headers: ProxyHeaders = "x-forwarded-for,x-forwarded-proto", Kind::ProxyHeaders, Some("Server proxyHeaders"),
        "Headers that the proxies of trusted_proxies write, with commas between them: forwarded, or some of x-forwarded-for, x-forwarded-proto and x-forwarded-host.\n\
         No other is believed, since a proxy passes on what clients send in a header that it does not write.\n\
         Where Forwarded and an X-Forwarded header come together, and the proxies write one kind only, neither is believed: the client is then the proxy. Such requests are counted, and the log says so.";
    grip_url: Option<String> = "", Kind::Edges, Some("Server gripUrl"),
        "GRIP edges in front (`fermata edge`, Pushpin): the URLs of their control ports, with blanks between them.\n\
         Requests that an edge has signed with the URL's key get a Hold as GRIP headers, so that the edge holds the client; what is published is told to every edge as well.\n\
         http://HOST:PORT?key=SECRET, or with verify-key and verify-iss where requests are signed with another key, as GRIP libraries have it; a key is a text, base64:… or file:PATH.\n\
         The environment variable GRIP_URL is taken where nothing else gives a value; addresses for other publishers in it (tcp:, ipc:, unix:) are left out.\n\
         Empty means none.";
    grip_link_timeout_ms: u64 = "120000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Silence after which an edge asks whether a client that it holds has missed something; it also asks whenever the ids of events show so.\n\
         0 gives edges neither ids nor a link: clients cost them less, and what gets lost on the way is found only when a client comes back.";
    grip_publish_timeout_ms: u64 = "5000", Kind::Milliseconds { min: 100, max: HOUR }, None,
        "Time that an edge has to take what is published.\n\
         After it the same is tried again, and what is published meanwhile waits in the ring.";
    io: String = "auto", Kind::Choice(&["auto", "epoll", "io_uring"]), None,
        "Kernel interface of the event loop; docs/io.md compares them.\n\
         auto takes what has measured better for most servers, which is epoll.\n\
         Where io_uring is asked for and forbidden, one log line says why and epoll is used.";
    log_format: LogFormat = "text", Kind::Choice(&["text", "json"]), Some("Log format"),
        "Form of the log lines on standard error: words for people or one JSON object per line.";
    log_level: LogLevel = "info", Kind::Choice(&["error", "warning", "info", "debug"]),
        Some("Log level"),
        "Least severe line that is still written.";
    access_log: Option<PathBuf> = "", Kind::Path, Some("AccessLog path"),
        "File that gets a line for every request, or stderr or stdout.\n\
         Empty writes none.\n\
         SIGUSR1 or SIGHUP to the master opens the file anew after it was moved away.";
    access_log_format: String = "combined", Kind::Choice(&["common", "combined", "json"]),
        Some("AccessLog format"),
        "Form of those lines.";
    access_log_query: String = "off", Kind::Choice(&["off", "on"]), Some("AccessLog query"),
        "Whether the lines contain what follows the ? of targets and referers, which often holds secrets.";
    access_log_buffer_bytes_max: usize = "262144", Kind::Bytes { min: 64 * KIB, max: GIB }, None,
        "Bytes of lines per worker that may wait for a disk or reader that does not take them.\n\
         Lines over the limit are left out and counted; no request ever waits for its line.";
    metrics_listen: Option<String> = "", Kind::Address, Some("Server metrics"),
        "Address that answers GET /metrics for Prometheus, /health/live and /health/ready.\n\
         Empty means none.\n\
         A client that can connect reads all figures, so keep it away from the public.";
    otlp_endpoint: Option<String> = "", Kind::Url, None,
        "Collector of OpenTelemetry that gets a span for each request, hold and publish, by OTLP over HTTP; docs/traces.md shows one.\n\
         http://HOST:PORT or https://HOST:PORT; a URL without a path gets /v1/traces.\n\
         Empty sends none. OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT is taken where nothing else gives a value.";
    otlp_protocol: String = "http/protobuf", Kind::Choice(&["http/protobuf", "http/json"]), None,
        "How they are written. gRPC is not spoken: a collector takes OTLP over HTTP at another port, 4318 as a rule.\n\
         OTEL_EXPORTER_OTLP_TRACES_PROTOCOL or OTEL_EXPORTER_OTLP_PROTOCOL is taken where nothing else gives a value.";
    otlp_headers: Option<String> = "", Kind::Pairs, None,
        "Headers of what is sent there, such as api-key=SECRET: name=value with commas between them, values percent-encoded.\n\
         OTEL_EXPORTER_OTLP_TRACES_HEADERS or OTEL_EXPORTER_OTLP_HEADERS is taken where nothing else gives a value.";
    otlp_service_name: String = "fermata", Kind::Text, None,
        "The service that spans belong to (service.name).\n\
         OTEL_SERVICE_NAME is taken where nothing else gives a value.";
    otlp_resource: Option<String> = "", Kind::Pairs, None,
        "What else is said of the service, such as deployment.environment.name=production: name=value with commas between them, values percent-encoded.\n\
         OTEL_RESOURCE_ATTRIBUTES is taken where nothing else gives a value.";
    otlp_sampler: String = "parentbased_traceidratio", Kind::Choice(&[
        "parentbased_traceidratio", "parentbased_always_on", "parentbased_always_off", "traceidratio", "always_on", "always_off",
    ]), None,
        "Which requests get spans: with parentbased_, those whose traceparent says that their sender records them, and of requests without one the part that the rest of the word says.\n\
         OTEL_TRACES_SAMPLER is taken where nothing else gives a value.";
    otlp_sampling_ratio: String = "1", Kind::Ratio, None,
        "The part of traceidratio: 0.01 records one trace of a hundred.\n\
         OTEL_TRACES_SAMPLER_ARG is taken where nothing else gives a value.";
    otlp_timeout_ms: u64 = "10000", Kind::Milliseconds { min: 100, max: HOUR }, None,
        "Time that the collector has to take what is sent, which is then sent again.\n\
         OTEL_EXPORTER_OTLP_TRACES_TIMEOUT or OTEL_EXPORTER_OTLP_TIMEOUT is taken where nothing else gives a value.";
    connections_max: usize = "10000",
        Kind::Count { min: 1, max: 10_000_000, unit: "connections" }, Some("Limits connections"),
        "Open connections per worker, and as many requests at a time over HTTP/2.\n\
         A connection over the limit is answered 503 and closed, and such a request is answered 503.";
    connections_per_address_max: usize = "0",
        Kind::Count { min: 0, max: 10_000_000, unit: "connections" },
        Some("Limits connectionsPerAddress"),
        "Open connections per worker from one client address.\n\
         0 means no limit.\n\
         A connection over the limit is answered 429 and closed.\n\
         Leave it at 0 behind a proxy, where every client has the proxy's address.";
    header_bytes_max: usize = "16384", Kind::Bytes { min: KIB, max: MIB },
        Some("Limits headerBytes"),
        "Bytes of a request's line and headers together.\n\
         A request over the limit is answered 431.";
    headers_count_max: usize = "100", Kind::Count { min: 1, max: 1_000, unit: "lines" }, None,
        "Header lines of a request.\n\
         A request over the limit is answered 431.";
    target_bytes_max: usize = "8192", Kind::Bytes { min: 64, max: 64 * KIB }, None,
        "Bytes of a request's target, the path with the query.\n\
         A request over the limit is answered 414.";
    body_bytes_max: usize = "1048576", Kind::Bytes { min: 0, max: GIB }, Some("Limits bodyBytes"),
        "Bytes of a request's body.\n\
         A request over the limit is answered 413.";
    body_memory_bytes_max: usize = "1048576", Kind::Bytes { min: 4 * KIB, max: GIB }, None,
        "Bytes of a body that are kept in memory.\n\
         A larger one, where body_bytes_max or the route allows it, goes to a temporary file while it arrives.\n\
         The fields of a form with files may have as many bytes together.";
    body_piece_bytes_max: usize = "65536", Kind::Bytes { min: KIB, max: 64 * KIB }, None,
        "Bytes that are read ahead of a body that its handler reads while it arrives (streamBody at a route).\n\
         The client waits while the handler does not read.";
    body_rate_min: usize = "16384", Kind::Bytes { min: 0, max: GIB }, None,
        "Bytes per second at which a body may arrive for longer than body_timeout_ms.\n\
         0 allows no body to take longer.";
    multipart_bytes_max: usize = "67108864", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "Bytes of a multipart/form-data body, with all its files.\n\
         A request over the limit is answered 413.\n\
         A route's bodyBytes replaces it.";
    upload_bytes_max: usize = "16777216", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "Bytes of one file in a form.\n\
         A request over the limit is answered 413.\n\
         A route's bodyBytes replaces it.";
    uploads_max: usize = "20", Kind::Count { min: 0, max: 10_000, unit: "files" }, None,
        "Files in a form.\n\
         A request over the limit is answered 413.";
    form_fields_max: usize = "1000", Kind::Count { min: 0, max: 100_000, unit: "fields" }, None,
        "Fields in a multipart/form-data body, without the files.\n\
         A request over the limit is answered 413.";
    upload_directory: Option<PathBuf> = "", Kind::Path, None,
        "Directory of temporary files for uploads and large bodies.\n\
         Empty means TMPDIR, or /tmp.\n\
         The files are removed when their request is over.";
    header_timeout_ms: u64 = "10000", Kind::Milliseconds { min: 1, max: HOUR },
        Some("Limits headerTimeoutMs"),
        "Time from a new connection, or a later request's first byte, to the end of the request's headers.\n\
         After it the request is answered 408.";
    body_timeout_ms: u64 = "30000", Kind::Milliseconds { min: 1, max: HOUR },
        Some("Limits bodyTimeoutMs"),
        "Time from the end of a request's headers to the end of its body.\n\
         After it the request is answered 408.";
    idle_timeout_ms: u64 = "75000", Kind::Milliseconds { min: 1, max: HOUR },
        Some("Limits idleTimeoutMs"),
        "Time a connection may stay open without a request.\n\
         After it the connection is closed; held clients are not idle.";
    write_timeout_ms: u64 = "30000", Kind::Milliseconds { min: 1, max: HOUR },
        Some("Limits writeTimeoutMs"),
        "Time a client may take no byte while some wait for it, in the server or in its kernel.\n\
         After it the connection is closed.\n\
         Bytes in the kernel count for TCP alone (TCP_USER_TIMEOUT); a client that has lost its network is noticed by them.";
    drain_timeout_ms: u64 = "10000", Kind::Milliseconds { min: 0, max: HOUR },
        Some("Limits drainTimeoutMs"),
        "Time a stopping server gives its open requests and held clients to end.\n\
         After it their connections are closed.";
    retry_ms: u64 = "1000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Delay before reconnecting that a stopping server tells its SSE clients.";
    queue_bytes_max: usize = "1048576", Kind::Bytes { min: 4 * KIB, max: GIB },
        Some("Limits queueBytes"),
        "Unsent bytes that a connection may have queued before the server stops reading from it.";
    streams_max: usize = "1000", Kind::Count { min: 0, max: 1_000_000, unit: "streams" }, None,
        "Responses per worker that are made by Response::stream() at a time.\n\
         A request over the limit is answered 503.";
    compression: String = "on", Kind::Choice(&["on", "off"]), None,
        "Whether text is compressed on its way out, for clients that accept br, zstd or gzip.\n\
         A response with Content-Encoding or Cache-Control: no-transform, and one that streams, stays as it is.\n\
         Files that lie compressed beside the original are sent in any case.";
    compression_bytes_min: usize = "1024", Kind::Bytes { min: 64, max: GIB }, None,
        "Bytes below which a body is not worth compressing.";
    compression_bytes_max: usize = "524288", Kind::Bytes { min: 64, max: GIB }, None,
        "Bytes above which a body or file is sent as it is.\n\
         A worker serves nobody else while it compresses: about 10 ms for each 512 KiB.";
    compression_cache_bytes_max: usize = "4194304", Kind::Bytes { min: 0, max: GIB }, None,
        "Bytes of compressed files that each worker keeps, so that a file is compressed once.";
    keep_alive_ms: u64 = "25000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Longest silence on a held SSE connection: a comment is sent before, so that proxies keep it open.\n\
         Clients get their comments at different times, however many come at once.\n\
         0 turns the comments off.\n\
         Hold::keepAlive() sets it for one client, in seconds.";
    websocket_message_bytes_max: usize = "1048576", Kind::Bytes { min: 1, max: GIB }, None,
        "Bytes of a WebSocket message, over all its frames and after decompression.\n\
         A larger one ends the connection with close code 1009.\n\
         WebSocket\\Options sets it for one route.";
    websocket_frame_bytes_max: usize = "0", Kind::Bytes { min: 0, max: GIB }, None,
        "Bytes of one WebSocket frame.\n\
         0 allows as many as a message may have.\n\
         A larger one ends the connection with close code 1009.\n\
         WebSocket\\Options sets it for one route.";
    websocket_queue_bytes_max: usize = "1048576", Kind::Bytes { min: 4 * KIB, max: GIB }, None,
        "Bytes that may wait for a WebSocket client; one message alone may be larger.\n\
         From half of it on nothing is read from the client, and a message that does not fit meets the route's queue policy.\n\
         WebSocket\\Options sets it for one route.";
    websocket_ping_interval_ms: u64 = "25000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Longest silence of a WebSocket client before it is sent a ping; each client is asked at a moment of its own in the second half of it.\n\
         0 sends none.\n\
         WebSocket\\Options sets it for one route.";
    websocket_pong_timeout_ms: u64 = "20000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Time a WebSocket client may stay silent after a ping.\n\
         After it the connection is cut off, which counts as close code 1006.\n\
         0 waits for ever.\n\
         WebSocket\\Options sets it for one route.";
    websocket_idle_timeout_ms: u64 = "0", Kind::Milliseconds { min: 0, max: 24 * HOUR }, None,
        "Time a WebSocket may be open without a message from the client; pings and pongs are none.\n\
         After it the connection is closed with code 1001.\n\
         0 means for ever.\n\
         WebSocket\\Options sets it for one route.";
    websocket_close_timeout_ms: u64 = "5000", Kind::Milliseconds { min: 1, max: HOUR }, None,
        "Time a WebSocket client has to answer a close frame.\n\
         After it the connection is cut off, which counts as close code 1006.";
    channels_per_hold_max: usize = "32", Kind::Count { min: 1, max: 1_024, unit: "channels" }, None,
        "Channels that one held client or WebSocket may subscribe to.";
    event_bytes_max: usize = "65536", Kind::Bytes { min: 64, max: 16 * MIB },
        Some("Limits eventBytes"),
        "Bytes of a published event, name and data together.\n\
         A larger one is refused with MisuseError.";
    channel_log_bytes_max: usize = "262144", Kind::Bytes { min: KIB, max: GIB }, None,
        "Encoded bytes per channel and wire format that a worker keeps for clients that have not taken them.\n\
         A client that falls further behind meets the slow policy of its hold.";
    gather_ms_max: u64 = "0", Kind::Milliseconds { min: 0, max: SECOND }, None,
        "Longest time for which messages wait for more after a message to very many clients, to reach each of them together.\n\
         The time grows with the clients, 1 ms for 64 of them; a message that comes alone never waits.\n\
         0 sends each message at once, which takes many times the processor time when they come back to back.";
    history_count_max: usize = "1000", Kind::Count { min: 1, max: 1_000_000, unit: "events" },
        Some("History count"),
        "Events of a channel that a reconnecting client can be sent again.";
    history_age_ms_max: u64 = "86400000", Kind::Milliseconds { min: 1, max: 366 * 24 * HOUR },
        Some("History ageMs"),
        "Age after which an event is no longer sent again.";
    history_bytes_max: usize = "16777216", Kind::Bytes { min: 64 * KIB, max: 8 * GIB },
        Some("History bytes"),
        "Size of the ring in shared memory that holds the events of all channels, rounded up to a power of two.\n\
         The oldest events make room for new ones.";
    history_path: Option<PathBuf> = "", Kind::Path, Some("History path"),
        "File that holds the ring, so that history survives a restart; 51 MiB larger than history_bytes_max with the default settings.\n\
         A damaged one is moved aside; one that is no history file stops the start and stays as it is.\n\
         Empty keeps it in memory.";
    fibers_max: usize = "2048", Kind::Count { min: 2, max: 30_000, unit: "fibers" }, None,
        "Handlers and tasks per worker that may wait at the same time, plus one.\n\
         When all wait, new requests and messages wait for a free one.\n\
         Each takes two memory maps of the kernel's vm.max_map_count, and about 25 KB once it was used.";
    handlers_max: usize = "0", Kind::Count { min: 0, max: 30_000, unit: "handlers" }, Some("Limits handlers"),
        "Handlers of requests and of WebSockets' events per worker that may be under way at a time; the next waits until one has ended, in the order of arrival.\n\
         Holds, static files, pieces of streams and tasks go on beside them.\n\
         1 is the mode for code that keeps the state of a request in global or static variables.\n\
         0 means as many as there are fibers.";
    worker_memory_bytes_max: usize = "536870912", Kind::Bytes { min: 0, max: 1024 * GIB }, None,
        "PHP's memory limit in workers and processes for jobs where memory_limit is -1, as it is in Debian's php.ini for the command line.\n\
         A handler or job that needs more ends in a fatal error, and its process is replaced.\n\
         0 leaves PHP without a limit.";
    fibers_idle_max: usize = "256", Kind::Count { min: 1, max: 30_000, unit: "fibers" }, None,
        "Fibers that a worker keeps for reuse when they have nothing to do.\n\
         A new one costs about 12 microseconds.";
    fiber_stack_bytes: usize = "2097152", Kind::Bytes { min: 128 * KIB, max: 64 * MIB }, None,
        "Size of a fiber's stack for PHP's internal functions, of which only used pages take memory.\n\
         Code that nests internal functions deeply (recursion through array_map or __get) needs it.";
    abandoned_query_ms_max: u64 = "5000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "How long a hooked query of MySQL, PostgreSQL or Redis goes on whose client has left, so that its connection stays usable.\n\
         Its handler keeps its fiber meanwhile; later the connection is closed, though the database may go on. 0 closes it at once.";
    tasks_queue_max: usize = "65536", Kind::Count { min: 1, max: 10_000_000, unit: "tasks" }, None,
        "Tasks per worker that async() or defer() has accepted and that have not begun.\n\
         One more is refused with BackpressureException.";
    shared_wait_timeout_ms: u64 = "30000", Kind::Milliseconds { min: 1, max: HOUR }, None,
        "Time that a handler or task waits for a connection that another one of its worker uses, under hooks.\n\
         After it the call is refused with TimeoutException.";
    file_io: String = "auto", Kind::Choice(&["auto", "threads"]), None,
        "What does the work on files (Fermata\\File) that cannot be done in the loop.\n\
         auto is io_uring where it is allowed, and threads elsewhere; one log line says so.";
    file_operations_max: usize = "256", Kind::Count { min: 1, max: 4_096, unit: "operations" }, None,
        "Operations on files that a worker has under way at a time.\n\
         More of them wait for their turn.";
    file_queue_max: usize = "4096", Kind::Count { min: 0, max: 1_000_000, unit: "operations" }, None,
        "Operations on files that wait for their turn, or for another operation on the same file.\n\
         One more is refused with BackpressureException.";
    file_queue_bytes_max: usize = "268435456", Kind::Bytes { min: 64 * KIB, max: 64 * GIB }, None,
        "Bytes that a worker copies for writes to files that have not ended, whoever still waits for them.\n\
         One more write is refused with BackpressureException, unless it is alone.";
    file_threads_max: usize = "4", Kind::Count { min: 1, max: 64, unit: "threads" }, None,
        "Threads per worker for work on files, where io_uring is not available or has no such operation.\n\
         None is started before there is work for it.";
    file_inline_bytes_max: usize = "262144", Kind::Bytes { min: 0, max: 16 * MIB }, None,
        "Bytes that one call reads from the page cache or writes into it without leaving the loop.\n\
         Writes that had to wait for the disk for more than 5 ms together have all given away for twenty times as long.";
    file_read_bytes_max: usize = "67108864", Kind::Bytes { min: 4 * KIB, max: 64 * GIB }, None,
        "Bytes that File::read() takes into memory at once in a handler or task.\n\
         A larger file is refused with FileException; blocks and lines have no such bound.";
    members_max: usize = "16384", Kind::Count { min: 1, max: 1_000_000, unit: "users" }, None,
        "Users present, counted once per channel over all workers; one that has left counts for leave_delay_ms.";
    members_per_channel_max: usize = "8192", Kind::Count { min: 1, max: 1_000_000, unit: "users" }, None,
        "Of those, users present in one channel, so that a crowd in one leaves room for the users of all others.\n\
         A hold over either limit is answered with 503; WebSocket::join() throws BackpressureException.";
    members_per_address_max: usize = "2048", Kind::Count { min: 1, max: 1_000_000, unit: "users" }, None,
        "Of those, users whose first connection came from one client address (of IPv6, one network of 64 bits), over all workers.\n\
         So one client with many names leaves room for all others; it is refused like those over the other limits.\n\
         Behind a proxy that trusted_proxies does not name, all clients have the proxy's address.";
    leave_delay_ms: u64 = "2000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Time after a user's last connection before the user counts as gone.\n\
         A page that reloads within it causes no leave and no join.";
    publish_wait_ms_max: u64 = "1000", Kind::Milliseconds { min: 0, max: 60 * SECOND }, None,
        "Time a publish waits for a worker that has fallen a whole ring behind.\n\
         After it the publish is refused with BackpressureException.";
    restart_delay_ms_max: u64 = "5000", Kind::Milliseconds { min: 10, max: HOUR }, None,
        "Longest pause before a worker that keeps dying is started again.";
    blocking_call_ms: u64 = "100", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Time a handler may hold its worker's loop before the log says so, with the line of PHP it was in.\n\
         0 turns the report off.";
    stall_timeout_ms: u64 = "60000", Kind::Milliseconds { min: 0, max: HOUR }, None,
        "Time a worker may stay inside one handler, or otherwise not answer its master, before it is killed and replaced.\n\
         Its other clients hang meanwhile, so long work belongs into another process.\n\
         0 never kills; use it while a debugger stops workers.";
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
