//! File jobs: start a job, then fetch its result.
//!
//! A job started with a worker may be pending while its fiber is suspended. Without a worker, or with `user` 0, it is
//! complete before the call returns. C frees the open files that results contain.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use fermata_engine::FileJobError;
use fermata_io::files::{
    self, Cached, Data, Failure, FileType, Handle, Job, JobId, Kind, Lock, OpenMode, Outcome,
    Output, Started, WriteMode,
};

use crate::abi::{
    FM_BACKPRESSURE, FM_INTERNAL, FM_IO, FmError, FmFileJobId, FmStr, NOTHING, ask, guard, put,
    room,
};
use crate::worker::FmWorker;

/// Reads `length` bytes (-1: all) of `path`, starting at `offset`.
pub const FM_FILE_READ: u32 = 1;
/// Writes `data` to `path` with `mode` FM_WRITE_* and `permissions`; `flag`: flush to disk before completion.
pub const FM_FILE_WRITE: u32 = 2;
/// Copies `path` to `other`. `flag`: replace an existing file.
pub const FM_FILE_COPY: u32 = 3;
/// Returns the attributes of `path`; `flag`: follow a symbolic link.
pub const FM_FILE_STAT: u32 = 4;
/// Lists the directory `path`.
pub const FM_FILE_LIST: u32 = 5;
/// Removes `path`; `flag`: recursively.
pub const FM_FILE_REMOVE: u32 = 6;
/// Renames `path` to `other`. `flag`: replace an existing file.
pub const FM_FILE_RENAME: u32 = 7;
/// Creates the directory `path` with `permissions`; `flag`: create parents too and accept an existing directory.
pub const FM_FILE_MAKE_DIRECTORY: u32 = 8;
/// Opens `path` with `mode` FM_OPEN_* and `permissions`.
pub const FM_FILE_OPEN: u32 = 9;
/// Creates a temporary file in the directory `path`. The file's name starts with `other`.
pub const FM_FILE_TEMPORARY: u32 = 10;
/// Reads at most `length` bytes from `file`.
pub const FM_FILE_NEXT: u32 = 11;
/// Reads a line of at most `length` bytes from `file`.
pub const FM_FILE_LINE: u32 = 12;
/// Writes `data` to `file`.
pub const FM_FILE_PUT: u32 = 13;
/// Moves the position of `file` to `offset`.
pub const FM_FILE_SEEK: u32 = 14;
/// Truncates `file` to `offset` bytes.
pub const FM_FILE_TRUNCATE: u32 = 15;
/// Flushes `file` to disk.
pub const FM_FILE_SYNC: u32 = 16;
/// Returns the attributes of `file`.
pub const FM_FILE_SIZE: u32 = 17;

/// Renames the temporary `file` to `other`, replacing an existing file, and makes it permanent.
pub const FM_FILE_KEEP: u32 = 18;

/// Replaces the content.
pub const FM_WRITE_REPLACE: u32 = 0;
/// Replaces the file atomically.
pub const FM_WRITE_ATOMIC: u32 = 1;
/// Appends to the file.
pub const FM_WRITE_APPEND: u32 = 2;
/// Creates the file. Fails if the file exists.
pub const FM_WRITE_NEW: u32 = 3;

/// Opens an existing file for reading.
pub const FM_OPEN_READ: u32 = 0;
/// Opens a file for reading and writing. Creates the file if it does not exist.
pub const FM_OPEN_UPDATE: u32 = 1;
/// Creates or empties a file for reading and writing.
pub const FM_OPEN_REPLACE: u32 = 2;
/// Opens a file for appending. Creates the file if it does not exist.
pub const FM_OPEN_APPEND: u32 = 3;
/// Creates a file for reading and writing. Fails if the file exists.
pub const FM_OPEN_NEW: u32 = 4;

/// The file does not exist.
pub const FM_FILE_NOT_FOUND: u32 = 32;
/// Permission denied.
pub const FM_FILE_ACCESS_DENIED: u32 = 33;
/// The file already exists.
pub const FM_FILE_EXISTS: u32 = 34;
/// No space left on the device.
pub const FM_FILE_FULL: u32 = 35;
/// The path is a directory.
pub const FM_FILE_IS_DIRECTORY: u32 = 36;
/// A component of the path is not a directory.
pub const FM_FILE_NOT_DIRECTORY: u32 = 37;
/// The directory is not empty.
pub const FM_FILE_NOT_EMPTY: u32 = 38;
/// Any other error. The message describes it.
pub const FM_FILE_OTHER: u32 = 39;

