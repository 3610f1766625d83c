//! The addresses of a server: resolved, checked, and bound once for each worker.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;

use fermata_config::{Listen, Scheme, Settings};
use fermata_io::net;

use crate::master::{BACKLOG, StartError};

/// For each worker a listener at every address, and the addresses as they were bound.
#[expect(clippy::type_complexity)]
pub(crate) fn bind(
    settings: &Settings,
    workers: u16,
) -> Result<(Vec<Vec<OwnedFd>>, Vec<(Scheme, SocketAddr)>), StartError> {
    let mut seats: Vec<Vec<OwnedFd>> = (0..workers).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    for listen in settings.listen_addresses() {
        let address = bind_one(&listen, &mut seats)?;
        addresses.push((listen.scheme, address));
    }
    Ok((seats, addresses))
}

/// The one listener at `metrics_listen`, if there is one.
pub(crate) fn bind_metrics(
    settings: &Settings,
) -> Result<Option<(OwnedFd, SocketAddr)>, StartError> {
    let Some(text) = &settings.metrics_listen else {
        return Ok(None);
    };
    let failed = |cause: String| StartError::Metrics {
        address: text.clone(),
        cause,
    };
    let listen = Listen::parse(text).map_err(failed)?;
    let address = resolve(&listen).map_err(failed)?;
    let bound = net::bind_tcp(address, BACKLOG, false);
    bound.map(Some).map_err(|error| failed(explain(&error)))
}

/// One listener per seat, all on the same port.
fn bind_one(listen: &Listen, seats: &mut [Vec<OwnedFd>]) -> Result<SocketAddr, StartError> {
    let failed = |cause: String| StartError::Listen {
        address: listen.to_string(),
        cause,
    };
    let mut address = resolve(listen).map_err(failed)?;
    let explain = |error: std::io::Error| failed(explain(&error));
    // With SO_REUSEPORT a second server of the same user would share the port in silence.
    net::check_tcp_free(address).map_err(explain)?;
    for listeners in seats {
        let (listener, bound) = net::bind_tcp(address, BACKLOG, true).map_err(explain)?;
        address = bound;
        listeners.push(listener);
    }
    Ok(address)
}

fn resolve(listen: &Listen) -> Result<SocketAddr, String> {
    (listen.host.as_str(), listen.port)
        .to_socket_addrs()
        .map_err(|error| format!("the host cannot be resolved: {error}"))?
        .next()
        .ok_or_else(|| "the host has no address".to_owned())
}

fn explain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "the port is in use by another process; stop that, \
            or choose another port by `listen:` or the environment variable PORT"
            .to_owned(),
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 need a privilege; choose a higher one".to_owned()
        }
        std::io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; 127.0.0.1 and 0.0.0.0 always exist".to_owned()
        }
        _ => error.to_string(),
    }
}
