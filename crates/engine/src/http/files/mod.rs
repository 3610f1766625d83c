//! Static files: from a path below a directory to an open file, and the part of it that a request
//! receives.
//!
//! `directory` opens files safely, `types` determines media types, `plan` evaluates conditions and
//! ranges, `compress` compresses content.

mod compress;
mod directory;
mod plan;
mod types;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fermata_proto::conditions::Validators;
use fermata_proto::date;
use fermata_proto::negotiate::{Coding, Codings};

pub(crate) use compress::{Compressed, Compressors};
pub use directory::{Directory, DirectoryError, StaticOptions};
pub(crate) use directory::{Roots, is_served, open_anywhere, open_below};
pub use plan::ContentHeaders;
pub(crate) use plan::{Plan, part_head, parts_tail};
pub use types::is_program;
pub(crate) use types::{content_type, is_compressible};

/// File name suffix of each coding, best compression first.
const SIBLINGS: [(Coding, &str); 3] = [
    (Coding::Brotli, ".br"),
    (Coding::Zstd, ".zst"),
    (Coding::Gzip, ".gz"),
];

/// An open regular file with its response metadata.
#[derive(Debug)]
pub struct File {
    /// The file, open for reading at its start.
    pub file: fs::File,
    /// Length in bytes.
    pub len: u64,
    /// Validators; `None` if the modification time is implausible, see [`Modified::new`].
    pub(crate) modified: Option<Modified>,
    /// Value of `Content-Type`, by the name's extension.
    pub content_type: Cow<'static, str>,
    /// Content coding of the file, if it is a precompressed sibling of the requested file.
    pub coding: Option<Coding>,
    /// Identifies the file's content on this machine.
    pub(crate) key: FileKey,
}

/// Validators of a file (RFC 9110, section 8.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modified {
    /// Seconds since 1970.
    seconds: u64,
    /// Value of `Last-Modified`.
    pub(crate) date: [u8; 29],
    /// Value of `ETag`, from length and modification time.
    pub(crate) etag: Etag,
}

/// Identity and state of a file's content.
///
/// The kernel sets the change time itself. It differs after a file was overwritten and its modification time restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    device: u64,
    inode: u64,
    mtime_ns: u64,
    ctime_ns: u64,
    len: u64,
}

/// Modification times up to this one are placeholders: reproducible builds store 0 or 1 for every file.
const PLACEHOLDER_MTIME_S_MAX: i64 = 1;

/// An entity tag with its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Etag {
    text: [u8; Self::BYTES_MAX],
    len: u8,
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Absent, hidden, outside the directory, or not a regular file. Status 404.
    #[error("there is no such file")]
    NotFound,
    /// A directory with an index, requested without its final slash. Status 308, to the path with the slash.
    #[error("this is a directory; its path ends in a slash")]
    Directory,
    /// The file exists but cannot be opened. Status 500, and logged.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Etag {
    /// Length of a weak mark, two quotes, two dashes, two 64-bit numbers in hexadecimal and a
    /// coding's name.
    const BYTES_MAX: usize = 42;

    fn new(key: &FileKey, coding: Option<Coding>, is_weak: bool) -> Self {
        let mut text = [0; Self::BYTES_MAX];
        let mut free = &mut text[..];
        let weak = if is_weak { "W/" } else { "" };
        let FileKey { mtime_ns, len, .. } = key;
        // The tag always fits, so this cannot fail; a truncated tag would still be valid.
        let _ = write!(free, "{weak}\"{mtime_ns:x}-{len:x}");
        if let Some(coding) = coding {
            let _ = write!(free, "-{}", coding.name());
        }
        let _ = free.write_all(b"\"");
        let used = Self::BYTES_MAX - free.len();
        Self {
            text,
            len: used as u8,
        }
    }

    /// Returns the tag as header value.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.len)]
    }
}

