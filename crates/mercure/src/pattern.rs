//! URL patterns, <https://urlpattern.spec.whatwg.org>: one regular expression for each component of a URL.
//!
//! The regular expression engine takes time linear in the topic's length. Patterns with features that the engine lacks
//! (look-around, back references) are invalid.

mod component;
mod constructor;
mod parts;
mod words;

use crate::TOPIC_BYTES_MAX;
use crate::expression::PATTERN_BYTES_MAX;
use crate::url::{self, Url};
use component::{Compiled, compile};
use constructor::{Constructor, is_special_protocol};
pub use parts::PatternError;
use parts::*;
use words::tokenize;

/// Maximum number of names, groups and wildcards in a pattern.
const GROUPS_MAX: usize = 64;

/// A compiled pattern.
#[derive(Clone)]
pub struct UrlPattern {
    /// One compiled expression per component. `None` matches everything.
    parts: Vec<Option<Compiled>>,
    bytes: usize,
}

impl UrlPattern {
    /// Compiles a pattern. Takes missing components from `base`.
    ///
    /// # Errors
    /// The pattern is invalid or too large.
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

    /// Returns the total size of the compiled expressions in bytes. It is at most [`PATTERN_BYTES_MAX`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if the pattern matches a URL.
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

/// Copies components from the base, up to the first component that the pattern has.
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

/// Escapes text that a pattern has to match literally.
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
    fn rejects_invalid_patterns() {
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
        // Each component is small enough, but their total size is not.
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

    /// A regular expression that is written in a pattern sees the text before it.
    #[test]
    fn expressions_see_the_text_before_them() {
        assert!(!matches("/a(\\b.+)", "/ab"));
        assert!(matches("/a(\\B.+)", "/ab"));
        assert!(!matches("/a(^b)", "/ab"));
    }

    proptest! {
        /// The literal prefix of a component is compared separately, unless the component contains an expression of the
        /// pattern.
        #[test]
        fn literal_prefix_does_not_change_matches(
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
        fn never_panics_on_any_text(text in "\\PC{0,60}", topic in "\\PC{0,40}") {
            let base = Url::parse(HUB, None).expect("a URL");
            if let (Ok(pattern), Some(url)) = (UrlPattern::parse(&text, &base), Url::parse(&topic, Some(&base))) {
                let _ = pattern.matches(&url);
            }
        }

        #[test]
        fn never_panics_on_tokens_of_patterns(text in "[a:/*+?{}()\\\\#@\\[\\].1]{0,40}") {
            let base = Url::parse(HUB, None).expect("a URL");
            let _ = UrlPattern::parse(&text, &base);
        }

        /// A named segment matches any segment. A literal segment matches only itself.
        #[test]
        fn named_segment_matches_any_segment(before in "[a-z/]{0,12}", value in "[-A-Za-z0-9._~]{1,12}x") {
            let topic = format!("https://example.com/{before}{value}");
            let folder = before.rfind('/').map_or("", |at| &before[..=at]);
            let pattern = format!("https://example.com/{folder}:id");
            prop_assert!(matches(&pattern, &topic), "{} {}", pattern, topic);
            prop_assert!(matches(&topic, &topic));
        }
    }
}
