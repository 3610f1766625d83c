//! Adds the hub's protocols to a server that also runs a PHP application.

use fermata_config::{Settings as ServerSettings, Source};
use fermata_engine::websocket::Route;
use fermata_engine::{Server, Worker};
use fermata_io::Kernel;
use fermata_mercure::resource::METADATA_PATH;
use fermata_tls::Tls;

use crate::fingerprint;
use crate::gateway::{HANDLER_REQUESTS, Hub};
use crate::mercure::settings::{MercureSettings, Table};
use crate::settings::{AppTable, Settings, SettingsError};
use crate::sockjs::opening as sockjs;
use crate::start::{EVENT_BYTES_MIN, EVENT_BYTES_MORE, body_bytes_max, open, pusher_note, route};
use crate::webhooks::Prepared;

/// Collects the protocols that an application enables, before the server starts.
#[derive(Default)]
pub struct HubBuilder {
    settings: Settings,
    has_path: bool,
}

/// The checked settings, with the memory that outlives a worker.
pub struct Opening {
    settings: Settings,
    prepared: Prepared,
    sockjs: Option<sockjs::Prepared>,
}

impl HubBuilder {
    /// Adds an application of the Pusher protocol, as a JSON object with the keys of an `[[app]]`. All applications share one path.
    ///
    /// # Errors
    /// A key or value is invalid, or the path differs from that of another application.
    pub fn add_pusher(&mut self, app: &str, path: &str) -> Result<(), SettingsError> {
        let table: AppTable = serde_json::from_str(app).map_err(settings_error)?;
        let app = table.into_app()?;
        if self.has_path && self.settings.own.path != path {
            return Err(SettingsError::new(format!(
                "path: another application has \"{}\"; use one path for all",
                self.settings.own.path
            )));
        }
        self.has_path = true;
        path.clone_into(&mut self.settings.own.path);
        self.settings.apps.push(app);
        Ok(())
    }

    /// Enables Mercure, as a JSON object with the keys of `[mercure]`.
    ///
    /// # Errors
    /// A key or value is invalid, or Mercure is already enabled.
    pub fn set_mercure(&mut self, mercure: &str) -> Result<(), SettingsError> {
        if self.settings.mercure.is_some() {
            return Err(SettingsError::new(
                "Mercure is already enabled: a server has one hub".to_owned(),
            ));
        }
        let table: Table = serde_json::from_str(mercure).map_err(settings_error)?;
        let mut settings = MercureSettings::default();
        table.apply(&mut settings)?;
        settings.choose_version()?;
        self.settings.mercure = Some(settings);
        Ok(())
    }

