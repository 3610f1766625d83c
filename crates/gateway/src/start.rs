//! From settings to running workers.

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

use crate::gateway::{HANDLER_REQUESTS, HANDLER_SOCKETS, Hub};
use crate::names;
use crate::posting::open_post;
use crate::settings::{Settings, SettingsError};
use crate::sockets::UNNAMED;
use crate::sockjs::opening as sockjs;
use crate::webhooks::Prepared;

/// Room for an event's name and what workers tell each other.
pub(crate) const EVENT_BYTES_MIN: usize = 64 * 1024;
pub(crate) const EVENT_BYTES_MORE: usize = 4 * 1024;

/// What a slow client may be behind, at least: the engine's default.
const LOG_BYTES_MIN: usize = 256 * 1024;

/// A batch of the largest events, each at most twice as large in JSON, and what is around them.
const BODY_EVENTS: usize = 2;
const BODY_BYTES_MORE: usize = 64 * 1024;

/// Bytes of a form for one of an update's data, when each is escaped.
const BODY_ESCAPED: usize = 3;

/// The most that the settings take.
const STREAMS_MAX: usize = 1_000_000;
const HISTORY_COUNT_MAX: &str = "1000000";

/// Why the hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting that has no meaning here; the sentence names it.
    #[error("{0}")]
    Setting(String),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] fermata_engine::StartError),
}

impl From<SettingsError> for StartError {
    fn from(error: SettingsError) -> StartError {
        StartError::Setting(error.to_string())
    }
}

/// Runs the hub until it is stopped, and returns what the process should exit with.
///
/// # Errors
/// It does not start; the sentence says why and what helps.
pub fn run(mut settings: Settings) -> Result<i32, StartError> {
    settings.check()?;
    let prepared = Prepared::new(&settings.apps)
        .map_err(|error| StartError::Setting(format!("webhook: {error}")))?;
    fermata_io::descriptors::leave_none();
    let mut server = Server::new();
    server.set_reader(Program::Hub);
    configure(&mut server, &settings)?;
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
            // Its method QUERY is none that the server knows: without a route it would not be asked about.
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
        // The hub has asked for none.
        Started::Companion(_) => Ok(0),
        Started::Worker(worker) => Ok(serve(worker, open(settings, prepared, sockjs))),
    }
}

/// Serves until the worker stops; returns what the process should exit with.
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

/// Makes the hub of a worker.
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

/// Bytes that a request of the hub's may have.
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
    set("log_level", &own.log_level)?;
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
    set("connections_max", &own.connections_max.to_string())?;
    // Of its own sessions, and of those that other workers have.
    let streams = own.sockjs_sessions_max.saturating_mul(2);
    set("streams_max", &streams.min(STREAMS_MAX).to_string())?;
    set("history_bytes_max", &own.history_bytes_max.to_string())?;
    let body_bytes = body_bytes_max(settings).to_string();
    set("body_bytes_max", &body_bytes)?;
    // They are looked at as a whole.
    set("body_memory_bytes_max", &body_bytes)?;
    // The hub reads no forms: their files would be stored for nothing.
    set("multipart_bytes_max", &body_bytes)?;
    set("uploads_max", "0")?;
    set(
        "channels_per_hold_max",
        &settings.channels_per_connection_max().max(1).to_string(),
    )?;
    if let Some(mercure) = &settings.mercure {
        // All updates are in one channel, which history_bytes_max bounds alone.
        set("history_count_max", HISTORY_COUNT_MAX)?;
        if mercure.hub.has_subscriptions {
            let subscribers = mercure.subscribers_max.to_string();
            set("members_max", &subscribers)?;
            set("members_per_channel_max", &subscribers)?;
            set("members_per_address_max", &subscribers)?;
        }
    }
    // The protocol has pings of its own, for clients that cannot answer those of WebSockets; all can.
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
    match address.contains("://") {
        true => address.to_owned(),
        false => format!("{scheme}://{address}"),
    }
}

/// Which pages may connect is up to each application.
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

/// What the subscribers of a channel get of what happens in it.
fn write_message(apps: &[App], event: &ChannelEvent<'_>, out: &mut Vec<u8>) -> bool {
    let ring_name = match *event {
        ChannelEvent::Message { channel, .. }
        | ChannelEvent::Join { channel, .. }
        | ChannelEvent::Leave { channel, .. } => Some(channel),
        ChannelEvent::Gap { channel } => channel,
    };
    let channel = ring_name.and_then(|it| names::split(apps, text(it)));
    let channel = channel.map(|(_, channel)| channel);
    // A program's clients may be present in any channel that it shares.
    let has_members =
        |it: &str| ChannelName::new(it).map(ChannelName::access) == Ok(Access::Presence);
    match (*event, channel) {
        (ChannelEvent::Message { id, name, data, .. }, Some(channel)) => {
            let (name, id) = (name.map_or(UNNAMED, text), std::str::from_utf8(id).ok());
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
        // It is in no channel of an application, or nobody is told of who comes to it.
        _ => return false,
    }
    true
}

/// What is on the ring was checked to be UTF-8.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// The user that an announcement of the engine's is about.
fn read_user(data: &[u8]) -> Option<(String, Value)> {
    let mut announcement: Value = serde_json::from_slice(data).ok()?;
    let info = announcement["info"].take();
    let user = announcement["user"].as_str()?.to_owned();
    Some((user, info))
}