/// `fm_open_file_lock`: releases the lock.
pub const FM_LOCK_NONE: u32 = 0;
/// `fm_open_file_lock`: a shared lock.
pub const FM_LOCK_SHARED: u32 = 1;
/// `fm_open_file_lock`: an exclusive lock.
pub const FM_LOCK_EXCLUSIVE: u32 = 2;

/// A regular file.
pub const FM_TYPE_FILE: u32 = 0;
/// A directory.
pub const FM_TYPE_DIRECTORY: u32 = 1;
/// A symbolic link.
pub const FM_TYPE_LINK: u32 = 2;
/// A pipe, a socket or a device.
pub const FM_TYPE_OTHER: u32 = 3;

/// An open file.
pub struct FmOpenFile {
    handle: Handle,
}

/// A file job. FM_FILE_* documents which fields each kind uses.
#[repr(C)]
pub struct FmFileJob {
    /// FM_FILE_*.
    pub kind: u32,
    /// FM_WRITE_* or FM_OPEN_*.
    pub mode: u32,
    /// Permissions of created files, as for `open`.
    pub permissions: u32,
    /// See FM_FILE_*.
    pub flag: bool,
    /// See FM_FILE_*.
    pub path: FmStr,
    /// See FM_FILE_*.
    pub other: FmStr,
    /// Bytes to write.
    pub data: FmStr,
    /// See FM_FILE_*.
    pub offset: u64,
    /// See FM_FILE_*.
    pub length: i64,
    /// Open file that the job works on.
    pub file: *const FmOpenFile,
}

/// Result of a job; fields that do not apply to the job are 0.
#[repr(C)]
pub struct FmFileResult {
    /// Bytes read. `ptr` is NULL after the last line. In lists, a NUL follows each name. Valid until the next call with a job or
    /// result.
    pub bytes: FmStr,
    /// Number of bytes written or copied.
    pub count: u64,
    /// Opened file. The caller frees it.
    pub file: Option<Box<FmOpenFile>>,
    /// FM_TYPE_*.
    pub file_type: u32,
    /// Lowest twelve bits of the mode.
    pub permissions: u32,
    /// File size in bytes.
    pub size: u64,
    /// User id of the owner.
    pub owner: u32,
    /// Group id.
    pub group: u32,
    /// Inode number.
    pub inode: u64,
    /// Device number.
    pub device: u64,
    /// Number of hard links.
    pub links: u64,
    /// Modification time, seconds since 1970.
    pub modified_s: f64,
    /// Access time, seconds since 1970.
    pub accessed_s: f64,
    /// Status change time, seconds since 1970.
    pub changed_s: f64,
}

/// State that persists between two calls.
#[derive(Default)]
struct Desk {
    /// Action and path of pending jobs, for error messages.
    pending: HashMap<JobId, (&'static str, PathBuf)>,
    lent: Vec<u8>,
    /// File that `fm_file_cached` opened.
    cached: Option<Cached>,
}

thread_local! {
    static DESK: RefCell<Desk> = RefCell::default();
}

/// Starts a job. With `user` 0 it completes before the call returns, after earlier jobs that it must not overtake. If
/// `worker` is NULL, it completes immediately. If `id` is 0, the job is complete, and the code and `result`
/// describe the outcome: FM_OK, FM_FILE_*, FM_BACKPRESSURE (too many jobs, or no descriptor left). Otherwise the job
/// is pending, and after FM_EVENT_WAKE `fm_file_next` may return `user`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_begin(
    worker: Option<&mut FmWorker>,
    job: Option<&FmFileJob>,
    bytes_max: u64,
    user: u64,
    id: Option<&mut MaybeUninit<FmFileJobId>>,
    result: Option<&mut MaybeUninit<FmFileResult>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(job, error, |job| {
        let mut id = id;
        put(id.as_deref_mut(), FmFileJobId::NONE);
        let (action, path, work) = job_of(job, bytes_max)?;
        let Some(worker) = worker else {
            return give(work.run_now(), action, &path, result);
        };
        if user == 0 {
            return give(
                worker
                    .worker
                    .file_jobs
                    .run_file_job(&mut worker.worker.waiting, work),
                action,
                &path,
                result,
            );
        }
        match worker.worker.file_jobs.begin_file_job(
            &mut worker.worker.net,
            &mut worker.worker.waiting,
            work,
            user,
        ) {
            Ok(Started::Over(outcome)) => give(outcome, action, &path, result),
            Ok(Started::Pending(number)) => {
                DESK.with_borrow_mut(|desk| desk.pending.insert(number, (action, path)));
                put(id, number.into());
                Ok(())
            }
            Err(error @ (FileJobError::Full(_) | FileJobError::FullOfBytes(_))) => {
                Err((FM_BACKPRESSURE, error.to_string()))
            }
            Err(error @ FileJobError::System(_)) => Err((FM_FILE_OTHER, error.to_string())),
        }
    })
}

