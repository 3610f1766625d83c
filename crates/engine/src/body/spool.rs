//! Temporary files that are gone when nobody needs them any more.
//!
//! Several servers may share a directory, also from containers in which each has the same process ids: the name of a
//! file says first which server it belongs to, by a number drawn when that started, and then which process.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use fermata_config::Settings;

use super::BodyError;

/// Names tried before giving up; a name is taken only if somebody guesses 64 random bits.
const NAME_TRIES_MAX: u32 = 4;

/// A temporary file, removed when this is dropped unless somebody has moved it.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // When it has been moved away there is nothing to remove.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Where the temporary files of a server lie, and how their names begin.
#[derive(Debug, Clone)]
pub(crate) struct Spools {
    directory: PathBuf,
    server: u64,
}

/// A temporary file that is being written.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    temporary: Temporary,
    bytes: u64,
}

impl Spools {
    /// Those of the server that has drawn `server`.
    pub fn new(settings: &Settings, server: u64) -> Spools {
        let directory = settings.upload_directory.clone();
        Spools {
            directory: directory.unwrap_or_else(std::env::temp_dir),
            server,
        }
    }

    /// A new file that only this user can read.
    pub fn create(&self) -> Result<Spool, BodyError> {
        let mut tries = 0;
        loop {
            let random = fermata_io::random::u64();
            let name = format!("{}{random:016x}", self.prefix(std::process::id()));
            let path = self.directory.join(name);
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => {
                    return Ok(Spool {
                        file,
                        temporary: Temporary { path },
                        bytes: 0,
                    });
                }
                Err(error)
                    if error.kind() == ErrorKind::AlreadyExists && tries < NAME_TRIES_MAX =>
                {
                    tries += 1;
                }
                Err(error) => return Err(BodyError::io(&self.directory, error)),
            }
        }
    }

    /// Removes what a worker of this server that was killed has left.
    pub fn sweep(&self, pid: u32) {
        let prefix = self.prefix(pid);
        let Ok(entries) = std::fs::read_dir(&self.directory) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(&prefix)) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    fn prefix(&self, pid: u32) -> String {
        format!("fermata-upload-{:016x}-{pid}-", self.server)
    }
}

impl Spool {
    /// Appends.
    pub fn write(&mut self, data: &[u8]) -> Result<(), BodyError> {
        self.file.write_all(data).map_err(|error| {
            let directory = self.temporary.path.parent();
            BodyError::io(directory.unwrap_or(&self.temporary.path), error)
        })?;
        self.bytes += data.len() as u64;
        Ok(())
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file to go on with, and what removes it.
    pub fn into_parts(self) -> (File, Temporary) {
        (self.file, self.temporary)
    }

    /// Closes the file: it and its length.
    pub fn finish(self) -> (Temporary, u64) {
        (self.temporary, self.bytes)
    }
}
