//! The edge's own configuration format: TOML with the names of settings and their values.

use ::toml::{Table, Value};
use fermata_config::Place;

use super::{SettingError, Settings};

/// Reads a file into `settings`; `place` is its name.
///
/// # Errors
/// The file is not valid TOML, or contains an unknown name or an invalid value.
pub fn read_toml(settings: &mut Settings, place: &str, text: &str) -> Result<(), SettingError> {
    let table: Table = text
        .parse()
        .map_err(|error: ::toml::de::Error| SettingError::File {
            place: place.to_owned(),
            problem: written(text, &error),
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

/// Returns position and cause of a parse error. Omits the line itself, which may contain a key.
fn written(text: &str, error: &::toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..at];
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    format!("line {line}: {}", error.message().trim_end())
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
