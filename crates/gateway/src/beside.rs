//! The hub beside the routes of a program.

use fermata_config::{Settings as ServerSettings, Source};
use fermata_engine::websocket::Route;
use fermata_engine::{Server, Worker};
use fermata_io::Kernel;
use fermata_mercure::resource::METADATA_PATH;
use fermata_tls::Tls;

use crate::gateway::{HANDLER_REQUESTS, Hub};
use crate::mercure::settings::{MercureSettings, Table};
use crate::settings::{AppTable, Settings, SettingsError};
use crate::sockjs::opening as sockjs;
use crate::start::{EVENT_BYTES_MIN, EVENT_BYTES_MORE, body_bytes_max, open, pusher_note, route};
use crate::webhooks::Prepared;

/// What a program wants to be spoken beside its own routes.
#[derive(Default)]
pub struct Doors {
    settings: Settings,
    has_path: bool,
}

/// Checked, with the memory that outlives a worker.
pub struct Opening {
    settings: Settings,
    prepared: Prepared,
    sockjs: Option<sockjs::Prepared>,
}

impl Doors {
    /// An application of the Pusher protocol, as a JSON object with the keys of an `[[app]]`. All have one path.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add_pusher(&mut self, app: &str, path: &str) -> Result<(), SettingsError> {
        let table: AppTable = serde_json::from_str(app).map_err(said)?;
        let app = table.into_app()?;
        if self.has_path && self.settings.own.path != path {
            return Err(SettingsError::new(format!(
                "path: another application has \"{}\"; give all the same",
                self.settings.own.path
            )));
        }
        self.has_path = true;
        path.clone_into(&mut self.settings.own.path);
        self.settings.apps.push(app);
        Ok(())
    }

    /// Mercure, as a JSON object with the keys of `[mercure]`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn set_mercure(&mut self, mercure: &str) -> Result<(), SettingsError> {
        if self.settings.mercure.is_some() {
            return Err(SettingsError::new(
                "Mercure is spoken already: a server has one hub".to_owned(),
            ));
        }
        let table: Table = serde_json::from_str(mercure).map_err(said)?;
        let mut settings = MercureSettings::default();
        table.apply(&mut settings)?;
        settings.choose_version()?;
        self.settings.mercure = Some(settings);
        Ok(())
    }

    /// Checks all of it, and takes the paths. To be called before `server` starts.
    ///
    /// # Errors
    /// What excludes what, or which path is taken.
    pub fn open(mut self, server: &mut Server) -> Result<Opening, SettingsError> {
        self.settings.check_with(true)?;
        let found = server.settings().map_err(shown)?;
        self.check(&found)?;
        if let Some(mercure) = &mut self.settings.mercure {
            // The server's bound is that of updates, too.
            mercure.update_bytes_max = found.event_bytes_max.saturating_sub(EVENT_BYTES_MORE);
            for line in mercure.fetch_keys()? {
                server.warn(&line);
            }
        }
        // Larger ones would come as files, and are looked at as a whole.
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
        // Names of channels and users may have slashes that are escaped, which `{rest...}` does not match.
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

    /// Whether what the program has set is enough.
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
    /// Begins in a worker, before its first event.
    pub fn begin(self, worker: &mut Worker<Tls<Kernel>>) -> Hub {
        open(self.settings, self.prepared, self.sockjs)(worker)
    }
}

fn shown(error: impl std::fmt::Display) -> SettingsError {
    SettingsError::new(error.to_string())
}

/// Without the place in a text that nobody has written.
fn said(error: serde_json::Error) -> SettingsError {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    SettingsError::new(text[..end].to_owned())
}
