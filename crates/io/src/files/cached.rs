//! Files that the kernel has in its memory, read straight to where the program wants them.
//!
//! Nothing here waits: what is not cached is refused, and a job reads it then.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};

/// An open file of which a part is wanted.
pub struct Cached {
    file: OwnedFd,
    offset: u64,
    len: usize,
}

impl Cached {
    /// Opens a regular file that is not empty if that needs no disk, and at most `len_max` bytes of it are wanted: `length`
    /// bytes, or all, from `offset` on.
    #[must_use]
    pub fn open(path: &Path, offset: u64, length: Option<u64>, len_max: usize) -> Option<Cached> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let resolve = ResolveFlags::CACHED;
        let file =
            rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve).ok()?;
        let found = rustix::fs::fstat(&file).ok()?;
        let is_regular = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
        let size = u64::try_from(found.st_size).ok()?;
        if !is_regular || size == 0 {
            return None;
        }
        let wanted = size.saturating_sub(offset).min(length.unwrap_or(u64::MAX));
        let len = usize::try_from(wanted).ok().filter(|len| *len <= len_max)?;
        Some(Cached { file, offset, len })
    }

    /// How many bytes there are to be read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `into`, which has room for exactly [`len`](Cached::len) bytes. False when some are not cached, or not there any more.
    #[must_use]
    pub fn read(self, into: &mut [MaybeUninit<u8>]) -> bool {
        if into.len() != self.len {
            return false;
        }
        let part = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        // SAFETY: the part is the slice, which is valid for writing and outlives the call.
        let read = unsafe {
            libc::preadv2(
                self.file.as_raw_fd(),
                &raw const part,
                1,
                self.offset as libc::off_t,
                libc::RWF_NOWAIT,
            )
        };
        usize::try_from(read) == Ok(self.len)
    }
}
