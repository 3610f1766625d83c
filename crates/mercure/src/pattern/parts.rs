//! The parts of a URL that a pattern has expressions for, and why there is no pattern.

use crate::expression::ExpressionError;

/// Parts of a URL, in their order.
pub(super) const PARTS: usize = 8;
pub(super) const PROTOCOL: usize = 0;
pub(super) const USERNAME: usize = 1;
pub(super) const PASSWORD: usize = 2;
pub(super) const HOSTNAME: usize = 3;
pub(super) const PORT: usize = 4;
pub(super) const PATHNAME: usize = 5;
pub(super) const SEARCH: usize = 6;
pub(super) const HASH: usize = 7;

pub(super) type Given = [Option<String>; PARTS];

/// Why there is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// It is none.
    Syntax,
    /// It is too long, or too large when it is compiled.
    TooLarge,
}

impl From<ExpressionError> for PatternError {
    fn from(error: ExpressionError) -> PatternError {
        match error {
            ExpressionError::Syntax => PatternError::Syntax,
            ExpressionError::TooLarge => PatternError::TooLarge,
        }
    }
}
