//! URLs as in the WHATWG standard, as far as topics and their patterns need them.
//!
//! Non-ASCII host names are not converted (IDNA): a topic with such a host is not a URL here, and no pattern matches it.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Schemes whose URLs have a host, with their default ports.
const SPECIAL: [(&str, &str); 6] = [
    ("http", "80"),
    ("https", "443"),
    ("ws", "80"),
    ("wss", "443"),
    ("ftp", "21"),
    ("file", ""),
];

/// Forbidden characters in a host, in addition to control characters.
const FORBIDDEN: &[u8] = b" #/:<>?@[\\]^|%";

/// The components of a URL in the form that is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// Scheme, without the colon.
    pub scheme: String,
    /// User name. It is empty if missing, like the other components.
    pub username: String,
    /// The part after the user's name.
    pub password: String,
    /// Host, in lower case.
    pub host: String,
    /// Port. Empty if it is the default port of the scheme.
    pub port: String,
    /// Path, with its first slash.
    pub path: String,
    /// Without the question mark.
    pub query: String,
    /// Fragment, without the hash sign.
    pub fragment: String,
    /// True if the path has no segments, as in `urn:uuid:…`.
    pub is_opaque: bool,
}

/// Selects the bytes of a component that are escaped, in addition to control characters and non-ASCII bytes.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Opaque,
    Fragment,
    Query,
    SpecialQuery,
    Path,
    User,
}

impl Url {
    /// Parses a URL. Missing components come from `base`. `None`: the text is not a URL.
    pub fn parse(text: &str, base: Option<&Url>) -> Option<Url> {
        #[cfg(test)]
        crate::counted::add(&crate::counted::URLS);
        let text = text.trim_matches(|it: char| it <= ' ');
        let (text, fragment) = split(text, '#');
        let mut url = match scheme_of(text) {
            Some((scheme, rest)) => {
                let is_relative = base.is_some_and(|base| base.scheme == scheme)
                    && is_special(&scheme)
                    && !rest.starts_with(['/', '\\']);
                match base.filter(|_| is_relative) {
                    Some(base) => relative(rest, base)?,
                    None => absolute(scheme, rest)?,
                }
            }
            None => relative(text, base?)?,
        };
        url.fragment = escape(fragment.unwrap_or_default(), Part::Fragment);
        Some(url)
    }

    /// Returns scheme, host and port.
    pub fn origin(&self) -> String {
        let port = if self.port.is_empty() {
            String::new()
        } else {
            format!(":{}", self.port)
        };
        format!("{}://{}{port}", self.scheme, self.host)
    }
}

/// Returns true if URLs of a scheme have a host and a path of segments.
pub(crate) fn is_special(scheme: &str) -> bool {
    SPECIAL.iter().any(|(name, _)| *name == scheme)
}

/// Returns all schemes in `SPECIAL`.
pub(crate) fn special() -> impl Iterator<Item = &'static str> {
    SPECIAL.iter().map(|(name, _)| *name)
}

/// Returns true if a port is the scheme's default.
pub(crate) fn is_usual_port(scheme: &str, port: &str) -> bool {
    SPECIAL.contains(&(scheme, port))
}

/// Parses a host of a special scheme, in lower case. `None`: the host is invalid.
pub(crate) fn host(text: &str) -> Option<String> {
    if let Some(inside) = text.strip_prefix('[') {
        let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
        return Some(format!("[{address}]"));
    }
    let decoded = crate::form::decode(text.as_bytes(), false)?;
    let is_good = |byte: u8| byte.is_ascii_graphic() && !FORBIDDEN.contains(&byte);
    if !decoded.bytes().all(is_good) {
        return None;
    }
    let host = decoded.to_ascii_lowercase();
    // A host whose last label is a number is an IPv4 address, or invalid.
    let last = host.trim_end_matches('.').rsplit('.').next()?;
    if last.bytes().all(|byte| byte.is_ascii_digit()) && !last.is_empty() {
        host.parse::<Ipv4Addr>().ok().map(|it| it.to_string())
    } else {
        Some(host)
    }
}

