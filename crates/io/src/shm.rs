//! Memory that all processes of a server share.
//!
//! The mapping lives as long as the process, so its words can be handed out as `'static` and
//! survive every owner; a forked child sees the same memory. It is made of atomics only: any
//! process may die at any instruction, and the other ones go on with what it has written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, IntoRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    FallocateFlags, FlockOperation, MemfdFlags, fallocate, flock, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// Permissions of a new file: the owner alone, as it holds messages.
const FILE_MODE: u32 = 0o600;

/// A shared mapping of whole words, zero where nothing was written yet.
#[derive(Debug, Clone, Copy)]
pub struct Shared {
    words: &'static [AtomicU64],
    existed: bool,
}

impl Shared {
    /// Memory without a file, gone with the last process.
    ///
    /// # Errors
    /// `InvalidInput` for zero or impossibly many words; no memory or descriptor left.
    pub fn anonymous(words: usize) -> io::Result<Self> {
        let bytes = bytes_of(words)?;
        let memory = memfd_create("fermata", MemfdFlags::CLOEXEC)?;
        ftruncate(&memory, bytes)?;
        Ok(Self {
            words: map(&memory, words)?,
            existed: false,
        })
    }

    /// Memory that is a file, created or grown to the size wanted (never shrunk) and locked until
    /// the last process of this server is gone.
    ///
    /// Its blocks are reserved at once: on a sparse file, a disk that fills up later would end the
    /// writing process by SIGBUS. A file system that cannot reserve gives a sparse file.
    ///
    /// # Errors
    /// `WouldBlock` when another server uses the file, `InvalidInput` for zero or impossibly many
    /// words, or what the file system says.
    pub fn file(path: &Path, words: usize) -> io::Result<Self> {
        let bytes = bytes_of(words)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let old_bytes = file.metadata()?.len();
        if old_bytes < bytes {
            match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP) => file.set_len(bytes)?,
                Err(error) => return Err(error.into()),
            }
        }
        let words = map(&file, words)?;
        keep_lock(file);
        Ok(Self {
            words,
            existed: old_bytes != 0,
        })
    }

    /// The memory.
    #[must_use]
    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    /// Whether the file had content before, which its user has to validate.
    #[must_use]
    pub fn existed(&self) -> bool {
        self.existed
    }
}

/// The lock belongs to the open file, which children inherit: never closing it keeps the lock for
/// as long as any of them lives.
fn keep_lock(file: File) {
    let _ = file.into_raw_fd();
}

fn bytes_of(words: usize) -> io::Result<u64> {
    match words.checked_mul(size_of::<AtomicU64>()) {
        Some(bytes) if bytes != 0 && bytes <= isize::MAX as usize => Ok(bytes as u64),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn map(file: impl AsFd, words: usize) -> io::Result<&'static [AtomicU64]> {
    let bytes = words * size_of::<AtomicU64>();
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let start = unsafe {
        mmap(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file,
            0,
        )?
    };
    // SAFETY: the mapping is page aligned, `bytes` long, backed by a file at least that long, and
    // never unmapped. Any bit pattern is a valid `AtomicU64`, and other processes, like this one,
    // write it through atomics only.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), words) })
}
