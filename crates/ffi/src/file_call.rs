//! C library calls of PHP's file functions that would block the event loop.
//!
//! The extension makes short or cached calls itself and uses this file for all others.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};

use fermata_io::files::{self, Call, Failure, Outcome, Output, Started};

use crate::abi::{FmFileJobId, FmStr, ask, put};
use crate::file::path_of;
use crate::worker::FmWorker;

/// Opens `path` with `flags` and `mode`. Returns -ENXIO for a pipe or device, without opening it.
pub const FM_CALL_OPEN: u32 = 1;
/// Loads the directory entries of `path` into the kernel's cache; with `flags` 1, of a link's target too.
pub const FM_CALL_LOOK: u32 = 2;
/// Loads `len` bytes of `fd` from `offset` on into the page cache.
pub const FM_CALL_LOAD: u32 = 3;
/// Writes `data` to `fd`.
pub const FM_CALL_WRITE: u32 = 4;
/// Copies at most `len` bytes from `fd` to `other_fd`.
pub const FM_CALL_COPY: u32 = 5;
/// Flushes `fd` to disk; `flags` 1: only the metadata needed to read the data.
pub const FM_CALL_SYNC: u32 = 6;
/// Truncates `fd` to `len` bytes.
pub const FM_CALL_TRUNCATE: u32 = 7;
/// Renames `path` to `other`.
pub const FM_CALL_RENAME: u32 = 8;
/// Creates the hard link `other` to `path`.
pub const FM_CALL_LINK: u32 = 9;
/// Creates the symbolic link `other` with the target `path`.
pub const FM_CALL_SYMLINK: u32 = 10;
/// Removes the file `path`.
pub const FM_CALL_UNLINK: u32 = 11;
/// Removes the directory `path`.
pub const FM_CALL_REMOVE_DIRECTORY: u32 = 12;
/// Creates the directory `path` with `mode`.
pub const FM_CALL_MAKE_DIRECTORY: u32 = 13;

/// Like FM_CALL_LOAD, for an `fd` that must not be duplicated. C keeps the descriptor open until the call completes.
pub const FM_CALL_LOAD_HELD: u32 = 14;
/// Like FM_CALL_SYNC, for an `fd` that C keeps open until the call completes.
pub const FM_CALL_SYNC_HELD: u32 = 15;

/// A call. FM_CALL_* documents which fields each kind uses.
#[repr(C)]
pub struct FmFileCall {
    /// FM_CALL_*.
    pub kind: u32,
    /// See FM_CALL_*.
    pub flags: i32,
    /// Permissions of created files.
    pub mode: u32,
    /// See FM_CALL_*. The caller may close the descriptor after `fm_file_call` returns, except for FM_CALL_*_HELD.
    pub fd: i32,
    /// See FM_CALL_*.
    pub other_fd: i32,
    /// See FM_CALL_*.
    pub path: FmStr,
    /// See FM_CALL_*.
    pub other: FmStr,
    /// Bytes to write.
    pub data: FmStr,
    /// See FM_CALL_*.
    pub offset: u64,
    /// See FM_CALL_*.
    pub len: u64,
}

/// Starts a call. Returns false if that is impossible. The caller then makes the call itself. If `id` is 0, the call is complete
/// and `answer` is its result or a negative error number. Otherwise it is pending, and after FM_EVENT_WAKE `fm_file_next` may
/// return `user`; then call `fm_file_call_take` or `fm_file_forget`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_call(
    worker: Option<&mut FmWorker>,
    call: Option<&FmFileCall>,
    user: u64,
    id: Option<&mut MaybeUninit<FmFileJobId>>,
    answer: Option<&mut MaybeUninit<i64>>,
) -> bool {
    ask(worker.zip(call), false, |(worker, call)| {
        let mut id = id;
        put(id.as_deref_mut(), FmFileJobId::NONE);
        let Some(job) = call_of(call).and_then(|call| files::call(call).ok()) else {
            return false;
        };
        match worker.worker.file_jobs.begin_file_job(
            &mut worker.worker.net,
            &mut worker.worker.waiting,
            job,
            user,
        ) {
            Ok(Started::Over(outcome)) => put(answer, number_of(outcome)),
            Ok(Started::Pending(number)) => put(id, number.into()),
            Err(_) => return false,
        }
        true
    })
}

