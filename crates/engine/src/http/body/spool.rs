//! Temporary files, deleted when they are no longer needed.
//!
//! Several servers may share a directory, including servers in containers with equal process ids.
//! So a file name starts with a random number of the server and the process id.
//!
//! `upload_directory_bytes_max` and `upload_directory_files_max` limit the files of a worker, so
//! that clients with unfinished uploads cannot fill the directory.
//!
//! A process with temporary files holds a lock on a lock file next to them until it exits. If the
//! lock is free, the process has exited, and the next server that starts deletes the files.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use fermata_config::Settings;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::BodyError;

/// Number of names tried; a name exists only if another process guesses 64 random bits.
const NAME_TRIES_MAX: u32 = 4;

/// Start of all names.
const NAME_START: &str = "fermata-upload-";

/// End of a lock's name.
const LOCK_END: &str = "lock";

/// Totals and limits of a worker's temporary files.
#[derive(Debug)]
struct Totals {
    bytes: AtomicU64,
    files: AtomicUsize,
    bytes_max: u64,
    files_max: usize,
}

impl Totals {
    fn add_file(&self) -> io::Result<()> {
        let max = self.files_max;
        if self.files.load(Ordering::Relaxed) >= max {
            return Err(exceeded("upload_directory_files_max", max));
        }
        self.files.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn add_bytes(&self, bytes: u64) -> io::Result<()> {
        let max = self.bytes_max;
        if self.bytes.load(Ordering::Relaxed) + bytes > max {
            return Err(exceeded("upload_directory_bytes_max", max));
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// Returns the error for a body that exceeds a limit on all bodies of the worker.
fn exceeded(setting: &str, max: impl Display) -> io::Error {
    let message = format!("all bodies of this worker together have reached {setting} ({max})");
    io::Error::new(ErrorKind::QuotaExceeded, message)
}

/// A temporary file, deleted on drop unless the application has moved it.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    bytes: u64,
    totals: Arc<Totals>,
}

impl Temporary {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends `piece` through `file`, which must be open for writing.
    ///
    /// # Errors
    /// The file cannot be written, or the worker's files would exceed `upload_directory_bytes_max`.
    pub fn append(&mut self, file: &mut File, piece: &[u8]) -> io::Result<()> {
        let bytes = piece.len() as u64;
        self.totals.add_bytes(bytes)?;
        self.bytes += bytes;
        file.write_all(piece)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Fails if the application has moved the file; then nothing needs to be deleted.
        let _ = std::fs::remove_file(&self.path);
        self.totals.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.totals.files.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Directory and name prefix of a server's temporary files.
#[derive(Debug, Clone)]
pub(crate) struct Spools {
    directory: PathBuf,
    server: u64,
    /// The lock of this process; the inner `None` means that the file system does not support
    /// locks.
    lock: Arc<OnceLock<Option<File>>>,
    totals: Arc<Totals>,
}

/// A temporary file that is being written.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    temporary: Temporary,
}

impl Spools {
    /// Creates the factory for the server with the random number `server`.
    pub fn new(settings: &Settings, server: u64) -> Spools {
        let directory = settings.upload_directory.clone();
        Spools {
            directory: directory.unwrap_or_else(std::env::temp_dir),
            server,
            lock: Arc::default(),
            totals: Arc::new(Totals {
                bytes: AtomicU64::new(0),
                files: AtomicUsize::new(0),
                bytes_max: settings.upload_directory_bytes_max,
                files_max: settings.upload_directory_files_max,
            }),
        }
    }

    /// Creates a file that only the user of this process can read.
    pub fn create(&self) -> Result<Spool, BodyError> {
        // Create the lock before the first file: a server that starts now must not find a file
        // without a lock.
        self.lock.get_or_init(|| self.hold_lock().ok());
        self.totals
            .add_file()
            .map_err(|error| BodyError::io(&self.directory, error))?;
        let mut temporary = Temporary {
            path: PathBuf::new(),
            bytes: 0,
            totals: Arc::clone(&self.totals),
        };
        let mut tries = 0;
        loop {
            let random = fermata_io::random::u64();
            let name = format!("{}{random:016x}", self.prefix(std::process::id()));
            let path = self.directory.join(name);
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => {
                    temporary.path = path;
                    return Ok(Spool { file, temporary });
                }
                Err(error)
                    if error.kind() == ErrorKind::AlreadyExists && tries < NAME_TRIES_MAX =>
                {
                    tries += 1;
                }
                Err(error) => return Err(BodyError::io(&self.directory, error)),
            }
        }
    }

    /// Creates a file that the kernel deletes when it is closed, even if the process crashes.
    pub fn create_unnamed(&self) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        if let Ok(file) = rustix::fs::open(&self.directory, flags, mode) {
            return Ok(file.into());
        }
        // Not all file systems support `O_TMPFILE`.
        match self.create() {
            Ok(spool) => File::options()
                .read(true)
                .write(true)
                .open(spool.temporary.path()),
            Err(BodyError::Io { source, .. }) => Err(source),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Deletes the files of an exited worker of this server.
    pub fn sweep(&self, pid: u32) {
        self.remove(&self.names(), &self.prefix(pid));
    }

    /// Deletes the files of servers that no longer run. Errors are ignored: files of other users
    /// may be in the directory.
    pub fn sweep_dead(&self) {
        let names = self.names();
        for name in &names {
            if let Some(prefix) = prefix_of(name)
                && self.is_free(name)
            {
                self.remove(&names, prefix);
            }
        }
    }

    /// Returns true if a lock is free. Any user may create files in the directory, for example a
    /// pipe, which would block the caller on open. Such files count as not locked.
    fn is_free(&self, name: &str) -> bool {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = rustix::fs::open(self.directory.join(name), flags, Mode::empty());
        let lock = lock.map(File::from).map_err(io::Error::from);
        lock.is_ok_and(|lock| {
            lock.metadata().is_ok_and(|it| it.is_file())
                && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        })
    }

    /// Returns the names of all temporary files in the directory, of any server.
    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return Vec::new();
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        names.filter(|name| name.starts_with(NAME_START)).collect()
    }

    /// Deletes the files with this prefix. Deletes the lock last, because the remaining files are
    /// found by it.
    fn remove(&self, names: &[String], prefix: &str) {
        let mut ours: Vec<&String> = names.iter().filter(|it| it.starts_with(prefix)).collect();
        ours.sort_by_key(|name| name.ends_with(LOCK_END));
        for name in ours {
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// Creates the lock of this process. The file gets its final name only after the lock is held.
    fn hold_lock(&self) -> io::Result<File> {
        let prefix = self.prefix(std::process::id());
        let unnamed = self.directory.join(format!("{prefix}new"));
        let mut options = OpenOptions::new();
        let lock = options.write(true).create_new(true).mode(0o600);
        let lock = lock.open(&unnamed)?;
        let held = flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(io::Error::from)
            .and_then(|()| fs::rename(&unnamed, self.directory.join(prefix + LOCK_END)));
        if held.is_err() {
            let _ = fs::remove_file(&unnamed);
        }
        held.map(|()| lock)
    }

    fn prefix(&self, pid: u32) -> String {
        format!("{NAME_START}{:016x}-{pid}-", self.server)
    }
}

/// Returns the prefix of the files that a lock protects; `None` if the file is not a lock. The
/// complete name is checked, because a shorter prefix could match files of other processes.
fn prefix_of(name: &str) -> Option<&str> {
    let prefix = name.strip_suffix(LOCK_END)?;
    let (server, pid) = prefix
        .strip_prefix(NAME_START)?
        .strip_suffix('-')?
        .split_once('-')?;
    let is_server = server.len() == 16 && server.bytes().all(|it| it.is_ascii_hexdigit());
    let is_pid = !pid.is_empty() && pid.bytes().all(|it| it.is_ascii_digit());
    (is_server && is_pid).then_some(prefix)
}

impl Spool {
    /// Appends data.
    pub fn write(&mut self, data: &[u8]) -> Result<(), BodyError> {
        let Spool { file, temporary } = self;
        temporary.append(file, data).map_err(|error| {
            let directory = temporary.path.parent();
            BodyError::io(directory.unwrap_or(&temporary.path), error)
        })
    }

    pub fn bytes(&self) -> u64 {
        self.temporary.bytes
    }

    /// Returns the open file, and the value that deletes the file when it is dropped.
    pub fn into_parts(self) -> (File, Temporary) {
        (self.file, self.temporary)
    }

    /// Closes the file; returns it with its length.
    pub fn finish(self) -> (Temporary, u64) {
        let bytes = self.temporary.bytes;
        (self.temporary, bytes)
    }
}
