//! Directories of static files, and opening files without leaving the directory.

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

/// Default index file of a directory.
const INDEX: &str = "index.html";
/// The only served name with a leading dot, and only at the top (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";
/// Maximum number of retries of an open that a concurrent rename has disturbed.
const RETRIES_MAX: usize = 8;
/// One year in seconds: the maximum that caches honor.
const CACHE_SECONDS_MAX: u32 = 365 * 24 * 3_600;

/// Options of a directory of static files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticOptions {
    /// Seconds for which clients may reuse a file without revalidation; `None` = the client
    /// decides.
    pub cache_seconds: Option<u32>,
    /// Do not revalidate even on reload.
    pub immutable: bool,
    /// Index file of a directory. Empty means none.
    pub index: String,
    /// Send `app.js.br`, `.zst` or `.gz` instead of `app.js` to clients that accept the coding.
    pub precompressed: bool,
    /// Compress a file when it is sent, if it has no precompressed sibling.
    pub compress: bool,
    /// Send PHP scripts as text.
    pub sources: bool,
    /// Follow symbolic links out of the directory, such as Laravel's `storage`. The owner of the
    /// directory can then serve any file by a link.
    pub links: bool,
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
            links: false,
        }
    }
}

/// A checked directory of static files.
#[derive(Debug, PartialEq, Eq)]
pub struct Directory {
    pub(crate) root: PathBuf,
    pub(crate) options: StaticOptions,
    /// Value of `Cache-Control`, if any.
    pub(crate) cache_control: Option<String>,
    /// Index of the directory in `Roots`.
    pub(crate) number: usize,
}

/// Why a directory cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The path cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The path is not a directory.
    #[error("it is not a directory")]
    NoDirectory,
    /// The index is hidden or in another directory.
    #[error("the index {0:?} is not a file name; use one such as {INDEX:?}, or \"\" for none")]
    IndexName(String),
    /// The index is a PHP script, which would be sent as source text.
    #[error(
        "the index {0:?} would be sent as text and not run; add a route for it, or allow sources"
    )]
    IndexProgram(String),
    /// `immutable` without a cache time.
    #[error("immutable requires cacheSeconds; set it")]
    Immutable,
    /// Caches ignore longer times (RFC 2616, section 14.21).
    #[error("cacheSeconds may be at most {CACHE_SECONDS_MAX}, a year")]
    CacheSeconds,
}

impl Directory {
    /// Checks `root` and `options`.
    pub(crate) fn new(
        root: &Path,
        options: StaticOptions,
        number: usize,
    ) -> Result<Self, DirectoryError> {
        // Make the path absolute, so that a later change of the working directory has no effect. Do
        // not resolve symbolic links, so that a deployment may change them.
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

    /// Returns the path of a file below the directory, or `None` if it is never served. `rest` is
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

    /// Returns true if a directory below has an index file.
    pub(crate) fn has_index(&self, relative: &Path) -> bool {
        let index = &self.options.index;
        let metadata = fs::metadata(self.root.join(relative).join(index));
        !index.is_empty() && metadata.is_ok_and(|metadata| metadata.is_file())
    }
}

/// Returns true if a path has no dot segments, empty segments, NUL, or names with a leading dot
/// (except `.well-known`).
pub(crate) fn is_served(inside: &[u8]) -> bool {
    let mut segments = inside.split(|&byte| byte == b'/').enumerate().peekable();
    while let Some((depth, segment)) = segments.next() {
        let is_last = segments.peek().is_none();
        if segment.is_empty() && !is_last || segment.contains(&0) {
            return false;
        }
        // Includes `.` and `..`.
        if segment.first() == Some(&b'.') && !(depth == 0 && segment == WELL_KNOWN) {
            return false;
        }
    }
    true
}

/// Open directories of a worker, so that opening a file takes one `openat2` call. They are reopened
/// every second, so that a changed symbolic link of a deployment takes effect.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    open: Vec<Option<(OwnedFd, u64)>>,
    /// Number of directories outside the router.
    added: usize,
}

impl Roots {
    /// Increments the number of additional directories.
    pub fn add(&mut self) {
        self.added += 1;
    }

    /// Returns the number of directories outside the router.
    pub fn added(&self) -> usize {
        self.added
    }

    /// Opens a file below `directory`; `now_s` is the current second.
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
        if directory.options.links {
            open_linked(root.as_fd(), &directory.root, relative)
        } else {
            open_within(root.as_fd(), &directory.root, relative)
        }
    }
}

/// Opens a file below a directory outside `Roots`.
pub(crate) fn open_below(root: &Path, relative: &Path) -> Result<fs::File, FileError> {
    open_within(open_root(root)?.as_fd(), root, relative)
}

fn open_root(root: &Path) -> Result<OwnedFd, FileError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty());
    Ok(root.map_err(io::Error::from)?)
}

/// Opens a file without following links out of `root`. The kernel checks this, so there is no race.
fn open_within(
    directory: BorrowedFd<'_>,
    root: &Path,
    relative: &Path,
) -> Result<fs::File, FileError> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    open_resolved(directory, relative, within).unwrap_or_else(|| open_checked(root, relative))
}

/// Opens a file and follows links anywhere except magic links of `/proc`. `relative` has no dot
/// segments.
fn open_linked(
    directory: BorrowedFd<'_>,
    root: &Path,
    relative: &Path,
) -> Result<fs::File, FileError> {
    let within = ResolveFlags::NO_MAGICLINKS;
    open_resolved(directory, relative, within)
        .unwrap_or_else(|| open_plain(&root.join(relative), OFlags::empty()))
}

/// `None`: the system has no `openat2`.
fn open_resolved(
    directory: BorrowedFd<'_>,
    relative: &Path,
    within: ResolveFlags,
) -> Option<Result<fs::File, FileError>> {
    // Without NONBLOCK, opening a pipe would block until it has a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    for _ in 0..RETRIES_MAX {
        match rustix::fs::openat2(directory, relative, flags, Mode::empty(), within) {
            // The file stays open until its client has received it.
            Ok(file) => return Some(Ok(lift(file).into())),
            // A concurrent rename: the kernel could not verify the path.
            Err(Errno::AGAIN | Errno::INTR) => {}
            // An old kernel, or a container that blocks the call.
            Err(Errno::NOSYS | Errno::PERM) => return None,
            Err(errno) => return Some(Err(not_found_or(errno.into()))),
        }
    }
    Some(Err(FileError::Io(io::ErrorKind::ResourceBusy.into())))
}

/// Fallback for systems without `openat2`. A link created between the check and the open is
/// followed. This adds no risk: whoever can create the link can also put files into `root`.
pub(super) fn open_checked(root: &Path, relative: &Path) -> Result<fs::File, FileError> {
    let root = root.canonicalize()?;
    let path = root.join(relative).canonicalize().map_err(not_found_or)?;
    if !path.starts_with(&root) {
        return Err(FileError::NotFound);
    }
    open_plain(&path, OFlags::NOFOLLOW)
}

/// Opens a path chosen by the application, without restriction.
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

/// Maps errors caused by the path to "not found"; other errors are server errors.
fn not_found_or(error: io::Error) -> FileError {
    match Errno::from_io_error(&error) {
        // XDEV: a link leads out. LOOP: a cycle of links. NXIO: a socket.
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
