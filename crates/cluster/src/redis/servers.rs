//! Finds the server with the log. Checks greetings, and reads the master from the reply of a Sentinel or from the error MOVED of a
//! Redis Cluster.

use super::pending::End;
use crate::address::Address;
use crate::resp::Value;

pub(super) const REPLICA: &str = "the server is a replica, which accepts no events";

const SENTINEL: &str = "the server is a Sentinel, which has no events; write redis+sentinel://HOST:PORT/NAME in cluster, with \
                        the name of the master";

const NO_SENTINEL: &str =
    "the server is no Sentinel; write redis:// in cluster for a server of Redis";

/// Checks that the greeting shows the kind and role of server that the setting requires. A Sentinel may name a former master.
pub(super) fn check_greeting(greeting: &Value<'_>, server: &Address) -> Result<(), End> {
    let is = |name: &str, value: &str| {
        let pairs = greeting.as_array().unwrap_or_default().chunks_exact(2);
        let mut named = pairs.filter(|pair| pair[0].as_text() == Some(name.as_bytes()));
        named.any(|pair| pair[1].as_text() == Some(value.as_bytes()))
    };
    match (server.sentinel.is_some(), is("mode", "sentinel")) {
        (true, false) => Err(NO_SENTINEL.into()),
        (false, true) => Err(SENTINEL.into()),
        // A replica refuses the first publish. In a Redis Cluster, the refusal names the master.
        (false, false) if is("role", "replica") && !is("mode", "cluster") => Err(REPLICA.into()),
        _ => Ok(()),
    }
}

/// Reads the address of the master from the reply of a Sentinel.
pub(super) fn master(answer: &Value<'_>, sentinel: &Address) -> End {
    let [host, port] = answer.as_array().unwrap_or_default() else {
        let name = sentinel.sentinel.as_ref().map(|it| &it.master[..]);
        let name = name.unwrap_or_default();
        return format!(
            "the Sentinel has no master {name}; in cluster, write the name from `sentinel monitor` behind the last port"
        )
        .into();
    };
    let host = host
        .as_text()
        .and_then(|host| std::str::from_utf8(host).ok());
    let port = port.as_number().and_then(|port| u16::try_from(port).ok());
    match (host, port) {
        (Some(host), Some(port)) if !host.is_empty() && port > 0 => End::Referral {
            host: host.to_owned(),
            port,
        },
        _ => "the Sentinel gives no address of the master".into(),
    }
}

/// Parses the error `MOVED SLOT HOST:PORT` of a Redis Cluster. An empty host means the server itself.
pub(super) fn moved(error: &str, server: &Address) -> Option<End> {
    let (_, place) = error.strip_prefix("MOVED ")?.split_once(' ')?;
    let (host, port) = place.trim().rsplit_once(':')?;
    let host = match host {
        "" => &server.host,
        // The host is unknown.
        "?" => return None,
        host => host,
    };
    Some(End::Referral {
        host: host.to_owned(),
        port: port.parse().ok().filter(|port| *port > 0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> Address {
        Address::list(text).unwrap().remove(0)
    }

    fn told(end: Option<End>) -> String {
        match end {
            None => String::new(),
            Some(End::Failure(cause)) => cause,
            Some(End::Referral { host, port }) => format!("{host} {port}"),
        }
    }

    #[test]
    fn parses_moved() {
        let server = server("redis://a:1");
        for (error, expected) in [
            ("MOVED 12 10.0.0.1:6380", "10.0.0.1 6380"),
            ("MOVED 12 ::1:6380", "::1 6380"),
            ("MOVED 12 name:6380", "name 6380"),
            ("MOVED 12 :6380", "a 6380"),
            ("MOVED 12 ?:6380", ""),
            ("MOVED 12 a:0", ""),
            ("MOVED 12", ""),
            ("ASK 12 a:1", ""),
        ] {
            assert_eq!(told(moved(error, &server)), expected, "{error}");
        }
    }

    #[test]
    fn parses_master_of_a_sentinel() {
        let sentinel = server("redis+sentinel://a/main");
        let known = Value::Array(vec![Value::Text(b"10.0.0.1"), Value::Text(b"6379")]);
        assert_eq!(told(Some(master(&known, &sentinel))), "10.0.0.1 6379");
        let unknown = told(Some(master(&Value::Null, &sentinel)));
        assert!(unknown.contains("no master main"), "{unknown}");
        let none = Value::Array(vec![Value::Text(b""), Value::Text(b"6379")]);
        assert!(told(Some(master(&none, &sentinel))).contains("no address"));
    }
}
