//! Signals, and checks for running processes.

use std::fs;

use rustix::process::{Pid, Signal as KernelSignal};

use crate::wait::wait_until;

/// Signals that tests send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: drain and exit.
    Terminate,
    /// SIGINT: drain and exit, as from a terminal.
    Interrupt,
    /// SIGHUP: reload certificates.
    HangUp,
    /// SIGUSR1: reopen log files.
    User1,
    /// SIGUSR2: start the lame-duck mode of NATS.
    User2,
    /// SIGKILL: exit immediately without cleanup.
    Kill,
    /// SIGABRT: simulate a crash.
    Abort,
    /// SIGSTOP: stop until [`Signal::Continue`].
    Stop,
    /// SIGCONT: resume.
    Continue,
}

impl Signal {
    fn kernel(self) -> KernelSignal {
        match self {
            Signal::Terminate => KernelSignal::TERM,
            Signal::Interrupt => KernelSignal::INT,
            Signal::HangUp => KernelSignal::HUP,
            Signal::User1 => KernelSignal::USR1,
            Signal::User2 => KernelSignal::USR2,
            Signal::Kill => KernelSignal::KILL,
            Signal::Abort => KernelSignal::ABORT,
            Signal::Stop => KernelSignal::STOP,
            Signal::Continue => KernelSignal::CONT,
        }
    }
}

/// Sends `signal` to one process. Returns false if the process does not exist.
///
/// After [`Signal::Stop`] it waits until the process is stopped: on a busy machine the process may keep running for a
/// while and accept the next connection.
pub fn send_signal(pid: u32, signal: Signal) -> bool {
    let is_sent = process_id(pid)
        .is_some_and(|pid| rustix::process::kill_process(pid, signal.kernel()).is_ok());
    if is_sent && matches!(signal, Signal::Stop) {
        wait_until("the process stands still", || is_stopped(pid).then_some(()));
    }
    is_sent
}

/// Kills all processes of the group that `leader` leads. Ignores errors, because it is used for cleanup.
pub(crate) fn kill_group(leader: u32) {
    if let Some(pid) = process_id(leader) {
        let _ = rustix::process::kill_process_group(pid, KernelSignal::KILL);
    }
}

/// Index of `num_threads` among the fields of `/proc/PID/stat` after the command name, see proc_pid_stat(5).
const NUM_THREADS: usize = 17;

/// Returns true if the process exists and is not a zombie. In a container whose init process does not reap, an exited
/// orphan stays a zombie.
pub fn is_running(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The command name in parentheses may itself contain parentheses. The state follows the last parenthesis.
    let Some(rest) = stat.rsplit(')').next() else {
        return false;
    };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    match fields.first() {
        // A zombie main thread may have other threads that still hold files and locks.
        Some(&("Z" | "X")) => fields
            .get(NUM_THREADS)
            .is_some_and(|&it| it != "0" && it != "1"),
        Some(_) => true,
        None => false,
    }
}

/// Returns true if all threads of a process are stopped, or if it has exited. Each thread stops when it is next
/// scheduled.
fn is_stopped(pid: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    tasks.flatten().all(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
        state.is_none_or(|state| state == b'T')
    })
}

fn process_id(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_killed_child_is_not_running_even_before_it_is_reaped() {
        assert!(is_running(std::process::id()));
        let mut child = Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep exists");
        assert!(is_running(child.id()));
        assert!(send_signal(child.id(), Signal::Kill));
        crate::wait_until("the child ends", || (!is_running(child.id())).then_some(()));
        child.wait().expect("our own child can be reaped");
        assert!(!send_signal(child.id(), Signal::Kill));
    }
}
