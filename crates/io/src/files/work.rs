//! File operations of the application, each as one job.

use std::ffi::CString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::data::Data;
use super::failure::Failure;
use super::handle::Handle;
use super::job::{Job, Ops, Outcome, Output};
use super::key::{Key, absolute};
use super::op::{Op, stat_room};
use super::stat::Stat;

/// Maximum number of bytes per read or write operation. A longer operation would block the loop while the kernel copies.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;

/// Maximum number of bytes per append operation. Other processes may append between two operations.
const APPENDED_BYTES: usize = 1 << 30;

/// Maximum number of links to follow, as in the kernel.
const LINKS_MAX: usize = 40;

/// Permissions of a temporary file: access only for its owner.
const MODE_PRIVATE: u32 = 0o600;

/// Mode bits that a new file copies from the replaced one. Set-user-ID and set-group-ID are not copied, because the
/// owner may differ.
const MODE_BITS: u32 = 0o777;

/// Maximum number of names to try for a temporary file.
const NAMES_TRIED_MAX: u32 = 16;

/// How a complete file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// Replaces the existing content.
    Replace,
    /// Replaces the file atomically: concurrent readers, and readers after a failure, see the complete old file.
    Atomic,
    /// Appends to the existing content.
    Append,
    /// Fails if the file exists.
    New,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading an existing file.
    Read,
    /// Reading and writing; creates the file if it does not exist, and keeps its content.
    Update,
    /// Reading and writing; creates or empties the file.
    Replace,
    /// Appending; creates the file if it does not exist.
    Append,
    /// Reading and writing; fails if the file exists.
    New,
}

/// Reads a complete file, or `length` bytes from `offset`, at most `bytes_max`.
#[must_use]
pub fn read_file(path: PathBuf, offset: u64, length: Option<u64>, bytes_max: u64) -> Job {
    let path = absolute(path);
    Job::new(Vec::new(), None, move |ops| async move {
        let (file, found) = open(&ops, &path, libc::O_RDONLY, 0).await?;
        let rest = found.stx_size.saturating_sub(offset);
        let wanted = length.unwrap_or(u64::MAX);
        let bound = rest.min(wanted);
        if bound > bytes_max {
            return Err(Failure::TooLarge { bytes_max });
        }
        let mut bytes = Vec::new();
        // A sparse file may be larger than memory.
        if bytes.try_reserve_exact(bound as usize).is_err() {
            return Err(libc::ENOMEM.into());
        }
        if found.stx_size > 0 {
            read(&ops, &file, &mut bytes, bound as usize, offset).await?;
            return Ok(Output::Bytes(Some(bytes)));
        }
        // Files in /proc report a size of 0, so read until the end.
        let bound = wanted.min(bytes_max);
        let len = usize::try_from(bound.saturating_add(1)).unwrap_or(usize::MAX);
        read(&ops, &file, &mut bytes, len, offset).await?;
        if bytes.len() as u64 > bytes_max && wanted > bytes_max {
            return Err(Failure::TooLarge { bytes_max });
        }
        bytes.truncate(usize::try_from(bound).unwrap_or(usize::MAX));
        Ok(Output::Bytes(Some(bytes)))
    })
}

/// Writes a complete file. With `syncs` the job ends when the disk has all data.
#[must_use]
pub fn write_file(
    path: PathBuf,
    data: Data,
    mode: WriteMode,
    permissions: u32,
    syncs: bool,
) -> Job {
    let path = absolute(path);
    let key = Key::path(&path);
    Job::new(vec![key], Some(data.clone()), move |ops| async move {
        if mode == WriteMode::Atomic {
            return replace(&ops, &path, &data, permissions, syncs).await;
        }
        let flags = match mode {
            WriteMode::Append => libc::O_APPEND,
            WriteMode::New => libc::O_EXCL,
            WriteMode::Replace | WriteMode::Atomic => libc::O_TRUNC,
        };
        let flags = libc::O_WRONLY | libc::O_CREAT | flags;
        let (file, _) = open(&ops, &path, flags, permissions).await?;
        let block = match mode {
            WriteMode::Append => APPENDED_BYTES,
            _ => BLOCK_BYTES,
        };
        let count = match write(&ops, &file, &data, 0, block).await {
            // Remove the file, because a partial file would make the next attempt fail.
            Err(Failure::System { errno, .. }) if mode == WriteMode::New => {
                abandon(&ops, &path).await;
                return Err(errno.into());
            }
            written => written?,
        };
        if syncs {
            ops.call(Op::Sync { file }).await?;
        }
        Ok(Output::Count(count))
    })
}

