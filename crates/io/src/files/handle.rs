//! Open files: a position, and a block that is read ahead for reading lines.

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::failure::Failure;
use super::key::Key;

/// Lock mode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Shared with other owners of a shared lock.
    Shared,
    /// Exclusive.
    Exclusive,
    /// Unlocked.
    None,
}

struct Open {
    /// The descriptor; `None` once closed. Running operations share it, so its number is not reused before they complete.
    file: Option<Arc<OwnedFd>>,
    path: PathBuf,
    /// Path to remove when the file is closed, and the process that removes it: forked processes have copies of this value.
    temporary: Option<(PathBuf, u32)>,
    /// Position of the application's next read or write.
    position: u64,
    /// Bytes that were read ahead, from `position` on. They start at index `ahead_at`.
    ahead: Vec<u8>,
    ahead_at: usize,
}

impl Open {
    fn remove_temporary(&mut self) {
        if let Some((place, process)) = self.temporary.take()
            && process == std::process::id()
        {
            // Ignore errors: the file may have been moved or removed, and no caller can receive them.
            let _ = std::fs::remove_file(place);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.remove_temporary();
    }
}

/// An open file. Clones refer to the same file.
#[derive(Clone)]
pub struct Handle {
    open: Rc<RefCell<Open>>,
    id: u64,
}

impl Handle {
    pub(super) fn new(file: OwnedFd, path: PathBuf, position: u64) -> Handle {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        Handle {
            open: Rc::new(RefCell::new(Open {
                file: Some(Arc::new(file)),
                path,
                temporary: None,
                position,
                ahead: Vec::new(),
                ahead_at: 0,
            })),
            id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    /// Creates the handle of a file that is removed when it is closed or its last handle is dropped. `place` is its
    /// absolute path.
    pub(super) fn temporary(file: OwnedFd, path: PathBuf, place: PathBuf) -> Handle {
        let handle = Handle::new(file, path, 0);
        handle.open.borrow_mut().temporary = Some((place, std::process::id()));
        handle
    }

    /// Returns the path that the file was opened with or renamed to.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.open.borrow().path.clone()
    }

    /// Returns true if the file is removed when it is closed.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.open.borrow().temporary.is_some()
    }

    /// Returns the position of the next read or write.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.open.borrow().position
    }

    /// Returns true if the file was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.open.borrow().file.is_none()
    }

    /// Closes the file and removes a temporary one. Running operations still complete.
    pub fn close(&self) {
        let mut open = self.open.borrow_mut();
        open.file = None;
        open.ahead = Vec::new();
        open.remove_temporary();
    }

    /// Locks or unlocks the file. Returns false if another holder has the lock and `waits` is false.
    ///
    /// # Errors
    /// The file is closed, or the system's error.
    pub fn lock(&self, lock: Lock, waits: bool) -> Result<bool, Failure> {
        let operation = match (lock, waits) {
            (Lock::Shared, true) => FlockOperation::LockShared,
            (Lock::Shared, false) => FlockOperation::NonBlockingLockShared,
            (Lock::Exclusive, true) => FlockOperation::LockExclusive,
            (Lock::Exclusive, false) => FlockOperation::NonBlockingLockExclusive,
            (Lock::None, _) => FlockOperation::Unlock,
        };
        let file = self.file()?;
        loop {
            match rustix::fs::flock(file.as_fd(), operation) {
                Ok(()) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(false),
                Err(errno) => return Err(Failure::from(errno.raw_os_error())),
            }
        }
    }

    /// Returns the key that keeps jobs on this handle in order.
    pub(super) fn key(&self) -> Key {
        Key::Handle(self.id)
    }

    /// Stops the removal of a temporary file, to give it a name. Returns `None` if the file is not temporary, or already being
    /// renamed.
    pub(super) fn begin_keeping(&self) -> Option<Keeping> {
        let from = self.open.borrow_mut().temporary.take()?;
        Some(Keeping {
            open: Rc::clone(&self.open),
            from: Some(from),
        })
    }

    pub(super) fn go_to(&self, position: u64) {
        self.drop_ahead();
        self.open.borrow_mut().position = position;
    }

    pub(super) fn file(&self) -> Result<Arc<OwnedFd>, Failure> {
        self.open.borrow().file.clone().ok_or(Failure::Closed)
    }

    pub(super) fn advance(&self, bytes: u64) {
        self.open.borrow_mut().position += bytes;
    }

    /// Removes and returns up to `len` bytes that were read ahead.
    pub(super) fn take_ahead(&self, len: usize) -> Vec<u8> {
        let mut open = self.open.borrow_mut();
        let open = &mut *open;
        let unread = open.ahead.len() - open.ahead_at;
        let taken = len.min(unread);
        let bytes = if taken == unread && open.ahead_at == 0 {
            std::mem::take(&mut open.ahead)
        } else {
            open.ahead[open.ahead_at..open.ahead_at + taken].to_vec()
        };
        open.position += taken as u64;
        if taken == unread {
            open.ahead.clear();
            open.ahead_at = 0;
        } else {
            open.ahead_at += taken;
        }
        bytes
    }

    /// Puts back `taken` bytes and the bytes that were read after them. No bytes may be read ahead when this is called.
    pub(super) fn put_ahead(&self, bytes: Vec<u8>, taken: usize) {
        let mut open = self.open.borrow_mut();
        open.position -= taken as u64;
        open.ahead = bytes;
        open.ahead_at = 0;
    }

    pub(super) fn drop_ahead(&self) {
        let mut open = self.open.borrow_mut();
        open.ahead = Vec::new();
        open.ahead_at = 0;
    }

    /// Returns the next line if its end was read ahead. The caller has searched the first `searched` bytes.
    pub(super) fn take_line(
        &self,
        searched: usize,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let open = self.open.borrow();
        let unread = &open.ahead[open.ahead_at..];
        let found = unread[searched..].iter().position(|byte| *byte == b'\n');
        let len = found.map_or(unread.len(), |at| searched + at);
        if len > bytes_max {
            return Err(Failure::LongLine {
                bytes_max: bytes_max as u64,
            });
        }
        drop(open);
        if found.is_none() {
            return Ok(None);
        }
        let mut line = self.take_ahead(len + 1);
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(line))
    }
}

/// A temporary file that is being renamed. If the rename fails, the file becomes temporary again.
pub(super) struct Keeping {
    open: Rc<RefCell<Open>>,
    from: Option<(PathBuf, u32)>,
}

impl Keeping {
    /// Returns the file's temporary path.
    pub fn place(&self) -> Option<&Path> {
        self.from.as_ref().map(|(place, _)| place.as_path())
    }

    /// Records the new path after the rename.
    pub fn end(mut self, path: PathBuf) {
        self.from = None;
        self.open.borrow_mut().path = path;
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        let mut open = self.open.borrow_mut();
        open.temporary = self.from.take();
        if open.file.is_none() {
            open.remove_temporary();
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let open = self.open.borrow();
        let fd = open.file.as_ref().map(AsRawFd::as_raw_fd);
        write!(out, "Handle({fd:?}, {})", open.path.display())
    }
}
