//! What is wrong with a setting, in a sentence that says how to mend it.

use crate::value::Kind;
use crate::value_error::ValueError;

/// Longest part of a refused value that an error repeats.
const SHOWN_CHARS_MAX: usize = 80;

/// A setting could not be accepted. Every message names the setting, the value, the cause and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no setting of that name.
    #[error("{place} is not a setting{}", suggestion_text(.suggestion, .page))]
    Unknown {
        /// The name as the user wrote it, with the place.
        place: String,
        /// The setting with the most similar name, written for the same place.
        suggestion: Option<String>,
        /// The page that lists all settings.
        page: &'static str,
    },
    /// Another program's: a server in PHP.
    #[error("{place} is a setting of servers in PHP alone; {page} lists those of this program")]
    OfPhp {
        /// The name as the user wrote it, with the place.
        place: String,
        /// The page that lists the settings of this program.
        page: &'static str,
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
    pub(crate) fn invalid(place: String, kind: &Kind, value: &str, cause: ValueError) -> Self {
        Self::Invalid {
            place,
            value: match kind {
                Kind::Edges | Kind::LogServers | Kind::Pairs | Kind::Secret => {
                    "not shown, since it may hold a key".to_owned()
                }
                _ => quoted(value),
            },
            cause,
            fix: kind.fix(),
        }
    }
}

fn suggestion_text(suggestion: &Option<String>, page: &str) -> String {
    match suggestion {
        Some(name) => format!("; did you mean {name}?"),
        None => format!("; {page} lists them all"),
    }
}

/// The value in quotes, with control characters escaped, cut where it gets long.
pub(crate) fn quoted(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &value[..end]),
        None => format!("{value:?}"),
    }
}
