//! Configures the engine from the settings and starts the workers.

use std::rc::Rc;

use fermata_config::{Program, Source, check_addresses};
use fermata_engine::websocket::{Callbacks, OriginPolicy, Route};
use fermata_engine::{ChannelEvent, Event, Server, Started, Worker};
use fermata_io::Kernel;
use fermata_pusher::App;
use fermata_pusher::channel::{Access, ChannelName};
use fermata_pusher::frame::{self, Code};
use fermata_tls::Tls;
use serde_json::Value;

use crate::fingerprint;
use crate::gateway::{HANDLER_REQUESTS, HANDLER_SOCKETS, Hub};
use crate::names;
use crate::posting::open_post;
use crate::settings::{Settings, SettingsError};
use crate::sockets::UNNAMED;
use crate::sockjs::opening as sockjs;
use crate::webhooks::Prepared;

/// Minimum of `event_bytes_max`, because messages between workers have to fit into one record.
pub(crate) const EVENT_BYTES_MIN: usize = 64 * 1024;
/// Room for an event's name, in bytes.
pub(crate) const EVENT_BYTES_MORE: usize = 4 * 1024;

/// Minimum backlog of a slow client: the engine's default.
const LOG_BYTES_MIN: usize = 256 * 1024;

/// Room for a batch of the largest events, each at most twice as large in JSON, and the surrounding request.
const BODY_EVENTS: usize = 2;
const BODY_BYTES_MORE: usize = 64 * 1024;

/// Maximum growth of an update's data in a form, where each byte may be escaped.
const BODY_ESCAPED: usize = 3;

/// Maxima that the engine's settings accept.
const STREAMS_MAX: usize = 1_000_000;
const HISTORY_COUNT_MAX: &str = "1000000";

/// Reason why the hub cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An invalid setting; the message contains its name.
    #[error("{0}")]
    Setting(String),
    /// The engine cannot start.
    #[error(transparent)]
    Engine(#[from] fermata_engine::StartError),
}

impl From<SettingsError> for StartError {
    fn from(error: SettingsError) -> StartError {
        StartError::Setting(error.to_string())
    }
}

/// Runs the hub until it is stopped, and returns the exit code of the process.
///
/// # Errors
/// The hub cannot start. The message contains the cause and a fix.
pub fn run(mut settings: Settings) -> Result<i32, StartError> {
    settings.check()?;
    let prepared = Prepared::new(&settings.apps)
        .map_err(|error| StartError::Setting(format!("webhook: {error}")))?;
    fermata_io::descriptors::leave_none();
    let mut server = Server::new();
    server.set_reader(Program::Hub);
    configure(&mut server, &settings)?;
    if let Some(fingerprint) = fingerprint::of(&settings) {
        server.set_fingerprint(fingerprint);
    }
    if let Some(mercure) = &mut settings.mercure {
        for line in mercure.fetch_keys()? {
            server.warn(&line);
        }
    }
    server.set_post(open_post);
    server.fallback(HANDLER_REQUESTS, true);
    if !settings.apps.is_empty() {
        let pattern = format!("{}/app/{{key}}", settings.own.path);
        server
            .websocket(&pattern, route(&settings))
            .map_err(|error| StartError::Setting(error.to_string()))?;
        server.note(&pusher_note(&settings));
    }
    if let Some(mercure) = &settings.mercure {
        if mercure.hub.draft.is_some() {
            // The server does not recognize the method QUERY, so the hub receives such requests only with a route.
            server
                .route(None, fermata_mercure::PATH, HANDLER_REQUESTS)
                .map_err(|error| StartError::Setting(error.to_string()))?;
        }
        server.note(&format!("Mercure at {}", fermata_mercure::PATH));
    }
    for note in &settings.notes {
        server.note(note);
    }
    let sockjs = sockjs::Prepared::new(
        &mut server,
        &settings,
        route(&settings),
        body_bytes_max(&settings),
    )?;
    match server.start()? {
        Started::Ended { exit_code, .. } => Ok(exit_code),
        // The hub starts no companion processes.
        Started::Companion(_) => Ok(0),
        Started::Worker(worker) => Ok(serve(worker, open(settings, prepared, sockjs))),
    }
}

