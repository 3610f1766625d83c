//! The settings of the hub: a TOML file, the environment (Reverb's and the Mercure hub's own names) and options, of which the later win.

use std::collections::HashMap;

use fermata_pusher::webhook::{Kind, Webhook};
use fermata_pusher::{App, ClientEvents, Resume};
use serde::Deserialize;

use crate::environment;
use crate::mercure::settings::{MercureSettings, Table};
use crate::names;
use crate::webhooks::{WEBHOOKS_MAX, parse_url};
use crate::written::OneOrMany;
pub use crate::written::SettingsError;

/// Where the hub listens when nothing else is said: where Reverb does, but for this machine alone.
const LISTEN: &str = "127.0.0.1:8080";

/// Longest beginning of names of channels that are shared: the names behind it have 164 bytes, and all 255.
const PREFIX_BYTES_MAX: usize = 64;

/// What the hub is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses, `host:port`.
    pub listen: Vec<String>,
    /// Addresses with TLS.
    pub listen_tls: Vec<String>,
    /// File of the certificate, and of its key.
    pub certificate: Option<(String, String)>,
    /// Worker processes: a number or `auto`.
    pub workers: String,
    /// In front of `/app` and `/apps`: empty, or a path such as `/ws`.
    pub path: String,
    /// Applications.
    pub apps: Vec<App>,
    /// How Mercure is spoken, if it is.
    pub mercure: Option<MercureSettings>,
    /// What was given and changes nothing: said at the start.
    pub notes: Vec<String>,
    /// Seconds of silence after which a client is asked whether it is there.
    pub ping_interval_s: u64,
    /// Seconds it has for the answer; also what a client is told of the server's.
    pub activity_timeout_s: u64,
    /// Whether pusher-js may fall back to requests where WebSockets do not work: `xhr_streaming` and `xhr_polling`.
    pub sockjs: SockJsSettings,
    /// Connections of each worker.
    pub connections_max: u64,
    /// Bytes of memory for events that clients may resume from.
    pub history_bytes_max: u64,
    /// A file that keeps events over a restart; without it they are in memory.
    pub history_path: Option<String>,
    /// The user of the workers of a hub that root has started.
    pub user: Option<String>,
    /// And in which group; without it that of `user`.
    pub group: Option<String>,
    /// `error`, `warning`, `info` or `debug`.
    pub log_level: String,
    /// The control socket for `fermata stats` and `fermata top`; empty: the engine's default.
    pub control_socket: Option<String>,
    /// An address for Prometheus and health checks, `host:port`; without it there is none.
    pub metrics_listen: Option<String>,
}

/// How clients without WebSockets are served.
#[derive(Clone, Debug)]
pub struct SockJsSettings {
    /// Whether they are.
    pub is_enabled: bool,
    /// Sessions of each worker.
    pub sessions_max: usize,
    /// How often a client hears that it is connected.
    pub heartbeat_s: u64,
    /// How long a session waits for the next request of its client.
    pub linger_s: u64,
}

