//! The folder of `fermata cluster up`: what the log keeps, sockets of the servers, the configuration of the proxy.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use fermata_io::process::{self, Pid};

use crate::error::{Error, at};

const PREFIX: &str = "fermata-cluster-";

/// A folder of its own, removed in the end.
pub struct Folder(PathBuf);

impl Folder {
    /// # Errors
    /// One sentence for the user.
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

    /// A folder in it.
    ///
    /// # Errors
    /// One sentence for the user.
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

/// Removes folders of processes that were killed before they could.
fn remove_left_behind(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some(pid) = digits.and_then(|digits| digits.parse::<Pid>().ok()) else {
            continue;
        };
        // One with our own id is of a process that had it before. What a link names is not ours to remove: `metadata` is the
        // link's own.
        let is_left = pid == process::pid() || !is_running(pid);
        let is_own = entry
            .metadata()
            .is_ok_and(|it| it.is_dir() && it.uid() == rustix::process::geteuid().as_raw());
        if is_left && is_own {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// One that has ended and that nobody has asked how has no command line any more.
fn is_running(pid: Pid) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}
