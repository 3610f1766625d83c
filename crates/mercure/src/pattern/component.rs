//! Compiles one component to a regular expression.

use super::parts::*;
use super::words::{Kind, Token, tokenize};
use crate::expression::Expression;
use crate::url::{self, Part};

/// A compiled component.
#[derive(Clone)]
pub(super) struct Compiled {
    /// Literal prefix of the component.
    literal: Box<str>,
    /// Expression for the text after the prefix. `None`: there must be no such text.
    expression: Option<Expression>,
    /// True if the expression covers the entire component, including the prefix.
    is_whole: bool,
}

impl Compiled {
    pub fn matches(&self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix(&*self.literal) else {
            return false;
        };
        match &self.expression {
            Some(expression) => expression.is_match([rest, text][usize::from(self.is_whole)]),
            None => rest.is_empty(),
        }
    }

    pub fn bytes(&self) -> usize {
        self.expression.as_ref().map_or(0, Expression::bytes)
    }
}

/// Compiles one component, with a limit on the size of its expression.
pub(super) fn compile(
    text: &str,
    part: usize,
    is_special: bool,
    bytes_max: usize,
) -> Result<Compiled, PatternError> {
    let tokens = tokenize(text, false)?;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        part,
        is_special,
        pending: String::new(),
        names: Vec::new(),
        literal: String::new(),
        out: String::new(),
    };
    parser.run()?;
    let (literal, rest) = (parser.literal, parser.out);
    // Compare the complete component if the pattern contains regular expressions. Their assertions, such as `\b`, depend on the
    // text before them, which would be missing without the prefix.
    let is_whole = !rest.is_empty() && tokens.iter().any(|it| it.kind == Kind::Regexp);
    let expression = match (rest.is_empty(), is_whole) {
        (true, _) => None,
        (false, false) => Some(format!("^(?s:{rest})$")),
        (false, true) => Some(format!("^(?s:{}{rest})$", regex_lite::escape(&literal))),
    };
    let compiled = expression.map(|it| Expression::compile(&it, bytes_max));
    Ok(Compiled {
        literal: literal.into(),
        expression: compiled.transpose()?,
        is_whole,
    })
}

/// Builds the expression of one component from its tokens.
pub(super) struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    part: usize,
    is_special: bool,
    /// Literal text that is not written yet.
    pending: String,
    names: Vec<&'a str>,
    /// Literal text at the start of the component.
    literal: String,
    /// Expression of the rest.
    out: String,
}

impl<'a> Parser<'a> {
    fn run(&mut self) -> Result<(), PatternError> {
        loop {
            let one = self.take(Kind::Char);
            let name = self.take(Kind::Name);
            let group = self.take_group(name.is_some());
            if name.is_some() || group.is_some() {
                let mut prefix = one.unwrap_or_default();
                if prefix != "/" || !self.has_segments() {
                    self.pending.push_str(prefix);
                    prefix = "";
                }
                self.flush()?;
                let modifier = self.take_modifier();
                self.add(prefix, name, group, "", modifier)?;
                continue;
            }
            if let Some(text) = one.or_else(|| self.take(Kind::Escaped)) {
                self.pending.push_str(text);
                continue;
            }
            if self.take(Kind::Open).is_some() {
                let prefix = self.take_text();
                let name = self.take(Kind::Name);
                let group = self.take_group(name.is_some());
                let suffix = self.take_text();
                self.take(Kind::Close).ok_or(PatternError::Syntax)?;
                let modifier = self.take_modifier();
                self.add(&prefix, name, group, &suffix, modifier)?;
                continue;
            }
            self.flush()?;
            self.take(Kind::End).ok_or(PatternError::Syntax)?;
            return Ok(());
        }
    }

    fn has_segments(&self) -> bool {
        self.part == PATHNAME && self.is_special
    }

