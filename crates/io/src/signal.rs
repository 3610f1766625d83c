//! Signals as bytes in a pipe.
//!
//! A handler may do next to nothing, so it writes the signal's number into a pipe that the loop
//! watches. Handlers are installed with `sigaction` and are reset by `exec`, so programs that a PHP
//! script starts behave as usual; nothing is ever set to `SIG_IGN`, which `exec` would pass on.
//! Writing to a closed connection raises no SIGPIPE, because the driver sends with `MSG_NOSIGNAL`; `sendfile`
//! knows no such flag, so who uses it ignores the signal.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::driver::Fd;
use crate::process;

pub use libc::{
    SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};

/// Signal numbers go up to 64 on Linux; bit `n - 1` of a word stands for signal `n`.
const SIGNAL_MAX: i32 = 64;

/// Where the handler writes, -1 while there is no pipe.
static WRITE_END: AtomicI32 = AtomicI32::new(-1);

/// The process whose pipe that is.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Signals that reached a forked child before it had a pipe of its own.
///
/// Without it they would be written into the pipe that the child shares with its parent: a worker
/// told to stop right after its birth would stop the master.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// The reading end of the process's signal pipe.
#[derive(Debug)]
pub struct Pipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
}

impl Pipe {
    /// Directs these signals to a new pipe, which replaces the process's previous one. To be called
    /// again after a fork; signals that came in between are delivered.
    ///
    /// # Errors
    /// `InvalidInput` for a number that is no signal or cannot be caught, or no descriptor left.
    pub fn install(signals: &[i32]) -> io::Result<Self> {
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let pipe = Self {
            read_end,
            write_end,
        };
        // In this order: a handler that sees the new owner also sees the new pipe.
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

    /// The next signal's number, oldest first; `None` when there is none.
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

    /// What to give to [`crate::Driver::add_wake`].
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
        // Only if no later pipe has taken the place.
        let own = self.write_end.as_raw_fd();
        let _ = WRITE_END.compare_exchange(own, -1, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Makes a signal do nothing, by a handler that does nothing: unlike `SIG_IGN` it is not passed on
/// to programs that are started later.
///
/// # Errors
/// `InvalidInput` for a number that is no signal or cannot be caught.
pub fn ignore(signal: i32) -> io::Result<()> {
    handle(signal, discard)
}

/// Gives a signal its default effect back.
///
/// # Errors
/// `InvalidInput` for a number that is no signal or cannot be caught.
pub fn restore_default(signal: i32) -> io::Result<()> {
    set_action(signal, libc::SIG_DFL)
}

pub(crate) fn handle(signal: i32, handler: extern "C" fn(i32)) -> io::Result<()> {
    set_action(signal, handler as libc::sighandler_t)
}

fn set_action(signal: i32, action: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sigaction` (no flags, no signals blocked).
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = action;
    // Restart: PHP's own blocking calls must not fail with EINTR. `epoll_wait` returns all the same.
    // No stop: a worker that was only paused or continued has not ended, so nobody need look.
    new.sa_flags = libc::SA_RESTART | libc::SA_NOCLDSTOP;
    // SAFETY: `new` is initialised, its mask is emptied by a valid call, and the handlers above
    // use only atomics, `getpid` and `write`, which are async-signal-safe.
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

/// The handler: async-signal-safe, and leaves `errno` as the interrupted code had it.
extern "C" fn forward(signal: i32) {
    // SAFETY: `__errno_location` returns the calling thread's own, always valid, `errno`.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: no arguments, no memory.
    let pid = unsafe { libc::getpid() };
    let write_end = WRITE_END.load(Ordering::SeqCst);
    if pid != OWNER.load(Ordering::SeqCst) {
        EARLY.fetch_or(bit(signal), Ordering::SeqCst);
    } else if write_end >= 0 {
        let number = signal as u8;
        // A full pipe (64 KiB of unread signals) loses nothing that is not told already.
        // SAFETY: one readable byte. The descriptor is our non-blocking pipe, or -1 if dropped.
        unsafe { libc::write(write_end, (&raw const number).cast(), 1) };
    }
    // SAFETY: as above.
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
