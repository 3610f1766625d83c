//! Settings of the hub: its own, each declared once in `table.rs`, applications, and Mercure.
//!
//! Sources are the built-in default, a TOML file, the environment (by the names of Reverb and the Mercure hub) and the options.
//! Later sources take precedence. All values pass the same checks with the same errors.

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

/// Complete settings of the hub.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The hub's own settings.
    pub own: OwnSettings,
    /// Pusher applications.
    pub apps: Vec<App>,
    /// Settings of Mercure; `None` = Mercure is disabled.
    pub mercure: Option<MercureSettings>,
    /// Lines about settings without effect, to log at the start.
    pub notes: Vec<String>,
}

impl Settings {
    /// Sets one setting of the hub. A list replaces the previous list.
    ///
    /// # Errors
    /// The setting does not exist, or the value is invalid.
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

    /// Returns the maximum size of a client's message over all applications, in bytes.
    pub fn message_bytes_max(&self) -> usize {
        let each = self.apps.iter().map(|app| app.limits.message_bytes_max);
        each.max().unwrap_or_default()
    }

    /// Returns the maximum size of an event's data, in bytes.
    pub fn event_data_bytes_max(&self) -> usize {
        let each = self.apps.iter().map(|app| app.limits.event_data_bytes_max);
        let update = self.mercure.as_ref().map(|it| it.update_bytes_max);
        each.chain(update).max().unwrap_or_default()
    }

    /// Returns the maximum number of channels per connection over all applications.
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
