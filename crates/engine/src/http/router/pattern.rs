//! Route patterns, and their errors.

use crate::http::files::DirectoryError;
use crate::websocket::OptionError;

/// Maximum number of segments of a pattern, which limits the depth of a search.
pub const SEGMENTS_MAX: usize = 64;

/// Maximum body size that a route may set, in bytes: one terabyte.
pub const BODY_BYTES_MAX: u64 = 1 << 40;

/// A route that cannot be added: a mistake in the application.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The path has no leading slash.
    #[error(
        "the path {0:?} does not start with /; write it as it stands in the URL after the host"
    )]
    NoSlash(String),
    /// The path contains a query or fragment.
    #[error(
        "the path {0:?} holds ? or #; routes match the path only, read the query from the request"
    )]
    NotPath(String),
    /// Braces must enclose a complete segment.
    #[error(
        "the path {0:?} has a malformed parameter; a segment is either text, {{name}} or {{name...}}"
    )]
    Braces(String),
    /// A name must be usable as an identifier.
    #[error(
        "the parameter name {0:?} is malformed; use letters, digits and _, starting with no digit"
    )]
    ParameterName(String),
    /// A repeated parameter name.
    #[error("the parameter {0:?} is used twice in one path; give each its own name")]
    ParameterTwice(String),
    /// Segments after `{name...}`.
    #[error("the path {0:?} continues after {{name...}}; this parameter must be the last segment")]
    RestNotLast(String),
    /// More than [`SEGMENTS_MAX`].
    #[error("the path {0:?} has more than {SEGMENTS_MAX} segments; shorten it")]
    TooDeep(String),
    /// Not a token (RFC 9110, section 9.1).
    #[error("the method {0:?} is malformed; methods are words such as GET")]
    Method(String),
    /// More than [`BODY_BYTES_MAX`].
    #[error("a body of {0} bytes is over {BODY_BYTES_MAX}; give a smaller limit")]
    BodyBytes(u64),
    /// The route exists already; parameter names are not compared.
    #[error("there already is a handler for {method} {pattern}; remove one of the two")]
    Duplicate {
        /// The method, or `any method`.
        method: String,
        /// The pattern.
        pattern: String,
    },
    /// A WebSocket with an invalid option.
    #[error("the WebSocket at {pattern}: {cause}")]
    WebSocket {
        /// Its path.
        pattern: String,
        /// The error in the option.
        cause: OptionError,
    },
    /// A directory already exists at this prefix.
    #[error("there already is a directory at {0:?}; remove one of the two")]
    DuplicateDirectory(String),
    /// Parameters in the prefix of a directory.
    #[error("the prefix {0:?} of a directory has parameters; use literal text")]
    PrefixParameter(String),
    /// The directory cannot be read.
    #[error(
        "the directory {path} cannot be served: {reason}; check the path, its permissions and the options"
    )]
    Directory {
        /// The path as given.
        path: String,
        /// The cause.
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
