//! Addresses of the edges to which an application publishes: URLs in the format of `GRIP_URL`, or ZeroMQ endpoints.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fermata_grip::encoding::to_base64;
use fermata_grip::sig::{self, Claims, FileError, Key, KeyError, SignError};
use fermata_grip::zmtp::Endpoint;
use fermata_proto::percent;

/// Validity of our tokens, in seconds.
const TOKEN_LIFETIME_S: u64 = 600;

/// An edge's address, with its credentials.
pub struct Address {
    /// Transport to the edge.
    pub transport: Transport,
    /// `USER:PASSWORD` in the URL.
    user: Option<String>,
    keys: Keys,
}

/// Transport to an edge.
pub enum Transport {
    /// The HTTP control port.
    Http(Url),
    /// The ZeroMQ PULL socket.
    Zmq(Endpoint),
}

/// Parameters of a URL.
#[derive(Default)]
struct Keys {
    issuer: Option<String>,
    key: Option<Key>,
    verify_issuer: Option<String>,
    verify_key: Option<Key>,
}

/// URL of a control port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// True for `https`.
    pub is_tls: bool,
    /// Host, without brackets.
    pub host: String,
    /// Port; by default that of the scheme.
    pub port: u16,
    /// Path of the publish resource.
    pub path: String,
    /// Unix socket to connect to. `None`: connect to host and port.
    pub socket: Option<PathBuf>,
}

/// Reason why a URL is refused. It never contains the text of the URL, which may hold a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The scheme is missing or not supported.
    #[error("it begins neither with http:// nor with https://")]
    Scheme,
    /// The URL has a user, which requests would not use.
    #[error("it has a user, but requests are signed instead")]
    User,
    /// The path is invalid in a request.
    #[error("its path has a character that has to be percent-encoded")]
    Path,
    /// A bracket is not closed.
    #[error("an IPv6 address ends with ]")]
    Bracket,
    /// The URL has no host.
    #[error("it has no host")]
    Host,
    /// The port is not a number, or too large.
    #[error("its port is not from 1 to 65535")]
    Port,
    /// Text other than a port follows the bracket.
    #[error("something follows its address")]
    Rest,
}

