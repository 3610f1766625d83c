//! Removing a directory with everything in it, however deep it is.
//!
//! Neither the stack nor the number of descriptors grows with the depth, which may be that of an archive of somebody else's
//! making: what lies too deep is moved up to the directory that is removed, and is gone through from there.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::{Errno, Result};

/// Directories that are open at a time.
const OPEN_MAX: usize = 16;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

struct Level {
    /// Its name in the level above.
    name: CString,
    folder: OwnedFd,
    entries: Dir,
}

/// Removes a directory and what is in it, without following links. It has to be one.
pub(super) fn remove(path: &Path) -> Result<()> {
    let top = rustix::fs::open(path, FOLDER, Mode::empty())?;
    // What was moved up may come behind where reading was.
    while empty(&top)? {}
    rustix::fs::rmdir(path)
}

/// Removes what is in a directory. True when something was moved up to it meanwhile.
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
            // All of it is gone, so it can go itself.
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
            // Another process removes it as well.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Whether it is a directory; else it is removed.
fn is_folder(folder: BorrowedFd<'_>, name: &CStr, known: FileType) -> Result<bool> {
    if known == FileType::Directory {
        return Ok(true);
    }
    match unlink(folder, name, AtFlags::empty()) {
        // Not every file system tells what it is.
        Err(Errno::ISDIR) => Ok(true),
        removed => removed.map(|()| false),
    }
}

/// It may be gone already.
fn unlink(folder: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<()> {
    match rustix::fs::unlinkat(folder, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}
