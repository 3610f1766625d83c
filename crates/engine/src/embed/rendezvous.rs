//! Unix sockets between workers: files in the temporary directory that exist while the server runs.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use fermata_config::{Access, Listen, Scheme, Transport};

use crate::net::listen_error::ListenError;
use crate::net::listeners::bind_unix;

/// Only the workers' user may connect.
const FILE_MODE: u32 = 0o600;

/// A worker's listener for other workers. Must be created before the fork: its clients wait while a
/// worker is replaced.
#[derive(Debug)]
pub struct Rendezvous {
    /// Path of the socket.
    pub path: PathBuf,
    /// The listening socket.
    pub listener: OwnedFd,
    _file: SocketFile,
}

/// A socket file, deleted when this is dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// The process that created the file, and the only one that deletes it. Copies in other
    /// processes do not delete the file.
    owner: u32,
}

impl SocketFile {
    /// Wraps a socket file that this process has created.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            owner: std::process::id(),
        }
    }
}

/// The socket could not be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot make {} for the workers: {source}; set TMPDIR to a folder that can be written", path.display())]
pub struct RendezvousError {
    path: PathBuf,
    source: ListenError,
}

impl Rendezvous {
    /// Creates a listener. `program` and `ending` are parts of the file name; `user` and `group`
    /// are the workers', if different from the master's.
    ///
    /// # Errors
    /// The socket cannot be created; the message suggests a fix.
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
            // Workers connect as that user.
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
            // The file may already be deleted.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
