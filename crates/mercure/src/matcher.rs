//! Matchers of the draft of version 1.0: their type, a colon and their text.

/// The type and the text of a matcher.
pub fn split(matcher: &str) -> (&str, &str) {
    matcher.split_once(':').unwrap_or(("", matcher))
}

/// A matcher of a type that is known.
pub(crate) fn matcher(kind: &str, text: &str) -> Option<String> {
    ["exact", "urlpattern"]
        .contains(&kind)
        .then(|| format!("{kind}:{text}"))
}
