//! Temporary folder of `fermata cluster up`: data of the log, sockets of the servers, configuration of the proxy.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use fermata_io::process::{self, Pid};

use crate::error::{Error, at};

const PREFIX: &str = "fermata-cluster-";

/// Temporary folder, removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the folder, and removes the folders of killed processes.
    ///
    /// # Errors
    /// Fails with a message for the user if the folder cannot be created.
    pub fn new() -> Result<Self, Error> {
        let parent = std::env::temp_dir();
        remove_left_behind(&parent);
        let path = parent.join(format!("{PREFIX}{}", process::pid()));
        make(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates a subfolder.
    ///
    /// # Errors
    /// Fails with a message for the user if the subfolder cannot be created.
    pub fn inner(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.0.join(name);
        make(&path)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn make(path: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    builder.mode(0o700).create(path).map_err(at(path.display()))
}

/// Removes the folders of processes that were killed.
fn remove_left_behind(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some(pid) = digits.and_then(|digits| digits.parse::<Pid>().ok()) else {
            continue;
        };
        // A folder with this process's id belongs to an earlier process with the same id. `metadata` does not follow a symbolic
        // link, so a link's target is never removed.
        let is_left = pid == process::pid() || !is_running(pid);
        let is_own = entry
            .metadata()
            .is_ok_and(|it| it.is_dir() && it.uid() == rustix::process::geteuid().as_raw());
        if is_left && is_own {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns true if the process runs. A zombie has an empty command line.
fn is_running(pid: Pid) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}
