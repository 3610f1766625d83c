//! Starts the edge: from settings to running workers.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;

use fermata_config::{Listen, Program, Source as SettingSource, check_addresses, problem};
use fermata_engine::websocket::{Callbacks, Compression, OriginPolicy, Route};
use fermata_engine::{BodyLimits, BodyPace, OpenPost, Server, Started, bind_unix};
use fermata_io::net;

use crate::client::source::{Engine, HANDLER_CLIENTS, HANDLER_CONTROL, HANDLER_WORKERS};
use crate::error::StartError;
use crate::prepared::{Control, Keys, Prepared, check_file, url};
use crate::publish::port::Port;
use crate::publish::{ports, publishers, stream};
use crate::pushpin::rendezvous::SocketFile;
use crate::pushpin::services::Addresses;
use crate::pushpin::{services, sockjs, stats};
use crate::routes::figures::RouteFigures;
use crate::routes::file::{RoutesFile, Stamp};
use crate::routes::unserved::Parts;
use crate::routes::{Problem, Routes, unserved};
use crate::server::edge::Edge;
use crate::server::figures;
use crate::server::figures::prometheus_address;
use crate::settings::Settings;
use crate::upstream::authority::Authority;
use crate::upstream::route_keys::RouteKeys;
use crate::upstream::targets::Targets;

/// Backlog of the control port, in connections.
const BACKLOG: i32 = 1024;

/// Maximum message size of a client's WebSocket.
const MESSAGE_BYTES_MAX: u64 = 1024 * 1024;

/// Maximum bytes queued at the WebSocket of a SockJS session. A single message may be larger.
const SESSION_QUEUE_BYTES_MAX: u64 = 64 * 1024;

/// Maximum time in milliseconds for which items that follow one to many clients are batched. Pushpin always batches for 25 ms.
const GATHER_MS_MAX: u64 = 20;

/// The engine's limit for stored bodies; bodies of clients are forwarded.
const STORED_BYTES_MAX: u64 = 1 << 30;

/// Default prefix of the edges' data in the cluster's log; FERMATA_CLUSTER_PREFIX sets another.
const CLUSTER_PREFIX: &str = "fermata_edge";

/// Runs the edge until it stops, and returns the exit status. File names in settings are relative to `directory`;
/// `open_post` opens the HTTP client that posts spans to their collector.
///
/// # Errors
/// The edge cannot start; the error names cause and fix.
pub fn run(settings: Settings, directory: &Path, open_post: OpenPost) -> Result<i32, StartError> {
    fermata_io::descriptors::leave_none();
    let mut server = Server::new();
    server.set_reader(Program::Edge);
    server.set_post(open_post);
    server.deliver_names_once(settings.id_cache_ttl_ms);
    let prepared = prepare(&mut server, settings, directory)?;
    let started = server.start().map_err(|error| match error {
        // The edge has another name for that setting.
        fermata_engine::StartError::Metrics { address, cause } => {
            StartError::Setting(format!("prometheus: cannot listen on {address}: {cause}"))
        }
        error => error.into(),
    });
    match started? {
        Started::Ended { exit_code, .. } => Ok(exit_code),
        // The edge starts no companion processes.
        Started::Companion(_) => Ok(0),
        Started::Worker(worker) => serve(worker, &prepared),
    }
}

/// Runs the part of the start that happens in the master, before it forks workers and changes its user.
fn prepare(
    server: &mut Server,
    settings: Settings,
    directory: &Path,
) -> Result<Prepared, StartError> {
    configure(server, &settings, directory)?;
    let (routes, routes_file) = read_routes(server, &settings, directory)?;
    for line in &unserved::routes(&routes, Parts::new(&settings)) {
        server.warn(line);
    }
    let mut problems = Authority::new(&settings, directory).problems(&routes);
    let (route_keys, without_key) = RouteKeys::read(&routes, directory.to_owned());
    problems.extend(without_key);
    if routes_file.is_none() && !problems.is_empty() {
        return Err(StartError::Setting(problems.join("\n")));
    }
    for line in &problems {
        server.warn(line);
    }
    let keys = Keys::read(&settings, directory)?;
    let control = match settings.control.as_str() {
        "" => None,
        address => Some(bind(server, address, &settings)?),
    };
    let services = Addresses::new(&settings, &routes);
    let zmq = ports::bind(server, &settings, &services)?;
    if settings.message_rate > 0 {
        server.note(&format!(
            "message_rate: clients of a route get {} messages a second in all, what exceeds message_hwm is dropped; 0 is as fast as they take them",
            settings.message_rate
        ));
    }
    let websocket = take_clients(server, &settings)?;
    let session = Route {
        queue_bytes_max: Some(SESSION_QUEUE_BYTES_MAX),
        ..self::websocket(&settings)
    };
    let session_websocket = server
        .websocket_of_program(session)
        .map_err(|error| StartError::Setting(error.to_string()))?;
    let memory = |what: &'static str| {
        move |error| StartError::Setting(format!("memory for {what}: {error}"))
    };
    Ok(Prepared {
        directory: directory.to_owned(),
        routes,
        routes_file,
        targets: Targets::new(&settings).map_err(memory("the state of targets"))?,
        route_figures: RouteFigures::new(settings.workers).map_err(memory("figures of routes"))?,
        websocket,
        session_websocket,
        port: first_port(&settings),
        control,
        keys,
        route_keys,
        zmq,
        publishers: publishers::read(&settings)?,
        rendezvous: stats::bind(&settings)?,
        questions: services::bind(&settings, &services)?,
        services,
        workers: sockjs::workers::bind(&settings)?,
        settings,
    })
}

