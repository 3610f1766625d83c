//! ZeroMQ endpoint addresses.

/// Address to which a socket binds or connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `tcp://HOST:PORT`; `*` is any address.
    Tcp {
        /// A name, an address, or `*`; an IPv6 address without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// `ipc://PATH`: a Unix socket.
    Ipc(String),
}

/// An invalid endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a ZeroMQ endpoint; give tcp://127.0.0.1:5560 or ipc:///run/edge.sock")]
pub struct EndpointError(pub String);

impl Endpoint {
    /// Parses an endpoint.
    ///
    /// # Errors
    /// The endpoint is invalid, or its transport is not supported.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let wrong = || EndpointError(text.to_owned());
        if let Some(path) = text.strip_prefix("ipc://") {
            return match path {
                "" => Err(wrong()),
                path => Ok(Self::Ipc(path.to_owned())),
            };
        }
        let address = text.strip_prefix("tcp://").ok_or_else(wrong)?;
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let host = match host.strip_prefix('[') {
            Some(host) => host.strip_suffix(']').ok_or_else(wrong)?,
            None if host.contains(':') => return Err(wrong()),
            None => host,
        };
        match port.parse() {
            Ok(port) if !host.is_empty() => Ok(Self::Tcp {
                host: host.to_owned(),
                port,
            }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_two_transports() {
        let tcp = |host: &str, port| {
            Ok(Endpoint::Tcp {
                host: host.into(),
                port,
            })
        };
        assert_eq!(
            Endpoint::parse("tcp://127.0.0.1:5560"),
            tcp("127.0.0.1", 5560)
        );
        assert_eq!(Endpoint::parse("tcp://*:1"), tcp("*", 1));
        assert_eq!(Endpoint::parse("tcp://[::1]:1"), tcp("::1", 1));
        assert_eq!(
            Endpoint::parse("ipc:///run/x"),
            Ok(Endpoint::Ipc("/run/x".into()))
        );
        for bad in [
            "",
            "tcp://",
            "tcp://a",
            "tcp://:1",
            "tcp://a:",
            "tcp://a:65536",
            "tcp://::1:5",
            "tcp://[::1:5",
            "ipc://",
            "inproc://x",
            "udp://a:1",
            "127.0.0.1:1",
        ] {
            assert_eq!(
                Endpoint::parse(bad),
                Err(EndpointError(bad.into())),
                "{bad}"
            );
        }
    }
}