/// Normalizes a path: removes the segments `.` and `..`. The result starts with a slash.
pub(crate) fn path_of(text: &str, has_backslashes: bool) -> String {
    let is_slash = |it: char| it == '/' || (has_backslashes && it == '\\');
    let mut segments: Vec<String> = Vec::new();
    let text = text.strip_prefix(is_slash).unwrap_or(text);
    let mut rest = text.split(is_slash).peekable();
    while let Some(segment) = rest.next() {
        let is_last = rest.peek().is_none();
        // Browsers treat `%2e` as a dot.
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        match plain.as_str() {
            "." | ".." => {
                if plain == ".." {
                    segments.pop();
                }
                // A dot segment at the end leaves the slash before it.
                if is_last {
                    segments.push(String::new());
                }
            }
            _ => segments.push(escape(segment, Part::Path)),
        }
    }
    format!("/{}", segments.join("/"))
}

/// Escapes the characters that are not allowed in a component.
pub(crate) fn escape(text: &str, part: Part) -> String {
    let more: &[u8] = match part {
        Part::Opaque => b"",
        Part::Fragment => b" \"<>`",
        Part::Query => b" \"#<>",
        Part::SpecialQuery => b" \"#<>'",
        Part::Path => b" \"#<>?^`{}",
        Part::User => b" \"#<>?^`{}/:;=@[\\]|",
    };
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if (byte.is_ascii_graphic() || byte == b' ') && !more.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn scheme_of(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    (scheme.starts_with(|it: char| it.is_ascii_alphabetic()) && scheme.bytes().all(is_good))
        .then(|| (scheme.to_ascii_lowercase(), rest))
}

fn absolute(scheme: String, rest: &str) -> Option<Url> {
    let mut url = Url {
        scheme,
        ..Url::default()
    };
    if is_special(&url.scheme) {
        // Special schemes allow any number of slashes and backslashes.
        let rest = rest.trim_start_matches(['/', '\\']);
        authority(&mut url, rest)?;
    } else if let Some(rest) = rest.strip_prefix("//") {
        authority(&mut url, rest)?;
    } else {
        let (path, query) = split(rest, '?');
        url.query = escape(query.unwrap_or_default(), Part::Query);
        url.is_opaque = !path.starts_with('/');
        url.path = if url.is_opaque {
            escape(path, Part::Opaque)
        } else {
            path_of(path, false)
        };
    }
    Some(url)
}

/// Parses the part after the slashes.
fn authority(url: &mut Url, rest: &str) -> Option<()> {
    let is_special = is_special(&url.scheme);
    let ends = |it: char| matches!(it, '/' | '?') || (is_special && it == '\\');
    let (authority, rest) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => (user, place),
        None => ("", authority),
    };
    let (username, password) = split(user, ':');
    url.username = escape(username, Part::User);
    url.password = escape(password.unwrap_or_default(), Part::User);
    let end_of_address = place.rfind(']').unwrap_or_default();
    let (name, port) = match place[end_of_address..].rfind(':') {
        Some(at) => (
            &place[..end_of_address + at],
            &place[end_of_address + at + 1..],
        ),
        None => (place, ""),
    };
    url.host = match name {
        "" if is_special && url.scheme != "file" => return None,
        "" => String::new(),
        _ if is_special => host(name)?,
        _ => escape(name, Part::Opaque),
    };
    if !port.is_empty() {
        let port = port.bytes().all(|it| it.is_ascii_digit()).then_some(port)?;
        let port = port.parse::<u16>().ok()?.to_string();
        if !is_usual_port(&url.scheme, &port) {
            url.port = port;
        }
    }
    path_and_query(url, rest);
    Some(())
}

fn path_and_query(url: &mut Url, rest: &str) {
    let is_special = is_special(&url.scheme);
    let (path, query) = split(rest, '?');
    url.path = if path.is_empty() && !is_special {
        String::new()
    } else {
        path_of(path, is_special)
    };
    set_query(url, query);
}

