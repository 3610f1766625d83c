//! Why a server cannot listen at an address, and what helps.

use std::io;

use fermata_config::AddressError;
use fermata_io::users::UnknownName;

/// Why a server cannot listen at an address. Each message goes on after "cannot listen on ADDRESS: ".
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The text is no address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The resolver failed.
    #[error("the host cannot be resolved: {0}")]
    Resolve(#[source] io::Error),
    /// The resolver knows the host and no address of it.
    #[error("the host has no address")]
    NoAddress,
    /// Another process listens there.
    #[error(
        "the port is in use by another process; stop that, or choose another port by `listen:`, `--listen` or the environment variable PORT"
    )]
    PortInUse,
    /// The port is for root.
    #[error("ports below 1024 need a privilege; choose a higher one")]
    PortPrivileged,
    /// No interface of the machine has the address.
    #[error("this machine has no such address; 127.0.0.1 and 0.0.0.0 always exist")]
    AddressMissing,
    /// The path of a Unix socket is taken.
    #[error(
        "a server listens there, or the path is another kind of file; stop that, or choose another path"
    )]
    PathInUse,
    /// The folder of a Unix socket is missing.
    #[error("the folder does not exist; make it first")]
    NoFolder,
    /// The folder of a Unix socket may not be written by this user.
    #[error("this user may not write into the folder")]
    FolderForbidden,
    /// The machine has no such user or group, or their list cannot be read.
    #[error(transparent)]
    Account(#[from] UnknownName),
    /// This user may not give the socket away.
    #[error(
        "the socket cannot be given to another user or group: {0}; start as root, or leave user and group out"
    )]
    Owner(#[source] io::Error),
    /// Proxies are to name the clients, and none is trusted.
    #[error(
        "its connections begin with what proxies say of clients, and trusted_proxies names no proxy; name those that connect to it"
    )]
    NoProxy,
    /// systemd has opened no socket of that name.
    #[error(
        "systemd has passed no such socket; start the .socket unit that belongs to this service, and name it by FileDescriptorName="
    )]
    NotPassed,
    /// What the kernel said otherwise.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ListenError {
    /// Of TCP.
    pub(crate) fn of_tcp(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AddrInUse => Self::PortInUse,
            io::ErrorKind::PermissionDenied => Self::PortPrivileged,
            io::ErrorKind::AddrNotAvailable => Self::AddressMissing,
            _ => Self::Io(error),
        }
    }

    /// Of a Unix socket.
    pub(crate) fn of_unix(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AddrInUse => Self::PathInUse,
            io::ErrorKind::NotFound => Self::NoFolder,
            io::ErrorKind::PermissionDenied => Self::FolderForbidden,
            _ => Self::Io(error),
        }
    }
}
