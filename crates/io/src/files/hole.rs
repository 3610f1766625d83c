//! Holes in files.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate};

/// Returns a range of a file to the file system. The length of the file stays, and the range reads as zeros.
///
/// # Errors
/// `Unsupported` where the file system has no holes; nothing has changed then.
pub fn free_range(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, flags, offset, bytes)?)
}
