//! Publishers to which the edge connects.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use fermata_engine::WireId;
use fermata_grip::zmtp::Endpoint;

use crate::error::StartError;
use crate::settings::Settings;

/// First delay in milliseconds before a reconnect. The delay doubles up to the maximum.
pub(crate) const RETRY_MIN_MS: u64 = 100;

/// A publisher to connect to.
#[derive(Clone, Debug)]
pub(crate) struct Publisher {
    pub(crate) address: Address,
    /// Address as written in the setting.
    pub(crate) text: String,
    /// Connection to the publisher.
    pub(crate) wire: Option<WireId>,
    /// Time of the next attempt to connect.
    pub(crate) due_ms: u64,
    /// Delay in milliseconds after the next failure.
    pub(crate) retry_ms: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Reads the publishers of the settings. Host names are resolved only once, here.
pub(crate) fn read(settings: &Settings) -> Result<Vec<Publisher>, StartError> {
    if !settings.zmq_sub_connect {
        return Ok(Vec::new());
    }
    let publishers = settings.zmq_sub.iter();
    publishers
        .filter(|it| !it.is_empty())
        .map(|it| one(it))
        .collect()
}

fn one(text: &str) -> Result<Publisher, StartError> {
    let failed = |error: &dyn std::fmt::Display| {
        StartError::Setting(format!("zmq_sub: cannot connect to {text}: {error}"))
    };
    let address = match Endpoint::parse(text).map_err(|error| failed(&error))? {
        Endpoint::Ipc(path) => Address::Unix(path.into()),
        Endpoint::Tcp { host, port } => {
            let mut found = (host, port)
                .to_socket_addrs()
                .map_err(|error| failed(&error))?;
            let first = found.next();
            Address::Tcp(first.ok_or_else(|| failed(&"it is no address"))?)
        }
    };
    Ok(Publisher {
        address,
        text: text.to_owned(),
        wire: None,
        due_ms: 0,
        retry_ms: RETRY_MIN_MS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_with_the_switch_it_is_connected() {
        let read_with = |uri: &str, zmq_sub_connect| {
            read(&Settings {
                zmq_sub: vec![uri.to_owned()],
                zmq_sub_connect,
                ..Settings::default()
            })
        };
        let count = |is_on| read_with("tcp://127.0.0.1:1", is_on).map(|it| it.len());
        assert_eq!((count(false).ok(), count(true).ok()), (Some(0), Some(1)));
        let wrong = read_with("http://x", true).expect_err("no endpoint");
        assert!(wrong.to_string().starts_with("zmq_sub: "), "{wrong}");
    }
}
