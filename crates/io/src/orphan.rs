//! Ends a process soon after its parent.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::process::{Pid, parent_pid};
use crate::signal;

/// Timer that kills this process after its parent exited. Null if none was created.
static ORPHAN_TIMER: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// True if the process has detected that its parent exited, and will exit by itself.
static ENDS_BY_ITSELF: AtomicBool = AtomicBool::new(false);

/// Time in nanoseconds that a process may run without its parent; below one second.
const ORPHAN_NS: libc::c_long = 999_000_000;

/// Returns the signal that reports the parent's exit. It is a signal that applications rarely use.
fn orphan_signal() -> i32 {
    libc::SIGRTMAX() - 3
}

/// Makes the kernel kill this process one second after its parent process `parent` has exited. Without this, a process whose
/// handler blocks would not notice the exit, and would keep its ports in use.
///
/// A process that notices the exit calls [`ends_by_itself`], and then has unlimited time. Forked and executed processes inherit
/// neither the timer nor the signal. A change of user cancels the signal, so call this function after such a change.
///
/// # Errors
/// There is no memory for a timer.
pub fn end_with_parent(parent: Pid) -> io::Result<()> {
    ENDS_BY_ITSELF.store(false, Ordering::SeqCst);
    // SAFETY: all-zero is a valid `sigevent`; the relevant fields are set below.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = libc::SIGKILL;
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: both structures are valid and outlive the call, which does not store their addresses.
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
    // The parent may have exited before `prctl`.
    if parent_pid() != parent {
        on_orphaned(0);
    }
    Ok(())
}

/// Cancels the kill: the process has detected its parent's exit, and exits by itself.
pub fn ends_by_itself() {
    ENDS_BY_ITSELF.store(true, Ordering::SeqCst);
    set_orphan_timer(0);
}

/// Signal handler.
extern "C" fn on_orphaned(_signal: i32) {
    if !ENDS_BY_ITSELF.load(Ordering::SeqCst) {
        set_orphan_timer(ORPHAN_NS);
    }
}

/// Starts the timer, or stops it if `ns` is 0. Async-signal-safe.
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
    // SAFETY: `timer_settime` is async-signal-safe, reads the structure given, and only uses timers of this process. The timer id
    // comes from `end_with_parent` of this process or its parent, or is null, which may be the id of this process's first timer.
    unsafe { libc::timer_settime(timer, 0, &raw const due, ptr::null_mut()) };
}
