//! Why the edge does not start.

/// Why the edge does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting that has no meaning here; the sentence names it.
    #[error("{0}")]
    Setting(String),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] fermata_engine::StartError),
}
