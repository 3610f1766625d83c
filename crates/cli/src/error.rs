//! Why a command is not carried out: a sentence for its user.

use std::fmt::Display;
use std::io;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for is not there, or cannot be; the sentence says what helps.
    #[error("{0}")]
    Misuse(String),
    /// The system has refused something.
    #[error("{what}: {cause}")]
    System {
        /// What it was about.
        what: String,
        /// Its answer.
        cause: io::Error,
    },
    /// The system has refused something, and its answer says what.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A setting of a server.
    #[error(transparent)]
    Setting(#[from] fermata_engine::SettingError),
    /// A setting of the edge.
    #[error(transparent)]
    EdgeSetting(#[from] fermata_edge::settings::SettingError),
    /// The edge does not start.
    #[error(transparent)]
    Edge(#[from] fermata_edge::server::StartError),
    /// A setting of the hub.
    #[error(transparent)]
    HubSetting(#[from] fermata_gateway::settings::SettingsError),
    /// The hub does not start.
    #[error(transparent)]
    Hub(#[from] fermata_gateway::StartError),
    /// A server does not answer at its control socket.
    #[error(transparent)]
    Control(#[from] fermata_engine::PublisherError),
    /// The load generator has no result.
    #[error(transparent)]
    Load(#[from] fermata_load::Error),
    /// What should be JSON is none.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Makes an error of the system's answer about something.
pub fn at<E: Into<io::Error>>(what: impl Display) -> impl FnOnce(E) -> Error {
    move |cause| Error::System {
        what: what.to_string(),
        cause: cause.into(),
    }
}

/// A sentence that was made for the user.
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