/// Serves until the worker stops, and returns the exit code of the process.
fn serve(
    mut worker: Box<Worker<Tls<Kernel>>>,
    open: impl FnOnce(&mut Worker<Tls<Kernel>>) -> Hub,
) -> i32 {
    let mut hub = open(&mut worker);
    loop {
        let due = hub.due(&mut worker);
        worker.waiting.wake_at(due);
        let event = worker.next_event();
        hub.handle(&mut worker, event);
        if event == Event::Stop {
            return worker.exit_code();
        }
    }
}

/// Returns a function that creates the hub in a worker.
pub(crate) fn open(
    settings: Settings,
    prepared: Prepared,
    sockjs: Option<sockjs::Prepared>,
) -> impl FnOnce(&mut Worker<Tls<Kernel>>) -> Hub {
    move |worker| {
        let settings = Rc::new(settings);
        let writes = Rc::clone(&settings);
        worker.channels.write_messages(Box::new(move |event, out| {
            write_message(&writes.apps, event, out)
        }));
        let sockjs = sockjs.map(|it| it.begin(worker, &settings));
        Hub::new(worker, settings, prepared, sockjs)
    }
}

pub(crate) fn pusher_note(settings: &Settings) -> String {
    let apps: Vec<&str> = settings.apps.iter().map(|app| app.id.as_str()).collect();
    format!(
        "Pusher protocol 7 at {}/app/KEY, its HTTP API at {}/apps/ID; applications: {}",
        settings.own.path,
        settings.own.path,
        apps.join(", ")
    )
}

/// Returns the maximum body size of a request to the hub, in bytes.
pub(crate) fn body_bytes_max(settings: &Settings) -> usize {
    let batch = settings.apps.iter().map(|app| app.limits.batch_events_max);
    let update = settings.mercure.as_ref().map(|it| it.update_bytes_max);
    let data_bytes = settings
        .apps
        .iter()
        .map(|app| app.limits.event_data_bytes_max);
    let events =
        BODY_EVENTS * data_bytes.max().unwrap_or_default() * batch.max().unwrap_or_default();
    events.max(BODY_ESCAPED * update.unwrap_or_default()) + BODY_BYTES_MORE
}

/// Settings that the engine has under the same name, and that are passed to it unchanged.
const OF_ENGINE: [&str; 8] = [
    "log_level",
    "connections_max",
    "write_timeout_ms",
    "write_rate_min",
    "buffered_bytes_max",
    "buffered_per_address_bytes_max",
    "buffered_per_connection_bytes_max",
    "history_bytes_max",
];

fn configure(server: &mut Server, settings: &Settings) -> Result<(), StartError> {
    let own = &settings.own;
    for (name, addresses, scheme) in [
        ("listen", &own.listen, "http"),
        ("listen_tls", &own.listen_tls, "https"),
    ] {
        let fix = "HOST:PORT, such as 127.0.0.1:8080";
        check_addresses(name, addresses, |it| url(scheme, it), fix)
            .map_err(|error| StartError::Setting(error.to_string()))?;
    }
    let mut set = |name: &str, value: &str| {
        server
            .set(name, value, Source::Program)
            .map_err(|error| StartError::Setting(error.to_string()))
    };
    let plain = own.listen.iter().map(|it| url("http", it));
    let secure = own.listen_tls.iter().map(|it| url("https", it));
    let listen: Vec<String> = plain.chain(secure).collect();
    set("listen", &listen.join(","))?;
    let workers = match own.workers.as_str() {
        "auto" => "0",
        number => number,
    };
    set("workers", workers)?;
    for name in OF_ENGINE {
        set(name, &own.text(name))?;
    }
    for (name, value) in [
        ("tls_certificate", &own.tls_certificate),
        ("tls_key", &own.tls_key),
        ("control", &own.control_socket),
        ("history_path", &own.history_path),
        ("user", &own.user),
        ("group", &own.group),
    ] {
        if !value.is_empty() {
            set(name, value)?;
        }
    }
    if !own.metrics_listen.is_empty() {
        set("metrics_listen", &url("http", &own.metrics_listen))?;
    }
    let data_bytes = settings.event_data_bytes_max();
    let event_bytes = EVENT_BYTES_MIN.max(data_bytes + EVENT_BYTES_MORE);
    set("event_bytes_max", &event_bytes.to_string())?;
    set(
        "channel_log_bytes_max",
        &LOG_BYTES_MIN.max(event_bytes).to_string(),
    )?;
    // Streams of this worker's sessions, and forwarded streams of sessions in other workers.
    let streams = own.sockjs_sessions_max.saturating_mul(2);
    set("streams_max", &streams.min(STREAMS_MAX).to_string())?;
    let body_bytes = body_bytes_max(settings).to_string();
    set("body_bytes_max", &body_bytes)?;
    // The hub reads bodies from memory.
    set("body_memory_bytes_max", &body_bytes)?;
    // The hub reads no forms: storing their files would be useless.
    set("multipart_bytes_max", &body_bytes)?;
    set("uploads_max", "0")?;
    set(
        "channels_per_hold_max",
        &settings.channels_per_connection_max().max(1).to_string(),
    )?;
    if let Some(mercure) = &settings.mercure {
        // All updates share one channel, which only history_bytes_max limits.
        set("history_count_max", HISTORY_COUNT_MAX)?;
        if mercure.hub.has_subscriptions {
            let subscribers = mercure.subscribers_max.to_string();
            set("members_max", &subscribers)?;
            set("members_per_channel_max", &subscribers)?;
            set("members_per_address_max", &subscribers)?;
        }
    }
    // Pusher's own pings are for clients that cannot answer WebSocket pings. All current clients can, so the server sends WebSocket
    // pings.
    set(
        "websocket_ping_interval_ms",
        &(own.ping_interval_s * 1000).to_string(),
    )?;
    set(
        "websocket_pong_timeout_ms",
        &(own.activity_timeout_s * 1000).to_string(),
    )
}

