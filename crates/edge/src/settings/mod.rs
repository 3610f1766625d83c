//! Every setting of the edge, declared once: [`table()`].
//!
//! A value comes from the built-in default, a file (our own TOML or a `pushpin.conf`), the environment or the command
//! line; the later one in this list wins, and all of them pass the same checks with the same errors.

mod pushpin;
#[cfg(test)]
mod reference;
mod table;
mod toml;

use fermata_config::{EDGE_PREFIX, is_service_variable, nearest};

pub use pushpin::{Notice, read_pushpin};
pub use table::{Kind, Setting, Settings, table};
pub use toml::read_toml;

/// Why a value is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No such setting.
    #[error("{place}: {name} is no setting of the edge{}", .similar.map_or(String::new(), |name| format!("; did you mean {name}?")))]
    Unknown {
        /// Where it stands.
        place: String,
        /// The name as given.
        name: String,
        /// The setting with the most similar name.
        similar: Option<&'static str>,
    },
    /// A value of the wrong kind.
    #[error("{place}: {name} is {value:?}; give {fix}")]
    Value {
        /// Where it stands.
        place: String,
        /// The setting.
        name: &'static str,
        /// The value; hidden where it is a secret.
        value: String,
        /// What would be accepted.
        fix: String,
    },
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
    /// Sets a value; `place` is where it comes from. Lists are replaced as a whole.
    ///
    /// # Errors
    /// There is no such setting, or the value has no meaning.
    pub fn set(&mut self, place: &str, name: &str, values: &[String]) -> Result<(), SettingError> {
        let setting = find(name).ok_or_else(|| SettingError::Unknown {
            place: place.to_owned(),
            name: name.to_owned(),
            similar: similar(name),
        })?;
        let wrong = |value: &str, fix| SettingError::Value {
            place: place.to_owned(),
            name: setting.name,
            value: if setting.kind == Kind::Secret {
                "(hidden)".to_owned()
            } else {
                value.to_owned()
            },
            fix,
        };
        if values.len() != 1 && setting.kind != Kind::List {
            return Err(wrong(&values.join(", "), "one value".to_owned()));
        }
        for value in values {
            setting.kind.check(value).map_err(|fix| wrong(value, fix))?;
        }
        self.assign(setting, values);
        Ok(())
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
            let Some(name) = variable.strip_prefix(EDGE_PREFIX) else {
                continue;
            };
            let name = name.to_ascii_lowercase();
            if find(&name).is_none() && is_service_variable(&variable, &value) {
                continue;
            }
            let values = find(&name).map_or_else(Vec::new, |setting| setting.kind.split(&value));
            self.set(&variable, &name, &values)?;
        }
        Ok(())
    }
}

fn find(name: &str) -> Option<&'static Setting> {
    table().iter().find(|setting| setting.name == name)
}

/// The setting with the most similar name, if it is similar.
fn similar(name: &str) -> Option<&'static str> {
    let (similar, changes) = nearest(name, table().iter().map(|setting| setting.name))?;
    (changes <= name.len() / 3 + 1).then_some(similar)
}

#[cfg(test)]
mod tests;