/// Routes all requests and WebSockets to the edge. Returns the number of the WebSocket route.
fn take_clients(server: &mut Server, settings: &Settings) -> Result<u16, StartError> {
    server.fallback(HANDLER_CLIENTS, true);
    server.begin_early(HANDLER_CLIENTS);
    server
        .limit_body(HANDLER_CLIENTS, settings.body_bytes_max)
        .map_err(|error| StartError::Setting(format!("body_bytes_max: {error}")))?;
    server.take_reloads();
    server
        .websocket_of_program(websocket(settings))
        .map_err(|error| StartError::Setting(error.to_string()))
}

/// Returns the port of the first listen address, which targets receive as the port of the server.
fn first_port(settings: &Settings) -> u16 {
    let first = settings.listen.first();
    first
        .and_then(|it| it.rsplit_once(':'))
        .and_then(|(_, port)| port.parse().ok())
        .unwrap_or(80)
}

/// Runs a worker until it stops.
fn serve(mut worker: Box<Engine>, prepared: &Prepared) -> Result<i32, StartError> {
    worker.relay(stream::stream);
    // Only one worker publishes, so that items are put into one order before they reach the ring.
    let publishes = worker.index() == 0;
    if publishes && let Some(control) = &prepared.control {
        let bodies = BodyLimits {
            bytes_max: prepared.settings.control_body_bytes_max,
            // One worker has the port, and a publisher may open many connections. So each connection needs a time-out.
            pace: Some(BodyPace {
                timeout_ms: prepared.settings.control_body_timeout_ms,
                rate_min: 0,
                setting: "control_body_timeout_ms",
            }),
        };
        with_copy(&control.listener, "control", |listener| {
            worker.listen_requests(listener, HANDLER_CONTROL, bodies)
        })?;
    }
    if let Some(rendezvous) = prepared.workers.get(usize::from(worker.index())) {
        let bodies = BodyLimits {
            bytes_max: prepared.settings.body_bytes_max,
            pace: None,
        };
        with_copy(&rendezvous.listener, "workers", |listener| {
            worker.listen_requests(listener, HANDLER_WORKERS, bodies)
        })?;
    }
    let mut edge = Edge::new(worker, prepared);
    let more = figures::more_metrics(
        &prepared.settings,
        edge.upstream.targets,
        edge.route_figures,
        std::rc::Rc::clone(&edge.routing.shown),
    );
    edge.worker.add_metrics(more);
    if publishes {
        begin_publishing(&mut edge, prepared)?;
    }
    Ok(edge.run())
}

/// Opens the ZeroMQ ports, and restores items that waited in the worker that this one replaces.
fn begin_publishing(edge: &mut Edge, prepared: &Prepared) -> Result<(), StartError> {
    let (ports, worker) = (&mut edge.publishing.ports, &mut edge.worker);
    for (port, listener) in &prepared.zmq {
        with_copy(listener, port.setting(), |listener| {
            ports.listen_at(worker, *port, listener)
        })?;
    }
    if let Some(questions) = &prepared.questions {
        with_copy(&questions.listener, "workers", |listener| {
            ports.listen_at(worker, Port::Questions, listener)
        })?;
    }
    if let Some(rendezvous) = &prepared.rendezvous {
        with_copy(&rendezvous.listener, "zmq_stats", |listener| {
            edge.holds().reports().listen_to_workers(listener)
        })?;
    }
    edge.publishing.ports.uris = ports::uris(&prepared.settings);
    edge.publishing.publishers = prepared.publishers.clone();
    edge.publishing
        .connect_publishers(&mut edge.timers, &mut edge.worker);
    edge.publications().restore_waiting();
    Ok(())
}

