//! Memory that all processes of a server share.
//!
//! The mapping lives as long as the process, so its words can be handed out as `'static` and
//! survive every owner; a forked child sees the same memory. It is made of atomics only: any
//! process may die at any instruction, and the other ones go on with what it has written.

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

    /// Memory that is a file: [`Held::open`] and [`Held::map`] in one.
    ///
    /// # Errors
    /// Those of both.
    pub fn file(path: &Path, words: usize) -> io::Result<Self> {
        Held::open(path)?.map(words)
    }

    /// The memory.
    #[must_use]
    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    /// Has every word be zero, and gives the memory back to the machine until it is written again. No thread may be using
    /// what was in it.
    ///
    /// # Errors
    /// What the kernel says; the words are then as they were, in part or all.
    pub fn clear(&self) -> io::Result<()> {
        let bytes = std::mem::size_of_val(self.words);
        // SAFETY: the whole of a shared mapping of ours, which stays mapped: atomics that are read meanwhile are zero or what
        // they were.
        unsafe {
            madvise(
                self.words.as_ptr().cast_mut().cast(),
                bytes,
                Advice::LinuxRemove,
            )?;
        }
        Ok(())
    }

    /// Whether the file had content before, which its user has to validate.
    #[must_use]
    pub fn existed(&self) -> bool {
        self.existed
    }
}

/// Memory shared with the processes that are forked from here on, for as long as its owner lives in each of them.
#[derive(Debug)]
pub struct Region {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: what it owns is atomics, which any thread may use; they stay where they are until it is dropped.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Words that are zero, and take memory once they are written.
    ///
    /// # Errors
    /// `InvalidInput` for zero or impossibly many words, `OutOfMemory`.
    pub fn new(words: usize) -> io::Result<Self> {
        let bytes = bytes_of(words)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
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
        // SAFETY: page aligned, `words` long and mapped for as long as `self`. Any bit pattern is a valid `AtomicU64`, and
        // other processes, like this one, write it through atomics only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the whole of a mapping of ours, of which nobody has a reference any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), size_of_val(&**self)) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A file in memory, gone with the last process that has it: what one process writes those see that it has forked.
///
/// # Errors
/// No memory or descriptor left.
pub fn anonymous_file() -> io::Result<File> {
    Ok(memfd_create("fermata", MemfdFlags::CLOEXEC)?.into())
}

/// A file that nobody else uses as memory, and that is as it was until it is mapped.
#[derive(Debug)]
pub struct Held {
    file: File,
    bytes: u64,
}

impl Held {
    /// Creates the file or opens it, and locks it until the last process of this server is gone.
    ///
    /// # Errors
    /// `WouldBlock` when another server uses the file, or what the file system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }

    /// How large it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its first words; what it does not have is zero.
    ///
    /// # Errors
    /// What the file system says.
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

    /// Makes it memory, grown to the size wanted (never shrunk).
    ///
    /// Its blocks are reserved at once: on a sparse file, a disk that fills up later would end the
    /// writing process by SIGBUS. A file system that cannot reserve gives a sparse file.
    ///
    /// # Errors
    /// `InvalidInput` for zero or impossibly many words, or what the file system says.
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

/// Where the memory is whose loss is told, and what is told.
static WATCHED: AtomicUsize = AtomicUsize::new(0);
static WATCHED_BYTES: AtomicUsize = AtomicUsize::new(0);
static LAST_WORDS: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static LAST_WORDS_BYTES: AtomicUsize = AtomicUsize::new(0);

impl Shared {
    /// Has a process that finds a part of this memory gone, because its file was cut or its disk fails, write `last_words`
    /// to standard error and end with `code`, instead of being ended by SIGBUS without a word. Forked processes do the
    /// same. For one memory of a process; to be called once.
    ///
    /// # Errors
    /// The kernel refuses the handler.
    pub fn tell_loss(&self, last_words: Vec<u8>, code: i32) -> io::Result<()> {
        let text = last_words.leak();
        LAST_WORDS_BYTES.store(text.len(), Ordering::SeqCst);
        LAST_WORDS.store(text.as_mut_ptr(), Ordering::SeqCst);
        LOSS_CODE.store(code, Ordering::SeqCst);
        WATCHED_BYTES.store(size_of_val(self.words), Ordering::SeqCst);
        WATCHED.store(self.words.as_ptr().addr(), Ordering::SeqCst);
        // SAFETY: all-zero is a valid `sigaction` (no flags, no signals blocked).
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        new.sa_sigaction = on_loss as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void)
            as libc::sighandler_t;
        new.sa_flags = libc::SA_SIGINFO;
        // SAFETY: `new` is initialised, and the handler makes async-signal-safe calls only.
        match unsafe { libc::sigaction(libc::SIGBUS, &raw const new, ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// What a process exits with that has lost its memory.
static LOSS_CODE: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_loss(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid structure to a handler with SA_SIGINFO; for SIGBUS it holds an address.
    let address = unsafe { (*info).si_addr() }.addr();
    let start = WATCHED.load(Ordering::SeqCst);
    let is_ours = address >= start && address - start < WATCHED_BYTES.load(Ordering::SeqCst);
    if !is_ours {
        // Not ours: the instruction is run again, and the signal then does what it does by default.
        // SAFETY: restoring the default action is async-signal-safe.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    let mut standard_error = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: both calls are async-signal-safe; the text was leaked in `tell_loss`, so it is there for ever. No thread waits for
    // a log, also not here.
    unsafe {
        if libc::poll(&raw mut standard_error, 1, 0) == 1 {
            let text = LAST_WORDS.load(Ordering::SeqCst);
            let bytes = LAST_WORDS_BYTES.load(Ordering::SeqCst);
            libc::write(libc::STDERR_FILENO, text.cast(), bytes);
        }
        libc::_exit(LOSS_CODE.load(Ordering::SeqCst));
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
