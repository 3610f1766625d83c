//! Errors of commands; each is printed to the user as one sentence.

use std::fmt::Display;
use std::io;

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Request that cannot be fulfilled; the text includes the fix.
    #[error("{0}")]
    Misuse(String),
    /// System call error with its subject.
    #[error("{what}: {cause}")]
    System {
        /// Subject of the operation, such as a path.
        what: String,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// System call error whose text already contains its subject.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Invalid setting of a server.
    #[error(transparent)]
    Setting(#[from] fermata_engine::SettingError),
    /// Invalid setting of the edge.
    #[error(transparent)]
    EdgeSetting(#[from] fermata_edge::settings::SettingError),
    /// Failed start of the edge.
    #[error(transparent)]
    Edge(#[from] fermata_edge::server::StartError),
    /// Invalid setting of the hub.
    #[error(transparent)]
    HubSetting(#[from] fermata_gateway::settings::SettingsError),
    /// Failed start of the hub.
    #[error(transparent)]
    Hub(#[from] fermata_gateway::StartError),
    /// Failed request to a server's control socket.
    #[error(transparent)]
    Control(#[from] fermata_engine::PublisherError),
    /// Failure of the load generator.
    #[error(transparent)]
    Load(#[from] fermata_load::Error),
    /// Invalid JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Returns a function that converts a system error to [`Error::System`] with the subject `what`; for `map_err`.
pub fn at<E: Into<io::Error>>(what: impl Display) -> impl FnOnce(E) -> Error {
    move |cause| Error::System {
        what: what.to_string(),
        cause: cause.into(),
    }
}

/// Uses a message for the user as it is.
impl From<String> for Error {
    fn from(sentence: String) -> Error {
        Error::Misuse(sentence)
    }
}

impl From<&str> for Error {
    fn from(sentence: &str) -> Error {
        Error::Misuse(sentence.to_owned())
    }
}
