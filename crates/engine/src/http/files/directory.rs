//! A directory whose files are served, and opening files without a way out of it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fermata_io::descriptors::lift;
use fermata_proto::response::valid_value;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{FileError, is_program};

/// The file that is served for a directory unless the program says otherwise.
const INDEX: &str = "index.html";
/// The one name with a leading dot that is served, and only at the top (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";
/// How often an open is tried again that a rename elsewhere has disturbed.
const RETRIES_MAX: usize = 8;
/// A year: what caches take to be for ever.
const CACHE_SECONDS_MAX: u32 = 365 * 24 * 3_600;

/// How the files of a directory are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticOptions {
    /// Seconds that clients may use a file without asking again; `None` leaves it to them.
    pub cache_seconds: Option<u32>,
    /// Whether they need not even ask when the user reloads the page.
    pub immutable: bool,
    /// The file that is served for a directory; empty for none.
    pub index: String,
    /// Whether `app.js.br`, `.zst` and `.gz` are sent in place of `app.js` to clients that read them.
    pub precompressed: bool,
    /// Whether files without such a sibling are compressed when they are sent.
    pub compress: bool,
    /// Whether programs of PHP's are sent as the text that they are.
    pub sources: bool,
}

impl Default for StaticOptions {
    fn default() -> StaticOptions {
        StaticOptions {
            cache_seconds: None,
            immutable: false,
            index: INDEX.to_owned(),
            precompressed: true,
            compress: true,
            sources: false,
        }
    }
}

/// A directory of files, checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Directory {
    pub(crate) root: PathBuf,
    pub(crate) options: StaticOptions,
    /// Value of `Cache-Control`, if there is one.
    pub(crate) cache_control: Option<String>,
    /// Its place in `Roots`.
    pub(crate) number: usize,
}

/// Why the files of a directory cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be looked at.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("it is not a directory")]
    NoDirectory,
    /// An index that is hidden, or in another directory.
    #[error("the index {0:?} is no file name; give one such as {INDEX:?}, or \"\" for none")]
    IndexName(String),
    /// An index that shows its source.
    #[error(
        "the index {0:?} would be sent as text and not run; add a route for it, or allow sources"
    )]
    IndexProgram(String),
    /// What never changes is kept for a time.
    #[error("immutable needs cacheSeconds, the time it holds for")]
    Immutable,
    /// Caches take no longer times (RFC 2616, 14.21).
    #[error("cacheSeconds may be at most {CACHE_SECONDS_MAX}, a year")]
    CacheSeconds,
}

impl Directory {
    /// Checks what can be wrong with `root` and `options`.
    pub(crate) fn new(
        root: &Path,
        options: StaticOptions,
        number: usize,
    ) -> Result<Self, DirectoryError> {
        // Absolute, so that a later change of the working directory does not matter. Symbolic links stay, so that
        // a deployment may move them.
        let root = std::path::absolute(root)?;
        let metadata = fs::metadata(&root)?;
        if !metadata.is_dir() {
            return Err(DirectoryError::NoDirectory);
        }
        let index = options.index.as_bytes();
        if index.starts_with(b".") || index.contains(&b'/') || !valid_value(index) {
            return Err(DirectoryError::IndexName(options.index));
        }
        if is_program(index) && !options.sources {
            return Err(DirectoryError::IndexProgram(options.index));
        }
        let cache_control = match (options.cache_seconds, options.immutable) {
            (None, true) => return Err(DirectoryError::Immutable),
            (Some(seconds), _) if seconds > CACHE_SECONDS_MAX => {
                return Err(DirectoryError::CacheSeconds);
            }
            (None, false) => None,
            (Some(0), false) => Some("no-cache".to_owned()),
            (Some(seconds), false) => Some(format!("public, max-age={seconds}")),
            (Some(seconds), true) => Some(format!("public, max-age={seconds}, immutable")),
        };
        Ok(Directory {
            root,
            options,
            cache_control,
            number,
        })
    }

    /// The path of a file below the directory, or `None` when it is one that is never served. `rest` is
    /// percent-decoded and starts with a slash.
    pub(crate) fn relative(&self, rest: &[u8]) -> Option<PathBuf> {
        let inside = rest.strip_prefix(b"/")?;
        let name = inside.rsplit(|&byte| byte == b'/').next();
        if !is_served(inside) || !self.options.sources && name.is_some_and(is_program) {
            return None;
        }
        let mut path = PathBuf::from(std::ffi::OsStr::from_bytes(inside));
        if inside.is_empty() || inside.ends_with(b"/") {
            if self.options.index.is_empty() {
                return None;
            }
            path.push(&self.options.index);
        }
        Some(path)
    }