    /// Checks the settings and registers the routes. Has to be called before `server` starts.
    ///
    /// # Errors
    /// Two settings contradict each other, or a path is in use.
    pub fn open(mut self, server: &mut Server) -> Result<Opening, SettingsError> {
        self.settings.check_with(true)?;
        if let Some(fingerprint) = fingerprint::of(&self.settings) {
            server.set_fingerprint(fingerprint);
        }
        let found = server.settings().map_err(shown)?;
        self.check(&found)?;
        if let Some(mercure) = &mut self.settings.mercure {
            // The server's limit also applies to updates.
            mercure.update_bytes_max = found.event_bytes_max.saturating_sub(EVENT_BYTES_MORE);
            for line in mercure.fetch_keys()? {
                server.warn(&line);
            }
        }
        // A larger body would arrive as a file, but the hub reads bodies from memory.
        let body_bytes = body_bytes_max(&self.settings).min(found.body_memory_bytes_max);
        let sockets = Route {
            ping_interval_ms: Some(self.settings.own.ping_interval_s * 1000),
            pong_timeout_ms: Some(self.settings.own.activity_timeout_s * 1000),
            ..route(&self.settings)
        };
        if !self.settings.apps.is_empty() {
            self.add_pusher_routes(server, sockets.clone())?;
            let channels_max = self.settings.channels_per_connection_max();
            if found.channels_per_hold_max < channels_max {
                server
                    .set(
                        "channels_per_hold_max",
                        &channels_max.to_string(),
                        Source::Code,
                    )
                    .map_err(shown)?;
            }
        }
        if let Some(mercure) = &self.settings.mercure {
            for below in [
                "",
                "/subscriptions",
                "/subscriptions/{topic}",
                "/subscriptions/{topic}/{subscriber}",
            ] {
                let pattern = format!("{}{below}", fermata_mercure::PATH);
                server
                    .route(None, &pattern, HANDLER_REQUESTS)
                    .map_err(shown)?;
            }
            if mercure.hub.draft.is_some() {
                let typed = "/subscriptions/{type}/{match}/{subscriber}";
                let typed = format!("{}{typed}", fermata_mercure::PATH);
                for pattern in [typed.as_str(), METADATA_PATH] {
                    server
                        .route(None, pattern, HANDLER_REQUESTS)
                        .map_err(shown)?;
                }
            }
            server.note(&format!("Mercure at {}", fermata_mercure::PATH));
        }
        server
            .limit_body(HANDLER_REQUESTS, body_bytes as u64)
            .map_err(shown)?;
        let prepared = Prepared::new(&self.settings.apps)
            .map_err(|error| SettingsError::new(format!("webhook: {error}")))?;
        let sockjs = sockjs::Prepared::new(server, &self.settings, sockets, body_bytes)?;
        Ok(Opening {
            settings: self.settings,
            prepared,
            sockjs,
        })
    }

    fn add_pusher_routes(&self, server: &mut Server, sockets: Route) -> Result<(), SettingsError> {
        let path = &self.settings.own.path;
        server
            .websocket(&format!("{path}/app/{{key}}"), sockets)
            .map_err(shown)?;
        // Names of channels and users may contain escaped slashes, which `{rest...}` does not match.
        for below in [
            "{rest...}",
            "channels/{channel}",
            "channels/{channel}/users",
            "users/{user}/terminate_connections",
        ] {
            let pattern = format!("{path}/apps/{{id}}/{below}");
            server
                .route(None, &pattern, HANDLER_REQUESTS)
                .map_err(shown)?;
        }
        for above in sockjs::prefixes(path) {
            let pattern = format!("{above}/app/{{key}}/{{server}}/{{session}}/{{transport}}");
            server
                .route(None, &pattern, HANDLER_REQUESTS)
                .map_err(shown)?;
        }
        server.note(&pusher_note(&self.settings));
        Ok(())
    }

    /// Checks that the application's server settings suffice for the hub.
    fn check(&self, server: &ServerSettings) -> Result<(), SettingsError> {
        let wrong = |text: String| Err(SettingsError::new(text));
        let each = self
            .settings
            .apps
            .iter()
            .map(|app| app.limits.event_data_bytes_max);
        let data_bytes = each.max().unwrap_or_default();
        let event_bytes = EVENT_BYTES_MIN.max(data_bytes + EVENT_BYTES_MORE);
        if server.event_bytes_max < event_bytes {
            return wrong(format!(
                "event_bytes_max (Limits eventBytes) is {}, and events of Pusher and Mercure need {event_bytes}; raise it, or lower \
                 eventDataBytesMax of Fermata\\Pusher",
                server.event_bytes_max
            ));
        }
        Ok(())
    }
}

impl Opening {
    /// Creates the hub in a worker, before the worker's first event.
    pub fn begin(self, worker: &mut Worker<Tls<Kernel>>) -> Hub {
        open(self.settings, self.prepared, self.sockjs)(worker)
    }
}

fn shown(error: impl std::fmt::Display) -> SettingsError {
    SettingsError::new(error.to_string())
}

/// Removes line and column from an error. They refer to JSON that the PHP extension has generated.
fn settings_error(error: serde_json::Error) -> SettingsError {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    SettingsError::new(text[..end].to_owned())
}
