//! Components of a URL in a pattern, and pattern errors.

use crate::expression::ExpressionError;

/// Number of components. The constants below are the indexes, in the same order.
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

/// Reason why a pattern is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// The pattern has invalid syntax.
    Syntax,
    /// The pattern is too long, or its compiled form is too large.
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
