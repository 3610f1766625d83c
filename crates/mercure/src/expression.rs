//! Regular expressions of templates and URL patterns. Clients choose these expressions, so their size is measured and limited.
//!
//! The engine takes time linear in the length of the compared text, for each state of the expression. The bytes of a
//! compiled expression therefore measure both its memory and the time per byte of a topic.

use regex_lite::{Regex, RegexBuilder};

/// Maximum total size of the compiled expressions of one template or pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 32 * 1024;

/// Bytes of compiled expressions that count as one template.
pub const TEMPLATE_BYTES: usize = 2 * 1024;

/// Reason why an expression cannot be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpressionError {
    /// The expression has invalid syntax.
    Syntax,
    /// The expression is larger than its limit.
    TooLarge,
}

/// A compiled expression.
#[derive(Clone)]
pub(crate) struct Expression {
    regex: Regex,
    bytes: usize,
}

impl Expression {
    /// Compiles an expression of at most `bytes_max` bytes.
    pub fn compile(text: &str, bytes_max: usize) -> Result<Expression, ExpressionError> {
        #[cfg(test)]
        crate::counted::add(&crate::counted::COMPILED);
        // The engine reports only whether a size limit is exceeded. Doubling the limit makes all failed attempts
        // together cost less than the successful one.
        let mut limit = TEMPLATE_BYTES.min(bytes_max);
        loop {
            let error = match RegexBuilder::new(text).size_limit(limit).build() {
                Ok(regex) => {
                    return Ok(Expression {
                        regex,
                        bytes: limit,
                    });
                }
                Err(error) => error,
            };
            if !error.to_string().contains("size limit") {
                return Err(ExpressionError::Syntax);
            }
            if limit == bytes_max {
                return Err(ExpressionError::TooLarge);
            }
            limit = (2 * limit).min(bytes_max);
        }
    }

    /// Returns an upper bound of the expression's size in bytes. The bound is less than twice the actual size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_match(&self, text: &str) -> bool {
        #[cfg(test)]
        crate::counted::add(&crate::counted::COMPARED);
        self.regex.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_known_and_bounded() {
        let size = |text: &str| Expression::compile(text, PATTERN_BYTES_MAX).map(|it| it.bytes());
        assert_eq!(size("^a$"), Ok(TEMPLATE_BYTES));
        let (one, two) = (size("^a{100}$"), size("^a{200}$"));
        assert!(
            one.is_ok_and(|one| two.is_ok_and(|two| one < two)),
            "{one:?} {two:?}"
        );
        assert_eq!(size("^a{100000}$"), Err(ExpressionError::TooLarge));
        assert_eq!(size("^(?:){4294967295}$"), Err(ExpressionError::TooLarge));
        assert_eq!(size("^(?:$"), Err(ExpressionError::Syntax));
    }
}