    /// Whether a directory below has something to serve.
    pub(crate) fn has_index(&self, relative: &Path) -> bool {
        let index = &self.options.index;
        let metadata = fs::metadata(self.root.join(relative).join(index));
        !index.is_empty() && metadata.is_ok_and(|metadata| metadata.is_file())
    }
}

/// Whether a path has no dot segments, empty segments, NUL, or names with a leading dot (except `.well-known`).
pub(crate) fn is_served(inside: &[u8]) -> bool {
    let mut segments = inside.split(|&byte| byte == b'/').enumerate().peekable();
    while let Some((depth, segment)) = segments.next() {
        let is_last = segments.peek().is_none();
        if segment.is_empty() && !is_last || segment.contains(&0) {
            return false;
        }
        // Also `.` and `..`.
        if segment.first() == Some(&b'.') && !(depth == 0 && segment == WELL_KNOWN) {
            return false;
        }
    }
    true
}

/// The directories of a worker, held open so that a file costs one `openat2`. They are opened anew every second, so a
/// deployment that moves a symbolic link is seen.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    open: Vec<Option<(OwnedFd, u64)>>,
    /// How many there are besides those of the router.
    added: usize,
}

impl Roots {
    /// Counts one more.
    pub fn add(&mut self) {
        self.added += 1;
    }

    /// How many there are besides those of the router.
    pub fn added(&self) -> usize {
        self.added
    }

    /// Opens a file below `directory`; `now_s` is the present second.
    pub fn open(
        &mut self,
        directory: &Directory,
        relative: &Path,
        now_s: u64,
    ) -> Result<fs::File, FileError> {
        if self.open.len() <= directory.number {
            self.open.resize_with(directory.number + 1, || None);
        }
        let place = &mut self.open[directory.number];
        if place
            .as_ref()
            .is_none_or(|(_, opened_s)| *opened_s != now_s)
        {
            *place = Some((open_root(&directory.root)?, now_s));
        }
        let Some((root, _)) = place else {
            return Err(FileError::NotFound);
        };
        open_within(root.as_fd(), &directory.root, relative)
    }
}

/// Opens a file below a directory that is not one of the server's.
pub(crate) fn open_below(root: &Path, relative: &Path) -> Result<fs::File, FileError> {
    open_within(open_root(root)?.as_fd(), root, relative)
}

fn open_root(root: &Path) -> Result<OwnedFd, FileError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty());
    Ok(root.map_err(io::Error::from)?)
}

/// Opens without following a link out of `root`. The kernel does the check, so nothing can change in between.
fn open_within(
    directory: BorrowedFd<'_>,
    root: &Path,
    relative: &Path,
) -> Result<fs::File, FileError> {
    // Without NONBLOCK, opening a pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..RETRIES_MAX {
        match rustix::fs::openat2(directory, relative, flags, Mode::empty(), within) {
            // It stays open for as long as its client takes.
            Ok(file) => return Ok(lift(file).into()),
            // A rename at the same moment; the kernel could not be sure.
            Err(Errno::AGAIN | Errno::INTR) => {}
            // An old kernel, or a container that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => return open_checked(root, relative),
            Err(errno) => return Err(not_found_or(errno.into())),
        }
    }
    Err(FileError::Io(io::ErrorKind::ResourceBusy.into()))
}

/// The same for systems without `openat2`. A link that is made between check and open could win, but who can make
/// one inside of `root` can also put files there.
pub(super) fn open_checked(root: &Path, relative: &Path) -> Result<fs::File, FileError> {
    let root = root.canonicalize()?;
    let path = root.join(relative).canonicalize().map_err(not_found_or)?;
    if !path.starts_with(&root) {
        return Err(FileError::NotFound);
    }
    open_plain(&path, OFlags::NOFOLLOW)
}

/// Opens a path of the program's, wherever it leads.
pub(crate) fn open_anywhere(path: &Path) -> Result<fs::File, FileError> {
    open_plain(path, OFlags::empty())
}

fn open_plain(path: &Path, further: OFlags) -> Result<fs::File, FileError> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | further;
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .map_err(not_found_or)?;
    Ok(lift(file.into()).into())
}

/// What a wrong path causes is "not found"; all else is the server's trouble.
fn not_found_or(error: io::Error) -> FileError {
    match Errno::from_io_error(&error) {
        // XDEV: a link leads out. LOOP: in circles. NXIO: a socket.
        Some(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::XDEV
            | Errno::LOOP
            | Errno::NAMETOOLONG
            | Errno::NXIO,
        ) => FileError::NotFound,
        _ => FileError::Io(error),
    }
}
