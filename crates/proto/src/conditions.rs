//! Conditional requests (RFC 9110, section 13): compares the client's validators with the current representation.

use crate::date;

/// Validators of the current representation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validators<'a> {
    /// Entity tag, as in the `ETag` header.
    pub etag: Option<&'a [u8]>,
    /// Time of the last change, in seconds since 1970.
    pub modified_s: Option<u64>,
}

/// Condition headers of a request; several lines of one header are joined with commas.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions<'a> {
    /// `If-Match`
    pub if_match: Option<&'a [u8]>,
    /// `If-Unmodified-Since`
    pub if_unmodified_since: Option<&'a [u8]>,
    /// `If-None-Match`
    pub if_none_match: Option<&'a [u8]>,
    /// `If-Modified-Since`
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-Range`
    pub if_range: Option<&'a [u8]>,
}

/// Outcome of the conditions of a GET or HEAD request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All conditions hold, or the request has no conditions.
    Send,
    /// The client's copy is current; respond with 304.
    NotModified,
    /// A precondition failed; respond with 412.
    Failed,
}

impl Conditions<'_> {
    /// Returns true if the request has no condition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.if_match.is_none()
            && self.if_unmodified_since.is_none()
            && self.if_none_match.is_none()
            && self.if_modified_since.is_none()
    }

    /// Evaluates the conditions of a GET or HEAD request in the order of section 13.2.2. Ignores a condition whose date
    /// is malformed.
    ///
    /// `now_s` decides the century of two-digit years.
    #[must_use]
    pub fn outcome(&self, validators: &Validators<'_>, now_s: u64) -> Outcome {
        if let Some(tags) = self.if_match {
            if !lists(tags, validators.etag, is_strong_match) {
                return Outcome::Failed;
            }
        } else if let Some(since_s) = read(self.if_unmodified_since, now_s)
            && validators
                .modified_s
                .is_some_and(|modified_s| modified_s > since_s)
        {
            return Outcome::Failed;
        }
        if let Some(tags) = self.if_none_match {
            if lists(tags, validators.etag, is_weak_match) {
                return Outcome::NotModified;
            }
        } else if let Some(since_s) = read(self.if_modified_since, now_s)
            && validators
                .modified_s
                .is_some_and(|modified_s| modified_s <= since_s)
        {
            return Outcome::NotModified;
        }
        Outcome::Send
    }

    /// Returns true if `Range` applies: `If-Range` is absent or names this exact representation (section 13.1.5).
    ///
    /// A date matches if it equals the modification time and is old enough that the representation cannot have changed
    /// twice within that second (section 8.8.2.2).
    #[must_use]
    pub fn range_counts(&self, validators: &Validators<'_>, now_s: u64) -> bool {
        let Some(text) = self.if_range.map(<[u8]>::trim_ascii) else {
            return true;
        };
        if text.starts_with(b"\"") || text.starts_with(b"W/") {
            return validators
                .etag
                .is_some_and(|tag| is_strong_match(text, tag));
        }
        let since_s = date::parse(text, now_s);
        since_s.is_some()
            && since_s == validators.modified_s
            && since_s.is_some_and(|since_s| since_s + 1 < now_s)
    }
}

fn read(text: Option<&[u8]>, now_s: u64) -> Option<u64> {
    date::parse(text?.trim_ascii(), now_s)
}

/// Returns true if the list is `*` or contains a tag that matches.
fn lists(tags: &[u8], tag: Option<&[u8]>, is_match: fn(&[u8], &[u8]) -> bool) -> bool {
    if tags.trim_ascii() == b"*" {
        return true;
    }
    tag.is_some_and(|tag| Tags(tags).any(|item| is_match(item, tag)))
}

/// Strong comparison: both tags are strong and equal (RFC 9110, section 8.8.3.2).
fn is_strong_match(one: &[u8], other: &[u8]) -> bool {
    one == other && one.starts_with(b"\"")
}

/// Weak comparison: the tags are equal without their `W/` prefix.
fn is_weak_match(one: &[u8], other: &[u8]) -> bool {
    let opaque = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    opaque(one) == opaque(other)
}

/// Iterator over a list of entity tags, which may contain commas. Stops at the first malformed tag.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let filler = |byte: &u8| matches!(byte, b' ' | b'\t' | b',');
        let start = self.0.iter().position(|byte| !filler(byte))?;
        let rest = &self.0[start..];
        let quote = if rest.starts_with(b"W/") { 2 } else { 0 };
        if rest.get(quote) != Some(&b'"') {
            return None;
        }
        let inside = &rest[quote + 1..];
        let end = quote + 2 + memchr::memchr(b'"', inside)?;
        let (tag, after) = rest.split_at(end);
        if after.first().is_some_and(|byte| !filler(byte)) {
            return None;
        }
        self.0 = after;
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE_S: u64 = 784_111_777;
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const NOW_S: u64 = DATE_S + 100;

    fn outcome(headers: &[(&str, &str)]) -> Outcome {
        let mut conditions = Conditions::default();
        for (name, value) in headers {
            let value = Some(value.as_bytes());
            match *name {
                "match" => conditions.if_match = value,
                "none" => conditions.if_none_match = value,
                "since" => conditions.if_modified_since = value,
                "unmodified" => conditions.if_unmodified_since = value,
                _ => unreachable!(),
            }
        }
        let validators = Validators {
            etag: Some(b"\"a,b\""),
            modified_s: Some(DATE_S),
        };
        conditions.outcome(&validators, NOW_S)
    }

    #[test]
    fn tags_are_compared() {
        use Outcome::{Failed, NotModified, Send};
        for (value, none, matches) in [
            ("\"a,b\"", NotModified, Send),
            ("W/\"a,b\"", NotModified, Failed),
            ("\"x\", \"a,b\"", NotModified, Send),
            ("\"x\",,\t\"a,b\" ", NotModified, Send),
            ("*", NotModified, Send),
            ("\"a\"", Send, Failed),
            ("a,b", Send, Failed),
            ("\"x\" \"a,b\"", NotModified, Send),
            ("\"x\"\"a,b\"", Send, Failed),
            ("\"a,b", Send, Failed),
            ("w/\"a,b\"", Send, Failed),
            ("", Send, Failed),
        ] {
            assert_eq!(outcome(&[("none", value)]), none, "none {value}");
            assert_eq!(outcome(&[("match", value)]), matches, "match {value}");
        }
    }

    #[test]
    fn dates_are_compared() {
        use Outcome::{Failed, NotModified, Send};
        let later = "Sun, 06 Nov 1994 08:49:38 GMT";
        let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
        for (date, since, unmodified) in [
            (DATE, NotModified, Send),
            (later, NotModified, Send),
            (earlier, Send, Failed),
            ("yesterday", Send, Send),
        ] {
            assert_eq!(outcome(&[("since", date)]), since, "{date}");
            assert_eq!(outcome(&[("unmodified", date)]), unmodified, "{date}");
        }
    }

    #[test]
    fn tags_outrank_dates() {
        let none = outcome(&[("none", "\"x\""), ("since", DATE)]);
        assert_eq!(none, Outcome::Send);
        let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
        let matches = outcome(&[("match", "\"a,b\""), ("unmodified", earlier)]);
        assert_eq!(matches, Outcome::Send);
        let both = outcome(&[("match", "\"a,b\""), ("none", "\"a,b\"")]);
        assert_eq!(both, Outcome::NotModified);
    }

    #[test]
    fn a_part_must_be_of_the_same_representation() {
        let validators = Validators {
            etag: Some(b"\"a\""),
            modified_s: Some(DATE_S),
        };
        let counts = |text: &str, now_s| {
            let conditions = Conditions {
                if_range: Some(text.as_bytes()),
                ..Conditions::default()
            };
            conditions.range_counts(&validators, now_s)
        };
        assert!(Conditions::default().range_counts(&validators, NOW_S));
        assert!(counts("\"a\"", NOW_S) && counts(DATE, NOW_S));
        for wrong in ["W/\"a\"", "\"b\"", "Sun, 06 Nov 1994 08:49:38 GMT", "a", ""] {
            assert!(!counts(wrong, NOW_S), "{wrong}");
        }
        assert!(!counts(DATE, DATE_S), "it may change again in this second");
    }
}
