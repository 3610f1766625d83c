//! Selectors of topics: `*`, an exact topic, or a URI template (RFC 6570).
//!
//! A template selects its possible expansions. It is compiled for an engine that takes time linear in the topic's
//! length, so no client can make matching expensive. The literal prefix before the first expression is compared first,
//! which rejects nearly all other topics.

use std::fmt;
use std::sync::Arc;

use crate::expression::{Expression, ExpressionError, PATTERN_BYTES_MAX, TEMPLATE_BYTES};
use crate::pattern::{PatternError, UrlPattern};
use crate::topic::Topic;
use crate::url::Url;
use crate::{TOPIC_BYTES_MAX, matcher};

/// Maximum number of expressions in a template, and of variables in an expression.
const EXPRESSIONS_MAX: usize = 16;

/// Syntax of selectors.
#[derive(Clone, Debug, Default)]
pub enum Syntax {
    /// Version 0.x: a topic, or a URI template.
    #[default]
    Templates,
    /// Draft of version 1.0: a type and a topic, or a type and a URL pattern relative to this URL.
    Matchers(Arc<Url>),
}

/// Selector of topics in a subscription or token.
pub enum Selector {
    /// All topics.
    Any,
    /// This topic.
    Exact(Box<str>),
    /// The expansions of a template, and the template's own text.
    Template(Template),
    /// The URLs that a pattern matches.
    Pattern {
        /// The pattern as written, with its type.
        text: Box<str>,
        /// The compiled pattern.
        pattern: Box<UrlPattern>,
        /// The base URL of topics.
        base: Arc<Url>,
    },
}

/// A compiled template.
pub struct Template {
    /// As written.
    text: Box<str>,
    /// Length of the literal prefix in bytes.
    literal: usize,
    /// Expression for the text after the literal prefix.
    expression: Expression,
}

impl Template {
    fn matches(&self, topic: &str) -> bool {
        *self.text == *topic
            || topic
                .strip_prefix(&self.text[..self.literal])
                .is_some_and(|rest| self.expression.is_match(rest))
    }
}

/// Reason why a template or pattern is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The selector is longer than [`TOPIC_BYTES_MAX`].
    #[error("a topic is longer than {TOPIC_BYTES_MAX} bytes")]
    TooLong,
    /// More than [`EXPRESSIONS_MAX`] expressions.
    #[error("a template has more than {EXPRESSIONS_MAX} expressions or variables in one")]
    TooMany,
    /// The compiled form of the selector is larger than [`PATTERN_BYTES_MAX`].
    #[error(
        "a template or pattern has more than {PATTERN_BYTES_MAX} bytes when it is compiled; use fewer expressions and repetitions"
    )]
    TooLarge,
    /// Unknown matcher type, or a matcher that is not a valid URL pattern.
    #[error("a matcher is not a URL pattern, or has an unknown type")]
    Pattern,
}

/// Properties of an expression's operator (RFC 6570, appendix A).
struct Operator {
    first: &'static str,
    separator: &'static str,
    is_named: bool,
    allows_reserved: bool,
}

