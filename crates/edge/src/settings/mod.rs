//! Settings of the edge, each declared once in [`table()`].
//!
//! A value comes from the built-in default, a file (TOML or a `pushpin.conf`), the environment or
//! the command line. Later sources in this list take precedence; all values pass the same checks.

mod pushpin;
#[cfg(test)]
mod reference;
mod table;
mod toml;

use fermata_config::is_service_variable;

pub use fermata_config::{Kind, Place};
pub use pushpin::{Notice, read_pushpin};
pub use table::{Setting, Settings, table};
pub use toml::read_toml;

use self::table::declared;

/// Reason why settings are rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The setting does not exist, or its value is invalid.
    #[error(transparent)]
    Setting(#[from] fermata_config::SettingError),
    /// The file cannot be parsed.
    #[error("{place}: {problem}")]
    File {
        /// Name of the file, with the line if known.
        place: String,
        /// Description of the error.
        problem: String,
    },
}

impl Settings {
    /// Sets a value. A list replaces the previous one.
    ///
    /// # Errors
    /// The setting does not exist, or the value is invalid.
    pub fn set(
        &mut self,
        place: Place<'_>,
        name: &str,
        values: &[String],
    ) -> Result<(), SettingError> {
        let assign = |setting: &Setting, values: &[&str]| self.assign(setting, values);
        Ok(declared().set(place, name, values, assign)?)
    }

    /// Reads environment variables such as `FERMATA_EDGE_MESSAGE_RATE`. Lists are separated by
    /// blanks.
    ///
    /// # Errors
    /// A variable with this prefix is not a setting, or its value is invalid.
    pub fn set_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), SettingError> {
        for (variable, value) in variables {
            let Some(name) = declared().name_of(&variable) else {
                // The variable belongs to another program.
                continue;
            };
            let values = match declared().find(&name) {
                None if is_service_variable(&variable, &value) => continue,
                None => Vec::new(),
                Some((_, setting)) => setting.kind.split(&value),
            };
            let values: Vec<String> = values.into_iter().map(str::to_owned).collect();
            self.set(Place::Environment, &name, &values)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
