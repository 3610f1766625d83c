//! Matchers of the draft of version 1.0: type, colon and text.

/// Splits a matcher into its type and text.
pub fn split(matcher: &str) -> (&str, &str) {
    matcher.split_once(':').unwrap_or(("", matcher))
}

/// Creates a matcher. `None`: its type is unknown.
pub(crate) fn matcher(kind: &str, text: &str) -> Option<String> {
    ["exact", "urlpattern"]
        .contains(&kind)
        .then(|| format!("{kind}:{text}"))
}