/// Returns the `user` of the next pending job that has completed. Returns false if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_next(
    worker: Option<&mut FmWorker>,
    user: Option<&mut MaybeUninit<u64>>,
) -> bool {
    ask(worker, false, |worker| {
        let next = worker.worker.file_jobs.next_file_job();
        if let Some((_, given)) = next {
            put(user, given);
        }
        next.is_some()
    })
}

/// Returns the outcome of a job that `fm_file_next` returned, as `fm_file_begin` does.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_take(
    worker: Option<&mut FmWorker>,
    id: FmFileJobId,
    result: Option<&mut MaybeUninit<FmFileResult>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let outcome = id.id().and_then(|id| {
            let outcome = worker.worker.file_jobs.take_file_job(id);
            let about = DESK.with_borrow_mut(|desk| desk.pending.remove(&id));
            outcome.zip(about)
        });
        let Some((outcome, (action, path))) = outcome else {
            return Err((FM_INTERNAL, "a file job is not over".to_owned()));
        };
        give(outcome, action, &path, result)
    })
}

/// Stops waiting for a job. The job still completes.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_forget(worker: Option<&mut FmWorker>, id: FmFileJobId) {
    ask(worker.zip(id.id()), (), |(worker, id)| {
        worker.worker.file_jobs.forget_file_job(id);
        DESK.with_borrow_mut(|desk| desk.pending.remove(&id));
    })
}

/// Opens `length` bytes (-1: all) of `path` from `offset`, if they are in the page cache and small enough to read
/// inside the event loop. Returns the buffer size for `fm_file_cached_read`, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_cached(
    worker: Option<&FmWorker>,
    path: FmStr,
    offset: u64,
    length: i64,
) -> i64 {
    ask(worker, -1, |worker| {
        let settings = worker.worker.settings();
        let len_max = settings
            .file_inline_bytes_max
            .min(settings.file_read_bytes_max);
        let path = path_of(path);
        let cached = Cached::open(&path, offset, u64::try_from(length).ok(), len_max);
        let len = cached.as_ref().map_or(-1, |cached| cached.len() as i64);
        DESK.with_borrow_mut(|desk| desk.cached = cached);
        len
    })
}

/// Reads the file that `fm_file_cached` opened, and closes it. Returns false if a part is no longer cached. Use a job then.
///
/// # Safety
/// The contract at the head of the header: bytes and arrays have the documented sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_file_cached_read(into: *mut c_char) -> bool {
    ask(NOTHING, false, |()| {
        let cached = DESK.with_borrow_mut(|desk| desk.cached.take());
        cached.is_some_and(|cached| {
            // SAFETY: C provides a buffer of the size that `fm_file_cached` returned for this file.
            let into = unsafe { room(into, cached.len()) };
            cached.read(into)
        })
    })
}

/// Releases the bytes of the last result.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_release() {
    ask(NOTHING, (), |()| {
        DESK.with_borrow_mut(|desk| desk.lent = Vec::new());
    })
}

/// Returns the setting file_read_bytes_max, the `bytes_max` of `fm_file_begin` with this worker.
#[unsafe(no_mangle)]
pub extern "C" fn fm_file_bytes_max(worker: Option<&FmWorker>) -> u64 {
    ask(worker, 0, |worker| {
        worker.worker.settings().file_read_bytes_max as u64
    })
}

/// Frees an open file, and removes a temporary one. Pending jobs still complete.
#[unsafe(no_mangle)]
pub extern "C" fn fm_open_file_free(file: Option<Box<FmOpenFile>>) {
    ask(file, (), |file| {
        drop(file);
    })
}

/// Closes an open file, and removes a temporary one. Later jobs on it fail.
#[unsafe(no_mangle)]
pub extern "C" fn fm_open_file_close(file: Option<&mut FmOpenFile>) {
    ask(file, (), |file| {
        file.handle.close();
    })
}

