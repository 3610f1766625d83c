//! One step of a job: a system call that may wait for a disk.
//!
//! An operation owns or shares everything that the kernel accesses, so it may outlive its requester.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

use super::cached;
use super::data::Bytes;
use super::ready::Ready;
use super::syscall::{Answer, again, again_raw, number};
use super::tree;

/// Maximum number of names of a directory in memory.
const NAMES_MAX: usize = 1_000_000;

/// An operation.
pub(super) enum Op {
    Open {
        path: CString,
        flags: i32,
        mode: u32,
    },
    Stat {
        path: CString,
        follows: bool,
        out: Box<libc::statx>,
    },
    StatFile {
        file: Arc<OwnedFd>,
        out: Box<libc::statx>,
    },
    /// Appends at most `len` bytes to `into`.
    Read {
        file: Arc<OwnedFd>,
        into: Vec<u8>,
        len: usize,
        offset: u64,
    },
    Write {
        file: Arc<OwnedFd>,
        bytes: Bytes,
        range: Range<usize>,
        offset: u64,
    },
    Sync {
        file: Arc<OwnedFd>,
    },
    Permit {
        file: Arc<OwnedFd>,
        mode: u32,
    },
    Own {
        file: Arc<OwnedFd>,
        user: u32,
        group: u32,
    },
    Truncate {
        file: Arc<OwnedFd>,
        len: u64,
    },
    Rename {
        from: CString,
        to: CString,
        replaces: bool,
    },
    Unlink {
        path: CString,
        is_directory: bool,
    },
    MakeDirectory {
        path: CString,
        mode: u32,
    },
    /// Stores the names in `into`, each followed by a NUL, in byte order.
    List {
        path: CString,
        into: Vec<u8>,
    },
    /// Removes a directory with its content, without following links.
    RemoveTree {
        path: CString,
    },
    /// A call of the C library on behalf of the application.
    Call(Ready),
}

/// How an operation may run in the loop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// The kernel can refuse the operation instead of waiting.
    Cached,
    /// The operation does not access a disk.
    AtOnce,
    /// The operation is short unless the disk is busy.
    Short,
    /// The operation may take long.
    Long,
}

impl Op {
    /// Returns how the operation may run in the loop.
    pub fn manner(&self) -> Manner {
        match self {
            Op::Open { flags, .. } if flags & (libc::O_CREAT | libc::O_TRUNC) == 0 => {
                Manner::Cached
            }
            Op::Read { .. } => Manner::Cached,
            Op::StatFile { .. } | Op::Permit { .. } | Op::Own { .. } => Manner::AtOnce,
            Op::Open { .. }
            | Op::Stat { .. }
            | Op::Write { .. }
            | Op::Rename { .. }
            | Op::Unlink { .. }
            | Op::MakeDirectory { .. } => Manner::Short,
            Op::Sync { .. }
            | Op::Truncate { .. }
            | Op::List { .. }
            | Op::RemoveTree { .. }
            | Op::Call(_) => Manner::Long,
        }
    }

    /// Returns the number of bytes that the operation moves.
    pub fn bytes_len(&self) -> usize {
        match self {
            Op::Read { len, .. } => *len,
            Op::Write { range, .. } => range.len(),
            _ => 0,
        }
    }

    /// Runs the operation if the kernel has all data in memory; returns `None` otherwise.
    pub fn run_cached(&mut self) -> Option<Answer> {
        match self {
            Op::Open { path, flags, .. } => {
                let flags = OFlags::from_bits_retain(*flags as u32);
                let opened = rustix::fs::openat2(
                    rustix::fs::CWD,
                    path.as_c_str(),
                    flags,
                    Mode::empty(),
                    ResolveFlags::CACHED,
                );
                match opened {
                    Ok(fd) => Some(Ok(into_raw(fd))),
                    Err(errno @ (Errno::NOENT | Errno::ACCESS | Errno::NOTDIR)) => {
                        Some(Err(errno.raw_os_error()))
                    }
                    // The path is not cached, or the kernel or a seccomp filter refuses this call. A call that may wait returns
                    // the actual result.
                    Err(_) => None,
                }
            }
            Op::Read {
                file,
                into,
                len,
                offset,
            } => {
                into.reserve(*len);
                let room = into.spare_capacity_mut().get_mut(..*len)?;
                let read = cached::read_at_once(file, room, *offset)?;
                // SAFETY: the kernel has initialized `read` bytes after the end.
                unsafe { into.set_len(into.len() + read) };
                Some(Ok(read as u64))
            }
            _ => None,
        }
    }

