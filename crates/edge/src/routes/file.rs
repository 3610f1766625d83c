//! The file of the routes, and whether it has changed.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What tells one state of a file from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// That of a file as it is now.
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// The routes file.
#[derive(Clone, Debug)]
pub(crate) struct RoutesFile {
    pub path: PathBuf,
    /// The state that was read, or refused.
    pub seen: Option<Stamp>,
    /// A state that is being waited for to last.
    changing: Option<Stamp>,
    /// Why it could not be read the last time, which is told once.
    pub(crate) problem: Option<String>,
}

impl RoutesFile {
    /// One whose state `seen` has been read.
    pub fn new(path: PathBuf, seen: Option<Stamp>) -> Self {
        Self {
            path,
            seen,
            changing: None,
            problem: None,
        }
    }

    /// Whether the file is to be read, by the state it is in: it is another one than was read, and has been the same for one
    /// look.
    pub(crate) fn is_due(&mut self, now: Option<Stamp>) -> bool {
        let is_new = now.is_some() && now != self.seen;
        let has_settled = is_new && self.changing == now;
        self.changing = now.filter(|_| is_new);
        has_settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(bytes: u64) -> Option<Stamp> {
        Some(Stamp {
            inode: 1,
            bytes,
            modified: (0, 0),
        })
    }

    #[test]
    fn a_file_is_read_when_it_has_changed_and_then_lasted() {
        let mut file = RoutesFile::new(PathBuf::from("routes"), stamp(1));
        for (now, expected) in [
            (stamp(1), false),
            (stamp(0), false),
            (stamp(2), false),
            (stamp(3), false),
            (stamp(3), true),
            // It was not read after all: it is tried again.
            (stamp(3), true),
            (None, false),
            (stamp(3), false),
            (stamp(3), true),
        ] {
            assert_eq!(file.is_due(now), expected, "{now:?}");
        }
        file.seen = stamp(3);
        assert!(!file.is_due(stamp(3)) && file.changing.is_none());
    }
}
