//! Listening addresses: resolved, checked, and bound once for each worker.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use fermata_config::{Access, LISTENERS_MAX, Listen, Scheme, Settings, Transport};
use fermata_io::{net, systemd, users};

use crate::master::error::StartError;
use crate::net::listen_error::ListenError;

/// Length of the accept queue; the kernel limits it to `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;

/// An address at which the server listens.
pub(crate) struct Bound {
    pub scheme: Scheme,
    /// Address for display, with the actual port.
    pub name: String,
    /// Socket file to delete when the server stops.
    pub path: Option<PathBuf>,
    /// Connections of this listener start with a PROXY protocol header.
    pub has_preface: bool,
}

/// Binds a listener for each worker at every address. Returns the listeners and the bound
/// addresses.
pub(crate) fn bind(
    settings: &Settings,
    workers: u16,
) -> Result<(Vec<Vec<OwnedFd>>, Vec<Bound>), StartError> {
    let mut worker_slots: Vec<Vec<OwnedFd>> = (0..workers).map(|_| Vec::new()).collect();
    let mut bound = Vec::new();
    let mut passed = None;
    for listen in settings.listen_addresses() {
        let (scheme, has_preface) = (listen.scheme, listen.has_preface);
        if has_preface && settings.trusted_proxies.is_empty() {
            return Err(failed(&listen, ListenError::NoProxy));
        }
        match listen.transport {
            Transport::Tcp => {
                let address = bind_one(&listen, &mut worker_slots)?;
                let name = format!("{scheme}://{address}");
                let path = None;
                bound.push(Bound {
                    scheme,
                    name,
                    path,
                    has_preface,
                });
            }
            Transport::Unix => {
                let path = PathBuf::from(&listen.host);
                let usual = u32::from_str_radix(&settings.listen_unix_mode, 8);
                let socket = bind_unix(&listen, usual.unwrap_or(net::UNIX_MODE))
                    .map_err(|cause| failed(&listen, cause))?;
                share(&listen, &socket, &mut worker_slots)?;
                let (name, path) = (listen.to_string(), Some(path));
                bound.push(Bound {
                    scheme,
                    name,
                    path,
                    has_preface,
                });
            }
            Transport::Systemd => {
                let sockets = match &mut passed {
                    Some(sockets) => sockets,
                    None => {
                        let taken = systemd::take_sockets();
                        let taken = taken.map_err(|error| failed(&listen, error.into()))?;
                        passed.insert(taken)
                    }
                };
                let is_meant = |name: &str| listen.host.is_empty() || listen.host == name;
                let meant: Vec<_> = sockets.extract_if(.., |(name, _)| is_meant(name)).collect();
                if meant.is_empty() {
                    return Err(failed(&listen, ListenError::NotPassed));
                }
                for (passed_name, socket) in meant {
                    share(&listen, &socket, &mut worker_slots)?;
                    let name = match net::local_addr(&socket) {
                        Ok(address) => format!("{scheme}://{address}"),
                        Err(_) => format!("systemd:{passed_name}"),
                    };
                    let path = None;
                    bound.push(Bound {
                        scheme,
                        name,
                        path,
                        has_preface,
                    });
                }
            }
        }
    }
    if bound.len() > LISTENERS_MAX {
        let error = format!(
            "listen: there are {} sockets, over {LISTENERS_MAX}",
            bound.len()
        );
        let source = std::io::Error::other(error);
        return Err(StartError::Io {
            what: "sockets of systemd",
            source,
        });
    }
    Ok((worker_slots, bound))
}

/// Listens at a Unix socket with the owner and mode in its address; `mode` is the default.
///
/// # Errors
/// The socket cannot be created; the message suggests a fix.
pub fn bind_unix(listen: &Listen, mode: u32) -> Result<OwnedFd, ListenError> {
    let owners = owners(&listen.access)?;
    let mode = listen.access.mode.unwrap_or(mode);
    let mut is_refused = false;
    let socket = net::bind_unix_with(Path::new(&listen.host), BACKLOG, mode, |path| {
        give(path, owners).inspect_err(|_| is_refused = true)
    });
    socket.map_err(|error| {
        if is_refused {
            ListenError::Owner(error)
        } else {
            ListenError::of_unix(error)
        }
    })
}

