//! What ends a run before it has a result.

use std::io;

/// Why `fermata load` could not do what was asked. Every message names the option or the step, the
/// cause and, where there is one, the fix.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option's value cannot be used.
    #[error("{option}: {cause}; {fix}")]
    Option {
        /// The option as it is typed.
        option: String,
        /// What is wrong with it.
        cause: String,
        /// What to give instead.
        fix: String,
    },
    /// The system refused something that the run needs.
    #[error("{step}: {source}")]
    System {
        /// What was being done.
        step: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn option(option: &str, cause: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Option {
            option: option.to_string(),
            cause: cause.into(),
            fix: fix.into(),
        }
    }

    pub(crate) fn system(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        move |source| Self::System { step, source }
    }
}
