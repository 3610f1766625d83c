//! Calls of the C library that functions of the PHP application make, executed by a thread exactly as requested.
//!
//! Unlike other jobs, they preserve the descriptor's position and flags, and the result of the call. Descriptors are copies that
//! share this state, so the application may close its own while the job runs.

use std::ffi::CString;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::data::Data;
use super::failure::Failure;
use super::job::{Job, Output};
use super::key::{Key, absolute};
use super::op::Op;
use super::ready::Ready;
use super::work::BLOCK_BYTES;

/// A call to execute. Relative paths refer to the current directory at the time of the request.
pub enum Call {
    /// `open` of a regular file or directory, or of a new file. Fails with `ENXIO` for a pipe or device.
    Open {
        /// The path.
        path: PathBuf,
        /// Flags for `open`.
        flags: i32,
        /// Mode for `open`.
        mode: u32,
    },
    /// Loads the metadata of a path into the kernel's caches. Returns 0.
    Look {
        /// The path.
        path: PathBuf,
        /// True to follow a symbolic link.
        follows: bool,
    },
    /// Reads `len` bytes from `offset` into the page cache. Returns 0.
    Load {
        /// The file.
        file: OwnedFd,
        /// Start of the range.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
    },
    /// `Load` for a descriptor that must not be duplicated, because closing a duplicate would release the POSIX locks of its file.
    /// The caller keeps the descriptor open until the job ends. If the caller abandons the job, the job may read another file.
    LoadHeld {
        /// The descriptor.
        fd: RawFd,
        /// Start of the range.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
    },
    /// `Sync` for a descriptor that must not be duplicated, with the same conditions.
    SyncHeld {
        /// The descriptor.
        fd: RawFd,
        /// True for `fdatasync`.
        data_only: bool,
    },
    /// `write`.
    Write {
        /// The file.
        file: OwnedFd,
        /// The bytes to write.
        bytes: Vec<u8>,
    },
    /// `copy_file_range` at the positions of both files.
    Copy {
        /// Source.
        from: OwnedFd,
        /// Target.
        to: OwnedFd,
        /// Maximum number of bytes.
        len: usize,
    },
    /// `fsync` or `fdatasync`.
    Sync {
        /// The file.
        file: OwnedFd,
        /// True for `fdatasync`.
        data_only: bool,
    },
    /// `ftruncate`.
    Truncate {
        /// The file.
        file: OwnedFd,
        /// New length in bytes.
        len: i64,
    },
    /// `rename`.
    Rename {
        /// Old path.
        from: PathBuf,
        /// New path.
        to: PathBuf,
    },
    /// `link`.
    Link {
        /// Existing path.
        target: PathBuf,
        /// New path.
        path: PathBuf,
    },
    /// `symlink`.
    Symlink {
        /// Content of the link.
        target: CString,
        /// Path of the link.
        path: PathBuf,
    },
    /// `unlink`.
    Unlink(PathBuf),
    /// `rmdir`.
    RemoveDirectory(PathBuf),
    /// `mkdir`.
    MakeDirectory {
        /// The path.
        path: PathBuf,
        /// Mode of `mkdir`.
        mode: u32,
    },
}

/// Creates the job of a call. Its result is [`Output::File`] for `Open`, [`Output::Count`] for all others.
///
/// # Errors
/// A path contains a NUL byte, or a descriptor is invalid.
pub fn call(call: Call) -> Result<Job, Failure> {
    let mut data = None;
    let (keys, ready) = match call {
        Call::Load { file, offset, len } => return Ok(load(Arc::new(file), offset, len)),
        Call::Open { path, flags, mode } => {
            let path = place(path)?;
            let ready = Ready::Open(c_path(&path)?, flags, mode);
            (vec![Key::path(&path)], ready)
        }
        Call::Look { path, follows } => (Vec::new(), Ready::Look(c_path(&place(path)?)?, follows)),
        Call::Write { file, bytes } => {
            let bytes = Data::from(bytes);
            let ready = (inode_of(&file), Ready::Write(file, bytes.bytes()));
            data = Some(bytes);
            ready
        }
        Call::Copy { from, to, len } => (inode_of(&to), Ready::Copy(from, to, len)),
        Call::Sync { file, data_only } => (inode_of(&file), Ready::Sync(file, data_only)),
        Call::LoadHeld { fd, offset, len } => (Vec::new(), Ready::LoadHeld(fd, offset, len)),
        Call::SyncHeld { fd, data_only } => (Vec::new(), Ready::SyncHeld(fd, data_only)),
        Call::Truncate { file, len } => (inode_of(&file), Ready::Truncate(file, len)),
        Call::Rename { from, to } => {
            let (from, to) = (place(from)?, place(to)?);
            let ready = Ready::Rename(c_path(&from)?, c_path(&to)?);
            let mut keys = vec![Key::path(&from), Key::path(&to)];
            keys.dedup();
            (keys, ready)
        }
        Call::Link { target, path } => {
            let path = place(path)?;
            let ready = Ready::Link(c_path(&place(target)?)?, c_path(&path)?);
            (vec![Key::path(&path)], ready)
        }
        Call::Symlink { target, path } => {
            let path = place(path)?;
            let ready = Ready::Symlink(target, c_path(&path)?);
            (vec![Key::path(&path)], ready)
        }
        Call::Unlink(path) => {
            let path = place(path)?;
            let ready = Ready::Unlink(c_path(&path)?);
            (vec![Key::path(&path)], ready)
        }
        Call::RemoveDirectory(path) => {
            let path = place(path)?;
            let ready = Ready::RemoveDirectory(c_path(&path)?);
            (vec![Key::path(&path)], ready)
        }
        Call::MakeDirectory { path, mode } => {
            let path = place(path)?;
            let ready = Ready::MakeDirectory(c_path(&path)?, mode);
            (vec![Key::path(&path)], ready)
        }
    };
    Ok(job(keys, data, ready))
}

