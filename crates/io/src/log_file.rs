//! Appends lines to a log without ever waiting for its reader.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, fchown};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use rustix::net::SendFlags;

use crate::links;

/// Permissions of a new log file. Other users cannot read it, because applications may log secrets.
const MODE: u32 = 0o640;

/// Maximum bytes that a writable pipe accepts atomically (`PIPE_BUF`).
const PIPE_BYTES_MAX: usize = 4096;

/// Flags of a log's descriptor: a pipe without a reader blocks neither the opening nor a write.
const FLAGS: i32 = libc::O_NONBLOCK | libc::O_CLOEXEC;

/// Offset for `pwritev2` that means the file's own position.
const AT_ITS_OFFSET: u64 = u64::MAX;

/// Destination of log lines.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A regular file: the page cache accepts all bytes or the write fails.
    Regular,
    /// A pipe, terminal or device that this process opened, so that it may set `O_NONBLOCK`.
    Stream,
    /// A pipe, terminal or device that could not be reopened: other processes share its flags, and may rely on blocking writes.
    SharedStream,
    /// A socket, for example of the journal.
    Socket,
}

impl LogFile {
    /// Opens `path` for appending; creates it if it does not exist.
    ///
    /// # Errors
    /// The file system's error; a named pipe without a reader is an error.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::from_file(Self::options().custom_flags(FLAGS).open(path)?)
    }

    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(MODE);
        options
    }

    /// Opens a log as root. This is safe in a directory in which other users may create files.
    ///
    /// Another user could place a link there, and root would open any file, write to it or change its owner. Links are therefore
    /// followed only in directories in which only root can create files.
    ///
    /// # Errors
    /// As [`LogFile::open`], and for a link that another user may have created.
    pub fn open_as_root(path: &Path) -> io::Result<Self> {
        let file = links::open_as_root(&mut Self::options(), FLAGS, path)?;
        Self::from_file(file)
    }

    /// Changes the owner of the open file to a user and a group, even if its path now names another file.
    ///
    /// # Errors
    /// The kernel rejects the change.
    pub fn give(&self, user: u32, group: u32) -> io::Result<()> {
        fchown(&self.file, Some(user), Some(group))
    }

    /// Opens the standard error of the process.
    ///
    /// # Errors
    /// Standard error is closed, or no descriptor is left.
    pub fn stderr() -> io::Result<Self> {
        Self::duplicate(io::stderr().as_fd().try_clone_to_owned()?)
    }

    /// Opens the standard output of the process.
    ///
    /// # Errors
    /// Standard output is closed, or no descriptor is left.
    pub fn stdout() -> io::Result<Self> {
        Self::duplicate(io::stdout().as_fd().try_clone_to_owned()?)
    }

    /// Opens the target of `fd` again. `O_NONBLOCK` belongs to the open file description, which other processes share. So it may
    /// only be set on a separate description.
    ///
    /// Sockets cannot be reopened. This is not necessary either, because each `send` has a flag for it. Files of another user
    /// cannot be reopened either, so they are polled before each write.
    fn duplicate(fd: OwnedFd) -> io::Result<Self> {
        let shared = Self::from_file(File::from(fd))?;
        if shared.kind != Kind::Stream {
            return Ok(shared);
        }
        let own = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
            .open(format!("/proc/self/fd/{}", shared.file.as_raw_fd()));
        Ok(match own {
            Ok(file) => Self { file, ..shared },
            Err(_) => Self {
                kind: Kind::SharedStream,
                ..shared
            },
        })
    }

    /// Wraps an open file.
    ///
    /// # Errors
    /// The file is closed.
    pub fn from_file(file: File) -> io::Result<Self> {
        let kind = file.metadata()?.file_type();
        let kind = if kind.is_socket() {
            Kind::Socket
        } else if kind.is_file() {
            Kind::Regular
        } else {
            Kind::Stream
        };
        Ok(Self { file, kind })
    }

    /// Writes bytes from the start of `lines`, in complete lines if these are shorter than a page. Returns the number of
    /// bytes written, which is smaller (or 0) if the rest would block.
    ///
    /// # Errors
    /// The disk is full, or the reader closed its end.
    pub fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        while taken < lines.len() {
            let rest = &lines[taken..];
            let outcome = match self.kind {
                Kind::Regular => self.file.write(rest),
                Kind::Stream => self.file.write(piece(rest)),
                Kind::SharedStream if !self.is_writable() => return Ok(taken),
                Kind::SharedStream => self.write_shared(piece(rest)),
                Kind::Socket => {
                    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                    rustix::net::send(&self.file, piece(rest), flags).map_err(io::Error::from)
                }
            };
            match outcome {
                Ok(0) => return Ok(taken),
                Ok(written) => taken += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(taken),
                // The next call reports the error.
                Err(_) if taken > 0 => return Ok(taken),
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Another process may fill the pipe between poll and write; kernels from 6.4 on support a non-blocking write for
    /// this case.
    fn write_shared(&mut self, piece: &[u8]) -> io::Result<usize> {
        let parts = [IoSlice::new(piece)];
        match pwritev2(&self.file, &parts, AT_ITS_OFFSET, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.file.write(piece),
            outcome => outcome.map_err(io::Error::from),
        }
    }

    fn is_writable(&self) -> bool {
        let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        matches!(poll(&mut fds, Some(&now)), Ok(ready) if ready > 0)
    }
}

/// Returns the complete lines that fit into a pipe, or a part of a longer line.
fn piece(lines: &[u8]) -> &[u8] {
    if lines.len() <= PIPE_BYTES_MAX {
        return lines;
    }
    let head = &lines[..PIPE_BYTES_MAX];
    match head.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => &head[..=end],
        None => head,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_full_pipe_takes_whole_lines_and_then_nothing() {
        let (reader, writer) = io::pipe().expect("descriptors are left");
        let log = LogFile::duplicate(OwnedFd::from(writer)).expect("a pipe");
        assert_eq!(log.kind, Kind::Stream);
        fills_and_flows_again(log, reader);
    }

    #[test]
    fn a_shared_pipe_accepts_as_much_and_keeps_its_flags() {
        let (reader, writer) = io::pipe().expect("descriptors are left");
        let theirs = writer.try_clone().expect("descriptors are left");
        let mut log = LogFile::from_file(File::from(OwnedFd::from(writer))).expect("a pipe");
        log.kind = Kind::SharedStream;
        fills_and_flows_again(log, reader);
        let flags = rustix::fs::fcntl_getfl(&theirs).expect("it is open");
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    }

    #[test]
    fn root_follows_no_link_that_somebody_else_may_have_made() {
        let folder = std::env::temp_dir().join(format!("fermata-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let shared = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&folder, shared).expect("it is ours");
        let (secret, log) = (folder.join("secret"), folder.join("log"));
        std::fs::write(&secret, "").expect("a file");
        std::os::unix::fs::symlink(&secret, &log).expect("a link");
        LogFile::open(&log).expect("anybody else may follow it");
        LogFile::open_as_root(&log).expect_err("a symbolic link");
        std::fs::remove_file(&log).expect("it is ours");
        std::fs::hard_link(&secret, &log).expect("a link");
        LogFile::open_as_root(&log).expect_err("a second name of another file");
        std::fs::remove_file(&log).expect("it is ours");
        LogFile::open_as_root(&log).expect("a file of its own");
        // Only root can create names in /dev, where links are usual.
        LogFile::open_as_root(Path::new("/dev/full")).expect("Linux has it");
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    fn fills_and_flows_again(mut log: LogFile, mut reader: io::PipeReader) {
        let lines = b"0123456789abcdef0123456789abcde\n".repeat(8_192);
        let taken = log.write(&lines).expect("a reader is there");
        assert!(
            taken > 0 && taken < lines.len() && taken.is_multiple_of(32),
            "{taken}"
        );
        assert_eq!(log.write(&lines[taken..]).expect("still there"), 0);
        let mut read = vec![0; taken];
        reader
            .read_exact(&mut read)
            .expect("what was taken is there");
        assert_eq!(read, lines[..taken]);
        assert!(log.write(&lines[taken..]).expect("room again") > 0);
    }

    #[test]
    fn a_full_disk_is_an_error_and_not_a_wait() {
        let mut log = LogFile::open(Path::new("/dev/full")).expect("Linux has it");
        assert!(log.write(b"x\n").is_err());
    }
}
