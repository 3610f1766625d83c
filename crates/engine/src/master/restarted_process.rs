//! State of a helper process, which the master starts next to the workers and restarts when it
//! exits.

use fermata_io::Deadline;
use fermata_io::process::Pid;

/// Minimum lifetime in milliseconds of a successfully started process. After it, the restart delay
/// is reset.
pub(super) const STABLE_MS: u64 = 1_000;

/// First restart delay in milliseconds; it doubles up to `restart_delay_ms_max`.
pub(super) const RESTART_DELAY_MS: u64 = 100;

/// A process that serves no requests.
#[derive(Clone, Copy)]
pub(super) enum Helper {
    /// Connects to the cluster log. Killed by the master.
    Bridge,
    /// Sends spans to their collector. The master kills it.
    Exporter,
    /// Runs jobs for the embedder. The embedder stops it.
    Companion,
}

pub(super) struct RestartedProcess {
    /// Process id; 0 = not running.
    pub pid: Pid,
    pub started_ms: u64,
    /// Time of the next start; never if the process runs or is not needed.
    pub due: Deadline,
    pub delay_ms: u64,
}

impl Helper {
    pub const ALL: [Helper; 3] = [Helper::Bridge, Helper::Exporter, Helper::Companion];

    /// Returns a short and a full name.
    pub fn titles(self) -> (&'static str, &'static str) {
        match self {
            Helper::Bridge => ("bridge", "the bridge to the log of the cluster"),
            Helper::Exporter => ("exporter of spans", "the exporter of spans"),
            Helper::Companion => ("companion", "the process that supervises jobs"),
        }
    }

    /// Returns the consequence of the helper's exit, for the log.
    pub fn loss(self) -> &'static str {
        match self {
            Helper::Bridge => "the next one continues at its position",
            Helper::Exporter => "its queued spans are lost",
            Helper::Companion => "the running jobs ended with it",
        }
    }
}

impl RestartedProcess {
    pub fn new(is_wanted: bool) -> RestartedProcess {
        RestartedProcess {
            pid: 0,
            started_ms: 0,
            due: if is_wanted {
                Deadline::NOW
            } else {
                Deadline::NEVER
            },
            delay_ms: 0,
        }
    }

    /// Notes that the process was started.
    pub fn begin(&mut self, pid: Pid, now_ms: u64) {
        self.pid = pid;
        self.started_ms = now_ms;
        self.due = Deadline::NEVER;
    }

    /// Notes that the process has exited, and schedules a restart: immediately, or after a growing
    /// delay if the process exits right after each start.
    pub fn end(&mut self, now_ms: u64, longest_ms: u64) {
        self.pid = 0;
        if now_ms.saturating_sub(self.started_ms) >= STABLE_MS {
            self.delay_ms = 0;
            self.due = Deadline::at(now_ms);
        } else {
            self.delay(now_ms, longest_ms);
        }
    }

    /// Schedules a retry after a failed start.
    pub fn delay(&mut self, now_ms: u64, longest_ms: u64) {
        self.delay_ms = (self.delay_ms * 2).clamp(RESTART_DELAY_MS.min(longest_ms), longest_ms);
        self.due = Deadline::after(now_ms, self.delay_ms);
    }
}
