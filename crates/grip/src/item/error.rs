//! Why an item is refused.

/// Why an item is refused. The texts are those of Pushpin's control port, which publishers match.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// Another type where an object belongs.
    #[error("{0} is not an object")]
    Object(String),
    /// A field that is needed.
    #[error("{place} does not contain {names}")]
    Missing {
        /// The object.
        place: String,
        /// The fields of which it needs one.
        names: &'static str,
    },
    /// A field of another type.
    #[error("{place} contains '{name}' with wrong type")]
    Type {
        /// The object.
        place: String,
        /// The field.
        name: String,
    },
    /// A field out of range, or with bytes that cannot stand there.
    #[error("{place} contains '{name}' with invalid value")]
    Invalid {
        /// The object.
        place: String,
        /// The field.
        name: &'static str,
    },
    /// A name that has no meaning.
    #[error("{place} contains '{name}' with unknown value")]
    Unknown {
        /// The object.
        place: String,
        /// The field.
        name: &'static str,
    },
    /// Nothing to deliver.
    #[error("no formats specified")]
    Formats,
    /// A list or pair with something else in it.
    #[error("{0}")]
    Element(&'static str),
}
