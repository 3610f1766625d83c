//! Memory that all processes of a server share.
//!
//! A mapping lives as long as the process, so its words are `'static` and outlive every owner; forked children share the memory.
//! The memory consists only of atomics: a process may crash at any instruction, and the other processes continue with the values
//! that it wrote.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, IntoRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{
    FallocateFlags, FlockOperation, MemfdFlags, fallocate, flock, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::links;
use crate::process::{self, ROOT};

/// Permissions of a new file: access only for the owner, because the file contains messages.
const FILE_MODE: u32 = 0o600;

/// A shared mapping of complete words, initially zero.
#[derive(Debug, Clone, Copy)]
pub struct Shared {
    words: &'static [AtomicU64],
    existed: bool,
}

impl Shared {
    /// Creates memory without a file, which is freed when the last process exits.
    ///
    /// # Errors
    /// `InvalidInput` for zero or too many words; no memory or descriptor is left.
    pub fn anonymous(words: usize) -> io::Result<Self> {
        let bytes = bytes_of(words)?;
        let memory = memfd_create("fermata", MemfdFlags::CLOEXEC)?;
        ftruncate(&memory, bytes)?;
        Ok(Self {
            words: map(&memory, words)?,
            existed: false,
        })
    }

    /// Maps a file: [`Held::open`] followed by [`Held::map`].
    ///
    /// # Errors
    /// As for both.
    pub fn file(path: &Path, words: usize) -> io::Result<Self> {
        Held::open(path)?.map(words)
    }

    /// Returns the mapped words.
    #[must_use]
    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    /// Sets every word to zero and returns the memory to the kernel until it is written again. No thread may be using the
    /// content.
    ///
    /// # Errors
    /// The kernel's error; some or all words are then unchanged.
    pub fn clear(&self) -> io::Result<()> {
        let bytes = std::mem::size_of_val(self.words);
        // SAFETY: the range is a complete shared mapping that stays mapped. Atomics read concurrently are zero or
        // unchanged.
        unsafe {
            madvise(
                self.words.as_ptr().cast_mut().cast(),
                bytes,
                Advice::LinuxRemove,
            )?;
        }
        Ok(())
    }

    /// Returns true if the file had content when it was opened. The caller must validate this content.
    #[must_use]
    pub fn existed(&self) -> bool {
        self.existed
    }
}

/// Memory shared with processes that are forked from now on. In each process it stays mapped until its owner is dropped.
#[derive(Debug)]
pub struct Region {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the region contains only atomics, which any thread may use, at an address that is fixed until it is dropped.
unsafe impl Send for Region {}
// SAFETY: as for `Send`: only atomics, at a fixed address.
unsafe impl Sync for Region {}

impl Region {
    /// Creates zeroed words. A word uses memory only after it was written.
    ///
    /// # Errors
    /// `InvalidInput` for zero or too many words, `OutOfMemory`.
    pub fn new(words: usize) -> io::Result<Self> {
        let bytes = bytes_of(words)?;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let start = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                bytes as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, words })
    }
}

impl Deref for Region {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `words` long and mapped until `self` is dropped. Any bit pattern is a valid
        // `AtomicU64`, and all processes write it only through atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range is a complete mapping of this value, and no reference to it exists any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), size_of_val(&**self)) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Creates a file in memory that is shared with forked processes, and freed when the last of them exits.
///
/// # Errors
/// No memory or descriptor is left.
pub fn anonymous_file() -> io::Result<File> {
    Ok(memfd_create("fermata", MemfdFlags::CLOEXEC)?.into())
}

/// A locked file whose content is unchanged until it is mapped.
#[derive(Debug)]
pub struct Held {
    file: File,
    bytes: u64,
}

impl Held {
    /// Creates or opens the file and locks it until the last process of this server exits.
    ///
    /// # Errors
    /// `WouldBlock` if another server uses the file, or the file system's error; as root an error for a link that another user
    /// may have created.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.mode(FILE_MODE);
        let file = if process::user() == ROOT {
            links::open_as_root(&mut options, libc::O_CLOEXEC, path)
        } else {
            options.open(path)
        }?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }

