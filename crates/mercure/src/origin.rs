//! Permissions for pages of other sites: reading by CORS, and publishing with a cookie.

/// Allowed origins of pages: `*`, one origin, or all origins of a domain, as in
/// `https://*.example.com`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(Vec<String>);

/// Permission of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// The page may not read.
    Refused,
    /// Every page may read, but without cookies.
    AnyOrigin,
    /// This page may read, with cookies.
    This,
}

impl Origins {
    /// Creates the value from a list of origins.
    pub fn new(list: impl IntoIterator<Item = String>) -> Origins {
        Origins(list.into_iter().collect())
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the permission of an origin. A listed origin has precedence over `*`.
    pub fn allow(&self, origin: &str) -> Allowed {
        let is_it = |known: &&String| match known.split_once('*') {
            _ if *known == "*" => false,
            Some((before, after)) => {
                origin.len() > before.len() + after.len()
                    && origin.starts_with(before)
                    && origin.ends_with(after)
            }
            None => known.eq_ignore_ascii_case(origin),
        };
        if self.0.iter().any(|known| is_it(&known)) {
            Allowed::This
        } else if self.0.iter().any(|known| known == "*") {
            Allowed::AnyOrigin
        } else {
            Allowed::Refused
        }
    }
}

/// Returns the origin of the page in a `Referer`.
pub(crate) fn of_referer(referer: &str) -> Option<&str> {
    let (scheme, rest) = referer.split_once("://")?;
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Some(&referer[..scheme.len() + 3 + host])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_origins() {
        let origins = Origins::new(["https://a.example", "https://*.b.example"].map(str::to_owned));
        for (origin, allowed) in [
            ("https://a.example", Allowed::This),
            ("https://A.example", Allowed::This),
            ("http://a.example", Allowed::Refused),
            ("https://a.example.evil", Allowed::Refused),
            ("https://x.b.example", Allowed::This),
            ("https://.b.example", Allowed::Refused),
            ("https://b.example", Allowed::Refused),
            ("null", Allowed::Refused),
        ] {
            assert_eq!(origins.allow(origin), allowed, "{origin}");
        }
        let all = Origins::new(["*", "https://a.example"].map(str::to_owned));
        assert_eq!(all.allow("https://a.example"), Allowed::This);
        assert_eq!(all.allow("https://c.example"), Allowed::AnyOrigin);
        assert_eq!(
            of_referer("https://a.example/b?c"),
            Some("https://a.example")
        );
        assert_eq!(of_referer("https://a.example"), Some("https://a.example"));
        assert_eq!(of_referer("a"), None);
    }
}
