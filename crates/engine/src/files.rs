//! Static files: from a path below a directory to an open file, without a way out of that directory.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fermata_proto::date;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The file that is served for a directory.
const INDEX: &str = "index.html";
/// The one name with a leading dot that is served, and only at the top (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";
/// How often an open is tried again that a rename elsewhere has disturbed.
const RETRIES_MAX: usize = 8;

/// An open regular file and what the response says about it.
#[derive(Debug)]
pub struct File {
    /// Open for reading, at its start.
    pub file: fs::File,
    /// Bytes.
    pub len: u64,
    /// Time of the last change, in seconds since 1970.
    pub mtime_s: u64,
    /// The same as an HTTP date.
    pub last_modified: [u8; 29],
    /// Value of `Content-Type`, by the name's extension.
    pub content_type: Cow<'static, str>,
    /// Value of `ETag`, from length and time of change.
    pub etag: Etag,
}

/// An entity tag with its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Etag {
    text: [u8; Self::BYTES_MAX],
    len: u8,
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Nothing to serve: absent, hidden, outside of the directory, or no regular file. Answer 404.
    #[error("there is no such file")]
    NotFound,
    /// A directory with an index, named without its final slash. Answer 308 to the path with one.
    #[error("this is a directory; its path ends in a slash")]
    Directory,
    /// The file is there but cannot be opened. Answer 500 and log it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Etag {
    /// Two quotes, a dash, and two 64-bit numbers in hexadecimal.
    const BYTES_MAX: usize = 35;

    fn new(len: u64, mtime_ns: u64) -> Self {
        let mut text = [0; Self::BYTES_MAX];
        let mut free = &mut text[..];
        // Two numbers of at most 16 digits fit, so this cannot fail; a cut tag would still be a tag.
        let _ = write!(free, "\"{mtime_ns:x}-{len:x}\"");
        let used = Self::BYTES_MAX - free.len();
        Self {
            text,
            len: used as u8,
        }
    }

    /// The tag as it stands in the header.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.len)]
    }
}

/// Opens the file that `rest` names below `root`. `rest` is percent-decoded, and empty or starts with a slash.
///
/// Dot segments, empty segments, NUL and names with a leading dot (except `/.well-known`) are not found, nor is
/// what a symbolic link outside of `root` would reach; a path that ends in a slash means its `index.html`.
///
/// # Errors
/// [`FileError`]
pub fn resolve(root: &Path, rest: &[u8]) -> Result<File, FileError> {
    if rest.is_empty() {
        resolve(root, b"/")?;
        return Err(FileError::Directory);
    }
    let relative = relative(rest).ok_or(FileError::NotFound)?;
    let file = open(root, &relative)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        let index = fs::metadata(root.join(&relative).join(INDEX));
        return Err(if index.is_ok_and(|index| index.is_file()) {
            FileError::Directory
        } else {
            FileError::NotFound
        });
    }
    if !metadata.is_file() {
        return Err(FileError::NotFound);
    }
    let len = metadata.len();
    let mtime_s = u64::try_from(metadata.mtime()).unwrap_or(0);
    let mtime_ns = mtime_s
        .wrapping_mul(1_000_000_000)
        .wrapping_add(metadata.mtime_nsec() as u64);
    Ok(File {
        file,
        len,
        mtime_s,
        last_modified: date::imf_fixdate(mtime_s),
        content_type: content_type(&relative),
        etag: Etag::new(len, mtime_ns),
    })
}

/// Whether the client's copy is still right, so that 304 is the answer (RFC 9110, 13.2.2). For GET and HEAD.
///
/// Takes the values of `If-None-Match` and `If-Modified-Since`; the first one rules when both are there.
#[must_use]
pub fn is_not_modified(
    file: &File,
    if_none_match: Option<&[u8]>,
    if_modified_since: Option<&[u8]>,
) -> bool {
    if let Some(tags) = if_none_match {
        return tags.trim_ascii() == b"*" || lists_tag(tags, file.etag.as_bytes());
    }
    // The time only gives two-digit years their century, for which any time near is good.
    if_modified_since
        .and_then(|since| date::parse(since, file.mtime_s))
        .is_some_and(|since_s| file.mtime_s <= since_s)
}

/// Weak comparison (RFC 9110, 8.8.3.2) with each tag of a list. Our own tags hold no comma.
fn lists_tag(tags: &[u8], tag: &[u8]) -> bool {
    tags.split(|&byte| byte == b',').any(|item| {
        let item = item.trim_ascii();
        item.strip_prefix(b"W/").unwrap_or(item) == tag
    })
}

/// The path below the directory, or `None` when it is one that is never served.
fn relative(rest: &[u8]) -> Option<PathBuf> {
    let inside = rest.strip_prefix(b"/")?;
    let mut segments = inside.split(|&byte| byte == b'/').enumerate().peekable();
    while let Some((depth, segment)) = segments.next() {
        let is_last = segments.peek().is_none();
        if segment.is_empty() && !is_last || segment.contains(&0) {
            return None;
        }
        // Also `.` and `..`.
        if segment.first() == Some(&b'.') && !(depth == 0 && segment == WELL_KNOWN) {
            return None;
        }
    }
    let mut path = PathBuf::from(std::ffi::OsStr::from_bytes(inside));
    if inside.is_empty() || inside.ends_with(b"/") {
        path.push(INDEX);
    }
    Some(path)
}

/// Opens without following a link out of `root`. The kernel does the check, so nothing can change in between.
fn open(root: &Path, relative: &Path) -> Result<fs::File, FileError> {
    let directory = rustix::fs::open(
        root,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(io::Error::from)?;
    // Without NONBLOCK, opening a pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..RETRIES_MAX {
        match rustix::fs::openat2(&directory, relative, flags, Mode::empty(), within) {
            Ok(file) => return Ok(file.into()),
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
fn open_checked(root: &Path, relative: &Path) -> Result<fs::File, FileError> {
    let root = root.canonicalize()?;
    let path = root.join(relative).canonicalize().map_err(not_found_or)?;
    if !path.starts_with(&root) {
        return Err(FileError::NotFound);
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .map_err(not_found_or)
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

/// The media type by extension; text is taken to be UTF-8.
fn content_type(path: &Path) -> Cow<'static, str> {
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or("");
    let extension = extension.to_ascii_lowercase();
    Cow::Borrowed(match extension.as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        // Source code is shown as text rather than run or guessed at.
        "php" => "text/plain; charset=utf-8",
        _ => match mime_guess::from_ext(&extension).first_raw() {
            Some(text) if text.starts_with("text/") => {
                return Cow::Owned(format!("{text}; charset=utf-8"));
            }
            Some(other) => other,
            None => "application/octet-stream",
        },
    })
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
