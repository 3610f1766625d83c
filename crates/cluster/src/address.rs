//! Addresses of the log.
//!
//! `nats://[user:password@|token@]host[:port]` or `redis://[user:password@|password@]host[:port][/database]`. Several addresses are
//! separated by commas. `tls://` and `rediss://` are the same over TLS. Sentinels share one address, in the form that most clients
//! of Python, Java and Go read: `redis+sentinel://[user:password@]host[:port][,host[:port]…]/master[/database][?options]`, or
//! `rediss+sentinel://` if they and Redis use TLS.

use thiserror::Error;

use crate::subject::unescape;

const NATS_PORT: u16 = 4222;
const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// Maximum number of addresses of one log.
const SERVERS_MAX: usize = 32;

/// Kind of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// NATS with JetStream.
    Nats,
    /// Redis, or a server with its protocol.
    Redis,
}

/// A scheme of an address, as clients of NATS and Redis define it.
struct Scheme {
    text: &'static str,
    kind: Kind,
    is_tls: bool,
    port: u16,
    is_sentinel: bool,
}

impl Scheme {
    const fn new(text: &'static str, kind: Kind, port: u16) -> Scheme {
        Scheme {
            text,
            kind,
            is_tls: false,
            port,
            is_sentinel: port == SENTINEL_PORT,
        }
    }

    const fn over_tls(self) -> Scheme {
        Scheme {
            is_tls: true,
            ..self
        }
    }
}

const SCHEMES: [Scheme; 6] = [
    Scheme::new("nats://", Kind::Nats, NATS_PORT),
    Scheme::new("tls://", Kind::Nats, NATS_PORT).over_tls(),
    Scheme::new("redis://", Kind::Redis, REDIS_PORT),
    Scheme::new("rediss://", Kind::Redis, REDIS_PORT).over_tls(),
    Scheme::new("redis+sentinel://", Kind::Redis, SENTINEL_PORT),
    Scheme::new("rediss+sentinel://", Kind::Redis, SENTINEL_PORT).over_tls(),
];

/// One server of the log.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Kind of the log. All addresses of a list have the same kind.
    pub kind: Kind,
    /// True if connections use TLS. All addresses of a list have the same value.
    pub is_tls: bool,
    /// Host name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// User and password.
    pub account: Option<(String, String)>,
    /// Token or password, if there is no user.
    pub token: Option<String>,
    /// Number of the Redis database.
    pub database: u32,
    /// Set if the address is that of a Sentinel. Account, token and database then apply to the master.
    pub sentinel: Option<Sentinel>,
}

/// Request to a Sentinel, and its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Sentinel {
    /// Name of the master (`sentinel monitor NAME`).
    pub master: String,
    /// User for the Sentinel.
    pub user: String,
    /// Password for the Sentinel.
    pub password: String,
}

/// Omits secrets.
impl std::fmt::Debug for Sentinel {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.master)
    }
}

/// An invalid list of addresses. The error does not contain the text, which may have a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// The scheme is unknown, or the addresses have different schemes.
    #[error(
        "use nats://host:port or redis://host:port, or tls://host:port (NATS) or rediss://host:port (Redis) over TLS, several separated by commas that begin alike; or redis+sentinel://host:port,host:port/master"
    )]
    Scheme,
    /// An address without a host.
    #[error("there is no host in one of the addresses; use nats://host:port or redis://host:port")]
    Host,
    /// The port is invalid.
    #[error("the port of one of the addresses is not 1 to 65535")]
    Port,
    /// The database after the port is invalid.
    #[error("the database behind the port of one of the addresses is not a number")]
    Database,
    /// Sentinels without the name of the master.
    #[error(
        "there is no name of the master; use redis+sentinel://host:port/name, with the name that `sentinel monitor` has"
    )]
    Master,
    /// The options after the question mark are unknown.
    #[error(
        "redis+sentinel:// has an unknown option behind the ?; use sentinel_username=… and sentinel_password=…, separated by & and percent-encoded"
    )]
    Option,
    /// More than the maximum number of addresses.
    #[error("there are more than {SERVERS_MAX} addresses")]
    TooMany,
}

