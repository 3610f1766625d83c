//! Templates: text with `%%`, `%L` and `%(argument)L`, read in pieces.
//!
//! In an argument, a backslash makes the next byte literal, so it can contain `)` and `\`.

/// Maximum length of an argument in bytes. The argument is stored until its directive is complete.
pub const ARGUMENT_BYTES_MAX: usize = 1024;

/// Reason why a template cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template has a directive with an unknown letter.
    #[error("a template has the directive %{0}; write %% for a percent sign")]
    Directive(String),
    /// The template has an argument longer than [`ARGUMENT_BYTES_MAX`].
    #[error("a template has an argument of more than {ARGUMENT_BYTES_MAX} bytes")]
    Argument,
    /// The text ends inside a directive.
    #[error("a template ends inside a directive; write %% for a percent sign")]
    Unfinished,
    /// The template uses a name that the connection does not have.
    #[error("a template uses {0:?}, which this connection does not have")]
    Name(String),
}

/// State of the parser between two pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    state: State,
    argument: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After `%`.
    Percent,
    Argument,
    /// The previous byte is a backslash.
    Escape,
    /// After `)`.
    Letter,
}

/// Callback that appends the value of a directive: argument, letter, output.
pub type Fill<'a> = &'a mut dyn FnMut(Option<&[u8]>, u8, &mut Vec<u8>) -> Result<(), TemplateError>;

impl Template {
    /// Reads a piece of the template and appends the output for it.
    ///
    /// # Errors
    /// The template is malformed, or `fill` does not know a directive.
    pub fn feed(
        &mut self,
        piece: &[u8],
        out: &mut Vec<u8>,
        fill: Fill<'_>,
    ) -> Result<(), TemplateError> {
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            if self.state == State::Text {
                let Some(end) = rest.iter().position(|&byte| byte == b'%') else {
                    out.extend_from_slice(rest);
                    return Ok(());
                };
                out.extend_from_slice(&rest[..end]);
                rest = &rest[end + 1..];
                self.state = State::Percent;
                continue;
            }
            rest = after;
            self.state = match (self.state, byte) {
                (State::Percent, b'%') => {
                    out.push(b'%');
                    State::Text
                }
                (State::Percent, b'(') => State::Argument,
                (State::Percent, letter) => {
                    fill(None, letter, out)?;
                    State::Text
                }
                (State::Argument, b'\\') => State::Escape,
                (State::Argument, b')') => State::Letter,
                (State::Letter, letter) => {
                    fill(Some(&self.argument), letter, out)?;
                    self.argument.clear();
                    State::Text
                }
                (_, byte) => {
                    if self.argument.len() == ARGUMENT_BYTES_MAX {
                        return Err(TemplateError::Argument);
                    }
                    self.argument.push(byte);
                    State::Argument
                }
            };
        }
        Ok(())
    }

    /// Checks the end of the text.
    ///
    /// # Errors
    /// The text ended inside a directive.
    pub fn finish(&self) -> Result<(), TemplateError> {
        match self.state {
            State::Text => Ok(()),
            _ => Err(TemplateError::Unfinished),
        }
    }
}

/// Renders a complete text.
///
/// # Errors
/// As [`Template::feed`] and [`Template::finish`].
pub fn render(text: &[u8], fill: Fill<'_>) -> Result<Vec<u8>, TemplateError> {
    let mut template = Template::default();
    let mut out = Vec::with_capacity(text.len());
    template.feed(text, &mut out, fill)?;
    template.finish()?;
    Ok(out)
}

/// Returns the error for a directive that `fill` does not know.
pub(crate) fn unknown(argument: Option<&[u8]>, letter: u8) -> TemplateError {
    let letter = letter.escape_ascii();
    TemplateError::Directive(match argument {
        Some(argument) => format!("({}){letter}", argument.escape_ascii()),
        None => letter.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fill(argument: Option<&[u8]>, letter: u8, out: &mut Vec<u8>) -> Result<(), TemplateError> {
        if letter == b'X' {
            return Err(unknown(argument, letter));
        }
        out.push(b'<');
        out.extend_from_slice(argument.unwrap_or(b"-"));
        out.push(letter);
        out.push(b'>');
        Ok(())
    }

    fn in_pieces(text: &[u8], len: usize) -> Result<Vec<u8>, TemplateError> {
        let (mut template, mut out) = (Template::default(), Vec::new());
        for piece in text.chunks(len.max(1)) {
            template.feed(piece, &mut out, &mut fill)?;
        }
        template.finish().map(|()| out)
    }

    #[test]
    fn parses_directives_with_and_without_argument() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("100%%", "100%"),
            ("a%Ib", "a<-I>b"),
            ("%(name)s%%%(b)I", "<names>%<bI>"),
            (r"%(a\)b\\c\d)s", r"<a)b\cds>"),
            ("%()s", "<s>"),
            ("%((%)s", "<(%s>"),
        ] {
            assert_eq!(
                render(text.as_bytes(), &mut fill).as_deref(),
                Ok(expected.as_bytes()),
                "{text}"
            );
        }
    }

    #[test]
    fn reports_malformed_templates() {
        let long = format!("%({})s", "a".repeat(ARGUMENT_BYTES_MAX + 1));
        for (text, error) in [
            ("%", TemplateError::Unfinished),
            ("a%(b", TemplateError::Unfinished),
            (r"a%(b\", TemplateError::Unfinished),
            ("a%(b)", TemplateError::Unfinished),
            ("%X", TemplateError::Directive("X".into())),
            ("%(a)X", TemplateError::Directive("(a)X".into())),
            (&long, TemplateError::Argument),
        ] {
            assert_eq!(render(text.as_bytes(), &mut fill), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn result_is_independent_of_the_split(text in r"[a%()\\IX]{0,24}", len in 1usize..6) {
            prop_assert_eq!(in_pieces(text.as_bytes(), len), in_pieces(text.as_bytes(), 100));
        }
    }
}
