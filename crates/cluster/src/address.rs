//! Where the log is: `nats://[user:password@|token@]host[:port]` or `redis://[user:password@|password@]host[:port][/database]`,
//! several separated by commas; `tls://` and `rediss://` are the same over TLS.

use thiserror::Error;

const NATS_PORT: u16 = 4222;
const REDIS_PORT: u16 = 6379;
/// Most servers of one log that are named.
const SERVERS_MAX: usize = 32;

/// What keeps the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// NATS with JetStream.
    Nats,
    /// Redis, and what speaks its protocol.
    Redis,
}

/// How addresses begin: of which kind of log, and whether over TLS. What clients of NATS and of Redis call it.
const SCHEMES: [(&str, Kind, bool); 4] = [
    ("nats://", Kind::Nats, false),
    ("tls://", Kind::Nats, true),
    ("redis://", Kind::Redis, false),
    ("rediss://", Kind::Redis, true),
];

impl Kind {
    fn port(self) -> u16 {
        match self {
            Kind::Nats => NATS_PORT,
            Kind::Redis => REDIS_PORT,
        }
    }
}

/// One server of the log.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// What it is; all of a list are the same.
    pub kind: Kind,
    /// Whether it is spoken to over TLS; the same for all of a list.
    pub is_tls: bool,
    /// Name or address of the host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// User and password.
    pub account: Option<(String, String)>,
    /// The token or password, when there is no user.
    pub token: Option<String>,
    /// Which of Redis' databases.
    pub database: u32,
}

/// What is wrong with the text. It never has the text itself, which may have a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// None of the four, or not the same for all.
    #[error(
        "use nats://host:port or redis://host:port, or tls://host:port (NATS) or rediss://host:port (Redis) over TLS, several separated by commas that begin alike"
    )]
    Scheme,
    /// No host.
    #[error("there is no host in one of the addresses; use nats://host:port or redis://host:port")]
    Host,
    /// Not a port.
    #[error("the port of one of the addresses is not 1 to 65535")]
    Port,
    /// What is behind the port.
    #[error("what is behind the port of one of the addresses is no number of a database of Redis")]
    Database,
    /// Too many.
    #[error("there are more than {SERVERS_MAX} addresses")]
    TooMany,
}

impl Address {
    /// Reads a list of addresses. The scheme may be left out from the second on.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn list(text: &str) -> Result<Vec<Address>, AddressError> {
        let scheme = SCHEMES
            .iter()
            .find(|(scheme, ..)| text.trim_start().starts_with(scheme))
            .ok_or(AddressError::Scheme)?;
        let list = text
            .split(',')
            .map(|text| Address::read(text.trim(), *scheme))
            .collect::<Result<Vec<_>, _>>()?;
        if list.len() > SERVERS_MAX {
            return Err(AddressError::TooMany);
        }
        Ok(list)
    }

    fn read(
        text: &str,
        (scheme, kind, is_tls): (&str, Kind, bool),
    ) -> Result<Address, AddressError> {
        let rest = match text.strip_prefix(scheme) {
            Some(rest) => rest,
            None if !text.contains("://") => text,
            None => return Err(AddressError::Scheme),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // A password may have a slash.
        let place_at = rest.rfind('@').map_or(0, |at| at + 1);
        let (rest, database) = match rest[place_at..].find('/') {
            Some(at) if kind == Kind::Redis => {
                let (rest, database) = rest.split_at(place_at + at);
                let database = database[1..].parse();
                (rest, database.map_err(|_| AddressError::Database)?)
            }
            _ => (rest, 0),
        };
        let (account, place) = match rest.rsplit_once('@') {
            Some((account, place)) => (Some(account), place),
            None => (None, rest),
        };
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
            None => kind.port(),
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or(AddressError::Port)?,
        };
        let (account, token) = match account.map(|account| account.split_once(':').ok_or(account)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some((user.to_owned(), password.to_owned())), None),
            Some(Err(token)) => (None, Some(token.to_owned())),
        };
        Ok(Address {
            kind,
            is_tls,
            database,
            host: host.to_owned(),
            port,
            account,
            token,
        })
    }
}

/// Without what is secret.
impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
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
    fn lists_are_read() {
        let list = Address::list("nats://a:4222, b ,nats://u:p:w@[::1]:7,nats://t@c/").unwrap();
        let shown: Vec<String> = list.iter().map(Address::to_string).collect();
        assert_eq!(shown, ["a:4222", "b:4222", "[::1]:7", "c:4222"]);
        assert_eq!(list[2].account, Some(("u".to_owned(), "p:w".to_owned())));
        assert_eq!(list[3].token.as_deref(), Some("t"));
        assert!(!format!("{list:?}").contains("p:w"));
    }

    #[test]
    fn addresses_of_redis_are_read() {
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
    fn addresses_over_tls_are_read() {
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
    fn mistakes_are_named() {
        for (text, error) in [
            ("", AddressError::Scheme),
            ("amqps://a", AddressError::Scheme),
            ("nats://a,tls://b", AddressError::Scheme),
            ("rediss://a,redis://b", AddressError::Scheme),
            ("tls://a,rediss://b", AddressError::Scheme),
            ("nats://a,redis://b", AddressError::Scheme),
            ("redis://a:1/x", AddressError::Database),
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
