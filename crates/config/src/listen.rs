//! Parses the addresses of listening sockets and of the control socket.

use std::fmt;

use crate::value_error::AddressError;

/// Maximum path length of a Unix socket: `sun_path` has 108 bytes including the final NUL (unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Parameter after `?` for addresses whose connections start with a PROXY protocol header.
const PREFACE: &str = "proxy_protocol=on";

/// Maximum number of listening addresses of a server.
pub const LISTENERS_MAX: usize = 16;

/// Protocol of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP and WebSocket without TLS.
    Http,
    /// HTTP and WebSocket over TLS.
    Https,
}

/// Kind of socket behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// Unix socket; `host` is its path.
    Unix,
    /// Sockets that systemd opened; `host` is their name, empty for all sockets.
    Systemd,
}

/// Parsed listening address: `http://HOST:PORT`, `unix:/PATH` or `systemd:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Protocol.
    pub scheme: Scheme,
    /// Kind of socket.
    pub transport: Transport,
    /// IPv4 address, IPv6 address without brackets, or host name to resolve.
    pub host: String,
    /// TCP port; 0 = the kernel chooses a free port.
    pub port: u16,
    /// Owner and permissions of a Unix socket.
    pub access: Access,
    /// True if each connection starts with a PROXY protocol header.
    pub has_preface: bool,
}

/// Owner and permissions of a Unix socket; `None` = the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Permissions.
    pub mode: Option<u32>,
    /// Name or number of the owner.
    pub user: Option<String>,
    /// Name or number of the group.
    pub group: Option<String>,
}

impl Access {
    /// Parses `mode=660&user=NAME&group=NAME`; every part is optional.
    fn parse(text: &str) -> Result<Self, AddressError> {
        let mut access = Self::default();
        for part in text.split('&').filter(|_| !text.is_empty()) {
            match part.split_once('=') {
                Some(("mode", mode)) => match u32::from_str_radix(mode, 8) {
                    Ok(mode @ 0..=0o777) => access.mode = Some(mode),
                    _ => return Err(AddressError::Mode(mode.to_owned())),
                },
                Some(("user", name)) if !name.is_empty() => access.user = Some(name.to_owned()),
                Some(("group", name)) if !name.is_empty() => access.group = Some(name.to_owned()),
                _ => return Err(AddressError::Access(part.to_owned())),
            }
        }
        Ok(access)
    }
}

impl Listen {
    /// Parses comma-separated addresses, at least one.
    ///
    /// # Errors
    /// The error text completes "that is …".
    pub(crate) fn parse_list(text: &str) -> Result<Vec<Self>, AddressError> {
        let all = text
            .split(',')
            .map(|part| Self::parse(part.trim()))
            .collect::<Result<Vec<_>, _>>()?;
        if all.len() > LISTENERS_MAX {
            return Err(AddressError::TooMany {
                count: all.len(),
                count_max: LISTENERS_MAX,
            });
        }
        for (at, listen) in all.iter().enumerate() {
            let is_same = |other: &&Self| (&other.host, other.port) == (&listen.host, listen.port);
            if (listen.port != 0 || listen.transport != Transport::Tcp)
                && all[..at].iter().any(|other| is_same(&other))
            {
                return Err(AddressError::Twice(listen.to_string()));
            }
        }
        Ok(all)
    }

    /// Parses `http://HOST:PORT` and rejects every other form.
    ///
    /// # Errors
    /// The error text completes "that is …".
    pub(crate) fn parse_plain(text: &str) -> Result<Self, AddressError> {
        match Self::parse(text)? {
            listen
                if listen.scheme == Scheme::Http
                    && listen.transport == Transport::Tcp
                    && !listen.has_preface =>
            {
                Ok(listen)
            }
            _ => Err(AddressError::NotHttp),
        }
    }

