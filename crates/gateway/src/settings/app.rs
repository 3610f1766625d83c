//! An application as a table of the file, a JSON object of PHP code, or an option.

use fermata_pusher::webhook::{Kind, Webhook};
use fermata_pusher::{App, ClientEvents, Resume};
use serde::Deserialize;

use crate::written::{SettingsError, take};

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

/// Parses the option `--app`: `ID:KEY:SECRET`.
///
/// # Errors
/// A part is missing or invalid.
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
