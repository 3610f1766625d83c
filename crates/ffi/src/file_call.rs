//! What PHP's own file functions call of the C library, when it would hold the loop.
//!
//! The extension makes the call itself where that is short or all is cached, and asks for it here where it is not.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};

use fermata_io::files::{self, Call, Failure, Outcome, Output, Started};

use crate::abi::{FmFileJobId, FmStr, ask, put};
use crate::file::path_of;
use crate::worker::FmWorker;

/// `path`, `flags`, `mode`. -ENXIO: it is a pipe or a device, which was not opened.
pub const FM_CALL_OPEN: u32 = 1;
/// Have the kernel know `path`, and what it points to if `flags` is 1.
pub const FM_CALL_LOOK: u32 = 2;
/// Have the kernel cache `len` bytes of `fd` from `offset` on.
pub const FM_CALL_LOAD: u32 = 3;
/// `data` to `fd`.
pub const FM_CALL_WRITE: u32 = 4;
/// From `fd` to `other_fd` at most `len` bytes.
pub const FM_CALL_COPY: u32 = 5;
/// `fd`; `flags` 1: without what is not needed to read it.
pub const FM_CALL_SYNC: u32 = 6;
/// `fd` to `len` bytes.
pub const FM_CALL_TRUNCATE: u32 = 7;
/// `path` to `other`.
pub const FM_CALL_RENAME: u32 = 8;
/// `path` gets the name `other` as well.
pub const FM_CALL_LINK: u32 = 9;
/// `path` is what stands in the link `other`.
pub const FM_CALL_SYMLINK: u32 = 10;
/// `path`.
pub const FM_CALL_UNLINK: u32 = 11;
/// `path`.
pub const FM_CALL_REMOVE_DIRECTORY: u32 = 12;
/// `path`, `mode`.
pub const FM_CALL_MAKE_DIRECTORY: u32 = 13;

/// As FM_CALL_LOAD, of an `fd` that must not be copied: it stays open until the call is over.
pub const FM_CALL_LOAD_HELD: u32 = 14;
/// As FM_CALL_SYNC, likewise.
pub const FM_CALL_SYNC_HELD: u32 = 15;

/// What is to be called. Which fields count is said at FM_CALL_*.
#[repr(C)]
pub struct FmFileCall {
    /// FM_CALL_*.
    pub kind: u32,
    /// See FM_CALL_*.
    pub flags: i32,
    /// Permissions of what is made.
    pub mode: u32,
    /// See FM_CALL_*; the caller's, which may be closed when `fm_file_call` has returned unless it is held.
    pub fd: i32,
    /// See FM_CALL_*.
    pub other_fd: i32,
    /// See FM_CALL_*.
    pub path: FmStr,
    /// See FM_CALL_*.
    pub other: FmStr,
    /// What is written.
    pub data: FmStr,
    /// See FM_CALL_*.
    pub offset: u64,
    /// See FM_CALL_*.
    pub len: u64,
}

/// Begins a call. False when that cannot be: the caller makes it itself. `id` is 0 when it is over, and `answer` says how:
/// what the call has returned, or a negative error number. Otherwise it is pending, and FM_EVENT_WAKE tells that
/// `fm_file_next` may give `user`; `fm_file_call_take` follows, or `fm_file_forget`.
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

/// How a call has ended that `fm_file_next` has told of: as `answer` of `fm_file_call`.
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

/// Whether a short call may be made in the loop, which moves `bytes` and, if `writes`, writes to this file.
/// `fm_file_tried` follows it.
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

/// It was made.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_tried(worker: Option<&mut FmWorker>) {
    ask(worker, (), |worker| {
        worker.worker.file_jobs.tried_file();
    })
}

/// Finishes what is still to be written to a file, before somebody writes to it who cannot wait.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_settle(worker: Option<&mut FmWorker>, device: u64, inode: u64) {
    ask(worker, (), |worker| {
        worker
            .worker
            .file_jobs
            .settle_file(&mut worker.worker.waiting, device, inode);
    })
}

/// Bytes that one call moves in the loop: file_inline_bytes_max.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_inline_bytes_max(worker: Option<&FmWorker>) -> u64 {
    ask(worker, 0, |worker| {
        worker.worker.settings().file_inline_bytes_max as u64
    })
}

/// `None` when there is no such call, or no descriptor left.
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
