//! Tokens of a pattern.

use super::parts::PatternError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Asterisk,
    Name,
    Regexp,
    Open,
    Close,
    Modifier,
    Escaped,
    Char,
    Invalid,
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    /// Byte offset of the start of the token.
    pub at: usize,
    pub value: String,
}

impl Token {
    pub fn is_group(&self) -> bool {
        matches!(
            self.kind,
            Kind::Asterisk | Kind::Name | Kind::Regexp | Kind::Open
        )
    }
}

/// Splits a pattern into tokens. If `is_lenient`, an invalid token becomes `Invalid`; the split into components needs that.
pub(super) fn tokenize(text: &str, is_lenient: bool) -> Result<Vec<Token>, PatternError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at + first.len_utf8()..];
        let one = |kind| Some((kind, first.len_utf8(), first.to_string()));
        let found = match first {
            '*' => one(Kind::Asterisk),
            '+' | '?' => one(Kind::Modifier),
            '{' => one(Kind::Open),
            '}' => one(Kind::Close),
            '\\' => rest
                .chars()
                .next()
                .map(|next| (Kind::Escaped, 1 + next.len_utf8(), next.to_string())),
            ':' => {
                let is_name = |at: usize, it: char| {
                    it == '_' || it == '$' || it.is_alphabetic() || (at > 0 && it.is_alphanumeric())
                };
                let mut letters = rest.char_indices();
                let end = letters.find(|(at, it)| !is_name(*at, *it));
                let end = end.map_or(rest.len(), |(at, _)| at);
                (end > 0).then(|| (Kind::Name, 1 + end, rest[..end].to_owned()))
            }
            '(' => end_of_regexp(rest).map(|end| (Kind::Regexp, end + 2, rest[..end].to_owned())),
            _ => one(Kind::Char),
        };
        let (kind, len, value) = match found {
            Some(found) => found,
            None if is_lenient => (Kind::Invalid, first.len_utf8(), first.to_string()),
            None => return Err(PatternError::Syntax),
        };
        tokens.push(Token { kind, at, value });
        at += len;
    }
    tokens.push(Token {
        kind: Kind::End,
        at,
        value: String::new(),
    });
    Ok(tokens)
}

/// Returns the length of the expression after an opening parenthesis.
pub(super) fn end_of_regexp(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    if bytes.first() == Some(&b'?') {
        return None;
    }
    let (mut depth, mut at) = (1, 0);
    while at < bytes.len() {
        match bytes[at] {
            byte if !byte.is_ascii() => return None,
            b'\\' => {
                at += 1;
                if !bytes.get(at)?.is_ascii() {
                    return None;
                }
            }
            b')' => {
                depth -= 1;
                if depth == 0 {
                    return (at > 0).then_some(at);
                }
            }
            b'(' => {
                depth += 1;
                // Refuse groups inside the expression. A capturing group would count as a group of the pattern, and the engine
                // stores each group, also a named one, once for each state of the expression.
                let rest = &bytes[at + 1..];
                if !rest.starts_with(b"?") || rest.starts_with(b"?<") || rest.starts_with(b"?P") {
                    return None;
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}