    /// Runs the operation, however long it takes.
    pub fn run(&mut self) -> Answer {
        match self {
            Op::Open { path, flags, mode } => {
                let flags = OFlags::from_bits_retain(*flags as u32);
                again(|| rustix::fs::open(path.as_c_str(), flags, Mode::from_raw_mode(*mode)))
                    .map(into_raw)
            }
            Op::Stat { path, follows, out } => {
                let flags = stat_flags(*follows);
                again_raw(|| stat(libc::AT_FDCWD, path, flags, out))
            }
            Op::StatFile { file, out } => {
                again_raw(|| stat(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH, out))
            }
            Op::Read {
                file,
                into,
                len,
                offset,
            } => {
                into.reserve(*len);
                let to = into.spare_capacity_mut().as_mut_ptr();
                // SAFETY: the vector has capacity for `len` bytes after its end.
                let read = again_raw(|| unsafe {
                    libc::pread(file.as_raw_fd(), to.cast(), *len, *offset as libc::off_t) as i64
                })?;
                // SAFETY: the kernel has initialized `read` bytes after the end.
                unsafe { into.set_len(into.len() + read as usize) };
                Ok(read)
            }
            Op::Write {
                file,
                bytes,
                range,
                offset,
            } => {
                // SAFETY: borrowed bytes are valid while the thread that lent them runs the operation; see `Data`.
                let bytes = &unsafe { bytes.slice() }[range.clone()];
                again(|| rustix::io::pwrite(&**file, bytes, *offset)).map(|count| count as u64)
            }
            Op::Sync { file } => again(|| rustix::fs::fsync(&**file)).map(|()| 0),
            Op::Permit { file, mode } => {
                again(|| rustix::fs::fchmod(&**file, Mode::from_raw_mode(*mode))).map(|()| 0)
            }
            Op::Own { file, user, group } => {
                let (user, group) = (Uid::from_raw(*user), Gid::from_raw(*group));
                again(|| rustix::fs::fchown(&**file, Some(user), Some(group))).map(|()| 0)
            }
            Op::Truncate { file, len } => {
                again(|| rustix::fs::ftruncate(&**file, *len)).map(|()| 0)
            }
            Op::Rename { from, to, replaces } => {
                let flags = rustix::fs::RenameFlags::from_bits_retain(rename_flags(*replaces));
                let (from, to) = (from.as_c_str(), to.as_c_str());
                again(|| {
                    rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, flags)
                })
                .map(|()| 0)
            }
            Op::Unlink { path, is_directory } if *is_directory => {
                again(|| rustix::fs::rmdir(path.as_c_str())).map(|()| 0)
            }
            Op::Unlink { path, .. } => again(|| rustix::fs::unlink(path.as_c_str())).map(|()| 0),
            Op::MakeDirectory { path, mode } => {
                again(|| rustix::fs::mkdir(path.as_c_str(), Mode::from_raw_mode(*mode))).map(|()| 0)
            }
            Op::List { path, into } => list(as_path(path), into).map_err(number).map(|()| 0),
            Op::RemoveTree { path } => tree::remove(as_path(path))
                .map_err(|errno| errno.raw_os_error())
                .map(|()| 0),
            Op::Call(call) => call.run(),
        }
    }
}

/// A direct system call, because musl lacks the function before 1.2.5.
fn stat(directory: RawFd, path: &CStr, flags: i32, out: &mut libc::statx) -> i64 {
    // SAFETY: the path ends with a NUL and `out` is valid for writing; both outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_statx,
            directory,
            path.as_ptr(),
            flags,
            STAT_MASK,
            &raw mut *out,
        ) as i64
    }
}

/// Requested fields of file metadata.
pub(super) const STAT_MASK: u32 = libc::STATX_BASIC_STATS;

pub(super) fn stat_flags(follows: bool) -> i32 {
    if follows {
        0
    } else {
        libc::AT_SYMLINK_NOFOLLOW
    }
}

pub(super) fn rename_flags(replaces: bool) -> u32 {
    if replaces { 0 } else { libc::RENAME_NOREPLACE }
}

/// Returns zeroed memory for file metadata.
pub(super) fn stat_room() -> Box<libc::statx> {
    // SAFETY: the structure consists of integers, for which zero is valid.
    Box::new(unsafe { std::mem::zeroed() })
}

fn into_raw(fd: OwnedFd) -> u64 {
    use std::os::fd::IntoRawFd;
    fd.into_raw_fd() as u64
}

fn as_path(path: &CString) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()))
}

fn list(path: &Path, into: &mut Vec<u8>) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        if names.len() == NAMES_MAX {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        names.push(entry?.file_name().into_vec());
    }
    names.sort_unstable();
    for name in names {
        into.extend_from_slice(&name);
        into.push(0);
    }
    Ok(())
}
