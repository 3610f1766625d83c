//! Unresponsive workers: the master checks each periodically, and replaces those without a
//! heartbeat.
//!
//! A worker's loop may be blocked by a handler that never returns, a debugger, SIGSTOP or a system
//! call. Then its clients hang, and its position in the ring blocks publishers. From outside, all
//! causes look alike: the worker is woken but sends no heartbeat. An idle worker costs one wake-up
//! per `stall_timeout_ms / 4`.

/// The last heartbeat of a worker that the master has read.
pub(super) struct Heartbeat {
    /// Value of the worker's heartbeat counter at the last check.
    pub beats: u64,
    /// Time since which the counter is unchanged.
    pub since_ms: u64,
}

impl Heartbeat {
    /// Creates the state of a newly forked worker.
    pub(super) fn new(now_ms: u64) -> Heartbeat {
        let (beats, since_ms) = (0, now_ms);
        Heartbeat { beats, since_ms }
    }
}

/// Describes an unresponsive process by its state in /proc/PID/stat.
pub(super) fn doing(pid: i32) -> &'static str {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The process name before the state is in parentheses and may contain any text.
    let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    match state.as_bytes().first() {
        Some(b'T' | b't') => "stopped by a signal or a debugger",
        Some(b'R') => "computing",
        Some(b'D') => "waiting for a disk or a network file system",
        Some(b'S') => "waiting inside a system call (sleep, a query, a request to elsewhere)",
        _ => "in an unknown state",
    }
}

#[cfg(test)]
mod tests {
    use super::doing;

    #[test]
    fn reads_a_process_state_from_proc() {
        let pid = fermata_io::process::pid();
        assert!(
            [
                "computing",
                "waiting inside a system call (sleep, a query, a request to elsewhere)"
            ]
            .contains(&doing(pid))
        );
        assert_eq!(doing(0), "in an unknown state");
    }
}
