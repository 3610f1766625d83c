//! Appending lines to a log without ever waiting for its reader.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use rustix::net::SendFlags;

use crate::process::ROOT;

/// Permissions of a log that is created: others may hold secrets that ours does not tell.
const MODE: u32 = 0o640;

/// What a pipe that is reported writable takes at once (`PIPE_BUF`), whole or not at all.
const PIPE_BYTES_MAX: usize = 4096;

/// The permissions of a folder by which others than its owner make names in it.
const OTHERS_WRITE: u32 = 0o022;

/// The offset of `pwritev2` that stands for the file's own.
const AT_ITS_OFFSET: u64 = u64::MAX;

/// Where lines go.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The page cache takes everything or fails.
    Regular,
    /// A pipe, a terminal or a device, opened by us and therefore ours to set to `O_NONBLOCK`.
    Stream,
    /// One that could not be opened anew: other processes share its flags and may rely on blocking.
    SharedStream,
    /// A socket, such as the journal's.
    Socket,
}

impl LogFile {
    /// Opens `path` for appending and creates it if it is not there.
    ///
    /// # Errors
    /// What the file system says; a named pipe that nobody reads from is an error.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::from_file(Self::options(0).open(path)?)
    }

    fn options(flags: i32) -> OpenOptions {
        let mut options = OpenOptions::new();
        options
            .append(true)
            .create(true)
            .mode(MODE)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | flags);
        options
    }

    /// The same for a process of root whose log lies where others may make names: through a link of theirs it would
    /// open a file of root's, and give it away or write into it. Links are followed only where root alone can make them.
    ///
    /// # Errors
    /// As [`LogFile::open`], and for a link of others.
    pub fn open_as_root(path: &Path) -> io::Result<Self> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let folder = folder.metadata()?;
        if folder.uid() == ROOT && folder.mode() & OTHERS_WRITE == 0 {
            return Self::open(path);
        }
        let is_link =
            || io::Error::other("it is a link, in a folder where not only root makes links");
        let file = Self::options(libc::O_NOFOLLOW).open(path);
        let file = file.map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => is_link(),
            _ => error,
        })?;
        let kind = file.metadata()?;
        if kind.is_file() && kind.nlink() != 1 {
            return Err(is_link());
        }
        Self::from_file(file)
    }

    /// Gives the file itself, whatever its path leads to by now, to a user and a group.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn give(&self, user: u32, group: u32) -> io::Result<()> {
        fchown(&self.file, Some(user), Some(group))
    }

    /// The process's standard error.
    ///
    /// # Errors
    /// It is closed, or no descriptor left.
    pub fn stderr() -> io::Result<Self> {
        Self::duplicate(io::stderr().as_fd().try_clone_to_owned()?)
    }

    /// The process's standard output.
    ///
    /// # Errors
    /// It is closed, or no descriptor left.
    pub fn stdout() -> io::Result<Self> {
        Self::duplicate(io::stdout().as_fd().try_clone_to_owned()?)
    }

    /// Opens what `fd` leads to once more. `O_NONBLOCK` belongs to the open file, which other processes have as well,
    /// so it may only be set on one of our own. Sockets cannot be opened anew and need not be: each `send` says
    /// whether it waits. What belongs to another user cannot be either, and is asked before each write.
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

    /// A file that is open.
    ///
    /// # Errors
    /// It has been closed.
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

    /// Writes from the front of `lines`, whole lines where they are shorter than a page, and returns
    /// how many bytes were taken: fewer, or none, when more would have to wait.
    ///
    /// # Errors
    /// A full disk, or a reader that is gone.
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
                Err(_) if taken > 0 => return Ok(taken),
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Between the question and the write another process may have filled the pipe: kernels from 6.4 on are told
    /// not to wait then.
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

/// Whole lines that fit a pipe; a part of one that is longer.
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
    fn a_pipe_that_others_share_takes_as_much_and_stays_as_it_was() {
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
        // Only root can make names in /dev, where links are usual.
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
