//! The settings as a TOML file.

use fermata_config::Place;
use serde::Deserialize;
use toml::{Table, Value};

use super::{AppTable, Settings};
use crate::mercure::settings::Table as MercureTable;
use crate::written::SettingsError;

/// The tables other than the hub's own settings, in the form of the file.
#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    app: Vec<AppTable>,
    mercure: Option<MercureTable>,
}

impl Settings {
    /// Reads a file. `name` is the file's name, for errors.
    ///
    /// # Errors
    /// The file is invalid; the message has the file and the line.
    pub fn read_toml(&mut self, name: &str, text: &str) -> Result<(), SettingsError> {
        let wrong = |text: String| SettingsError::new(format!("{name}: {}", text.trim_end()));
        let own: Table = toml::from_str(text).map_err(|error| wrong(written(text, &error)))?;
        // As with the options: a file with only TLS addresses opens no plain listener.
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
                    "{key}: use text, a number, true, false, or a list of these"
                ))
            })?;
            self.set(Place::File(name), key, &values)?;
        }
        if self.own.tls_certificate.is_empty() != self.own.tls_key.is_empty() {
            let both = "tls_certificate and tls_key belong together; give both";
            return Err(wrong(both.to_owned()));
        }
        // Parse the text again, so that errors contain the line.
        let tables: Tables = toml::from_str(text).map_err(|error| wrong(written(text, &error)))?;
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

/// Describes an error by line, without quoting the line or a value, which may hold a secret.
fn written(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..at];
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    let message = error.message().trim_end();
    // `invalid type: string "VALUE", expected …`
    let without_value = message
        .starts_with("invalid ")
        .then(|| {
            message
                .split_once(['"', '`'])
                .zip(message.rsplit_once(", expected"))
        })
        .flatten()
        .map(|((start, _), (_, expected))| format!("{}, expected{expected}", start.trim_end()));
    format!(
        "line {line}: {}",
        without_value.as_deref().unwrap_or(message)
    )
}

/// Returns true if a key of the file is a separate table.
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
