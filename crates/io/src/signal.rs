//! Signals as bytes in a pipe.
//!
//! A signal handler may only do async-signal-safe work, so it writes the signal's number into a pipe that the loop
//! watches. Handlers are installed with `sigaction` and reset by `exec`, so executables that a PHP script starts behave
//! as usual. No signal is set to `SIG_IGN`, which `exec` would preserve.
//!
//! Writing to a closed connection raises no SIGPIPE, because the driver sends with `MSG_NOSIGNAL`. `sendfile` has no
//! such flag, so its callers ignore the signal.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::driver::Fd;
use crate::process;

pub use libc::{
    SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};

/// Highest signal number on Linux; bit `n - 1` of a word represents signal `n`.
const SIGNAL_MAX: i32 = 64;

/// Descriptor that the handler writes to; -1 without a pipe.
static WRITE_END: AtomicI32 = AtomicI32::new(-1);

/// Process that owns the pipe.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Signals that arrived in a forked child before it had a pipe of its own.
///
/// Otherwise they would be written into the pipe that is shared with the parent: a signal that stops a worker right after its fork
/// would stop the master.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// The signal pipe of a process.
#[derive(Debug)]
pub struct Pipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
}

impl Pipe {
    /// Redirects these signals to a new pipe, which replaces the process's previous one. Call it again after a fork;
    /// signals that arrived in between are delivered.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid signal number or one that cannot be caught, or no descriptor is left.
    pub fn install(signals: &[i32]) -> io::Result<Self> {
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let pipe = Self {
            read_end,
            write_end,
        };
        // Store in this order: a handler that sees the new owner also sees the new pipe.
        WRITE_END.store(pipe.write_end.as_raw_fd(), Ordering::SeqCst);
        OWNER.store(process::pid(), Ordering::SeqCst);
        for &signal in signals {
            handle(signal, forward)?;
        }
        let early = EARLY.swap(0, Ordering::SeqCst);
        for signal in (1..=SIGNAL_MAX).filter(|signal| early & bit(*signal) != 0) {
            forward(signal);
        }
        Ok(pipe)
    }

    /// Returns the number of the oldest unread signal, or `None`.
    #[must_use]
    pub fn read(&self) -> Option<i32> {
        let mut number = [0_u8; 1];
        loop {
            match rustix::io::read(self.read_end.as_fd(), &mut number[..]) {
                Ok(1) => return Some(i32::from(number[0])),
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// Returns the descriptor for [`crate::Driver::add_wake`].
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.read_end.as_raw_fd()
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read_end.as_fd()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // Clear the static only if no later pipe has replaced this one.
        let own = self.write_end.as_raw_fd();
        let _ = WRITE_END.compare_exchange(own, -1, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Ignores a signal with an empty handler; unlike `SIG_IGN`, `exec` resets it.
///
/// # Errors
/// `InvalidInput` for an invalid signal number or one that cannot be caught.
pub fn ignore(signal: i32) -> io::Result<()> {
    handle(signal, discard)
}

/// Restores the default effect of a signal.
///
/// # Errors
/// `InvalidInput` for an invalid signal number or one that cannot be caught.
pub fn restore_default(signal: i32) -> io::Result<()> {
    set_action(signal, libc::SIG_DFL)
}

pub(crate) fn handle(signal: i32, handler: extern "C" fn(i32)) -> io::Result<()> {
    set_action(signal, handler as libc::sighandler_t)
}

fn set_action(signal: i32, action: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sigaction` (no flags, no blocked signals).
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = action;
    // SA_RESTART: PHP's own blocking calls must not fail with EINTR. `epoll_wait` returns despite this flag. SA_NOCLDSTOP: a
    // stopped or continued worker has not exited, so no signal is needed.
    new.sa_flags = libc::SA_RESTART | libc::SA_NOCLDSTOP;
    // SAFETY: `new` is a valid `sigaction`, and `sigemptyset` initializes its mask. The handlers use only atomics,
    // `getpid` and `write`, which are async-signal-safe.
    let result = unsafe {
        libc::sigemptyset(&raw mut new.sa_mask);
        libc::sigaction(signal, &raw const new, std::ptr::null_mut())
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Signal handler: async-signal-safe, and preserves `errno` of the interrupted code.
extern "C" fn forward(signal: i32) {
    // SAFETY: `__errno_location` returns the calling thread's `errno`, which is always valid.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: no arguments, no memory.
    let pid = unsafe { libc::getpid() };
    let write_end = WRITE_END.load(Ordering::SeqCst);
    if pid != OWNER.load(Ordering::SeqCst) {
        EARLY.fetch_or(bit(signal), Ordering::SeqCst);
    } else if write_end >= 0 {
        let number = signal as u8;
        // If the pipe is full (64 KiB of unread signals), the loop will read earlier bytes of the same signal. SAFETY: the pointer
        // is to one readable byte. The descriptor is that of the non-blocking pipe, or -1 if the pipe was dropped.
        unsafe { libc::write(write_end, (&raw const number).cast(), 1) };
    }
    // SAFETY: `__errno_location` returns the calling thread's `errno`, which is always valid.
    unsafe { *libc::__errno_location() = errno };
}

extern "C" fn discard(_signal: i32) {}

fn bit(signal: i32) -> u64 {
    if (1..=SIGNAL_MAX).contains(&signal) {
        1 << (signal - 1)
    } else {
        0
    }
}
