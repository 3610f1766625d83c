//! Unix sockets by which workers find each other: files in the folder for temporary files, as long as the edge runs.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use fermata_io::net;

use super::start::StartError;

/// Nobody but this user may connect.
const FILE_MODE: u32 = 0o600;

/// Where workers meet.
#[derive(Debug)]
pub(super) struct Meeting {
    pub path: PathBuf,
    pub listener: OwnedFd,
    /// The process that has made the file, and removes it. Others have a copy of this and end before.
    owner: u32,
}

impl Meeting {
    /// Makes one; `setting` is the one to blame if that fails, `ending` tells it from others.
    pub fn bind(setting: &str, ending: &str, backlog: i32) -> Result<Self, StartError> {
        let owner = std::process::id();
        let random = fermata_io::random::u64();
        let name = format!("fermata-edge-{owner}-{random:x}.{ending}");
        let path = std::env::temp_dir().join(name);
        match net::bind_unix(&path, backlog, FILE_MODE) {
            Ok(listener) => Ok(Self {
                path,
                listener,
                owner,
            }),
            Err(error) => Err(StartError::Setting(format!(
                "{setting}: cannot make {} for the workers: {error}; set TMPDIR to a folder that can be written",
                path.display()
            ))),
        }
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        if std::process::id() == self.owner {
            // It may be gone; nobody meets there any more.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