/// Copies a file and its permissions. The complete copy replaces the target atomically.
#[must_use]
pub fn copy(from: PathBuf, to: PathBuf, replaces: bool) -> Job {
    let (from, to) = (absolute(from), absolute(to));
    let key = Key::path(&to);
    Job::new(vec![key], None, move |ops| async move {
        let (source, found) = open(&ops, &from, libc::O_RDONLY, 0).await?;
        let target = target_of(&ops, &to).await?.0;
        let (file, temporary) = open_beside(&ops, &target, MODE_PRIVATE).await?;
        let copied = copy_bytes(&ops, &source, &file, u32::from(found.stx_mode)).await;
        let moved = match copied {
            Ok(count) => rename_to(&ops, &temporary, &target, replaces)
                .await
                .map(|()| count),
            Err(failure) => Err(failure),
        };
        if moved.is_err() {
            abandon(&ops, &temporary).await;
        }
        moved.map(Output::Count)
    })
}

/// Returns the metadata of a file.
#[must_use]
pub fn stat(path: PathBuf, follows: bool) -> Job {
    let path = absolute(path);
    Job::new(Vec::new(), None, move |ops| async move {
        let found = stat_path(&ops, &path, follows).await?;
        Ok(Output::Stat(Stat::from(&*found)))
    })
}

/// Returns the names in a directory.
#[must_use]
pub fn list(path: PathBuf) -> Job {
    let path = absolute(path);
    Job::new(Vec::new(), None, move |ops| async move {
        let op = Op::List {
            path: c_path(&path)?,
            into: Vec::new(),
        };
        match ops.run(op).await {
            (Op::List { into, .. }, Ok(_)) => Ok(Output::Names(into)),
            (_, answer) => Err(answer.err().unwrap_or(libc::EIO).into()),
        }
    })
}

