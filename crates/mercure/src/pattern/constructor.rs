//! Splits a pattern that is written as a URL into components.

use super::component::compile;
use super::parts::*;
use super::words::{Kind, Token};
use crate::expression::PATTERN_BYTES_MAX;
use crate::url;

pub(super) fn is_special_protocol(text: &str) -> Result<bool, PatternError> {
    if text == "*" {
        return Ok(true);
    }
    let pattern = compile(text, PROTOCOL, false, PATTERN_BYTES_MAX)?;
    Ok(url::special().any(|scheme| pattern.matches(scheme)))
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Init,
    Authority,
    Part(usize),
    Done,
}

/// State of that split.
pub(super) struct Constructor<'a> {
    text: &'a str,
    tokens: &'a [Token],
    found: Given,
    state: State,
    start: usize,
    at: usize,
    is_special: bool,
}

impl<'a> Constructor<'a> {
    pub fn new(text: &'a str, tokens: &'a [Token]) -> Self {
        Self {
            text,
            tokens,
            found: Given::default(),
            state: State::Init,
            start: 0,
            at: 0,
            is_special: false,
        }
    }

    pub fn run(mut self) -> Result<Given, PatternError> {
        let (mut groups, mut brackets) = (0_usize, 0_usize);
        while self.at < self.tokens.len() {
            let kind = self.tokens[self.at].kind;
            if kind == Kind::End {
                match self.state {
                    State::Init => {
                        self.rewind(State::Init);
                        if self.is_char('#') {
                            self.change(State::Part(HASH), 1);
                        } else if self.is_search() {
                            self.change(State::Part(SEARCH), 1);
                        } else {
                            self.change(State::Part(PATHNAME), 0);
                        }
                        continue;
                    }
                    State::Authority => {
                        self.rewind(State::Part(HOSTNAME));
                        continue;
                    }
                    _ => {}
                }
                self.change(State::Done, 0);
                break;
            }
            if kind == Kind::Open {
                groups += 1;
            } else if groups > 0 {
                groups -= usize::from(kind == Kind::Close);
            } else if self.step(&mut brackets)? {
                continue;
            }
            self.at += 1;
        }
        if self.found[HOSTNAME].is_some() && self.found[PORT].is_none() {
            self.found[PORT] = Some(String::new());
        }
        Ok(self.found)
    }

    /// Handles a token. Returns true if the state has changed and the current token was set accordingly.
    fn step(&mut self, brackets: &mut usize) -> Result<bool, PatternError> {
        let is_path = self.is_char('/');
        let (is_search, is_hash) = (self.is_search(), self.is_char('#'));
        let next = match self.state {
            State::Init if self.is_char(':') => {
                self.rewind(State::Part(PROTOCOL));
                return Ok(true);
            }
            State::Part(PROTOCOL) if self.is_char(':') => {
                self.is_special = is_special_protocol(self.component())?;
                match self.has_slashes() {
                    true => (State::Authority, 3),
                    false if self.is_special => (State::Authority, 1),
                    false => (State::Part(PATHNAME), 1),
                }
            }
            State::Authority if self.is_char('@') => {
                self.rewind(State::Part(USERNAME));
                return Ok(true);
            }
            State::Authority if is_path || is_search || is_hash => {
                self.rewind(State::Part(HOSTNAME));
                return Ok(true);
            }
            State::Part(USERNAME) if self.is_char(':') => (State::Part(PASSWORD), 1),
            State::Part(USERNAME | PASSWORD) if self.is_char('@') => (State::Part(HOSTNAME), 1),
            State::Part(HOSTNAME) if self.is_char('[') => {
                *brackets += 1;
                return Ok(false);
            }
            State::Part(HOSTNAME) if self.is_char(']') => {
                *brackets = brackets.saturating_sub(1);
                return Ok(false);
            }
            State::Part(HOSTNAME) if self.is_char(':') && *brackets == 0 => (State::Part(PORT), 1),
            State::Part(HOSTNAME | PORT) if is_path => (State::Part(PATHNAME), 0),
            State::Part(HOSTNAME | PORT | PATHNAME) if is_search => (State::Part(SEARCH), 1),
            State::Part(HOSTNAME | PORT | PATHNAME | SEARCH) if is_hash => (State::Part(HASH), 1),
            _ => return Ok(false),
        };
        self.change(next.0, next.1);
        Ok(true)
    }

    fn rewind(&mut self, state: State) {
        (self.at, self.state) = (self.start, state);
    }

    fn change(&mut self, next: State, skip: usize) {
        if let State::Part(part) = self.state {
            self.found[part] = Some(self.component().to_owned());
        }
        if self.state != State::Init && next != State::Done {
            let is_before =
                |part: usize| self.state == State::Authority || self.state < State::Part(part);
            let (has_host, has_path) = (is_before(HOSTNAME), is_before(PATHNAME));
            let has_query = is_before(SEARCH);
            if has_host && next > State::Part(HOSTNAME) {
                self.found[HOSTNAME].get_or_insert_default();
            }
            if has_path && next > State::Part(PATHNAME) {
                let path = ["", "/"][usize::from(self.is_special)];
                self.found[PATHNAME].get_or_insert(path.to_owned());
            }
            if has_query && next > State::Part(SEARCH) {
                self.found[SEARCH].get_or_insert_default();
            }
        }
        self.state = next;
        self.at += skip;
        self.start = self.at;
    }

    /// Returns the text of the component that ends before this token.
    fn component(&self) -> &'a str {
        &self.text[self.tokens[self.start].at..self.tokens[self.at].at]
    }

    fn is_char(&self, wanted: char) -> bool {
        self.is_char_at(self.at, wanted)
    }

    fn is_char_at(&self, at: usize, wanted: char) -> bool {
        self.tokens.get(at).is_some_and(|token| {
            matches!(token.kind, Kind::Char | Kind::Escaped | Kind::Invalid)
                && token.value.chars().eq([wanted])
        })
    }

    fn has_slashes(&self) -> bool {
        self.is_char_at(self.at + 1, '/') && self.is_char_at(self.at + 2, '/')
    }

    /// Returns true if this question mark starts a query. Otherwise the question mark makes the preceding item optional.
    fn is_search(&self) -> bool {
        if self.is_char('?') {
            return true;
        }
        let Some(before) = self.at.checked_sub(1) else {
            return self.tokens[self.at].value == "?";
        };
        self.tokens[self.at].value == "?"
            && !matches!(
                self.tokens[before].kind,
                Kind::Name | Kind::Regexp | Kind::Close | Kind::Asterisk
            )
    }
}
