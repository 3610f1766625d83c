//! Static files: from a path below a directory to an open file, and what of it a request gets.
//!
//! `directory` opens files without a way out, `types` knows media types, `plan` weighs the conditions and ranges of a
//! request, `compress` makes what is sent smaller.

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

/// What stands behind a file's name for each coding, our favourite first: what compresses best.
const SIBLINGS: [(Coding, &str); 3] = [
    (Coding::Brotli, ".br"),
    (Coding::Zstd, ".zst"),
    (Coding::Gzip, ".gz"),
];

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
    /// What its bytes are encoded in, when it is the sibling of the file that was asked for.
    pub coding: Option<Coding>,
    /// What tells its content from all others on this machine.
    pub(crate) key: FileKey,
}

/// Identity and state of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    device: u64,
    inode: u64,
    mtime_ns: u64,
    len: u64,
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
    /// A weak mark, two quotes, two dashes, two 64-bit numbers in hexadecimal and the name of a coding.
    const BYTES_MAX: usize = 42;

    /// Weak when the bytes depend on more than the file: on the version of what has compressed them.
    pub(crate) fn new(key: &FileKey, coding: Option<Coding>, is_weak: bool) -> Self {
        let mut text = [0; Self::BYTES_MAX];
        let mut free = &mut text[..];
        let weak = if is_weak { "W/" } else { "" };
        let FileKey { mtime_ns, len, .. } = key;
        // All of it fits, so this cannot fail; a cut tag would still be a tag.
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

    /// The tag as it stands in the header.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.len)]
    }
}

impl File {
    /// Takes an open file; `path` is what it was asked for as, and gives its type.
    pub(crate) fn new(
        file: fs::File,
        path: &Path,
        coding: Option<Coding>,
    ) -> Result<File, FileError> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(FileError::Directory);
        }
        if !metadata.is_file() {
            return Err(FileError::NotFound);
        }
        let len = metadata.len();
        let mtime_s = u64::try_from(metadata.mtime()).unwrap_or(0);
        let mtime_ns = mtime_s
            .wrapping_mul(1_000_000_000)
            .wrapping_add(metadata.mtime_nsec() as u64);
        let key = FileKey {
            device: metadata.dev(),
            inode: metadata.ino(),
            mtime_ns,
            len,
        };
        Ok(File {
            file,
            len,
            mtime_s,
            last_modified: date::imf_fixdate(mtime_s),
            content_type: content_type(path),
            etag: Etag::new(&key, coding, false),
            coding,
            key,
        })
    }

    /// What it can be told by.
    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators {
            etag: Some(self.etag.as_bytes()),
            modified_s: Some(self.mtime_s),
        }
    }
}

/// Opens the file that `rest` names below `directory`, or its compressed sibling for a client that reads it. `rest`
/// is percent-decoded, and empty or starts with a slash; `now_s` is the present second.
///
/// Dot segments, empty segments, NUL and names with a leading dot (except `/.well-known`) are not found, nor is
/// what a symbolic link outside of the directory would reach; a path that ends in a slash means its index.
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
    match File::new(opened, &relative, None) {
        Err(FileError::Directory) if !directory.has_index(&relative) => Err(FileError::NotFound),
        outcome => outcome,
    }
}

/// The best sibling that is there.
fn sibling(
    roots: &mut Roots,
    directory: &Directory,
    relative: &Path,
    codings: &Codings,
    now_s: u64,
) -> Option<File> {
    let mut left = SIBLINGS;
    let mut left_len = left.len();
    // As long as the client likes one of those left: most often the first is there, or none.
    while let Some(best) = codings.best(left[..left_len].iter().map(|(coding, _)| *coding)) {
        let at = left.iter().position(|(coding, _)| *coding == best)?;
        let mut name = OsString::from(relative);
        name.push(left[at].1);
        if let Ok(file) = roots.open(directory, &PathBuf::from(name), now_s)
            && let Ok(file) = File::new(file, relative, Some(best))
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