    /// Returns the size of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the first words of the file; words beyond its end are zero.
    ///
    /// # Errors
    /// The file system's error.
    pub fn head<const WORDS: usize>(&self) -> io::Result<[u64; WORDS]> {
        let mut head = [0; WORDS];
        for (at, word) in head.iter_mut().enumerate() {
            let mut bytes = [0; size_of::<u64>()];
            let mut filled = 0;
            while filled < bytes.len() {
                let place = (at * bytes.len() + filled) as u64;
                match self.file.read_at(&mut bytes[filled..], place)? {
                    0 => break,
                    read => filled += read,
                }
            }
            *word = u64::from_ne_bytes(bytes);
        }
        Ok(head)
    }

    /// Maps the file, enlarged to `words` if it is smaller (never shrunk).
    ///
    /// Reserves the file's blocks immediately: with a sparse file, the kernel would kill the writing process by SIGBUS if the disk
    /// is full. If the file system cannot reserve blocks, the file is sparse.
    ///
    /// # Errors
    /// `InvalidInput` for zero or too many words, or the file system's error.
    pub fn map(self, words: usize) -> io::Result<Shared> {
        let bytes = bytes_of(words)?;
        if self.bytes < bytes {
            match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP) => self.file.set_len(bytes)?,
                Err(error) => return Err(error.into()),
            }
        }
        let words = map(&self.file, words)?;
        keep_lock(self.file);
        Ok(Shared {
            words,
            existed: self.bytes != 0,
        })
    }
}

/// Memory whose loss is reported, and the message.
static WATCHED: AtomicUsize = AtomicUsize::new(0);
static WATCHED_BYTES: AtomicUsize = AtomicUsize::new(0);
static LAST_WORDS: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static LAST_WORDS_BYTES: AtomicUsize = AtomicUsize::new(0);

impl Shared {
    /// Installs a SIGBUS handler that reports the loss of this memory, for example when its file was truncated or its disk fails.
    /// The handler writes `last_words` to standard error and exits with `code`. Forked processes inherit the handler. Call this
    /// once per process, for one memory.
    ///
    /// # Errors
    /// The kernel rejects the handler.
    pub fn tell_loss(&self, last_words: Vec<u8>, code: i32) -> io::Result<()> {
        let text = last_words.leak();
        LAST_WORDS_BYTES.store(text.len(), Ordering::SeqCst);
        LAST_WORDS.store(text.as_mut_ptr(), Ordering::SeqCst);
        LOSS_CODE.store(code, Ordering::SeqCst);
        WATCHED_BYTES.store(size_of_val(self.words), Ordering::SeqCst);
        WATCHED.store(self.words.as_ptr().addr(), Ordering::SeqCst);
        // SAFETY: all-zero is a valid `sigaction` (no flags, no blocked signals).
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        new.sa_sigaction = on_loss as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void)
            as libc::sighandler_t;
        new.sa_flags = libc::SA_SIGINFO;
        // SAFETY: `new` is initialized, and the handler makes only async-signal-safe calls.
        match unsafe { libc::sigaction(libc::SIGBUS, &raw const new, ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Exit code of a process that lost its memory.
static LOSS_CODE: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_loss(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid structure, and for SIGBUS it contains an address.
    let address = unsafe { (*info).si_addr() }.addr();
    let start = WATCHED.load(Ordering::SeqCst);
    let is_ours = address >= start && address - start < WATCHED_BYTES.load(Ordering::SeqCst);
    if !is_ours {
        // For any other address, the instruction is executed again, and the signal then has its default effect. SAFETY: restoring
        // the default action is async-signal-safe.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    let mut standard_error = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: all calls are async-signal-safe; `tell_loss` leaked the text, so it is valid forever. Polling first ensures
    // that a full log does not block the exit.
    unsafe {
        if libc::poll(&raw mut standard_error, 1, 0) == 1 {
            let text = LAST_WORDS.load(Ordering::SeqCst);
            let bytes = LAST_WORDS_BYTES.load(Ordering::SeqCst);
            libc::write(libc::STDERR_FILENO, text.cast(), bytes);
        }
        libc::_exit(LOSS_CODE.load(Ordering::SeqCst));
    }
}

/// Retains the lock until this process and its children exit: the lock belongs to the open file description, which children
/// inherit.
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
    // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
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
    // SAFETY: the mapping is page-aligned, `bytes` long, backed by a file of at least that length, and never unmapped.
    // Any bit pattern is a valid `AtomicU64`, and all processes write it only through atomics.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), words) })
}
