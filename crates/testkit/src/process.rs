//! Signals, and whether a process still runs.

use std::fs;

use rustix::process::{Pid, Signal as KernelSignal};

use crate::wait::wait_until;

/// The signals tests send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: drain and end.
    Terminate,
    /// SIGINT: the same, from a terminal.
    Interrupt,
    /// SIGHUP: read certificates again.
    HangUp,
    /// SIGUSR1: open log files anew.
    User1,
    /// SIGKILL: gone at once, nothing can be tidied.
    Kill,
    /// SIGABRT: what a crash looks like.
    Abort,
    /// SIGSTOP: frozen until [`Signal::Continue`].
    Stop,
    /// SIGCONT.
    Continue,
}

impl Signal {
    fn kernel(self) -> KernelSignal {
        match self {
            Signal::Terminate => KernelSignal::TERM,
            Signal::Interrupt => KernelSignal::INT,
            Signal::HangUp => KernelSignal::HUP,
            Signal::User1 => KernelSignal::USR1,
            Signal::Kill => KernelSignal::KILL,
            Signal::Abort => KernelSignal::ABORT,
            Signal::Stop => KernelSignal::STOP,
            Signal::Continue => KernelSignal::CONT,
        }
    }
}

/// Sends `signal` to one process. Returns false when there is no such process any more.
///
/// After [`Signal::Stop`] it stands still: a busy machine lets it run on for a while after the call, in which it may accept
/// the next connection.
pub fn send_signal(pid: u32, signal: Signal) -> bool {
    let is_sent = process_id(pid)
        .is_some_and(|pid| rustix::process::kill_process(pid, signal.kernel()).is_ok());
    if is_sent && matches!(signal, Signal::Stop) {
        wait_until("the process stands still", || is_stopped(pid).then_some(()));
    }
    is_sent
}

/// Kills every process of the group that `leader` leads. For cleaning up, so failures are ignored.
pub(crate) fn kill_group(leader: u32) {
    if let Some(pid) = process_id(leader) {
        let _ = rustix::process::kill_process_group(pid, KernelSignal::KILL);
    }
}

/// Where `num_threads` is in the fields of `/proc/PID/stat` that follow the command's name, proc_pid_stat(5).
const NUM_THREADS: usize = 17;

/// Whether the process exists and is not a zombie. An orphan may stay a zombie for ever inside a
/// container whose first process does not reap, and has ended all the same.
pub fn is_running(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The command name is in parentheses and may itself contain some; the state follows the last one.
    let Some(rest) = stat.rsplit(')').next() else {
        return false;
    };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    match fields.first() {
        // A main thread that has ended is a zombie while other threads of its process still hold files and locks.
        Some(&("Z" | "X")) => fields
            .get(NUM_THREADS)
            .is_some_and(|&it| it != "0" && it != "1"),
        Some(_) => true,
        None => false,
    }
}

/// Whether all threads of a process are stopped, or it is gone. They stop one after the other, each when it runs the next time.
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
