//! Errors of starting the edge.

/// Reason why the edge cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An invalid setting; the text contains its name.
    #[error("{0}")]
    Setting(String),
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] fermata_engine::StartError),
}
