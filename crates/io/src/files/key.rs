//! Resources that a job uses exclusively: no other job changes them at the same time.

use std::path::{Component, Path, PathBuf};

/// A resource that a job uses exclusively.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Path(PathBuf),
    Handle(u64),
    /// A file, by device and inode number.
    Inode(u64, u64),
}

impl Key {
    /// Returns the key of an absolute path. Does not resolve links: two names of one file have different keys.
    pub(crate) fn path(path: &Path) -> Key {
        let is_part = |part: &Component<'_>| !matches!(part, Component::CurDir);
        Key::Path(path.components().filter(is_part).collect())
    }
}

/// Returns the absolute path, based on the current directory at the time of the call.
pub(crate) fn absolute(path: PathBuf) -> PathBuf {
    if path.is_absolute() {
        return path;
    }
    match std::env::current_dir() {
        Ok(folder) => folder.join(path),
        Err(_it_was_removed) => path,
    }
}