impl Default for SockJsSettings {
    fn default() -> SockJsSettings {
        SockJsSettings {
            is_enabled: true,
            sessions_max: 1_000,
            heartbeat_s: 25,
            linger_s: 5,
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: vec![LISTEN.to_owned()],
            listen_tls: Vec::new(),
            certificate: None,
            workers: "auto".to_owned(),
            path: String::new(),
            apps: Vec::new(),
            mercure: None,
            notes: Vec::new(),
            ping_interval_s: 60,
            activity_timeout_s: 30,
            sockjs: SockJsSettings::default(),
            connections_max: 10_000,
            history_bytes_max: 16 * 1024 * 1024,
            history_path: None,
            user: None,
            group: None,
            log_level: "info".to_owned(),
            control_socket: None,
            metrics_listen: None,
        }
    }
}

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<OneOrMany>,
    listen_tls: Option<OneOrMany>,
    tls_certificate: Option<String>,
    tls_key: Option<String>,
    workers: Option<toml::Value>,
    path: Option<String>,
    ping_interval_s: Option<u64>,
    activity_timeout_s: Option<u64>,
    sockjs: Option<bool>,
    sockjs_sessions_max: Option<usize>,
    sockjs_heartbeat_s: Option<u64>,
    sockjs_linger_s: Option<u64>,
    connections_max: Option<u64>,
    history_bytes_max: Option<u64>,
    history_path: Option<String>,
    user: Option<String>,
    group: Option<String>,
    log_level: Option<String>,
    control_socket: Option<String>,
    metrics_listen: Option<String>,
    #[serde(default)]
    app: Vec<AppTable>,
    mercure: Option<Table>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppTable {
    id: String,
    key: String,
    secret: String,
    enabled: Option<bool>,
    client_events: Option<bool>,
    subscription_counts: Option<bool>,
    resume: Option<Resume>,
    shared_prefix: Option<String>,
    #[serde(default)]
    webhook: Vec<WebhookTable>,
    allowed_origins: Option<Vec<String>>,
    connections_max: Option<u64>,
    message_bytes_max: Option<usize>,
    event_name_chars_max: Option<usize>,
    event_data_bytes_max: Option<usize>,
    channels_per_event_max: Option<usize>,
    batch_events_max: Option<usize>,
    client_events_per_second: Option<u32>,
    channels_per_connection_max: Option<usize>,
    presence_members_max: Option<usize>,
    user_id_bytes_max: Option<usize>,
    user_info_bytes_max: Option<usize>,
    watchlist_users_max: Option<usize>,
    clock_window_s: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookTable {
    url: String,
    events: Option<Vec<String>>,
    timeout_ms: Option<u64>,
    retry_s: Option<u64>,
    queue_events_max: Option<usize>,
}

impl Settings {
    /// Takes what a file says. `name` is the file's, for errors.
    ///
    /// # Errors
    /// The file, the place in it and what is wrong.
    pub fn read_toml(&mut self, name: &str, text: &str) -> Result<(), SettingsError> {
        let file: File = toml::from_str(text).map_err(|error| {
            SettingsError::new(format!("{name}: {}", error.to_string().trim_end()))
        })?;
        match file.listen {
            Some(listen) => self.listen = listen.into_list(),
            // As by the options: a file that asks for TLS alone has nothing opened without it.
            None if file.listen_tls.is_some() => self.listen.clear(),
            None => {}
        }
        if let Some(listen) = file.listen_tls {
            self.listen_tls = listen.into_list();
        }
        self.certificate = match (file.tls_certificate, file.tls_key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => self.certificate.take(),
            _ => {
                return Err(SettingsError::new(format!(
                    "{name}: tls_certificate and tls_key belong together; give both"
                )));
            }
        };
        self.workers = match file.workers {
            Some(toml::Value::String(text)) => text,
            Some(toml::Value::Integer(number)) => number.to_string(),
            Some(_) => {
                return Err(SettingsError::new(format!(
                    "{name}: workers: give a number or \"auto\""
                )));
            }
            None => std::mem::take(&mut self.workers),
        };
        take(&mut self.path, file.path);
        take(&mut self.ping_interval_s, file.ping_interval_s);
        take(&mut self.activity_timeout_s, file.activity_timeout_s);
        take(&mut self.sockjs.is_enabled, file.sockjs);
        take(&mut self.sockjs.sessions_max, file.sockjs_sessions_max);
        take(&mut self.sockjs.heartbeat_s, file.sockjs_heartbeat_s);
        take(&mut self.sockjs.linger_s, file.sockjs_linger_s);
        take(&mut self.connections_max, file.connections_max);
        take(&mut self.history_bytes_max, file.history_bytes_max);
        take(&mut self.log_level, file.log_level);
        for (into, from) in [
            (&mut self.history_path, file.history_path),
            (&mut self.user, file.user),
            (&mut self.group, file.group),
            (&mut self.control_socket, file.control_socket),
            (&mut self.metrics_listen, file.metrics_listen),
        ] {
            *into = from.or(into.take());
        }
        for table in file.app {
            let app = table
                .into_app()
                .map_err(|error| SettingsError::new(format!("{name}: {error}")))?;
            self.apps.push(app);
        }
        if let Some(table) = file.mercure {
            let mercure = self.mercure.get_or_insert_default();
            table
                .apply(mercure)
                .map_err(|error| SettingsError::new(format!("{name}: {error}")))?;
        }
        Ok(())
    }

    /// Takes what the environment says by the names that Reverb and the Mercure hub have.
    ///
    /// # Errors
    /// The variable and what is wrong with it.
    pub fn read_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), SettingsError> {
        let known: HashMap<String, String> = variables
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let is_reverb = ["REVERB_APP_ID", "REVERB_APP_KEY", "REVERB_APP_SECRET"]
            .iter()
            .any(|name| known.contains_key(*name));
        if is_reverb {
            let variables = &environment::REVERB;
            environment::look(variables, &known, &mut self.notes)?;
            environment::look_for_unknown("REVERB_", variables, &known, &mut self.notes);
        }
        self.read_mercure_environment(&known)?;
        let get = |name: &str| known.get(name).map(String::as_str);
        let number = |name: &str| match get(name).map(str::parse::<u64>) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(SettingsError::new(format!(
                "{name}: \"{}\" is no number",
                get(name).unwrap_or_default().escape_debug()
            ))),
        };
        if get("REVERB_SERVER_HOST").is_some() || get("REVERB_SERVER_PORT").is_some() {
            let host = get("REVERB_SERVER_HOST").unwrap_or("0.0.0.0");
            let port = get("REVERB_SERVER_PORT").unwrap_or("8080");
            self.listen = vec![format!("{host}:{port}")];
        }
        take(&mut self.path, get("REVERB_SERVER_PATH").map(str::to_owned));
        take(
            &mut self.ping_interval_s,
            number("REVERB_APP_PING_INTERVAL")?,
        );
        take(
            &mut self.activity_timeout_s,
            number("REVERB_APP_ACTIVITY_TIMEOUT")?,
        );
        match (
            get("REVERB_APP_ID"),
            get("REVERB_APP_KEY"),
            get("REVERB_APP_SECRET"),
        ) {
            (None, None, None) => {}
            (Some(id), Some(key), Some(secret)) => {
                let mut app = App::new(id, key, secret)
                    .map_err(|error| SettingsError::new(error.to_string()))?;
                if let Some(bytes) = number("REVERB_APP_MAX_MESSAGE_SIZE")? {
                    app.limits.message_bytes_max = bytes as usize;
                    app.limits.event_data_bytes_max = bytes as usize;
                }
                if let Some(max) = number("REVERB_APP_MAX_CONNECTIONS")? {
                    app.limits.connections_max = Some(max);
                }
                if let Some(from) = get("REVERB_APP_ACCEPT_CLIENT_EVENTS_FROM") {
                    app.client_events = client_events_of(from)?;
                }
                self.apps.push(app);
            }
            _ => {
                return Err(SettingsError::new(
                    "REVERB_APP_ID, REVERB_APP_KEY and REVERB_APP_SECRET belong together; set all three".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn read_mercure_environment(
        &mut self,
        known: &HashMap<String, String>,
    ) -> Result<(), SettingsError> {
        let is_set = [
            "MERCURE_PUBLISHER_JWT_KEY",
            "MERCURE_SUBSCRIBER_JWT_KEY",
            "MERCURE_PUBLISHER_JWKS_URL",
            "MERCURE_SUBSCRIBER_JWKS_URL",
        ]
        .iter()
        .any(|name| known.contains_key(*name));
        if !is_set && self.mercure.is_none() {
            return Ok(());
        }
        let variables = &environment::MERCURE;
        environment::look(variables, known, &mut self.notes)?;
        environment::look_for_unknown("MERCURE_", variables, known, &mut self.notes);
        let mercure = self.mercure.get_or_insert_default();
        mercure.read_environment(known, &mut self.notes)?;
        mercure.choose_version()?;
        if let Some(name) = known.get("SERVER_NAME").filter(|_| is_set) {
            match listen_of(name) {
                Some(listen) => self.listen = listen,
                None => self.notes.push(format!(
                    "SERVER_NAME: {} has no port and no http://, and certificates are not fetched; give --listen",
                    name.escape_debug()
                )),
            }
        }
        Ok(())
    }

    /// Checks what belongs together.
    ///
    /// # Errors
    /// What is missing or said twice.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.check_with(false)
    }

    /// The same beside a program, which publishes by itself.
    pub(crate) fn check_with(&self, has_program: bool) -> Result<(), SettingsError> {
        let wrong = |text: String| Err(SettingsError::new(text));
        if self.apps.is_empty() && self.mercure.is_none() {
            return wrong(
                "there is no application: give --app ID:KEY:SECRET, an [[app]] in the file, or REVERB_APP_ID, \
                 REVERB_APP_KEY and REVERB_APP_SECRET; for Mercure, [mercure] in the file, or \
                 MERCURE_PUBLISHER_JWT_KEY and MERCURE_SUBSCRIBER_JWT_KEY"
                    .to_owned(),
            );
        }
        if let Some(mercure) = &self.mercure {
            mercure.check(has_program)?;
            if let Some(id) = &mercure.pusher_app
                && !self.apps.iter().any(|app| app.id == *id)
            {
                return wrong(format!(
                    "mercure.pusher_app: there is no application with the id \"{}\"",
                    id.escape_debug()
                ));
            }
        }
        self.check_prefixes()?;
        for (at, app) in self.apps.iter().enumerate() {
            for other in &self.apps[..at] {
                if other.id == app.id || other.key == app.key {
                    return wrong(format!(
                        "two applications have the id \"{}\" or the key of it; give each its own",
                        app.id
                    ));
                }
            }
        }
        let webhooks = || self.apps.iter().flat_map(|app| &app.webhooks);
        for webhook in webhooks() {
            if let Err(error) = parse_url(webhook) {
                return wrong(format!(
                    "webhook: its url cannot be used: {error}; give http://HOST/PATH or https://HOST/PATH"
                ));
            }
            if webhook.timeout_ms == 0 || webhook.queue_events_max == 0 {
                return wrong(
                    "webhook: timeout_ms and queue_events_max have to be at least 1".to_owned(),
                );
            }
        }
        if webhooks().count() > WEBHOOKS_MAX {
            return wrong(format!(
                "webhook: there are more than {WEBHOOKS_MAX} of all applications together; each has a thread"
            ));
        }
        let sockjs = &self.sockjs;
        if sockjs.sessions_max == 0 || sockjs.heartbeat_s == 0 || sockjs.linger_s == 0 {
            return wrong(
                "sockjs_sessions_max, sockjs_heartbeat_s and sockjs_linger_s have to be at least 1; sockjs = false refuses \
                 clients without WebSockets"
                    .to_owned(),
            );
        }
        let is_path = self.path.starts_with('/') && !self.path.ends_with('/');
        if !self.path.is_empty() && !is_path {
            return wrong(format!(
                "path: \"{}\" has to begin with a slash and end without one, as in /ws",
                self.path.escape_debug()
            ));
        }
        if !self.listen_tls.is_empty() && self.certificate.is_none() {
            return wrong("listen_tls: give tls_certificate and tls_key as well".to_owned());
        }
        Ok(())
    }

    /// What an application shares with others must not be what another application or the hub itself has.
    fn check_prefixes(&self) -> Result<(), SettingsError> {
        let of_apps = self
            .apps
            .iter()
            .filter_map(|app| app.shared_prefix.as_deref());
        let of_apps: Vec<&str> = of_apps.collect();
        let of_mercure = match &self.mercure {
            Some(mercure) => mercure.own_prefix(),
            None => None,
        };
        let wrong = |prefix: &str, cause: &str| {
            let prefix = prefix.escape_debug();
            Err(SettingsError::new(format!(
                "shared_prefix \"{prefix}\": {cause}; give a beginning such as \"live.\""
            )))
        };
        for prefix in of_apps.iter().copied().chain(of_mercure) {
            let is_reserved = |own: &&str| own.starts_with(prefix) || prefix.starts_with(*own);
            if prefix.is_empty() {
                return wrong(
                    prefix,
                    "everybody could subscribe to every channel of the program",
                );
            }
            if names::RESERVED.iter().any(is_reserved) {
                return wrong(prefix, "it is the hub's own");
            }
            if prefix.len() > PREFIX_BYTES_MAX || prefix.chars().any(char::is_control) {
                return wrong(prefix, "it has more than 64 bytes or a control character");
            }
        }
        for (at, prefix) in of_apps.iter().enumerate() {
            let is_nested = |other: &&str| other.starts_with(prefix) || prefix.starts_with(*other);
            if of_apps[..at].iter().any(is_nested) {
                return wrong(prefix, "it begins as that of another application");
            }
            // The same one is shared; one within the other would tell private channels as public topics, or the reverse.
            if of_mercure.is_some_and(|other| other != *prefix && is_nested(&other)) {
                return wrong(prefix, "it and Mercure's begin alike and are not the same");
            }
        }
        Ok(())
    }

    /// Bytes of the largest message that any application's clients may send.
    pub fn message_bytes_max(&self) -> usize {
        let each = self.apps.iter().map(|app| app.limits.message_bytes_max);
        each.max().unwrap_or_default()
    }

    /// Bytes of the largest event's data.
    pub fn event_data_bytes_max(&self) -> usize {
        let each = self.apps.iter().map(|app| app.limits.event_data_bytes_max);
        let update = self.mercure.as_ref().map(|it| it.update_bytes_max);
        each.chain(update).max().unwrap_or_default()
    }

    /// Channels that a connection may be subscribed to at most, of any application.
    pub fn channels_per_connection_max(&self) -> usize {
        let each = self
            .apps
            .iter()
            .map(|app| app.limits.channels_per_connection_max);
        each.max().unwrap_or_default()
    }
}

/// Where the Mercure hub listens by its `SERVER_NAME`, as far as that says it.
fn listen_of(server_name: &str) -> Option<Vec<String>> {
    let address = |name: &str| {
        let (name, is_plain) = match name.strip_prefix("http://") {
            Some(name) => (name, true),
            None => (name.strip_prefix("https://").unwrap_or(name), false),
        };
        let (host, port) = match name.rsplit_once(':') {
            Some((host, port)) => (host, port.parse::<u16>().ok()?),
            None if is_plain => (name, 80),
            None => return None,
        };
        let is_local = host == "localhost" || host.starts_with("127.");
        let host = if is_local { "127.0.0.1" } else { "0.0.0.0" };
        Some(format!("{host}:{port}"))
    };
    let names = server_name.split([',', ' ']).filter(|it| !it.is_empty());
    names.map(address).collect()
}

/// An application as an option says it: `ID:KEY:SECRET`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_app(text: &str) -> Result<App, SettingsError> {
    let mut parts = text.splitn(3, ':');
    let (Some(id), Some(key), Some(secret)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(SettingsError::new(
            "--app: give an application as ID:KEY:SECRET".to_owned(),
        ));
    };
    App::new(id, key, secret).map_err(|error| SettingsError::new(format!("--app: {error}")))
}

impl AppTable {
    pub(crate) fn into_app(self) -> Result<App, SettingsError> {
        let mut app = App::new(&self.id, &self.key, &self.secret)
            .map_err(|error| SettingsError::new(error.to_string()))?;
        take(&mut app.counts_subscriptions, self.subscription_counts);
        take(&mut app.resume, self.resume);
        app.shared_prefix = self.shared_prefix;
        for table in self.webhook {
            app.webhooks.push(table.into_webhook()?);
        }
        take(&mut app.is_enabled, self.enabled);
        if self.client_events == Some(false) {
            app.client_events = ClientEvents::Refused;
        }
        take(&mut app.allowed_origins, self.allowed_origins);
        let limits = &mut app.limits;
        limits.connections_max = self.connections_max;
        take(&mut limits.message_bytes_max, self.message_bytes_max);
        take(&mut limits.event_name_chars_max, self.event_name_chars_max);
        take(&mut limits.event_data_bytes_max, self.event_data_bytes_max);
        take(
            &mut limits.channels_per_event_max,
            self.channels_per_event_max,
        );
        take(&mut limits.batch_events_max, self.batch_events_max);
        take(
            &mut limits.client_events_per_second,
            self.client_events_per_second,
        );
        take(
            &mut limits.channels_per_connection_max,
            self.channels_per_connection_max,
        );
        take(&mut limits.presence_members_max, self.presence_members_max);
        take(&mut limits.user_id_bytes_max, self.user_id_bytes_max);
        take(&mut limits.user_info_bytes_max, self.user_info_bytes_max);
        take(&mut limits.watchlist_users_max, self.watchlist_users_max);
        take(&mut limits.clock_window_s, self.clock_window_s);
        Ok(app)
    }
}

impl WebhookTable {
    fn into_webhook(self) -> Result<Webhook, SettingsError> {
        let mut webhook = Webhook::new(&self.url);
        if let Some(events) = self.events {
            webhook.kinds = events
                .iter()
                .map(|name| parse_kind(name))
                .collect::<Result<_, _>>()?;
        }
        take(&mut webhook.timeout_ms, self.timeout_ms);
        take(&mut webhook.retry_s, self.retry_s);
        take(&mut webhook.queue_events_max, self.queue_events_max);
        Ok(webhook)
    }
}

fn parse_kind(name: &str) -> Result<Kind, SettingsError> {
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| {
        let known = Kind::ALL.map(Kind::name).join(", ");
        SettingsError::new(format!(
            "webhook: there is no event \"{}\"; there are {known}",
            name.escape_debug()
        ))
    })
}

/// From whom Reverb takes events that clients send to each other.
fn client_events_of(from: &str) -> Result<ClientEvents, SettingsError> {
    match from {
        "members" => Ok(ClientEvents::Members),
        "none" => Ok(ClientEvents::Refused),
        other => Err(SettingsError::new(format!(
            "REVERB_APP_ACCEPT_CLIENT_EVENTS_FROM: \"{}\": it is members or none; who is not subscribed to a channel cannot send to it",
            other.escape_debug()
        ))),
    }
}

fn take<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_it_all() {
        let mut settings = Settings::default();
        let text = r#"
            listen = ["127.0.0.1:6001", "[::1]:6001"]
            workers = 2
            connections_max = 50000
            path = "/ws"
            history_path = "/var/lib/hub/history"
            user = "www-data"
            [[app]]
            id = "1"
            key = "key"
            secret = "0123456789abcdef"
            client_events = false
            allowed_origins = ["example.com"]
            event_data_bytes_max = 50000
        "#;
        settings.read_toml("hub.toml", text).expect("settings");
        settings.check().expect("settings");
        assert_eq!(settings.listen.len(), 2);
        assert_eq!(
            (settings.workers.as_str(), settings.path.as_str()),
            ("2", "/ws")
        );
        assert_eq!(settings.connections_max, 50_000);
        assert_eq!(
            settings.history_path.as_deref(),
            Some("/var/lib/hub/history")
        );
        assert_eq!(
            (settings.user.as_deref(), settings.group.as_deref()),
            (Some("www-data"), None)
        );
        assert_eq!(settings.apps[0].client_events, ClientEvents::Refused);
        assert_eq!(settings.event_data_bytes_max(), 50_000);
    }

    #[test]
    fn webhooks_are_of_an_application() {
        let of = |webhook: &str| {
            let mut settings = Settings::default();
            let text = format!(
                "[[app]]\nid = '1'\nkey = 'k'\nsecret = 's'\nsubscription_counts = true\n{webhook}"
            );
            settings.read_toml("hub.toml", &text).expect(webhook);
            settings.check().map(|()| settings)
        };
        let settings = of(
            "[[app.webhook]]\nurl = 'https://example.com/hook?x=1'\nevents = ['channel_vacated']\nretry_s = 5\n\
             [[app.webhook]]\nurl = 'http://localhost'",
        )
        .expect("settings");
        let app = &settings.apps[0];
        assert!(app.counts_subscriptions);
        assert_eq!(app.webhooks[0].kinds, [Kind::ChannelVacated]);
        assert_eq!((app.webhooks[0].retry_s, app.webhooks[1].retry_s), (5, 300));
        assert_eq!(app.webhooks[1].kinds, Kind::ALL);
        for (webhook, word) in [
            ("[[app.webhook]]\nurl = 'ftp://a'", "http://"),
            ("[[app.webhook]]\nurl = 'http://user:pw@a'", "signed"),
            (
                "[[app.webhook]]\nurl = 'http://a'\ntimeout_ms = 0",
                "timeout_ms",
            ),
        ] {
            let error = of(webhook).expect_err(webhook).to_string();
            assert!(error.contains(word) && !error.contains("pw"), "{error}");
        }
        let many = "[[app.webhook]]\nurl = 'http://a'\n".repeat(WEBHOOKS_MAX + 1);
        assert!(of(&many).is_err());
    }

    /// What a file may say at a place: a name that it may not say is answered with those that it may.
    fn names_at(place: &str) -> Vec<String> {
        let mut settings = Settings::default();
        let text = format!("{place}\nno_such_name = 1");
        let error = settings.read_toml("hub.toml", &text).expect_err(&text);
        let error = error.to_string();
        let (_, names) = error.split_once("expected one of ").expect(&error);
        let names = names.split('`').skip(1).step_by(2);
        names.map(str::to_owned).collect()
    }

    /// A message that names a setting is of use only to somebody who can set it.
    #[test]
    fn messages_name_settings_that_exist() {
        // Words of the protocols of Pusher and Mercure, and a setting of the PHP server that the hub may be beside.
        const OTHERS: [&str; 13] = [
            "auth_key",
            "auth_signature",
            "auth_timestamp",
            "body_md5",
            "channel_data",
            "event_bytes_max",
            "filter_by_prefix",
            "resource_metadata",
            "socket_id",
            "subscription_count",
            "user_count",
            "user_id",
            "user_info",
        ];
        let mut known: Vec<String> = OTHERS.map(str::to_owned).to_vec();
        for place in ["", "[[app]]", "[[app]]\n[[app.webhook]]", "[mercure]"] {
            known.extend(names_at(place));
        }
        assert!(known.len() > 40, "{known:?}");
        let crates = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let mut folders: Vec<_> = ["gateway", "pusher", "mercure"]
            .map(|name| crates.join(name).join("src"))
            .to_vec();
        let (mut named, mut unknown) = (0, Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let source = std::fs::read_to_string(&path).expect("a source");
                for sentence in fermata_testkit::sentences(&source) {
                    let words = sentence.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
                    // Variables of the environment are in capitals.
                    let words = words.filter(|word| {
                        word.trim_matches('_').contains('_') && word.to_ascii_uppercase() != *word
                    });
                    for word in words {
                        match known.iter().any(|name| name == word) {
                            true => named += 1,
                            false => {
                                unknown.push(format!("{}: {word}: {sentence}", path.display()))
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(unknown, Vec::<String>::new());
        assert!(named > 8, "{named}");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("listn = 'x'", "listn"),
            ("[[app]]\nid = '1'\nkey = 'k'", "secret"),
            ("[[app]]\nid = 'a/b'\nkey = 'k'\nsecret = 's'", "a/b"),
            ("tls_key = 'x'", "tls_certificate"),
            (
                "[[app]]\nid = '1'\nkey = 'k'\nsecret = 's'\n[[app.webhook]]\nurl = 'http://a'\nevents = ['joined']",
                "member_added",
            ),
        ] {
            let error = Settings::default()
                .read_toml("hub.toml", text)
                .expect_err(text);
            let error = error.to_string();
            assert!(
                error.contains("hub.toml") && error.contains(word),
                "{error}"
            );
        }
        let error = Settings::default().check().expect_err("no application");
        assert!(error.to_string().contains("--app"));
        for text in ["", "1", "1:2", "1:2:"] {
            assert!(parse_app(text).is_err(), "{text}");
        }
    }

    #[test]
    fn mercure_is_replaced_by_its_own_environment() {
        let variables = [
            ("MERCURE_PUBLISHER_JWT_KEY", "a"),
            ("MERCURE_SUBSCRIBER_JWT_KEY", "b"),
            ("SERVER_NAME", ":3000, http://localhost"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut settings = Settings::default();
        settings.read_environment(variables).expect("settings");
        settings.check().expect("settings");
        assert_eq!(settings.listen, ["0.0.0.0:3000", "127.0.0.1:80"]);
        assert_eq!(listen_of("localhost"), None);
        let mut settings = Settings::default();
        let text = "[mercure]\npublisher_key = 'a'\nanonymous = true\ncors_origins = '*'\npusher_app = '1'";
        settings.read_toml("hub.toml", text).expect("settings");
        let error = settings.check().expect_err("no such application");
        assert!(error.to_string().contains("pusher_app"));
    }

    #[test]
    fn a_file_with_tls_alone_opens_nothing_else() {
        let of = |text: &str| {
            let mut settings = Settings::default();
            settings.read_toml("hub.toml", text).expect(text);
            (settings.listen, settings.listen_tls)
        };
        let tls = "listen_tls = '0.0.0.0:443'\n";
        let list = |address: &str| vec![address.to_owned()];
        assert_eq!(of(""), (list(LISTEN), Vec::new()));
        assert_eq!(of(tls), (Vec::new(), list("0.0.0.0:443")));
        let both = format!("listen = '127.0.0.1:80'\n{tls}");
        assert_eq!(of(&both), (list("127.0.0.1:80"), list("0.0.0.0:443")));
    }

    #[test]
    fn reverb_is_replaced_by_its_own_environment() {
        let variables = [
            ("REVERB_APP_ID", "1"),
            ("REVERB_APP_KEY", "key"),
            ("REVERB_APP_SECRET", "secret"),
            ("REVERB_SERVER_PORT", "9000"),
            ("REVERB_APP_MAX_MESSAGE_SIZE", "20000"),
            ("REVERB_SCHEME", "https"),
            ("PATH", "/bin"),
        ];
        let of = |variables: &[(&str, &str)]| {
            let mut settings = Settings::default();
            let variables = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            settings.read_environment(variables).map(|()| settings)
        };
        let settings = of(&variables).expect("settings");
        assert_eq!(settings.listen, ["0.0.0.0:9000"]);
        assert_eq!(settings.apps[0].limits.message_bytes_max, 20_000);
        assert!(of(&variables[..2]).is_err());
        assert!(of(&[("REVERB_APP_PING_INTERVAL", "often")]).is_err());
    }
}
