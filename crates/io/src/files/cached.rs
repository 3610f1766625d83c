//! Reads files that are in the page cache directly into the caller's memory.
//!
//! These functions never wait for a disk: a file that is not cached is refused, and the caller starts a job instead.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FsWord, Mode, OFlags, ResolveFlags};

/// An open file, of which a range is requested.
pub struct Cached {
    file: OwnedFd,
    offset: u64,
    len: usize,
}

impl Cached {
    /// Opens a regular, non-empty file if the open needs no disk and the requested range has at most `len_max` bytes. The range is
    /// `length` bytes from `offset`; without `length`, the rest of the file.
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

    /// Returns the number of bytes to read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no bytes to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `into`, which must have exactly [`len`](Cached::len) bytes. Returns false if some bytes are not cached or no
    /// longer exist.
    #[must_use]
    pub fn read(self, into: &mut [MaybeUninit<u8>]) -> bool {
        if into.len() != self.len {
            return false;
        }
        read_at_once(&self.file, into, self.offset) == Some(self.len)
    }
}

/// Reads cached bytes to the start of `into` and returns their number, or `None` if no bytes are cached or the read
/// failed.
pub(super) fn read_at_once(
    file: &OwnedFd,
    into: &mut [MaybeUninit<u8>],
    offset: u64,
) -> Option<usize> {
    let part = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // A direct system call, because musl lacks the function before 1.2.5. The offset is passed in two halves; the upper half
    // matters only where a register holds 32 bits. SAFETY: the iovec describes the slice, which is valid for writing and outlives
    // the call.
    let read = unsafe {
        libc::syscall(
            libc::SYS_preadv2,
            file.as_raw_fd(),
            &raw const part,
            1_usize,
            offset as libc::c_ulong,
            (offset >> 32) as libc::c_ulong,
            libc::RWF_NOWAIT,
        )
    };
    if let Ok(read) = usize::try_from(read) {
        return Some(read);
    }
    let error = io::Error::last_os_error().raw_os_error();
    if error != Some(libc::EOPNOTSUPP) || !is_in_memory(file) {
        return None;
    }
    // SAFETY: the slice is valid for writing and outlives the call.
    let read = unsafe {
        libc::pread(
            file.as_raw_fd(),
            into.as_mut_ptr().cast(),
            into.len(),
            offset as libc::off_t,
        )
    };
    usize::try_from(read).ok()
}

/// Returns true if the file is in tmpfs or ramfs, which have no disk but may not support `RWF_NOWAIT`.
fn is_in_memory(file: &OwnedFd) -> bool {
    const TMPFS: FsWord = 0x0102_1994;
    const RAMFS: FsWord = 0x8584_58f6;
    rustix::fs::fstatfs(file).is_ok_and(|found| matches!(found.f_type, TMPFS | RAMFS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn files_that_are_only_in_memory_are_read_at_once() {
        let name = format!("/dev/shm/fermata-cached-{}", std::process::id());
        let path = Path::new(&name);
        let Ok(mut file) = std::fs::File::create_new(path) else {
            return;
        };
        file.write_all(b"in memory").expect("room");
        let opened = Cached::open(path, 3, None, 100);
        std::fs::remove_file(path).expect("it is there");
        let opened = opened.expect("it is in memory");
        assert_eq!(opened.len(), 6);
        let mut into = [MaybeUninit::zeroed(); 6];
        assert!(opened.read(&mut into));
        // SAFETY: the complete array was zeroed.
        let text = into.map(|byte| unsafe { byte.assume_init() });
        assert_eq!(&text, b"memory");
    }
}