/// Reason why an edge's address is refused. It never contains the text of the address, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the address of an edge cannot be used: {0}; give http://localhost:5561, https://HOST/PATH?iss=…&key=…, http+unix:/PATH or tcp://localhost:5560"
)]
pub struct AddressError(#[from] AddressProblem);

/// Fault in an edge's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum AddressProblem {
    #[error("it is neither a URL nor a ZeroMQ endpoint")]
    Kind,
    #[error("its path has a blank or a control character")]
    Path,
    #[error("http+unix: is followed by no path")]
    NoPath,
    #[error("a percent sign is not followed by two hexadecimal digits")]
    Percent,
    #[error("it is not UTF-8")]
    Encoding,
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Sign(#[from] SignError),
}

/// Reason why there is no value for `Authorization`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizationError {
    /// The password or token would be sent unencrypted.
    #[error("a password or token would go unencrypted; give an https:// address")]
    Unencrypted,
    /// The token is invalid in a header.
    #[error("the token has a control character")]
    Control,
    /// Tokens need the current time.
    #[error("the clock is before 1970; set it")]
    Clock,
    /// The key of the address is unusable.
    #[error(transparent)]
    Key(#[from] AddressError),
}

impl Url {
    /// Parses an `http://` or `https://` URL for POST requests. Path and query stay unchanged.
    ///
    /// # Errors
    /// The URL cannot be used. The message never contains its text, which may hold a secret.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (is_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(UrlError::Scheme),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(UrlError::User);
        }
        let (host, port) = host_and_port(authority, if is_tls { 443 } else { 80 })?;
        if path.bytes().any(|byte| byte <= b' ' || byte >= 0x7f) {
            return Err(UrlError::Path);
        }
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        Ok(Self {
            is_tls,
            host,
            port,
            path,
            socket: None,
        })
    }

    /// Returns host and port, or the socket.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        match (&self.socket, host.contains(':')) {
            (Some(path), _) => format!("unix:{}", path.display()),
            (None, true) => format!("[{host}]:{port}"),
            (None, false) => format!("{host}:{port}"),
        }
    }

    /// Returns the value of `Host`.
    pub fn host_header(&self) -> String {
        match self.socket {
            Some(_) => self.host.clone(),
            None => self.authority(),
        }
    }

    /// Returns true if the connection stays on this machine.
    pub fn is_loopback(&self) -> bool {
        if self.socket.is_some() {
            return true;
        }
        let address = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// The address cannot be used. The message never contains its text, which may hold a secret.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        // In client libraries, a bare `unix:` means the control socket of a server.
        if let Some(rest) = text.strip_prefix("http+unix:") {
            return Self::parse_socket(rest);
        }
        let (is_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => {
                let endpoint = Endpoint::parse(text).map_err(|_| AddressProblem::Kind)?;
                return Ok(Self {
                    transport: Transport::Zmq(endpoint),
                    user: None,
                    keys: Keys::default(),
                });
            }
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(decode(user)?), authority),
            None => (None, authority),
        };
        let port_default = if is_tls { 443 } else { 80 };
        let (host, port) = host_and_port(authority, port_default).map_err(AddressProblem::Url)?;
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(AddressProblem::Path.into());
        }
        let path = format!("{}/publish/", path.trim_end_matches('/'));
        let url = Url {
            is_tls,
            host,
            port,
            path,
            socket: None,
        };
        Ok(Self {
            transport: Transport::Http(url),
            user,
            keys: keys(query)?,
        })
    }

    /// Parses the part after `http+unix:`.
    fn parse_socket(rest: &str) -> Result<Self, AddressError> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        // The URL form with an empty host.
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.trim_matches('/').is_empty() || path.contains('\0') {
            return Err(AddressProblem::NoPath.into());
        }
        Ok(Self {
            transport: Transport::Http(Url {
                is_tls: false,
                host: "localhost".to_owned(),
                port: 80,
                path: "/publish/".to_owned(),
                socket: Some(PathBuf::from(path)),
            }),
            user: None,
            keys: keys(query)?,
        })
    }

    /// Replaces the URL's key for tokens. The text has the same format as in the URL.
    ///
    /// # Errors
    /// The key cannot be read. The message never contains its text.
    pub fn set_key(&mut self, text: &str) -> Result<(), KeyError> {
        self.keys.key = Some(parse_key(text)?);
        Ok(())
    }

    /// Returns the key that verifies requests of this edge, and the issuer that the requests must have, if any.
    pub fn verifier(&self) -> Option<(&Key, Option<&str>)> {
        let Keys {
            key, verify_key, ..
        } = &self.keys;
        // A secret is the same at both ends. If the key is private, the edge has another key.
        let shared = key.as_ref().filter(|key| key.is_secret());
        let key = verify_key.as_ref().or(shared)?;
        Some((key, self.keys.verify_issuer.as_deref()))
    }

    /// Returns the value of `Authorization`. The value comes from an option or from the URL's user, or is a token signed with the
    /// URL's key. Only the signed token may be sent unencrypted, because it does not reveal the key and expires after minutes.
    ///
    /// # Errors
    /// It would be sent unencrypted, or is invalid in a header.
    pub fn authorization(
        &self,
        user: Option<&str>,
        bearer: Option<&str>,
    ) -> Result<Option<String>, AuthorizationError> {
        let basic = |user: &str| Some(format!("Basic {}", to_base64(user.as_bytes())));
        let value = match (bearer, user.or(self.user.as_deref()), &self.keys.key) {
            (Some(token), _, _) => Some(format!("Bearer {token}")),
            (None, Some(user), _) => basic(user),
            (None, None, Some(key)) => return token(self.keys.issuer.clone(), key).map(Some),
            (None, None, None) => None,
        };
        let is_exposed =
            matches!(&self.transport, Transport::Http(url) if !url.is_tls && !url.is_loopback());
        match &value {
            Some(_) if is_exposed => Err(AuthorizationError::Unencrypted),
            Some(value) if value.bytes().any(|byte| byte < b' ' || byte == 0x7f) => {
                Err(AuthorizationError::Control)
            }
            _ => Ok(value),
        }
    }
}