/// Lets a worker listen on a duplicate of the master's socket. A replacement worker receives another duplicate.
fn with_copy<T>(
    listener: &OwnedFd,
    setting: &str,
    listen: impl FnOnce(OwnedFd) -> io::Result<T>,
) -> Result<T, StartError> {
    listener
        .try_clone()
        .and_then(listen)
        .map_err(|error| StartError::Setting(format!("{setting}: {error}")))
}

/// Returns the WebSocket route of clients. Origins decide which WebSockets are opened.
fn websocket(settings: &Settings) -> Route {
    Route {
        handler: HANDLER_CLIENTS,
        callbacks: Callbacks {
            upgrade: true,
            open: false,
            message: true,
            control: true,
            close: true,
        },
        origins: OriginPolicy::Any,
        message_bytes_max: Some(MESSAGE_BYTES_MAX),
        queue_bytes_max: Some(settings.event_bytes_max as u64),
        compression: settings.compression.then_some(Compression {
            server_takeover: false,
            client_takeover: false,
            window_bits: 15,
            level: 1,
            bytes_min: 128,
        }),
        ..Route::default()
    }
}

/// Settings passed to the engine under the same name.
const OF_ENGINE: [&str; 34] = [
    "allowed_hosts",
    "workers",
    "connections_max",
    "headers_count_max",
    "header_timeout_ms",
    "idle_timeout_ms",
    "write_timeout_ms",
    "write_rate_min",
    "buffered_bytes_max",
    "buffered_per_address_bytes_max",
    "buffered_per_connection_bytes_max",
    "drain_timeout_ms",
    "stall_timeout_ms",
    "publish_wait_ms_max",
    "body_timeout_ms",
    "body_rate_min",
    "upload_directory_bytes_max",
    "upload_directory_files_max",
    "response_spool_bytes_max",
    "response_spool_address_bytes_max",
    "response_waits_per_address_max",
    "websocket_ping_interval_ms",
    "websocket_pong_timeout_ms",
    "event_bytes_max",
    "history_bytes_max",
    "channel_log_bytes_max",
    "http2_resets_per_second_max",
    "http2_pings_per_second_max",
    "http2_settings_per_second_max",
    "http2_empty_data_per_second_max",
    "http2_window_updates_per_second_max",
    "http2_priorities_per_second_max",
    "http2_unknown_frames_per_second_max",
    "http2_continuations_max",
];

fn configure(server: &mut Server, settings: &Settings, directory: &Path) -> Result<(), StartError> {
    server.name_certificates("tls_certificates");
    let mut set = |name: &str, value: &str| {
        server
            .set(name, value, SettingSource::Program)
            .map_err(|error| StartError::Setting(error.to_string()))
    };
    set("listen", &listen_addresses(settings)?)?;
    if !settings.listen_tls.is_empty() {
        let folder = certificates(settings, directory)?;
        set("tls_certificate", &folder)?;
        set("tls_key", &folder)?;
    }
    for (name, value) in [("user", &settings.user), ("group", &settings.group)] {
        if !value.is_empty() {
            set(name, value)?;
        }
    }
    for name in OF_ENGINE {
        set(name, &settings.text(name))?;
    }
    // The engine has one limit for all ports; the edge enforces the limit of each port.
    let header_bytes = settings
        .header_bytes_max
        .max(settings.control_header_bytes_max);
    set("header_bytes_max", &header_bytes.to_string())?;
    let target_bytes = settings.target_bytes_max.min(header_bytes);
    set("target_bytes_max", &target_bytes.to_string())?;
    let body_bytes = settings.body_bytes_max.min(STORED_BYTES_MAX);
    set("body_bytes_max", &body_bytes.to_string())?;
    set("queue_bytes_max", &settings.event_bytes_max.to_string())?;
    // Separates the data of edges from the data of PHP servers and hubs in the same log.
    set("cluster_prefix", CLUSTER_PREFIX)?;
    set("gather_ms_max", &GATHER_MS_MAX.to_string())?;
    if let Some(address) = metrics_address(settings)? {
        set("metrics_listen", &address)?;
    }
    set(
        "log_level",
        match settings.log_level {
            0 => "error",
            1 => "warning",
            2 => "info",
            _ => "debug",
        },
    )
}

/// Returns the listen addresses in the engine's format.
fn listen_addresses(settings: &Settings) -> Result<String, StartError> {
    const HOST_PORT: &str = "HOST:PORT, such as 127.0.0.1:7999";
    const PATH: &str = "a path, and behind it what is needed of ?mode=660&user=NAME&group=NAME";
    let unix = |it: &str| format!("unix:{it}");
    let mut addresses = Vec::new();
    for (name, list, url, fix) in [
        (
            "listen",
            &settings.listen,
            &(|it: &str| url("http", it)) as &dyn Fn(&str) -> String,
            HOST_PORT,
        ),
        (
            "listen_tls",
            &settings.listen_tls,
            &|it: &str| url("https", it),
            HOST_PORT,
        ),
        ("listen_unix", &settings.listen_unix, &unix, PATH),
    ] {
        check_addresses(name, list, url, fix)
            .map_err(|error| StartError::Setting(error.to_string()))?;
        addresses.extend(list.iter().map(|it| url(it)));
    }
    Ok(addresses.join(","))
}