/// Removes a file, a link, or an empty directory; with `recursive` any directory.
#[must_use]
pub fn remove(path: PathBuf, recursive: bool) -> Job {
    let path = absolute(path);
    let key = Key::path(&path);
    Job::new(vec![key], None, move |ops| async move {
        let path = c_path(&path)?;
        let unlink = |is_directory| Op::Unlink {
            path: path.clone(),
            is_directory,
        };
        match ops.run(unlink(false)).await.1 {
            Ok(_) => return Ok(Output::Done),
            Err(libc::EISDIR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let op = if recursive {
            Op::RemoveTree { path: path.clone() }
        } else {
            unlink(true)
        };
        ops.call(op).await.map(|_| Output::Done)
    })
}

/// Renames a file or directory.
#[must_use]
pub fn rename(from: PathBuf, to: PathBuf, replaces: bool) -> Job {
    let (from, to) = (absolute(from), absolute(to));
    Job::new(both(&from, &to), None, move |ops| async move {
        rename_to(&ops, &from, &to, replaces)
            .await
            .map(|()| Output::Done)
    })
}

/// Creates a directory. With `recursive` it also creates its parents, and the directory may already exist.
#[must_use]
pub fn make_directory(path: PathBuf, recursive: bool, permissions: u32) -> Job {
    let path = absolute(path);
    let key = Key::path(&path);
    Job::new(vec![key], None, move |ops| async move {
        let mut missing = vec![path];
        while let Some(path) = missing.last().cloned() {
            let op = Op::MakeDirectory {
                path: c_path(&path)?,
                mode: permissions,
            };
            match ops.run(op).await.1 {
                Ok(_) => {}
                Err(libc::EEXIST) if recursive => {
                    let found = stat_path(&ops, &path, true).await?;
                    if u32::from(found.stx_mode) & libc::S_IFMT != libc::S_IFDIR {
                        return Err(libc::EEXIST.into());
                    }
                }
                Err(libc::ENOENT) if recursive => {
                    match path.parent() {
                        Some(parent) if !parent.as_os_str().is_empty() => {
                            missing.push(parent.to_owned());
                            continue;
                        }
                        _ => return Err(libc::ENOENT.into()),
                    };
                }
                Err(errno) => return Err(errno.into()),
            }
            missing.pop();
        }
        Ok(Output::Done)
    })
}

/// Opens a file.
#[must_use]
pub fn open_file(path: PathBuf, mode: OpenMode, permissions: u32) -> Job {
    let whole = absolute(path.clone());
    // An open that may truncate the file waits for pending writes to it.
    let keys = match mode {
        OpenMode::Read => Vec::new(),
        _ => vec![Key::path(&whole)],
    };
    Job::new(keys, None, move |ops| async move {
        let flags = match mode {
            OpenMode::Read => libc::O_RDONLY,
            OpenMode::Update => libc::O_RDWR | libc::O_CREAT,
            OpenMode::Replace => libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
            OpenMode::Append => libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND,
            OpenMode::New => libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
        };
        let (file, found) = open(&ops, &whole, flags, permissions).await?;
        let position = match mode {
            OpenMode::Append => found.stx_size,
            _ => 0,
        };
        let file = Arc::into_inner(file).ok_or(Failure::Closed)?;
        Ok(Output::Handle(Handle::new(file, path, position)))
    })
}

/// Creates a file with a unique name in `directory`. It is removed with its handle, unless the handle gives it a permanent name.
#[must_use]
pub fn make_temporary(directory: PathBuf, prefix: Vec<u8>) -> Job {
    let folder = absolute(directory.clone());
    Job::new(Vec::new(), None, move |ops| async move {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        for _ in 0..NAMES_TRIED_MAX {
            let mut name = prefix.clone();
            name.extend_from_slice(format!("{:016x}", crate::random::u64()).as_bytes());
            let name = std::ffi::OsStr::from_bytes(&name);
            let place = folder.join(name);
            match open(&ops, &place, flags, MODE_PRIVATE).await {
                Ok((file, _)) => {
                    let file = Arc::into_inner(file).ok_or(Failure::Closed)?;
                    let handle = Handle::temporary(file, directory.join(name), place);
                    return Ok(Output::Handle(handle));
                }
                Err(Failure::System { errno, .. }) if errno == libc::EEXIST => {}
                Err(failure) => return Err(failure),
            }
        }
        Err(libc::EEXIST.into())
    })
}

// Parts of jobs.

/// Returns the keys of two absolute paths.
pub(super) fn both(from: &Path, to: &Path) -> Vec<Key> {
    let (from, to) = (Key::path(from), Key::path(to));
    if from == to { vec![to] } else { vec![from, to] }
}

fn c_path(path: &Path) -> Result<CString, Failure> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::EINVAL.into())
}

/// An open file, and its metadata when it was opened.
type Opened = (Arc<OwnedFd>, Box<libc::statx>);

/// Opens or creates a regular file.
async fn open(ops: &Ops, path: &Path, flags: i32, mode: u32) -> Result<Opened, Failure> {
    // Use O_NONBLOCK, because opening a pipe without a writer would block otherwise.
    let op = Op::Open {
        path: c_path(path)?,
        flags: flags | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK,
        mode,
    };
    let fd = ops.call(op).await?;
    // SAFETY: the operation has just opened the descriptor, and no other value owns it.
    let file = Arc::new(unsafe { OwnedFd::from_raw_fd(fd as i32) });
    let found = stat_file(ops, &file).await?;
    // Clear O_NONBLOCK: io_uring would fail instead of waiting for the disk.
    let appends = OFlags::from_bits_retain(flags as u32) & OFlags::APPEND;
    rustix::fs::fcntl_setfl(&*file, appends)
        .map_err(|errno| Failure::from(errno.raw_os_error()))?;
    match u32::from(found.stx_mode) & libc::S_IFMT {
        libc::S_IFREG => Ok((file, found)),
        libc::S_IFDIR => Err(libc::EISDIR.into()),
        _ => Err(Failure::NotRegular),
    }
}

