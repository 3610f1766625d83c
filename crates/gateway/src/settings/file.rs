//! The settings as a TOML file.

use fermata_config::Place;
use serde::Deserialize;
use toml::{Table, Value};

use super::{AppTable, Settings};
use crate::mercure::settings::Table as MercureTable;
use crate::written::SettingsError;

/// What is there beside the hub's own settings, as it is written.
#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    app: Vec<AppTable>,
    mercure: Option<MercureTable>,
}

impl Settings {
    /// Takes what a file says. `name` is the file's, for errors.
    ///
    /// # Errors
    /// The file, the place in it and what is wrong.
    pub fn read_toml(&mut self, name: &str, text: &str) -> Result<(), SettingsError> {
        let wrong = |text: String| SettingsError::new(format!("{name}: {}", text.trim_end()));
        let own: Table = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        // As by the options: a file that asks for TLS alone has nothing opened without it.
        if own.contains_key("listen_tls") {
            self.own.listen.clear();
        }
        for (key, value) in own.iter().filter(|(key, _)| !is_table(key)) {
            let values = match value {
                Value::Array(values) => values.iter().map(text_of).collect(),
                value => text_of(value).map(|text| vec![text]),
            };
            let values: Vec<String> = values.ok_or_else(|| {
                wrong(format!(
                    "{key} is neither text nor number nor true or false, nor a list of these"
                ))
            })?;
            self.set(Place::File(name), key, &values)?;
        }
        if self.own.tls_certificate.is_empty() != self.own.tls_key.is_empty() {
            let both = "tls_certificate and tls_key belong together; give both";
            return Err(wrong(both.to_owned()));
        }
        // From the text once more, for errors that show the line.
        let tables: Tables = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        for table in tables.app {
            let app = table.into_app().map_err(|error| wrong(error.to_string()))?;
            self.apps.push(app);
        }
        if let Some(table) = tables.mercure {
            let mercure = self.mercure.get_or_insert_default();
            table
                .apply(mercure)
                .map_err(|error| wrong(error.to_string()))?;
        }
        Ok(())
    }
}

/// Whether a key of the file is a table of its own kind.
fn is_table(key: &str) -> bool {
    matches!(key, "app" | "mercure")
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Boolean(switch) => Some(switch.to_string()),
        _ => None,
    }
}