impl Modified {
    /// Returns the validators of a file. Returns `None` if its modification time is implausible: a
    /// placeholder (0 or 1), before 1970, or later than `now_s`. Two versions of a file may share
    /// such a time, so a client could keep an outdated version. `Last-Modified` values in the
    /// future are forbidden (RFC 9110, section 8.8.2.1).
    fn new(key: &FileKey, mtime_s: i64, coding: Option<Coding>, now_s: u64) -> Option<Self> {
        let seconds = u64::try_from(mtime_s).ok()?;
        (mtime_s > PLACEHOLDER_MTIME_S_MAX && seconds <= now_s).then(|| Self {
            seconds,
            date: date::imf_fixdate(seconds),
            etag: Etag::new(key, coding, false),
        })
    }

    /// Returns the validators of the same content, compressed by this server with `coding`. The tag is weak, because the bytes also
    /// depend on the version of the compressor.
    pub(crate) fn compressed(self, key: &FileKey, coding: Coding) -> Self {
        Self {
            etag: Etag::new(key, Some(coding), true),
            ..self
        }
    }

    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators {
            etag: Some(self.etag.as_bytes()),
            modified_s: Some(self.seconds),
        }
    }
}

impl File {
    /// Wraps an open file. `path` is the requested path, which determines the type; `now_s` is the current time.
    pub(crate) fn new(
        file: fs::File,
        path: &Path,
        coding: Option<Coding>,
        now_s: u64,
    ) -> Result<File, FileError> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(FileError::Directory);
        }
        if !metadata.is_file() {
            return Err(FileError::NotFound);
        }
        let len = metadata.len();
        let nanoseconds = |seconds: i64, rest: i64| {
            (seconds as u64)
                .wrapping_mul(1_000_000_000)
                .wrapping_add(rest as u64)
        };
        let key = FileKey {
            device: metadata.dev(),
            inode: metadata.ino(),
            mtime_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            len,
        };
        Ok(File {
            file,
            len,
            modified: Modified::new(&key, metadata.mtime(), coding, now_s),
            content_type: content_type(path),
            coding,
            key,
        })
    }
}

/// Opens the file named by `rest` below `directory`, or a compressed sibling that the client
/// accepts. `rest` is percent-decoded, and empty or starts with a slash; `now_s` is the current
/// second.
///
/// Paths with dot segments, empty segments, NUL, or names with a leading dot (except `/.well-known`), and symbolic links that leave
/// the directory, count as not found. A path with a final slash selects the directory's index.
///
/// # Errors
/// [`FileError`]
pub(crate) fn resolve(
    roots: &mut Roots,
    directory: &Directory,
    rest: &[u8],
    codings: &Codings,
    now_s: u64,
) -> Result<File, FileError> {
    if rest.is_empty() {
        resolve(roots, directory, b"/", &Codings::NONE, now_s)?;
        return Err(FileError::Directory);
    }
    let relative = directory.relative(rest).ok_or(FileError::NotFound)?;
    if directory.options.precompressed
        && !codings.is_empty()
        && is_compressible(content_type(&relative).as_bytes())
        && let Some(file) = sibling(roots, directory, &relative, codings, now_s)
    {
        return Ok(file);
    }
    let opened = roots.open(directory, &relative, now_s)?;
    match File::new(opened, &relative, None, now_s) {
        Err(FileError::Directory) if !directory.has_index(&relative) => Err(FileError::NotFound),
        outcome => outcome,
    }
}

/// Returns the best available sibling.
fn sibling(
    roots: &mut Roots,
    directory: &Directory,
    relative: &Path,
    codings: &Codings,
    now_s: u64,
) -> Option<File> {
    let mut left = SIBLINGS;
    let mut left_len = left.len();
    // Try the remaining codings that the client accepts. Usually the first sibling exists, or no sibling does.
    while let Some(best) = codings.best(left[..left_len].iter().map(|(coding, _)| *coding)) {
        let at = left.iter().position(|(coding, _)| *coding == best)?;
        let mut name = OsString::from(relative);
        name.push(left[at].1);
        if let Ok(file) = roots.open(directory, &PathBuf::from(name), now_s)
            && let Ok(file) = File::new(file, relative, Some(best), now_s)
        {
            return Some(file);
        }
        left[at..left_len].rotate_left(1);
        left_len -= 1;
    }
    None
}

#[cfg(test)]
mod tests;
