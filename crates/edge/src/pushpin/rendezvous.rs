//! Unix sockets by which workers find each other: files in the folder for temporary files, as long as the edge runs.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use fermata_config::{Access, Listen, Scheme, Transport};
use fermata_engine::bind_unix;

use crate::error::StartError;
use crate::settings::Settings;

/// Nobody but the user of the workers may connect.
const FILE_MODE: u32 = 0o600;

/// Where workers meet.
#[derive(Debug)]
pub(crate) struct Meeting {
    pub path: PathBuf,
    pub listener: OwnedFd,
    _file: SocketFile,
}

/// The file of a socket, which goes with it.
#[derive(Debug)]
pub(crate) struct SocketFile {
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

impl Meeting {
    /// Makes one; `setting` is the one to blame if that fails, `ending` tells it from others.
    pub fn bind(setting: &str, ending: &str, settings: &Settings) -> Result<Self, StartError> {
        let owner = std::process::id();
        let random = fermata_io::random::u64();
        let name = format!("fermata-edge-{owner}-{random:x}.{ending}");
        let path = std::env::temp_dir().join(name);
        let name = |text: &String| Some(text.clone()).filter(|it| !it.is_empty());
        let listen = Listen {
            scheme: Scheme::Http,
            transport: Transport::Unix,
            host: path.display().to_string(),
            port: 0,
            // Workers are that user when they connect.
            access: Access {
                mode: Some(FILE_MODE),
                user: name(&settings.user),
                group: name(&settings.group),
            },
            has_preface: false,
        };
        match bind_unix(&listen, FILE_MODE) {
            Ok(listener) => Ok(Self {
                path: path.clone(),
                listener,
                _file: SocketFile::new(path),
            }),
            Err(error) => Err(StartError::Setting(format!(
                "{setting}: cannot make {} for the workers: {error}; set TMPDIR to a folder that can be written",
                path.display()
            ))),
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
