//! Prepared calls of the C library: paths end with a NUL, descriptors are owned.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::data::Bytes;
use super::syscall::{Answer, again_raw};

/// Bytes per read of a held descriptor: a database page, on the thread's stack.
const LOAD_BYTES: usize = 16 * 1024;

/// A call that any thread can make at any time.
pub(super) enum Ready {
    Open(CString, i32, u32),
    Look(CString, bool),
    Write(OwnedFd, Bytes),
    Copy(OwnedFd, OwnedFd, usize),
    Sync(OwnedFd, bool),
    LoadHeld(RawFd, u64, u64),
    SyncHeld(RawFd, bool),
    Truncate(OwnedFd, i64),
    Rename(CString, CString),
    Link(CString, CString),
    Symlink(CString, CString),
    Unlink(CString),
    RemoveDirectory(CString),
    MakeDirectory(CString, u32),
}

impl Ready {
    /// Makes the call, however long it takes.
    pub fn run(&self) -> Answer {
        // SAFETY: paths end with a NUL, descriptors are open and buffers valid until the call returns.
        unsafe {
            match self {
                Ready::Open(path, flags, mode) => {
                    let mut found: libc::stat = std::mem::zeroed();
                    if libc::stat(path.as_ptr(), &raw mut found) == 0
                        && found.st_mode & libc::S_IFMT != libc::S_IFREG
                        && found.st_mode & libc::S_IFMT != libc::S_IFDIR
                    {
                        return Err(libc::ENXIO);
                    }
                    again_raw(|| libc::open(path.as_ptr(), *flags, *mode).into())
                }
                Ready::Look(path, follows) => {
                    let mut found: libc::stat = std::mem::zeroed();
                    if *follows {
                        libc::stat(path.as_ptr(), &raw mut found)
                    } else {
                        libc::lstat(path.as_ptr(), &raw mut found)
                    };
                    Ok(0)
                }
                Ready::Write(file, bytes) => {
                    let bytes = bytes.slice();
                    again_raw(|| {
                        libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) as i64
                    })
                }
                Ready::Copy(from, to, len) => again_raw(|| {
                    let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
                    let at = std::ptr::null_mut();
                    libc::copy_file_range(from, at, to, at, *len, 0) as i64
                }),
                Ready::Sync(file, true) => again_raw(|| libc::fdatasync(file.as_raw_fd()).into()),
                Ready::Sync(file, false) => again_raw(|| libc::fsync(file.as_raw_fd()).into()),
                Ready::LoadHeld(fd, offset, len) => Ok(load_held(*fd, *offset, *len)),
                Ready::SyncHeld(fd, true) => again_raw(|| libc::fdatasync(*fd).into()),
                Ready::SyncHeld(fd, false) => again_raw(|| libc::fsync(*fd).into()),
                Ready::Truncate(file, len) => {
                    again_raw(|| libc::ftruncate(file.as_raw_fd(), *len).into())
                }
                Ready::Rename(from, to) => {
                    again_raw(|| libc::rename(from.as_ptr(), to.as_ptr()).into())
                }
                Ready::Link(target, path) => {
                    again_raw(|| libc::link(target.as_ptr(), path.as_ptr()).into())
                }
                Ready::Symlink(target, path) => {
                    again_raw(|| libc::symlink(target.as_ptr(), path.as_ptr()).into())
                }
                Ready::Unlink(path) => again_raw(|| libc::unlink(path.as_ptr()).into()),
                Ready::RemoveDirectory(path) => again_raw(|| libc::rmdir(path.as_ptr()).into()),
                Ready::MakeDirectory(path, mode) => {
                    again_raw(|| libc::mkdir(path.as_ptr(), *mode).into())
                }
            }
        }
    }
}

/// Loads a range into the page cache. Ignores errors: the read that follows reports them.
fn load_held(fd: RawFd, offset: u64, len: u64) -> u64 {
    let mut block = [0u8; LOAD_BYTES];
    let mut at = offset;
    let end = offset.saturating_add(len);
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(LOAD_BYTES);
        let Ok(from) = libc::off_t::try_from(at) else {
            break;
        };
        // SAFETY: the buffer is valid for this number of bytes until the call returns.
        let got = unsafe {
            let room = wanted.min(LOAD_BYTES);
            libc::pread(fd, block.as_mut_ptr().cast(), room, from)
        };
        match u64::try_from(got) {
            Ok(got) if got > 0 => at += got,
            _ => break,
        }
    }
    0
}