/// Returns the position of the next read or write.
#[unsafe(no_mangle)]
pub extern "C" fn fm_open_file_position(file: Option<&FmOpenFile>) -> u64 {
    ask(file, 0, |file| file.handle.position())
}

/// Returns true if the file is removed when it is closed.
#[unsafe(no_mangle)]
pub extern "C" fn fm_open_file_is_temporary(file: Option<&FmOpenFile>) -> bool {
    ask(file, false, |file| file.handle.is_temporary())
}

/// Locks an open file (FM_LOCK_*); blocks only if `waits` is set. `locked` is false if another process holds the
/// lock.
#[unsafe(no_mangle)]
pub extern "C" fn fm_open_file_lock(
    file: Option<&mut FmOpenFile>,
    lock: u32,
    waits: bool,
    locked: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(file, error, |file| {
        let lock = match lock {
            FM_LOCK_SHARED => Lock::Shared,
            FM_LOCK_EXCLUSIVE => Lock::Exclusive,
            _ => Lock::None,
        };
        let handle = &file.handle;
        let outcome = handle.lock(lock, waits);
        put(
            locked,
            outcome.map_err(|failure| failed(&failure, "lock", &handle.path()))?,
        );
        Ok(())
    })
}

pub(crate) fn path_of(path: FmStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path.bytes()))
}

/// Returns the bytes that a job writes.
fn data_of(job: &FmFileJob) -> Data {
    // SAFETY: C keeps the strings of a job until `fm_file_begin` returns, and the callee that receives the job
    // returns first.
    unsafe { Data::lend(job.data.bytes()) }
}

