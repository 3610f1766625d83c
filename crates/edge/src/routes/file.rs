//! The routes file and its changes.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Identifies a state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of a file.
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
    /// State that was read or refused.
    pub seen: Option<Stamp>,
    /// New state of the file. It has to stay unchanged for one interval before the file is read.
    changing: Option<Stamp>,
    /// Error of the last read, reported once.
    pub(crate) problem: Option<String>,
}

impl RoutesFile {
    /// Creates a file whose state `seen` was read.
    pub fn new(path: PathBuf, seen: Option<Stamp>) -> Self {
        Self {
            path,
            seen,
            changing: None,
            problem: None,
        }
    }

    /// Returns true if the file has to be read: its state is new and has stayed unchanged for one
    /// interval.
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
            // The read failed, so it is retried.
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
