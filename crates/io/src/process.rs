//! Processes: fork, wait, signals, users and limits.

use std::io;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

pub use crate::orphan::{end_with_parent, ends_by_itself};

/// Process ID.
pub type Pid = i32;

/// Side of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// The parent, with the child's process ID.
    Parent(Pid),
    /// The child.
    Child,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The process exited with this code.
    Code(i32),
    /// This signal killed the process.
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

/// Forks this process. Only the calling thread exists in the child, so fork before threads are started. The child must install a
/// signal pipe and open a driver.
///
/// # Errors
/// `WouldBlock` at the limit of processes, `OutOfMemory`.
pub fn fork() -> io::Result<Fork> {
    // SAFETY: Fermata forks before it starts a thread, so no lock can be held by a thread that is missing in the child.
    // `fork` itself touches no memory of this process.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Reaps one child that has exited, without waiting. Returns `None` if no child has.
///
/// Reaps any child, including children that the PHP script started, and in the first process of a container, adopted orphans. The
/// caller ignores unknown process IDs.
#[must_use]
pub fn reap() -> Option<(Pid, Exit)> {
    wait(-1)
}

/// Reaps only the child `pid`; see [`reap`]. Also returns `None` if `pid` is not a child of this process.
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
/// `NotFound` if there is no such process, `PermissionDenied`, `InvalidInput` for a number that would address a process group.
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

/// Returns true if a process with this ID exists, including zombies and processes of other users.
#[must_use]
pub fn is_alive(pid: Pid) -> bool {
    match kill(pid, 0) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// Returns a number that identifies this process uniquely, also among later processes: its ID and start time. IDs alone
/// are reused.
#[must_use]
pub fn identity() -> u64 {
    let pid = pid();
    let began = stat_of(pid).map_or(0, |stat| stat.began);
    u64::from(began) << 32 | u64::from(pid.unsigned_abs())
}

/// Returns true if the process with this [`identity`] may be running. Never false for a running process.
#[must_use]
pub fn is_running(identity: u64) -> bool {
    let (pid, began) = (identity as u32 as Pid, (identity >> 32) as u32);
    match stat_of(pid) {
        // Without /proc the start time is 0, and any process with the same ID matches.
        Some(stat) => !stat.is_zombie && (stat.began == began || began == 0),
        None => is_alive(pid),
    }
}

/// Fields of /proc/PID/stat.
struct Stat {
    /// True if the process exited and was not reaped.
    is_zombie: bool,
    /// Start time in ticks since boot, modulo 2^32.
    began: u32,
}

fn stat_of(pid: Pid) -> Option<Stat> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name of the executable is in parentheses and may contain any bytes.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X" | "x");
    // proc(5): field 3 is the state, field 22 the start time.
    let began: u64 = fields.nth(18)?.parse().ok()?;
    Some(Stat {
        is_zombie,
        began: began as u32,
    })
}

/// Returns the ID of this process.
#[must_use]
pub fn pid() -> Pid {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Returns the ID of the parent, which changes when the parent exits.
#[must_use]
pub fn parent_pid() -> Pid {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get())
}

/// Makes the kernel send `signal` to this process when its parent exits, so that a killed master leaves no workers.
///
/// The parent may have exited before the call: compare [`parent_pid`] afterwards.
///
/// # Errors
/// The signal number is unknown.
pub fn signal_when_parent_dies(signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    Ok(())
}

/// Returns the useful number of workers: the cores of this process, limited by the CPU quota of its control group
/// (versions 1 and 2, rounded down). At least 1.
#[must_use]
pub fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the maximum number of open descriptors of this process (the soft limit).
#[must_use]
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns true if the error means that this process or the machine has no free descriptor.
#[must_use]
pub fn is_short_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Raises the soft limit of descriptors to the hard limit and returns the resulting soft limit.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the old limit stays, and is returned.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    descriptor_limit()
}

/// Selects the scheduling policy `SCHED_BATCH`: when this process wakes up, it does not preempt the running process. Its share of
/// CPU time stays the same.
pub fn give_way() {
    // SAFETY: all fields are integers, for which zero is valid; zero is also the policy's only valid priority.
    let parameters = unsafe { std::mem::zeroed::<libc::sched_param>() };
    // SAFETY: the call reads the structure, which outlives it. The result may be ignored: the policy is an optimization.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
}

/// User ID of root.
pub const ROOT: u32 = 0;

/// Returns the effective user ID of this process.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Permanently drops root privileges in favour of another user and its groups. The process must have only one thread.
///
/// # Errors
/// This process does not run as root, or lacks the capabilities (in a container). The process must then exit, because some
/// privileges may already be dropped.
pub fn become_user(user: u32, group: u32, further: &[u32]) -> io::Result<()> {
    let check = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // Set the groups first, because the new user lacks permission to change them. SAFETY: pointer and length describe a slice of
    // numbers, which the call only reads.
    check(unsafe { libc::setgroups(further.len(), further.as_ptr()) })?;
    // SAFETY: the calls take numbers and touch no memory.
    check(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: the call takes numbers and touches no memory.
    check(unsafe { libc::setresuid(user, user, user) })?;
    // After a change of user the kernel hides /proc/self, because memory may contain secrets of the old user. Here the new user may
    // read all of this memory. SAFETY: the call takes numbers and touches no memory.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) })
}

/// Sets the name of the calling process in `ps -e` and `top`, at most 15 bytes. The arguments in `ps -f` stay.
pub fn set_title(title: &str) {
    let mut name = [0u8; 16];
    let len = title.len().min(name.len() - 1);
    name[..len].copy_from_slice(&title.as_bytes()[..len]);
    // SAFETY: the call reads up to the zero that ends the array, and accepts any name.
    let _ = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

/// Exits immediately: no destructors, no exit handlers, no flushing of inherited buffers.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: the call does not return, so no code can observe the skipped clean-up.
    unsafe { libc::_exit(code) }
}

fn wait(pid: Pid) -> Option<(Pid, Exit)> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid memory for the one integer that the call writes.
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
            // Stopped or continued by a debugger: the process has not exited.
            _ => {}
        }
    }
}

/// Copies memory of another process at `address` completely, or fails. The process keeps running, so the bytes may be
/// from different moments.
///
/// # Errors
/// The address is not mapped, the process does not exist, or the kernel forbids the access (a container without the
/// call, another user's process, Yama's `ptrace_scope` over 1).
pub fn read_memory(pid: Pid, address: usize, out: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec {
        iov_base: out.as_mut_ptr().cast(),
        iov_len: out.len(),
    };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address),
        iov_len: out.len(),
    };
    // SAFETY: `local` describes `out`, which is mutably borrowed. The address in `remote` belongs to the other process,
    // and the kernel checks it.
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
