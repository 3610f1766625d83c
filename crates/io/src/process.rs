//! Processes: fork, watch, end, and what the machine grants them.

use std::io;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

pub use crate::orphan::{end_with_parent, ends_by_itself};

/// A process id.
pub type Pid = i32;

/// Which side of a fork we are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// We are the parent; the child has this id.
    Parent(Pid),
    /// We are the child.
    Child,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It ended by itself with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(out, "exit code {code}"),
            Exit::Signal(signal) => write!(out, "signal {signal}"),
        }
    }
}

/// Splits this process in two. Only the calling thread lives on in the child, so call it before
/// any thread is started. In the child, install the signal pipe and open a driver anew.
///
/// # Errors
/// `WouldBlock` at the process limit, `OutOfMemory`.
pub fn fork() -> io::Result<Fork> {
    // SAFETY: Fermata forks before it starts a thread, so no lock can be held by a thread that is
    // missing in the child. `fork` itself touches no memory of ours.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Collects one child that has ended, without waiting. `None`: none has.
///
/// It takes any child, also one that the PHP script has started and, in the first process of a container, one that
/// somebody else has left behind; ignore ids you do not know.
#[must_use]
pub fn reap() -> Option<(Pid, Exit)> {
    wait(-1)
}

/// As [`reap`], for one child only. `None` also when it is not our child (any more).
#[must_use]
pub fn reap_pid(pid: Pid) -> Option<Exit> {
    if pid <= 0 {
        None
    } else {
        wait(pid).map(|(_, exit)| exit)
    }
}

/// Sends a signal to one process.
///
/// # Errors
/// `NotFound` when there is no such process, `PermissionDenied`, `InvalidInput` for an id that
/// would address a group.
pub fn kill(pid: Pid, signal: i32) -> io::Result<()> {
    if pid <= 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the call takes two numbers and touches no memory.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ESRCH) => io::ErrorKind::NotFound.into(),
            error => error,
        }),
    }
}

/// Whether a process with this id exists (it may be a zombie, or another user's).
#[must_use]
pub fn is_alive(pid: Pid) -> bool {
    match kill(pid, 0) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// A word that names this process and no other one, also when all processes of today have ended: its id, and when it began. An
/// id alone comes back.
#[must_use]
pub fn identity() -> u64 {
    let pid = pid();
    let began = stat_of(pid).map_or(0, |stat| stat.began);
    u64::from(began) << 32 | u64::from(pid.unsigned_abs())
}

/// Whether the process that [`identity`] has named can still run. Never false of one that can.
#[must_use]
pub fn is_running(identity: u64) -> bool {
    let (pid, began) = (identity as u32 as Pid, (identity >> 32) as u32);
    match stat_of(pid) {
        // Without /proc it has no beginning, and another process may be taken for it.
        Some(stat) => !stat.is_zombie && (stat.began == began || began == 0),
        None => is_alive(pid),
    }
}

/// What /proc tells of a process.
struct Stat {
    /// It has ended, and its parent has not asked how.
    is_zombie: bool,
    /// Ticks after the machine's start, modulo 2^32.
    began: u32,
}

fn stat_of(pid: Pid) -> Option<Stat> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in brackets, and may have any bytes in it.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X" | "x");
    // proc(5): the state is field 3, the start field 22.
    let began: u64 = fields.nth(18)?.parse().ok()?;
    Some(Stat {
        is_zombie,
        began: began as u32,
    })
}

/// This process's id.
#[must_use]
pub fn pid() -> Pid {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The parent's id, which changes when the parent dies.
#[must_use]
pub fn parent_pid() -> Pid {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get())
}

/// Has the kernel send us `signal` when our parent dies, so that a killed master leaves no workers.
///
/// The parent may have died before the call: compare [`parent_pid`] afterwards.
///
/// # Errors
/// An unknown signal number.
pub fn signal_when_parent_dies(signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    Ok(())
}

/// How many workers make sense: the cores we may run on, cut by the control group's CPU quota
/// (versions 1 and 2, rounded down). At least one.
#[must_use]
pub fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// How many descriptors this process may have open (the soft limit).
#[must_use]
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Whether something was not opened because this process, or the machine, has no descriptor left.
#[must_use]
pub fn is_short_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Raises the soft limit of descriptors to the hard one and tells the limit that now holds.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // A refusal leaves the old limit, which is what we then report.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    descriptor_limit()
}

/// Has the scheduler treat this process as one that works through batches (`SCHED_BATCH`): when it wakes up, it does not
/// interrupt who runs. Its share of the processor stays the same.
pub fn give_way() {
    // SAFETY: all fields are integers, for which zero is a value; the policy's only valid priority is zero.
    let parameters = unsafe { std::mem::zeroed::<libc::sched_param>() };
    // SAFETY: the call reads the structure given, which outlives it. A refusal changes nothing, and nothing depends on it.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
}

/// The number of the user who may do everything.
pub const ROOT: u32 = 0;

/// The user whose rights this process has.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Gives up the rights of root for those of another user and its groups, for good. Only for a process with one thread.
///
/// # Errors
/// This process is not root's, or may not change (a container without the capabilities). It then has to end: some of
/// its rights may be gone.
pub fn become_user(user: u32, group: u32, further: &[u32]) -> io::Result<()> {
    let check = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // Groups before the user, who may not change them.
    // SAFETY: the pointer and the length are those of a slice of numbers, which the call only reads.
    check(unsafe { libc::setgroups(further.len(), further.as_ptr()) })?;
    // SAFETY: the calls take numbers and touch no memory.
    check(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: as above.
    check(unsafe { libc::setresuid(user, user, user) })?;
    // The kernel takes a process that has changed for one with secrets of its old user, and hides its own /proc/self
    // from it. Everything it has is the new user's to see.
    // SAFETY: as above.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) })
}

/// Ends the process at once: no destructors, no exit handlers, no flushing of inherited buffers.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process; nothing can observe what it skips.
    unsafe { libc::_exit(code) }
}

fn wait(pid: Pid) -> Option<(Pid, Exit)> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place for the one integer that the call writes.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
        match ended {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 | 0 => return None,
            _ if libc::WIFEXITED(status) => {
                return Some((ended, Exit::Code(libc::WEXITSTATUS(status))));
            }
            _ if libc::WIFSIGNALED(status) => {
                return Some((ended, Exit::Signal(libc::WTERMSIG(status))));
            }
            // Stopped or continued under a debugger: it has not ended.
            _ => {}
        }
    }
}

/// Copies what another process has at `address`, whole or not at all. The process goes on meanwhile, so
/// the bytes may be of different moments.
///
/// # Errors
/// Nothing is mapped there, the process is gone, or the kernel does not let us look (a container
/// without the call, another user's process, Yama's `ptrace_scope` over 1).
pub fn read_memory(pid: Pid, address: usize, out: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec {
        iov_base: out.as_mut_ptr().cast(),
        iov_len: out.len(),
    };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address),
        iov_len: out.len(),
    };
    // SAFETY: `local` describes `out`, which is borrowed for writing. The address in `remote` belongs to
    // the other process and is checked by the kernel.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    match usize::try_from(read) {
        Ok(read) if read == out.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_where_some_is_mapped() {
        let there = *b"what is there";
        let mut read = [0; 13];
        read_memory(pid(), there.as_ptr().addr(), &mut read).expect("our own memory");
        assert_eq!(read, there);
        assert!(read_memory(pid(), 8, &mut read).is_err());
    }
}