fn token(issuer: Option<String>, key: &Key) -> Result<String, AuthorizationError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now.map_err(|_| AuthorizationError::Clock)?.as_secs();
    let claims = Claims {
        issuer,
        expires_s: Some(now_s + TOKEN_LIFETIME_S),
        not_before_s: None,
    };
    let token = sig::sign(key, &claims).map_err(|error| AddressError(error.into()))?;
    Ok(format!("Bearer {token}"))
}

fn keys(query: &str) -> Result<Keys, AddressProblem> {
    let mut keys = Keys::default();
    for (name, value) in query.split('&').filter_map(|entry| entry.split_once('=')) {
        match name {
            "iss" => keys.issuer = Some(decode(value)?),
            "key" => keys.key = Some(key(value)?),
            "verify-iss" => keys.verify_issuer = Some(decode(value)?),
            "verify-key" => keys.verify_key = Some(key(value)?),
            // Ignore other parameters. Client libraries store their own settings in the URL.
            _ => {}
        }
    }
    Ok(keys)
}

fn key(value: &str) -> Result<Key, AddressProblem> {
    Ok(parse_key(&decode(value)?)?)
}

fn parse_key(text: &str) -> Result<Key, KeyError> {
    Key::parse(text, |path| {
        std::fs::read(path).map_err(|error| FileError::new(Path::new(path), &error))
    })
}

fn host_and_port(authority: &str, port_default: u16) -> Result<(String, u16), UrlError> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(UrlError::Bracket)?,
        None => match authority.find(':') {
            Some(at) => authority.split_at(at),
            None => (authority, ""),
        },
    };
    if host.is_empty() || host.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(UrlError::Host);
    }
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| UrlError::Port)?,
        None if rest.is_empty() => port_default,
        None => return Err(UrlError::Rest),
    };
    Ok((host.to_owned(), port))
}