/// Returns the result of a call that `fm_file_next` returned. The result has the form of `answer` of `fm_file_call`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_call_take(worker: Option<&mut FmWorker>, id: FmFileJobId) -> i64 {
    ask(
        worker.zip(id.id()),
        number_of(Err(Failure::Closed)),
        |(worker, id)| {
            let outcome = worker.worker.file_jobs.take_file_job(id);
            number_of(outcome.unwrap_or(Err(Failure::Closed)))
        },
    )
}

/// Returns true if the caller may make a short call inside the event loop. The call transfers `bytes`. If `writes` is true, it
/// writes to this file. Call `fm_file_tried` afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_may_try(
    worker: Option<&mut FmWorker>,
    bytes: u64,
    writes: bool,
    device: u64,
    inode: u64,
) -> bool {
    ask(worker, false, |worker| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let written = writes.then_some((device, inode));
        worker
            .worker
            .file_jobs
            .may_try_file(&mut worker.worker.net, written, bytes)
    })
}

/// Records that the call of `fm_file_may_try` was made.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_tried(worker: Option<&mut FmWorker>) {
    ask(worker, (), |worker| {
        worker.worker.file_jobs.tried_file();
    })
}

/// Completes pending writes to a file before a caller that cannot wait writes to it.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_settle(worker: Option<&mut FmWorker>, device: u64, inode: u64) {
    ask(worker, (), |worker| {
        worker
            .worker
            .file_jobs
            .settle_file(&mut worker.worker.waiting, device, inode);
    })
}

/// Returns the setting file_inline_bytes_max, which is the maximum number of bytes that one call transfers inside the event loop.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_inline_bytes_max(worker: Option<&FmWorker>) -> u64 {
    ask(worker, 0, |worker| {
        worker.worker.settings().file_inline_bytes_max as u64
    })
}

/// Returns the call. Returns `None` if the call is unknown, or if no descriptor is left.
fn call_of(call: &FmFileCall) -> Option<Call> {
    let copy = |fd: i32| -> Option<OwnedFd> {
        if fd < 0 {
            return None;
        }
        // SAFETY: C keeps the descriptors of a call open until `fm_file_call` returns.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        fd.try_clone_to_owned().ok()
    };
    let path = || path_of(call.path);
    let other = || path_of(call.other);
    Some(match call.kind {
        FM_CALL_OPEN => Call::Open {
            path: path(),
            flags: call.flags,
            mode: call.mode,
        },
        FM_CALL_LOOK => Call::Look {
            path: path(),
            follows: call.flags == 1,
        },
        FM_CALL_LOAD => Call::Load {
            file: copy(call.fd)?,
            offset: call.offset,
            len: call.len,
        },
        FM_CALL_WRITE => Call::Write {
            file: copy(call.fd)?,
            bytes: call.data.bytes().to_vec(),
        },
        FM_CALL_COPY => Call::Copy {
            from: copy(call.fd)?,
            to: copy(call.other_fd)?,
            len: usize::try_from(call.len).ok()?,
        },
        FM_CALL_SYNC => Call::Sync {
            file: copy(call.fd)?,
            data_only: call.flags == 1,
        },
        FM_CALL_LOAD_HELD => Call::LoadHeld {
            fd: call.fd,
            offset: call.offset,
            len: call.len,
        },
        FM_CALL_SYNC_HELD => Call::SyncHeld {
            fd: call.fd,
            data_only: call.flags == 1,
        },
        FM_CALL_TRUNCATE => Call::Truncate {
            file: copy(call.fd)?,
            len: i64::try_from(call.len).ok()?,
        },
        FM_CALL_RENAME => Call::Rename {
            from: path(),
            to: other(),
        },
        FM_CALL_LINK => Call::Link {
            target: path(),
            path: other(),
        },
        FM_CALL_SYMLINK => Call::Symlink {
            target: CString::new(call.path.bytes()).ok()?,
            path: other(),
        },
        FM_CALL_UNLINK => Call::Unlink(path()),
        FM_CALL_REMOVE_DIRECTORY => Call::RemoveDirectory(path()),
        FM_CALL_MAKE_DIRECTORY => Call::MakeDirectory {
            path: path(),
            mode: call.mode,
        },
        _ => return None,
    })
}

fn number_of(outcome: Outcome) -> i64 {
    match outcome {
        Ok(Output::File(file)) => file.into_raw_fd().into(),
        Ok(Output::Count(count)) => count as i64,
        Ok(_) => 0,
        Err(failure) => -i64::from(failure.errno()),
    }
}