    /// Parses `http://HOST:PORT`, `https://HOST:PORT`, `unix:/PATH`, `systemd:NAME` or `https+systemd:NAME`.
    ///
    /// An IPv6 address requires brackets. A final `/` is ignored. Each form may end with `?proxy_protocol=on`.
    ///
    /// # Errors
    /// The error text completes "that is …".
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        for mark in ["?", "&"] {
            if let Some(rest) = text.strip_suffix(&format!("{mark}{PREFACE}")) {
                let listen = Self::parse(rest)?;
                if listen.has_preface {
                    return Err(AddressError::PrefaceTwice(PREFACE));
                }
                return Ok(Self {
                    has_preface: true,
                    ..listen
                });
            }
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::parse_unix(path);
        }
        match Self::parse_systemd(text) {
            Some(listen) => Ok(listen),
            None => Self::parse_url(text),
        }
    }

    fn parse_unix(path: &str) -> Result<Self, AddressError> {
        // The last `?` separates the parameters; a path that contains `?` must end with another `?`.
        let (path, access) = match path.rsplit_once('?') {
            Some((path, access)) => (path, Access::parse(access)?),
            None => (path, Access::default()),
        };
        parse_control(&format!("unix:{path}"))?;
        Ok(Self {
            access,
            ..Self::of(Scheme::Http, Transport::Unix, path, 0)
        })
    }

    /// Parses `systemd:NAME` or `https+systemd:NAME`; returns `None` for any other form.
    fn parse_systemd(text: &str) -> Option<Self> {
        let (scheme, passed) = match text.strip_prefix("https+") {
            Some(rest) => (Scheme::Https, rest),
            None => (Scheme::Http, text),
        };
        let rest = passed.strip_prefix("systemd")?;
        let name = rest.strip_prefix(':').unwrap_or(rest);
        let is_name = name.is_empty() || rest.starts_with(':');
        is_name.then(|| Self::of(scheme, Transport::Systemd, name, 0))
    }

    fn parse_url(text: &str) -> Result<Self, AddressError> {
        let (scheme, authority) = if let Some(authority) = text.strip_prefix("http://") {
            (Scheme::Http, authority)
        } else if let Some(authority) = text.strip_prefix("https://") {
            (Scheme::Https, authority)
        } else {
            return Err(AddressError::Form(
                "it must start with http://, https://, unix: or systemd",
            ));
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(AddressError::Form("only a host and a port may follow ://"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let Some((host, port)) = rest.split_once(']') else {
                    return Err(AddressError::Form("the bracket is not closed"));
                };
                if host.parse::<std::net::Ipv6Addr>().is_err() {
                    return Err(AddressError::Form("only IPv6 stands in brackets"));
                }
                (host, port.strip_prefix(':'))
            }
            None => match authority.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => {
                    return Err(AddressError::Form("write IPv6 in brackets, [::1]"));
                }
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err(AddressError::NoHost);
        }
        if !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(AddressError::Form(
                "the host has a blank or a byte beyond ASCII",
            ));
        }
        let Some(port) = port else {
            return Err(AddressError::NoPort);
        };
        Ok(Self::of(scheme, Transport::Tcp, host, parse_port(port)?))
    }

    fn of(scheme: Scheme, transport: Transport, host: &str, port: u16) -> Self {
        Self {
            scheme,
            transport,
            host: host.to_owned(),
            port,
            access: Access::default(),
            has_preface: false,
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme;
        let host = &self.host;
        match self.transport {
            Transport::Tcp => {}
            Transport::Unix => return write!(out, "unix:{host}"),
            Transport::Systemd => {
                let secured = if scheme == Scheme::Https {
                    "https+"
                } else {
                    ""
                };
                let colon = if host.is_empty() { "" } else { ":" };
                return write!(out, "{secured}systemd{colon}{host}");
            }
        }
        if self.host.contains(':') {
            write!(out, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        })
    }
}

/// Parses a TCP port. The error text completes "that is …".
pub(crate) fn parse_port(text: &str) -> Result<u16, AddressError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if digits => Ok(port),
        _ => Err(AddressError::Port),
    }
}

