//! Workers that do not answer: the master asks each now and then, and replaces the one that stays silent.
//!
//! Whatever keeps a worker's loop from going round, a handler that never returns, a debugger, SIGSTOP, a
//! system call, its clients hang and its place in the ring stops publishers. From outside all of it looks
//! the same: woken, it does not beat. An idle worker costs one wake-up per `stall_timeout_ms / 4`.

use fermata_config::LogLevel;
use fermata_io::process;
use fermata_io::signal::SIGKILL;

use super::Master;

/// Checks per `stall_timeout_ms`: a stall is noticed at most a quarter later than that.
const CHECKS: u64 = 4;

/// Least time between two checks.
const CHECK_MS_MIN: u64 = 10;

/// What the master has heard of a worker.
pub(super) struct Pulse {
    /// Its count when it was last looked at.
    beats: u64,
    /// Since when the count may be the same.
    since_ms: u64,
}

impl Pulse {
    /// Of a worker that has just been forked.
    pub(super) fn new(now_ms: u64) -> Pulse {
        let (beats, since_ms) = (0, now_ms);
        Pulse { beats, since_ms }
    }
}

impl Master {
    /// Kills workers that have not answered for `stall_timeout_ms` and asks all others.
    pub(super) fn check_workers(&mut self, now_ms: u64) {
        if now_ms < self.check_due_ms {
            return;
        }
        let timeout_ms = self.settings.stall_timeout_ms;
        let interval_ms = (timeout_ms / CHECKS).max(CHECK_MS_MIN);
        // When we ourselves were stopped or got no time, so perhaps did they: begin anew.
        let was_absent = now_ms > self.check_due_ms.saturating_add(interval_ms);
        self.check_due_ms = now_ms + interval_ms;
        let mut stalled = Vec::new();
        for child in &mut self.children {
            let pid = child.pid as u32;
            let is_started = self
                .stats
                .worker(u32::from(child.slot))
                .is_some_and(|it| it.1 == pid);
            let beats = if is_started {
                self.stats.beats(child.slot)
            } else {
                0
            };
            if beats != child.pulse.beats || was_absent {
                child.pulse = Pulse {
                    beats,
                    since_ms: now_ms,
                };
            } else if now_ms - child.pulse.since_ms >= timeout_ms {
                stalled.push((
                    child.pid,
                    child.index,
                    child.slot,
                    now_ms - child.pulse.since_ms,
                ));
                // It is dead soon; if not, the next one comes as late as this one.
                child.pulse.since_ms = now_ms;
            }
            if let Some(waker) = self.wakers.get(usize::from(child.slot)) {
                waker.wake();
            }
        }
        for (pid, index, slot, silent_ms) in stalled {
            let place = self.stats.handler(slot).map_or_else(
                || "outside of handlers".to_owned(),
                |handler| format!("in {}", self.router.what_runs(handler)),
            );
            let frames = self.looker.frames.as_ref();
            let line = frames.and_then(|frames| frames.place(pid).ok());
            let line = line.map_or_else(String::new, |line| format!(", in {line}"));
            let message = format!(
                "worker {index} (pid {pid}) has not answered for {silent_ms} ms \
                 (stall_timeout_ms {timeout_ms}), {place}{line}, {}; it is killed and replaced. Long work \
                 belongs into another process; if the handler may take that long, raise stall_timeout_ms",
                doing(pid),
            );
            self.log(LogLevel::Error, &message);
            self.stats.worker_stalled();
            let _ = process::kill(pid, SIGKILL);
        }
    }
}

/// What a process that does not answer is doing, as far as the kernel tells.
fn doing(pid: i32) -> &'static str {
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
