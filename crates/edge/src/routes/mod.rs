//! The routes file: which requests go to which backend, as Pushpin writes it.
//!
//! One rule a line: `CONDITION TARGET [TARGET…]`. A line that cannot be used is left out and reported; the others
//! stand, so that a typing error in one route does not take the others down.

pub(crate) mod figures;
pub(crate) mod file;
pub(crate) mod unserved;

mod care;
mod lex;
mod rule;
mod table;
mod target;

use std::fmt;

pub use care::Care;
pub use fermata_engine::is_program;
pub use lex::LexError;
pub use rule::{Domain, Jsonp, JsonpMode, Proto, Rule};
pub use table::{Request, Routes};
pub use target::{Origin, Target};

/// Something about a line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its number, from 1.
    pub line: usize,
    /// What it costs.
    pub effect: Effect,
    /// What is wrong, and how to mend it.
    pub cause: Cause,
}

/// What a problem costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The line is left out.
    LineIgnored,
    /// The line counts, but for what the problem names.
    PartIgnored,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            Effect::LineIgnored => "this route is left out",
            Effect::PartIgnored => "the rest of the route counts",
        };
        write!(
            formatter,
            "routes, line {}: {}; {effect}",
            self.line, self.cause
        )
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// Quotes, commas and blanks.
    #[error(transparent)]
    Lex(#[from] LexError),
    /// No target.
    #[error("a route needs a condition and a target, such as `* localhost:80`")]
    Sections,
    /// Neither domain nor id.
    #[error("a route needs a domain, * or id=NAME")]
    Domain,
    /// A host that cannot be one.
    #[error("{0:?} is no domain; give a host name without port, or * for any")]
    Host(String),
    /// A property whose value has no meaning.
    #[error("{name} is {value:?}: {fix}")]
    Value {
        /// The property.
        name: String,
        /// Its value.
        value: String,
        /// What would be accepted.
        fix: &'static str,
    },
    /// A property that has no meaning.
    #[error("{0:?} is no property of a {1}")]
    Property(String, &'static str),
    /// A target that is none.
    #[error(
        "{0:?} is no target; give HOST:PORT, [IPV6]:PORT, unix/PATH, file/PATH, fastcgi/HOST:PORT, fastcgi/PATH, zhttp/SPEC, zhttpreq/SPEC or test"
    )]
    Target(String),
    /// Too many targets of ZHTTP.
    #[error("there are more than {} zhttp targets", table::ZHTTP_TARGETS_MAX)]
    ZhttpTargets,
    /// A file that a property names.
    #[error("{name} cannot be read: {error}")]
    File {
        /// The property.
        name: &'static str,
        /// Why.
        error: String,
    },
    /// The same conditions as an earlier line.
    #[error(
        "line {0} has the same domain, proto, ssl and path_beg; join their targets or change one"
    )]
    Duplicate(usize),
    /// An id that an earlier line has.
    #[error("line {0} has the same id, so no request can name it; change one")]
    Id(usize),
}