fn url(scheme: &str, address: &str) -> String {
    if address.contains("://") {
        address.to_owned()
    } else {
        format!("{scheme}://{address}")
    }
}

/// Returns the route of WebSockets, without a check of the origin: each application checks it itself.
pub(crate) fn route(settings: &Settings) -> Route {
    Route {
        handler: HANDLER_SOCKETS,
        callbacks: Callbacks {
            upgrade: true,
            open: false,
            message: true,
            control: false,
            close: true,
        },
        origins: OriginPolicy::Any,
        message_bytes_max: Some(settings.message_bytes_max() as u64),
        pong_timeout_close: Some((Code::PongMissing.number(), "no answer to a ping")),
        ..Route::default()
    }
}

/// Encodes a channel's event for its subscribers; returns false if they do not receive it.
fn write_message(apps: &[App], event: &ChannelEvent<'_>, out: &mut Vec<u8>) -> bool {
    let ring_name = match *event {
        ChannelEvent::Message { channel, .. }
        | ChannelEvent::Join { channel, .. }
        | ChannelEvent::Leave { channel, .. } => Some(channel),
        ChannelEvent::Gap { channel } => channel,
    };
    let channel = ring_name.and_then(|it| names::split(apps, text(it)));
    let channel = channel.map(|(_, channel)| channel);
    // A client of an application may be present in any channel that the application shares.
    let has_members =
        |it: &str| ChannelName::new(it).map(ChannelName::access) == Ok(Access::Presence);
    match (*event, channel) {
        (ChannelEvent::Message { id, name, data, .. }, Some(channel)) => {
            let (name, id) = (name.map_or(UNNAMED, text), std::str::from_utf8(id).ok());
            // A PHP application shares its channels, and its users may choose names of events.
            if frame::is_of_protocol(name) && name != frame::SUBSCRIPTION_COUNT {
                return false;
            }
            frame::event(out, channel, name, text(data), id);
        }
        (ChannelEvent::Join { data, .. }, Some(channel)) if has_members(channel) => {
            let Some((user, info)) = read_user(data) else {
                return false;
            };
            out.extend_from_slice(frame::member_added(channel, &user, &info).as_bytes());
        }
        (ChannelEvent::Leave { data, .. }, Some(channel)) if has_members(channel) => {
            let Some((user, _)) = read_user(data) else {
                return false;
            };
            out.extend_from_slice(frame::member_removed(channel, &user).as_bytes());
        }
        (ChannelEvent::Gap { .. }, channel) => {
            out.extend_from_slice(frame::gap(channel).as_bytes());
        }
        // The channel does not belong to an application, or its joins are not announced.
        _ => return false,
    }
    true
}

/// Returns data of the ring as text. The hub has checked that the data is UTF-8.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Returns the user and info of the engine's presence announcement.
fn read_user(data: &[u8]) -> Option<(String, Value)> {
    let mut announcement: Value = serde_json::from_slice(data).ok()?;
    let info = announcement["info"].take();
    let user = announcement["user"].as_str()?.to_owned();
    Some((user, info))
}