fn set_query(url: &mut Url, query: Option<&str>) {
    let part = if is_special(&url.scheme) {
        Part::SpecialQuery
    } else {
        Part::Query
    };
    url.query = escape(query.unwrap_or_default(), part);
}

fn relative(text: &str, base: &Url) -> Option<Url> {
    if base.is_opaque {
        return None;
    }
    let mut url = base.clone();
    let has_backslashes = is_special(&base.scheme);
    let is_slash = |it: char| it == '/' || (has_backslashes && it == '\\');
    if let Some(rest) = text.strip_prefix(is_slash) {
        match rest.strip_prefix(is_slash) {
            Some(rest) => {
                (url.username, url.password) = (String::new(), String::new());
                (url.host, url.port) = (String::new(), String::new());
                authority(&mut url, rest)?;
            }
            None => path_and_query(&mut url, text),
        }
        return Some(url);
    }
    let (path, query) = split(text, '?');
    if !path.is_empty() {
        let folder = base.path.rfind('/').map_or(0, |at| at + 1);
        url.path = path_of(&format!("{}{path}", &base.path[..folder]), has_backslashes);
    }
    if !path.is_empty() || query.is_some() {
        set_query(&mut url, query);
    }
    Some(url)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        let base = Url::parse("https://hub.example/.well-known/mercure", None).expect("a URL");
        match Url::parse(text, Some(&base)) {
            None => "none".to_owned(),
            Some(url) if url.is_opaque => format!("{}:{}", url.scheme, url.path),
            Some(url) => format!(
                "{} {} ?{} #{}",
                url.origin(),
                url.path,
                url.query,
                url.fragment
            ),
        }
    }

    /// Examples with the results of browsers.
    #[test]
    fn parses_urls_like_browsers() {
        for (text, expected) in [
            ("https://EXAMPLE.com", "https://example.com / ? #"),
            ("https://example.com:443/a", "https://example.com /a ? #"),
            ("http://example.com:443/a", "http://example.com:443 /a ? #"),
            (
                "https://u:p@example.com/a?b#c",
                "https://example.com /a ?b #c",
            ),
            ("https:\\\\example.com\\a", "https://example.com /a ? #"),
            (
                "https://e.com/a/./b/../c/%2E%2e/d",
                "https://e.com /a/d ? #",
            ),
            ("https://e.com/a/..", "https://e.com / ? #"),
            ("https://e.com/é b", "https://e.com /%C3%A9%20b ? #"),
            ("https://e.com/?a'b", "https://e.com / ?a%27b #"),
            ("https://[::1]:8080/", "https://[::1]:8080 / ? #"),
            ("https://127.0.0.1/", "https://127.0.0.1 / ? #"),
            ("/books/1", "https://hub.example /books/1 ? #"),
            ("books", "https://hub.example /.well-known/books ? #"),
            ("../books", "https://hub.example /books ? #"),
            ("?a", "https://hub.example /.well-known/mercure ?a #"),
            ("", "https://hub.example /.well-known/mercure ? #"),
            ("//other/x", "https://other /x ? #"),
            ("urn:uuid:1 2", "urn:uuid:1 2"),
            ("redis://host/a", "redis://host /a ? #"),
            ("https://", "none"),
            ("https://a b/", "none"),
            ("https://1.2.3.999/", "none"),
            ("https://e.com:99999/", "none"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_on_any_text(text in "\\PC{0,60}", base in "\\PC{0,40}") {
            let base = Url::parse(&base, None);
            let _ = Url::parse(&text, base.as_ref());
        }

        /// A path never leaves its root.
        #[test]
        fn paths_have_no_dots(text in "[./%2eEa\\\\]{0,30}") {
            let path = path_of(&text, true);
            prop_assert!(path.starts_with('/'));
            prop_assert!(!path.split('/').any(|it| it == "." || it == ".."), "{}", path);
        }
    }
}