pub(super) async fn stat_file(ops: &Ops, file: &Arc<OwnedFd>) -> Result<Box<libc::statx>, Failure> {
    let op = Op::StatFile {
        file: Arc::clone(file),
        out: stat_room(),
    };
    match ops.run(op).await {
        (Op::StatFile { out, .. }, Ok(_)) => Ok(out),
        (_, answer) => Err(answer.err().unwrap_or(libc::EIO).into()),
    }
}

async fn stat_path(ops: &Ops, path: &Path, follows: bool) -> Result<Box<libc::statx>, Failure> {
    let op = Op::Stat {
        path: c_path(path)?,
        follows,
        out: stat_room(),
    };
    match ops.run(op).await {
        (Op::Stat { out, .. }, Ok(_)) => Ok(out),
        (_, answer) => Err(answer.err().unwrap_or(libc::EIO).into()),
    }
}

/// Appends up to `len` bytes to `bytes`; fewer only at the end of the file.
pub(super) async fn read(
    ops: &Ops,
    file: &Arc<OwnedFd>,
    bytes: &mut Vec<u8>,
    len: usize,
    mut offset: u64,
) -> Result<(), Failure> {
    let mut left = len;
    while left > 0 {
        let op = Op::Read {
            file: Arc::clone(file),
            into: std::mem::take(bytes),
            len: left.min(BLOCK_BYTES),
            offset,
        };
        let (op, answer) = ops.run(op).await;
        if let Op::Read { into, .. } = op {
            *bytes = into;
        }
        let count = answer?;
        if count == 0 {
            return Ok(());
        }
        offset += count;
        left = left.saturating_sub(count as usize);
    }
    Ok(())
}

/// Writes all of `data`, `block` bytes per operation. A failure contains the number of bytes written.
pub(super) async fn write(
    ops: &Ops,
    file: &Arc<OwnedFd>,
    data: &Data,
    offset: u64,
    block: usize,
) -> Result<u64, Failure> {
    let len = data.len();
    let mut at = 0;
    while at < len {
        let op = Op::Write {
            file: Arc::clone(file),
            bytes: data.bytes(),
            range: at..len.min(at + block),
            offset: offset + at as u64,
        };
        let written = at as u64;
        match ops.run(op).await.1 {
            Ok(0) => {
                let errno = libc::ENOSPC;
                return Err(Failure::System { errno, written });
            }
            Ok(count) => at += count as usize,
            Err(errno) => return Err(Failure::System { errno, written }),
        }
    }
    Ok(len as u64)
}

/// Mode and owner of a file that is being replaced.
struct Replaced {
    mode: u32,
    user: u32,
    group: u32,
}

/// Returns the file to replace, after following links. Also returns its mode and owner if it exists.
async fn target_of(ops: &Ops, path: &Path) -> Result<(PathBuf, Option<Replaced>), Failure> {
    let mut target = path.to_owned();
    for _ in 0..LINKS_MAX {
        let found = match stat_path(ops, &target, false).await {
            Ok(found) => found,
            Err(Failure::System { errno, .. }) if errno == libc::ENOENT => {
                return Ok((target, None));
            }
            Err(failure) => return Err(failure),
        };
        let mode = u32::from(found.stx_mode);
        match mode & libc::S_IFMT {
            libc::S_IFREG => {
                let replaced = Replaced {
                    mode: mode & MODE_BITS,
                    user: found.stx_uid,
                    group: found.stx_gid,
                };
                return Ok((target, Some(replaced)));
            }
            libc::S_IFDIR => return Err(libc::EISDIR.into()),
            libc::S_IFLNK => {
                // The kernel has just read the link, so its target is cached.
                let to = std::fs::read_link(&target)
                    .map_err(|error| Failure::from(error.raw_os_error().unwrap_or(libc::EIO)))?;
                target = match target.parent() {
                    Some(folder) => folder.join(to),
                    None => to,
                };
            }
            _ => return Err(Failure::NotRegular),
        }
    }
    Err(libc::ELOOP.into())
}