impl Address {
    /// Parses a list of addresses. The scheme is optional from the second one on.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn list(text: &str) -> Result<Vec<Address>, AddressError> {
        let text = text.trim();
        let scheme = SCHEMES
            .iter()
            .find(|scheme| text.starts_with(scheme.text))
            .ok_or(AddressError::Scheme)?;
        let list = if scheme.is_sentinel {
            Address::sentinels(&text[scheme.text.len()..], scheme)?
        } else {
            text.split(',')
                .map(|text| Address::read(text.trim(), scheme))
                .collect::<Result<Vec<_>, _>>()?
        };
        if list.len() > SERVERS_MAX {
            return Err(AddressError::TooMany);
        }
        Ok(list)
    }

    /// Returns the address of another server that this server has named, with the same credentials.
    pub(crate) fn referred_to(&self, host: &str, port: u16) -> Address {
        Address {
            host: host.to_owned(),
            port,
            sentinel: None,
            ..self.clone()
        }
    }

    fn read(text: &str, scheme: &Scheme) -> Result<Address, AddressError> {
        let rest = match text.strip_prefix(scheme.text) {
            Some(rest) => rest,
            None if !text.contains("://") => text,
            None => return Err(AddressError::Scheme),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // A password may contain a slash, so the path starts only after the account.
        let place_at = rest.rfind('@').map_or(0, |at| at + 1);
        let (rest, database) = match rest[place_at..].find('/') {
            Some(at) if scheme.kind == Kind::Redis => {
                let (rest, database) = rest.split_at(place_at + at);
                (rest, read_database(&database[1..])?)
            }
            _ => (rest, 0),
        };
        let (account, place) = match rest.rsplit_once('@') {
            Some((account, place)) => (Some(account), place),
            None => (None, rest),
        };
        let mut address = Address::at(place, scheme)?;
        address.database = database;
        if let Some(account) = account {
            address.set_account(account);
        }
        Ok(address)
    }

    /// Parses the rest of an address of Sentinels. All of them share everything but the host.
    fn sentinels(text: &str, scheme: &Scheme) -> Result<Vec<Address>, AddressError> {
        let (text, options) = text.split_once('?').unwrap_or((text, ""));
        if text.contains("://") {
            return Err(AddressError::Scheme);
        }
        let (account, text) = match text.rsplit_once('@') {
            Some((account, text)) => (Some(account), text),
            None => (None, text),
        };
        let (places, path) = text.split_once('/').ok_or(AddressError::Master)?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let (master, database) = match path.split_once('/') {
            Some((master, database)) => (master, read_database(database)?),
            None => (path, 0),
        };
        if master.is_empty() || master.contains(char::is_whitespace) {
            return Err(AddressError::Master);
        }
        let mut sentinel = Sentinel {
            master: master.to_owned(),
            user: String::new(),
            password: String::new(),
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or(AddressError::Option)?;
            let value = decode(value).ok_or(AddressError::Option)?;
            match name {
                "sentinel_username" => sentinel.user = value,
                "sentinel_password" => sentinel.password = value,
                _ => return Err(AddressError::Option),
            }
        }
        let read = |place: &str| {
            let mut address = Address::at(place.trim(), scheme)?;
            address.database = database;
            address.sentinel = Some(sentinel.clone());
            if let Some(account) = account {
                address.set_account(account);
            }
            Ok(address)
        };
        places.split(',').map(read).collect()
    }

    /// Parses `host[:port]`.
    fn at(place: &str, scheme: &Scheme) -> Result<Address, AddressError> {
        let (host, port) = match place.strip_prefix('[') {
            Some(place) => {
                let (host, rest) = place.split_once(']').ok_or(AddressError::Host)?;
                (host, rest.strip_prefix(':'))
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        if host.is_empty()
            || host.contains(|character: char| character == '/' || character.is_whitespace())
        {
            return Err(AddressError::Host);
        }
        let port = match port {
            None => scheme.port,
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or(AddressError::Port)?,
        };
        Ok(Address {
            kind: scheme.kind,
            is_tls: scheme.is_tls,
            host: host.to_owned(),
            port,
            account: None,
            token: None,
            database: 0,
            sentinel: None,
        })
    }

    fn set_account(&mut self, account: &str) {
        match account.split_once(':') {
            Some((user, password)) => {
                self.account = Some((user.to_owned(), password.to_owned()));
            }
            None => self.token = Some(account.to_owned()),
        }
    }
}

fn read_database(text: &str) -> Result<u32, AddressError> {
    text.parse().map_err(|_| AddressError::Database)
}

/// Decodes a percent-encoded text.
fn decode(text: &str) -> Option<String> {
    String::from_utf8(unescape(text.as_bytes())?).ok()
}

/// Omits secrets.
impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_lists() {
        let list = Address::list("nats://a:4222, b ,nats://u:p:w@[::1]:7,nats://t@c/").unwrap();
        let shown: Vec<String> = list.iter().map(Address::to_string).collect();
        assert_eq!(shown, ["a:4222", "b:4222", "[::1]:7", "c:4222"]);
        assert_eq!(list[2].account, Some(("u".to_owned(), "p:w".to_owned())));
        assert_eq!(list[3].token.as_deref(), Some("t"));
        assert!(!format!("{list:?}").contains("p:w"));
    }

    #[test]
    fn parses_addresses_of_redis() {
        let list = Address::list("redis://a, b:7/3,redis://u:p/w@c/2,redis://w@d").unwrap();
        let shown: Vec<String> = list.iter().map(Address::to_string).collect();
        assert_eq!(shown, ["a:6379", "b:7", "c:6379", "d:6379"]);
        let databases: Vec<u32> = list.iter().map(|it| it.database).collect();
        assert_eq!(databases, [0, 3, 2, 0]);
        assert_eq!(list[2].account, Some(("u".to_owned(), "p/w".to_owned())));
        assert_eq!(list[3].token.as_deref(), Some("w"));
        assert!(list.iter().all(|it| it.kind == Kind::Redis));
    }

    #[test]
    fn parses_addresses_with_tls() {
        for (text, kind, shown) in [
            ("tls://u:p@a,b:7", Kind::Nats, ["a:4222", "b:7"]),
            ("rediss://u:p@a/2,b:7", Kind::Redis, ["a:6379", "b:7"]),
        ] {
            let list = Address::list(text).unwrap();
            assert!(list.iter().all(|it| it.is_tls && it.kind == kind));
            let all: Vec<String> = list.iter().map(Address::to_string).collect();
            assert_eq!(all, shown);
        }
        let plain = Address::list("nats://a").unwrap();
        assert!(!plain[0].is_tls);
    }

    #[test]
    fn parses_sentinels() {
        let text = "redis+sentinel://u:p/w@a, b:7,[::1]:9/main/3?sentinel_username=s&sentinel_password=%26w@%3F";
        let list = Address::list(text).unwrap();
        let shown: Vec<String> = list.iter().map(Address::to_string).collect();
        assert_eq!(shown, ["a:26379", "b:7", "[::1]:9"]);
        for it in &list {
            assert_eq!((it.kind, it.is_tls, it.database), (Kind::Redis, false, 3));
            assert_eq!(it.account, Some(("u".to_owned(), "p/w".to_owned())));
            let sentinel = it.sentinel.as_ref().unwrap();
            assert_eq!(sentinel.master, "main");
            assert_eq!((&sentinel.user[..], &sentinel.password[..]), ("s", "&w@?"));
            assert_eq!(format!("{sentinel:?}"), "main");
        }
        let list = Address::list("rediss+sentinel://w@a/main").unwrap();
        let [it] = &list[..] else { panic!("{list:?}") };
        assert!(it.is_tls && it.token.as_deref() == Some("w"));
        let master = it.referred_to("m", 6379);
        assert!(master.is_tls && master.sentinel.is_none() && master.token == it.token);
    }

    #[test]
    fn rejects_invalid_addresses() {
        for (text, error) in [
            ("", AddressError::Scheme),
            ("amqps://a", AddressError::Scheme),
            ("nats://a,tls://b", AddressError::Scheme),
            ("rediss://a,redis://b", AddressError::Scheme),
            ("tls://a,rediss://b", AddressError::Scheme),
            ("nats://a,redis://b", AddressError::Scheme),
            ("redis://a:1/x", AddressError::Database),
            ("redis+sentinel://a", AddressError::Master),
            ("redis+sentinel://a,b/", AddressError::Master),
            ("redis+sentinel://a/m/x", AddressError::Database),
            ("redis+sentinel:///m", AddressError::Host),
            ("redis+sentinel://a,/m", AddressError::Host),
            (
                "redis+sentinel://a/m,redis+sentinel://b/m",
                AddressError::Scheme,
            ),
            ("redis+sentinel://a/m?db=1", AddressError::Option),
            (
                "redis+sentinel://a/m?sentinel_password=%4",
                AddressError::Option,
            ),
            (
                "redis+sentinel://a/m?sentinel_password",
                AddressError::Option,
            ),
            ("nats://a/1", AddressError::Host),
            ("nats://", AddressError::Host),
            ("nats://:4", AddressError::Host),
            ("nats://[::1", AddressError::Host),
            ("nats://a:0", AddressError::Port),
            ("nats://a:65536", AddressError::Port),
        ] {
            assert_eq!(Address::list(text), Err(error), "{text}");
        }
        assert_eq!(
            Address::list(&vec!["nats://a"; 33].join(",")),
            Err(AddressError::TooMany)
        );
    }
}