/// Decodes percent escapes.
fn decode(text: &str) -> Result<String, AddressProblem> {
    let out = percent::decode_text(text.as_bytes()).ok_or(AddressProblem::Percent)?;
    String::from_utf8(out).map_err(|_| AddressProblem::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Result<Url, AddressError> {
        match Address::parse(text)?.transport {
            Transport::Http(url) => Ok(url),
            Transport::Zmq(_) => panic!("{text} is no URL"),
        }
    }

    #[test]
    fn derives_the_publish_resource_from_a_url() {
        for (text, is_tls, host, port, path) in [
            (
                "http://localhost:5561",
                false,
                "localhost",
                5561,
                "/publish/",
            ),
            (
                "http://localhost:5561/",
                false,
                "localhost",
                5561,
                "/publish/",
            ),
            (
                "https://api.example.com/service/x/?iss=a&key=b",
                true,
                "api.example.com",
                443,
                "/service/x/publish/",
            ),
            (
                "http://u:p%40@[::1]:80?verify-key=x",
                false,
                "::1",
                80,
                "/publish/",
            ),
        ] {
            let expected = Url {
                is_tls,
                host: host.into(),
                port,
                path: path.into(),
                socket: None,
            };
            assert_eq!(url(text), Ok(expected), "{text}");
        }
        for text in [
            "http+unix:/run/edge.sock?key=x",
            "http+unix:///run/edge.sock",
        ] {
            let url = url(text).expect(text);
            assert_eq!(url.socket, Some("/run/edge.sock".into()), "{text}");
            assert_eq!(url.host_header(), "localhost");
            assert_eq!(url.authority(), "unix:/run/edge.sock");
        }
    }

    #[test]
    fn post_url_keeps_path_and_query() {
        for (text, is_tls, authority, path) in [
            ("http://localhost", false, "localhost:80", "/"),
            (
                "https://a.example/hook?x=1#y",
                true,
                "a.example:443",
                "/hook?x=1",
            ),
            ("http://[::1]:81?x", false, "[::1]:81", "/?x"),
        ] {
            let url = Url::parse(text).expect(text);
            let found = (url.is_tls, url.authority(), &*url.path);
            assert_eq!(found, (is_tls, authority.to_owned(), path), "{text}");
        }
        for text in [
            "a",
            "ftp://a",
            "http://",
            "http://u:p@a",
            "http://a:0x",
            "http://a/b c",
            "http://a/\u{e9}",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn authorization_comes_from_options_or_the_url() {
        let value = |text: &str, user, bearer| {
            Address::parse(text)
                .expect(text)
                .authorization(user, bearer)
        };
        assert_eq!(value("https://a", None, None), Ok(None));
        assert_eq!(
            value("https://a", Some("a:b"), None),
            Ok(Some("Basic YTpi".into()))
        );
        assert_eq!(
            value("https://a%3a:b@c", None, None),
            Ok(Some("Basic YTo6Yg==".into()))
        );
        assert_eq!(
            value("https://u:p@c", None, Some("t")),
            Ok(Some("Bearer t".into()))
        );
        assert_eq!(
            value("http://127.0.0.1:1", Some("a:b"), None),
            Ok(Some("Basic YTpi".into()))
        );
        assert!(value("http://example.com", Some("a:b"), None).is_err());
        assert!(value("https://a", None, Some("a\r\nb")).is_err());
        let token = value("http://a?iss=me&key=base64:c2VjcmV0", None, None)
            .expect("a key")
            .expect("a token");
        let token = token.strip_prefix("Bearer ").expect("a bearer token");
        assert!(sig::verify(&Key::secret(b"secret"), token.as_bytes(), 0, Some("me")).is_ok());
    }

    #[test]
    fn verifies_requests_with_the_verification_key() {
        let checked = |text: &str| {
            let address = Address::parse(text).expect("an address");
            let (key, issuer) = address.verifier()?;
            Some((key.algorithm(), issuer.map(str::to_owned)))
        };
        assert_eq!(checked("http://a"), None);
        assert_eq!(checked("http://a?iss=x&key=secret"), Some(("HS256", None)));
        assert_eq!(
            checked("https://a?iss=x&key=token&verify-iss=y&verify-key=base64:c2VjcmV0"),
            Some(("HS256", Some("y".to_owned())))
        );
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../grip/tests/keys/");
        assert_eq!(
            checked(&format!("https://a?key=file:{file}ec-pkcs8.pem")),
            None
        );
        assert_eq!(
            checked(&format!("https://a?verify-key=file:{file}ec-public.pem")),
            Some(("ES256", None))
        );
    }

    #[test]
    fn address_error_never_has_the_secret() {
        for (text, part) in [
            ("localhost", "neither"),
            ("ftp://a", "neither"),
            ("tcp://a", "neither"),
            ("unix:/run/app.sock", "neither"),
            ("http+unix:", "no path"),
            ("http+unix:/?key=secret", "no path"),
            ("http://", "no host"),
            ("http://:80", "no host"),
            ("http://a:99999", "port"),
            ("http://[::1", "]"),
            ("http://[::1]x", "follows"),
            ("http://a/b c", "path"),
            ("http://secret%zz@a", "percent"),
            ("http://a?key=base64:secret%21", "base64"),
        ] {
            let error = url(text).expect_err(text).to_string();
            assert!(
                error.contains(part) && !error.contains("secret"),
                "{text}: {error}"
            );
        }
    }
}
