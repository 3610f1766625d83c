//! Errors in items.

/// Reason why an item is refused. The texts are those of Pushpin's control port, because publishers compare them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// An object is required.
    #[error("{0} is not an object")]
    Object(String),
    /// A required field is missing.
    #[error("{place} does not contain {names}")]
    Missing {
        /// The object.
        place: String,
        /// The fields, of which the item needs at least one.
        names: &'static str,
    },
    /// A field has the wrong type.
    #[error("{place} contains '{name}' with wrong type")]
    Type {
        /// The object.
        place: String,
        /// The field.
        name: String,
    },
    /// A field is out of range, or contains invalid bytes.
    #[error("{place} contains '{name}' with invalid value")]
    Invalid {
        /// The object.
        place: String,
        /// The field.
        name: &'static str,
    },
    /// A field has an unknown value.
    #[error("{place} contains '{name}' with unknown value")]
    Unknown {
        /// The object.
        place: String,
        /// The field.
        name: &'static str,
    },
    /// The item has no format, so there is nothing to deliver.
    #[error("no formats specified")]
    Formats,
    /// A list or pair has an invalid element.
    #[error("{0}")]
    Element(&'static str),
}