fn job(keys: Vec<Key>, data: Option<Data>, ready: Ready) -> Job {
    let opens = matches!(ready, Ready::Open(..));
    Job::new(keys, data, move |ops| async move {
        let answer = ops.call(Op::Call(ready)).await?;
        if !opens {
            return Ok(Output::Count(answer));
        }
        // SAFETY: the call has just opened the descriptor, and no other value owns it.
        let file = unsafe { OwnedFd::from_raw_fd(answer as i32) };
        Ok(Output::File(file))
    })
}

/// Reads a range and discards it.
fn load(file: Arc<OwnedFd>, offset: u64, len: u64) -> Job {
    Job::new(Vec::new(), None, move |ops| async move {
        let (mut at, mut left) = (offset, len);
        let mut block = Vec::new();
        while left > 0 {
            block.clear();
            let op = Op::Read {
                file: Arc::clone(&file),
                into: std::mem::take(&mut block),
                len: usize::try_from(left)
                    .unwrap_or(BLOCK_BYTES)
                    .min(BLOCK_BYTES),
                offset: at,
            };
            let (op, answer) = ops.run(op).await;
            if let Op::Read { into, .. } = op {
                block = into;
            }
            // Ignore errors: the call that this job prepares reports them.
            let count = answer.unwrap_or(0);
            if count == 0 {
                break;
            }
            at += count;
            left = left.saturating_sub(count);
        }
        Ok(Output::Count(0))
    })
}

/// Returns the absolute path. An empty path stays an error instead of becoming the current directory.
fn place(path: PathBuf) -> Result<PathBuf, Failure> {
    if path.as_os_str().is_empty() {
        return Err(libc::ENOENT.into());
    }
    Ok(absolute(path))
}

fn c_path(path: &Path) -> Result<CString, Failure> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::EINVAL.into())
}

