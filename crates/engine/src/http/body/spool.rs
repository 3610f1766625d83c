//! Temporary files that are gone when nobody needs them any more.
//!
//! Several servers may share a directory, also from containers in which each has the same process ids: the name of a
//! file says first which server it belongs to, by a number drawn when that started, and then which process.
//!
//! A process that has made one holds a lock on a file of its own beside them until it ends, however it does. Where
//! the lock is free nobody needs the files any more: the next server that starts removes them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use fermata_config::Settings;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::BodyError;

/// Names tried before giving up; a name is taken only if somebody guesses 64 random bits.
const NAME_TRIES_MAX: u32 = 4;

/// How all names begin.
const NAME_START: &str = "fermata-upload-";

/// How the name of a lock ends.
const LOCK_END: &str = "lock";

/// A temporary file, removed when this is dropped unless somebody has moved it.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // When it has been moved away there is nothing to remove.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Where the temporary files of a server lie, and how their names begin.
#[derive(Debug, Clone)]
pub(crate) struct Spools {
    directory: PathBuf,
    server: u64,
    /// The lock of this process; `None` inside where the file system has none.
    lock: Arc<OnceLock<Option<File>>>,
}

/// A temporary file that is being written.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    temporary: Temporary,
    bytes: u64,
}

impl Spools {
    /// Those of the server that has drawn `server`.
    pub fn new(settings: &Settings, server: u64) -> Spools {
        let directory = settings.upload_directory.clone();
        Spools {
            directory: directory.unwrap_or_else(std::env::temp_dir),
            server,
            lock: Arc::default(),
        }
    }

    /// A new file that only this user can read.
    pub fn create(&self) -> Result<Spool, BodyError> {
        // Before there is a file: a server that starts right now must not find one without its lock.
        self.lock.get_or_init(|| self.hold_lock().ok());
        let mut tries = 0;
        loop {
            let random = fermata_io::random::u64();
            let name = format!("{}{random:016x}", self.prefix(std::process::id()));
            let path = self.directory.join(name);
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => {
                    return Ok(Spool {
                        file,
                        temporary: Temporary { path },
                        bytes: 0,
                    });
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

    /// Removes what a worker of this server that has ended has left.
    pub fn sweep(&self, pid: u32) {
        self.remove(&self.names(), &self.prefix(pid));
    }

    /// Removes what servers have left that do not run any more. Says nothing where it cannot: others may share the
    /// directory whose files are not ours to remove.
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

    /// Whether nobody holds this lock. Everybody may make files in the directory: one that is no lock of ours, such as a
    /// pipe whose opening waits for a writer, is none.
    fn is_free(&self, name: &str) -> bool {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = rustix::fs::open(self.directory.join(name), flags, Mode::empty());
        let lock = lock.map(File::from).map_err(io::Error::from);
        lock.is_ok_and(|lock| {
            lock.metadata().is_ok_and(|it| it.is_file())
                && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        })
    }

    /// The names of all such files in the directory, of any server.
    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return Vec::new();
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        names.filter(|name| name.starts_with(NAME_START)).collect()
    }

    /// Removes those that begin so, the lock last: until then what is left can be found again.
    fn remove(&self, names: &[String], prefix: &str) {
        let mut ours: Vec<&String> = names.iter().filter(|it| it.starts_with(prefix)).collect();
        ours.sort_by_key(|name| name.ends_with(LOCK_END));
        for name in ours {
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// Makes the lock of this process. It has its name only when it is held.
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

/// How the names begin that a lock is for; `None` for what is no name of one. A shorter name would be for files of
/// others.
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
    /// Appends.
    pub fn write(&mut self, data: &[u8]) -> Result<(), BodyError> {
        self.file.write_all(data).map_err(|error| {
            let directory = self.temporary.path.parent();
            BodyError::io(directory.unwrap_or(&self.temporary.path), error)
        })?;
        self.bytes += data.len() as u64;
        Ok(())
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file to go on with, and what removes it.
    pub fn into_parts(self) -> (File, Temporary) {
        (self.file, self.temporary)
    }

    /// Closes the file: it and its length.
    pub fn finish(self) -> (Temporary, u64) {
        (self.temporary, self.bytes)
    }
}
