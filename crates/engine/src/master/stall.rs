//! Workers that do not answer: the master asks each now and then, and replaces the one that stays silent.
//!
//! Whatever keeps a worker's loop from going round, a handler that never returns, a debugger, SIGSTOP, a
//! system call, its clients hang and its place in the ring stops publishers. From outside all of it looks
//! the same: woken, it does not beat. An idle worker costs one wake-up per `stall_timeout_ms / 4`.

/// The last beat that the master has seen of a worker.
pub(super) struct Heartbeat {
    /// Its count when it was last looked at.
    pub beats: u64,
    /// Since when the count may be the same.
    pub since_ms: u64,
}

impl Heartbeat {
    /// Of a worker that has just been forked.
    pub(super) fn new(now_ms: u64) -> Heartbeat {
        let (beats, since_ms) = (0, now_ms);
        Heartbeat { beats, since_ms }
    }
}

/// What a process that does not answer is doing, as far as the kernel tells.
pub(super) fn doing(pid: i32) -> &'static str {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it is in parentheses and may contain anything.
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
    fn what_a_process_does_is_read_from_the_kernel() {
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
