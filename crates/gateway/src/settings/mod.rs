//! What the hub is to be: its own settings, of which each is declared once in `table.rs`, applications and Mercure.
//!
//! A value comes from the built-in default, a TOML file, the environment (by Reverb's and the Mercure hub's own names) or an
//! option; the later one in this list wins, and all of them pass the same checks with the same errors.

mod app;
mod check;
mod environment;
mod file;
#[cfg(test)]
mod reference;
mod table;

pub use fermata_config::Place;
use fermata_pusher::App;

use crate::mercure::settings::MercureSettings;
pub use crate::written::SettingsError;
pub(crate) use app::AppTable;
pub use app::parse_app;
pub use table::Settings as OwnSettings;

/// What the hub is to be.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Its own settings.
    pub own: OwnSettings,
    /// Applications.
    pub apps: Vec<App>,
    /// How Mercure is spoken, if it is.
    pub mercure: Option<MercureSettings>,
    /// What was given and changes nothing: said at the start.
    pub notes: Vec<String>,
}

impl Settings {
    /// Sets one of the hub's own settings. Lists are replaced as a whole.
    ///
    /// # Errors
    /// There is no such setting, or the value has no meaning.
    pub fn set(
        &mut self,
        place: Place<'_>,
        name: &str,
        values: &[String],
    ) -> Result<(), SettingsError> {
        let assign = |setting: &table::Setting, values: &[&str]| self.own.assign(setting, values);
        let set = table::declared().set(place, name, values, assign);
        set.map_err(|error| SettingsError::new(error.to_string()))
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

#[cfg(test)]
mod tests;
