//! The routes file in Pushpin's format: which requests go to which backend.
//!
//! Each line is one rule: `CONDITION TARGET [TARGET…]`. An invalid line is skipped and reported, so that an error in one
//! route does not affect the others.

pub(crate) mod figures;
pub(crate) mod file;
pub(crate) mod unserved;

mod lex;
mod path;
mod rule;
mod table;
mod target;
mod target_options;

use std::fmt;

pub use fermata_engine::is_program;
pub use lex::LexError;
pub use path::normalised;
pub use rule::{Domain, Jsonp, JsonpMode, Proto, Rule};
pub use table::{Request, Routes};
pub use target::{Origin, Target};
pub use target_options::TargetOptions;

/// A problem of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Number of the line, from 1.
    pub line: usize,
    /// Effect of the problem.
    pub effect: Effect,
    /// Cause and fix of the problem.
    pub cause: Cause,
}

/// Effect of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The line is ignored.
    LineIgnored,
    /// The line is used except for the named part.
    PartIgnored,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            Effect::LineIgnored => "this route is ignored",
            Effect::PartIgnored => "the rest of the route counts",
        };
        write!(
            formatter,
            "routes, line {}: {}; {effect}",
            self.line, self.cause
        )
    }
}

/// Cause of a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// Invalid quotes, commas or blanks.
    #[error(transparent)]
    Lex(#[from] LexError),
    /// The condition or the target is missing.
    #[error("a route needs a condition and a target, such as `* localhost:80`")]
    Sections,
    /// The route has neither a domain nor an id.
    #[error("a route needs a domain, * or id=NAME")]
    Domain,
    /// An invalid host.
    #[error("{0:?} is no domain; give a host name without port, or * for any")]
    Host(String),
    /// A property with an invalid value.
    #[error("{name} is {value:?}: {fix}")]
    Value {
        /// The property.
        name: String,
        /// Its value.
        value: String,
        /// Accepted values.
        fix: &'static str,
    },
    /// An unknown property.
    #[error("{0:?} is no property of a {1}")]
    Property(String, &'static str),
    /// An invalid target.
    #[error(
        "{0:?} is no target; give HOST:PORT, [IPV6]:PORT, unix/PATH, file/PATH, fastcgi/HOST:PORT, fastcgi/PATH, zhttp/SPEC, zhttpreq/SPEC or test"
    )]
    Target(String),
    /// Too many targets of ZHTTP.
    #[error("there are more than {} zhttp targets", table::ZHTTP_TARGETS_MAX)]
    ZhttpTargets,
    /// An unreadable file of a property.
    #[error("{name} cannot be read: {error}")]
    File {
        /// The property.
        name: &'static str,
        /// The error.
        error: String,
    },
    /// The line has the same conditions as an earlier line.
    #[error(
        "line {0} has the same domain, proto, ssl and path_beg; join their targets or change one"
    )]
    Duplicate(usize),
    /// The line has the id of an earlier line.
    #[error("line {0} has the same id, so no request can name it; change one")]
    Id(usize),
}
