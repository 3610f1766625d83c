//! Removes a directory with its content, however deep it is.
//!
//! Neither the stack nor the number of descriptors grows with the depth, because an untrusted archive may determine the depth.
//! Directories that are too deep are moved up into the directory that is being removed, and emptied from there.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::{Errno, Result};

/// Maximum number of open directories.
const OPEN_MAX: usize = 16;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

struct Level {
    /// Name in the parent directory.
    name: CString,
    folder: OwnedFd,
    entries: Dir,
}

/// Removes a directory with its content, without following links. `path` must be a directory.
pub(super) fn remove(path: &Path) -> Result<()> {
    let top = rustix::fs::open(path, FOLDER, Mode::empty())?;
    // A directory that was moved up may be before the current read position, so repeat.
    while empty(&top)? {}
    rustix::fs::rmdir(path)
}

/// Removes the content of a directory. Returns true if directories were moved up into it during the removal.
fn empty(top: &OwnedFd) -> Result<bool> {
    let mut entries = Dir::read_from(top)?;
    let mut levels: Vec<Level> = Vec::new();
    let mut has_moved = false;
    loop {
        let is_deep = levels.len() == OPEN_MAX;
        let (folder, entries) = match levels.last_mut() {
            Some(level) => (level.folder.as_fd(), &mut level.entries),
            None => (top.as_fd(), &mut entries),
        };
        let Some(entry) = entries.read() else {
            // The directory is empty, so it can be removed.
            let Some(Level { name, .. }) = levels.pop() else {
                return Ok(has_moved);
            };
            let above = levels.last().map_or(top.as_fd(), |it| it.folder.as_fd());
            unlink(above, &name, AtFlags::REMOVEDIR)?;
            continue;
        };
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if !is_folder(folder, name, entry.file_type())? {
            continue;
        }
        let name = name.to_owned();
        // Open no further directory. The next round of `remove` empties this one from the top.
        if is_deep {
            let moved = format!(".fermata-{:016x}", crate::random::u64());
            rustix::fs::renameat(folder, name.as_c_str(), top, moved.as_str())?;
            has_moved = true;
            continue;
        }
        match rustix::fs::openat(folder, name.as_c_str(), FOLDER, Mode::empty()) {
            Ok(folder) => levels.push(Level {
                entries: Dir::read_from(&folder)?,
                name,
                folder,
            }),
            // Another process removed the entry.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Returns true if the entry is a directory; removes it otherwise.
fn is_folder(folder: BorrowedFd<'_>, name: &CStr, known: FileType) -> Result<bool> {
    if known == FileType::Directory {
        return Ok(true);
    }
    match unlink(folder, name, AtFlags::empty()) {
        // Some file systems do not report the type.
        Err(Errno::ISDIR) => Ok(true),
        removed => removed.map(|()| false),
    }
}

/// Removes an entry. The entry may already have been removed.
fn unlink(folder: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<()> {
    match rustix::fs::unlinkat(folder, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}
