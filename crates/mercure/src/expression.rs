//! Expressions of templates and URL patterns. Clients choose them, so that each has a bound, and a size that is known.
//!
//! The engine takes time linear in the length of what is compared, for each state that an expression has. So the bytes of a
//! compiled expression are its memory and the time that one byte of a topic takes.

use regex_lite::{Regex, RegexBuilder};

/// Most bytes of all compiled expressions of one template or pattern.
pub const PATTERN_BYTES_MAX: usize = 32 * 1024;

/// Bytes of compiled expressions for which a template counts as one more.
pub const TEMPLATE_BYTES: usize = 2 * 1024;

/// Why there is no expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpressionError {
    /// It is none.
    Syntax,
    /// Larger than it may be.
    TooLarge,
}

/// One that is compiled.
#[derive(Clone)]
pub(crate) struct Expression {
    regex: Regex,
    bytes: usize,
}

impl Expression {
    /// Compiles one that has at most so many bytes then.
    pub fn compile(text: &str, bytes_max: usize) -> Result<Expression, ExpressionError> {
        #[cfg(test)]
        crate::counted::add(&crate::counted::COMPILED);
        // The engine does not tell how large one is, only whether it is larger than a limit: the limit is doubled, so that
        // all that fail take less than the one that does not.
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

    /// No less than its bytes, and less than twice as many.
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
