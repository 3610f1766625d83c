//! Opening files as root where other users may create links.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::process::ROOT;

/// Permission bits that let users other than a folder's owner create files in it.
const OTHERS_WRITE: u32 = 0o022;

/// Opens a file with `options` and the custom `flags`. Follows a link only in a folder where root alone can create files.
///
/// In any other folder, another user could create a link to a file that belongs to root. The server would then write to that file
/// or change its owner.
///
/// # Errors
/// The file system's error. If the path is a link, the error names the link.
pub(crate) fn open_as_root(options: &mut OpenOptions, flags: i32, path: &Path) -> io::Result<File> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let folder = folder.metadata()?;
    if folder.uid() == ROOT && folder.mode() & OTHERS_WRITE == 0 {
        return options.custom_flags(flags).open(path);
    }
    let is_link =
        || io::Error::other("it is a link in a directory where not only root can create links");
    let file = options.custom_flags(flags | libc::O_NOFOLLOW).open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => is_link(),
        _ => error,
    })?;
    let kind = file.metadata()?;
    if kind.is_file() && kind.nlink() != 1 {
        return Err(is_link());
    }
    Ok(file)
}