/// Returns the Prometheus address, if any.
fn metrics_address(settings: &Settings) -> Result<Option<String>, StartError> {
    if settings.prometheus.is_empty() {
        return Ok(None);
    }
    let address = prometheus_address(settings);
    match problem("metrics_listen", &address) {
        None => Ok(Some(address)),
        Some(cause) => Err(StartError::Setting(format!(
            "prometheus is {:?}: that is {cause}; give a port or HOST:PORT, such as 127.0.0.1:9100",
            settings.prometheus
        ))),
    }
}

/// Returns the folder with certificates, by default that of a Pushpin configuration directory.
fn certificates(settings: &Settings, directory: &Path) -> Result<String, StartError> {
    let folder = match settings.tls_certificates.as_str() {
        "" => directory.join("runner/certs"),
        folder => directory.join(folder),
    };
    if !folder.is_dir() {
        return Err(StartError::Setting(format!(
            "listen_tls: there are no certificates: {} is no folder; name one with files NAME.crt and NAME.key by tls_certificates",
            folder.display()
        )));
    }
    Ok(folder.display().to_string())
}

fn read_routes(
    server: &mut Server,
    settings: &Settings,
    directory: &Path,
) -> Result<(Routes, Option<RoutesFile>), StartError> {
    let lines = &settings.route;
    let (text, file) = if lines.is_empty() {
        let path = directory.join(&settings.routes);
        let seen = Stamp::of(&path).ok();
        let text = std::fs::read_to_string(&path).map_err(|error| {
            StartError::Setting(format!(
                "routes: {}: {error}; name the file, or give routes with --route, such as --route '* 127.0.0.1:80'",
                path.display()
            ))
        })?;
        (text, Some(RoutesFile::new(path, seen)))
    } else {
        (lines.join("\n"), None)
    };
    let (routes, problems) = Routes::read(&text, check_file);
    if file.is_none() {
        check_given(&text, &routes, &problems)?;
    }
    for problem in &problems {
        server.warn(&problem.to_string());
    }
    Ok((routes, file))
}

/// Fails for invalid routes on the command line. Invalid routes of a file are skipped, as in Pushpin.
fn check_given(text: &str, routes: &Routes, problems: &[Problem]) -> Result<(), StartError> {
    let of_line = |problem: &Problem| {
        let line = text.lines().nth(problem.line - 1).unwrap_or_default();
        format!("route {line:?}: {}; correct it", problem.cause)
    };
    let lines: Vec<String> = problems.iter().map(of_line).collect();
    match (lines.is_empty(), routes.rules().is_empty()) {
        (false, _) => Err(StartError::Setting(lines.join("\n"))),
        (true, true) => Err(StartError::Setting(
            "route: it is empty; give a condition and a target, such as '* 127.0.0.1:80'"
                .to_owned(),
        )),
        (true, false) => Ok(()),
    }
}

/// Opens the control port before the workers are forked, so that the port stays open when a worker exits.
fn bind(server: &mut Server, address: &str, settings: &Settings) -> Result<Control, StartError> {
    if address.starts_with("unix:") {
        let listen = Listen::parse(address)
            .map_err(|cause| StartError::Setting(format!("control: {address} is {cause}")))?;
        let listener = bind_unix(&listen, net::UNIX_MODE)
            .map_err(|cause| StartError::Setting(format!("control: {address}: {cause}")))?;
        server.note(&format!("control: unix:{}", listen.host));
        return Ok(Control {
            listener,
            _file: Some(SocketFile::new(listen.host.into())),
        });
    }
    let failed = |error: &dyn std::fmt::Display| {
        StartError::Setting(format!(
            "control: cannot listen on {address}: {error}; is another edge or Pushpin running? Give another address, or an empty one for none"
        ))
    };
    let found: SocketAddr = address
        .to_socket_addrs()
        .map_err(|error| failed(&error))?
        .next()
        .ok_or_else(|| failed(&"it is no address"))?;
    let (listener, bound) = net::bind_tcp(found, BACKLOG, false).map_err(|error| failed(&error))?;
    server.note(&format!("control: http://{bound}"));
    if !bound.ip().is_loopback() && settings.control_key.is_empty() {
        server.warn(&format!(
            "control: every client that reaches {bound} may publish to all clients; set control_key, or listen on this machine only, for example at 127.0.0.1:5561 or unix:/PATH"
        ));
    }
    Ok(Control {
        listener,
        _file: None,
    })
}