    fn take(&mut self, kind: Kind) -> Option<&'a str> {
        let token = self.tokens.get(self.at).filter(|it| it.kind == kind)?;
        self.at += 1;
        Some(&token.value)
    }

    /// Returns the expression of a group, or the expression that matches everything.
    fn take_group(&mut self, has_name: bool) -> Option<String> {
        if let Some(regexp) = self.take(Kind::Regexp) {
            return Some(regexp.to_owned());
        }
        if has_name {
            return None;
        }
        self.take(Kind::Asterisk).map(|_| ".*".to_owned())
    }

    fn take_modifier(&mut self) -> &'a str {
        let found = self.take(Kind::Modifier);
        found
            .or_else(|| self.take(Kind::Asterisk))
            .unwrap_or_default()
    }

    fn take_text(&mut self) -> String {
        let mut text = String::new();
        while let Some(one) = self.take(Kind::Char).or_else(|| self.take(Kind::Escaped)) {
            text.push_str(one);
        }
        text
    }

    fn flush(&mut self) -> Result<(), PatternError> {
        let text = std::mem::take(&mut self.pending);
        let text = self.canonical(&text)?;
        if self.out.is_empty() {
            self.literal.push_str(&text)
        } else {
            self.out.push_str(&regex_lite::escape(&text))
        }
        Ok(())
    }

    fn add(
        &mut self,
        prefix: &str,
        name: Option<&'a str>,
        group: Option<String>,
        suffix: &str,
        modifier: &str,
    ) -> Result<(), PatternError> {
        if name.is_none() && group.is_none() && modifier.is_empty() {
            self.pending.push_str(prefix);
            return Ok(());
        }
        self.flush()?;
        if let Some(name) = name {
            if self.names.contains(&name) {
                return Err(PatternError::Syntax);
            }
            self.names.push(name);
        }
        let mut prefix = self.canonical(prefix)?;
        if self.out.is_empty() && modifier.is_empty() {
            self.literal.push_str(&std::mem::take(&mut prefix));
        }
        let prefix = regex_lite::escape(&prefix);
        if name.is_none() && group.is_none() {
            if !prefix.is_empty() {
                self.out.push_str(&format!("(?:{prefix}){modifier}"));
            }
            return Ok(());
        }
        let suffix = regex_lite::escape(&self.canonical(suffix)?);
        let one = group.unwrap_or_else(|| {
            match (self.part, self.has_segments()) {
                (HOSTNAME, _) => r"[^.]+?",
                (_, true) => "[^/]+?",
                _ => ".+?",
            }
            .to_owned()
        });
        self.out.push_str(&match modifier {
            "" | "?" => format!("(?:{prefix}(?:{one}){suffix}){modifier}"),
            _ => {
                let is_optional = ["", "?"][usize::from(modifier == "*")];
                format!("(?:{prefix}(?:{one})(?:{suffix}{prefix}(?:{one}))*{suffix}){is_optional}")
            }
        });
        Ok(())
    }

    /// Returns literal text in the form that it has in a URL.
    fn canonical(&self, text: &str) -> Result<String, PatternError> {
        if text.is_empty() {
            return Ok(String::new());
        }
        Ok(match self.part {
            PROTOCOL => text.to_ascii_lowercase(),
            USERNAME | PASSWORD => url::escape(text, Part::User),
            HOSTNAME => {
                let is_good = |it: char| it.is_ascii_graphic() && !" #/<>?@\\^|%".contains(it);
                if !text.chars().all(is_good) {
                    return Err(PatternError::Syntax);
                }
                text.to_ascii_lowercase()
            }
            PORT if text.bytes().all(|it| it.is_ascii_digit()) => text.to_owned(),
            PORT => return Err(PatternError::Syntax),
            PATHNAME if self.is_special => {
                if text.starts_with('/') {
                    url::path_of(text, true)
                } else {
                    // The text continues a segment, so `.` and `..` at its start are not dot segments. With `/-` before it,
                    // `path_of` treats it as the rest of a segment.
                    url::path_of(&format!("/-{text}"), true)
                        .strip_prefix("/-")
                        .unwrap_or_default()
                        .to_owned()
                }
            }
            PATHNAME => url::escape(text, Part::Opaque),
            SEARCH if self.is_special => url::escape(text, Part::SpecialQuery),
            SEARCH => url::escape(text, Part::Query),
            _ => url::escape(text, Part::Fragment),
        })
    }
}