/// Creates a file next to `target`, on the same file system.
async fn open_beside(
    ops: &Ops,
    target: &Path,
    permissions: u32,
) -> Result<(Arc<OwnedFd>, PathBuf), Failure> {
    let name = format!(".fermata-{:016x}", crate::random::u64());
    let temporary = target.with_file_name(name);
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let (file, _) = open(ops, &temporary, flags, permissions).await?;
    Ok((file, temporary))
}

async fn replace(ops: &Ops, path: &Path, data: &Data, permissions: u32, syncs: bool) -> Outcome {
    let (target, replaced) = target_of(ops, path).await?;
    // A process without permission to read the old file must never be able to open the new one.
    let permissions = replaced
        .as_ref()
        .map_or(permissions, |it| it.mode & MODE_PRIVATE);
    let (file, temporary) = open_beside(ops, &target, permissions).await?;
    let done = fill(ops, &file, data, replaced, syncs).await;
    let done = match done {
        Ok(()) => rename_to(ops, &temporary, &target, true).await,
        Err(failure) => Err(failure),
    };
    if let Err(failure) = done {
        abandon(ops, &temporary).await;
        return Err(failure);
    }
    if syncs {
        sync_directory(ops, &target).await?;
    }
    Ok(Output::Count(data.len() as u64))
}

async fn fill(
    ops: &Ops,
    file: &Arc<OwnedFd>,
    data: &Data,
    replaced: Option<Replaced>,
    syncs: bool,
) -> Result<(), Failure> {
    if let Some(Replaced { mode, user, group }) = replaced {
        let owned = Op::Own {
            file: Arc::clone(file),
            user,
            group,
        };
        // Most servers lack permission to change the owner, and then keep the server's user as owner. Set the mode afterwards,
        // because a change of owner clears some bits.
        let _ = ops.run(owned).await;
        let file = Arc::clone(file);
        ops.call(Op::Permit { file, mode }).await?;
    }
    match write(ops, file, data, 0, BLOCK_BYTES).await {
        // The bytes were written to the temporary file. The target has none of them, so report no written bytes.
        Err(Failure::System { errno, .. }) => return Err(errno.into()),
        written => written?,
    };
    if syncs {
        let file = Arc::clone(file);
        ops.call(Op::Sync { file }).await?;
    }
    Ok(())
}

/// Syncs the parent directory. A new name is durable only afterwards.
async fn sync_directory(ops: &Ops, path: &Path) -> Result<(), Failure> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let op = Op::Open {
        path: c_path(directory)?,
        flags: libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC,
        mode: 0,
    };
    let fd = ops.call(op).await?;
    // SAFETY: the operation has just opened the descriptor, and no other value owns it.
    let file = Arc::new(unsafe { OwnedFd::from_raw_fd(fd as i32) });
    ops.call(Op::Sync { file }).await.map(|_| ())
}

pub(super) async fn rename_to(
    ops: &Ops,
    from: &Path,
    to: &Path,
    replaces: bool,
) -> Result<(), Failure> {
    let op = Op::Rename {
        from: c_path(from)?,
        to: c_path(to)?,
        replaces,
    };
    ops.call(op).await.map(|_| ())
}

/// Removes an incomplete file. Ignores errors, because the original failure is more important.
async fn abandon(ops: &Ops, temporary: &Path) {
    if let Ok(path) = c_path(temporary) {
        let is_directory = false;
        let _ = ops.call(Op::Unlink { path, is_directory }).await;
    }
}

async fn copy_bytes(
    ops: &Ops,
    from: &Arc<OwnedFd>,
    to: &Arc<OwnedFd>,
    mode: u32,
) -> Result<u64, Failure> {
    let mut offset = 0;
    loop {
        let mut block = Vec::new();
        read(ops, from, &mut block, BLOCK_BYTES, offset).await?;
        if block.is_empty() {
            break;
        }
        let block = Data::from(block);
        match write(ops, to, &block, offset, BLOCK_BYTES).await {
            Err(Failure::System { errno, .. }) => return Err(errno.into()),
            written => offset += written?,
        }
    }
    let file = Arc::clone(to);
    let mode = mode & MODE_BITS;
    ops.call(Op::Permit { file, mode }).await?;
    Ok(offset)
}
