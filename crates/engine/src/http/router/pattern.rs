//! The patterns of routes, and what may be wrong with them.

use crate::http::files::DirectoryError;
use crate::websocket::OptionError;

/// Most segments of a pattern; bounds the depth of a search.
pub const SEGMENTS_MAX: usize = 64;

/// Most bytes that a route may let bodies have: a terabyte.
pub const BODY_BYTES_MAX: u64 = 1 << 40;

/// A route that cannot be added: a mistake in the program.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// Patterns are compared with paths, which always start with a slash.
    #[error(
        "the path {0:?} does not start with /; write it as it stands in the URL after the host"
    )]
    NoSlash(String),
    /// Query and fragment are no part of the path.
    #[error(
        "the path {0:?} holds ? or #; routes match the path only, read the query from the request"
    )]
    NotPath(String),
    /// Braces stand for a whole segment.
    #[error(
        "the path {0:?} has a malformed parameter; a segment is either text, {{name}} or {{name...}}"
    )]
    Braces(String),
    /// A name must be usable as an identifier.
    #[error(
        "the parameter name {0:?} is malformed; use letters, digits and _, starting with no digit"
    )]
    ParameterName(String),
    /// A second parameter of this name would hide the first.
    #[error("the parameter {0:?} stands twice in one path; give each its own name")]
    ParameterTwice(String),
    /// `{name...}` takes all that follows.
    #[error("the path {0:?} goes on after {{name...}}; such a parameter must be the last segment")]
    RestNotLast(String),
    /// More than [`SEGMENTS_MAX`].
    #[error("the path {0:?} has more than {SEGMENTS_MAX} segments; shorten it")]
    TooDeep(String),
    /// Not a token (RFC 9110, 9.1).
    #[error("the method {0:?} is malformed; methods are words such as GET")]
    Method(String),
    /// More than [`BODY_BYTES_MAX`].
    #[error("a body of {0} bytes is over {BODY_BYTES_MAX}; give a smaller limit")]
    BodyBytes(u64),
    /// There is such a route already; parameter names make no difference.
    #[error("there already is a handler for {method} {pattern}; remove one of the two")]
    Duplicate {
        /// The method, or `any method`.
        method: String,
        /// The pattern that was to be added.
        pattern: String,
    },
    /// An option of a WebSocket that cannot work.
    #[error("the WebSocket at {pattern}: {cause}")]
    WebSocket {
        /// Its path.
        pattern: String,
        /// What is wrong with the option.
        cause: OptionError,
    },
    /// There is already a directory at this prefix.
    #[error("there already is a directory at {0:?}; remove one of the two")]
    DuplicateDirectory(String),
    /// Parameters make no sense in the prefix of a directory.
    #[error("the prefix {0:?} of a directory has parameters; use literal text")]
    PrefixParameter(String),
    /// The directory cannot be read.
    #[error(
        "the directory {path} cannot be served: {reason}; check the path, its permissions and the options"
    )]
    Directory {
        /// As it was given.
        path: String,
        /// What is wrong with it.
        reason: DirectoryError,
    },
}

pub(super) enum Segment<'p> {
    Literal(&'p str),
    Parameter(&'p str),
    Rest(&'p str),
}

impl<'p> Segment<'p> {
    pub fn name(&self) -> Option<&'p str> {
        match self {
            Self::Literal(_) => None,
            Self::Parameter(name) | Self::Rest(name) => Some(name),
        }
    }
}

pub(super) fn parse_pattern(pattern: &str) -> Result<Vec<Segment<'_>>, RouteError> {
    let Some(inside) = pattern.strip_prefix('/') else {
        return Err(RouteError::NoSlash(pattern.to_owned()));
    };
    if pattern.contains(['?', '#', '\0']) {
        return Err(RouteError::NotPath(pattern.to_owned()));
    }
    let mut segments = Vec::new();
    for text in inside.split('/') {
        if matches!(segments.last(), Some(Segment::Rest(_))) {
            return Err(RouteError::RestNotLast(pattern.to_owned()));
        }
        if segments.len() == SEGMENTS_MAX {
            return Err(RouteError::TooDeep(pattern.to_owned()));
        }
        let segment = match text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
        {
            Some(name) => match name.strip_suffix("...") {
                Some(name) => Segment::Rest(name),
                None => Segment::Parameter(name),
            },
            None if text.contains(['{', '}']) => {
                return Err(RouteError::Braces(pattern.to_owned()));
            }
            None => Segment::Literal(text),
        };
        if let Some(name) = segment.name() {
            let is_identifier = name
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
                && name
                    .bytes()
                    .next()
                    .is_some_and(|byte| !byte.is_ascii_digit());
            if !is_identifier {
                return Err(RouteError::ParameterName(name.to_owned()));
            }
            if segments
                .iter()
                .any(|earlier: &Segment<'_>| earlier.name() == Some(name))
            {
                return Err(RouteError::ParameterTwice(name.to_owned()));
            }
        }
        segments.push(segment);
    }
    Ok(segments)
}