impl Selector {
    /// Parses a selector. Text that is not a valid template is a topic.
    ///
    /// # Errors
    /// The selector is too large.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        if text.len() > TOPIC_BYTES_MAX {
            return Err(SelectorError::TooLong);
        }
        if text == "*" {
            return Ok(Selector::Any);
        }
        let Some(literal) = text.find('{') else {
            return Ok(Selector::Exact(text.into()));
        };
        match expression_of(text, literal)? {
            Some(expression) => Ok(Selector::Template(Template {
                text: text.into(),
                literal,
                expression,
            })),
            None => Ok(Selector::Exact(text.into())),
        }
    }

    /// Parses a selector in a syntax.
    ///
    /// # Errors
    /// The selector is too large, or invalid in this syntax.
    pub fn parse_as(syntax: &Syntax, text: &str) -> Result<Selector, SelectorError> {
        let Syntax::Matchers(base) = syntax else {
            return Selector::parse(text);
        };
        let (kind, matcher) = matcher::split(text);
        if matcher.len() > TOPIC_BYTES_MAX {
            return Err(SelectorError::TooLong);
        }
        match kind {
            "exact" | "urlpattern" if matcher == "*" => Ok(Selector::Any),
            "exact" => Ok(Selector::Exact(matcher.into())),
            "urlpattern" => Ok(Selector::Pattern {
                text: text.into(),
                pattern: Box::new(UrlPattern::parse(matcher, base).map_err(
                    |error| match error {
                        PatternError::Syntax => SelectorError::Pattern,
                        PatternError::TooLarge => SelectorError::TooLarge,
                    },
                )?),
                base: Arc::clone(base),
            }),
            _ => Err(SelectorError::Pattern),
        }
    }

    /// Returns true if the selector selects a topic.
    pub fn matches(&self, topic: &Topic) -> bool {
        #[cfg(test)]
        crate::counted::add(&crate::counted::SELECTORS);
        match self {
            Selector::Any => true,
            Selector::Exact(text) => **text == *topic.text(),
            Selector::Template(template) => template.matches(topic.text()),
            Selector::Pattern { pattern, base, .. } => {
                topic.url(base).is_some_and(|url| pattern.matches(url))
            }
        }
    }

    /// Returns the number of templates for the limits. Templates and patterns are compared with each topic, so each
    /// [`TEMPLATE_BYTES`] of their compiled size count as one.
    pub fn templates(&self) -> usize {
        let bytes = match self {
            Selector::Any | Selector::Exact(_) => return 0,
            Selector::Template(template) => template.expression.bytes(),
            Selector::Pattern { pattern, .. } => pattern.bytes(),
        };
        bytes.div_ceil(TEMPLATE_BYTES).max(1)
    }

    /// Returns the text as written.
    pub fn text(&self) -> &str {
        match self {
            Selector::Any => "*",
            Selector::Exact(text)
            | Selector::Template(Template { text, .. })
            | Selector::Pattern { text, .. } => text,
        }
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Selector({})", self.text())
    }
}

/// Compiles a template after its literal prefix. Returns `None` if the text is not a template.
fn expression_of(text: &str, literal: usize) -> Result<Option<Expression>, SelectorError> {
    let mut pattern = String::from("^(?:");
    let mut rest = &text[literal..];
    let mut count = 0;
    while let Some((literal, after)) = rest.split_once('{') {
        let Some((expression, after)) = after.split_once('}') else {
            return Ok(None);
        };
        count += 1;
        if count > EXPRESSIONS_MAX {
            return Err(SelectorError::TooMany);
        }
        pattern.push_str(&regex_lite::escape(literal));
        if !write_expression(expression, &mut pattern)? {
            return Ok(None);
        }
        rest = after;
    }
    pattern.push_str(&regex_lite::escape(rest));
    pattern.push_str(")$");
    match Expression::compile(&pattern, PATTERN_BYTES_MAX) {
        Ok(expression) => Ok(Some(expression)),
        Err(ExpressionError::TooLarge) => Err(SelectorError::TooLarge),
        Err(ExpressionError::Syntax) => Ok(None),
    }
}

/// Appends the pattern of an expression's expansions. Returns false if the expression is invalid.
fn write_expression(expression: &str, out: &mut String) -> Result<bool, SelectorError> {
    let (operator, names) = operator_of(expression);
    let (mut count, mut is_exploded) = (0, false);
    for name in names.split(',') {
        count += 1;
        if count > EXPRESSIONS_MAX {
            return Err(SelectorError::TooMany);
        }
        let (name, explodes) = match name.strip_suffix('*') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let (name, prefix) = name.split_once(':').unwrap_or((name, "1"));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.%".contains(&byte);
        let is_prefix = (1..=4).contains(&prefix.len())
            && prefix.bytes().all(|byte| byte.is_ascii_digit())
            && !prefix.starts_with('0');
        if name.is_empty() || !name.bytes().all(is_name) || !is_prefix {
            return Ok(false);
        }
        is_exploded |= explodes;
    }
    // An undefined variable expands to nothing. Lists and maps are written with commas, and maps with `=` between name and
    // value.
    let mut class = String::from("(?:[-.0-9A-Za-z_~");
    if operator.allows_reserved {
        class.push_str(r"!#$&'()*+,/:;=?@\[\]");
    } else {
        class.push(',');
        if operator.is_named || is_exploded {
            class.push('=');
        }
    }
    class.push_str("]|%[0-9A-Fa-f][0-9A-Fa-f])*");
    let separator = regex_lite::escape(operator.separator);
    let more = match (is_exploded, count - 1) {
        (true, _) => format!("(?:{separator}{class})*"),
        (false, 0) => String::new(),
        (false, more) => format!("(?:{separator}{class}){{0,{more}}}"),
    };
    let first = regex_lite::escape(operator.first);
    if first.is_empty() {
        out.push_str(&class);
        out.push_str(&more);
    } else {
        out.push_str(&format!("(?:{first}{class}{more})?"));
    }
    Ok(true)
}

