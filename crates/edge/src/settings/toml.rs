//! Our own configuration: TOML of names and values.

use ::toml::{Table, Value};
use fermata_config::Place;

use super::{SettingError, Settings};

/// Reads a file into `settings`; `place` is its name.
///
/// # Errors
/// It is no TOML, or has a name or value without meaning.
pub fn read_toml(settings: &mut Settings, place: &str, text: &str) -> Result<(), SettingError> {
    let table: Table = text
        .parse()
        .map_err(|error: ::toml::de::Error| SettingError::File {
            place: place.to_owned(),
            problem: error.to_string().trim_end().to_owned(),
        })?;
    for (name, value) in &table {
        let values = match value {
            Value::Array(values) => values
                .iter()
                .map(|value| text_of(place, name, value))
                .collect::<Result<_, _>>()?,
            value => vec![text_of(place, name, value)?],
        };
        settings.set(Place::File(place), name, &values)?;
    }
    Ok(())
}

fn text_of(place: &str, name: &str, value: &Value) -> Result<String, SettingError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Boolean(switch) => Ok(switch.to_string()),
        _ => Err(SettingError::File {
            place: place.to_owned(),
            problem: format!(
                "{name} is neither text nor number nor true or false, nor a list of these"
            ),
        }),
    }
}
