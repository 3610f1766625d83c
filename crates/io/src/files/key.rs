//! What a job has to itself while it is worked on, so that no other changes it meanwhile.

use std::path::{Component, Path, PathBuf};

/// What a job has to itself while it is worked on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Path(PathBuf),
    Handle(u64),
    /// Of a file, by the numbers of its device and inode.
    Inode(u64, u64),
}

impl Key {
    /// Of an absolute path, without looking at links: two names of one file are two files here.
    pub(crate) fn path(path: &Path) -> Key {
        let is_part = |part: &Component<'_>| !matches!(part, Component::CurDir);
        Key::Path(path.components().filter(is_part).collect())
    }
}

/// The path from the root on: what is relative is so to the directory of now, whichever is the current one later.
pub(crate) fn absolute(path: PathBuf) -> PathBuf {
    if path.is_absolute() {
        return path;
    }
    match std::env::current_dir() {
        Ok(folder) => folder.join(path),
        Err(_it_was_removed) => path,
    }
}
