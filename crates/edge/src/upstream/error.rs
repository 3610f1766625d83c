//! Errors that prevent sending a request to a target, by cause: the target, the request or the edge.

use std::io;

use fermata_fastcgi::codec::VariablesError;
use fermata_io::process::is_short_of_descriptors;

/// Reason why a request is not sent to a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// The target cannot be used. The error counts against the target's health.
    #[error("{0}")]
    Target(String),
    /// The target cannot serve this request. Contains status and reason for the client, if no other target can serve it.
    #[error("{1}")]
    Request(u16, String),
    /// The edge cannot send the request: it lacks descriptors, memory, a file or a route.
    #[error("{0}")]
    Local(String),
}

impl UpstreamError {
    /// Returns the text for the log.
    pub fn reason(&self) -> &str {
        match self {
            UpstreamError::Target(reason)
            | UpstreamError::Request(_, reason)
            | UpstreamError::Local(reason) => reason,
        }
    }

    /// Converts an error of connecting to `place`.
    pub fn of_connect(place: &str, error: &io::Error) -> Self {
        let reason = format!("{place}: {error}");
        if is_short_of_descriptors(error) {
            UpstreamError::Local(reason)
        } else {
            UpstreamError::Target(reason)
        }
    }
}

impl From<VariablesError> for UpstreamError {
    fn from(error: VariablesError) -> Self {
        let status = match error {
            VariablesError::Path => 400,
            VariablesError::Script => 404,
            VariablesError::Folder => 308,
        };
        UpstreamError::Request(status, error.to_string())
    }
}

pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_our_own() {
        let short = io::Error::from_raw_os_error(24);
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        for (error, is_own) in [(short, true), (reset, false)] {
            let error = UpstreamError::of_connect("a:1", &error);
            assert_eq!(
                matches!(error, UpstreamError::Local(_)),
                is_own,
                "{error:?}"
            );
            assert!(error.reason().starts_with("a:1: "));
        }
    }

    #[test]
    fn a_reason_begins_as_a_sentence_does() {
        assert_eq!(capitalized("the path"), "The path");
        assert_eq!(capitalized(""), "");
    }
}