/// Returns the key that orders writes to the same file, through any descriptor.
fn inode_of(file: &OwnedFd) -> Vec<Key> {
    match rustix::fs::fstat(file) {
        Ok(found) => vec![Key::Inode(found.st_dev, found.st_ino)],
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::io::{Seek, Write};
    use std::os::fd::AsRawFd;

    use super::super::{Backend, Bounds, Files, Outcome, Started};
    use super::*;

    fn files() -> Files {
        let bounds = Bounds {
            jobs_max: 4,
            waiting_max: 100,
            threads_max: 2,
            inline_bytes_max: 1 << 20,
            waiting_bytes_max: 1 << 20,
        };
        let (files, _) = Files::new(bounds, Backend::Threads).expect("files");
        files
    }

    fn folder() -> PathBuf {
        let name = format!("fermata-calls-{:x}", crate::random::u64());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a folder");
        path
    }

    fn run(files: &mut Files, it: Call) -> Outcome {
        match files.start(call(it).expect("a call"), 1).expect("room") {
            Started::Over(outcome) => outcome,
            Started::Pending(id) => {
                files.finish();
                files.take(id).expect("it has ended")
            }
        }
    }

    fn number(outcome: Outcome) -> Result<u64, i32> {
        match outcome {
            Ok(Output::Count(count)) => Ok(count),
            Ok(_) => panic!("no number"),
            Err(failure) => Err(failure.errno()),
        }
    }

    fn write(file: &File, text: &str) -> Call {
        Call::Write {
            file: file.try_clone().expect("a copy").into(),
            bytes: text.into(),
        }
    }

    #[test]
    fn one_file_is_written_in_order_and_keeps_its_position() {
        let (mut files, folder) = (files(), folder());
        let path = folder.join("a");
        let mut all = OpenOptions::new();
        let all = all.create(true).append(true);
        let (mut one, two) = (all.open(&path).expect("a"), all.open(&path).expect("a"));
        let mut expected = String::new();
        for i in 0..40 {
            let text = format!("{i} ");
            let file = if i % 2 == 0 { &one } else { &two };
            let begun = files.start(call(write(file, &text)).expect("a call"), 1);
            assert!(matches!(begun, Ok(Started::Pending(_))));
            expected.push_str(&text);
        }
        let found = rustix::fs::fstat(&two).expect("a file");
        let (device, inode) = (found.st_dev, found.st_ino);
        assert!(!files.may_try(Some((device, inode)), 1));
        assert!(files.may_try(Some((device, inode + 1)), 1));
        assert!(!files.may_try(None, (1 << 20) + 1));
        files.tried();
        files.settle(device, inode);
        one.write_all(b"end").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("a"), expected + "end");
        assert!(files.may_try(Some((device, inode)), 1));

        let mut plain = File::create(folder.join("b")).expect("b");
        assert_eq!(number(run(&mut files, write(&plain, "four"))), Ok(4));
        assert_eq!(plain.stream_position().expect("a position"), 4);
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn uses_paths_and_errors_of_the_application() {
        let (mut files, folder) = (files(), folder());
        let path = |name: &str| folder.join(name);
        let open = |name: &str, flags| Call::Open {
            path: path(name),
            flags,
            mode: 0o600,
        };
        let made = run(&mut files, open("a", libc::O_CREAT | libc::O_WRONLY));
        assert!(matches!(made, Ok(Output::File(_))));
        let exclusive = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
        let again = run(&mut files, open("a", exclusive));
        assert_eq!(number(again), Err(libc::EEXIST));
        let pipe = std::ffi::CString::new(path("pipe").as_os_str().as_bytes()).expect("a path");
        // SAFETY: the path ends with a NUL.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        // The FIFO has no reader, so a blocking open would wait forever.
        let pipe = run(&mut files, open("pipe", libc::O_CREAT | libc::O_WRONLY));
        assert_eq!(number(pipe), Err(libc::ENXIO));
        let rename = |from, to| Call::Rename {
            from: path(from),
            to: path(to),
        };
        assert_eq!(number(run(&mut files, rename("a", "b"))), Ok(0));
        assert_eq!(number(run(&mut files, rename("a", "b"))), Err(libc::ENOENT));
        let unlink = run(&mut files, Call::Unlink(path("b")));
        assert_eq!(number(unlink), Ok(0));
        assert!(!path("b").exists());
        assert!(call(Call::Unlink(PathBuf::from("a\0b"))).is_err());
        assert!(call(Call::Unlink(PathBuf::new())).is_err());
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn copies_loads_and_truncates_the_given_file() {
        let (mut files, folder) = (files(), folder());
        fs::write(folder.join("a"), "0123456789").expect("a");
        let from = File::open(folder.join("a")).expect("a");
        let to = File::create(folder.join("b")).expect("b");
        let copy = |file: &File| OwnedFd::from(file.try_clone().expect("a copy"));
        let load = Call::Load {
            file: copy(&from),
            offset: 4,
            len: 1 << 40,
        };
        assert_eq!(number(run(&mut files, load)), Ok(0));
        let ranges = Call::Copy {
            from: copy(&from),
            to: copy(&to),
            len: 8,
        };
        assert_eq!(number(run(&mut files, ranges)), Ok(8));
        let cut = Call::Truncate {
            file: copy(&to),
            len: 3,
        };
        assert_eq!(number(run(&mut files, cut)), Ok(0));
        let sync = Call::Sync {
            file: copy(&to),
            data_only: true,
        };
        assert_eq!(number(run(&mut files, sync)), Ok(0));
        assert_eq!(fs::read_to_string(folder.join("b")).expect("b"), "012");
        for fd in [from.as_raw_fd(), -1] {
            // The job ignores errors, because the call that it prepares reports them.
            let load = Call::LoadHeld {
                fd,
                offset: 4,
                len: 1 << 40,
            };
            assert_eq!(number(run(&mut files, load)), Ok(0));
        }
        for data_only in [true, false] {
            let fd = to.as_raw_fd();
            let sync = Call::SyncHeld { fd, data_only };
            assert_eq!(number(run(&mut files, sync)), Ok(0));
            let fd = -1;
            let sync = Call::SyncHeld { fd, data_only };
            assert_eq!(number(run(&mut files, sync)), Err(libc::EBADF));
        }
        // Neither job closed the descriptor.
        assert!(rustix::fs::fstat(&from).is_ok() && rustix::fs::fstat(&to).is_ok());
        fs::remove_dir_all(folder).expect("removed");
    }
}
