//! URL patterns, <https://urlpattern.spec.whatwg.org>: one expression for each part of a URL.
//!
//! The expressions are those of an engine that takes time linear in the topic's length; what it cannot do (looking around,
//! back references) makes a pattern invalid.

use crate::TOPIC_BYTES_MAX;
use crate::expression::{Expression, ExpressionError, PATTERN_BYTES_MAX};
use crate::url::{self, Part, Url};

/// Most names, groups and wildcards of a pattern.
const GROUPS_MAX: usize = 64;

/// Parts of a URL, in their order.
const PARTS: usize = 8;
const PROTOCOL: usize = 0;
const USERNAME: usize = 1;
const PASSWORD: usize = 2;
const HOSTNAME: usize = 3;
const PORT: usize = 4;
const PATHNAME: usize = 5;
const SEARCH: usize = 6;
const HASH: usize = 7;

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

/// A compiled pattern.
#[derive(Clone)]
pub struct UrlPattern {
    /// `None`: all that it can be.
    parts: Vec<Option<Compiled>>,
    bytes: usize,
}

/// What one part of a URL has to be.
#[derive(Clone)]
struct Compiled {
    /// What it begins with.
    literal: Box<str>,
    /// The rest; `None`: there is none.
    expression: Option<Expression>,
    /// The expression is that of the whole part.
    is_whole: bool,
}

impl Compiled {
    fn matches(&self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix(&*self.literal) else {
            return false;
        };
        match &self.expression {
            Some(expression) => expression.is_match([rest, text][usize::from(self.is_whole)]),
            None => rest.is_empty(),
        }
    }

    fn bytes(&self) -> usize {
        self.expression.as_ref().map_or(0, Expression::bytes)
    }
}

impl UrlPattern {
    /// Compiles one; what it leaves out is that of `base`.
    ///
    /// # Errors
    /// It is none, or too large.
    pub fn parse(text: &str, base: &Url) -> Result<UrlPattern, PatternError> {
        if text.len() > TOPIC_BYTES_MAX {
            return Err(PatternError::TooLarge);
        }
        let tokens = tokenize(text, true)?;
        let groups = tokens.iter().filter(|it| it.is_group()).count();
        if groups > GROUPS_MAX {
            return Err(PatternError::TooLarge);
        }
        let mut given = Constructor::new(text, &tokens).run()?;
        inherit(&mut given, base);
        let [protocol, ..] = &given;
        let protocol = protocol.clone().unwrap_or_else(|| "*".to_owned());
        let is_special = is_special_protocol(&protocol)?;
        if let Some(port) = &given[PORT]
            && url::is_usual_port(&protocol, port)
        {
            given[PORT] = Some(String::new());
        }
        let mut parts = Vec::with_capacity(PARTS);
        let mut bytes = 0;
        for (part, given) in given.iter().enumerate() {
            parts.push(match given.as_deref() {
                None | Some("*") => None,
                Some(text) => {
                    let compiled = compile(text, part, is_special, PATTERN_BYTES_MAX - bytes)?;
                    bytes += compiled.bytes();
                    Some(compiled)
                }
            });
        }
        Ok(UrlPattern { parts, bytes })
    }

    /// Bytes of its compiled expressions, at most [`PATTERN_BYTES_MAX`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it selects a URL.
    pub fn matches(&self, url: &Url) -> bool {
        let parts = [
            &url.scheme,
            &url.username,
            &url.password,
            &url.host,
            &url.port,
            &url.path,
            &url.query,
            &url.fragment,
        ];
        let mut each = self.parts.iter().zip(parts);
        each.all(|(pattern, part)| pattern.as_ref().is_none_or(|it| it.matches(part)))
    }
}

type Given = [Option<String>; PARTS];

/// What a pattern does not say is its base's, up to the first part that it says.
fn inherit(given: &mut Given, base: &Url) {
    let path = given[PATHNAME].clone();
    let of_base = [
        (PROTOCOL, &base.scheme),
        (HOSTNAME, &base.host),
        (PORT, &base.port),
        (PATHNAME, &base.path),
        (SEARCH, &base.query),
        (HASH, &base.fragment),
    ];
    for (part, value) in of_base {
        if given[part].is_some() {
            break;
        }
        given[part] = Some(literal(value));
    }
    let has_own_place = |given: &Given| given[HOSTNAME].as_deref() != Some(&literal(&base.host));
    if let Some(path) = path
        && !base.is_opaque
        && !has_own_place(given)
        && !["/", "\\/", "{/"].iter().any(|it| path.starts_with(it))
        && given[PROTOCOL].as_deref() == Some(&literal(&base.scheme))
    {
        let folder = base.path.rfind('/').map_or(0, |at| at + 1);
        given[PATHNAME] = Some(format!("{}{path}", literal(&base.path[..folder])));
    }
}

/// Text that stands for itself in a pattern.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        if "+*?:{}()\\".contains(it) {
            out.push('\\');
        }
        out.push(it);
    }
    out
}

