//! What is wrong with a setting, in a sentence that says how to mend it.

use crate::builder::Source;
use crate::table::{Setting, Settings, table};
use crate::value::Kind;
use crate::value_error::ValueError;

/// Longest part of a refused value that an error repeats.
const SHOWN_CHARS_MAX: usize = 80;

/// A setting could not be accepted. Every message names the setting, the value, the cause and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no setting of that name.
    #[error("{place} is not a setting{}", suggestion_text(.suggestion))]
    Unknown {
        /// The name as the user wrote it, with the place.
        place: String,
        /// The setting with the most similar name, written for the same place.
        suggestion: Option<String>,
    },
    /// The text is no value of this setting.
    #[error("{place} is {value}: that is {cause}; give {fix}")]
    Invalid {
        /// Where the value stands, naming the setting.
        place: String,
        /// The value, quoted and shortened.
        value: String,
        /// What is wrong with it.
        cause: ValueError,
        /// What would be accepted.
        fix: String,
    },
    /// Two settings exclude each other.
    #[error("{name} is {value}, but {cause}; {fix}")]
    Conflict {
        /// The setting that is too large for the other.
        name: &'static str,
        /// Its value.
        value: String,
        /// The other setting and its value, as a clause.
        cause: String,
        /// What to change, as a clause.
        fix: String,
    },
}

impl SettingError {
    pub(crate) fn invalid(
        setting: &Setting,
        source: Source,
        value: &str,
        cause: ValueError,
    ) -> Self {
        Self::Invalid {
            place: place(setting, source),
            value: match setting.kind {
                Kind::Edges | Kind::LogServers | Kind::Pairs | Kind::Secret => {
                    "not shown, since it may hold a key".to_owned()
                }
                _ => quoted(value),
            },
            cause,
            fix: setting.kind.fix(),
        }
    }
}

fn suggestion_text(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean {name}?"),
        None => "; docs/reference/settings.md lists them all".to_owned(),
    }
}

/// How the user knows this setting in the place where the value was given.
fn place(setting: &Setting, source: Source) -> String {
    match (source, setting.code) {
        (Source::Environment, _) => format!("environment variable {}", setting.environment_name()),
        (Source::Ini, _) => format!("INI setting {}", setting.ini_name()),
        (Source::Code, Some(code)) => format!("setting {} ({code})", setting.name),
        (Source::Code | Source::Program | Source::Default, _) => {
            format!("setting {}", setting.name)
        }
    }
}

/// Why a text is no value of the setting `name`, for a program that has a setting of its own in its place. `None`: it is one, or
/// there is no such setting.
pub fn problem(name: &str, value: &str) -> Option<ValueError> {
    let setting = table().iter().find(|setting| setting.name == name)?;
    Settings::default().assign(setting, value).err()
}

/// Checks the addresses of a setting that a program has in the place of `listen`, of which `url` makes those of `listen`.
///
/// # Errors
/// What is wrong with one of them, in the words of `setting`; `fix` is what to give.
pub fn check_addresses(
    setting: &str,
    addresses: &[String],
    url: impl Fn(&str) -> String,
    fix: &str,
) -> Result<(), String> {
    for address in addresses {
        if let Some(cause) = problem("listen", &url(address)) {
            let shown = quoted(address);
            return Err(format!("{setting} is {shown}: that is {cause}; give {fix}"));
        }
    }
    Ok(())
}

/// The value in quotes, with control characters escaped, cut where it gets long.
pub(crate) fn quoted(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &value[..end]),
        None => format!("{value:?}"),
    }
}
