//! Every setting of the edge, declared once: [`table()`].
//!
//! A value comes from the built-in default, a file (our own TOML or a `pushpin.conf`), the environment or the command
//! line; the later one in this list wins, and all of them pass the same checks with the same errors.

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

/// Why the settings are not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such setting, or a value has no meaning.
    #[error(transparent)]
    Setting(#[from] fermata_config::SettingError),
    /// A file that cannot be read as one of settings.
    #[error("{place}: {problem}")]
    File {
        /// Its name, and the line where it is known.
        place: String,
        /// What is wrong.
        problem: String,
    },
}

impl Settings {
    /// Sets a value. Lists are replaced as a whole.
    ///
    /// # Errors
    /// There is no such setting, or the value has no meaning.
    pub fn set(
        &mut self,
        place: Place<'_>,
        name: &str,
        values: &[String],
    ) -> Result<(), SettingError> {
        let assign = |setting: &Setting, values: &[&str]| self.assign(setting, values);
        Ok(declared().set(place, name, values, assign)?)
    }

    /// Takes what the environment says: `FERMATA_EDGE_MESSAGE_RATE`. Lists are separated by blanks.
    ///
    /// # Errors
    /// A variable that begins so and is no setting, or a value without meaning.
    pub fn set_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), SettingError> {
        for (variable, value) in variables {
            let Some(name) = declared().name_of(&variable) else {
                // It is somebody else's.
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