fn is_special_protocol(text: &str) -> Result<bool, PatternError> {
    if text == "*" {
        return Ok(true);
    }
    let pattern = compile(text, PROTOCOL, false, PATTERN_BYTES_MAX)?;
    Ok(url::special().any(|scheme| pattern.matches(scheme)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
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
struct Token {
    kind: Kind,
    /// Where it begins.
    at: usize,
    value: String,
}

impl Token {
    fn is_group(&self) -> bool {
        matches!(
            self.kind,
            Kind::Asterisk | Kind::Name | Kind::Regexp | Kind::Open
        )
    }
}

/// The words of a pattern. Lenient: what is none is `Invalid`, for where the parts of a pattern are still looked for.
fn tokenize(text: &str, is_lenient: bool) -> Result<Vec<Token>, PatternError> {
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

/// Where the expression ends that follows a parenthesis.
fn end_of_regexp(rest: &str) -> Option<usize> {
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
                // Groups that capture would be those of the pattern. Those with a name do, too, and each would be kept for
                // each state of the expression.
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

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Init,
    Authority,
    Part(usize),
    Done,
}

/// Finds the parts in a pattern that is written as a URL.
struct Constructor<'a> {
    text: &'a str,
    tokens: &'a [Token],
    found: Given,
    state: State,
    start: usize,
    at: usize,
    is_special: bool,
}

impl<'a> Constructor<'a> {
    fn new(text: &'a str, tokens: &'a [Token]) -> Self {
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

    fn run(mut self) -> Result<Given, PatternError> {
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

    /// Looks at a token. True: the state has changed, and with it the token that is looked at.
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

    /// The text of the part that ends before this token.
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

    /// Whether a question mark begins a query, and does not make what stands before it optional.
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

/// Compiles one part, whose expression has at most so many bytes.
fn compile(
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
    // What a pattern's own expression asks of its place, as `\b` does, depends on what stands before it.
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

/// Makes an expression of the words of one part.
struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    part: usize,
    is_special: bool,
    /// Text that stands for itself.
    pending: String,
    names: Vec<&'a str>,
    /// Text that stands for itself, before anything else.
    literal: String,
    /// The expression of what follows.
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

    /// An expression, or what matches everything.
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
        match self.out.is_empty() {
            true => self.literal.push_str(&text),
            false => self.out.push_str(&regex_lite::escape(&text)),
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

    /// Text that stands for itself, as it is in a URL.
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
            PATHNAME if self.is_special => match text.starts_with('/') {
                true => url::path_of(text, true),
                // What stands before it is somewhere in a segment.
                false => url::path_of(&format!("/-{text}"), true)
                    .strip_prefix("/-")
                    .unwrap_or_default()
                    .to_owned(),
            },
            PATHNAME => url::escape(text, Part::Opaque),
            SEARCH if self.is_special => url::escape(text, Part::SpecialQuery),
            SEARCH => url::escape(text, Part::Query),
            _ => url::escape(text, Part::Fragment),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HUB: &str = "https://hub.example/.well-known/mercure";

    fn matches(pattern: &str, topic: &str) -> bool {
        let base = Url::parse(HUB, None).expect("a URL");
        let pattern = UrlPattern::parse(pattern, &base).expect(pattern);
        Url::parse(topic, Some(&base)).is_some_and(|url| pattern.matches(&url))
    }

    /// Examples of the standard and of its tests.
    #[test]
    fn patterns_select_as_browsers_do() {
        for (pattern, topic, expected) in [
            (
                "https://example.com/books/:id",
                "https://example.com/books/1",
                true,
            ),
            (
                "https://example.com/books/:id",
                "https://example.com/books/1?q#f",
                true,
            ),
            (
                "https://example.com/books/:id",
                "https://EXAMPLE.com/books/é",
                true,
            ),
            (
                "https://example.com/books/:id",
                "https://example.com/Books/1",
                false,
            ),
            (
                "https://example.com/books/:id",
                "https://example.com/books/",
                false,
            ),
            (
                "https://example.com/books/:id",
                "https://example.com/books/1/2",
                false,
            ),
            (
                "https://example.com/books/:id",
                "http://example.com/books/1",
                false,
            ),
            (
                "https://example.com/books/:id",
                "https://example.com:8443/books/1",
                false,
            ),
            ("https://example.com:443/a", "https://example.com/a", true),
            (
                "https://example.com/books/:id(\\d+)",
                "https://example.com/books/12",
                true,
            ),
            (
                "https://example.com/books/:id(\\d+)",
                "https://example.com/books/x",
                false,
            ),
            (
                "https://example.com/books/:id?",
                "https://example.com/books",
                true,
            ),
            (
                "https://example.com/books/*",
                "https://example.com/books/1/2",
                true,
            ),
            (
                "https://example.com/:path+",
                "https://example.com/a/b",
                true,
            ),
            (
                "https://example.com/a/:path*",
                "https://example.com/a",
                true,
            ),
            ("https://*.example.com/*", "https://a.b.example.com/x", true),
            (
                "https://:sub.example.com/*",
                "https://a.b.example.com/x",
                false,
            ),
            ("http{s}?://example.com/a", "http://example.com/a", true),
            ("http{s}?://example.com/a", "https://example.com/a", true),
            (
                "https://example.com/a?b=:c",
                "https://example.com/a?b=1",
                true,
            ),
            ("https://example.com/a?b=:c", "https://example.com/a", false),
            ("https://example.com/a#b", "https://example.com/a#b", true),
            ("https://example.com/a#b", "https://example.com/a#c", false),
            ("https://example.com/a{/b}?", "https://example.com/a", true),
            ("https://example.com/a b", "https://example.com/a%20b", true),
            ("https://example.com", "https://example.com/", true),
            ("https://example.com/x/../a", "https://example.com/a", true),
            (
                "/.well-known/mercure/subscriptions/:type/:match/:who",
                "/.well-known/mercure/subscriptions/exact/a/b",
                true,
            ),
            ("/books/:id", "https://hub.example/books/1", true),
            ("/books/:id", "https://example.com/books/1", false),
            ("books/:id", "/.well-known/books/1", true),
            (r"urn\:books\::id", "urn:books:1", true),
            (r"urn\:books\:*", "urn:books:1:2", true),
            ("*://*/books/1", "https://anywhere.example/books/1", true),
            ("https://[\\:\\:1]/a", "https://[::1]/a", true),
        ] {
            assert_eq!(matches(pattern, topic), expected, "{pattern} {topic}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let base = Url::parse(HUB, None).expect("a URL");
        for wrong in [
            "https://example.com/(",
            "https://example.com/{a",
            "https://example.com/:a/:a",
            "https://example.com/(?=x)",
            "https://example.com/((a))",
            "https://exa mple.com/",
            "https://example.com:8a/",
            "https://example.com/(\\p{Lu}+)(",
            "https://example.com/((?<a>b))",
            "https://example.com/((?P<a>b))",
        ] {
            let refused = UrlPattern::parse(wrong, &base).is_err();
            assert!(refused, "{wrong}");
        }
        let many = format!("/{}", ":a".repeat(65));
        assert!(UrlPattern::parse(&many, &base).is_err());
        assert!(UrlPattern::parse(&"a".repeat(2049), &base).is_err());
        // Each part is small enough, and all of them are not.
        let part = "([a-z]{300})";
        let one = UrlPattern::parse(&format!("/{part}"), &base).expect("a pattern");
        assert!(one.bytes() <= PATTERN_BYTES_MAX);
        for large in [
            format!("/{part}?{part}#{part}"),
            "/([a-z]{9999})".to_owned(),
        ] {
            let error = UrlPattern::parse(&large, &base).err();
            assert_eq!(error, Some(PatternError::TooLarge), "{large}");
        }
    }

    /// An expression of the pattern's own sees what stands before it.
    #[test]
    fn expressions_know_their_place() {
        assert!(!matches("/a(\\b.+)", "/ab"));
        assert!(matches("/a(\\B.+)", "/ab"));
        assert!(!matches("/a(^b)", "/ab"));
    }

    proptest! {
        /// What begins a part is compared apart, unless an expression of the pattern's own stands in it.
        #[test]
        fn a_literal_start_changes_nothing(
            words in proptest::collection::vec(proptest::sample::select(&["/a", "/:n", "b", "*", "{/c}?", "{d}", "/", "+", "?"][..]), 0..6),
            topic in "(/[abcdxz]{0,2}){0,4}/z",
        ) {
            let mut pattern = String::new();
            for (at, word) in words.iter().enumerate() {
                pattern.push_str(&word.replace(":n", &format!(":n{at}x")));
            }
            let base = Url::parse(HUB, None).expect("a URL");
            let is_pattern = |text: &str| UrlPattern::parse(text, &base).is_ok();
            let (plain, whole) = (format!("/{pattern}/z"), format!("/{pattern}/z(.{{0}})"));
            prop_assert_eq!(is_pattern(&plain), is_pattern(&whole));
            if is_pattern(&plain) {
                prop_assert_eq!(matches(&plain, &topic), matches(&whole, &topic), "{} {}", plain, topic);
            }
        }

        #[test]
        fn any_text_is_survived(text in "\\PC{0,60}", topic in "\\PC{0,40}") {
            let base = Url::parse(HUB, None).expect("a URL");
            if let (Ok(pattern), Some(url)) = (UrlPattern::parse(&text, &base), Url::parse(&topic, Some(&base))) {
                let _ = pattern.matches(&url);
            }
        }

        #[test]
        fn words_of_patterns_are_survived(text in "[a:/*+?{}()\\\\#@\\[\\].1]{0,40}") {
            let base = Url::parse(HUB, None).expect("a URL");
            let _ = UrlPattern::parse(&text, &base);
        }

        /// A segment's name selects any segment, and its text itself.
        #[test]
        fn a_name_is_any_segment(before in "[a-z/]{0,12}", value in "[-A-Za-z0-9._~]{1,12}x") {
            let topic = format!("https://example.com/{before}{value}");
            let folder = before.rfind('/').map_or("", |at| &before[..=at]);
            let pattern = format!("https://example.com/{folder}:id");
            prop_assert!(matches(&pattern, &topic), "{} {}", pattern, topic);
            prop_assert!(matches(&topic, &topic));
        }
    }
}
