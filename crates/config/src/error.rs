//! Errors of settings; each message includes the fix.

use crate::value::Kind;
use crate::value_error::ValueError;

/// Maximum number of characters of a rejected value in an error message.
const SHOWN_CHARS_MAX: usize = 80;

/// Reason why a setting was rejected. Every message contains the setting, the value, the cause and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The setting does not exist.
    #[error("{place} is not a setting{}", suggestion_text(.suggestion, .page))]
    Unknown {
        /// Source and name as the user wrote them.
        place: String,
        /// Most similar setting, spelled for the same source; `None` if no name is similar enough.
        suggestion: Option<String>,
        /// Documentation page that lists all settings.
        page: &'static str,
    },
    /// The setting applies only to servers in PHP, not to this program.
    #[error("{place} is a setting of servers in PHP alone; {page} lists those of this program")]
    OfPhp {
        /// Source and name as the user wrote them.
        place: String,
        /// Documentation page that lists this program's settings.
        page: &'static str,
    },
    /// The value is invalid for this setting.
    #[error("{place} is {value}: that is {cause}; give {fix}")]
    Invalid {
        /// Source of the value and name of the setting.
        place: String,
        /// Value, quoted and truncated.
        value: String,
        /// Reason why the value is invalid.
        cause: ValueError,
        /// Description of the accepted values.
        fix: String,
    },
    /// Two settings contradict each other.
    #[error("{name} is {value}, but {cause}; {fix}")]
    Conflict {
        /// Setting whose value is too large for the other setting.
        name: &'static str,
        /// Value of `name`.
        value: String,
        /// Other setting and its value, as a clause.
        cause: String,
        /// Required change, as a clause.
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

/// Returns the value in quotes with control characters escaped, truncated to [`SHOWN_CHARS_MAX`] characters.
pub(crate) fn quoted(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &value[..end]),
        None => format!("{value:?}"),
    }
}