fn failed(listen: &Listen, cause: ListenError) -> StartError {
    StartError::Listen {
        address: listen.to_string(),
        cause,
    }
}

/// Gives every worker the same listener. The kernel wakes one of the waiting workers per
/// connection.
fn share(
    listen: &Listen,
    socket: &OwnedFd,
    worker_slots: &mut [Vec<OwnedFd>],
) -> Result<(), StartError> {
    for listeners in worker_slots {
        let copy = socket.try_clone();
        listeners.push(copy.map_err(|error| failed(listen, error.into()))?);
    }
    Ok(())
}

/// Owner of a socket: user and group.
type Owners = (Option<u32>, Option<u32>);

fn owners(access: &Access) -> Result<Owners, ListenError> {
    let number = |name: &Option<String>, file| match name {
        None => Ok(None),
        Some(name) => users::number(name, Path::new(file))
            .map(Some)
            .map_err(ListenError::from),
    };
    let user = number(&access.user, users::USERS)?;
    let group = number(&access.group, users::GROUPS)?;
    Ok((user, group))
}

/// Changes the owner of a socket. Does not follow a link with which another user may have replaced
/// the socket.
fn give(path: &Path, (user, group): Owners) -> std::io::Result<()> {
    if user.is_none() && group.is_none() {
        return Ok(());
    }
    std::os::unix::fs::lchown(path, user, group)
}

/// Binds the shared listener at `metrics_listen`, if set.
pub(crate) fn bind_metrics(
    settings: &Settings,
) -> Result<Option<(OwnedFd, SocketAddr)>, StartError> {
    let Some(text) = &settings.metrics_listen else {
        return Ok(None);
    };
    let failed = |cause: ListenError| StartError::Metrics {
        address: text.clone(),
        cause,
    };
    let listen = Listen::parse(text).map_err(|error| failed(error.into()))?;
    let address = resolve(&listen).map_err(failed)?;
    let bound = net::bind_tcp(address, BACKLOG, false);
    bound
        .map(Some)
        .map_err(|error| failed(ListenError::of_tcp(error)))
}

/// Binds one listener per worker, all on the same port.
fn bind_one(listen: &Listen, worker_slots: &mut [Vec<OwnedFd>]) -> Result<SocketAddr, StartError> {
    let mut address = resolve(listen).map_err(|cause| failed(listen, cause))?;
    let explain = |error| failed(listen, ListenError::of_tcp(error));
    // Check explicitly: with SO_REUSEPORT, a second server of the same user would silently share
    // the port.
    net::check_tcp_free(address).map_err(explain)?;
    for listeners in worker_slots {
        let (listener, bound) = net::bind_tcp(address, BACKLOG, true).map_err(explain)?;
        address = bound;
        listeners.push(listener);
    }
    Ok(address)
}

fn resolve(listen: &Listen) -> Result<SocketAddr, ListenError> {
    (listen.host.as_str(), listen.port)
        .to_socket_addrs()
        .map_err(ListenError::Resolve)?
        .next()
        .ok_or(ListenError::NoAddress)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn changes_the_owner_of_a_link_not_of_its_target() {
        let link = std::env::temp_dir().join(format!("fermata-link-{}", std::process::id()));
        std::os::unix::fs::symlink("/nowhere/at/all", &link).expect("a link");
        let metadata = std::fs::symlink_metadata(&link).expect("made");
        let given = give(&link, (Some(metadata.uid()), Some(metadata.gid())));
        std::fs::remove_file(&link).expect("made");
        given.expect("it is ours");
    }
}
