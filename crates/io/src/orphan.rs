//! A process that ends soon after its parent.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::process::{Pid, parent_pid};
use crate::signal;

/// The timer that ends this process after its parent; null while there is none.
static ORPHAN_TIMER: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// The process has seen that its parent is gone and ends by itself.
static ENDS_BY_ITSELF: AtomicBool = AtomicBool::new(false);

/// How long a process may live on without its parent, in nanoseconds; below one second.
const ORPHAN_NS: libc::c_long = 999_000_000;

/// The signal that tells of the parent's death: one that programs hardly use.
fn orphan_signal() -> i32 {
    libc::SIGRTMAX() - 3
}

/// Has the kernel kill this process a second after its parent, `parent`, has died, whatever it is in the middle of:
/// a handler that blocks does not see that nobody supervises it, and keeps ports in use. One that does see it says so
/// by [`ends_by_itself`] and has all the time it wants.
///
/// Neither is passed on to a forked or executed process. A change of user undoes the call: make it afterwards.
///
/// # Errors
/// No memory for a timer.
pub fn end_with_parent(parent: Pid) -> io::Result<()> {
    ENDS_BY_ITSELF.store(false, Ordering::SeqCst);
    // SAFETY: all-zero is a valid `sigevent`; the fields that count are set below.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = libc::SIGKILL;
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: both structures are valid and outlive the call, which stores nothing of them.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    ORPHAN_TIMER.store(timer, Ordering::SeqCst);
    signal::handle(orphan_signal(), on_orphaned)?;
    let signal = orphan_signal() as libc::c_ulong;
    // SAFETY: the call takes numbers and touches no memory.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // It may have died before the kernel knew that we ask.
    if parent_pid() != parent {
        on_orphaned(0);
    }
    Ok(())
}

/// The parent's death is known and this process ends in its own time.
pub fn ends_by_itself() {
    ENDS_BY_ITSELF.store(true, Ordering::SeqCst);
    set_orphan_timer(0);
}

/// A signal handler.
extern "C" fn on_orphaned(_signal: i32) {
    if !ENDS_BY_ITSELF.load(Ordering::SeqCst) {
        set_orphan_timer(ORPHAN_NS);
    }
}

/// Sets the timer, or stops it when `ns` is 0. Safe in a signal handler.
fn set_orphan_timer(ns: libc::c_long) {
    let timer = ORPHAN_TIMER.load(Ordering::SeqCst);
    let none = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let due = libc::itimerspec {
        it_interval: none,
        it_value: libc::timespec {
            tv_sec: 0,
            tv_nsec: ns,
        },
    };
    // SAFETY: `timer_settime` is async-signal-safe, reads the structure given and knows the timers of this process: a number
    // of another one, or null, which may be the first of this one, is stored nowhere but in `end_with_parent`.
    unsafe { libc::timer_settime(timer, 0, &raw const due, ptr::null_mut()) };
}