fn operator_of(expression: &str) -> (Operator, &str) {
    let (sign, names) = match expression.as_bytes().first() {
        Some(sign @ (b'+' | b'#' | b'.' | b'/' | b';' | b'?' | b'&')) => (*sign, &expression[1..]),
        _ => (0, expression),
    };
    let (first, separator) = match sign {
        b'#' => ("#", ","),
        b'.' => (".", "."),
        b'/' => ("/", "/"),
        b';' => (";", ";"),
        b'?' => ("?", "&"),
        b'&' => ("&", "&"),
        _ => ("", ","),
    };
    let operator = Operator {
        first,
        separator,
        is_named: matches!(sign, b';' | b'?' | b'&'),
        allows_reserved: matches!(sign, b'+' | b'#'),
    };
    (operator, names)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::counted;

    fn matches(selector: &str, topic: &str) -> bool {
        let selector = Selector::parse(selector).expect(selector);
        selector.matches(&Topic::new(topic))
    }

    #[test]
    fn parses_topics_stars_and_templates() {
        assert!(matches("*", "https://example.com/books/1"));
        assert!(matches("https://example.com/a", "https://example.com/a"));
        assert!(!matches("https://example.com/a", "https://example.com/ab"));
        let books = "https://example.com/books/{id}";
        assert!(matches(books, "https://example.com/books/1"));
        assert!(matches(books, "https://example.com/books/"));
        assert!(matches(books, books));
        assert!(!matches(books, "https://example.com/books/1/2"));
        assert!(!matches(books, "https://example.com/books/1?a"));
        assert!(!matches(books, "https://example.org/books/1"));
        assert!(!matches(books, "xhttps://example.com/books/1"));
        assert!(!matches(books, "https://example.com/books/1\n"));
        let subscriptions = "/.well-known/mercure/subscriptions{/topic}{/subscriber}";
        assert!(matches(
            subscriptions,
            "/.well-known/mercure/subscriptions/https%3A%2F%2Fexample.com/urn%3Auuid%3A1"
        ));
        assert!(!matches(
            subscriptions,
            "/.well-known/mercure/subscriptions/a/b/c"
        ));
    }

    /// Tests the expansions of the examples in RFC 6570, section 3.2.
    #[test]
    fn matches_the_examples_of_rfc_6570() {
        for (template, expansion) in [
            ("{count*}", "one,two,three"),
            ("{var}", "value"),
            ("{hello}", "Hello%20World%21"),
            ("O{empty}X", "OX"),
            ("{x,hello,y}", "1024,Hello%20World%21,768"),
            ("?{x,empty}", "?1024,"),
            ("{var:30}", "value"),
            ("{keys*}", "semi=%3B,dot=.,comma=%2C"),
            ("{+path}/here", "/foo/bar/here"),
            ("here?ref={+path}", "here?ref=/foo/bar"),
            ("{+x,hello,y}", "1024,Hello%20World!,768"),
            ("{+keys*}", "semi=;,dot=.,comma=,"),
            ("{#path:6}here", "#/foo/bhere"),
            ("X{#undef}", "X"),
            ("{.who}", ".fred"),
            ("www{.dom*}", "www.example.com"),
            ("X{.empty_keys}", "X"),
            ("{/who}", "/fred"),
            ("{/half,who}", "/50%25/fred"),
            ("{/var,empty}", "/value/"),
            ("{/list*,path:4}", "/red/green/blue/%2Ffoo"),
            ("{;x,y,empty}", ";x=1024;y=768;empty"),
            ("{;keys*}", ";semi=%3B;dot=.;comma=%2C"),
            ("{?x,y}", "?x=1024&y=768"),
            ("{?list*}", "?list=red&list=green&list=blue"),
            ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ] {
            assert!(matches(template, expansion), "{template} {expansion}");
        }
        assert!(!matches("{/who}", "/fred/x"));
        assert!(!matches("{x,y}", "1024/768"));
        assert!(!matches("{?x}", "x=1024"));
    }

    #[test]
    fn invalid_template_is_a_topic() {
        for text in ["{", "a{b", "{}", "{a b}", "{a:0}", "{=a}", "{a,}", "a}b"] {
            assert!(matches(text, text), "{text}");
            assert!(!matches(text, "a"), "{text}");
        }
    }

    #[test]
    fn rejects_large_selectors() {
        let error = |text: &str| Selector::parse(text).expect_err("too large");
        assert_eq!(error(&"a".repeat(2049)), SelectorError::TooLong);
        assert_eq!(error(&"{a}".repeat(17)), SelectorError::TooMany);
        assert_eq!(
            error(&format!("{{{}a}}", "a,".repeat(16))),
            SelectorError::TooMany
        );
        let square = |len: usize| format!("{{/{}a}}", "a,".repeat(len - 1)).repeat(len);
        let large = Selector::parse(&square(8)).expect("a template");
        assert!((8..=PATTERN_BYTES_MAX / TEMPLATE_BYTES).contains(&large.templates()));
        assert_eq!(error(&square(16)), SelectorError::TooLarge);
    }

    #[test]
    fn compares_the_literal_prefix_before_the_expression() {
        let base = Arc::new(Url::parse("https://hub.example/", None).expect("a URL"));
        let compared = |selector: &Selector, topic: &str| {
            let topic = Topic::new(topic);
            counted::during(&counted::COMPARED, || selector.matches(&topic))
        };
        let matchers = Syntax::Matchers(base);
        let (exact, compiled) = counted::during(&counted::COMPILED, || {
            Selector::parse_as(&matchers, "urlpattern:https://example.com/books/1?a#b")
        });
        assert_eq!(compiled, 0);
        let exact = exact.expect("a pattern");
        let topic = "https://example.com/books/1?a#b";
        assert_eq!(compared(&exact, topic), (true, 0));
        assert_eq!(exact.templates(), 1);
        for selector in [
            Selector::parse("https://example.com/books/{id}"),
            Selector::parse_as(&matchers, "urlpattern:https://example.com/books/:id"),
            Selector::parse_as(&matchers, r"urlpattern:https://example.com/books/:id(\d+)"),
        ] {
            let selector = selector.expect("a selector");
            for other in [
                "https://example.org/books/1",
                "http://example.com/books/1",
                "https://example.com/authors/1",
                "books",
            ] {
                assert_eq!(compared(&selector, other), (false, 0), "{other}");
            }
            let topic = "https://example.com/books/1";
            assert_eq!(compared(&selector, topic), (true, 1), "{selector:?}");
            assert_eq!(selector.templates(), 1);
        }
    }

    proptest! {
        #[test]
        fn any_selector_matches_its_own_text(text in ".{0,80}") {
            if let Ok(selector) = Selector::parse(&text) {
                prop_assert!(selector.matches(&Topic::new(text)));
            }
        }

        #[test]
        fn variable_matches_any_segment(
            before in "[a-z/:]{0,20}", value in "[-A-Za-z0-9._~]{0,20}", after in "[a-z/:]{0,20}",
        ) {
            let topic = format!("{before}{value}{after}");
            let templates = ["{id}", "{+id}"].map(|id| format!("{before}{id}{after}"));
            prop_assert!(templates.iter().all(|template| matches(template, &topic)));
        }
    }
}
