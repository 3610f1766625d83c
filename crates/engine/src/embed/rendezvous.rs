//! Unix sockets by which workers find each other: files in the folder for temporary files, as long as the server runs.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use fermata_config::{Access, Listen, Scheme, Transport};

use crate::net::listen_error::ListenError;
use crate::net::listeners::bind_unix;

/// Only the user of the workers may connect.
const FILE_MODE: u32 = 0o600;

/// Where a worker is found by the others. To be made before they are forked: its clients wait while a worker is replaced.
#[derive(Debug)]
pub struct Rendezvous {
    /// The file.
    pub path: PathBuf,
    /// What the worker accepts from.
    pub listener: OwnedFd,
    _file: SocketFile,
}

/// The file of a socket, which goes with it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// The process that has made the file, and removes it. Others have a copy of this and end before.
    owner: u32,
}

impl SocketFile {
    /// That of a socket which this process has made.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            owner: std::process::id(),
        }
    }
}

/// The socket could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make {} for the workers: {source}; set TMPDIR to a folder that can be written", path.display())]
pub struct RendezvousError {
    path: PathBuf,
    source: ListenError,
}

impl Rendezvous {
    /// Makes one. `program` and `ending` are parts of the file's name; `user` and `group` are those of the workers, where
    /// they are not the master's.
    ///
    /// # Errors
    /// Why it cannot be done, and what helps.
    pub fn bind(
        program: &str,
        ending: &str,
        user: Option<String>,
        group: Option<String>,
    ) -> Result<Self, RendezvousError> {
        let owner = std::process::id();
        let random = fermata_io::random::u64();
        let name = format!("fermata-{program}-{owner}-{random:x}.{ending}");
        let path = std::env::temp_dir().join(name);
        let listen = Listen {
            scheme: Scheme::Http,
            transport: Transport::Unix,
            host: path.display().to_string(),
            port: 0,
            // Workers are that user when they connect.
            access: Access {
                mode: Some(FILE_MODE),
                user,
                group,
            },
            has_preface: false,
        };
        match bind_unix(&listen, FILE_MODE) {
            Ok(listener) => Ok(Self {
                path: path.clone(),
                listener,
                _file: SocketFile::new(path),
            }),
            Err(source) => Err(RendezvousError { path, source }),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if std::process::id() == self.owner {
            // It may be gone; nobody connects there any more.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
