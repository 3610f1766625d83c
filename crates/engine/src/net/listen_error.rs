//! Errors of listening at an address, with suggested fixes.

use std::io;

use fermata_config::AddressError;
use fermata_io::users::UnknownName;

/// Why a server cannot listen at an address. Each message follows "cannot listen on ADDRESS: ".
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The setting is not an address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The resolver failed.
    #[error("the host cannot be resolved: {0}")]
    Resolve(#[source] io::Error),
    /// The host has no address.
    #[error("the host has no address")]
    NoAddress,
    /// Another process listens on the port.
    #[error(
        "the port is in use by another process; stop that, or choose another port by `listen:`, `--listen` or the environment variable PORT"
    )]
    PortInUse,
    /// The port requires a privilege.
    #[error("ports below 1024 need a privilege; choose a higher one")]
    PortPrivileged,
    /// No network interface has the address.
    #[error("this machine has no such address; 127.0.0.1 and 0.0.0.0 always exist")]
    AddressMissing,
    /// The path of a Unix socket is used.
    #[error(
        "a server listens there, or the path is another kind of file; stop that, or choose another path"
    )]
    PathInUse,
    /// The directory of a Unix socket does not exist.
    #[error("the folder does not exist; make it first")]
    NoFolder,
    /// No write permission for the directory of a Unix socket.
    #[error("this user may not write into the folder")]
    FolderForbidden,
    /// The user or group does not exist, or the user database cannot be read.
    #[error(transparent)]
    Account(#[from] UnknownName),
    /// No permission to change the owner of the socket.
    #[error("cannot change the owner of the socket: {0}; start as root, or remove user and group")]
    Owner(#[source] io::Error),
    /// A PROXY protocol listener without trusted proxies.
    #[error(
        "it expects PROXY protocol headers and trusted_proxies is empty; list the proxies that connect to it"
    )]
    NoProxy,
    /// systemd passed no socket of that name.
    #[error(
        "systemd has passed no such socket; start the .socket unit that belongs to this service, and name it by FileDescriptorName="
    )]
    NotPassed,
    /// Another error of the kernel.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ListenError {
    /// Converts an error of a TCP listener.
    pub(crate) fn of_tcp(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AddrInUse => Self::PortInUse,
            io::ErrorKind::PermissionDenied => Self::PortPrivileged,
            io::ErrorKind::AddrNotAvailable => Self::AddressMissing,
            _ => Self::Io(error),
        }
    }

    /// Converts an error of a Unix socket.
    pub(crate) fn of_unix(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AddrInUse => Self::PathInUse,
            io::ErrorKind::NotFound => Self::NoFolder,
            io::ErrorKind::PermissionDenied => Self::FolderForbidden,
            _ => Self::Io(error),
        }
    }
}
