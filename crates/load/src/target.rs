//! Target URLs and texts with placeholders.

use std::net::{SocketAddr, ToSocketAddrs};

use fermata_proto::number::decimal;

use crate::error::Error;

/// Placeholder for the number of the request, or of the group in scenarios with groups.
const NUMBER: &str = "{n}";
/// Placeholder for the number of the client.
const CLIENT: &str = "{client}";
/// Placeholder for the message that receivers verify.
const MESSAGE: &str = "{message}";

/// Values of the placeholders in one rendering.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Values<'a> {
    pub number: u64,
    pub client: u64,
    pub message: &'a [u8],
}

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Number,
    Client,
    Message,
}

impl Template {
    pub fn parse(text: &[u8]) -> Self {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some(&first) = rest.first() {
            let known = [
                (NUMBER, Part::Number),
                (CLIENT, Part::Client),
                (MESSAGE, Part::Message),
            ];
            let found = known
                .into_iter()
                .find(|(placeholder, _)| rest.starts_with(placeholder.as_bytes()));
            if let Some((placeholder, part)) = found {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                parts.push(part);
                rest = &rest[placeholder.len()..];
            } else {
                literal.push(first);
                rest = &rest[1..];
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Self { parts }
    }

    pub fn render(&self, values: Values<'_>, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Literal(bytes) => out.extend_from_slice(bytes),
                Part::Number => decimal(out, values.number),
                Part::Client => decimal(out, values.client),
                Part::Message => out.extend_from_slice(values.message),
            }
        }
    }

    /// Returns true if every rendering is identical.
    pub fn is_constant(&self) -> bool {
        self.parts
            .iter()
            .all(|part| matches!(part, Part::Literal(_)))
    }

    /// Returns true if the text contains `{n}`.
    pub fn has_number(&self) -> bool {
        self.parts.contains(&Part::Number)
    }

    /// Returns true if the text contains `{message}`.
    pub fn has_message(&self) -> bool {
        self.parts.contains(&Part::Message)
    }
}

/// A parsed and resolved URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub address: SocketAddr,
    /// Value of the `Host` header.
    pub host: String,
    /// Path and query.
    pub path: Template,
}

impl Target {
    /// Parses the URL of `option`, which must have the scheme `scheme` (`http` or `ws`), and resolves the host name
    /// once.
    pub fn parse(option: &str, url: &str, scheme: &str) -> Result<Self, Error> {
        let example = || format!("give one like {scheme}://127.0.0.1:8080/path");
        let Some((given, rest)) = url.split_once("://") else {
            let cause = format!("\"{url}\" has no scheme");
            return Err(Error::option(option, cause, example()));
        };
        if given == format!("{scheme}s") {
            let cause = format!("{given} is not spoken by the load generator");
            let fix = format!("measure the server behind the TLS proxy by {scheme}://");
            return Err(Error::option(option, cause, fix));
        }
        if given != scheme {
            let cause = format!("the scheme {given} does not fit here");
            return Err(Error::option(option, cause, example()));
        }
        let (host, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let path = match path.as_bytes().first() {
            Some(b'/') => path.to_string(),
            _ => format!("/{path}"),
        };
        let path = path.split('#').next().unwrap_or_default();
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            let cause = format!("\"{path}\" contains a space or control character");
            return Err(Error::option(option, cause, "percent-encode it"));
        }
        if host.is_empty() || host.contains('@') {
            let cause = format!("\"{url}\" names no host, or a user");
            return Err(Error::option(option, cause, example()));
        }
        Ok(Self {
            address: resolve(option, host)?,
            host: host.to_string(),
            path: Template::parse(path.as_bytes()),
        })
    }
}

/// Resolves `HOST`, `HOST:PORT`, `[V6]` or `[V6]:PORT`; the default port is 80.
fn resolve(option: &str, host: &str) -> Result<SocketAddr, Error> {
    let has_port = match host.rfind(']') {
        Some(end) => host[end..].contains(':'),
        None => host.contains(':'),
    };
    let address = if has_port {
        host.to_string()
    } else {
        format!("{host}:80")
    };
    let resolved = address.to_socket_addrs();
    let first = resolved.and_then(|mut addresses| {
        addresses
            .next()
            .ok_or_else(|| std::io::Error::other("the name has no address"))
    });
    first.map_err(|error| {
        let cause = format!("\"{host}\" cannot be resolved ({error})");
        Error::option(option, cause, "check the host name, or give an IP address")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(template: &Template, number: u64) -> String {
        let mut out = Vec::new();
        template.render(
            Values {
                number,
                client: 7,
                message: b"hi",
            },
            &mut out,
        );
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn placeholders_are_replaced_and_other_braces_kept() {
        let template = Template::parse(b"/a/{n}/{client}{message}?x={no}{n}");
        assert_eq!(rendered(&template, 42), "/a/42/7hi?x={no}42");
        assert!(template.has_number() && template.has_message() && !template.is_constant());
        assert!(Template::parse(b"{x}").is_constant());
    }

    #[test]
    fn urls() {
        let target = Target::parse("URL", "http://127.0.0.1:81/x?y#z", "http").expect("a URL");
        assert_eq!(target.address, "127.0.0.1:81".parse().expect("address"));
        assert_eq!(target.host, "127.0.0.1:81");
        assert_eq!(rendered(&target.path, 0), "/x?y");
        let target = Target::parse("URL", "ws://[::1]?q", "ws").expect("a URL");
        assert_eq!(target.address, "[::1]:80".parse().expect("address"));
        assert_eq!(rendered(&target.path, 0), "/?q");
    }

    #[test]
    fn bad_urls_are_explained() {
        for (url, word) in [
            ("127.0.0.1", "scheme"),
            ("https://x/", "TLS"),
            ("ftp://x/", "ftp"),
            ("http:///x", "host"),
            ("http://127.0.0.1/a b", "percent-encode"),
            ("http://nobody.invalid/", "resolved"),
        ] {
            let error = Target::parse("URL", url, "http")
                .expect_err(url)
                .to_string();
            assert!(
                error.starts_with("URL: ") && error.contains(word),
                "{error}"
            );
        }
    }
}