/// Checks `unix:/path`. The error text completes "that is …".
pub(crate) fn parse_control(text: &str) -> Result<(), AddressError> {
    let Some(path) = text.strip_prefix("unix:") else {
        return Err(AddressError::NotUnix);
    };
    if path.is_empty() {
        return Err(AddressError::NoPath);
    }
    if path.contains('\0') {
        return Err(AddressError::NulInPath);
    }
    if path.len() > SOCKET_PATH_BYTES_MAX {
        return Err(AddressError::PathTooLong {
            bytes: path.len(),
            bytes_max: SOCKET_PATH_BYTES_MAX,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_back() {
        for (text, host, port) in [
            ("http://127.0.0.1:8080", "127.0.0.1", 8080),
            ("http://[::1]:0", "::1", 0),
            ("http://localhost:65535", "localhost", 65535),
            ("https://[::]:8443", "::", 8443),
            ("unix:/run/app.sock", "/run/app.sock", 0),
            ("systemd", "", 0),
            ("https+systemd:web", "web", 0),
        ] {
            let listen = Listen::parse(text).expect(text);
            assert_eq!((listen.host.as_str(), listen.port), (host, port));
            assert_eq!(listen.to_string(), text);
        }
        assert!(Listen::parse("http://0.0.0.0:80/").is_ok());
    }

    #[test]
    fn a_unix_socket_may_say_who_may_connect() {
        let text = "unix:/run/app.sock?mode=660&user=www-data&group=33";
        let listen = Listen::parse(text).expect(text);
        let access = Access {
            mode: Some(0o660),
            user: Some("www-data".to_owned()),
            group: Some("33".to_owned()),
        };
        assert_eq!(listen.host, "/run/app.sock");
        assert_eq!(listen.access, access);
        for (text, host, mode) in [
            ("unix:/run/a?b?", "/run/a?b", None),
            ("unix:/run/a?b?mode=660", "/run/a?b", Some(0o660)),
        ] {
            let listen = Listen::parse(text).expect(text);
            assert_eq!((&listen.host[..], listen.access.mode), (host, mode));
        }
        for text in ["?b", "?mode=9", "?mode=1777", "?user=", "?colour=red"] {
            assert!(
                Listen::parse(&format!("unix:/run/app.sock{text}")).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn an_address_may_ask_for_the_proxy_protocol() {
        for (text, host) in [
            ("http://127.0.0.1:8080?proxy_protocol=on", "127.0.0.1"),
            ("https://[::1]:1?proxy_protocol=on", "::1"),
            ("unix:/run/a.sock?proxy_protocol=on", "/run/a.sock"),
            ("unix:/run/a.sock?mode=660&proxy_protocol=on", "/run/a.sock"),
            ("https+systemd:web?proxy_protocol=on", "web"),
        ] {
            let listen = Listen::parse(text).expect(text);
            assert!(listen.has_preface, "{text}");
            assert_eq!(listen.host, host);
        }
        assert!(
            !Listen::parse("http://127.0.0.1:1")
                .expect("one")
                .has_preface
        );
        for text in [
            "http://a:1?proxy_protocol",
            "http://a:1?proxy_protocol=off",
            "http://a:1?proxy_protocol=on&proxy_protocol=on",
            "?proxy_protocol=on",
        ] {
            assert!(Listen::parse(text).is_err(), "{text}");
        }
        assert!(Listen::parse_plain("http://a:1?proxy_protocol=on").is_err());
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        for text in [
            "",
            "8080",
            "unix:",
            "systemdx",
            "https+unix:/a",
            "127.0.0.1:8080",
            "ftp://127.0.0.1:8443",
            "https://127.0.0.1",
            "http://127.0.0.1",
            "http://:8080",
            "http://::1:8080",
            "http://[::1:8080",
            "http://[::1]8080",
            "http://[localhost]:1",
            "http://host:port",
            "http://host:65536",
            "http://host:+1",
            "http://host:",
            "http://host:1/path",
            "http://user@host:1",
            "http://ho st:1",
        ] {
            assert!(Listen::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_list_has_commas_and_nothing_twice() {
        let list = Listen::parse_list("http://[::1]:80, https://[::1]:443").expect("two");
        let schemes: Vec<Scheme> = list.iter().map(|listen| listen.scheme).collect();
        assert_eq!(schemes, [Scheme::Http, Scheme::Https]);
        assert!(Listen::parse_list("http://a:0,https://a:0").is_ok());
        for text in [
            "http://a:1,",
            "http://a:1,https://a:1",
            &"http://a:0,".repeat(17),
        ] {
            assert!(Listen::parse_list(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_control_path_must_fit_the_kernel() {
        assert_eq!(parse_control("unix:/run/fermata.sock"), Ok(()));
        assert!(parse_control(&format!("unix:/{}", "x".repeat(SOCKET_PATH_BYTES_MAX))).is_err());
        assert!(parse_control("tcp:1").is_err());
        assert!(parse_control("unix:").is_err());
    }
}
