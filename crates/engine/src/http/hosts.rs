//! Allowed hosts, which protect a developer's local server from pages of other sites.
//!
//! A site can resolve its own name to 127.0.0.1 (DNS rebinding). The browser then considers the
//! local server part of the site's origin; only `Host` reveals the mismatch.

use std::net::{IpAddr, Ipv6Addr};

/// The hosts of `allowed_hosts`, and hosts that no website can own.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllowedHosts {
    /// In lower case. `.example.org` matches every name below `example.org`.
    names: Vec<String>,
}

impl AllowedHosts {
    /// Parses comma-separated names; `*.NAME` matches every name below NAME. `None`: every host is
    /// allowed.
    pub fn read(setting: &str) -> Option<Self> {
        let names = setting.split(',').map(str::trim);
        let names: Vec<String> = names
            .filter(|name| !name.is_empty())
            .map(|name| name.strip_prefix('*').unwrap_or(name).to_ascii_lowercase())
            .collect();
        let is_any = names.is_empty() || names.iter().any(String::is_empty);
        (!is_any).then_some(Self { names })
    }

    /// Returns true if requests for this host (with an optional port) are allowed. Browsers always
    /// send a host.
    pub fn allows(&self, host: Option<&[u8]>) -> bool {
        let Some(host) = host.filter(|host| !host.is_empty()) else {
            return true;
        };
        let Ok(host) = std::str::from_utf8(host) else {
            return false;
        };
        if let Some(address) = host.strip_prefix('[') {
            let address = address.split(']').next();
            return address.is_some_and(|it| it.parse::<Ipv6Addr>().is_ok());
        }
        let name = host.split(':').next().unwrap_or_default();
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        name.parse::<IpAddr>().is_ok()
            || is_below(&name, "localhost")
            || self
                .names
                .iter()
                .any(|allowed| match allowed.strip_prefix('.') {
                    Some(parent) => name != parent && is_below(&name, parent),
                    None => *allowed == name,
                })
    }
}

/// Returns true if `name` equals `parent` or is a subdomain of it.
fn is_below(name: &str, parent: &str) -> bool {
    let rest = name.strip_suffix(parent);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_local_and_listed_hosts() {
        let hosts = AllowedHosts::read("App.test, *.dev.example").expect("some");
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "a.b.localhost",
            "localhost.",
            "127.0.0.1:1",
            "10.0.0.7",
            "[::1]:80",
            "app.test",
            "APP.test:8080",
            "app.test.",
            "x.dev.example",
            "",
        ] {
            assert!(hosts.allows(Some(host.as_bytes())), "{host}");
        }
        assert!(hosts.allows(None));
        for host in [
            "evil.example",
            "localhost.evil.example",
            "notlocalhost",
            "127.0.0.1.nip.io",
            "dev.example",
            "xdev.example",
            "b.app.test",
            "[evil]",
            "1.2.3",
            "app.test..",
        ] {
            assert!(!hosts.allows(Some(host.as_bytes())), "{host}");
        }
    }

    #[test]
    fn an_empty_list_and_a_star_allow_every_host() {
        assert!(AllowedHosts::read("").is_none());
        assert!(AllowedHosts::read(" , ").is_none());
        assert!(AllowedHosts::read("localhost, *").is_none());
    }
}