type Described = (&'static str, PathBuf, Job);

/// Returns the job, with its action and path for errors.
fn job_of(job: &FmFileJob, bytes_max: u64) -> Result<Described, (u32, String)> {
    if job.kind >= FM_FILE_NEXT {
        return handle_job_of(job, bytes_max);
    }
    let path = path_of(job.path);
    let other = || path_of(job.other);
    let (action, work) = match job.kind {
        FM_FILE_READ => {
            let length = u64::try_from(job.length).ok();
            (
                "read",
                files::read_file(path.clone(), job.offset, length, bytes_max),
            )
        }
        FM_FILE_WRITE => {
            let mode = match job.mode {
                FM_WRITE_ATOMIC => WriteMode::Atomic,
                FM_WRITE_APPEND => WriteMode::Append,
                FM_WRITE_NEW => WriteMode::New,
                _ => WriteMode::Replace,
            };
            let data = data_of(job);
            let work = files::write_file(path.clone(), data, mode, job.permissions, job.flag);
            ("write", work)
        }
        FM_FILE_COPY => ("copy", files::copy(path.clone(), other(), job.flag)),
        FM_FILE_STAT => ("look at", files::stat(path.clone(), job.flag)),
        FM_FILE_LIST => ("list", files::list(path.clone())),
        FM_FILE_REMOVE => ("remove", files::remove(path.clone(), job.flag)),
        FM_FILE_RENAME => ("rename", files::rename(path.clone(), other(), job.flag)),
        FM_FILE_MAKE_DIRECTORY => (
            "make the directory",
            files::make_directory(path.clone(), job.flag, job.permissions),
        ),
        FM_FILE_OPEN => {
            let mode = match job.mode {
                FM_OPEN_UPDATE => OpenMode::Update,
                FM_OPEN_REPLACE => OpenMode::Replace,
                FM_OPEN_APPEND => OpenMode::Append,
                FM_OPEN_NEW => OpenMode::New,
                _ => OpenMode::Read,
            };
            (
                "open",
                files::open_file(path.clone(), mode, job.permissions),
            )
        }
        FM_FILE_TEMPORARY => (
            "make a temporary file in",
            files::make_temporary(path.clone(), job.other.bytes().to_vec()),
        ),
        kind => return Err((FM_INTERNAL, format!("file job {kind} does not exist"))),
    };
    // An error about two paths shows both.
    let path = match job.kind {
        FM_FILE_COPY | FM_FILE_RENAME => {
            let mut both = path.into_os_string();
            both.push(" to ");
            both.push(other());
            PathBuf::from(both)
        }
        _ => path,
    };
    Ok((action, path, work))
}

fn handle_job_of(job: &FmFileJob, bytes_max: u64) -> Result<Described, (u32, String)> {
    // SAFETY: NULL, or an open file that C has not freed.
    let Some(file) = (unsafe { job.file.as_ref() }) else {
        return Err((FM_INTERNAL, "a file job has no file".to_owned()));
    };
    let handle = &file.handle;
    let length = u64::try_from(job.length).unwrap_or(u64::MAX);
    // `length` is a maximum. The next read returns the rest.
    let length = usize::try_from(length.min(bytes_max)).unwrap_or(usize::MAX);
    let (action, work) = match job.kind {
        FM_FILE_NEXT => ("read", handle.read(length)),
        FM_FILE_LINE => ("read", handle.read_line(length)),
        FM_FILE_PUT => ("write", handle.write(data_of(job))),
        FM_FILE_SEEK => ("move in", handle.seek(job.offset)),
        FM_FILE_TRUNCATE => ("truncate", handle.truncate(job.offset)),
        FM_FILE_SYNC => ("write", handle.sync()),
        FM_FILE_SIZE => ("look at", handle.stat()),
        FM_FILE_KEEP => match handle.keep(path_of(job.other)) {
            Some(work) => ("keep", work),
            None => return Err((FM_INTERNAL, "the file is not temporary".to_owned())),
        },
        kind => return Err((FM_INTERNAL, format!("file job {kind} does not exist"))),
    };
    Ok((action, handle.path(), work))
}

fn failed(failure: &Failure, action: &str, path: &std::path::Path) -> (u32, String) {
    let code = match failure.kind() {
        Kind::NotFound => FM_FILE_NOT_FOUND,
        Kind::AccessDenied => FM_FILE_ACCESS_DENIED,
        Kind::Exists => FM_FILE_EXISTS,
        Kind::Full => FM_FILE_FULL,
        Kind::IsDirectory => FM_FILE_IS_DIRECTORY,
        Kind::NotDirectory => FM_FILE_NOT_DIRECTORY,
        Kind::NotEmpty => FM_FILE_NOT_EMPTY,
        Kind::Exhausted => FM_BACKPRESSURE,
        Kind::Other => FM_FILE_OTHER,
    };
    (code, failure.sentence(action, path))
}

/// Fills `result` with the outcome of a job.
fn give(
    outcome: Outcome,
    action: &str,
    path: &std::path::Path,
    result: Option<&mut MaybeUninit<FmFileResult>>,
) -> Result<(), (u32, String)> {
    let output = outcome.map_err(|failure| failed(&failure, action, path))?;
    let mut given = FmFileResult {
        bytes: FmStr::ABSENT,
        count: 0,
        file: None,
        file_type: FM_TYPE_OTHER,
        permissions: 0,
        size: 0,
        owner: 0,
        group: 0,
        inode: 0,
        device: 0,
        links: 0,
        modified_s: 0.0,
        accessed_s: 0.0,
        changed_s: 0.0,
    };
    let lend = |bytes: Vec<u8>| {
        DESK.with_borrow_mut(|desk| {
            desk.lent = bytes;
            FmStr::lend(&desk.lent)
        })
    };
    match output {
        // Only C library calls open bare descriptors, and file_call.rs handles their results.
        Output::Done | Output::Bytes(None) | Output::File(_) => {}
        Output::Count(count) => given.count = count,
        Output::Bytes(Some(bytes)) | Output::Names(bytes) => given.bytes = lend(bytes),
        Output::Handle(handle) => {
            given.bytes = lend(handle.path().into_os_string().into_encoded_bytes());
            given.file = Some(Box::new(FmOpenFile { handle }));
        }
        Output::Stat(stat) => {
            given.file_type = match stat.file_type {
                FileType::File => FM_TYPE_FILE,
                FileType::Directory => FM_TYPE_DIRECTORY,
                FileType::Link => FM_TYPE_LINK,
                FileType::Other => FM_TYPE_OTHER,
            };
            given.permissions = stat.permissions;
            given.size = stat.size;
            given.owner = stat.owner;
            given.group = stat.group;
            given.inode = stat.inode;
            given.device = stat.device;
            given.links = stat.links;
            given.modified_s = stat.modified_s;
            given.accessed_s = stat.accessed_s;
            given.changed_s = stat.changed_s;
        }
    }
    if result.is_none() {
        return Err((FM_IO, "a file result has no place".to_owned()));
    }
    put(result, given);
    Ok(())
}
